//! The live view: a header, and a line for each step with its state and what comes next.

use anstyle::Style;
use jiff::Timestamp;
use unstuck_api as api;
use unstuck_core::json::Payload;
use unstuck_core::model::attempt::{Outcome, ResumedBy, StuckLimit};
use unstuck_core::model::flow::{Flow, Step};
use unstuck_core::model::recovery::RetryStrategy;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::{AttemptPhase, Items, LiveAttempt, StepRun, Unit, UnitState, Waiting};
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::first_limit;

use super::screen::Row;
use super::show::View;
use super::tree::Tree;
use crate::view::style::{self, Look};
use crate::view::text;

/// Limits that are farther away are not shown.
const SOON: Millis = Millis::seconds(60);
/// The length at which progress is cut.
const LONGEST_PROGRESS: usize = 40;

impl View for Tree {
    fn rows(&self, now: Time, size: (usize, usize), look: Look) -> Vec<Row> {
        let Some((run, flow)) = self.root() else { return Vec::new() };
        let mut steps = Vec::new();
        add_steps(self, run, flow, now, 0, &mut steps);
        let end = if run.is_final() { run.updated_at } else { now };
        let header = Header {
            flow: &flow.name,
            run: run.id.to_string(),
            state: run.state().word(),
            elapsed: end.since(run.created_at),
        };
        layout_rows(&header, steps, size, look)
    }
}

/// Builds the view of a run that is known by its document.
pub(super) fn document_rows(run: &api::Run, now: Time, size: (usize, usize), look: Look) -> Vec<Row> {
    let time = |at: Timestamp| Time(at.as_millisecond());
    let is_final = matches!(run.state.as_str(), "completed" | "failed" | "cancelled" | "superseded");
    let end = if is_final { time(run.updated_at) } else { now };
    let header = Header {
        flow: &run.flow,
        run: run.id.clone(),
        state: &run.state,
        elapsed: end.since(time(run.created_at)),
    };
    // Items are counted by the server's pages; here their step stands for them.
    let steps = run.steps.iter().filter(|step| !step.id.ends_with(']'));
    let steps = steps.map(|step| StepLine {
        depth: 0,
        id: step.id.clone(),
        mark: state_mark(known_word(&step.state)),
        detail: document_detail(step, now),
    });
    layout_rows(&header, steps.collect(), size, look)
}

/// Lays the view out for a terminal of this size.
fn layout_rows(
    header: &Header<'_>,
    steps: Vec<StepLine>,
    (width, height): (usize, usize),
    look: Look,
) -> Vec<Row> {
    let ids =
        steps.iter().map(|step| step.depth * 2 + text::columns(&step.id)).max().unwrap_or(0).min(width / 3);
    // The log keeps a third of the screen. An empty row, the header, and the row that the cursor is on take room too.
    let (steps, left_out) = select_steps(steps, (height * 2 / 3).saturating_sub(3));
    let mut rows = vec![Row::new("", width, ""), header.to_row(width, look)];
    rows.extend(steps.iter().map(|step| step.to_row(ids, width, look)));
    rows.extend(left_out.map(|text| Row::new(&format!("  {text}"), width, ellipsis(look))));
    rows
}

/// A step as it is shown.
#[derive(Clone)]
struct StepLine {
    depth: usize,
    id: String,
    mark: Mark,
    /// What follows the word for its state.
    detail: String,
}

/// The state of a step: its word, and how that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    word: &'static str,
    symbol: char,
    ascii: char,
    style: Style,
    /// Whether it is worth a look now.
    telling: bool,
}

/// Returns how a step state is shown.
fn state_mark(word: &'static str) -> Mark {
    let (symbol, ascii, style, telling) = match word {
        "ready" => ('○', 'o', style::BUSY, true),
        "active" => ('●', '*', style::BUSY, true),
        "waiting" => ('◌', '~', style::LATER, true),
        "held" => ('‖', '!', style::ASKS, true),
        "error" | "failed" => ('✗', 'x', style::BAD, true),
        "completed" => ('✓', '+', style::GOOD, false),
        "skipped" | "dropped" | "cancelled" => ('–', '-', style::DIM, false),
        _ => ('·', '.', style::DIM, false),
    };
    Mark { word, symbol, ascii, style, telling }
}

fn ellipsis(look: Look) -> &'static str {
    if look.unicode { "…" } else { "..." }
}

/// The first row: flow, run, state and time.
struct Header<'a> {
    flow: &'a str,
    run: String,
    state: &'a str,
    elapsed: Millis,
}

impl Header<'_> {
    fn to_row(&self, width: usize, look: Look) -> Row {
        let Header { flow, run, state, elapsed } = self;
        let elapsed = format_seconds(*elapsed);
        let plain = format!("{flow} {run} {state} {elapsed}");
        if text::columns(&plain) > width {
            return Row::new(&plain, width, ellipsis(look));
        }
        let painted = format!(
            "{} {} {} {elapsed}",
            look.paint(style::BOLD, flow),
            look.paint(style::DIM, run),
            look.paint(style::style_of_word(state), state),
        );
        Row { columns: text::columns(&plain), painted }
    }
}

impl StepLine {
    /// Formats the line of a step to fit the width.
    fn to_row(&self, ids: usize, width: usize, look: Look) -> Row {
        let symbol = if look.unicode { self.mark.symbol } else { self.mark.ascii };
        let id = format!("{}{}", "  ".repeat(self.depth), text::visible(&self.id));
        let id = text::cut(&id, ids, ellipsis(look));
        let padding = " ".repeat(ids - text::columns(&id));
        let before = format!("{symbol} {id}{padding}  ");
        let said = format!("{}{}", self.mark.word, text::visible(&self.detail));
        let Some(room) = width.checked_sub(text::columns(&before)).filter(|room| *room > 0) else {
            return Row::new(&before, width, ellipsis(look));
        };
        let said = text::cut(&said, room, ellipsis(look));
        let columns = text::columns(&before) + text::columns(&said);
        // Only the word is coloured, to keep the rest readable.
        let painted = match said.strip_prefix(self.mark.word) {
            Some(rest) => format!("{}{rest}", look.paint(self.mark.style, self.mark.word)),
            None => said,
        };
        let symbol = look.paint(self.mark.style, symbol);
        Row { columns, painted: format!("{symbol} {id}{padding}  {painted}") }
    }
}

/// Adds the steps of a run, each followed by those of its child.
fn add_steps(tree: &Tree, run: &Run, flow: &Flow, now: Time, depth: usize, all: &mut Vec<StepLine>) {
    for ix in flow.step_indices() {
        let (step, state) = (flow.step(ix), run.step(ix));
        let detail = match state {
            StepRun::Single(unit) => unit_detail(step, unit, now),
            StepRun::Items(items) => items_detail(items),
        };
        all.push(StepLine { depth, id: step.id.to_string(), mark: state_mark(state.word()), detail });
        if let StepRun::Single(Unit { state: UnitState::Active(_), child: Some(child), .. }) = state
            && let Some((child, flow)) = tree.get(*child).filter(|(child, _)| !child.is_final())
        {
            add_steps(tree, child, flow, now, depth + 1, all);
        }
    }
}

/// Selects the steps that fit: first those that need attention, then their neighbours. Returns a note about the others.
fn select_steps(steps: Vec<StepLine>, room: usize) -> (Vec<StepLine>, Option<String>) {
    if steps.len() <= room {
        return (steps, None);
    }
    let room = room.saturating_sub(1);
    let first = steps.iter().position(|step| step.mark.telling).unwrap_or(0);
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|place| (!steps[*place].mark.telling, place.abs_diff(first)));
    let mut shown: Vec<usize> = order.iter().copied().take(room).collect();
    shown.sort_unstable();
    let mut words: Vec<(&str, usize)> = Vec::new();
    for place in &order[room.min(order.len())..] {
        let word = steps[*place].mark.word;
        match words.iter_mut().find(|(other, _)| *other == word) {
            Some((_, count)) => *count += 1,
            None => words.push((word, 1)),
        }
    }
    let words: Vec<String> = words.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
    let left_out = format!("and {} more: {}", steps.len() - shown.len(), words.join(", "));
    (shown.into_iter().map(|place| steps[place].clone()).collect(), Some(left_out))
}

/// Describes what a step is doing and what comes next, to follow the word for its state.
fn unit_detail(step: &Step, unit: &Unit, now: Time) -> String {
    let detail = match &unit.state {
        UnitState::Pending
        | UnitState::Skipped { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => return String::new(),
        UnitState::Completed { at, .. } => return describe_completed(unit, *at),
        UnitState::Ready(queued) => {
            format!("attempt {} queued for {}", queued.attempt, format_seconds(now.since(queued.since)))
        }
        UnitState::Active(live) => describe_active(step, live, now),
        UnitState::Waiting(waiting) => describe_waiting(step, unit, waiting, now),
        UnitState::Held { .. } => format!("{}; waits for an operator", last_cause(unit)),
        UnitState::Error { resume: Some(resume), .. } if resume.due < now => {
            let late = format_seconds(now.since(resume.due));
            format!("{}; policy {} was due {late} ago", last_cause(unit), resume.policy.name)
        }
        UnitState::Error { resume: Some(resume), .. } => {
            let due = format_seconds(resume.due.since(now));
            format!("{}; policy {} resumes it in {due}", last_cause(unit), resume.policy.name)
        }
        UnitState::Error { resume: None, .. } | UnitState::Failed { goes_on: false, .. } => last_cause(unit),
        UnitState::Failed { goes_on: true, .. } => format!("{}; the flow continues", last_cause(unit)),
    };
    format!(": {detail}")
}

/// Describes an attempt under way: since when, its progress, and its next limit if that is near.
fn describe_active(step: &Step, live: &LiveAttempt, now: Time) -> String {
    let (since, progress) = match &live.doing {
        AttemptPhase::Dequeued { at, .. } => (*at, None),
        AttemptPhase::Working { started_at, progress, .. } => (*started_at, progress.as_ref()),
        AttemptPhase::Child { started_at, state } => {
            let state = if *state == RunState::Running { "" } else { state.word() };
            let child = if state.is_empty() { "child".to_owned() } else { format!("child is {state}") };
            return format!("{child}, for {}", format_seconds(now.since(*started_at)));
        }
    };
    let mut parts = vec![format!("attempt {} for {}", live.attempt, format_seconds(now.since(since)))];
    if let Some(Payload::Inline(progress)) = progress {
        parts.push(text::cut(progress.text(), LONGEST_PROGRESS, "..."));
    }
    // Heartbeats without progress are no events: a limit that has passed was moved by one.
    let limit = first_limit(step, live, None).filter(|(due, _)| *due > now && due.since(now) <= SOON);
    if let Some((due, limit)) = limit {
        let unless = match limit {
            StuckLimit::Heartbeat(_) => "without a heartbeat",
            StuckLimit::Start(_) | StuckLimit::Total(_) | StuckLimit::Gone => "unless it ends",
        };
        parts.push(format!("stuck in {} {unless}", format_seconds(due.since(now))));
    }
    parts.join(", ")
}

/// Describes what a unit waits for, and for how long.
fn describe_waiting(step: &Step, unit: &Unit, waiting: &Waiting, now: Time) -> String {
    let due_in = |due: Time| format_seconds(due.since(now));
    match waiting {
        Waiting::Again { due, by, .. } => {
            format!("retrying in {} ({})", due_in(*due), why_retried(step, unit, *by))
        }
        Waiting::Timer { due, .. } => format!("continues in {}", due_in(*due)),
        Waiting::Signal { name, until: None, .. } => format!("for signal {name}"),
        Waiting::Signal { name, until: Some(until), .. } => {
            format!("for signal {name}, at most {}", due_in(*until))
        }
    }
}

/// Describes why a unit is tried again, with its budget.
fn why_retried(step: &Step, unit: &Unit, by: ResumedBy) -> String {
    match (by, unit.last_outcome()) {
        (ResumedBy::Retry, _) => match step.retry {
            RetryStrategy::Retry { max_attempts: Some(max), .. } => {
                format!("attempt {} of {max}", unit.round.stalled.saturating_add(1))
            }
            RetryStrategy::Retry { max_attempts: None, .. }
            | RetryStrategy::None
            | RetryStrategy::Hold { .. } => format!("attempt {}", unit.round.stalled.saturating_add(1)),
        },
        (ResumedBy::Defer, Some(Outcome::Deferred { lacking: Some(lacking), .. })) => {
            format!("deferred: {lacking}")
        }
        (ResumedBy::Reclaim, Some(Outcome::Stuck(_))) => {
            format!("stuck {} of {}", unit.round.stuck, step.limits.max_stuck)
        }
        (
            ResumedBy::Defer
            | ResumedBy::Release
            | ResumedBy::Reclaim
            | ResumedBy::Policy
            | ResumedBy::Operator
            | ResumedBy::Rerun,
            _,
        ) => by.word().to_owned(),
    }
}

/// Returns the cause of the last attempt's end.
fn last_cause(unit: &Unit) -> String {
    match unit.last_outcome() {
        Some(Outcome::Stalled(error) | Outcome::Failed(error)) => error.cause.to_string(),
        Some(Outcome::Stuck(stuck)) => format!("stuck: {}", stuck.limit),
        Some(Outcome::Completed(_) | Outcome::Deferred { .. } | Outcome::Cancelled(_)) | None => {
            "no attempt".to_owned()
        }
    }
}

/// Describes how long a unit took, and in how many attempts.
fn describe_completed(unit: &Unit, at: Time) -> String {
    let Some(first) = unit.past.first() else { return String::new() };
    let took = format_seconds(at.since(first.queued_at));
    match unit.attempts {
        0 | 1 => format!(" in {took}"),
        attempts => format!(" in {took}, {attempts} attempts"),
    }
}

/// Returns the word for the state of a step, as it is known here.
fn known_word(word: &str) -> &'static str {
    let words = [
        "ready",
        "active",
        "waiting",
        "held",
        "error",
        "failed",
        "completed",
        "skipped",
        "dropped",
        "cancelled",
    ];
    words.into_iter().find(|known| *known == word).unwrap_or("pending")
}

/// Describes what a step is doing, as far as a document says it.
fn document_detail(step: &api::Step, now: Time) -> String {
    let ago = |at: Option<Timestamp>| at.map(|at| format_seconds(now.since(Time(at.as_millisecond()))));
    let last = step.attempts.last();
    let cause = step.error.as_ref().map_or("no attempt", |error| &error.cause);
    match step.state.as_str() {
        "active" | "ready" => {
            let Some(attempt) = last else { return String::new() };
            let what = if step.state == "ready" { " queued" } else { "" };
            let since = ago(attempt.started_at.or(attempt.queued_at)).unwrap_or_default();
            let progress = attempt.progress.as_ref().map_or_else(String::new, |progress| {
                format!(", {}", text::cut(progress.get(), LONGEST_PROGRESS, "..."))
            });
            format!(": attempt {}{what} for {since}{progress}", attempt.attempt)
        }
        "error" => match (step.next_auto_resume, &step.next_auto_resume_reason) {
            (Some(due), Some(policy)) => {
                let due = format_seconds(Time(due.as_millisecond()).since(now));
                format!(": {cause}; policy {policy} resumes it in {due}")
            }
            _ => format!(": {cause}"),
        },
        "held" => format!(": {cause}; waits for an operator"),
        "failed" => format!(": {cause}"),
        _ => String::new(),
    }
}

/// Counts the items of a fan-out by state.
fn items_detail(items: &Items) -> String {
    let mut counts = ["active", "ready", "waiting", "held", "error", "failed"].map(|word| (word, 0));
    let mut done = 0;
    for unit in items.units.values() {
        if unit.state.unblocks_dependents() {
            done += 1;
        }
        if let Some((_, count)) = counts.iter_mut().find(|(word, _)| *word == unit.state.word()) {
            *count += 1;
        }
    }
    let mut parts = vec![format!("{done}/{} done", items.total)];
    parts.extend(counts.into_iter().filter(|(_, n)| *n > 0).map(|(word, n)| format!("{n} {word}")));
    format!(": {}", parts.join(", "))
}

/// Formats a running time with one decimal, so that its width does not change.
fn format_seconds(span: Millis) -> String {
    if span < Millis::minutes(1) {
        format!("{}.{}s", span.0 / 1_000, span.0 % 1_000 / 100)
    } else {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: usize, word: &'static str) -> StepLine {
        StepLine { depth: 0, id: id.to_string(), mark: state_mark(word), detail: String::new() }
    }

    #[test]
    fn what_is_worth_a_look_is_shown_first_then_what_is_near_it() {
        let words =
            ["completed", "completed", "completed", "active", "pending", "pending", "held", "pending"];
        let steps = || words.iter().enumerate().map(|(id, word)| line(id, word)).collect::<Vec<_>>();
        let cases: [(usize, &[&str], Option<&str>); 4] = [
            (8, &["0", "1", "2", "3", "4", "5", "6", "7"], None),
            (5, &["2", "3", "4", "6"], Some("and 4 more: 2 completed, 2 pending")),
            (2, &["3"], Some("and 7 more: 1 held, 3 completed, 3 pending")),
            (0, &[], Some("and 8 more: 1 active, 1 held, 3 completed, 3 pending")),
        ];
        for (room, shown, left_out) in cases {
            let (steps, text) = select_steps(steps(), room);
            let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
            assert_eq!((ids.as_slice(), text.as_deref()), (shown, left_out), "{room}");
        }
    }

    #[test]
    fn every_row_fits_the_terminal() {
        let long = StepLine {
            depth: 2,
            id: "a-step-with-a-rather-long-name".to_owned(),
            mark: state_mark("waiting"),
            detail: ": retrying in 1.4s (deferred: the archive is full \u{1b}[2J and \u{6f22}\u{5b57})"
                .to_owned(),
        };
        for unicode in [true, false] {
            let look = Look { unicode, ..Look::PLAIN };
            for width in 1..120 {
                let row = long.to_row((width / 3).min(34), width, look);
                assert_eq!(row.columns, text::columns(&row.painted));
                assert!(
                    row.columns <= width && !row.painted.contains('\u{1b}'),
                    "{} in {width}",
                    row.painted
                );
            }
        }
    }

    #[test]
    fn a_time_keeps_its_tenth() {
        let cases = [(0, "0.0s"), (1_449, "1.4s"), (2_000, "2.0s"), (59_999, "59.9s"), (61_000, "1m 1s")];
        for (ms, wanted) in cases {
            assert_eq!(format_seconds(Millis(ms)), wanted);
        }
    }
}
