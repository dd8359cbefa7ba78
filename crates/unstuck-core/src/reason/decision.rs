//! The facts that are decisions: which rung acted, by which rule, why, and what follows.

use std::sync::Arc;

use crate::event::{Actor, Choice, Fact, UnitFact};
use crate::id::RunId;
use crate::model::attempt::{Cancelled, Outcome, ResumedBy};
use crate::model::error::{DEADLINE_ACTION, RunError};
use crate::model::flow::{Kind, Step};
use crate::model::recovery::RetryStrategy;
use crate::model::run::{Limit, PausedBy, Phase, Run, RunEnd, RunOutcome, Slot};
use crate::model::unit::{QueuePlace, SkippedBy, UnitRef};
use crate::policy::{PassedPolicy, PassedReason, PolicyRef};
use crate::reason::moment::Moment;
use crate::reason::words::{self, cause, count, in_their_words, stalled_of, stuck_of, who};
use crate::reason::{Rung, passed, rule};
use crate::time::{Millis, Time};

/// A decision, in the parts of its sentence.
pub(super) struct Told {
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

impl Told {
    fn new(rung: Rung, rule: impl Into<String>, then: impl Into<String>) -> Told {
        Told {
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

    fn because(mut self, why: impl Into<String>) -> Told {
        self.why.push(why.into());
        self
    }

    fn due(mut self, due: Time) -> Told {
        self.due = Some(due);
        self
    }

    /// About this unit, after the attempt of it that ended last.
    fn after_attempt(mut self, moment: &Moment<'_>, unit: UnitRef) -> Told {
        self.unit = Some(unit);
        if let Some((attempt, outcome)) = moment.last_ended(unit) {
            self.attempt = Some(attempt);
            self.ended = Some(words::ended(attempt, outcome));
        }
        self
    }

    /// The whole sentence.
    pub(super) fn reason(&self) -> String {
        let due = self.due.map_or(String::new(), |due| format!(", at {due}"));
        let text = self.short();
        let text = match &self.how {
            None => format!("{text}{due}"),
            Some(how) => format!("{text}{due}, {how}"),
        };
        match &self.ended {
            None => text,
            Some(ended) => format!("{ended}; {text}"),
        }
    }

    /// The sentence without the attempt's end and the exact time, which a log has shown already.
    pub(super) fn short(&self) -> String {
        if self.why.is_empty() {
            self.then.clone()
        } else {
            format!("{}: {}", self.why.join(", "), self.then)
        }
    }
}

/// The decision that a fact is, if it is one.
pub(super) fn told(moment: &Moment<'_>) -> Option<Told> {
    match moment.fact() {
        Fact::Unit { unit, fact } => of_unit(moment, *unit, fact),
        Fact::Admitted => Some(admitted(moment)),
        Fact::Paused { by, reason } => Some(paused(moment, *by, reason.as_ref())),
        Fact::Unpaused => {
            let why = asked(moment, "unpaused the run", "its parent was unpaused", None);
            Some(by_user_or_parent(moment, "unpause", why, "it goes on"))
        }
        Fact::RunCancelled { reason } => {
            let then = "its attempts are void, and its children are cancelled too";
            let parent = reason.as_deref().unwrap_or("its parent no longer needs it");
            let why = asked(moment, "cancelled the run", parent, reason.as_ref());
            Some(by_user_or_parent(moment, "cancel", why, then))
        }
        Fact::Reran { generation, steps, keep, keep_children, .. } => {
            let rule = if *keep_children { "rerun: continue" } else { "rerun" };
            let (kept, noun) = (keep.len(), words::plural(u32::from(*steps), "step"));
            let then = format!("generation {generation} starts, and keeps {kept} of {steps} {noun}");
            let why = asked(moment, "asked for a rerun", "its parent tries again", None);
            Some(by_user_or_parent(moment, rule, why, then))
        }
        Fact::Failing { error, handler } => Some(failing(moment, error, handler.as_ref())),
        Fact::RunFailed { handler_error } => run_failed(moment, handler_error.as_deref()),
        Fact::Completed { .. } => Some(completed(moment)),
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

fn of_unit(moment: &Moment<'_>, unit: UnitRef, fact: &UnitFact) -> Option<Told> {
    let step = moment.step(unit)?;
    let told = match fact {
        UnitFact::Retry { due, delay, stalled, max } => retry(step, *delay, *stalled, *max).due(*due),
        UnitFact::Held => held(moment, unit, step),
        UnitFact::Ignored => went_on(moment, unit, step),
        UnitFact::Scheduled { due, delay, policy, rounds, max } => {
            scheduled(moment, unit, step, policy, (*rounds, *max), *delay).due(*due)
        }
        UnitFact::PassedOver { .. } => return None,
        UnitFact::LeftInError => rested(moment, unit, step),
        UnitFact::Acknowledged { reason } => acknowledged(moment, reason.as_ref()),
        UnitFact::DoneByHand { reason, .. } => done_by_hand(moment, reason.as_ref()),
        UnitFact::Failed => failed_while_failing(moment, unit)?,
        UnitFact::Deferred { due, delay } => deferred(moment, unit, step, *delay).due(*due),
        UnitFact::Requeued { due, stuck, max, place } => {
            let delay = due.since(moment.event.time());
            anew(moment, unit, step, (*stuck, *max), *place, delay).due(*due)
        }
        UnitFact::Skipped { why, reason } => skipped(moment, step, *why, reason.as_ref()),
        UnitFact::Chosen { choice, .. } => chosen(moment, *choice),
        UnitFact::Resumed { by: ResumedBy::Policy, reason: Some(policy), waited: Some(waited), .. } => {
            let why = format!("policy `{policy}` resumed it {waited} after it was due");
            let told = resumed(moment, unit, ResumedBy::Policy, None);
            Told { why: vec![why, "automatic resumes were paused".to_owned()], ..told }
        }
        UnitFact::Resumed { by, reason, .. } => resumed(moment, unit, *by, reason.as_ref()),
        UnitFact::Ended { attempt, outcome: Outcome::Cancelled(Cancelled::Released) } => {
            let told = released(moment, unit)?;
            return Some(Told { unit: Some(unit), attempt: Some(*attempt), ..told });
        }
        UnitFact::Ended { attempt, outcome: Outcome::Cancelled(Cancelled::Deadline) } => {
            let told = not_waited_for(moment)?;
            return Some(Told { unit: Some(unit), attempt: Some(*attempt), ..told });
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
    Some(told.after_attempt(moment, unit))
}

fn retry(step: &Step, delay: Millis, stalled: u32, max: Option<u32>) -> Told {
    let budget = if let Some(max) = max {
        stalled_of(stalled, max)
    } else {
        let noun = words::plural(stalled, "attempt");
        format!("{stalled} {noun} of this round {} stalled, without a limit", words::has(stalled))
    };
    let minimum = matches!(step.retry, RetryStrategy::Retry { back_off: None, .. });
    let which = if minimum { " (minimumDelay)" } else { "" };
    Told::new(Rung::RetryStrategy, rule::retry(step), format!("tried again in {delay}{which}"))
        .because(budget)
}

fn held(moment: &Moment<'_>, unit: UnitRef, step: &Step) -> Told {
    let then = "held until an operator chooses retry or none";
    let told = Told::new(Rung::RetryStrategy, rule::retry(step), then);
    let told = match passed::given_up_as_stuck(moment, unit, step) {
        Some(stuck) => told.because(stuck),
        None => told,
    };
    let used = moment.unit(unit).map_or(1, |unit| unit.round.stalled);
    match step.retry {
        RetryStrategy::Hold { max_attempts: Some(max) } => told.because(passed::used_of(used, max)),
        RetryStrategy::Hold { max_attempts: None } | RetryStrategy::Retry { .. } | RetryStrategy::None => {
            told.because("the retry strategy is hold")
        }
    }
}

fn went_on(moment: &Moment<'_>, unit: UnitRef, step: &Step) -> Told {
    let then = match unit.item {
        None => "the step stays failed, its output is null, and the flow goes on",
        Some(_) => "the item stays failed and leaves null in its place, and the flow goes on",
    };
    Told::new(Rung::FailOnError, "failOnError: false", then)
        .because(passed::first_rung(moment, unit, step))
        .because("failOnError is false")
}

fn rested(moment: &Moment<'_>, unit: UnitRef, step: &Step) -> Told {
    let mut then = "it rests in error until somebody resumes it".to_owned();
    let spent = |passed: &&PassedPolicy| matches!(passed.why, PassedReason::Spent { .. });
    match passed::policies(moment, unit).iter().filter(spent).count() {
        0 => {}
        1 => then += ", which gives the policy its rounds back",
        _ => then += ", which gives the policies their rounds back",
    }
    let Some(passed) = passed::in_this_event(moment, unit, step) else {
        let told = Told::new(Rung::Rest, "resume policy", then).because(matched_anew(moment));
        return no_policy(moment, unit, told, "no policy takes it");
    };
    let told = Told::new(Rung::Rest, rule::nothing_acts(step), then);
    let told = told.because(passed).because("failOnError is true");
    no_policy(moment, unit, told, "no resume policy takes it").because("no exception handler")
}

/// That no policy takes an error, with those that would if they were not used up or disabled.
fn no_policy(moment: &Moment<'_>, unit: UnitRef, told: Told, plain: &str) -> Told {
    match passed::policies(moment, unit) {
        [] => told.because(plain),
        passed => {
            let told = passed.iter().fold(told, |told, passed| told.because(passed::policy(passed)));
            told.because("no other policy takes it")
        }
    }
}

/// Rung 3, or an apply, or a due resume whose policy is off or gone.
fn scheduled(
    moment: &Moment<'_>,
    unit: UnitRef,
    step: &Step,
    policy: &PolicyRef,
    (rounds, max): (u32, u32),
    delay: Millis,
) -> Told {
    let rule = format!("resume policy `{}`, version {}", policy.name, policy.version);
    let told = Told::new(Rung::ResumePolicy, rule, format!("resumed {delay} after it stopped"));
    let told = match passed::in_this_event(moment, unit, step) {
        Some(passed) => told.because(passed),
        None => told.because(matched_anew(moment)),
    };
    let passed = passed::policies(moment, unit).iter();
    let told = passed.fold(told, |told, passed| told.because(passed::policy(passed)));
    told.because(format!("policy `{}` takes it, with round {rounds} of {max}", policy.name))
}

/// Why an error that was dealt with already is matched with the policies again.
fn matched_anew(moment: &Moment<'_>) -> String {
    match &moment.event.by {
        by @ Actor::User(_) => format!("{} applied the policies to it", who(by)),
        Actor::Engine | Actor::Worker => "the policy that would have resumed it is off or gone".to_owned(),
    }
}

fn acknowledged(moment: &Moment<'_>, reason: Option<&Arc<str>>) -> Told {
    let words = in_their_words(reason.map(|reason| &**reason));
    Told::new(Rung::Operator, "acknowledge", "no policy resumes it, until somebody does")
        .because(format!("{} acknowledged it{words}", who(&moment.event.by)))
}

fn done_by_hand(moment: &Moment<'_>, reason: Option<&Arc<str>>) -> Told {
    let words = in_their_words(reason.map(|reason| &**reason));
    Told::new(Rung::Operator, "complete", "it counts as completed, and the flow goes on")
        .because(format!("{} did it by hand{words}", who(&moment.event.by)))
}

/// A unit that fails while its run is failing already. Otherwise the run's failing tells it all.
fn failed_while_failing(moment: &Moment<'_>, unit: UnitRef) -> Option<Told> {
    let tells = |fact: &Fact| matches!(fact, Fact::Failing { error, .. } if error.unit == Some(unit));
    if moment.event.facts[moment.place..].iter().any(tells) {
        return None;
    }
    Some(
        Told::new(Rung::Failed, "the run is failing", "nothing more is tried")
            .because("the run is failing already"),
    )
}

/// Rung 4 or 5, or the deadline.
fn failing(moment: &Moment<'_>, failed: &RunError, handler: Option<&Arc<str>>) -> Told {
    if failed.error.found_by.as_deref() == Some(DEADLINE_ACTION) {
        return over_deadline(moment, failed, handler);
    }
    let first = match moment.under_way() {
        0 => None,
        1 => Some("once the attempt under way has ended".to_owned()),
        n => Some(format!("once the {n} attempts under way have ended")),
    };
    let then = how_it_ends(first, handler);
    let step = failed.unit.and_then(|unit| moment.step(unit));
    let (rung, rule) = match (handler, step) {
        (Some(handler), _) => (Rung::ExceptionHandler, rule::handler(handler)),
        (None, Some(step)) => (Rung::Failed, rule::nothing_acts(step)),
        (None, None) => (Rung::Failed, "no exceptionHandler".to_owned()),
    };
    let mut told = Told::new(rung, rule, then);
    let climbed = failed.unit.zip(step).filter(|(unit, _)| moment.last_ended(*unit).is_some());
    if let Some((unit, step)) = climbed {
        told = told.because(passed::first_rung(moment, unit, step)).because("failOnError is true");
        let passed = passed::policies(moment, unit).iter();
        told = passed.fold(told, |told, passed| told.because(passed::policy(passed)));
        told = may_not_rest(moment, unit, told).after_attempt(moment, unit);
    } else {
        // What the engine finds wrong with a whole fan-out, or with the run's output, has no attempt.
        told = Told { unit: failed.unit, ended: Some(cause(&failed.error)), ..told };
    }
    if handler.is_none() { told.because("no exception handler") } else { told }
}

/// A run that was failing already when its deadline came. Otherwise the run's failing tells it all.
fn not_waited_for(moment: &Moment<'_>) -> Option<Told> {
    if moment.event.facts.iter().any(|fact| matches!(fact, Fact::Failing { .. })) {
        return None;
    }
    let told = Told::new(Rung::Deadline, rule::deadline(moment.flow, moment.run), "the attempt is void");
    Some(told.because("the run is failing, and now over its deadline"))
}

fn over_deadline(moment: &Moment<'_>, failed: &RunError, handler: Option<&Arc<str>>) -> Told {
    let and = if handler.is_none() { "and " } else { "" };
    let then =
        format!("its attempts are void, its children are cancelled, {and}{}", how_it_ends(None, handler));
    Told::new(Rung::Deadline, rule::deadline(moment.flow, moment.run), then).because(cause(&failed.error))
}

/// The way to `failed`, after what comes first.
fn how_it_ends(first: Option<String>, handler: Option<&Arc<str>>) -> String {
    match (first, handler) {
        (None, None) => "the run is failed".to_owned(),
        (Some(first), None) => format!("{first}, the run is failed"),
        (None, Some(handler)) => {
            format!("the remaining steps are dropped, `{handler}` runs, and then the run is failed")
        }
        (Some(first), Some(handler)) => {
            format!("the remaining steps are dropped; {first}, `{handler}` runs, and then the run is failed")
        }
    }
}

/// Why a *stalled* attempt does not come to rest.
fn may_not_rest(moment: &Moment<'_>, unit: UnitRef, told: Told) -> Told {
    let stalled = matches!(moment.last_ended(unit), Some((_, Outcome::Stalled(_))));
    let in_handler = moment.run.is_some_and(|run| run.origin.is_in_handler());
    if stalled && in_handler && told.rung == Rung::Failed && passed::chose_none(moment, unit).is_none() {
        return told.because("inside a handler nothing rests in error");
    }
    told
}

fn run_failed(moment: &Moment<'_>, handler_error: Option<&RunError>) -> Option<Told> {
    if moment.event.facts.iter().any(|fact| matches!(fact, Fact::Failing { .. })) {
        return None;
    }
    let handler = handler_of(moment, moment.run?);
    let then = "the run is failed";
    let Some((flow, run)) = handler else {
        let told = Told::new(Rung::Failed, "no exceptionHandler", then);
        return Some(told.because("what was under way has ended"));
    };
    let why = match handler_error {
        None => format!("exception handler {run} has completed"),
        Some(error) => format!("exception handler {run} has failed too ({})", cause(&error.error)),
    };
    let rule = flow.map_or("exceptionHandler".to_owned(), |flow| rule::handler(&flow));
    Some(Told::new(Rung::ExceptionHandler, rule, then).because(why))
}

/// The handler of a run that has failed: its flow where the failed step names it, and its run.
fn handler_of(moment: &Moment<'_>, run: &Run) -> Option<(Option<Arc<str>>, RunId)> {
    let Phase::Ended(RunEnd { how: RunOutcome::Failed { error, handler }, .. }) = &run.phase else {
        return None;
    };
    let (run, _) = handler.as_ref()?;
    let step = error.unit.and_then(|unit| moment.step(unit));
    Some((step.and_then(|step| step.exception_handler.clone()), *run))
}

fn deferred(moment: &Moment<'_>, unit: UnitRef, step: &Step, delay: Millis) -> Told {
    let told = Told::new(Rung::Deferral, rule::defer(step), format!("tried again in {delay}"));
    match moment.unit(unit).map(|unit| unit.round) {
        None => told,
        Some(round) => {
            let limit = step.defer.limit;
            let left = Millis(limit.0.saturating_sub(round.deferred.0));
            told.because(format!(
                "deferral {} of this round, {} of at most {limit} in all ({left} left)",
                round.deferrals, round.deferred
            ))
        }
    }
}

fn anew(
    moment: &Moment<'_>,
    unit: UnitRef,
    step: &Step,
    (stuck, max): (u32, u32),
    place: QueuePlace,
    delay: Millis,
) -> Told {
    let mut told = Told::new(Rung::Stuck, rule::stuck(&step.limits, None), format!("tried anew in {delay}"));
    if let Some((_, Outcome::Stuck(found))) = moment.last_ended(unit) {
        told.rule = rule::stuck(&step.limits, Some(found.limit));
        told = told.because(format!("last heard of at {}", found.heard));
        if found.free {
            told = told.because("a first loss together with others is free");
        }
    }
    let told = told.because(stuck_of(stuck, max));
    let place_text = match (place.front, place.alone) {
        (true, false) => "at the front of its queue",
        (true, true) => "at the front of its queue, by a worker that runs nothing else",
        (false, false) => "at the back of its queue",
        (false, true) => "at the back of its queue, by a worker that runs nothing else",
    };
    let queued = !matches!(step.kind, Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_));
    Told { how: queued.then(|| place_text.to_owned()), ..told }
}

fn skipped(moment: &Moment<'_>, step: &Step, why: SkippedBy, reason: Option<&Arc<str>>) -> Told {
    let then = "skipped; its output is null, and what needs it goes on";
    match why {
        SkippedBy::Condition => {
            Told::new(Rung::Condition, rule::condition(step), then).because("its condition is false")
        }
        SkippedBy::Operator => {
            let words = in_their_words(reason.map(|reason| &**reason));
            Told::new(Rung::Operator, "skip", then)
                .because(format!("{} said so{words}", who(&moment.event.by)))
        }
    }
}

fn chosen(moment: &Moment<'_>, choice: Choice) -> Told {
    let who = who(&moment.event.by);
    match choice {
        Choice::Retry => Told::new(Rung::Operator, "choose retry", "one more attempt in the same round")
            .because(format!("{who} chose retry")),
        Choice::None => Told::new(Rung::Operator, "choose none", "it is not tried again")
            .because(format!("{who} chose none")),
    }
}

fn resumed(moment: &Moment<'_>, unit: UnitRef, by: ResumedBy, reason: Option<&Arc<str>>) -> Told {
    let rung = match by {
        ResumedBy::Operator | ResumedBy::Rerun => Rung::Operator,
        ResumedBy::Policy => Rung::ResumePolicy,
        ResumedBy::Retry => Rung::RetryStrategy,
        ResumedBy::Defer => Rung::Deferral,
        ResumedBy::Release | ResumedBy::Reclaim => Rung::Stuck,
    };
    let then = match moment.unit(unit).map(|unit| unit.round.number) {
        Some(round) => format!("round {round} starts, with every budget anew"),
        None => "a new round starts, with every budget anew".to_owned(),
    };
    let told = Told::new(rung, "resume", then);
    if let (ResumedBy::Policy, Some(policy)) = (by, reason) {
        return told.because(format!("policy `{policy}` resumed it"));
    }
    let words = in_their_words(reason.map(|reason| &**reason));
    told.because(format!("{} resumed it{words}", who(&moment.event.by)))
}

/// A worker that stops in good order gives its attempt back. In a failing run it just ends.
fn released(moment: &Moment<'_>, unit: UnitRef) -> Option<Told> {
    let (attempt, next) = moment.after(unit).find_map(|fact| {
        if let UnitFact::Queued { attempt, .. } = fact {
            Some((attempt.saturating_sub(1), *attempt))
        } else {
            None
        }
    })?;
    let then = format!("attempt {next} is queued at the front, and no budget is used");
    let told = Told::new(Rung::Release, "release", then);
    Some(told.because(format!("the worker of attempt {attempt} stops in good order and gave it back")))
}

fn admitted(moment: &Moment<'_>) -> Told {
    let told = Told::new(Rung::Concurrency, rule::concurrency(moment.flow), "the run goes on");
    match moment.run.map(|run| &run.slot) {
        Some(Slot::Taken(Limit { name, max, .. }) | Slot::Wanted(Limit { name, max, .. })) => {
            let runs = count(*max as usize, "run", "runs");
            told.because(format!("limit `{name}` ({runs} at once) has a free slot"))
        }
        Some(Slot::Unlimited) | None => told.because("there is a free slot"),
    }
}

fn paused(moment: &Moment<'_>, by: PausedBy, reason: Option<&Arc<str>>) -> Told {
    let then = "attempts under way finish, nothing is dispatched, and timers wait";
    match by {
        PausedBy::Operator => {
            let why = asked(moment, "paused the run", "its parent was paused", reason);
            by_user_or_parent(moment, "pause", why, then)
        }
        PausedBy::Parent => Told::new(Rung::Parent, "pause", then).because("its parent was paused"),
    }
}

/// What somebody asked for; what the engine brings is the parent's wish.
fn by_user_or_parent(moment: &Moment<'_>, rule: &str, why: String, then: impl Into<String>) -> Told {
    let rung = match &moment.event.by {
        Actor::Engine => Rung::Parent,
        Actor::Worker | Actor::User(_) => Rung::Operator,
    };
    Told::new(rung, rule, then).because(why)
}

/// Who asked for it: somebody did so, in their words, or the parent's state says why.
fn asked(moment: &Moment<'_>, did: &str, parent: &str, reason: Option<&Arc<str>>) -> String {
    match &moment.event.by {
        Actor::Engine => parent.to_owned(),
        actor @ (Actor::Worker | Actor::User(_)) => {
            format!("{} {did}{}", who(actor), in_their_words(reason.map(|reason| &**reason)))
        }
    }
}

fn completed(moment: &Moment<'_>) -> Told {
    let why = match moment.flow.steps.len() {
        1 => "its only step is done".to_owned(),
        2 => "both steps are done".to_owned(),
        n => format!("all {n} steps are done"),
    };
    Told::new(Rung::Completed, rule::output(moment.flow), "the run is completed").because(why)
}
