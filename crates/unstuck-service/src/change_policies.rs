//! What changes policies, and what they have scheduled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_api::PoliciesPaused;
use unstuck_core::event::Actor;
use unstuck_core::policy::{PolicyAudit, PolicyAuditKind, PolicyDraft};
use unstuck_engine::document::policies_paused;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;

use crate::request::{PolicyOperation, PolicyRequest};
use crate::service::{ServiceError, to_json};

/// What came of an order about policies.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChangesView {
    pub changes: Vec<PolicyChangeView>,
    /// The names of those that were so already.
    pub unchanged: Vec<String>,
    /// What was changed can never match, because an earlier one takes whatever it would.
    pub shadowed: Vec<ShadowedView>,
    /// Policies that were to take the place of others, and are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_replaced: Vec<NotReplaced>,
    /// What is wrong with what was to be loaded: then nothing was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedDraft>,
}

/// A policy that was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChangeView {
    pub policy: String,
    pub id: String,
    pub what: String,
    /// As it is now; none where it is gone.
    pub version: Option<u32>,
}

/// A policy that was to take the place of another, and is new.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReplaced {
    pub policy: String,
    /// The id that was given, and that no policy had.
    pub id: Option<String>,
}

/// The policies of these drafts that were added although they were to replace others.
fn not_replaced(drafts: &[PolicyDraft], changes: &[PolicyAudit]) -> Vec<NotReplaced> {
    let added = changes.iter().filter(|change| change.what == PolicyAuditKind::Added);
    let told = added.map(|change| {
        let draft = drafts.iter().find(|draft| draft.name.as_ref() == Some(&change.name));
        let id = draft.and_then(|draft| draft.id.as_ref()).map(ToString::to_string);
        NotReplaced { policy: change.name.to_string(), id }
    });
    told.collect()
}

/// A policy that can never match.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowedView {
    pub policy: String,
    pub by: String,
}

/// What is wrong with one of the policies that were to be loaded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedDraft {
    /// Its place among them, from 0.
    pub place: usize,
    pub field: String,
    pub message: String,
    pub hint: String,
}

/// What came of applying policies to what is in error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedView {
    /// Steps that a policy will resume now, or at another time than before.
    pub moved: u64,
    /// Steps that no policy takes any more.
    pub unscheduled: u64,
    pub unchanged: u64,
    /// Steps that a policy which was named would take if another did not come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outranked: Vec<PassedView>,
    /// Steps that a policy which was named would take if it were not used up on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<PassedView>,
    /// Steps that a policy which was named would take if it were enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<PassedView>,
    /// Why nothing resumes automatically, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
}

/// Steps that a policy is about and does not take.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedView {
    pub policy: String,
    /// The policy that comes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub steps: u64,
}

/// Applies policies to what is in error.
fn apply(
    handle: &Handle,
    only: Option<Vec<Arc<str>>>,
    rate: u32,
    by: &Actor,
) -> Result<String, ServiceError> {
    let applied = handle.apply(only, rate, by)?;
    let outranked = applied.outranked.iter().map(|((policy, by), steps)| PassedView {
        policy: policy.to_string(),
        by: Some(by.to_string()),
        steps: *steps,
    });
    let passed = |(policy, steps): (&Arc<str>, &u64)| PassedView {
        policy: policy.to_string(),
        by: None,
        steps: *steps,
    };
    to_json(&AppliedView {
        moved: applied.moved,
        unscheduled: applied.unscheduled,
        unchanged: applied.unchanged,
        outranked: outranked.collect(),
        exhausted: applied.exhausted.iter().map(passed).collect(),
        disabled: applied.disabled.iter().map(passed).collect(),
        policies_paused: handle.policies()?.switch().paused().map(policies_paused),
    })
}

/// What came of pausing or unpausing automatic resumes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchView {
    /// Whether it had been so before.
    pub already: bool,
    /// As it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// As it was before an unpause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<PoliciesPaused>,
    /// How many steps are due at an unpause.
    #[serde(default)]
    pub due: u64,
}

/// Pauses or unpauses automatic resumes.
fn switch(handle: &Handle, order: PolicyCommand) -> Result<String, ServiceError> {
    let paused = |handle: &Handle| -> Result<Option<PoliciesPaused>, ServiceError> {
        Ok(handle.policies()?.switch().paused().map(policies_paused))
    };
    let was = paused(handle)?;
    let is_unpause = matches!(order, PolicyCommand::Unpause { .. });
    let already = handle.change_policies(order)?.changes.is_empty();
    let due = if is_unpause && !already { handle.due_resumes()? } else { 0 };
    let was = was.filter(|_| is_unpause && !already);
    to_json(&SwitchView { already, policies_paused: paused(handle)?, was, due })
}

/// Carries out what is wished, and tells what came of it as JSON.
pub(crate) fn change_policies(handle: &Handle, wish: PolicyRequest) -> Result<String, ServiceError> {
    let PolicyRequest { by, what } = wish;
    let by = Actor::User(by.into());
    let names = |names: Vec<String>| names.into_iter().map(Arc::<str>::from).collect::<Vec<_>>();
    let is_load = matches!(what, PolicyOperation::Load { .. });
    let replacing = match &what {
        PolicyOperation::Load { drafts, replace: true } => drafts.clone(),
        _ => Vec::new(),
    };
    let is_replacing = !replacing.is_empty();
    let order = match what {
        PolicyOperation::Load { drafts, replace } => PolicyCommand::Load { drafts, replace, by },
        PolicyOperation::Enable { names: given } => PolicyCommand::Enable { names: names(given), by },
        PolicyOperation::Disable { names: given } => PolicyCommand::Disable { names: names(given), by },
        PolicyOperation::Delete { names: given } => PolicyCommand::Delete { names: names(given), by },
        PolicyOperation::Pause { reason } => {
            return switch(handle, PolicyCommand::Pause { reason: reason.into(), by });
        }
        PolicyOperation::Unpause { rate } => return switch(handle, PolicyCommand::Unpause { rate, by }),
        PolicyOperation::Apply { names: given, rate } => {
            let only = (!given.is_empty()).then(|| names(given));
            return apply(handle, only, rate, &by);
        }
    };
    let outcome = match handle.change_policies(order) {
        Err(EngineError::BadPolicies(problems)) if is_load => {
            let refused = problems.into_iter().map(|bad| RefusedDraft {
                place: bad.place,
                field: bad.problem.field.to_owned(),
                message: bad.problem.message,
                hint: bad.problem.hint.to_owned(),
            });
            return to_json(&PolicyChangesView {
                refused: refused.collect(),
                ..PolicyChangesView::default()
            });
        }
        outcome => outcome?,
    };
    let changes: Vec<PolicyChangeView> = outcome
        .changes
        .iter()
        .map(|audit| PolicyChangeView {
            policy: audit.name.to_string(),
            id: audit.policy.to_string(),
            what: audit.what.word().to_owned(),
            version: audit.after.as_ref().map(|policy| policy.version),
        })
        .collect();
    let all = handle.policies()?.shadows();
    let shadowed = all
        .iter()
        .filter(|shadow| changes.iter().any(|change| *change.policy == *shadow.policy))
        .map(|shadow| ShadowedView { policy: shadow.policy.to_string(), by: shadow.by.to_string() });
    let unchanged = outcome.unchanged.iter().map(ToString::to_string).collect();
    let not_replaced = if is_replacing { not_replaced(&replacing, &outcome.changes) } else { Vec::new() };
    to_json(&PolicyChangesView {
        shadowed: shadowed.collect(),
        changes,
        unchanged,
        not_replaced,
        refused: Vec::new(),
    })
}
