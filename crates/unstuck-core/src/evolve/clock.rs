//! Moves the times in a run's state when the clock was corrected: lengths of time keep their length, instants stay.

use crate::model::attempt::PastAttempt;
use crate::model::run::Run;
use crate::model::unit::{AttemptPhase, LiveAttempt, StepRun, Unit, UnitState, Waiting};
use crate::time::Time;

/// Moves all relative times of a run by `by` milliseconds.
pub(super) fn shift_clock(run: &mut Run, by: i64) {
    run.clock = run.clock.saturating_add(by);
    if run.deadline_is_relative {
        shift_time_if_set(&mut run.deadline, by);
    }
    for_each_unit_mut(run, |unit| {
        shift_past_attempts(unit, by);
        shift_unit_state(unit, by);
    });
    shift_fan_out_attempts(run, by);
    run.shift_recent_attempts(by);
}

/// Moves the past attempts of a run to the clock of its next generation. A final run is never corrected, so that it may
/// be behind by several corrections.
pub(super) fn shift_clock_for_rerun(run: &mut Run, clock: i64) {
    let by = clock.saturating_sub(run.clock);
    run.clock = clock;
    for_each_unit_mut(run, |unit| shift_past_attempts(unit, by));
    shift_fan_out_attempts(run, by);
    run.shift_recent_attempts(by);
}

/// Moves the attempts that fan-outs made themselves, before their lists were known.
fn shift_fan_out_attempts(run: &mut Run, by: i64) {
    for step in &mut run.steps {
        if let StepRun::Items(items) = step {
            items.earlier.iter_mut().for_each(|earlier| shift_past_attempt(&mut earlier.past, by));
        }
    }
}

/// Calls `change` with every unit of a run.
fn for_each_unit_mut(run: &mut Run, mut change: impl FnMut(&mut Unit)) {
    for step in &mut run.steps {
        match step {
            StepRun::Single(unit) => change(unit),
            StepRun::Items(items) => items.units.values_mut().for_each(&mut change),
        }
    }
}

/// Moves the times of all ended attempts of a unit, those of earlier generations included.
fn shift_past_attempts(unit: &mut Unit, by: i64) {
    let earlier = unit.earlier.iter_mut().map(|earlier| &mut earlier.past);
    unit.past.iter_mut().chain(earlier).for_each(|past| shift_past_attempt(past, by));
}

fn shift_past_attempt(past: &mut PastAttempt, by: i64) {
    shift_time(&mut past.queued_at, by);
    shift_time(&mut past.ended_at, by);
    shift_time_if_set(&mut past.started_at, by);
}

/// Moves the relative times in the state of a unit; instants that the flow gave stay.
fn shift_unit_state(unit: &mut Unit, by: i64) {
    match &mut unit.state {
        UnitState::Ready(queued) => {
            shift_time(&mut queued.since, by);
            shift_time_if_set(&mut queued.spared, by);
        }
        UnitState::Active(live) => shift_live_attempt(live, by),
        UnitState::Waiting(waiting) => match waiting {
            Waiting::Again { due, .. } | Waiting::Timer { due, is_instant: false } => shift_time(due, by),
            Waiting::Timer { is_instant: true, .. } => {}
            Waiting::Signal { since, until, .. } => {
                shift_time(since, by);
                shift_time_if_set(until, by);
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

/// Moves the times of an attempt under way.
fn shift_live_attempt(live: &mut LiveAttempt, by: i64) {
    shift_time(&mut live.queued_at, by);
    shift_time_if_set(&mut live.spared, by);
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

fn shift_time_if_set(time: &mut Option<Time>, by: i64) {
    *time = time.map(|time| time.shifted(by));
}
