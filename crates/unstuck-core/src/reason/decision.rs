//! Facts that are decisions: which rung acted, by which rule, why, and what follows.

use std::sync::Arc;

use crate::event::{Actor, Amended, Choice, Fact, UnitFact};
use crate::id::RunId;
use crate::model::attempt::{Cancelled, Outcome, ResumedBy};
use crate::model::error::{DEADLINE_ACTION, RunError};
use crate::model::flow::{Kind, Step};
use crate::model::recovery::RetryStrategy;
use crate::model::run::{Limit, PausedBy, Phase, Run, RunEnd, RunOutcome, Slot};
use crate::model::unit::{QueuePlace, SkippedBy, UnitRef};
use crate::policy::{PassedPolicy, PassedReason, PolicyRef};
use crate::reason::fact_context::FactContext;
use crate::reason::phrases::{self, cause, count, in_their_words, stuck_of, used_of, who};
use crate::reason::{Rung, passed_rungs, rule};
use crate::time::{Millis, Time};

/// The first words where only an operator can move a step.
const NEEDS_OPERATOR: &str = "needs an operator";

/// A decision, in the parts of its sentence.
pub(super) struct DecisionText {
    pub(super) unit: Option<UnitRef>,
    /// The attempt that it follows.
    pub(super) attempt: Option<u32>,
    pub(super) rung: Rung,
    pub(super) rule: String,
    /// How that attempt ended.
    pub(super) ended: Option<String>,
    /// Why this rung: the budget, and the rungs that were passed over.
    pub(super) why: Vec<String>,
    /// What follows.
    pub(super) then: String,
    /// When that is due.
    pub(super) due: Option<Time>,
    /// How, beyond that.
    pub(super) how: Option<String>,
}

impl DecisionText {
    /// Starts a decision text: what decided, by which rule, and what follows.
    fn new(rung: Rung, rule: impl Into<String>, then: impl Into<String>) -> DecisionText {
        DecisionText {
            unit: None,
            attempt: None,
            rung,
            rule: rule.into(),
            ended: None,
            why: Vec::new(),
            then: then.into(),
            due: None,
            how: None,
        }
    }

    /// Adds a reason.
    fn because(mut self, why: impl Into<String>) -> DecisionText {
        self.why.push(why.into());
        self
    }

    /// Sets when what follows is due.
    fn due(mut self, due: Time) -> DecisionText {
        self.due = Some(due);
        self
    }

    /// Relates the decision to a unit and to its last ended attempt.
    fn with_last_attempt(mut self, moment: &FactContext<'_>, unit: UnitRef) -> DecisionText {
        self.unit = Some(unit);
        if let Some((attempt, outcome)) = moment.last_ended_attempt(unit) {
            self.attempt = Some(attempt);
            self.ended = Some(phrases::describe_end(attempt, outcome));
        }
        self
    }

    /// Formats the whole decision: how the attempt ended, then what follows, when and why.
    pub(super) fn to_reason(&self) -> String {
        let due = self.due.map_or(String::new(), |due| format!(", at {due}"));
        let how = self.how.as_ref().map_or(String::new(), |how| format!(", {how}"));
        let text = self.with_why(&format!("{}{due}{how}", self.then));
        match &self.ended {
            None => text,
            Some(ended) => phrases::join_sentences(ended, &text),
        }
    }

    /// Formats the decision without the attempt's end and the exact time, which a log has shown already.
    pub(super) fn to_log_text(&self) -> String {
        self.with_why(&self.then)
    }

    /// Appends the reasons to a sentence.
    fn with_why(&self, then: &str) -> String {
        if self.why.is_empty() { then.to_owned() } else { format!("{then}: {}", self.why.join("; ")) }
    }
}

/// Returns the decision that a fact represents, if it is one.
pub(super) fn decision_text(moment: &FactContext<'_>) -> Option<DecisionText> {
    match moment.fact() {
        Fact::Unit { unit, fact } => unit_decision_text(moment, *unit, fact),
        Fact::Admitted => Some(admitted_text(moment)),
        Fact::Paused { by, reason } => Some(paused_text(moment, *by, reason.as_ref())),
        Fact::Unpaused => {
            let then = describe_request(moment, "unpaused", "unpaused with its parent", None);
            Some(by_user_or_parent(moment, "unpause", then).because("the run continues"))
        }
        Fact::Amended(amended) => {
            let then =
                describe_request(moment, "changed", "changed with its parent", amended.reason.as_ref());
            Some(by_user_or_parent(moment, "amend", then).because(describe_amendment(amended)))
        }
        Fact::Migrated(migrated) => {
            let done = format!("moved from version `{}` to version `{}`", migrated.from, migrated.version);
            let then = describe_request(moment, &done, &done, migrated.reason.as_ref());
            let why = "steps that have begun are the same there".to_owned();
            Some(by_user_or_parent(moment, "migrate", then).because(why))
        }
        Fact::RunCancelled { reason } => {
            let parent = reason.as_deref().unwrap_or("its parent no longer needs it");
            let then =
                describe_request(moment, "cancelled", &format!("cancelled ({parent})"), reason.as_ref());
            let decision = by_user_or_parent(moment, "cancel", then);
            Some(decision.because("running attempts are stopped").because("children are cancelled"))
        }
        Fact::Reran { generation, steps, keep, keep_children, .. } => {
            let rule = if *keep_children { "rerun: continue" } else { "rerun" };
            let (kept, noun) = (keep.len(), phrases::plural(u32::from(*steps), "step"));
            let why = format!("generation {generation} starts and keeps {kept} of {steps} {noun}");
            let then = describe_request(moment, "rerun", "rerun by its parent", None);
            Some(by_user_or_parent(moment, rule, then).because(why))
        }
        Fact::Failing { error, handler } => Some(failing_text(moment, error, handler.as_ref())),
        Fact::RunFailed { handler_error } => run_failed_text(moment, handler_error.as_deref()),
        Fact::Completed { .. } => Some(completed_text(moment)),
        Fact::Started(_)
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::HandlerStarted { .. }
        | Fact::HandlerChanged { .. }
        | Fact::ItemsKnown { .. }
        | Fact::ItemsCompleted { .. }
        | Fact::ItemsEnded { .. } => None,
    }
}

/// Returns the decision that a fact about a unit represents, if it is one.
fn unit_decision_text(moment: &FactContext<'_>, unit: UnitRef, fact: &UnitFact) -> Option<DecisionText> {
    let step = moment.step(unit)?;
    let decision = match fact {
        UnitFact::Retry { due, delay, stalled, max } => retry_text(step, *delay, *stalled, *max).due(*due),
        UnitFact::Held => held_text(moment, unit, step),
        UnitFact::Ignored => ignored_text(moment, unit, step),
        UnitFact::Scheduled { due, delay, policy, rounds, max } => {
            scheduled_text(moment, unit, step, policy, (*rounds, *max), *delay).due(*due)
        }
        UnitFact::PassedOver { .. } => return None,
        UnitFact::LeftInError => left_in_error_text(moment, unit, step),
        UnitFact::Acknowledged { reason } => acknowledged_text(moment, reason.as_ref()),
        UnitFact::DoneByHand { reason, .. } => done_by_hand_text(moment, reason.as_ref()),
        UnitFact::Failed => failed_while_failing(moment, unit)?,
        UnitFact::Deferred { due, delay } => deferred_text(moment, unit, step, *delay).due(*due),
        UnitFact::Requeued { due, stuck, max, place } => {
            let delay = due.since(moment.event.time());
            requeued_text(moment, unit, step, (*stuck, *max), *place, delay).due(*due)
        }
        UnitFact::Skipped { why, reason } => skipped_text(moment, step, *why, reason.as_ref()),
        UnitFact::Chosen { choice, .. } => chosen_text(moment, *choice),
        UnitFact::Resumed { by: ResumedBy::Policy, reason: Some(policy), waited: Some(waited), .. } => {
            let late = format!("{waited} late because automatic resumes were paused");
            let decision = resumed_text(moment, unit, ResumedBy::Policy, None);
            DecisionText { then: format!("resumed by policy `{policy}`, {late}"), ..decision }
        }
        UnitFact::Resumed { by, reason, .. } => resumed_text(moment, unit, *by, reason.as_ref()),
        UnitFact::Ended { attempt, outcome: Outcome::Cancelled(Cancelled::Released) } => {
            let decision = released_text(moment, unit)?;
            return Some(DecisionText { unit: Some(unit), attempt: Some(*attempt), ..decision });
        }
        UnitFact::Ended { attempt, outcome: Outcome::Cancelled(Cancelled::Deadline) } => {
            let decision = stopped_by_deadline_while_failing(moment)?;
            return Some(DecisionText { unit: Some(unit), attempt: Some(*attempt), ..decision });
        }
        UnitFact::Ended { .. }
        | UnitFact::InputBound { .. }
        | UnitFact::Queued { .. }
        | UnitFact::Dequeued { .. }
        | UnitFact::Started { .. }
        | UnitFact::Progress { .. }
        | UnitFact::ReportIgnored { .. }
        | UnitFact::LimitExtended { .. }
        | UnitFact::Done { .. }
        | UnitFact::TimerSet { .. }
        | UnitFact::SignalAwaited { .. }
        | UnitFact::ChildStarted { .. }
        | UnitFact::ChildChanged { .. }
        | UnitFact::Closed { .. } => return None,
    };
    Some(decision.with_last_attempt(moment, unit))
}

/// Rung 1: a retry after a delay, within its budget.
fn retry_text(step: &Step, delay: Millis, stalled: u32, max: Option<u32>) -> DecisionText {
    let budget = if let Some(max) = max {
        used_of(stalled, max)
    } else {
        let noun = phrases::plural(stalled, "attempt");
        format!("{stalled} {noun} used in this round, no limit")
    };
    let minimum = matches!(step.retry, RetryStrategy::Retry { back_off: None, .. });
    let which = if minimum { " (minimumDelay)" } else { "" };
    DecisionText::new(Rung::RetryStrategy, rule::retry_rule(step), format!("retrying in {delay}{which}"))
        .because(budget)
}

/// Rung 1: held for an operator.
fn held_text(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> DecisionText {
    let then = "held until an operator chooses retry or none";
    let decision = DecisionText::new(Rung::RetryStrategy, rule::retry_rule(step), then);
    let decision = match passed_rungs::describe_stuck_too_often(moment, unit, step) {
        Some(stuck) => decision.because(stuck),
        None => decision,
    };
    let used = moment.unit(unit).map_or(1, |unit| unit.round.stalled);
    match step.retry {
        RetryStrategy::Hold { max_attempts: Some(max) } => decision.because(used_of(used, max)),
        RetryStrategy::Hold { max_attempts: None } | RetryStrategy::Retry { .. } | RetryStrategy::None => {
            decision.because("retryStrategy is hold")
        }
    }
}

/// Rung 2: the flow continues without the step.
fn ignored_text(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> DecisionText {
    let then = match unit.item {
        None => "failed; the flow continues with output null",
        Some(_) => "failed; the flow continues with null in its place",
    };
    DecisionText::new(Rung::FailOnError, "failOnError: false", then)
        .because(passed_rungs::why_not_retried(moment, unit, step))
        .because("failOnError is false")
}

/// Rung 5 for a step: it stays in error, because no rung acted or its policy is gone.
fn left_in_error_text(moment: &FactContext<'_>, unit: UnitRef, step: &Step) -> DecisionText {
    let policies = passed_rungs::passed_policies(moment, unit);
    let policy = if policies.is_empty() { "policy" } else { "other policy" };
    let mut decision = match passed_rungs::why_not_retried_in_this_event(moment, unit, step) {
        None => {
            DecisionText::new(Rung::Rest, "resume policy", NEEDS_OPERATOR).because(why_matched_again(moment))
        }
        Some(passed) => {
            let decision = DecisionText::new(Rung::Rest, rule::nothing_acts(step), NEEDS_OPERATOR);
            if passed_rungs::has_no_strategy(step) { decision } else { decision.because(passed) }
        }
    };
    decision = policies
        .iter()
        .fold(decision, |decision, passed| decision.because(passed_rungs::describe_passed_policy(passed)));
    let nothing = match (decision.rule.as_str(), passed_rungs::has_no_strategy(step)) {
        ("resume policy", _) => format!("no {policy} applies"),
        (_, true) => format!("no retry, {policy} or exception handler applies"),
        (_, false) => format!("no {policy} or exception handler applies"),
    };
    decision = decision.because(nothing);
    let spent = |passed: &&PassedPolicy| matches!(passed.why, PassedReason::Spent { .. });
    match policies.iter().filter(spent).count() {
        0 => decision,
        1 => decision.because("a manual resume resets the rounds of the policy"),
        _ => decision.because("a manual resume resets the rounds of the policies"),
    }
}

/// Rung 3: a policy resumes the step. Also for policies that were applied by hand, and for a due resume whose policy is
/// disabled or gone.
fn scheduled_text(
    moment: &FactContext<'_>,
    unit: UnitRef,
    step: &Step,
    policy: &PolicyRef,
    (rounds, max): (u32, u32),
    delay: Millis,
) -> DecisionText {
    let rule = format!("resume policy `{}`, version {}", policy.name, policy.version);
    let passed = passed_rungs::why_not_retried_in_this_event(moment, unit, step);
    let when = if passed.is_some() { format!("in {delay}") } else { format!("{delay} after its error") };
    let then = format!("policy `{}` resumes it {when} (round {rounds} of {max})", policy.name);
    let decision = DecisionText::new(Rung::ResumePolicy, rule, then);
    let decision = decision.because(passed.unwrap_or_else(|| why_matched_again(moment)));
    let passed = passed_rungs::passed_policies(moment, unit).iter();
    passed.fold(decision, |decision, passed| decision.because(passed_rungs::describe_passed_policy(passed)))
}

/// Explains why an error is matched against the policies once more.
fn why_matched_again(moment: &FactContext<'_>) -> String {
    match &moment.event.by {
        by @ Actor::User(_) => format!("{} applied the policies", who(by)),
        Actor::Engine | Actor::Worker => {
            "the policy that was to resume it is disabled, deleted or changed".to_owned()
        }
    }
}

/// An operator acknowledged the error.
fn acknowledged_text(moment: &FactContext<'_>, reason: Option<&Arc<str>>) -> DecisionText {
    let words = in_their_words(reason.map(|reason| &**reason));
    let then = format!("acknowledged by {}{words}", who(&moment.event.by));
    DecisionText::new(Rung::Operator, "acknowledge", then).because("stays in error, and no policy resumes it")
}

/// An operator completed the step by hand.
fn done_by_hand_text(moment: &FactContext<'_>, reason: Option<&Arc<str>>) -> DecisionText {
    let words = in_their_words(reason.map(|reason| &**reason));
    let then = format!("completed by hand by {}{words}", who(&moment.event.by));
    DecisionText::new(Rung::Operator, "complete", then).because("the flow continues")
}

/// A unit fails while its run is failing already. Returns nothing if it is this unit that makes the run fail, because
/// that fact tells it.
fn failed_while_failing(moment: &FactContext<'_>, unit: UnitRef) -> Option<DecisionText> {
    let tells = |fact: &Fact| matches!(fact, Fact::Failing { error, .. } if error.unit == Some(unit));
    if moment.event.facts[moment.place..].iter().any(tells) {
        return None;
    }
    Some(
        DecisionText::new(Rung::Failed, "the run is failing", "no retry")
            .because("the run is already failing"),
    )
}

/// Rung 4 or 5 for the run, or its deadline: what happens until it is failed, and why.
fn failing_text(moment: &FactContext<'_>, failed: &RunError, handler: Option<&Arc<str>>) -> DecisionText {
    if failed.error.found_by.as_deref() == Some(DEADLINE_ACTION) {
        return deadline_text(moment, failed, handler);
    }
    let first = match moment.count_active() {
        0 => None,
        1 => Some("when the running attempt has ended".to_owned()),
        n => Some(format!("when the {n} running attempts have ended")),
    };
    let then = describe_way_to_failed(first, handler);
    let step = failed.unit.and_then(|unit| moment.step(unit));
    let (rung, rule) = match (handler, step) {
        (Some(handler), _) => (Rung::ExceptionHandler, rule::handler_rule(handler)),
        (None, Some(step)) => (Rung::Failed, rule::nothing_acts(step)),
        (None, None) => (Rung::Failed, "no exceptionHandler".to_owned()),
    };
    let mut decision = DecisionText::new(rung, rule, then);
    let climbed = failed.unit.zip(step).filter(|(unit, _)| moment.last_ended_attempt(*unit).is_some());
    if let Some((unit, step)) = climbed {
        decision = add_passed_rungs(moment, (unit, step), decision);
    } else {
        // An error of a whole fan-out, or of the run's output, has no attempt.
        decision = DecisionText { unit: failed.unit, ended: Some(cause(&failed.error)), ..decision };
        if handler.is_none() {
            decision = decision.because("no exception handler applies");
        }
    }
    decision
}

/// Adds why no rung before the handler acted, and that there is no handler where the run fails without one.
fn add_passed_rungs(
    moment: &FactContext<'_>,
    (unit, step): (UnitRef, &Step),
    decision: DecisionText,
) -> DecisionText {
    let policies = passed_rungs::passed_policies(moment, unit);
    let chosen = passed_rungs::who_chose_none(moment, unit).is_some();
    let has_no_strategy = passed_rungs::has_no_strategy(step)
        && passed_rungs::describe_stuck_too_often(moment, unit, step).is_none();
    let has_handler = decision.rung == Rung::ExceptionHandler;
    let mut decision = decision;
    if !has_no_strategy {
        decision = decision.because(passed_rungs::why_not_retried(moment, unit, step));
    }
    decision = policies
        .iter()
        .fold(decision, |decision, passed| decision.because(passed_rungs::describe_passed_policy(passed)));
    decision = add_why_not_left_in_error(moment, unit, decision).with_last_attempt(moment, unit);
    let policy = if policies.is_empty() { "policy" } else { "other policy" };
    match (has_no_strategy, chosen, has_handler) {
        (_, true, true) => decision,
        (_, true, false) => decision.because("no exception handler applies"),
        (true, false, true) => decision.because(format!("no retry or {policy} applies")),
        (false, false, true) => decision.because(format!("no {policy} applies")),
        (true, false, false) => decision.because(format!("no retry, {policy} or exception handler applies")),
        (false, false, false) => decision.because(format!("no {policy} or exception handler applies")),
    }
}

/// The deadline stopped an attempt of a run that was failing already. Returns nothing if the same event makes the run
/// fail, because that decision tells it.
fn stopped_by_deadline_while_failing(moment: &FactContext<'_>) -> Option<DecisionText> {
    if moment.event.facts.iter().any(|fact| matches!(fact, Fact::Failing { .. })) {
        return None;
    }
    let decision =
        DecisionText::new(Rung::Deadline, rule::deadline_rule(moment.flow, moment.run), "attempt stopped");
    Some(decision.because("the run is failing and missed its deadline"))
}

/// The run missed its deadline.
fn deadline_text(moment: &FactContext<'_>, failed: &RunError, handler: Option<&Arc<str>>) -> DecisionText {
    let then = format!(
        "{}; running attempts were stopped and children cancelled; {}",
        cause(&failed.error),
        describe_way_to_failed(None, handler)
    );
    DecisionText::new(Rung::Deadline, rule::deadline_rule(moment.flow, moment.run), then)
}

/// Describes the way to `failed`: after `first`, if something ends first, and with the handler, if there is one.
fn describe_way_to_failed(first: Option<String>, handler: Option<&Arc<str>>) -> String {
    match (first, handler) {
        (None, None) => "the run fails".to_owned(),
        (Some(first), None) => format!("the run fails {first}"),
        (None, Some(handler)) => {
            format!("remaining steps are dropped, exception handler `{handler}` runs, then the run fails")
        }
        (Some(first), Some(handler)) => {
            format!(
                "remaining steps are dropped, exception handler `{handler}` runs {first}, then the run fails"
            )
        }
    }
}

/// Adds why a stalled step of a handler fails instead of staying in error.
fn add_why_not_left_in_error(
    moment: &FactContext<'_>,
    unit: UnitRef,
    decision: DecisionText,
) -> DecisionText {
    let stalled = matches!(moment.last_ended_attempt(unit), Some((_, Outcome::Stalled(_))));
    let in_handler = moment.run.is_some_and(|run| run.origin.is_in_handler());
    if stalled
        && in_handler
        && decision.rung == Rung::Failed
        && passed_rungs::who_chose_none(moment, unit).is_none()
    {
        return decision.because("an exception handler does not wait for an operator");
    }
    decision
}

/// The run failed after its handler or its last attempt ended. Returns nothing if it failed at once, because the
/// decision to fail tells it.
fn run_failed_text(moment: &FactContext<'_>, handler_error: Option<&RunError>) -> Option<DecisionText> {
    if moment.event.facts.iter().any(|fact| matches!(fact, Fact::Failing { .. })) {
        return None;
    }
    let handler = find_handler(moment, moment.run?);
    let then = "the run failed";
    let Some((flow, run)) = handler else {
        let decision = DecisionText::new(Rung::Failed, "no exceptionHandler", then);
        return Some(decision.because("its running attempts have ended"));
    };
    let why = match handler_error {
        None => format!("exception handler {run} completed"),
        Some(error) => format!("exception handler {run} failed too ({})", cause(&error.error)),
    };
    let rule = flow.map_or("exceptionHandler".to_owned(), |flow| rule::handler_rule(&flow));
    Some(DecisionText::new(Rung::ExceptionHandler, rule, then).because(why))
}

/// Finds the handler of a failed run: its flow, if the failed step names it, and its run.
fn find_handler(moment: &FactContext<'_>, run: &Run) -> Option<(Option<Arc<str>>, RunId)> {
    let Phase::Ended(RunEnd { how: RunOutcome::Failed { error, handler }, .. }) = &run.phase else {
        return None;
    };
    let (run, _) = handler.as_ref()?;
    let step = error.unit.and_then(|unit| moment.step(unit));
    Some((step.and_then(|step| step.exception_handler.clone()), *run))
}

/// A deferral, with what is left of its limit.
fn deferred_text(moment: &FactContext<'_>, unit: UnitRef, step: &Step, delay: Millis) -> DecisionText {
    let decision = DecisionText::new(Rung::Deferral, rule::defer_rule(step), format!("retrying in {delay}"));
    match moment.unit(unit).map(|unit| unit.round) {
        None => decision,
        Some(round) => {
            let limit = step.defer.limit;
            let left = Millis(limit.0.saturating_sub(round.deferred.0));
            decision.because(format!(
                "deferral {} of this round, {} of at most {limit} used ({left} left)",
                round.deferrals, round.deferred
            ))
        }
    }
}

/// A stuck attempt is tried again, with what is left of `maxStuck`.
fn requeued_text(
    moment: &FactContext<'_>,
    unit: UnitRef,
    step: &Step,
    (stuck, max): (u32, u32),
    place: QueuePlace,
    delay: Millis,
) -> DecisionText {
    let mut decision =
        DecisionText::new(Rung::Stuck, rule::stuck_rule(&step.limits, None), format!("retrying in {delay}"));
    if let Some((_, Outcome::Stuck(found))) = moment.last_ended_attempt(unit) {
        decision.rule = rule::stuck_rule(&step.limits, Some(found.limit));
        decision = decision.because(format!("last heard from at {}", found.heard));
        if found.free {
            decision = decision.because("not counted because its worker lost several attempts at once");
        }
    }
    let decision = decision.because(stuck_of(stuck, max));
    let place_text = match (place.front, place.alone) {
        (true, false) => "at the front of its queue",
        (true, true) => "at the front of its queue, on a worker that runs nothing else",
        (false, false) => "at the back of its queue",
        (false, true) => "at the back of its queue, on a worker that runs nothing else",
    };
    let queued = !matches!(step.kind, Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_));
    DecisionText { how: queued.then(|| place_text.to_owned()), ..decision }
}

/// The step was skipped, by its condition or by an operator.
fn skipped_text(
    moment: &FactContext<'_>,
    step: &Step,
    why: SkippedBy,
    reason: Option<&Arc<str>>,
) -> DecisionText {
    match why {
        SkippedBy::Condition => DecisionText::new(Rung::Condition, rule::condition_rule(step), "skipped")
            .because("its condition is false"),
        SkippedBy::Operator => {
            let words = in_their_words(reason.map(|reason| &**reason));
            DecisionText::new(Rung::Operator, "skip", format!("skipped by {}{words}", who(&moment.event.by)))
        }
    }
}

/// An operator chose for a held step.
fn chosen_text(moment: &FactContext<'_>, choice: Choice) -> DecisionText {
    let who = who(&moment.event.by);
    match choice {
        Choice::Retry => DecisionText::new(Rung::Operator, "choose retry", "one more attempt in this round")
            .because(format!("{who} chose retry")),
        Choice::None => DecisionText::new(Rung::Operator, "choose none", "no more attempts")
            .because(format!("{who} chose none")),
    }
}

/// A new round: by an operator, a policy or a rerun.
fn resumed_text(
    moment: &FactContext<'_>,
    unit: UnitRef,
    by: ResumedBy,
    reason: Option<&Arc<str>>,
) -> DecisionText {
    let rung = match by {
        ResumedBy::Operator | ResumedBy::Rerun => Rung::Operator,
        ResumedBy::Policy => Rung::ResumePolicy,
        ResumedBy::Retry => Rung::RetryStrategy,
        ResumedBy::Defer => Rung::Deferral,
        ResumedBy::Release | ResumedBy::Reclaim => Rung::Stuck,
    };
    let why = match moment.unit(unit).map(|unit| unit.round.number) {
        Some(round) => format!("round {round} starts with full budgets"),
        None => "a new round starts with full budgets".to_owned(),
    };
    let then = if let (ResumedBy::Policy, Some(policy)) = (by, reason) {
        format!("resumed by policy `{policy}`")
    } else {
        format!("resumed by {}{}", who(&moment.event.by), in_their_words(reason.map(|reason| &**reason)))
    };
    DecisionText::new(rung, "resume", then).because(why)
}

/// A worker gave its attempt back, and it is queued again. Returns nothing in a failing run, where the attempt just
/// ends.
fn released_text(moment: &FactContext<'_>, unit: UnitRef) -> Option<DecisionText> {
    let (attempt, next) = moment.facts_after(unit).find_map(|fact| {
        if let UnitFact::Queued { attempt, .. } = fact {
            Some((attempt.saturating_sub(1), *attempt))
        } else {
            None
        }
    })?;
    let decision =
        DecisionText::new(Rung::Release, "release", format!("attempt {attempt} was released by its worker"));
    Some(decision.because(format!("attempt {next} is queued first, and no budget is used")))
}

/// The run got a slot of its limit.
fn admitted_text(moment: &FactContext<'_>) -> DecisionText {
    let then = match moment.run.map(|run| &run.slot) {
        Some(Slot::Taken(Limit { name, max, .. }) | Slot::Wanted(Limit { name, max, .. })) => {
            let runs = count(*max as usize, "run", "runs");
            format!("the run got a slot of limit `{name}` (at most {runs} at once)")
        }
        Some(Slot::Unlimited) | None => "the run got a slot".to_owned(),
    };
    DecisionText::new(Rung::Concurrency, rule::concurrency_rule(moment.flow), then)
}

/// The run was paused, by an operator or with its parent.
fn paused_text(moment: &FactContext<'_>, by: PausedBy, reason: Option<&Arc<str>>) -> DecisionText {
    let with_parent = "paused with its parent";
    let decision = match by {
        PausedBy::Operator => {
            by_user_or_parent(moment, "pause", describe_request(moment, "paused", with_parent, reason))
        }
        PausedBy::Parent => DecisionText::new(Rung::Parent, "pause", with_parent),
    };
    decision.because("running attempts finish, nothing new starts, and timers wait")
}

/// Describes what was changed of a run: its priority, its labels and its deadline now.
fn describe_amendment(amended: &Amended) -> String {
    let mut parts = Vec::new();
    parts.extend(amended.priority.map(|priority| format!("its priority is {priority}")));
    for (name, value) in &amended.labels_set {
        parts.push(format!("its label `{name}` is `{value}`"));
    }
    let gone = amended.labels_removed.keys().filter(|name| !amended.labels_set.contains_key(*name));
    parts.extend(gone.map(|name| format!("it has no label `{name}`")));
    parts.extend(amended.deadline.map(|deadline| match deadline.at {
        Some(at) => format!("its deadline is {at}"),
        None => "it has no deadline".to_owned(),
    }));
    phrases::join_list(&parts)
}

/// Attributes a decision to the operator who sent the command, or to the parent if the engine did.
fn by_user_or_parent(moment: &FactContext<'_>, rule: &str, then: String) -> DecisionText {
    let rung = match &moment.event.by {
        Actor::Engine => Rung::Parent,
        Actor::Worker | Actor::User(_) => Rung::Operator,
    };
    DecisionText::new(rung, rule, then)
}

/// Describes what was done, by whom and why; or, if the engine did it, what the parent caused.
fn describe_request(moment: &FactContext<'_>, done: &str, parent: &str, reason: Option<&Arc<str>>) -> String {
    match &moment.event.by {
        Actor::Engine => parent.to_owned(),
        actor @ (Actor::Worker | Actor::User(_)) => {
            format!("{done} by {}{}", who(actor), in_their_words(reason.map(|reason| &**reason)))
        }
    }
}

/// The run completed.
fn completed_text(moment: &FactContext<'_>) -> DecisionText {
    let why = match moment.flow.steps.len() {
        1 => "its only step is done".to_owned(),
        2 => "both steps are done".to_owned(),
        n => format!("all {n} steps are done"),
    };
    DecisionText::new(Rung::Completed, rule::output_rule(moment.flow), "the run completed").because(why)
}
