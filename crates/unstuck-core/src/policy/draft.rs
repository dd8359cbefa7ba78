//! Policy drafts: a policy as it was written, and every problem that it can have.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::error;
use crate::model::recovery::BackOff;
use crate::policy::{Criteria, Policy};
use crate::time::Millis;

/// Actions that have no flow in their name: the engine's own, and one that is known from elsewhere.
const UNPREFIXED: [&str; 6] = [
    "NoEgressFlowConfiguredAction",
    error::EXPRESSION_ACTION,
    error::OUTPUT_ACTION,
    error::CHILD_ACTION,
    error::TIMEOUT_ACTION,
    error::DEADLINE_ACTION,
];

/// A policy as it was written: nothing is certain of it yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyDraft {
    /// Kept if given.
    pub id: Option<Arc<str>>,
    /// Required.
    pub name: Option<Arc<str>>,
    /// What it matches; blank ones count as absent.
    pub criteria: Criteria,
    /// Required.
    pub max_attempts: Option<i64>,
    /// Calculated if not given.
    pub priority: Option<i32>,
    /// Required.
    pub back_off: Option<DraftBackOff>,
    /// True if not given.
    pub enabled: Option<bool>,
    /// False if not given.
    pub include_fatal: Option<bool>,
}

/// When to resume, as it was written. Durations are in milliseconds and may be negative here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DraftBackOff {
    /// Required.
    pub delay: Option<i64>,
    /// The cap, and the upper end of `random`.
    pub max_delay: Option<i64>,
    /// `delay * multiplier * rounds`.
    pub multiplier: Option<f64>,
    /// Uniform in `delay..=max_delay`.
    pub random: bool,
}

/// Something that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field, as it is written: `backOff.delay`.
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

impl PolicyDraft {
    /// Checks the draft by itself and returns the policy, or every problem. `fresh_id` is used where the draft has no
    /// id.
    pub fn check(&self, fresh_id: &Arc<str>, age: u64) -> Result<Policy, Vec<PolicyProblem>> {
        let mut problems = Vec::new();
        let name = without_blank(self.name.as_ref());
        if name.is_none() {
            problems.push(problem(
                "name",
                "the policy has no name",
                "give it a name that says which errors it handles",
            ));
        }
        let criteria = self.criteria.without_blanks();
        if criteria == Criteria::default() {
            let hint = "give at least one of `errorSubstring`, `flow`, `action`, `actionType`";
            problems.push(problem("errorSubstring", "the policy would match every error", hint));
        }
        problems.extend(criteria.action.as_deref().and_then(check_action_has_flow));
        let max_attempts = self.check_max_attempts();
        let back_off = self.back_off.ok_or_else(|| {
            vec![problem(
                "backOff",
                "the policy has no `backOff`",
                "write `backOff: {delay: 60}`, in seconds",
            )]
        });
        let back_off = back_off.and_then(DraftBackOff::check);
        match (name, max_attempts, back_off) {
            (Some(name), Ok(max_attempts), Ok(back_off)) if problems.is_empty() => Ok(Policy {
                id: without_blank(self.id.as_ref()).unwrap_or_else(|| fresh_id.clone()),
                name,
                priority: self.priority.unwrap_or_else(|| criteria.priority()),
                is_priority_set: self.priority.is_some(),
                criteria,
                max_attempts,
                back_off,
                enabled: self.enabled.unwrap_or(true),
                include_fatal: self.include_fatal.unwrap_or(false),
                version: 1,
                age,
            }),
            (_, max_attempts, back_off) => {
                problems.extend(max_attempts.err());
                problems.extend(back_off.err().unwrap_or_default());
                Err(problems)
            }
        }
    }

    /// Checks `maxAttempts`, which must be given and at least 2.
    fn check_max_attempts(&self) -> Result<u32, PolicyProblem> {
        let hint = "2 resumes once, 10 resumes at most nine times";
        match self.max_attempts {
            None => Err(problem("maxAttempts", "the policy has no `maxAttempts`", hint)),
            Some(n) if n < 2 => {
                let message = format!("`maxAttempts` is {n}; below 2 the policy would never resume anything");
                Err(PolicyProblem { field: "maxAttempts", message, hint })
            }
            Some(n) => Ok(u32::try_from(n).unwrap_or(u32::MAX)),
        }
    }
}

impl DraftBackOff {
    /// Checks the durations and their order, and returns the back-off or every problem.
    fn check(self) -> Result<BackOff, Vec<PolicyProblem>> {
        let mut problems = Vec::new();
        let mut span = |field: &'static str, ms: Option<i64>| match ms.map(u64::try_from) {
            None => None,
            Some(Ok(ms)) => Some(Millis(ms)),
            Some(Err(_)) => {
                let message = format!("`{field}` is negative");
                problems.push(PolicyProblem { field, message, hint: "a delay is 0 or more" });
                None
            }
        };
        let (delay, max_delay) =
            (span("backOff.delay", self.delay), span("backOff.maxDelay", self.max_delay));
        if self.delay.is_none() {
            let hint = "write `delay: 60`, in seconds, or `delay: 5m`";
            problems.push(problem("backOff.delay", "`backOff` has no `delay`", hint));
        }
        if self.random && self.max_delay.is_none() {
            let hint = "the delay is random between `delay` and `maxDelay`: give both";
            problems.push(problem("backOff.maxDelay", "`random` needs a `maxDelay`", hint));
        }
        if let (Some(low), Some(high)) = (delay, max_delay)
            && high < low
        {
            let message = format!("`maxDelay` {high} is below `delay` {low}");
            problems.push(PolicyProblem {
                field: "backOff.maxDelay",
                message,
                hint: "raise it, or leave it out",
            });
        }
        if self.multiplier.is_some_and(|multiplier| multiplier.is_nan() || multiplier < 1.0) {
            let hint = "the delay is `delay * multiplier * rounds`: 1 grows by one delay each round";
            problems.push(problem("backOff.multiplier", "`multiplier` is below 1", hint));
        }
        match delay {
            Some(delay) if problems.is_empty() => {
                Ok(BackOff { delay, max_delay, multiplier: self.multiplier, random: self.random })
            }
            Some(_) | None => Err(problems),
        }
    }
}

impl Criteria {
    /// Returns the criteria without blank fields, which count as absent.
    fn without_blanks(&self) -> Criteria {
        Criteria {
            error_substring: without_blank(self.error_substring.as_ref()),
            flow: without_blank(self.flow.as_ref()),
            action: without_blank(self.action.as_ref()),
            action_type: without_blank(self.action_type.as_ref()),
        }
    }
}

fn without_blank(text: Option<&Arc<str>>) -> Option<Arc<str>> {
    text.filter(|text| !text.trim().is_empty()).cloned()
}

/// Returns a problem if an action lacks its flow (`flow.action`), unless it is one of the engine's own.
fn check_action_has_flow(action: &str) -> Option<PolicyProblem> {
    let has_flow = action.split_once('.').is_some_and(|(flow, name)| !flow.is_empty() && !name.is_empty());
    if has_flow || UNPREFIXED.contains(&action) {
        return None;
    }
    let message = format!("`action` is `{action}`, without its flow");
    let hint = "write the full name, as in `smoke.SmokeFormatAction`; `unstuck errors` shows it";
    Some(PolicyProblem { field: "action", message, hint })
}

fn problem(field: &'static str, message: &str, hint: &'static str) -> PolicyProblem {
    PolicyProblem { field, message: message.to_owned(), hint }
}
