//! Which policy takes an error, and when it resumes: a plain walk over all of them, as the contract words it.

use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{Policies, Policy};
use unstuck_core::time::{Millis, Time};

/// An error, as the contract speaks of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedInError<'a> {
    pub(super) cause: &'a str,
    pub(super) root_flow: &'a str,
    pub(super) action: &'a str,
    pub(super) found_by: Option<&'a str>,
    pub(super) action_type: Option<&'a str>,
    pub(super) fatal: bool,
    pub(super) rounds: u32,
}

/// The policies over time: an event may have been decided before a change and be heard of after it.
#[derive(Debug, Default)]
pub(super) struct PolicyHistory {
    sets: Vec<(Time, Vec<Policy>)>,
}

impl PolicyHistory {
    /// From now on these.
    pub(super) fn change(&mut self, policies: &Policies, now: Time) {
        let now = self.sets.last().map_or(now, |(before, _)| now.max(*before));
        self.sets.push((now, policies.iter().map(|policy| Policy::clone(policy)).collect()));
    }

    /// Another engine goes on with the last ones, and its clock may be behind.
    pub(super) fn restart(&mut self) {
        if let Some((_, last)) = self.sets.pop() {
            self.sets = vec![(Time(i64::MIN), last)];
        }
    }

    /// The last ones, in no order; nothing if they were never changed.
    pub(super) fn last(&self) -> Option<&[Policy]> {
        self.sets.last().map(|(_, set)| set.as_slice())
    }

    /// Every set that was in force at some moment of this time.
    pub(super) fn at(&self, at: Time) -> Vec<&[Policy]> {
        let later = self.sets.partition_point(|(from, _)| *from <= at);
        let first = self.sets.partition_point(|(from, _)| *from < at);
        let mut sets: Vec<&[Policy]> =
            self.sets[first..later].iter().map(|(_, set)| set.as_slice()).collect();
        match first.checked_sub(1) {
            Some(before) => sets.push(&self.sets[before].1),
            None => sets.push(&[]),
        }
        sets
    }
}

/// The first policy that takes it: in decreasing priority, then the older one; a spent one falls through.
pub(super) fn first_match<'a>(policies: &'a [Policy], erred: &EndedInError<'_>) -> Option<&'a Policy> {
    let mut best: Option<&Policy> = None;
    for policy in policies.iter().filter(|policy| takes(policy, erred)) {
        let is_before = best.is_none_or(|best| {
            policy.priority > best.priority || (policy.priority == best.priority && policy.age < best.age)
        });
        if is_before {
            best = Some(policy);
        }
    }
    best
}

fn takes(policy: &Policy, erred: &EndedInError<'_>) -> bool {
    let criteria = &policy.criteria;
    policy.enabled
        && (policy.include_fatal || !erred.fatal)
        && criteria.error_substring.as_ref().is_none_or(|text| erred.cause.contains(&**text))
        && criteria.flow.as_ref().is_none_or(|flow| **flow == *erred.root_flow)
        && criteria
            .action
            .as_ref()
            .is_none_or(|action| [Some(erred.action), erred.found_by].contains(&Some(&**action)))
        && criteria.action_type.as_ref().is_none_or(|kind| Some(&**kind) == erred.action_type)
        && erred.rounds < policy.max_attempts
}

/// The least and the most that may be waited after so many tries, whatever `minimumDelay` says.
pub(super) fn delays(back_off: &BackOff, tries: u32, minimum: Millis) -> (Millis, Millis) {
    let BackOff { delay, max_delay, multiplier, random } = *back_off;
    let (least, most) = match (random, multiplier) {
        (true, _) => (delay, max_delay.unwrap_or(delay).max(delay)),
        (false, Some(multiplier)) => {
            let grown = delay.times(multiplier * f64::from(tries));
            let capped = max_delay.map_or(grown, |cap| grown.min(cap));
            (capped, capped)
        }
        (false, None) => (delay, delay),
    };
    (least.max(minimum), most.max(minimum))
}
