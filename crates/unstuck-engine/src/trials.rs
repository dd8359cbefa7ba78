//! Policies are tried, and applied to what is in error already: page by page, so that nobody waits long for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::Command;
use unstuck_core::decide::{Answer, check_texts};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{
    Policies, Policy, PolicyDraft, PolicyVerdict, Trial, TrialBuilder, unknown_policy, with_drafts,
    with_named, would_be_enabled,
};
use unstuck_core::time::{Millis, Time};
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

/// What came of applying policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyResult {
    /// Steps that a policy will resume now, or at another time than before.
    pub moved: u64,
    /// Steps that were scheduled, and that no policy takes any more.
    pub unscheduled: u64,
    /// Steps that are as they were.
    pub unchanged: u64,
    /// How many steps a policy that was named would take if another did not come before it, by the names of both.
    pub outranked: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// How many steps a policy that was named would take if it were not used up on them.
    pub exhausted: BTreeMap<Arc<str>, u64>,
    /// How many steps a policy that was named would take if it were enabled.
    pub disabled: BTreeMap<Arc<str>, u64>,
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
fn each_open(
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

    /// Matches what is in error now with the policies again, or with those of these names only. What would be due already
    /// is resumed from now on, at most `pace` steps a second.
    pub fn apply(
        &self,
        only: Option<Vec<Arc<str>>>,
        pace: u32,
        by: &Actor,
    ) -> Result<ApplyResult, EngineError> {
        check_texts(by, None)?;
        let (policies, now) = self.policies_now()?;
        let only = only.map(|given| names_of(&policies, &given)).transpose()?;
        let mut applying =
            PolicyApplier { policies, only, now, pace: pace.max(1), due: 0, applied: ApplyResult::default() };
        let mut errors = self;
        each_open(&mut errors, |page| {
            let planned: Vec<(bool, RunId, Command)> =
                page.iter().filter_map(|error| applying.plan(error, by)).collect();
            let commands = planned.iter().map(|(_, run, command)| (*run, command.clone())).collect();
            let answers = self.commands(commands);
            for ((takes, _, _), answer) in planned.iter().zip(answers) {
                applying.count(*takes, answer)?;
            }
            Ok(())
        })?;
        Ok(applying.applied)
    }
}

/// The names of policies that are given by name or id.
fn names_of(policies: &Policies, given: &[Arc<str>]) -> Result<Vec<Arc<str>>, EngineError> {
    let (mut names, mut missing) = (Vec::new(), Vec::new());
    for (place, name) in given.iter().enumerate() {
        match policies.by_name_or_id(name) {
            Some(policy) => names.push(policy.name.clone()),
            None => missing.push(unknown_policy(place, name)),
        }
    }
    if missing.is_empty() { Ok(names) } else { Err(EngineError::BadPolicies(missing)) }
}

/// Policies that are being applied.
struct PolicyApplier {
    policies: Policies,
    only: Option<Vec<Arc<str>>>,
    now: Time,
    pace: u32,
    /// So many have been spread so far.
    due: u64,
    applied: ApplyResult,
}

impl PolicyApplier {
    /// What to ask for an error that the policies would put elsewhere, and whether one takes it. What stays is counted.
    fn plan(&mut self, error: &OpenError, by: &Actor) -> Option<(bool, RunId, Command)> {
        if error.acknowledged {
            return None;
        }
        self.note_passed(error);
        let found = self.policies.find(&error.record.to_match());
        let found = found.filter(|found| self.only.as_ref().is_none_or(|only| only.contains(&found.name)));
        let scheduled = error.resume.as_ref().map(|(_, policy)| policy);
        let stays = match (found, scheduled) {
            (Some(found), Some(by)) => found.to_ref() == *by,
            (None, Some(_)) => self.only.is_some(),
            (Some(_), None) => false,
            (None, None) => true,
        };
        if stays {
            self.applied.unchanged += 1;
            return None;
        }
        let after = Millis(self.due.saturating_mul(1_000) / u64::from(self.pace));
        // A delay that is drawn may turn out to be over if the least one is.
        let is_due = found.is_some_and(|policy| {
            let (least, _) = policy.delay_range(error.record.rounds);
            error.record.at + least.max(error.record.minimum_delay) <= self.now
        });
        self.due += u64::from(is_due);
        let unit = error.record.unit;
        let command = Command::ApplyPolicies { unit, only: self.only.clone(), after, by: by.clone() };
        Some((found.is_some(), error.record.run, command))
    }

    /// Notes why policies that were named do not take an error that they are about.
    fn note_passed(&mut self, error: &OpenError) {
        let failure = error.record.to_match();
        let applied = &mut self.applied;
        for name in self.only.iter().flatten() {
            let Some(policy) = self.policies.by_name_or_id(name) else { continue };
            match (policy.judge_enabled(&failure), policy.enabled) {
                (PolicyVerdict::Takes, false) => *applied.disabled.entry(name.clone()).or_default() += 1,
                (PolicyVerdict::Takes, true) => match self.policies.find(&failure) {
                    Some(first) if first.id != policy.id => {
                        *applied.outranked.entry((name.clone(), first.name.clone())).or_default() += 1;
                    }
                    Some(_) | None => {}
                },
                (PolicyVerdict::Spent, true) => *applied.exhausted.entry(name.clone()).or_default() += 1,
                (PolicyVerdict::Spent, false) | (PolicyVerdict::Passes, _) => {}
            }
        }
    }

    /// A run that has gone on meanwhile, or is gone, has nothing to be moved.
    fn count(&mut self, takes: bool, answer: Result<Answer, EngineError>) -> Result<(), EngineError> {
        match answer {
            Ok(Answer::Done) if takes => self.applied.moved += 1,
            Ok(Answer::Done) => self.applied.unscheduled += 1,
            Ok(_) | Err(EngineError::Refused(_)) => self.applied.unchanged += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
