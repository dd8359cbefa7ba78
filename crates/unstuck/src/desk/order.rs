//! What changes policies, and what they have scheduled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_core::event::Actor;
use unstuck_engine::policies::PolicyOrder;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;

use super::asked::{PolicyWhat, PolicyWish};
use super::{Unanswered, json};

/// What came of an order about policies.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ordered {
    pub(crate) changes: Vec<OrderedChange>,
    /// The names of those that were so already.
    pub(crate) unchanged: Vec<String>,
    /// What was changed can never match, because an earlier one takes whatever it would.
    pub(crate) shadowed: Vec<Shadowed>,
    /// What is wrong with what was to be loaded: then nothing was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<RefusedDraft>,
}

/// A policy that was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderedChange {
    pub(crate) policy: String,
    pub(crate) id: String,
    pub(crate) what: String,
    /// As it is now; none where it is gone.
    pub(crate) version: Option<u32>,
}

/// A policy that can never match.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shadowed {
    pub(crate) policy: String,
    pub(crate) by: String,
}

/// What is wrong with one of the policies that were to be loaded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedDraft {
    /// Its place among them, from 0.
    pub(crate) place: usize,
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// What came of applying policies to what is in error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Applied {
    /// Steps that a policy will resume now, or at another time than before.
    pub(crate) moved: u64,
    /// Steps that no policy takes any more.
    pub(crate) unscheduled: u64,
    pub(crate) unchanged: u64,
}

/// Carries out what is wished, and tells what came of it as JSON.
pub(super) fn carry_out(handle: &Handle, wish: PolicyWish) -> Result<String, Unanswered> {
    let PolicyWish { by, what } = wish;
    let by = Actor::User(by.into());
    let names = |names: Vec<String>| names.into_iter().map(Arc::<str>::from).collect::<Vec<_>>();
    let is_load = matches!(what, PolicyWhat::Load { .. });
    let order = match what {
        PolicyWhat::Load { drafts, replace } => PolicyOrder::Load { drafts, replace, by },
        PolicyWhat::Enable { names: given } => PolicyOrder::Enable { names: names(given), by },
        PolicyWhat::Disable { names: given } => PolicyOrder::Disable { names: names(given), by },
        PolicyWhat::Delete { names: given } => PolicyOrder::Delete { names: names(given), by },
        PolicyWhat::Apply { names: given, pace } => {
            let only = (!given.is_empty()).then(|| names(given));
            let applied = handle.apply(only, pace, &by)?;
            let (moved, unscheduled, unchanged) = (applied.moved, applied.unscheduled, applied.unchanged);
            return json(&Applied { moved, unscheduled, unchanged });
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
            return json(&Ordered { refused: refused.collect(), ..Ordered::default() });
        }
        outcome => outcome?,
    };
    let changes: Vec<OrderedChange> = outcome
        .changes
        .iter()
        .map(|audit| OrderedChange {
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
        .map(|shadow| Shadowed { policy: shadow.policy.to_string(), by: shadow.by.to_string() });
    let unchanged = outcome.unchanged.iter().map(ToString::to_string).collect();
    json(&Ordered { shadowed: shadowed.collect(), changes, unchanged, refused: Vec::new() })
}
