//! Resume policies: which errors are resumed automatically, when, and how often.

mod apply;
mod audit;
mod command;
mod draft;
mod matching;
mod suggest;
mod switch;
mod trial;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::recovery::BackOff;
use crate::random::Random;
use crate::recovery::backoff;
use crate::time::Millis;

pub use apply::{ApplyPlan, names_of};
pub use audit::{PolicyAudit, PolicyAuditKind};
pub use command::{
    BadPolicy, PolicyCommand, PolicyOutcome, PolicySet, apply_command, unknown_policy, with_drafts,
    with_named, would_be_enabled,
};
pub use draft::{DraftBackOff, PolicyDraft, PolicyProblem};
pub use matching::{ErrorToMatch, Policies, PolicyVerdict, ShadowedPolicy};
pub use suggest::{ErrorSample, NotSuggested, suggest, why_retry_cannot_help};
pub use switch::{DueVerdict, PoliciesPaused, PoliciesUnpaused, PolicySwitch, ResumePacer, SwitchState};
pub use trial::{SHOWN_ERRORS, Trial, TrialBuilder, TrialHit};

/// One policy, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Given, or made when it was loaded; it stays the same over changes.
    pub id: Arc<str>,
    /// Unique.
    pub name: Arc<str>,
    /// What it matches.
    #[serde(flatten)]
    pub criteria: Criteria,
    /// A step is resumed while its rounds since the last manual resume are below this.
    pub max_attempts: u32,
    /// Higher first.
    pub priority: i32,
    /// Whether the priority was set explicitly: then it is not calculated again.
    pub is_priority_set: bool,
    pub back_off: BackOff,
    /// Whether it takes part.
    pub enabled: bool,
    /// Whether it takes fatal errors as well.
    pub include_fatal: bool,
    /// Which change of it this is, from 1.
    pub version: u32,
    /// Older ones have lower numbers.
    pub age: u64,
}

/// What a policy matches: every field that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Criteria {
    /// A literal part of the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_substring: Option<Arc<str>>,
    /// The flow of the root run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Arc<str>>,
    /// The full name of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Arc<str>>,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<Arc<str>>,
}

/// Names one version of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRef {
    pub id: Arc<str>,
    /// Its name then.
    pub name: Arc<str>,
    /// Which change of it.
    pub version: u32,
}

/// A policy that is about an error and did not take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedPolicy {
    pub policy: PolicyRef,
    /// Why it did not.
    pub why: PassedReason,
}

/// Why a policy does not take an error that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassedReason {
    /// It is used up on the step.
    Spent {
        /// The rounds of the step since the last manual resume.
        rounds: u32,
        /// It takes fewer than this.
        max: u32,
    },
    /// It is disabled.
    Disabled,
}

impl Policy {
    /// Computes the delay from the end of the attempt to the resume, after this many rounds.
    pub fn delay(&self, rounds: u32, random: &mut Random) -> Millis {
        backoff::back_off_delay(&self.back_off, rounds, random)
    }

    /// Returns the shortest and the longest delay: they differ only where the delay is random.
    pub fn delay_range(&self, rounds: u32) -> (Millis, Millis) {
        let BackOff { delay, max_delay, random, .. } = self.back_off;
        if random {
            return (delay, max_delay.unwrap_or(delay).max(delay));
        }
        let delay = self.delay(rounds, &mut Random::new(0));
        (delay, delay)
    }

    /// This version of it.
    pub fn to_ref(&self) -> PolicyRef {
        PolicyRef { id: self.id.clone(), name: self.name.clone(), version: self.version }
    }
}
