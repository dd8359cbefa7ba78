//! Requests that change policies or what they have scheduled.

use std::sync::Arc;

use unstuck_api::PoliciesPaused;
use unstuck_api::policies::{
    AppliedView, NotReplaced, PassedView, PolicyChangeView, PolicyChangesView, PolicyDocument, RefusedDraft,
    ShadowedView, SwitchView,
};
use unstuck_api::request::{PolicyOperation, PolicyRequest};
use unstuck_core::event::Actor;
use unstuck_core::policy::{PolicyAudit, PolicyAuditKind, PolicyDraft, PolicyOutcome};
use unstuck_engine::call::Call;
use unstuck_engine::document::policies_paused;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_flow::policies::read_document;

use crate::service::{ServiceError, to_json};

/// Handles a request about policies, and returns the result as JSON.
pub(crate) fn change_policies(
    handle: &Handle,
    request: PolicyRequest,
    call: &Call,
) -> Result<String, ServiceError> {
    let PolicyRequest { by, what } = request;
    let by = Actor::User(by.into());
    let names = |names: Vec<String>| names.into_iter().map(Arc::<str>::from).collect::<Vec<_>>();
    match what {
        PolicyOperation::Load { drafts, replace } => load_policies(handle, &drafts, replace, by, call),
        PolicyOperation::Enable { names: given } => {
            send_policy_command(handle, PolicyCommand::Enable { names: names(given), by }, call)
        }
        PolicyOperation::Disable { names: given } => {
            send_policy_command(handle, PolicyCommand::Disable { names: names(given), by }, call)
        }
        PolicyOperation::Delete { names: given } => {
            send_policy_command(handle, PolicyCommand::Delete { names: names(given), by }, call)
        }
        PolicyOperation::Pause { reason } => {
            switch_auto_resumes(handle, PolicyCommand::Pause { reason: reason.into(), by }, call)
        }
        PolicyOperation::Unpause { rate } => {
            switch_auto_resumes(handle, PolicyCommand::Unpause { rate, by }, call)
        }
        PolicyOperation::Apply { names: given, rate } => {
            apply_policies(handle, (!given.is_empty()).then(|| names(given)), rate, &by)
        }
    }
}

/// Loads policies, all of them or none; refused drafts are part of the result.
fn load_policies(
    handle: &Handle,
    documents: &[PolicyDocument],
    replace: bool,
    by: Actor,
    call: &Call,
) -> Result<String, ServiceError> {
    let refuse =
        |refused: Vec<RefusedDraft>| to_json(&PolicyChangesView { refused, ..PolicyChangesView::default() });
    let drafts = match parse_drafts(documents) {
        Ok(drafts) => drafts,
        Err(refused) => return refuse(refused),
    };
    let replacing = if replace { drafts.clone() } else { Vec::new() };
    let outcome = match handle.change_policies_as(PolicyCommand::Load { drafts, replace, by }, call.clone()) {
        Err(EngineError::BadPolicies(problems)) => {
            let refused = problems.into_iter().map(|bad| RefusedDraft {
                place: bad.place,
                field: bad.problem.field.to_owned(),
                message: bad.problem.message,
                hint: bad.problem.hint.to_owned(),
            });
            return refuse(refused.collect());
        }
        outcome => outcome?,
    };
    let not_replaced = if replace { list_not_replaced(&replacing, &outcome.changes) } else { Vec::new() };
    to_json(&PolicyChangesView { not_replaced, ..build_changes_view(handle, &outcome)? })
}

/// Sends a policy command to the engine, and returns the changes.
fn send_policy_command(handle: &Handle, command: PolicyCommand, call: &Call) -> Result<String, ServiceError> {
    let outcome = handle.change_policies_as(command, call.clone())?;
    to_json(&build_changes_view(handle, &outcome)?)
}

/// Builds the view of changes, with policies that can never match.
fn build_changes_view(handle: &Handle, outcome: &PolicyOutcome) -> Result<PolicyChangesView, ServiceError> {
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
    Ok(PolicyChangesView {
        shadowed: shadowed.collect(),
        changes,
        unchanged: outcome.unchanged.iter().map(ToString::to_string).collect(),
        ..PolicyChangesView::default()
    })
}

/// Lists the policies that were added although they were meant to replace others.
fn list_not_replaced(drafts: &[PolicyDraft], changes: &[PolicyAudit]) -> Vec<NotReplaced> {
    let added = changes.iter().filter(|change| change.what == PolicyAuditKind::Added);
    let new = added.map(|change| {
        let draft = drafts.iter().find(|draft| draft.name.as_ref() == Some(&change.name));
        let id = draft.and_then(|draft| draft.id.as_ref()).map(ToString::to_string);
        NotReplaced { policy: change.name.to_string(), id }
    });
    new.collect()
}

/// Applies policies to open errors, and counts what changed.
fn apply_policies(
    handle: &Handle,
    only: Option<Vec<Arc<str>>>,
    rate: u32,
    by: &Actor,
) -> Result<String, ServiceError> {
    let applied = handle.apply(only, rate, by)?;
    let plan = &applied.plan;
    let outranked = plan.outranked.iter().map(|((policy, by), steps)| PassedView {
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
        bulk: applied.bulk.map(|bulk| bulk.to_string()),
        moved: applied.moved,
        unscheduled: applied.unscheduled,
        unchanged: applied.unchanged,
        outranked: outranked.collect(),
        exhausted: plan.exhausted.iter().map(passed).collect(),
        disabled: plan.disabled.iter().map(passed).collect(),
        policies_paused: handle.policies()?.switch().paused().map(policies_paused),
    })
}

/// Pauses or unpauses automatic resumes.
fn switch_auto_resumes(handle: &Handle, order: PolicyCommand, call: &Call) -> Result<String, ServiceError> {
    let paused = |handle: &Handle| -> Result<Option<PoliciesPaused>, ServiceError> {
        Ok(handle.policies()?.switch().paused().map(policies_paused))
    };
    let was = paused(handle)?;
    let is_unpause = matches!(order, PolicyCommand::Unpause { .. });
    let already = handle.change_policies_as(order, call.clone())?.changes.is_empty();
    let due = if is_unpause && !already { handle.due_resumes()? } else { 0 };
    let was = was.filter(|_| is_unpause && !already);
    to_json(&SwitchView { already, policies_paused: paused(handle)?, was, due })
}

/// Reads policies that came as documents, or returns everything that is wrong with them.
pub(crate) fn parse_drafts(documents: &[PolicyDocument]) -> Result<Vec<PolicyDraft>, Vec<RefusedDraft>> {
    let (mut drafts, mut refused) = (Vec::new(), Vec::new());
    for (place, document) in documents.iter().enumerate() {
        match read_document(document) {
            Ok(draft) => drafts.push(draft),
            Err(problems) => refused.extend(problems.into_iter().map(|problem| RefusedDraft {
                place,
                field: problem.field,
                message: problem.message,
                hint: problem.hint.unwrap_or_default(),
            })),
        }
    }
    if refused.is_empty() { Ok(drafts) } else { Err(refused) }
}
