//! Replays stored events: each is checked before it is applied, so that a damaged store gives a sentence and never a
//! panic.

use crate::event::{Event, Fact, UnitFact};
use crate::evolve::{apply_fact_or_start, finish_event};
use crate::model::flow::StepIndex;
use crate::model::run::Run;
use crate::model::unit::{ITEMS_PER_PART, StepRun, UnitRef};

/// Checks and applies an event that was read from a store, or says what is wrong with it. After an error `run` may be
/// half-changed and must not be used.
pub fn replay_event(run: &mut Option<Run>, event: &Event) -> Result<(), String> {
    let expected = run.as_ref().map_or(0, |run| run.seq).saturating_add(1);
    if event.seq != expected {
        return Err(format!("it has number {}, but {expected} comes next", event.seq));
    }
    for fact in &event.facts {
        check_fact(run.as_ref(), fact)?;
        apply_fact_or_start(run, fact, event.time());
    }
    let Some(run) = run else { return Err(NO_START.to_owned()) };
    finish_event(run, event.seq, event.at, event.clock);
    if run.generation != event.generation {
        let (said, is) = (event.generation, run.generation);
        return Err(format!("it names generation {said}, but belongs to generation {is}"));
    }
    Ok(())
}

const NO_START: &str = "it does not start the run, and no event before it does";

/// Checks that a fact can be applied to this run: it starts exactly one run, and every step, item and attempt it names
/// exists.
fn check_fact(run: Option<&Run>, fact: &Fact) -> Result<(), String> {
    let run = match (run, fact) {
        (None, Fact::Started(_)) => return Ok(()),
        (Some(_), Fact::Started(_)) => return Err("it starts a run that already exists".to_owned()),
        (None, _) => return Err(NO_START.to_owned()),
        (Some(run), _) => run,
    };
    match fact {
        Fact::ItemsKnown { step, values, total } => {
            check_step(run, *step)?;
            let parts = usize::try_from(*total).unwrap_or(usize::MAX).div_ceil(ITEMS_PER_PART);
            if parts > values.len() {
                let kept = values.len();
                return Err(format!("it names {total} items, but has only {kept} parts of {ITEMS_PER_PART}"));
            }
            Ok(())
        }
        Fact::ItemsCompleted { step, .. } | Fact::ItemsEnded { step, .. } => check_step(run, *step),
        Fact::Unit { unit, fact } => check_unit(run, *unit, fact),
        Fact::Reran { generation, steps, keep, .. } => {
            if Some(*generation) != run.generation.checked_add(1) {
                return Err(format!("it starts generation {generation} after generation {}", run.generation));
            }
            let fewer = run.steps.len().min(usize::from(*steps));
            keep.iter().try_for_each(|step| check_range(*step, fewer))
        }
        Fact::Migrated(migrated) => {
            let steps = usize::from(migrated.steps);
            let left = run.steps.iter().skip(steps);
            if left.into_iter().any(StepRun::has_begun) {
                return Err(format!("it leaves {steps} steps, and one that has begun is not among them"));
            }
            migrated.changed.iter().try_for_each(|step| check_range(*step, steps.min(run.steps.len())))
        }
        Fact::Started(_)
        | Fact::Admitted
        | Fact::Paused { .. }
        | Fact::Unpaused
        | Fact::Amended(_)
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::Failing { .. }
        | Fact::HandlerStarted { .. }
        | Fact::HandlerChanged { .. }
        | Fact::Completed { .. }
        | Fact::RunFailed { .. }
        | Fact::RunCancelled { .. } => Ok(()),
    }
}

fn check_step(run: &Run, step: StepIndex) -> Result<(), String> {
    check_range(step, run.steps.len())
}

/// Checks that a step index is below the number of steps.
fn check_range(step: StepIndex, steps: usize) -> Result<(), String> {
    if usize::from(step.0) < steps {
        return Ok(());
    }
    Err(format!("it names step #{}, but the run has {steps} steps", step.0))
}

/// Checks that the step and item of a fact exist, and that its attempt is a known one or the next.
fn check_unit(run: &Run, unit: UnitRef, fact: &UnitFact) -> Result<(), String> {
    check_step(run, unit.step)?;
    if let (Some(item), Some(items)) = (unit.item, run.items(unit.step))
        && item >= items.total
    {
        let (step, total) = (unit.step.0, items.total);
        return Err(format!("it names item {item} of step #{step}, which has {total} items"));
    }
    let attempt = match fact {
        UnitFact::Queued { attempt, .. }
        | UnitFact::ReportIgnored { attempt, .. }
        | UnitFact::Ended { attempt, .. }
        | UnitFact::ChildStarted { attempt, .. } => *attempt,
        UnitFact::InputBound { .. }
        | UnitFact::Dequeued { .. }
        | UnitFact::Started { .. }
        | UnitFact::Progress { .. }
        | UnitFact::LimitExtended { .. }
        | UnitFact::Retry { .. }
        | UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::Scheduled { .. }
        | UnitFact::PassedOver { .. }
        | UnitFact::LeftInError
        | UnitFact::Acknowledged { .. }
        | UnitFact::DoneByHand { .. }
        | UnitFact::Failed
        | UnitFact::Deferred { .. }
        | UnitFact::Requeued { .. }
        | UnitFact::Skipped { .. }
        | UnitFact::Done { .. }
        | UnitFact::TimerSet { .. }
        | UnitFact::SignalAwaited { .. }
        | UnitFact::ChildChanged { .. }
        | UnitFact::Chosen { .. }
        | UnitFact::Resumed { .. }
        | UnitFact::Closed { .. } => return Ok(()),
    };
    let before = run.unit(unit).map_or(0, |unit| unit.attempts);
    if attempt <= before.saturating_add(1) {
        return Ok(());
    }
    Err(format!("it names attempt {attempt} of step #{}, which has had {before} attempts", unit.step.0))
}
