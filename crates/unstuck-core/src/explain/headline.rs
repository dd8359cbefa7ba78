//! The headline of an explanation: the state of a run in one sentence.

use crate::event::{Actor, Fact};
use crate::explain::RunContext;
use crate::explain::upcoming::running_handler;
use crate::model::error::RunError;
use crate::model::run::{Failing, Limit, PausedBy, Phase, RunEnd, RunOutcome, RunState, Slot};
use crate::model::unit::{Unit, UnitRef, UnitState, Waiting};
use crate::reason::phrases::{
    ago, cause, clock, count, first_of, in_their_words, state as state_word, until, who,
};
use crate::time::{Millis, Time};

/// At most this many steps are named.
const NAMED: usize = 3;

/// What is wrong with a run that is idle.
const NOBODY: &str = ", but no process is executing this run";

/// Builds the one sentence that sums up the run.
pub(super) fn build_headline(view: &RunContext<'_>) -> String {
    let is = match &view.run.phase {
        Phase::Ended(ended) => ended_headline(view, ended),
        Phase::Failing(failing) => failing_headline(view, failing),
        Phase::Going => open_headline(view),
    };
    let generation = match view.run.generation {
        1 => String::new(),
        n => format!(" (generation {n})"),
    };
    format!("{}{generation} of flow `{}` {is}", view.run.id, view.flow.name)
}

/// Describes how and when the run ended.
fn ended_headline(view: &RunContext<'_>, ended: &RunEnd) -> String {
    let when = ago(view.now, ended.at);
    match &ended.how {
        RunOutcome::Completed { .. } => {
            let took = match ended.at.since(generation_start(view)) {
                Millis::ZERO => String::new(),
                span => format!(", after {span}"),
            };
            format!("completed {when}{took}")
        }
        RunOutcome::Failed { error, handler } => {
            let handler = match handler {
                None => String::new(),
                Some((run, None)) => format!("; exception handler {run} completed"),
                Some((run, Some(error))) => {
                    format!("; exception handler {run} failed too: {}", cause(&error.error))
                }
            };
            format!("failed {when}: {}{handler}", describe_run_error(view, error))
        }
        RunOutcome::Cancelled { reason } => {
            let by = describe_last_actor(view, |fact| matches!(fact, Fact::RunCancelled { .. }));
            format!("was cancelled{by} {when}{}", in_their_words(reason.as_deref()))
        }
        RunOutcome::Superseded { by } => format!("was superseded {when} by {by}"),
    }
}

/// Returns when this generation began.
fn generation_start(view: &RunContext<'_>) -> Time {
    let first = view.history.iter().find(|event| event.generation == view.run.generation);
    first.map_or(view.run.created_at, |event| event.at)
}

/// Returns ` by anna` if a user or worker caused the last event with such a fact, else nothing.
fn describe_last_actor(view: &RunContext<'_>, wanted: impl Fn(&Fact) -> bool) -> String {
    let event = view.history.iter().rev().find(|event| event.facts.iter().any(&wanted));
    event.map_or(String::new(), |event| match &event.by {
        Actor::Engine => String::new(),
        actor @ (Actor::Worker | Actor::User(_)) => format!(" by {}", who(actor)),
    })
}

/// Describes the error of a failing or failed run, with its step if it has one.
fn describe_run_error(view: &RunContext<'_>, failed: &RunError) -> String {
    match failed.unit {
        Some(unit) => format!("{} ended with \"{}\"", view.quoted_name(unit), cause(&failed.error)),
        None => cause(&failed.error),
    }
}

/// Describes a failing run: its error, and what it still waits for.
fn failing_headline(view: &RunContext<'_>, failing: &Failing) -> String {
    let error = describe_run_error(view, &failing.error);
    let active = view.units_where(|unit| matches!(unit.state, UnitState::Active(_))).len();
    let now = match (running_handler(view), &failing.handler) {
        (Some((run, state)), _) => format!("exception handler {run} is {}", state_word(state)),
        (None, _) if active > 0 => {
            let verb = if active == 1 { "ends" } else { "end" };
            format!("{} {verb} first", count(active, "running attempt", "running attempts"))
        }
        (None, Some(handler)) => format!("exception handler `{}` runs next", handler.flow),
        (None, None) => "it fails next".to_owned(),
    };
    let paused = if view.run.paused.is_some() { "is paused, and " } else { "" };
    format!("{paused}is failing: {error}; {now}")
}

/// Describes a run that is neither failing nor ended, by its state; idle runs come first.
fn open_headline(view: &RunContext<'_>) -> String {
    match view.run.state() {
        RunState::Paused => describe_paused(view),
        RunState::Running if view.is_idle => {
            format!("is idle: {}{NOBODY}{}", describe_ready(view), describe_trouble(view))
        }
        RunState::Waiting if view.is_idle => format!("is idle: {}{NOBODY}", describe_waiting(view)),
        RunState::Queued if view.is_idle => {
            let queued = describe_queued(view);
            let queued = queued.trim_start_matches("is queued: ");
            format!("is idle: {queued}, and no process is executing this run")
        }
        RunState::Running => format!("is running: {}{}", describe_running(view), describe_trouble(view)),
        RunState::Held => format!("is held: {}", describe_resting(view, RunState::Held)),
        RunState::Error => format!("is in error: {}", describe_resting(view, RunState::Error)),
        RunState::Waiting => format!("is waiting: {}", describe_waiting(view)),
        RunState::Queued => describe_queued(view),
        // A run in this phase is in none of these states.
        RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => {
            format!("is {}", view.run.state().word())
        }
    }
}

/// Describes a paused run: since when, by whom and why.
fn describe_paused(view: &RunContext<'_>) -> String {
    let is_pause = |fact: &Fact| matches!(fact, Fact::Paused { .. });
    let found = view.history.iter().rev().find_map(|event| {
        event.facts.iter().rev().find_map(|fact| {
            if let Fact::Paused { reason, .. } = fact { Some((event.at, reason.clone())) } else { None }
        })
    });
    let (since, reason) = found.map_or((None, None), |(at, reason)| (Some(at), reason));
    let when = since.map_or(String::new(), |since| format!(" since {} UTC", clock(view.now, since)));
    let words = in_their_words(reason.as_deref());
    let by = match view.run.paused {
        Some(PausedBy::Parent) => " with its parent".to_owned(),
        Some(PausedBy::Operator) | None => describe_last_actor(view, is_pause),
    };
    format!("is paused{by}{when}{words}: nothing new starts until it is unpaused")
}

/// Describes what runs: the active attempts, else the steps that wait for a worker.
fn describe_running(view: &RunContext<'_>) -> String {
    let active = view.units_where(|unit| {
        matches!(unit.state, UnitState::Active(_)) && state_needing_operator(view, unit).is_none()
    });
    if !active.is_empty() {
        let attempts = count(active.len(), "active attempt", "active attempts");
        return format!("{attempts} ({})", join_unit_names(view, &active));
    }
    let ready = view.units_where(|unit| matches!(unit.state, UnitState::Ready(_)));
    match ready.len() {
        0 => "its next step starts".to_owned(),
        1 => format!("step {} is ready and waits for a worker", join_unit_names(view, &ready)),
        _ => format!("steps {} are ready and wait for workers", join_unit_names(view, &ready)),
    }
}

/// Describes what a process that continues an idle run would start with.
fn describe_ready(view: &RunContext<'_>) -> String {
    let moves = |unit: &Unit| matches!(unit.state, UnitState::Ready(_) | UnitState::Active(_));
    let units = view.units_where(|unit| moves(unit) && state_needing_operator(view, unit).is_none());
    match units.len() {
        0 => "its next step is ready".to_owned(),
        1 => format!("step {} is ready", join_unit_names(view, &units)),
        _ => format!("steps {} are ready", join_unit_names(view, &units)),
    }
}

/// Joins the names of units; of many, the first few.
fn join_unit_names(view: &RunContext<'_>, units: &[(UnitRef, &Unit)]) -> String {
    let names: Vec<String> = units.iter().map(|(unit, _)| view.quoted_name(*unit)).collect();
    first_of(&names, NAMED)
}

/// Describes the steps that need an operator while the rest of the run continues.
fn describe_trouble(view: &RunContext<'_>) -> String {
    let held = view.units_where(|unit| state_needing_operator(view, unit) == Some(RunState::Held));
    let error = view.units_where(|unit| state_needing_operator(view, unit) == Some(RunState::Error));
    let part = |units: &[(UnitRef, &Unit)], word: &str| match units.len() {
        0 => String::new(),
        1 => format!("; {} is {word}", join_unit_names(view, units)),
        _ => format!("; {} are {word}", join_unit_names(view, units)),
    };
    format!("{}{}", part(&held, "held"), part(&error, "in error"))
}

/// Returns whether a unit, or its child, is held or in error.
fn state_needing_operator(view: &RunContext<'_>, unit: &Unit) -> Option<RunState> {
    match &unit.state {
        UnitState::Held { .. } => Some(RunState::Held),
        UnitState::Error { .. } => Some(RunState::Error),
        UnitState::Active(_) => {
            let (_, state) = view.awaited_child(unit)?;
            matches!(state, RunState::Held | RunState::Error).then_some(state)
        }
        UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Waiting(_)
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => None,
    }
}

/// Describes the steps in this state, held or in error, with the first error.
fn describe_resting(view: &RunContext<'_>, state: RunState) -> String {
    let units = view.units_where(|unit| state_needing_operator(view, unit) == Some(state));
    let Some((_, first)) = units.first() else {
        return format!("one of its children is {}", state_word(state));
    };
    if let Some((child, state)) = view.awaited_child(first) {
        let cause = view.causes.iter().find(|(id, _)| *id == child);
        let cause = cause.map_or(String::new(), |(_, cause)| format!(": {cause}"));
        return format!(
            "child {child} ({}) is {}{cause}",
            join_unit_names(view, &units[..1]),
            state_word(state)
        );
    }
    if state == RunState::Held {
        return format!("an operator must choose retry or none for {}", name_units_with_error(view, &units));
    }
    describe_errors(view, units)
}

/// Describes what moves the steps in error: an operator, a policy, or nothing because they are acknowledged.
fn describe_errors(view: &RunContext<'_>, units: Vec<(UnitRef, &Unit)>) -> String {
    let is_known = |unit: &Unit| matches!(unit.state, UnitState::Error { acknowledged: Some(_), .. });
    let (known, open): (Vec<_>, Vec<_>) = units.into_iter().partition(|(_, unit)| is_known(unit));
    let (mut scheduled, left): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|(_, unit)| scheduled_resume(unit).is_some());
    scheduled.sort_by_key(|(_, unit)| scheduled_resume(unit).map(|(at, _)| at));
    let mut parts = Vec::new();
    if !left.is_empty() {
        parts.push(format!("an operator must resume {}", name_units_with_error(view, &left)));
    }
    if let Some((at, policy)) = scheduled.first().and_then(|(_, unit)| scheduled_resume(unit)) {
        let first = name_units_with_error(view, &scheduled[..1]);
        let more = match scheduled.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let when = if view.run.paused.is_some() {
            String::new()
        } else if let Some(paused) = view.describe_policies_paused() {
            format!(" once automatic resumes are unpaused; they are {paused}")
        } else if view.is_idle && at <= view.now {
            format!(" when the run is continued (due since {} UTC)", clock(view.now, at))
        } else {
            format!(" {}", until(view.now, at))
        };
        parts.push(format!("policy `{policy}` resumes {first}{when}{more}"));
    }
    match known.len() {
        0 => {}
        1 => parts.push(format!("{} is acknowledged", name_units_with_error(view, &known))),
        _ => parts.push(format!("{} are acknowledged", name_units_with_error(view, &known))),
    }
    parts.join("; ")
}

/// Returns when a policy resumes a step in error, and which policy.
fn scheduled_resume(unit: &Unit) -> Option<(Time, &str)> {
    let UnitState::Error { resume: Some(resume), .. } = &unit.state else { return None };
    Some((resume.due, &*resume.policy.name))
}

/// Joins the names of steps, with the error of the first.
fn name_units_with_error(view: &RunContext<'_>, units: &[(UnitRef, &Unit)]) -> String {
    let mut names: Vec<String> = units.iter().map(|(unit, _)| view.quoted_name(*unit)).collect();
    if let (Some(name), Some((_, first))) = (names.first_mut(), units.first()) {
        let error = first.last_error().map_or(String::new(), |error| format!(" (\"{}\")", cause(error)));
        name.push_str(&error);
    }
    first_of(&names, NAMED)
}

/// Describes what the run waits for that comes first.
fn describe_waiting(view: &RunContext<'_>) -> String {
    let mut units = view.units_where(|unit| matches!(unit.state, UnitState::Waiting(_)));
    units.sort_by_key(|(_, unit)| {
        let due = if let UnitState::Waiting(waiting) = &unit.state { waiting.due() } else { None };
        (due.is_none(), due)
    });
    let more = match units.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let Some((unit, UnitState::Waiting(first))) = units.first().map(|(unit, state)| (*unit, &state.state))
    else {
        return waiting_child(view);
    };
    let name = view.quoted_name(unit);
    let text = match first {
        Waiting::Again { due, .. } if *due <= view.now => format!("the retry of {name} is due"),
        Waiting::Again { due, .. } => format!("{name} is retried {}", until(view.now, *due)),
        Waiting::Timer { due, .. } if *due <= view.now => format!("the wait of {name} has ended"),
        Waiting::Timer { due, .. } => format!("the wait of {name} ends {}", until(view.now, *due)),
        Waiting::Signal { name: signal, .. } => format!("{name} waits for signal `{signal}`"),
    };
    format!("{text}{more}")
}

fn waiting_child(view: &RunContext<'_>) -> String {
    let with_child = view.units_where(|unit| view.awaited_child(unit).is_some());
    match with_child.first().and_then(|(unit, state)| Some((unit, view.awaited_child(state)?))) {
        Some((unit, (child, state))) => {
            format!("child {child} ({}) is {}", view.quoted_name(*unit), state_word(state))
        }
        None => "nothing is due yet".to_owned(),
    }
}

/// Describes the slot that the run, or a child of it, waits for.
fn describe_queued(view: &RunContext<'_>) -> String {
    match (&view.run.slot, view.queued_below) {
        (Slot::Wanted(limit), _) => format!("is queued: {}", describe_missing_slot(view, limit)),
        (Slot::Unlimited | Slot::Taken(_), Some((child, limit))) => {
            format!("is queued: child {child} waits for a slot; {}", describe_missing_slot(view, limit))
        }
        (Slot::Unlimited | Slot::Taken(_), None) => {
            let children = view.units_where(|unit| view.awaited_child(unit).is_some());
            match children.first().and_then(|(unit, state)| Some((unit, view.awaited_child(state)?))) {
                Some((unit, (child, state))) => {
                    format!("is queued: child {child} ({}) is {}", view.quoted_name(*unit), state_word(state))
                }
                None => "is queued: nothing has started yet".to_owned(),
            }
        }
    }
}

/// Describes a limit that has no free slot, and who holds its slots.
fn describe_missing_slot(view: &RunContext<'_>, limit: &Limit) -> String {
    let runs = count(limit.max as usize, "run", "runs");
    let held = view.describe_slot_holders().map_or_else(String::new, |held| format!("; {held}"));
    format!("no free slot of limit `{}` (at most {runs} at once){held}", limit.name)
}
