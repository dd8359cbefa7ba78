//! Policies are tried on what is in error or was: page by page, so that nobody waits long for it.

use std::sync::Arc;

use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{
    Policies, Policy, PolicyDraft, Trial, TrialBuilder, with_drafts, with_named, would_be_enabled,
};
use unstuck_core::time::Time;
use unstuck_store::contract::{ErrorFilter, ErrorId, OpenErrorFilter, Reader};

use crate::policies::check_stored;
use crate::request::EngineError;
use crate::runtime::Handle;

/// So many errors are read between two batches.
const PAGE: usize = 1_000;

/// A policy to be tried.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyToTry {
    /// As somebody wrote it; one of the same id or name would be replaced by it.
    Draft(Box<PolicyDraft>),
    /// One that is kept, as if it were enabled.
    Named(Arc<str>),
}

/// What came of trying a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyTrial {
    /// The policy, as it was tried.
    pub policy: Arc<Policy>,
    /// What it would do, or would have done.
    pub trial: Trial,
    /// Whether it is disabled, or would be once loaded: what it would do if it were enabled is told.
    pub is_disabled: bool,
}

/// Policies to be tried.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialRequest {
    /// As somebody wrote them, each as if all of them were loaded; those of the same id or name would be replaced.
    Drafts(Vec<PolicyDraft>),
    /// One that is kept, as if it were enabled.
    Named(Arc<str>),
}

/// Which errors a policy is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialErrors {
    /// What is in error now, as if the policy were applied.
    Open,
    /// What was recorded in a span of time, each judged as it stood then.
    Past {
        /// From then on.
        since: Time,
        /// Before then, if it has an end.
        until: Option<Time>,
    },
}

/// Where errors are read from, a page at a time.
pub trait ErrorSource {
    /// The policies, and the time.
    fn policies(&mut self) -> Result<(Policies, Time), EngineError>;

    /// What is in error now, after this place.
    fn open(&mut self, after: Option<(RunId, UnitRef)>) -> Result<Vec<OpenError>, EngineError>;

    /// What was recorded, after this one.
    fn past(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, EngineError>;
}

/// A store, whether an engine goes on with it or not.
pub struct StoreErrors<'a> {
    pub reader: &'a dyn Reader,
    pub now: Time,
}

impl ErrorSource for StoreErrors<'_> {
    fn policies(&mut self) -> Result<(Policies, Time), EngineError> {
        let (policies, switch) = self.reader.policies()?;
        Ok((check_stored(policies)?.with_switch(switch), self.now))
    }

    fn open(&mut self, after: Option<(RunId, UnitRef)>) -> Result<Vec<OpenError>, EngineError> {
        Ok(self.reader.open_errors(&OpenErrorFilter::default(), after, PAGE)?)
    }

    fn past(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, EngineError> {
        Ok(self.reader.errors(filter, after, PAGE)?)
    }
}

/// The engine goes on between the pages.
impl ErrorSource for &Handle {
    fn policies(&mut self) -> Result<(Policies, Time), EngineError> {
        self.policies_now()
    }

    fn open(&mut self, after: Option<(RunId, UnitRef)>) -> Result<Vec<OpenError>, EngineError> {
        Ok(self.reader().open_errors(&OpenErrorFilter::default(), after, PAGE)?)
    }

    fn past(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, EngineError> {
        Ok(self.reader().errors(filter, after, PAGE)?)
    }
}

/// What policies would do, or would have done. Nothing is changed.
pub fn try_policies(
    errors: &mut impl ErrorSource,
    policies: TrialRequest,
    on: TrialErrors,
) -> Result<Vec<PolicyTrial>, EngineError> {
    let (kept, now) = errors.policies()?;
    let is_disabled: Vec<bool> = match &policies {
        TrialRequest::Drafts(drafts) => drafts.iter().map(|draft| !would_be_enabled(&kept, draft)).collect(),
        TrialRequest::Named(name) => vec![kept.by_name_or_id(name).is_some_and(|policy| !policy.enabled)],
    };
    let (all, tried) = match policies {
        TrialRequest::Drafts(drafts) => with_drafts(&kept, &drafts, now).map_err(EngineError::BadPolicies)?,
        TrialRequest::Named(name) => with_named(&kept, &name).map_err(EngineError::BadPolicies)?,
    };
    let mut trying: Vec<TrialBuilder<'_>> =
        tried.iter().map(|policy| TrialBuilder::new(&all, policy)).collect();
    match on {
        TrialErrors::Open => each_open(errors, |page| {
            for error in page {
                for trying in &mut trying {
                    trying.add_open_error(error, now);
                }
            }
            Ok(())
        })?,
        TrialErrors::Past { since, until } => {
            let filter = ErrorFilter { since: Some(since), until, ..ErrorFilter::default() };
            let mut after = None;
            loop {
                let page = errors.past(&filter, after)?;
                for (_, record) in &page {
                    for trying in &mut trying {
                        trying.add_past_error(record);
                    }
                }
                after = page.last().map(|(id, _)| *id);
                if page.len() < PAGE {
                    break;
                }
            }
        }
    }
    let trials: Vec<Trial> = trying.into_iter().map(TrialBuilder::finish).collect();
    let results = tried.into_iter().zip(trials).zip(is_disabled);
    Ok(results.map(|((policy, trial), is_disabled)| PolicyTrial { policy, trial, is_disabled }).collect())
}

/// Everything that is in error, a page at a time.
pub(crate) fn each_open(
    errors: &mut impl ErrorSource,
    mut each: impl FnMut(&[OpenError]) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut after = None;
    loop {
        let page = errors.open(after)?;
        each(&page)?;
        after = page.last().map(|error| (error.record.run, error.record.unit));
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

impl Handle {
    /// What a policy would do to what is in error now, if it were applied. Nothing is changed.
    pub fn preview(&self, policy: PolicyToTry) -> Result<PolicyTrial, EngineError> {
        self.try_one(policy, TrialErrors::Open)
    }

    /// What a policy would have done to the errors of a span of time, each judged as it stood then. Nothing is changed.
    pub fn backtest(
        &self,
        policy: PolicyToTry,
        since: Time,
        until: Option<Time>,
    ) -> Result<PolicyTrial, EngineError> {
        self.try_one(policy, TrialErrors::Past { since, until })
    }

    fn try_one(&self, policy: PolicyToTry, on: TrialErrors) -> Result<PolicyTrial, EngineError> {
        let policies = match policy {
            PolicyToTry::Draft(draft) => TrialRequest::Drafts(vec![*draft]),
            PolicyToTry::Named(name) => TrialRequest::Named(name),
        };
        let mut errors = self;
        Ok(try_policies(&mut errors, policies, on)?.swap_remove(0))
    }

    /// How many steps are due to be resumed automatically.
    pub fn due_resumes(&self) -> Result<u64, EngineError> {
        let (_, now) = self.policies_now()?;
        let (mut due, mut errors) = (0, self);
        each_open(&mut errors, |page| {
            let is_due = |error: &&OpenError| error.resume.as_ref().is_some_and(|(at, _)| *at <= now);
            due += page.iter().filter(is_due).count() as u64;
            Ok(())
        })?;
        Ok(due)
    }
}
