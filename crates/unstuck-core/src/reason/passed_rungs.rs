//! Rungs that were passed over: why the retry strategy of a step did not act, and which policies did not.

use crate::event::{Actor, Choice, UnitFact};
use crate::model::attempt::{Outcome, StuckLimit};
use crate::model::error::Error;
use crate::model::flow::{Kind, Step};
use crate::model::recovery::{Limits, RetryStrategy};
use crate::model::unit::{Unit, UnitRef};
use crate::policy::{PassedPolicy, PassedReason};
use crate::reason::fact_context::FactContext;
use crate::reason::phrases::{self, stuck_of, used_of, who};

/// Why rung 1 did not act.
pub(super) fn first_rung(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> String {
    if let Some(actor) = chose_none(moment, unit) {
        return format!("{} chose none", who(actor));
    }
    if let Some(stuck) = given_up_as_stuck(moment, unit, step) {
        return stuck;
    }
    strategy(step, moment.unit(unit), moment.last_ended(unit).map(|(_, outcome)| outcome))
}

/// Which policies are about the error and did not take it, as this event says.
pub(super) fn policies<'a>(moment: &FactContext<'a>, unit: UnitRef) -> &'a [PassedPolicy] {
    let passed = moment.before(unit).rev().find_map(|fact| {
        if let UnitFact::PassedOver { policies } = fact { Some(policies.as_slice()) } else { None }
    });
    passed.unwrap_or_default()
}

/// Why a policy did not take an error: `policy `resets` is used up (round 3 of 3)`.
pub(super) fn policy(passed: &PassedPolicy) -> String {
    let name = &passed.policy.name;
    match passed.why {
        // Of more rounds than these, others were another policy's.
        PassedReason::Spent { max, .. } => {
            format!("policy `{name}` is used up ({max} of {max} {})", phrases::plural(max, "round"))
        }
        PassedReason::Disabled => format!("policy `{name}` is disabled"),
    }
}

/// Why rung 1 did not act, if the ladder was climbed in this event.
pub(super) fn in_this_event(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> Option<String> {
    let ended_here = moment.before(unit).any(|fact| matches!(fact, UnitFact::Ended { .. }));
    ended_here.then(|| first_rung(moment, unit, step))
}

/// Why the strategy as such did not act after an attempt that ended so.
fn strategy(step: &Step, unit: Option<&Unit>, outcome: Option<&Outcome>) -> String {
    let fatal = matches!(outcome, Some(Outcome::Failed(_)));
    match step.retry {
        RetryStrategy::None => "no retry strategy".to_owned(),
        RetryStrategy::Retry { .. } if fatal => "a fatal error is not retried".to_owned(),
        RetryStrategy::Retry { max_attempts: Some(max), .. } => used_of(max, max),
        RetryStrategy::Hold { max_attempts: Some(max) } => {
            used_of(unit.map_or(max, |unit| unit.round.stalled), max)
        }
        // Without a limit these act every time; a fatal error apart, nothing gets past them.
        RetryStrategy::Retry { max_attempts: None, .. } | RetryStrategy::Hold { max_attempts: None } => {
            "retryStrategy does not apply".to_owned()
        }
    }
}

/// Whether the step has no retry strategy at all.
pub(super) fn has_no_strategy(step: &Step) -> bool {
    matches!(step.retry, RetryStrategy::None)
}

/// Who chose `none` for this unit in this event.
pub(super) fn chose_none<'a>(moment: &FactContext<'a>, unit: UnitRef) -> Option<&'a Actor> {
    let chose = |fact: &UnitFact| matches!(fact, UnitFact::Chosen { choice: Choice::None, .. });
    moment.before(unit).any(chose).then_some(&moment.event.by)
}

/// That the step has been stuck `maxStuck` times, if that is why its attempt failed.
pub(super) fn given_up_as_stuck(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> Option<String> {
    let Some((_, Outcome::Failed(error))) = moment.last_ended(unit) else { return None };
    let ended_here = moment.before(unit).any(|fact| matches!(fact, UnitFact::Ended { .. }));
    let max = step.limits.max_stuck;
    (moment.event.by == Actor::Engine && ended_here && is_own_limit(step, error)).then(|| stuck_of(max, max))
}

/// Whether an error says that the step ran into a limit of its own. A child may have failed of such a cause too, but
/// the only limit of a step with a child is its `timeout`.
fn is_own_limit(step: &Step, error: &Error) -> bool {
    let Some(limit) = error.cause.strip_prefix("stuck: ") else { return false };
    let limits = &step.limits;
    let mut own = Vec::from_iter(limits.timeout.map(StuckLimit::Total));
    if !matches!(step.kind, Kind::Child(_)) {
        let silence = limits.heartbeat_timeout.unwrap_or(Limits::HEARTBEAT_TIMEOUT);
        own.extend([
            StuckLimit::Start(limits.start_timeout),
            StuckLimit::Heartbeat(silence),
            StuckLimit::Gone,
        ]);
    }
    own.iter().any(|own| own.to_string() == limit || as_written_before(*own) == limit)
}

/// How older stores have the limit in the cause of an error.
fn as_written_before(limit: StuckLimit) -> String {
    match limit {
        StuckLimit::Start(span) => format!("not started within startTimeout {span}"),
        StuckLimit::Heartbeat(span) => format!("no sign of life within heartbeatTimeout {span}"),
        StuckLimit::Total(span) => format!("not done within timeout {span}"),
        StuckLimit::Gone => "its worker is gone".to_owned(),
    }
}
