//! Trials of policies: what one would do now, or would have done.

use unstuck_api::PoliciesPaused;
use unstuck_api::request::{PastErrors, PolicyToTry, TrialQuery};
use unstuck_api::trials::{TrialRunView, TrialView, TrialsView};
use unstuck_core::policy::TrialHit;
use unstuck_engine::document::policies_paused;
use unstuck_engine::runtime::Handle;
use unstuck_engine::trials::{self, ErrorSource, StoreErrors, TrialErrors, TrialRequest, try_policies};
use unstuck_store::contract::Reader;

use crate::change_policies::parse_drafts;
use crate::convert;
use crate::service::ServiceError;

/// Tries policies with a running engine, page by page, so that it continues meanwhile.
pub(crate) fn try_with_engine(mut handle: &Handle, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    try_on_source(&mut handle, of)
}

/// Tries policies on a store that no other process has.
pub(crate) fn try_on_store(reader: &dyn Reader, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    // No clock goes below the last thing that is kept.
    let now = reader.last_time()?.map_or_else(crate::service::now, |last| last.max(crate::service::now()));
    try_on_source(&mut StoreErrors { reader, now }, of)
}

/// Tries policies on the errors of a source, which changes nothing.
fn try_on_source(errors: &mut impl ErrorSource, of: TrialQuery) -> Result<TrialsView, ServiceError> {
    let policies = match of.policies {
        PolicyToTry::Drafts(documents) => {
            let drafts = parse_drafts(&documents);
            TrialRequest::Drafts(drafts.map_err(|refused| ServiceError::bad_policies(&documents, refused))?)
        }
        PolicyToTry::Named(name) => TrialRequest::Named(name.into()),
    };
    let on = match of.past {
        None => TrialErrors::Open,
        Some(PastErrors { since, until }) => {
            TrialErrors::Past { since: convert::to_core_time(since), until: until.map(convert::to_core_time) }
        }
    };
    let (kept, _) = errors.policies()?;
    let paused = kept.switch().paused().filter(|_| matches!(on, TrialErrors::Open)).map(policies_paused);
    let tried = try_policies(errors, policies, on)?;
    Ok(TrialsView {
        trials: tried.into_iter().map(|tried| build_trial_view(tried, paused.clone())).collect(),
    })
}

fn build_trial_view(tried: trials::PolicyTrial, policies_paused: Option<PoliciesPaused>) -> TrialView {
    let trial = tried.trial;
    TrialView {
        policy: tried.policy.name.to_string(),
        disabled: tried.is_disabled,
        policies_paused,
        matched: trial.matched,
        runs: trial.errors.iter().map(build_trial_run_view).collect(),
        shadowed_by: trial.shadowed_by.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        exhausted: trial.exhausted,
    }
}

fn build_trial_run_view(taken: &TrialHit) -> TrialRunView {
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
