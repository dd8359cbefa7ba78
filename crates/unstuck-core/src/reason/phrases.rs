//! Phrases that decisions and explanations share.

use crate::event::Actor;
use crate::model::attempt::Outcome;
use crate::model::error::Error;
use crate::model::flow::{Flow, Step, StepIndex};
use crate::model::run::RunState;
use crate::model::unit::UnitRef;
use crate::time::{Millis, Time};

/// The length at which a cause is cut; the document of the run has all of it.
const LONGEST_CAUSE: usize = 160;

/// Returns the name of a unit: `step` or `step[2]`. A history may refer to a step that this version of the flow lacks.
pub(crate) fn name(flow: &Flow, unit: UnitRef) -> String {
    let id = step_id(flow, unit.step);
    match unit.item {
        None => id,
        Some(item) => format!("{id}[{item}]"),
    }
}

/// Describes a correction of the clock by this many milliseconds, forward or (negative) back.
pub(crate) fn clock_corrected(by: i64) -> String {
    let (way, span) = (if by < 0 { "back" } else { "forward" }, Millis(by.unsigned_abs()));
    format!("the clock was set {way} by {span}; delays and timeouts keep their remaining time")
}

/// The id of a step.
pub(crate) fn step_id(flow: &Flow, step: StepIndex) -> String {
    find_step(flow, step).map_or_else(|| format!("step {}", step.0 + 1), |step| step.id.to_string())
}

/// Returns the step at this index, if this version of the flow has one there.
pub(crate) fn find_step(flow: &Flow, step: StepIndex) -> Option<&Step> {
    flow.steps.get(usize::from(step.0))
}

/// The cause of an error, on one line.
pub(crate) fn cause(error: &Error) -> String {
    shorten_to_line(&error.cause, LONGEST_CAUSE)
}

/// Puts a text on one line and cuts it to `longest` characters.
pub(crate) fn shorten_to_line(text: &str, longest: usize) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(longest) {
        None => one_line,
        Some((end, _)) => format!("{}...", &one_line[..end]),
    }
}

/// Describes how an attempt ended: `attempt 1 stalled: connection reset`.
pub(crate) fn ended(attempt: u32, outcome: &Outcome) -> String {
    let attempt = format!("attempt {attempt}");
    match outcome {
        Outcome::Completed(_) => format!("{attempt} completed"),
        Outcome::Stalled(error) => format!("{attempt} stalled: {}", cause(error)),
        Outcome::Failed(error) => format!("{attempt} failed: {}", cause(error)),
        Outcome::Deferred { lacking: Some(lacking), .. } => {
            format!("{attempt} was deferred: {}", shorten_to_line(lacking, LONGEST_CAUSE))
        }
        Outcome::Deferred { lacking: None, .. } => format!("{attempt} was deferred: not enough resources"),
        Outcome::Stuck(stuck) => format!("{attempt} is stuck: {}", stuck.limit),
        Outcome::Cancelled(why) => format!("{attempt} was cancelled: {}", why.text()),
    }
}

/// Joins two sentences; the second starts with a capital letter.
pub(crate) fn sentences(first: &str, second: &str) -> String {
    let mut rest = second.chars();
    let capital: String = rest.next().map_or_else(String::new, |letter| letter.to_uppercase().collect());
    let end = if first.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{end} {capital}{}", rest.as_str())
}

/// Returns the word for a state after `is`: `in error`, `held`.
pub(crate) fn state(state: RunState) -> &'static str {
    if state == RunState::Error { "in error" } else { state.word() }
}

/// Who caused something.
pub(crate) fn who(actor: &Actor) -> &str {
    match actor {
        Actor::Engine => "the engine",
        Actor::Worker => "the worker",
        Actor::User(name) => name,
    }
}

/// Returns the reason that a user gave, in parentheses; empty without one.
pub(crate) fn in_their_words(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!(" ({})", shorten_to_line(reason, LONGEST_CAUSE)))
}

/// `1 attempt`, `3 attempts`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// `2 of 3 attempts used in this round (1 left)`.
pub(crate) fn used_of(used: u32, max: u32) -> String {
    let noun = plural(max, "attempt");
    format!("{used} of {max} {noun} used in this round{}", left(used, max))
}

/// `stuck 2 of 3 in this round (1 left)`.
pub(crate) fn stuck_of(stuck: u32, max: u32) -> String {
    format!("stuck {stuck} of {max} in this round{}", left(stuck, max))
}

/// Describes what is left of a budget: ` (1 left)`, or nothing.
pub(crate) fn left(used: u32, max: u32) -> String {
    match max.saturating_sub(used) {
        0 => String::new(),
        left => format!(" ({left} left)"),
    }
}

/// The word with an `s` where there is not exactly one.
pub(crate) fn plural(n: u32, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Joins parts as in `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Joins the first few parts, and says how many more there are.
pub(crate) fn first_of(parts: &[String], shown: usize) -> String {
    if parts.len() <= shown + 1 {
        return list(parts);
    }
    format!("{} and {} more", parts[..shown].join(", "), parts.len() - shown)
}

/// `in 2s`, or `now` for what is due.
pub(crate) fn until(now: Time, due: Time) -> String {
    match due.since(now) {
        Millis::ZERO => "now".to_owned(),
        span => format!("in {span}"),
    }
}

/// `12s ago`, or `just now`.
pub(crate) fn ago(now: Time, then: Time) -> String {
    match now.since(then) {
        Millis(0..1_000) => "just now".to_owned(),
        span => format!("{span} ago"),
    }
}

/// `for 12s`, or nothing where that is no time at all.
pub(crate) fn lasting(now: Time, since: Time) -> String {
    match now.since(since) {
        Millis(0..1_000) => String::new(),
        span => format!(" for {span}"),
    }
}

/// Formats a time of day, with its date unless it is today.
pub(crate) fn clock(now: Time, time: Time) -> String {
    if day(now) == day(time) { time_of_day(time) } else { format!("{} {}", day(time), time_of_day(time)) }
}

/// `2030-01-31`, in UTC.
pub(crate) fn day(time: Time) -> String {
    time.timestamp().strftime("%F").to_string()
}

/// `08:30:00`, in UTC.
pub(crate) fn time_of_day(time: Time) -> String {
    time.timestamp().strftime("%T").to_string()
}
