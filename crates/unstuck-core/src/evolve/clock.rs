//! What the state of a run says about time, by a clock that was set: lengths of time stay as long, instants where they are.

use crate::model::attempt::PastAttempt;
use crate::model::run::Run;
use crate::model::unit::{AttemptPhase, LiveAttempt, StepRun, Unit, UnitState, Waiting};
use crate::time::Time;

/// The clock was set by so many milliseconds, forward or (negative) back.
pub(super) fn correct_clock(run: &mut Run, by: i64) {
    run.clock = run.clock.saturating_add(by);
    if run.deadline_is_relative {
        shift_optional_time(&mut run.deadline, by);
    }
    each_unit(run, |unit| {
        correct_ended(unit, by);
        correct_unit(unit, by);
    });
    correct_fan_outs(run, by);
    run.shift_recent(by);
}

/// A rerun takes in how the clock was set since its run ended: what it is told of attempts is by the clock as it is now.
pub(super) fn correct_reran(run: &mut Run, clock: i64) {
    let by = clock.saturating_sub(run.clock);
    run.clock = clock;
    each_unit(run, |unit| correct_ended(unit, by));
    correct_fan_outs(run, by);
    run.shift_recent(by);
}

/// What fan-outs have tried themselves, before their lists were known.
fn correct_fan_outs(run: &mut Run, by: i64) {
    for step in &mut run.steps {
        if let StepRun::Items(items) = step {
            items.earlier.iter_mut().for_each(|earlier| correct_past(&mut earlier.past, by));
        }
    }
}

fn each_unit(run: &mut Run, mut correct: impl FnMut(&mut Unit)) {
    for step in &mut run.steps {
        match step {
            StepRun::Single(unit) => correct(unit),
            StepRun::Items(items) => items.units.values_mut().for_each(&mut correct),
        }
    }
}

fn correct_ended(unit: &mut Unit, by: i64) {
    let earlier = unit.earlier.iter_mut().map(|earlier| &mut earlier.past);
    unit.past.iter_mut().chain(earlier).for_each(|past| correct_past(past, by));
}

fn correct_past(past: &mut PastAttempt, by: i64) {
    shift_time(&mut past.queued_at, by);
    shift_time(&mut past.ended_at, by);
    shift_optional_time(&mut past.started_at, by);
}

fn correct_unit(unit: &mut Unit, by: i64) {
    match &mut unit.state {
        UnitState::Ready(queued) => {
            shift_time(&mut queued.since, by);
            shift_optional_time(&mut queued.spared, by);
        }
        UnitState::Active(live) => correct_attempt(live, by),
        UnitState::Waiting(waiting) => match waiting {
            Waiting::Again { due, .. } | Waiting::Timer { due, is_instant: false } => shift_time(due, by),
            Waiting::Timer { is_instant: true, .. } => {}
            Waiting::Signal { since, until, .. } => {
                shift_time(since, by);
                shift_optional_time(until, by);
            }
        },
        UnitState::Held { since } => shift_time(since, by),
        UnitState::Error { since, resume, .. } => {
            shift_time(since, by);
            if let Some(resume) = resume {
                shift_time(&mut resume.due, by);
            }
        }
        UnitState::Pending
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => {}
    }
}

fn correct_attempt(live: &mut LiveAttempt, by: i64) {
    shift_time(&mut live.queued_at, by);
    shift_optional_time(&mut live.spared, by);
    match &mut live.doing {
        AttemptPhase::Dequeued { at, .. } => shift_time(at, by),
        AttemptPhase::Working { started_at, heard, .. } => {
            shift_time(started_at, by);
            shift_time(heard, by);
        }
        AttemptPhase::Child { started_at, .. } => shift_time(started_at, by),
    }
}

fn shift_time(time: &mut Time, by: i64) {
    *time = time.shifted(by);
}

fn shift_optional_time(time: &mut Option<Time>, by: i64) {
    *time = time.map(|time| time.shifted(by));
}
