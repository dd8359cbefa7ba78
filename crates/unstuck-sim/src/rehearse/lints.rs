//! Doubts about a flow and its policies: what will go wrong one night, told before it does. Pure functions.

use unstuck_core::model::flow::{Flow, Kind, Step};
use unstuck_core::model::recovery::{BackOff, Limits, RetryStrategy};
use unstuck_core::policy::{Policies, Policy};
use unstuck_core::time::Millis;
use unstuck_flow::plan::is_executed;

use super::Rehearsal;
use super::execution::ExecutedPlan;

/// A silence that is noticed later than this is worth a word.
const LATE: Millis = Millis::minutes(10);
/// Retries that go on for longer than this before anything else is tried are worth a word.
const LONG: Millis = Millis::hours(6);
/// An attempt that waited longer than this for a worker is worth a word.
const LONG_WAIT: Millis = Millis::minutes(10);

/// What somebody should look at, for the flows that take part.
pub fn doubts(rehearsal: &Rehearsal) -> Vec<String> {
    let policies = Policies::new(rehearsal.policies.clone()).unwrap_or_default();
    let mut doubts = Vec::new();
    for flow in &rehearsal.flows {
        let name = Name { flow, is_root: flow.name == rehearsal.flow };
        doubts.extend(flow.steps.iter().filter_map(|step| of_silence(&name, step)));
        doubts.extend(flow.steps.iter().filter_map(|step| of_retries(&name, step)));
        if is_ordinary(rehearsal, flow) {
            doubts.extend(of_rest(&name, rehearsal, &policies));
        }
        doubts.extend(flow.steps.iter().filter_map(|step| of_people(&name, step)));
    }
    doubts.extend(policies.shadows().into_iter().map(|shadow| {
        format!("policy `{}` can never match: `{}` matches the same errors first", shadow.policy, shadow.by)
    }));
    doubts
}

/// Whether a flow is the one that is run or a child of it: in a handler nothing rests in error.
fn is_ordinary(rehearsal: &Rehearsal, flow: &Flow) -> bool {
    let mut names = vec![rehearsal.flow.clone()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        let steps = rehearsal.flows.iter().filter(|flow| flow.name == name).flat_map(|flow| &flow.steps);
        for step in steps {
            if let Kind::Child(child) = &step.kind
                && !names.contains(child)
            {
                names.push(child.clone());
            }
        }
    }
    names.contains(&flow.name)
}

/// How steps of a flow are called.
struct Name<'a> {
    flow: &'a Flow,
    is_root: bool,
}

impl Name<'_> {
    fn of(&self, step: &Step) -> String {
        if self.is_root { format!("`{}`", step.id) } else { format!("`{}.{}`", self.flow.name, step.id) }
    }
}

/// After how long a silent attempt is noticed, and by which limit.
pub(super) fn noticed_after(step: &Step) -> Option<(Millis, &'static str)> {
    let Limits { heartbeat_timeout, timeout, .. } = step.limits;
    let lease = match step.kind {
        Kind::Action(_) => Some(heartbeat_timeout.unwrap_or(Limits::HEARTBEAT_TIMEOUT)),
        Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_) => heartbeat_timeout,
        Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_) => return None,
    };
    let lease = lease.map(|span| (span, "heartbeatTimeout"));
    lease.into_iter().chain(timeout.map(|span| (span, "timeout"))).min_by_key(|(span, _)| *span)
}

fn of_silence(name: &Name<'_>, step: &Step) -> Option<String> {
    let (span, limit) = noticed_after(step).filter(|(span, _)| *span >= LATE)?;
    let advice = match limit {
        "timeout" => "set heartbeatTimeout, or a shorter timeout",
        _ => "set a shorter heartbeatTimeout",
    };
    Some(format!("a stuck attempt of {} is noticed only after {span} ({limit}); {advice}", name.of(step)))
}

/// How long the retries of a step go on before anything else is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryLimit {
    /// There are none.
    None,
    /// So long at most.
    For(Millis),
    /// They never end.
    ForEver,
}

fn retries(step: &Step) -> RetryLimit {
    let RetryStrategy::Retry { max_attempts, back_off } = step.retry else { return RetryLimit::None };
    let Some(max) = max_attempts else { return RetryLimit::ForEver };
    let mut all = Millis::ZERO;
    for tries in 1..max.min(100_000) {
        let wait = back_off.map_or(step.limits.minimum_delay, |back_off| longest(&back_off, tries));
        all = all.plus(wait.max(step.limits.minimum_delay));
    }
    RetryLimit::For(all)
}

fn longest(back_off: &BackOff, tries: u32) -> Millis {
    let BackOff { delay, max_delay, multiplier, random } = *back_off;
    if random {
        return max_delay.unwrap_or(delay);
    }
    let grown = multiplier.map_or(delay, |multiplier| delay.times(multiplier * f64::from(tries)));
    max_delay.map_or(grown, |max| grown.min(max))
}

fn of_retries(name: &Name<'_>, step: &Step) -> Option<String> {
    match retries(step) {
        RetryLimit::ForEver if name.flow.deadline.is_none() => Some(format!(
            "retries of {} never end (maxAttempts: -1), and the run has no deadline: no policy or handler is ever reached",
            name.of(step)
        )),
        RetryLimit::For(span) if span >= LONG => {
            Some(format!("retries of {} take {span} before a policy or handler is reached", name.of(step)))
        }
        RetryLimit::None | RetryLimit::For(_) | RetryLimit::ForEver => None,
    }
}

/// Steps whose error nothing takes.
fn of_rest(name: &Name<'_>, rehearsal: &Rehearsal, policies: &Policies) -> Option<String> {
    let rests: Vec<String> = name
        .flow
        .steps
        .iter()
        .filter(|step| {
            may_rest(step) && !policies.iter().any(|policy| may_take(policy, step, &rehearsal.flow))
        })
        .map(|step| name.of(step))
        .collect();
    let which = match rests.as_slice() {
        [] => return None,
        [one] => format!("step {one} has"),
        _ => format!("steps {} have", listed(&rests)),
    };
    let at_last =
        if name.flow.deadline.is_some() { "until its deadline" } else { "until an operator resumes it" };
    Some(format!("a run can stay in error {at_last}: {which} no policy and no exceptionHandler"))
}

/// Whether an error of the step can come to rung 5.
fn may_rest(step: &Step) -> bool {
    let is_bounded = match step.retry {
        RetryStrategy::None => true,
        RetryStrategy::Retry { max_attempts, .. } | RetryStrategy::Hold { max_attempts } => {
            max_attempts.is_some()
        }
    };
    is_executed(step) && is_bounded && step.fail_on_error && step.exception_handler.is_none()
}

/// Whether a policy may be about an error of this step, whatever its cause.
fn may_take(policy: &Policy, step: &Step, root: &str) -> bool {
    let criteria = &policy.criteria;
    policy.enabled
        && criteria.flow.as_deref().is_none_or(|flow| flow == root)
        && criteria.action.as_deref().is_none_or(|action| action == &*step.full_action)
        && criteria.action_type.as_deref().is_none_or(|label| Some(label) == step.action_type.as_deref())
}

/// Steps that wait for a person or a signal without an end.
fn of_people(name: &Name<'_>, step: &Step) -> Option<String> {
    if name.flow.deadline.is_some() {
        return None;
    }
    if let RetryStrategy::Hold { .. } = step.retry {
        return Some(format!(
            "{} is held for an operator after an error, and the run has no deadline: it may wait forever",
            name.of(step)
        ));
    }
    match &step.kind {
        Kind::Signal(signal) if step.limits.timeout.is_none() => Some(format!(
            "{} waits for signal `{signal}` without a timeout, and the run has no deadline: it may wait forever",
            name.of(step)
        )),
        _ => None,
    }
}

/// What was seen in the rehearsal: too few workers.
pub(super) fn of_waiting(played: &ExecutedPlan, workers: u32, max_load: u32) -> Option<String> {
    let (waited, flow, step) = played.ledger.longest_wait.filter(|(waited, _, _)| *waited >= LONG_WAIT)?;
    let step = played.flows.get(&flow)?.step(step);
    let who = match step.kind {
        Kind::Action(_) => format!("{workers} workers with maxLoad {max_load} are too few"),
        _ => "none was free".to_owned(),
    };
    Some(format!("an attempt of `{}` waited {waited} for a worker: {who}", step.id))
}

/// `a`, `b` and 3 more.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 6;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] if names.len() <= SHOWN => format!("{} and {last}", head.join(", ")),
        _ => format!("{} and {} more", names[..SHOWN - 1].join(", "), names.len() - SHOWN + 1),
    }
}
