//! Explains why each step and item is in its state.

use crate::explain::{RunContext, SHOWN, UnitReason};
use crate::interpreter::interpreter;
use crate::json::Payload;
use crate::model::attempt::{ResumedBy, Worker};
use crate::model::flow::{Kind, Step, StepIndex};
use crate::model::run::{PausedBy, Run, Slot};
use crate::model::unit::{
    AttemptPhase, Items, LiveAttempt, QueuePlace, QueuedAttempt, SkippedBy, StepRun, Unit, UnitRef,
    UnitState, Waiting,
};
use crate::reason::phrases::{self, ago, count, join_list, lasting, shorten_to_line, until};
use crate::time::Time;

/// The length at which progress is cut.
const LONGEST_PROGRESS: usize = 100;
/// The states of items in the order in which they are counted up, as people say them.
const ITEM_STATES: [(&str, &str); 11] = [
    ("completed", "completed"),
    ("skipped", "skipped"),
    ("failed", "failed"),
    ("active", "active"),
    ("ready", "ready"),
    ("waiting", "waiting"),
    ("held", "held"),
    ("error", "in error"),
    ("pending", "pending"),
    ("dropped", "dropped"),
    ("cancelled", "cancelled"),
];

/// Explains every step, in order; after a fan-out its items that are not done.
pub(super) fn unit_reasons(view: &RunContext<'_>) -> Vec<UnitReason> {
    let mut all = Vec::new();
    for (place, step) in (0..=u16::MAX).map(StepIndex).zip(&view.run.steps) {
        let unit = UnitRef::step(place);
        let (state, why) = match step {
            StepRun::Single(single) => (single.state.word(), unit_reason(view, unit, single)),
            StepRun::Items(items) => (step.word(), items_reason(view, place, items)),
        };
        all.push(UnitReason { unit, name: phrases::unit_name(view.flow, unit), state, why });
        if let StepRun::Items(items) = step {
            all.extend(open_item_reasons(view, place, items));
        }
    }
    all
}

/// Explains the items of a fan-out that are not done, the first few of them.
fn open_item_reasons(view: &RunContext<'_>, step: StepIndex, items: &Items) -> Vec<UnitReason> {
    let open = items.units.iter().filter(|(_, unit)| !is_done(&unit.state));
    let reasons = open.take(SHOWN).map(|(item, state)| {
        let unit = UnitRef::item(step, *item);
        let why = unit_reason(view, unit, state);
        UnitReason { unit, name: phrases::unit_name(view.flow, unit), state: state.state.word(), why }
    });
    reasons.collect()
}

/// Returns whether an item needs no line of its own besides being counted.
fn is_done(state: &UnitState) -> bool {
    match state {
        UnitState::Completed { .. } | UnitState::Skipped { .. } | UnitState::Failed { goes_on: true, .. } => {
            true
        }
        UnitState::Dropped { .. } | UnitState::Cancelled { .. } => true,
        UnitState::Pending
        | UnitState::Ready(_)
        | UnitState::Active(_)
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Failed { goes_on: false, .. } => false,
    }
}

/// Explains a fan-out as a whole: how many of its items are in which state.
fn items_reason(view: &RunContext<'_>, step: StepIndex, items: &Items) -> String {
    let launched = items.units.len();
    let mut parts = Vec::new();
    for (word, shown) in ITEM_STATES {
        match items.units.values().filter(|unit| unit.state.word() == word).count() {
            0 => {}
            n => parts.push(format!("{n} {shown}")),
        }
    }
    let open = (items.total as usize).saturating_sub(launched);
    if open > 0 {
        let parallel = view.flow.step(step).node.for_each.as_ref().map_or(1, |each| each.parallel);
        parts.push(format!("{open} not started yet (parallel: {parallel})"));
    }
    let total = count(items.total as usize, "item", "items");
    let unfinished = items.units.values().filter(|unit| !is_done(&unit.state)).count();
    let cut = match unfinished {
        0..=SHOWN => String::new(),
        _ => format!("; showing the first {SHOWN} of {unfinished} unfinished items"),
    };
    if parts.is_empty() { total } else { format!("{total}: {}{cut}", join_list(&parts)) }
}

/// Explains one unit by its state.
fn unit_reason(view: &RunContext<'_>, unit: UnitRef, state: &Unit) -> String {
    let now = view.now;
    match &state.state {
        UnitState::Pending => pending_reason(view, unit),
        UnitState::Ready(queued) => ready_reason(view, unit, queued),
        UnitState::Active(live) => active_reason(view, state, live),
        UnitState::Waiting(waiting) => waiting_reason(view, state, waiting),
        UnitState::Held { since } => {
            let text = decision_reason(view, unit, state, "an operator has not chosen yet");
            append_time_in_state(text, "held", now, *since)
        }
        UnitState::Error { since, resume, acknowledged } => {
            let otherwise = match (resume, acknowledged) {
                (Some(resume), _) => format!("policy `{}` resumes it", resume.policy.name),
                (None, Some(_)) => "it is acknowledged".to_owned(),
                (None, None) => "needs an operator".to_owned(),
            };
            let text = decision_reason(view, unit, state, &otherwise);
            append_time_in_state(text, "in error", now, *since)
        }
        UnitState::Completed { at, .. } => when_completed(view, state, *at),
        UnitState::Skipped { at, why: SkippedBy::Condition } => {
            format!("its condition was false ({})", ago(now, *at))
        }
        UnitState::Skipped { at, why: SkippedBy::Operator } => {
            let text = decision_reason(view, unit, state, "skipped by an operator");
            format!("{text} ({})", ago(now, *at))
        }
        UnitState::Failed { at, goes_on: true } => {
            let text = decision_reason(view, unit, state, "the flow continues without it");
            format!("{text} ({})", ago(now, *at))
        }
        UnitState::Failed { at, goes_on: false } => {
            let text = decision_reason(view, unit, state, "the run fails with it");
            format!("{text} ({})", ago(now, *at))
        }
        UnitState::Dropped { at } => format!("the exception handler took over {}", ago(now, *at)),
        UnitState::Cancelled { at } => format!("its run ended {}", ago(now, *at)),
    }
}

/// Explains a step that has not been reached: which steps it needs, or what keeps the run from starting it.
fn pending_reason(view: &RunContext<'_>, unit: UnitRef) -> String {
    let missing = interpreter(view.flow).missing_steps(view.run, view.flow, unit.step);
    let missing: Vec<String> =
        missing.into_iter().map(|need| view.quoted_name(UnitRef::step(need))).collect();
    if !missing.is_empty() {
        return format!("needs {}", join_list(&missing));
    }
    why_run_cannot_schedule(view.run).unwrap_or_else(|| "starts next".to_owned())
}

/// Explains in a sentence why an attempt of this step is still queued: what keeps the run back, or who could take it.
pub fn why_still_queued(run: &Run, step: &Step, queued: &QueuedAttempt) -> String {
    why_run_cannot_schedule(run)
        .unwrap_or_else(|| format!("waits for {}", describe_taker(step, queued.place)))
}

/// Explains what keeps the run from starting steps, if anything does: a pause or a missing slot.
fn why_run_cannot_schedule(run: &Run) -> Option<String> {
    match (run.paused, &run.slot) {
        (Some(PausedBy::Operator), _) => Some("the run is paused".to_owned()),
        (Some(PausedBy::Parent), _) => Some("the run is paused with its parent".to_owned()),
        (None, Slot::Wanted(limit)) => {
            let runs = count(limit.max as usize, "run", "runs");
            Some(format!("the run waits for a slot of limit `{}` (at most {runs} at once)", limit.name))
        }
        (None, Slot::Unlimited | Slot::Taken(_)) => None,
    }
}

/// Explains a queued attempt: what keeps the run back, or which worker it waits for.
fn ready_reason(view: &RunContext<'_>, unit: UnitRef, queued: &QueuedAttempt) -> String {
    let attempt = format!("attempt {} is queued{}", queued.attempt, lasting(view.now, queued.since));
    match why_run_cannot_schedule(view.run) {
        Some(why) => format!("{attempt}; {why}"),
        None if view.is_idle => format!("idle: {attempt}, but no process is executing this run"),
        None => format!("{attempt} and waits for {}", describe_taker(view.step(unit), queued.place)),
    }
}

/// Describes who can take the attempts of a step.
pub(super) fn describe_taker(step: &Step, place: QueuePlace) -> String {
    let who = match &step.kind {
        Kind::Action(name) => format!("a worker that offers `{name}`"),
        Kind::Process(_) => "an engine that runs local processes".to_owned(),
        Kind::Http(_) => "an engine that makes HTTP requests".to_owned(),
        Kind::Emulate(_) => "an engine that runs emulations".to_owned(),
        Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_) => "the engine".to_owned(),
    };
    if place.alone { format!("{who} and runs nothing else") } else { who }
}

/// Explains an attempt under way: its worker or child, since when, and its progress.
fn active_reason(view: &RunContext<'_>, state: &Unit, live: &LiveAttempt) -> String {
    let (now, attempt) = (view.now, live.attempt);
    match &live.doing {
        AttemptPhase::Dequeued { worker, at } => {
            format!(
                "attempt {attempt} was handed to worker {} {} but has not started",
                worker.name,
                ago(now, *at)
            )
        }
        AttemptPhase::Working { worker, started_at, heard, progress } => {
            let is = if is_interrupted(view, worker) { "was" } else { "is" };
            let worker_text = format!("attempt {attempt} {is} running on worker {}", worker.name);
            let heard = if heard > started_at {
                format!(", last heartbeat {}", ago(now, *heard))
            } else {
                String::new()
            };
            let progress = progress.as_ref().map_or(String::new(), |progress| match progress {
                Payload::Inline(json) => {
                    format!("; progress: {}", shorten_to_line(json.text(), LONGEST_PROGRESS))
                }
                Payload::Stored(_) => "; progress was reported".to_owned(),
            });
            let text = format!("{worker_text}: started {}{heard}{progress}", ago(now, *started_at));
            if is_interrupted(view, worker) {
                format!("idle: {text}; no process is executing this run")
            } else {
                text
            }
        }
        AttemptPhase::Child { started_at, .. } => match view.awaited_child(state) {
            Some((child, state)) => {
                format!("attempt {attempt} is child {child}, which is {}", phrases::state(state))
            }
            None => format!("attempt {attempt} is a child run, started {}", ago(now, *started_at)),
        },
    }
}

/// Returns whether the local process that executed an attempt is gone, because the run is idle.
pub(super) fn is_interrupted(view: &RunContext<'_>, worker: &Worker) -> bool {
    view.is_idle && worker.local
}

/// Explains what a waiting unit waits for, and when that ends.
fn waiting_reason(view: &RunContext<'_>, state: &Unit, waiting: &Waiting) -> String {
    match waiting {
        Waiting::Again { due, by, .. } => {
            let why = match by {
                ResumedBy::Retry => " (retryStrategy)",
                ResumedBy::Policy => " (resume policy)",
                ResumedBy::Operator => " (resumed by an operator)",
                ResumedBy::Rerun => " (rerun)",
                // The end of the attempt has told it.
                ResumedBy::Defer | ResumedBy::Release | ResumedBy::Reclaim => "",
            };
            let again = format!("retrying {}{why}", describe_due(view, *due));
            match describe_last_end(state) {
                Some(ended) => phrases::join_sentences(&ended, &again),
                None => again,
            }
        }
        Waiting::Timer { due, .. } => format!("its wait ends {}", describe_due(view, *due)),
        Waiting::Signal { name, since, .. } => {
            format!("signal `{name}` has not arrived yet{}", time_in_state(view.now, *since))
        }
    }
}

/// Describes when a timer fires. One that comes due during a pause fires at the unpause.
fn describe_due(view: &RunContext<'_>, due: Time) -> String {
    match (view.run.paused, due > view.now) {
        (None, false) if view.is_idle => "when the run is continued".to_owned(),
        (None, _) => until(view.now, due),
        (Some(_), true) => format!("{}, if the run is unpaused by then", until(view.now, due)),
        (Some(_), false) => "once the run is unpaused".to_owned(),
    }
}

/// Appends a sentence about how long the unit has been in this state, if it is a second or more.
fn append_time_in_state(text: String, state: &str, now: Time, since: Time) -> String {
    match lasting(now, since).as_str() {
        "" => text,
        span => phrases::join_sentences(&text, &format!("{state}{span}")),
    }
}

/// Returns how long the unit has been in its state, in parentheses.
fn time_in_state(now: Time, since: Time) -> String {
    match lasting(now, since).as_str() {
        "" => String::new(),
        span => format!(" ({})", span.trim_start()),
    }
}

fn describe_last_end(state: &Unit) -> Option<String> {
    state.past.last().map(|past| phrases::describe_end(past.attempt, &past.outcome))
}

/// Returns the reason of the last decision about a unit, or at least how its last attempt ended.
fn decision_reason(view: &RunContext<'_>, unit: UnitRef, state: &Unit, still: &str) -> String {
    match (view.last_decision(unit), describe_last_end(state)) {
        (Some(decision), _) => decision.reason.clone(),
        (None, Some(ended)) => phrases::join_sentences(&ended, still),
        (None, None) => still.to_owned(),
    }
}

/// Describes when a unit completed, and after how many attempts if it took several.
fn when_completed(view: &RunContext<'_>, state: &Unit, at: Time) -> String {
    let when = ago(view.now, at);
    match state.attempts {
        0 | 1 => when,
        n => format!("{when}, after {n} attempts"),
    }
}
