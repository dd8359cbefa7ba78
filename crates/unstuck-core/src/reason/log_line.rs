//! Lines of a live log: each fact as one sentence, and nothing twice.

use crate::event::{Actor, Choice, Closing, Event, Fact, Started, UnitFact};
use crate::json::Payload;
use crate::model::attempt::{Cancelled, Outcome, Worker};
use crate::model::error::RunError;
use crate::model::flow::Kind;
use crate::model::log::IgnoredLine;
use crate::model::run::{Origin, PausedBy, Phase, Run, RunOutcome};
use crate::model::unit::UnitRef;
use crate::reason::decision;
use crate::reason::fact_context::FactContext;
use crate::reason::phrases::{self, cause, count, in_their_words, shorten_to_line, who};
use crate::time::{Millis, Time};

/// The length at which progress is cut.
const LONGEST_PROGRESS: usize = 60;

/// Formats a fact as one sentence, or returns nothing where another fact of the same event says it too.
pub(super) fn log_line(moment: &FactContext<'_>) -> Option<String> {
    match moment.fact() {
        Fact::Unit { unit, fact } => {
            unit_line(moment, *unit, fact).map(|text| format!("{}: {text}", moment.name(*unit)))
        }
        Fact::Started(started) => Some(run_started_line(moment, started)),
        Fact::Admitted => Some(decision_line(moment)),
        Fact::Paused { by: PausedBy::Parent, .. } => Some("the run was paused with its parent".to_owned()),
        Fact::Paused { by: PausedBy::Operator, reason } => {
            let words = in_their_words(reason.as_deref());
            Some(format!("the run was paused by {}{words}", who(&moment.event.by)))
        }
        Fact::Unpaused => Some(request_line(moment.event, "unpaused", "with its parent", None)),
        Fact::Amended(_) | Fact::Migrated(_) => Some(decision_line(moment)),
        Fact::ClockCorrected { by } => Some(phrases::clock_corrected(*by)),
        Fact::InputChanged { .. } => {
            Some(format!("the input of the run was changed by {}", who(&moment.event.by)))
        }
        Fact::SignalKept { name, .. } => Some(format!("signal `{name}` arrived")),
        Fact::SignalTaken { .. } => None,
        Fact::Failing { error, .. } => Some(failing_line(moment, error)),
        Fact::HandlerStarted { run } => Some(format!("exception handler {run} started")),
        Fact::HandlerChanged { state } => {
            Some(format!("the exception handler is {}", phrases::state(*state)))
        }
        Fact::Completed { .. } => Some("the run completed".to_owned()),
        Fact::RunFailed { handler_error } => Some(run_failed_line(moment, handler_error.as_deref())),
        Fact::RunCancelled { reason } => {
            Some(request_line(moment.event, "cancelled", "with its parent", reason.as_deref()))
        }
        Fact::Reran { .. } => Some(decision_line(moment)),
        Fact::ItemsKnown { step, total, .. } => {
            let items = count(*total as usize, "item", "items");
            Some(format!("{}: {items}", phrases::step_id(moment.flow, *step)))
        }
        Fact::ItemsCompleted { step, .. } => {
            Some(format!("{}: all items are done", phrases::step_id(moment.flow, *step)))
        }
        Fact::ItemsEnded { step, how } => {
            Some(format!("{}: {}", phrases::step_id(moment.flow, *step), closed_line(*how)))
        }
    }
}

/// Returns whether a fact is one of the main events of a run, as opposed to routine such as queueing.
pub(super) fn belongs_to_story(fact: &Fact) -> bool {
    match fact {
        Fact::Unit { fact, .. } => match fact {
            UnitFact::InputBound { .. }
            | UnitFact::Queued { .. }
            | UnitFact::Dequeued { .. }
            | UnitFact::Started { .. }
            | UnitFact::Progress { .. }
            | UnitFact::ReportIgnored { .. }
            | UnitFact::LimitExtended { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::TimerSet { .. }
            | UnitFact::SignalAwaited { .. }
            | UnitFact::ChildChanged { .. }
            | UnitFact::Closed { .. } => false,
            UnitFact::Ended { .. }
            | UnitFact::Retry { .. }
            | UnitFact::Held
            | UnitFact::Ignored
            | UnitFact::Scheduled { .. }
            | UnitFact::LeftInError
            | UnitFact::Acknowledged { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Failed
            | UnitFact::Deferred { .. }
            | UnitFact::Requeued { .. }
            | UnitFact::Skipped { .. }
            | UnitFact::Done { .. }
            | UnitFact::ChildStarted { .. }
            | UnitFact::Chosen { .. }
            | UnitFact::Resumed { .. } => true,
        },
        Fact::SignalTaken { .. } | Fact::HandlerChanged { .. } | Fact::ItemsKnown { .. } => false,
        Fact::Started(_)
        | Fact::Admitted
        | Fact::Paused { .. }
        | Fact::Unpaused
        | Fact::Amended(_)
        | Fact::Migrated(_)
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::Failing { .. }
        | Fact::HandlerStarted { .. }
        | Fact::Completed { .. }
        | Fact::RunFailed { .. }
        | Fact::RunCancelled { .. }
        | Fact::Reran { .. }
        | Fact::ItemsCompleted { .. }
        | Fact::ItemsEnded { .. } => true,
    }
}

/// Returns whether a fact is about an error.
pub(super) fn is_trouble(fact: &Fact) -> bool {
    let Fact::Unit { fact, .. } = fact else {
        return matches!(fact, Fact::Failing { .. } | Fact::RunFailed { .. });
    };
    let is_error = matches!(
        fact,
        UnitFact::Ended { outcome: Outcome::Stalled(_) | Outcome::Failed(_) | Outcome::Stuck(_), .. }
    );
    is_error || matches!(fact, UnitFact::Held | UnitFact::LeftInError | UnitFact::Failed)
}

/// Formats a fact about a unit, without the name of the unit.
fn unit_line(moment: &FactContext<'_>, unit: UnitRef, fact: &UnitFact) -> Option<String> {
    let at = moment.event.time();
    match fact {
        // The decision that follows names the policies.
        UnitFact::InputBound { .. } | UnitFact::PassedOver { .. } => None,
        UnitFact::Queued { attempt, .. } => {
            let begun =
                |fact: &UnitFact| matches!(fact, UnitFact::Dequeued { .. } | UnitFact::Started { .. });
            (!moment.facts_after(unit).any(begun)).then(|| format!("attempt {attempt} is queued"))
        }
        UnitFact::Dequeued { worker } => {
            Some(format!("{} was handed to worker {}", attempt_name(moment, unit), worker.name))
        }
        UnitFact::Started { worker } => Some(started_line(moment, unit, worker)),
        UnitFact::Progress { value: Payload::Inline(value) } => {
            let value = shorten_to_line(value.text(), LONGEST_PROGRESS);
            Some(format!("{} reported progress: {value}", attempt_name(moment, unit)))
        }
        UnitFact::Progress { value: Payload::Stored(_) } => {
            Some(format!("{} reported progress", attempt_name(moment, unit)))
        }
        UnitFact::ReportIgnored { attempt, lines, more } => Some(report_ignored_line(*attempt, lines, *more)),
        UnitFact::LimitExtended { by: Millis::ZERO, .. } => {
            Some(format!("{} was heard from again; its lease was renewed", attempt_name(moment, unit)))
        }
        UnitFact::LimitExtended { by, .. } => Some(format!(
            "{} got {by} more because the engine was down that long",
            attempt_name(moment, unit)
        )),
        UnitFact::Ended { attempt, outcome } => ended_line(moment, unit, *attempt, outcome),
        UnitFact::Retry { due, stalled, max, .. } => {
            Some(retry_line(moment, unit, due.since(at), *stalled, *max))
        }
        UnitFact::Failed => decision::decision_text(moment).map(|decision| decision.to_log_text()),
        // The decision that follows `none` says who chose it.
        UnitFact::Chosen { choice: Choice::None, .. } => None,
        UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::Scheduled { .. }
        | UnitFact::LeftInError
        | UnitFact::Acknowledged { .. }
        | UnitFact::DoneByHand { .. }
        | UnitFact::Skipped { .. }
        | UnitFact::Chosen { choice: Choice::Retry, .. }
        | UnitFact::Resumed { .. } => Some(decision_line(moment)),
        UnitFact::Deferred { due, .. } => {
            let retrying = format!("retrying in {}", due.since(at));
            Some(phrases::join_sentences(&describe_last_end(moment, unit), &retrying))
        }
        UnitFact::Requeued { due, stuck, max, .. } => {
            let retrying = format!("retrying in {} (stuck {stuck} of {max})", due.since(at));
            Some(phrases::join_sentences(&describe_last_end(moment, unit), &retrying))
        }
        UnitFact::Done { .. } => Some(done_line(moment, unit)),
        UnitFact::TimerSet { due, is_instant: true } if *due <= at => {
            Some(format!("no wait: {due} has already passed"))
        }
        UnitFact::TimerSet { due, .. } => Some(format!("waiting {}, until {due}", due.since(at))),
        UnitFact::SignalAwaited { name, until } => Some(awaits_line(name, *until, at)),
        UnitFact::ChildStarted { attempt, run, .. } => Some(format!("attempt {attempt} started child {run}")),
        UnitFact::ChildChanged { state } => Some(format!("its child is {}", phrases::state(*state))),
        UnitFact::Closed { how } => {
            let ended = moment.facts_before(unit).any(|fact| matches!(fact, UnitFact::Ended { .. }));
            (!ended).then(|| closed_line(*how).to_owned())
        }
    }
}

/// Formats the decision that the fact represents, without what the log has shown already.
fn decision_line(moment: &FactContext<'_>) -> String {
    decision::decision_text(moment).map_or_else(String::new, |decision| decision.to_log_text())
}

fn attempt_name(moment: &FactContext<'_>, unit: UnitRef) -> String {
    moment.latest_attempt(unit).map_or("an attempt".to_owned(), |number| format!("attempt {number}"))
}

/// Formats a warning about ignored report lines: the first one, and how many more there are.
fn report_ignored_line(attempt: u32, lines: &[IgnoredLine], more: u64) -> String {
    let Some(IgnoredLine { line, text, why }) = lines.first() else {
        return format!("warning: ignored lines of the report of attempt {attempt}");
    };
    let text = shorten_to_line(text, LONGEST_PROGRESS);
    let first = format!("warning: ignored line {line} of the report of attempt {attempt} (`{text}`): {why}");
    match more.saturating_add(lines.len() as u64 - 1) {
        0 => first,
        1 => format!("{first}. 1 more line was ignored"),
        others => format!("{first}. {others} more lines were ignored"),
    }
}

/// Formats the start of an attempt, with its worker unless it is local.
fn started_line(moment: &FactContext<'_>, unit: UnitRef, worker: &Worker) -> String {
    let attempt = attempt_name(moment, unit);
    if worker.local {
        format!("{attempt} started")
    } else {
        format!("{attempt} started on worker {}", worker.name)
    }
}

/// Formats the end of an attempt, unless the next fact tells it together with what follows.
fn ended_line(moment: &FactContext<'_>, unit: UnitRef, attempt: u32, outcome: &Outcome) -> Option<String> {
    let told_next = moment
        .facts_after(unit)
        .next()
        .is_some_and(|fact| matches!(fact, UnitFact::Deferred { .. } | UnitFact::Requeued { .. }));
    if told_next {
        return None;
    }
    if let Outcome::Cancelled(Cancelled::Released) = outcome
        && decision::decision_text(moment).is_some()
    {
        return Some(format!("attempt {attempt} was released by its worker (uses no budget)"));
    }
    Some(phrases::describe_end(attempt, outcome))
}

/// Describes how the last attempt of a unit ended.
fn describe_last_end(moment: &FactContext<'_>, unit: UnitRef) -> String {
    moment
        .last_ended_attempt(unit)
        .map_or_else(String::new, |(attempt, outcome)| phrases::describe_end(attempt, outcome))
}

/// Formats a retry with its delay and budget.
fn retry_line(
    moment: &FactContext<'_>,
    unit: UnitRef,
    delay: Millis,
    stalled: u32,
    max: Option<u32>,
) -> String {
    let next = moment.last_ended_attempt(unit).map_or(stalled, |(attempt, _)| attempt) + 1;
    let of_round = stalled + 1;
    let budget = match max {
        None => format!("attempt {next}, no limit"),
        Some(max) if next == of_round => format!("attempt {next} of {max}"),
        Some(max) => format!("attempt {next}, {of_round} of {max} in this round"),
    };
    format!("retrying in {delay} ({budget})")
}

/// Formats the completion of a step without attempts.
fn done_line(moment: &FactContext<'_>, unit: UnitRef) -> String {
    match moment.step(unit).map(|step| &step.kind) {
        Some(Kind::Wait(_)) => "the wait ended".to_owned(),
        Some(Kind::Signal(name)) => format!("completed by signal `{name}`"),
        Some(
            Kind::Action(_)
            | Kind::Process(_)
            | Kind::Http(_)
            | Kind::Child(_)
            | Kind::Set(_)
            | Kind::Emulate(_),
        )
        | None => "completed".to_owned(),
    }
}

/// Formats the wait for a signal.
fn awaits_line(name: &str, until: Option<Time>, at: Time) -> String {
    match until {
        None => format!("waiting for signal `{name}`"),
        Some(until) => format!("waiting for signal `{name}` (at most {})", until.since(at)),
    }
}

/// Formats how a unit was closed with its run.
fn closed_line(how: Closing) -> &'static str {
    match how {
        Closing::Failed => "failed",
        Closing::Dropped => "dropped: the exception handler takes over",
        Closing::Cancelled => "cancelled: its run ended",
        Closing::Skipped => "skipped by an operator",
    }
}

/// Formats the start of a run, with its key and parent.
fn run_started_line(moment: &FactContext<'_>, started: &Started) -> String {
    let key = started.key.as_ref().map_or(String::new(), |key| format!(" with key `{key}`"));
    let flow = &moment.flow.name;
    match &started.origin {
        Origin::Root => format!("{} of flow `{flow}` started{key}", started.run),
        Origin::Child { parent, .. } => {
            format!("{} of flow `{flow}` started{key} as a child of {parent}", started.run)
        }
        Origin::Handler { parent, .. } => {
            format!("{} of flow `{flow}` started as the exception handler of {parent}", started.run)
        }
    }
}

/// Formats what was done to the run and by whom; what the engine does, it does for the parent.
fn request_line(event: &Event, done: &str, parent: &str, reason: Option<&str>) -> String {
    match (&event.by, reason) {
        (Actor::Engine, None) => format!("the run was {done} {parent}"),
        (Actor::Engine, Some(reason)) => format!("the run was {done}: {reason}"),
        (actor @ (Actor::Worker | Actor::User(_)), reason) => {
            format!("the run was {done} by {}{}", who(actor), in_their_words(reason))
        }
    }
}

/// Formats that the run fails, with the cause unless an attempt's end has told it.
fn failing_line(moment: &FactContext<'_>, failed: &RunError) -> String {
    let Some(decision) = decision::decision_text(moment) else { return String::new() };
    let text = match (&decision.attempt, &decision.ended) {
        (None, Some(ended)) => phrases::join_sentences(ended, &decision.to_log_text()),
        (_, _) => decision.to_log_text(),
    };
    match failed.unit {
        Some(unit) => format!("{}: {text}", moment.name(unit)),
        None => text,
    }
}

/// Formats the failure of a run, and of its handler.
fn run_failed_line(moment: &FactContext<'_>, handler_error: Option<&RunError>) -> String {
    let text = match moment.run.and_then(run_error) {
        None => "the run failed".to_owned(),
        Some(failed) => format!("the run failed: {}", describe_run_error(moment, failed)),
    };
    match handler_error {
        None => text,
        Some(error) => format!("{text}; its exception handler failed too: {}", cause(&error.error)),
    }
}

/// Returns the error of a failing or failed run.
fn run_error(run: &Run) -> Option<&RunError> {
    match &run.phase {
        Phase::Going => None,
        Phase::Failing(failing) => Some(&failing.error),
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Failed { error, .. } => Some(error),
            RunOutcome::Completed { .. } | RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => {
                None
            }
        },
    }
}

/// Describes the error of a run, with its step if it has one.
fn describe_run_error(moment: &FactContext<'_>, failed: &RunError) -> String {
    match failed.unit {
        Some(unit) => format!("{}: {}", moment.name(unit), cause(&failed.error)),
        None => cause(&failed.error),
    }
}
