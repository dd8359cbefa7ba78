//! Trying a policy before it acts: on what is in error now, or on what was recorded in the past.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::errors::{ErrorRecord, OpenError};
use crate::policy::{Policies, Policy, PolicyVerdict};
use crate::time::Time;

/// So many errors are shown one by one; all are counted.
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
    /// `policies` contains `policy`, as it would be in force.
    pub fn new(policies: &'a Policies, policy: &'a Policy) -> TrialBuilder<'a> {
        TrialBuilder { policies, policy, trial: Trial::default() }
    }

    /// An error that is open now. What is acknowledged is left out, and what would be due already is resumed from `now`
    /// on.
    pub fn add_open_error(&mut self, error: &OpenError, now: Time) {
        if !error.acknowledged {
            let from = error.resume.as_ref().map(|(_, policy)| policy.name.clone());
            self.judge(&error.record, from, now);
        }
    }

    /// An error of the past, as it stood then. One that was dealt with before policies were asked says nothing.
    pub fn add_past_error(&mut self, record: &ErrorRecord) {
        if record.led_to.has_reached_policies() {
            let from = record.policy.as_ref().map(|policy| policy.name.clone());
            self.judge(record, from, record.at);
        }
    }

    /// What came of it.
    pub fn finish(self) -> Trial {
        self.trial
    }

    fn judge(&mut self, record: &ErrorRecord, from: Option<Arc<str>>, not_before: Time) {
        let failure = record.to_match();
        match self.policy.judge(&failure) {
            PolicyVerdict::Passes => {}
            PolicyVerdict::Spent => self.trial.exhausted += 1,
            PolicyVerdict::Takes => match self.policies.find(&failure) {
                Some(first) if first.id != self.policy.id => {
                    *self.trial.shadowed_by.entry(first.name.clone()).or_default() += 1;
                }
                Some(_) | None => self.take(record, from, not_before),
            },
        }
    }

    fn take(&mut self, record: &ErrorRecord, from: Option<Arc<str>>, not_before: Time) {
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
