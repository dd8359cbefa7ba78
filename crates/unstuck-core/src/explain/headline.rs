//! The state of a run in one sentence: every state has its own.

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

/// The whole in one sentence.
pub(super) fn headline(view: &RunContext<'_>) -> String {
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
            format!("failed {when}: {}{handler}", error_text(view, error))
        }
        RunOutcome::Cancelled { reason } => {
            let by = last_actor(view, |fact| matches!(fact, Fact::RunCancelled { .. }));
            format!("was cancelled{by} {when}{}", in_their_words(reason.as_deref()))
        }
        RunOutcome::Superseded { by } => format!("was superseded {when} by {by}"),
    }
}

/// When this generation began.
fn generation_start(view: &RunContext<'_>) -> Time {
    let first = view.history.iter().find(|event| event.generation == view.run.generation);
    first.map_or(view.run.created_at, |event| event.at)
}

/// ` by anna`, if a user caused the last event with such a fact.
fn last_actor(view: &RunContext<'_>, wanted: impl Fn(&Fact) -> bool) -> String {
    let event = view.history.iter().rev().find(|event| event.facts.iter().any(&wanted));
    event.map_or(String::new(), |event| match &event.by {
        Actor::Engine => String::new(),
        actor @ (Actor::Worker | Actor::User(_)) => format!(" by {}", who(actor)),
    })
}

fn error_text(view: &RunContext<'_>, failed: &RunError) -> String {
    match failed.unit {
        Some(unit) => format!("{} ended with \"{}\"", view.quoted(unit), cause(&failed.error)),
        None => cause(&failed.error),
    }
}

fn failing_headline(view: &RunContext<'_>, failing: &Failing) -> String {
    let error = error_text(view, &failing.error);
    let active = view.units(|unit| matches!(unit.state, UnitState::Active(_))).len();
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

fn open_headline(view: &RunContext<'_>) -> String {
    match view.run.state() {
        RunState::Paused => paused(view),
        RunState::Running if view.is_idle => format!("is idle: {}{NOBODY}{}", ready(view), trouble(view)),
        RunState::Waiting if view.is_idle => format!("is idle: {}{NOBODY}", waiting(view)),
        RunState::Queued if view.is_idle => {
            let queued = queued(view);
            let queued = queued.trim_start_matches("is queued: ");
            format!("is idle: {queued}, and no process is executing this run")
        }
        RunState::Running => format!("is running: {}{}", running(view), trouble(view)),
        RunState::Held => format!("is held: {}", resting(view, RunState::Held)),
        RunState::Error => format!("is in error: {}", resting(view, RunState::Error)),
        RunState::Waiting => format!("is waiting: {}", waiting(view)),
        RunState::Queued => queued(view),
        // A run that is going has none of these.
        RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => {
            format!("is {}", view.run.state().word())
        }
    }
}

fn paused(view: &RunContext<'_>) -> String {
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
        Some(PausedBy::Operator) | None => last_actor(view, is_pause),
    };
    format!("is paused{by}{when}{words}: nothing new starts until it is unpaused")
}

fn running(view: &RunContext<'_>) -> String {
    let active =
        view.units(|unit| matches!(unit.state, UnitState::Active(_)) && counts_as(view, unit).is_none());
    if !active.is_empty() {
        let attempts = count(active.len(), "active attempt", "active attempts");
        return format!("{attempts} ({})", names(view, &active));
    }
    let ready = view.units(|unit| matches!(unit.state, UnitState::Ready(_)));
    match ready.len() {
        0 => "its next step starts".to_owned(),
        1 => format!("step {} is ready and waits for a worker", names(view, &ready)),
        _ => format!("steps {} are ready and wait for workers", names(view, &ready)),
    }
}

/// What a process that continues an idle run would start with.
fn ready(view: &RunContext<'_>) -> String {
    let moves = |unit: &Unit| matches!(unit.state, UnitState::Ready(_) | UnitState::Active(_));
    let units = view.units(|unit| moves(unit) && counts_as(view, unit).is_none());
    match units.len() {
        0 => "its next step is ready".to_owned(),
        1 => format!("step {} is ready", names(view, &units)),
        _ => format!("steps {} are ready", names(view, &units)),
    }
}

fn names(view: &RunContext<'_>, units: &[(UnitRef, &Unit)]) -> String {
    let names: Vec<String> = units.iter().map(|(unit, _)| view.quoted(*unit)).collect();
    first_of(&names, NAMED)
}

/// What needs an operator while the rest of the run continues.
fn trouble(view: &RunContext<'_>) -> String {
    let held = view.units(|unit| counts_as(view, unit) == Some(RunState::Held));
    let error = view.units(|unit| counts_as(view, unit) == Some(RunState::Error));
    let part = |units: &[(UnitRef, &Unit)], word: &str| match units.len() {
        0 => String::new(),
        1 => format!("; {} is {word}", names(view, units)),
        _ => format!("; {} are {word}", names(view, units)),
    };
    format!("{}{}", part(&held, "held"), part(&error, "in error"))
}

/// Held or in error: the unit itself, or its child.
fn counts_as(view: &RunContext<'_>, unit: &Unit) -> Option<RunState> {
    match &unit.state {
        UnitState::Held { .. } => Some(RunState::Held),
        UnitState::Error { .. } => Some(RunState::Error),
        UnitState::Active(_) => {
            let (_, state) = view.child_of(unit)?;
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

/// The steps that wait for a person, and the first error among them.
fn resting(view: &RunContext<'_>, state: RunState) -> String {
    let units = view.units(|unit| counts_as(view, unit) == Some(state));
    let Some((_, first)) = units.first() else {
        return format!("one of its children is {}", state_word(state));
    };
    if let Some((child, state)) = view.child_of(first) {
        let cause = view.causes.iter().find(|(id, _)| *id == child);
        let cause = cause.map_or(String::new(), |(_, cause)| format!(": {cause}"));
        return format!("child {child} ({}) is {}{cause}", names(view, &units[..1]), state_word(state));
    }
    if state == RunState::Held {
        return format!("an operator must choose retry or none for {}", with_error(view, &units));
    }
    in_error(view, units)
}

/// What moves the steps in error: an operator or a policy; or they are acknowledged.
fn in_error(view: &RunContext<'_>, units: Vec<(UnitRef, &Unit)>) -> String {
    let is_known = |unit: &Unit| matches!(unit.state, UnitState::Error { acknowledged: Some(_), .. });
    let (known, open): (Vec<_>, Vec<_>) = units.into_iter().partition(|(_, unit)| is_known(unit));
    let (mut scheduled, left): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, unit)| due(unit).is_some());
    scheduled.sort_by_key(|(_, unit)| due(unit).map(|(at, _)| at));
    let mut parts = Vec::new();
    if !left.is_empty() {
        parts.push(format!("an operator must resume {}", with_error(view, &left)));
    }
    if let Some((at, policy)) = scheduled.first().and_then(|(_, unit)| due(unit)) {
        let first = with_error(view, &scheduled[..1]);
        let more = match scheduled.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let when = if view.run.paused.is_some() {
            String::new()
        } else if let Some(paused) = view.paused_words() {
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
        1 => parts.push(format!("{} is acknowledged", with_error(view, &known))),
        _ => parts.push(format!("{} are acknowledged", with_error(view, &known))),
    }
    parts.join("; ")
}

/// When a policy resumes a step, and which.
fn due(unit: &Unit) -> Option<(Time, &str)> {
    let UnitState::Error { resume: Some(resume), .. } = &unit.state else { return None };
    Some((resume.due, &*resume.policy.name))
}

/// The names of steps, with the error of the first.
fn with_error(view: &RunContext<'_>, units: &[(UnitRef, &Unit)]) -> String {
    let mut names: Vec<String> = units.iter().map(|(unit, _)| view.quoted(*unit)).collect();
    if let (Some(name), Some((_, first))) = (names.first_mut(), units.first()) {
        let error = first.last_error().map_or(String::new(), |error| format!(" (\"{}\")", cause(error)));
        name.push_str(&error);
    }
    first_of(&names, NAMED)
}

/// What comes first of all that the run waits for.
fn waiting(view: &RunContext<'_>) -> String {
    let mut units = view.units(|unit| matches!(unit.state, UnitState::Waiting(_)));
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
    let name = view.quoted(unit);
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
    let with_child = view.units(|unit| view.child_of(unit).is_some());
    match with_child.first().and_then(|(unit, state)| Some((unit, view.child_of(state)?))) {
        Some((unit, (child, state))) => {
            format!("child {child} ({}) is {}", view.quoted(*unit), state_word(state))
        }
        None => "nothing is due yet".to_owned(),
    }
}

fn queued(view: &RunContext<'_>) -> String {
    match (&view.run.slot, view.queued_below) {
        (Slot::Wanted(limit), _) => format!("is queued: {}", no_slot(view, limit)),
        (Slot::Unlimited | Slot::Taken(_), Some((child, limit))) => {
            format!("is queued: child {child} waits for a slot; {}", no_slot(view, limit))
        }
        (Slot::Unlimited | Slot::Taken(_), None) => {
            let children = view.units(|unit| view.child_of(unit).is_some());
            match children.first().and_then(|(unit, state)| Some((unit, view.child_of(state)?))) {
                Some((unit, (child, state))) => {
                    format!("is queued: child {child} ({}) is {}", view.quoted(*unit), state_word(state))
                }
                None => "is queued: nothing has started yet".to_owned(),
            }
        }
    }
}

fn no_slot(view: &RunContext<'_>, limit: &Limit) -> String {
    let runs = count(limit.max as usize, "run", "runs");
    let held = view.held_by().map_or_else(String::new, |held| format!("; {held}"));
    format!("no free slot of limit `{}` (at most {runs} at once){held}", limit.name)
}
