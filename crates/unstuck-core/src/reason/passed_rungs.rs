//! Rungs that did not act: why the retry strategy did not, and which policies did not.

use crate::event::{Actor, Choice, UnitFact};
use crate::model::attempt::{Outcome, StuckLimit};
use crate::model::error::Error;
use crate::model::flow::{Kind, Step};
use crate::model::recovery::{Limits, RetryStrategy};
use crate::model::unit::{Unit, UnitRef};
use crate::policy::{PassedPolicy, PassedReason};
use crate::reason::fact_context::FactContext;
use crate::reason::phrases::{self, stuck_of, used_of, who};

/// Explains why rung 1 did not act on the unit's last attempt.
pub(super) fn why_not_retried(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> String {
    if let Some(actor) = who_chose_none(moment, unit) {
        return format!("{} chose none", who(actor));
    }
    if let Some(stuck) = describe_stuck_too_often(moment, unit, step) {
        return stuck;
    }
    why_strategy_did_not_act(
        step,
        moment.unit(unit),
        moment.last_ended_attempt(unit).map(|(_, outcome)| outcome),
    )
}

/// Returns the policies that this event records as matching the error without taking it.
pub(super) fn passed_policies<'a>(moment: &FactContext<'a>, unit: UnitRef) -> &'a [PassedPolicy] {
    let passed = moment.facts_before(unit).rev().find_map(|fact| {
        if let UnitFact::PassedOver { policies } = fact { Some(policies.as_slice()) } else { None }
    });
    passed.unwrap_or_default()
}

/// Describes why a policy did not take an error: ``policy `resets` is used up (3 of 3 rounds)``.
pub(super) fn describe_passed_policy(passed: &PassedPolicy) -> String {
    let name = &passed.policy.name;
    match passed.why {
        // A step may have had more rounds than this by other policies.
        PassedReason::Spent { max, .. } => {
            format!("policy `{name}` is used up ({max} of {max} {})", phrases::plural(max, "round"))
        }
        PassedReason::Disabled => format!("policy `{name}` is disabled"),
    }
}

/// As [`why_not_retried`], if an attempt ended in this event; nothing if the ladder was not climbed.
pub(super) fn why_not_retried_in_this_event(
    moment: &FactContext<'_>,
    unit: UnitRef,
    step: &Step,
) -> Option<String> {
    let ended_here = moment.facts_before(unit).any(|fact| matches!(fact, UnitFact::Ended { .. }));
    ended_here.then(|| why_not_retried(moment, unit, step))
}

/// Explains why a retry strategy did not act after this outcome: none is set, the error is fatal, or it is used up.
fn why_strategy_did_not_act(step: &Step, unit: Option<&Unit>, outcome: Option<&Outcome>) -> String {
    let fatal = matches!(outcome, Some(Outcome::Failed(_)));
    match step.retry {
        RetryStrategy::None => "no retry strategy".to_owned(),
        RetryStrategy::Retry { .. } if fatal => "a fatal error is not retried".to_owned(),
        RetryStrategy::Retry { max_attempts: Some(max), .. } => used_of(max, max),
        RetryStrategy::Hold { max_attempts: Some(max) } => {
            used_of(unit.map_or(max, |unit| unit.round.stalled), max)
        }
        // Without a limit these act on every error but a fatal one.
        RetryStrategy::Retry { max_attempts: None, .. } | RetryStrategy::Hold { max_attempts: None } => {
            "retryStrategy does not apply".to_owned()
        }
    }
}

/// Returns whether the step has no retry strategy.
pub(super) fn has_no_strategy(step: &Step) -> bool {
    matches!(step.retry, RetryStrategy::None)
}

/// Returns who chose `none` for this unit in this event, if anybody did.
pub(super) fn who_chose_none<'a>(moment: &FactContext<'a>, unit: UnitRef) -> Option<&'a Actor> {
    let chose = |fact: &UnitFact| matches!(fact, UnitFact::Chosen { choice: Choice::None, .. });
    moment.facts_before(unit).any(chose).then_some(&moment.event.by)
}

/// Describes that the step was stuck `maxStuck` times, if that is why its attempt failed.
pub(super) fn describe_stuck_too_often(
    moment: &FactContext<'_>,
    unit: UnitRef,
    step: &Step,
) -> Option<String> {
    let Some((_, Outcome::Failed(error))) = moment.last_ended_attempt(unit) else { return None };
    let ended_here = moment.facts_before(unit).any(|fact| matches!(fact, UnitFact::Ended { .. }));
    let max = step.limits.max_stuck;
    (moment.event.by == Actor::Engine && ended_here && is_own_limit(step, error)).then(|| stuck_of(max, max))
}

/// Returns whether the cause of an error is a limit of this step. The error of a child may have such a cause too; the
/// only limit of a `flow` step itself is its `timeout`.
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
    own.iter().any(|own| own.to_string() == limit || limit_text_of_older_stores(*own) == limit)
}

/// Formats a limit as older versions wrote it into the cause of an error.
fn limit_text_of_older_stores(limit: StuckLimit) -> String {
    match limit {
        StuckLimit::Start(span) => format!("not started within startTimeout {span}"),
        StuckLimit::Heartbeat(span) => format!("no sign of life within heartbeatTimeout {span}"),
        StuckLimit::Total(span) => format!("not done within timeout {span}"),
        StuckLimit::Gone => "its worker is gone".to_owned(),
    }
}
