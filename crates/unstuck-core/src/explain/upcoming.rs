//! What comes next and when: timers, retries, leases, deadlines, and what depends on others.

use crate::explain::unit_reasons::{describe_taker, is_interrupted};
use crate::explain::{RunContext, SHOWN, Upcoming};
use crate::id::RunId;
use crate::model::flow::Step;
use crate::model::run::{Failing, Handler, Origin, Phase, RunOutcome, Slot};
use crate::model::unit::{AttemptPhase, LiveAttempt, QueuedAttempt, Unit, UnitRef, UnitState, Waiting};
use crate::reason::phrases::{clock, count, state as state_word};
use crate::time::Time;
use crate::wakeup::{extended_due, lease_duration, queue_timeout_at};

/// Describes a scheduled resume while automatic resumes are paused: it fires on time only if they are unpaused by then.
fn upcoming_while_paused(view: &RunContext<'_>, due: Time, what: &str) -> Upcoming {
    if due > view.now {
        return timed(due, format!("{what}, if automatic resumes are unpaused by then"));
    }
    untimed(format!("when automatic resumes are unpaused (due since {}): {what}", clock(view.now, due)))
}

/// Lists what comes next: in order of time, then what has no time.
pub(super) fn upcoming(view: &RunContext<'_>) -> Vec<Upcoming> {
    let mut all = match &view.run.phase {
        Phase::Ended(ended) => vec![untimed(describe_ended(&ended.how, &view.run.origin))],
        Phase::Failing(failing) => upcoming_of_failing(view, failing),
        Phase::Going => upcoming_of_open(view),
    };
    if view.is_idle {
        // The process that continues the run performs what is due already.
        for next in all.iter_mut().filter(|next| next.at.is_some_and(|at| at <= view.now)) {
            let due = next.at.take().map_or_else(String::new, |at| clock(view.now, at));
            next.what = format!("when the run is continued (due since {due}): {}", next.what);
        }
    }
    let mut all = merge_errors_left(all);
    all.sort_by_key(|next| (next.at.is_none(), next.at));
    let more = all.len().saturating_sub(SHOWN);
    if more > 1 {
        all.truncate(SHOWN);
        all.push(untimed(format!("and {more} more")));
    }
    all.extend(upcoming_for_parent(view));
    all
}

/// Merges the sentences about steps that only an operator can resume into one, if there are many.
fn merge_errors_left(all: Vec<Upcoming>) -> Vec<Upcoming> {
    let (rest, mut others): (Vec<Upcoming>, Vec<Upcoming>) =
        all.into_iter().partition(|next| next.at.is_none() && next.what.ends_with(STAYS));
    if rest.len() <= NAMED {
        others.extend(rest);
        return others;
    }
    let names = rest.iter().take(NAMED).map(|next| next.what.trim_end_matches(STAYS));
    let names: Vec<&str> = names.collect();
    let more = rest.len() - NAMED;
    others.push(untimed(format!(
        "{} and {more} more stay in error until an operator resumes them",
        names.join(", ")
    )));
    others
}

/// The end of the sentence about a step that no policy resumes.
const STAYS: &str = " stays in error until an operator resumes it";
/// At most this many such steps are named.
const NAMED: usize = 3;

fn untimed(what: impl Into<String>) -> Upcoming {
    Upcoming { at: None, what: what.into() }
}

fn timed(at: Time, what: impl Into<String>) -> Upcoming {
    Upcoming { at: Some(at), what: what.into() }
}

/// Describes what can still happen to a run that has ended.
fn describe_ended(how: &RunOutcome, origin: &Origin) -> &'static str {
    let is_child = matches!(origin, Origin::Child { .. });
    match how {
        RunOutcome::Completed { .. } => "nothing: a completed run is final",
        RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. } if is_child => {
            "nothing in this run: its parent decides what follows"
        }
        RunOutcome::Failed { .. } => "nothing: a failed run is final; a rerun starts its next generation",
        RunOutcome::Cancelled { .. } => {
            "nothing: a cancelled run is final; a rerun starts its next generation"
        }
        RunOutcome::Superseded { .. } => "nothing: another run replaced it",
    }
}

/// Describes what the end of this run means for its parent.
fn upcoming_for_parent(view: &RunContext<'_>) -> Option<Upcoming> {
    if view.run.is_final() {
        return None;
    }
    match &view.run.origin {
        Origin::Root => None,
        Origin::Child { parent, .. } => {
            Some(untimed(format!("when this run ends, its parent {parent} continues")))
        }
        Origin::Handler { parent, .. } => {
            Some(untimed(format!("when this handler ends, its parent {parent} fails")))
        }
    }
}

/// Lists what comes next in a failing run: limits of its active attempts, its handler, its end.
fn upcoming_of_failing(view: &RunContext<'_>, failing: &Failing) -> Vec<Upcoming> {
    let mut all = Vec::new();
    let mut under_way = 0;
    view.run.each_unit(|unit, state| {
        if let UnitState::Active(live) = &state.state {
            under_way += 1;
            all.extend(upcoming_limits(view, unit, state, live));
        }
    });
    let first = match under_way {
        0 => String::new(),
        1 => "when the running attempt ends, ".to_owned(),
        n => format!("when the {n} running attempts end, "),
    };
    if let (Some(deadline), 1..) = (view.run.deadline, under_way) {
        all.push(timed(deadline, "the run misses its deadline, and running attempts are stopped"));
    }
    all.push(untimed(match &failing.handler {
        None => format!("{first}the run fails"),
        Some(Handler { run: Some(handler), state, .. }) => {
            let state = state_word(view.child_state(*handler, *state));
            format!("when exception handler {handler} ends (it is {state}), the run fails")
        }
        Some(Handler { run: None, flow, .. }) => {
            let unpaused = if view.run.paused.is_some() { "once the run is unpaused, " } else { "" };
            format!("{first}{unpaused}exception handler `{flow}` runs, then the run fails")
        }
    }));
    all
}

/// Lists what comes next in a run that is neither failing nor ended.
fn upcoming_of_open(view: &RunContext<'_>) -> Vec<Upcoming> {
    let mut all = Vec::new();
    if let Some(deadline) = view.run.deadline {
        all.push(timed(deadline, "the run misses its deadline and fails"));
    }
    if view.run.paused.is_some() {
        all.push(untimed("when the run is unpaused, it continues; timers that are due by then fire at once"));
    } else if let Slot::Wanted(limit) = &view.run.slot
        && wants_slot(view)
    {
        let runs = count(limit.max as usize, "run", "runs");
        let held = view.describe_slot_holders().map_or_else(String::new, |held| format!("; {held} now"));
        all.push(untimed(format!(
            "when limit `{}` has a free slot (at most {runs} at once{held}), the run continues",
            limit.name
        )));
    }
    if let Some((child, limit)) = view.queued_below {
        let held = view.describe_slot_holders().map_or_else(String::new, |held| format!(" ({held} now)"));
        all.push(untimed(format!(
            "when limit `{}` has a free slot{held}, child {child} continues",
            limit.name
        )));
    }
    view.run.each_unit(|unit, state| all.extend(upcoming_of_unit(view, unit, state)));
    if all.is_empty() {
        all.push(untimed("the engine continues it immediately"));
    }
    all
}

/// Returns whether the run would continue if it had a slot.
fn wants_slot(view: &RunContext<'_>) -> bool {
    !matches!(crate::slot::slot_claim(view.run, view.flow), crate::slot::SlotClaim::None)
}

/// Lists what comes next for one unit, by its state.
fn upcoming_of_unit(view: &RunContext<'_>, unit: UnitRef, state: &Unit) -> Vec<Upcoming> {
    let name = view.quoted_name(unit);
    match &state.state {
        UnitState::Ready(queued) => upcoming_of_queued(view, unit, queued),
        UnitState::Active(live) => upcoming_of_active(view, unit, state, live),
        UnitState::Waiting(waiting) => upcoming_of_waiting(view, &name, state, waiting),
        UnitState::Held { .. } => {
            vec![untimed(format!("{name} stays held until an operator chooses retry or none"))]
        }
        UnitState::Error { resume: Some(resume), .. } => {
            let what = format!("policy `{}` resumes {name}", resume.policy.name);
            match (view.run.paused, view.policies_paused) {
                (Some(_), _) => Vec::new(),
                (None, None) => vec![timed(resume.due, what)],
                (None, Some(_)) => vec![upcoming_while_paused(view, resume.due, &what)],
            }
        }
        UnitState::Error { resume: None, .. } => {
            vec![untimed(format!("{name}{STAYS}"))]
        }
        UnitState::Pending
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => Vec::new(),
    }
}

/// Lists what comes next for a queued attempt: a worker takes it, or its `queueTimeout` passes.
fn upcoming_of_queued(view: &RunContext<'_>, unit: UnitRef, queued: &QueuedAttempt) -> Vec<Upcoming> {
    if !view.run.can_schedule() {
        return Vec::new();
    }
    let (step, name) = (view.step(unit), view.quoted_name(unit));
    let attempt = queued.attempt;
    let mut all = vec![untimed(if view.is_idle {
        format!("when the run is continued, attempt {attempt} of {name} starts")
    } else {
        format!("when {} is free, it takes attempt {attempt} of {name}", describe_taker(step, queued.place))
    })];
    if let (Some(limit), Some(due)) = (step.limits.queue_timeout, queue_timeout_at(step, queued)) {
        let what = format!(
            "if no worker has taken attempt {attempt} of {name} by then (queueTimeout {limit}), it stalls"
        );
        all.push(timed(due, what));
    }
    all
}

/// Lists what comes next for an attempt under way: its end, the end of its child, or its limits.
fn upcoming_of_active(
    view: &RunContext<'_>,
    unit: UnitRef,
    state: &Unit,
    live: &LiveAttempt,
) -> Vec<Upcoming> {
    let name = view.quoted_name(unit);
    if let AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } = &live.doing
        && is_interrupted(view, worker)
    {
        let (attempt, stuck) = (live.attempt, describe_stuck_consequence(view, view.step(unit), state));
        return vec![untimed(format!("when the run is continued, attempt {attempt} of {name} is {stuck}"))];
    }
    let mut all = upcoming_limits(view, unit, state, live);
    all.push(untimed(match (&live.doing, view.awaited_child(state)) {
        (AttemptPhase::Child { .. }, Some((child, state))) => {
            format!("when child {child} ends (it is {}), {name} ends the same way", state_word(state))
        }
        (AttemptPhase::Child { .. }, None) => format!("when its child ends, {name} ends the same way"),
        (AttemptPhase::Dequeued { worker, .. }, _) => {
            format!("when worker {} starts attempt {} of {name}, it is running", worker.name, live.attempt)
        }
        (AttemptPhase::Working { worker, .. }, _) => {
            format!("when worker {} finishes {name}, the flow continues", worker.name)
        }
    }));
    all
}

/// Lists the limits that an attempt under way may reach, with what follows.
fn upcoming_limits(view: &RunContext<'_>, unit: UnitRef, state: &Unit, live: &LiveAttempt) -> Vec<Upcoming> {
    let (step, name) = (view.step(unit), view.quoted_name(unit));
    let stuck = describe_stuck_consequence(view, step, state);
    let total = |from: Time| {
        let limit = step.limits.timeout?;
        Some(timed(
            from + limit,
            format!("if {name} is not finished by then (timeout {limit}), it is {stuck}"),
        ))
    };
    match &live.doing {
        AttemptPhase::Dequeued { worker, at } => {
            let limit = step.limits.start_timeout;
            let what = format!(
                "if worker {} has not started {name} by then (startTimeout {limit}), it is {stuck}",
                worker.name
            );
            vec![timed(extended_due(*at + limit, live.spared), what)]
        }
        AttemptPhase::Working { worker, started_at, heard, .. } => {
            let silent = lease_duration(&step.limits, worker).map(|limit| {
                let lapses = extended_due(*heard + limit, live.spared);
                // Heartbeats without progress are no events: if this time has passed, one of them has moved the lease.
                let at = (lapses > view.now).then_some(lapses);
                let since = if at.is_some() { "by then" } else { "in time" };
                let what = format!(
                    "if worker {} sends no heartbeat {since} (heartbeatTimeout {limit}), {name} is {stuck}",
                    worker.name
                );
                Upcoming { at, what }
            });
            silent.into_iter().chain(total(*started_at)).collect()
        }
        AttemptPhase::Child { started_at, .. } => total(*started_at).into_iter().collect(),
    }
}

/// Describes what follows if the attempt is stuck once more.
fn describe_stuck_consequence(view: &RunContext<'_>, step: &Step, state: &Unit) -> String {
    let (times, max) = (state.round.stuck + 1, step.limits.max_stuck);
    match &view.run.phase {
        Phase::Failing(_) | Phase::Ended(_) => "stuck and stopped".to_owned(),
        Phase::Going if times >= max => format!("stuck ({times} of {max}) and fails"),
        Phase::Going => format!("stuck ({times} of {max}) and retried"),
    }
}

/// Lists what comes next for a waiting unit.
fn upcoming_of_waiting(view: &RunContext<'_>, name: &str, state: &Unit, waiting: &Waiting) -> Vec<Upcoming> {
    // Timers of a paused run wait for the unpause, which has a line for the whole run.
    let when =
        |due: Time, what: String| if view.run.paused.is_some() { Vec::new() } else { vec![timed(due, what)] };
    match waiting {
        Waiting::Again { due, .. } => {
            when(*due, format!("{name} is retried (attempt {})", state.attempts + 1))
        }
        Waiting::Timer { due, .. } => when(*due, format!("the wait of {name} ends, and the flow continues")),
        Waiting::Signal { name: signal, until, .. } => {
            let mut all = vec![untimed(if view.run.can_schedule() {
                format!("when signal `{signal}` arrives, {name} completes")
            } else {
                format!("when signal `{signal}` arrives, it is kept for {name} until the run continues")
            })];
            if let Some(until) = until {
                all.extend(when(
                    *until,
                    format!("if signal `{signal}` has not arrived by then, {name} stalls"),
                ));
            }
            all
        }
    }
}

/// Returns the handler of a failing run once it has started, and its state.
pub(super) fn running_handler(view: &RunContext<'_>) -> Option<(RunId, crate::model::run::RunState)> {
    let Phase::Failing(Failing { handler: Some(Handler { run: Some(run), state, .. }), .. }) =
        &view.run.phase
    else {
        return None;
    };
    Some((*run, view.child_state(*run, *state)))
}
