//! Trials: what a policy would do with the errors that are open now, or would have done with recorded ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::errors::{ErrorRecord, OpenError};
use crate::policy::{Policies, Policy, PolicyVerdict};
use crate::time::Time;

/// How many errors are listed; all are counted.
pub const SHOWN_ERRORS: usize = 1_000;

/// What a policy would do, or would have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// How many errors it takes.
    pub matched: u64,
    /// The first of them.
    pub errors: Vec<TrialHit>,
    /// How many errors it would take if an earlier policy did not, by that policy's name.
    pub shadowed_by: BTreeMap<Arc<str>, u64>,
    /// How many errors it would take if it were not spent on them.
    pub exhausted: u64,
}

/// An error that the policy takes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialHit {
    pub record: ErrorRecord,
    /// When its step would be resumed, at the earliest.
    pub resume_at: Time,
    /// And at the latest, where the delay is drawn.
    pub resume_by: Time,
    /// The policy that has it now, or had it then.
    pub taken_from: Option<Arc<str>>,
}

/// Tries one policy among others.
pub struct TrialBuilder<'a> {
    policies: &'a Policies,
    policy: &'a Policy,
    trial: Trial,
}

impl<'a> TrialBuilder<'a> {
    /// Starts a trial of `policy`, which must be among `policies` as it would be in force.
    pub fn new(policies: &'a Policies, policy: &'a Policy) -> TrialBuilder<'a> {
        TrialBuilder { policies, policy, trial: Trial::default() }
    }

    /// Adds an error that is open now, unless it is acknowledged. A resume that would be due already counts from `now`.
    pub fn add_open_error(&mut self, error: &OpenError, now: Time) {
        if !error.acknowledged {
            let from = error.resume.as_ref().map(|(_, policy)| policy.name.clone());
            self.judge_error(&error.record, from, now);
        }
    }

    /// Adds a recorded error as it was then, unless an earlier rung handled it before any policy could.
    pub fn add_past_error(&mut self, record: &ErrorRecord) {
        if record.led_to.has_reached_policies() {
            let from = record.policy.as_ref().map(|policy| policy.name.clone());
            self.judge_error(record, from, record.at);
        }
    }

    /// Returns the result.
    pub fn finish(self) -> Trial {
        self.trial
    }

    /// Counts an error as taken, used up, or shadowed by an earlier policy.
    fn judge_error(&mut self, record: &ErrorRecord, from: Option<Arc<str>>, not_before: Time) {
        let failure = record.to_match();
        match self.policy.judge(&failure) {
            PolicyVerdict::Passes => {}
            PolicyVerdict::Spent => self.trial.exhausted += 1,
            PolicyVerdict::Takes => match self.policies.find(&failure) {
                Some(first) if first.id != self.policy.id => {
                    *self.trial.shadowed_by.entry(first.name.clone()).or_default() += 1;
                }
                Some(_) | None => self.record_hit(record, from, not_before),
            },
        }
    }

    /// Counts an error that the policy takes, and lists it with the time of its resume.
    fn record_hit(&mut self, record: &ErrorRecord, from: Option<Arc<str>>, not_before: Time) {
        self.trial.matched += 1;
        if self.trial.errors.len() >= SHOWN_ERRORS {
            return;
        }
        let (least, most) = self.policy.delay_range(record.rounds);
        let (least, most) = (least.max(record.minimum_delay), most.max(record.minimum_delay));
        self.trial.errors.push(TrialHit {
            record: record.clone(),
            resume_at: (record.at + least).max(not_before),
            resume_by: (record.at + most).max(not_before),
            taken_from: from.filter(|name| **name != *self.policy.name),
        });
    }
}
