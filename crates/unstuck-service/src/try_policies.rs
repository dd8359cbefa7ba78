//! What a policy would do, or would have done, as it is told.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_api::PoliciesPaused;
use unstuck_core::policy::TrialHit;
use unstuck_engine::document::policies_paused;
use unstuck_engine::runtime::Handle;
use unstuck_engine::trials::{self, ErrorSource, StoreErrors, TrialErrors, TrialRequest, try_policies};
use unstuck_store::contract::Store;

use crate::request::{PolicyToTry, TrialQuery};
use crate::service::ServiceError;

/// What policies would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialsView {
    pub trials: Vec<TrialView>,
}

/// What one policy would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialView {
    pub policy: String,
    /// Whether it is disabled: what it would do if it were enabled is told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Why nothing resumes automatically, in a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// How many errors it takes.
    pub matched: u64,
    /// The first of them.
    pub runs: Vec<TrialRunView>,
    /// How many errors it would take if an earlier policy did not, by that policy's name.
    pub shadowed_by: BTreeMap<String, u64>,
    /// How many errors it would take if it were not spent on them.
    pub exhausted: u64,
}

/// A step that it takes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialRunView {
    pub run: String,
    pub step: String,
    /// Its rounds so far, which `maxAttempts` bounds.
    pub rounds: u32,
    pub cause: String,
    /// When it would be resumed; at the earliest, where the delay is drawn.
    #[serde(with = "unstuck_api::json_form::time")]
    pub resume_at: Timestamp,
    /// At the latest, where the delay is drawn.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "unstuck_api::json_form::optional_time"
    )]
    pub resume_by: Option<Timestamp>,
    /// The policy that has it now, or had it then.
    pub taken_from: Option<String>,
}

/// Tries policies by way of a running engine, which goes on meanwhile.
pub(crate) fn by_engine(mut handle: &Handle, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    on(&mut handle, of)
}

/// Tries policies on a store that nobody else has.
pub(crate) fn by_store(store: &mut dyn Store, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    // No clock goes below the last thing that is kept.
    let now = store.last_time()?.map_or_else(crate::service::now, |last| last.max(crate::service::now()));
    on(&mut StoreErrors { store, now }, of)
}

fn on(errors: &mut impl ErrorSource, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    let policies = match of.policies {
        PolicyToTry::Drafts(drafts) => TrialRequest::Drafts(drafts),
        PolicyToTry::Named(name) => TrialRequest::Named(name.into()),
    };
    let on = match of.past {
        None => TrialErrors::Open,
        Some((since, until)) => TrialErrors::Past { since, until },
    };
    let (kept, _) = errors.policies()?;
    let paused = kept.switch().paused().filter(|_| matches!(on, TrialErrors::Open)).map(policies_paused);
    let tried = try_policies(errors, policies, on)?;
    Ok(TrialsView { trials: tried.into_iter().map(|tried| told(tried, paused.clone())).collect() })
}

fn told(tried: trials::PolicyTrial, policies_paused: Option<PoliciesPaused>) -> TrialView {
    let trial = tried.trial;
    TrialView {
        policy: tried.policy.name.to_string(),
        disabled: tried.is_disabled,
        policies_paused,
        matched: trial.matched,
        runs: trial.errors.iter().map(taken).collect(),
        shadowed_by: trial.shadowed_by.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        exhausted: trial.exhausted,
    }
}

fn taken(taken: &TrialHit) -> TrialRunView {
    TrialRunView {
        run: taken.record.run.to_string(),
        step: taken.record.step.to_string(),
        rounds: taken.record.rounds,
        cause: taken.record.cause.to_string(),
        resume_at: taken.resume_at.timestamp(),
        resume_by: (taken.resume_by != taken.resume_at).then(|| taken.resume_by.timestamp()),
        taken_from: taken.taken_from.as_deref().map(str::to_owned),
    }
}
