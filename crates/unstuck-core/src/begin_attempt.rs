//! How a unit begins: its attempt is queued and dispatched, or its kind begins without a worker.

use crate::command::{NoticeBody, StartChild};
use crate::decide::signal::deliver_signals;
use crate::decide::{Draft, Effect};
use crate::duration::{parse_instant, read_duration};
use crate::eligible::{Demand, Entry};
use crate::evaluate::{evaluate_expression, evaluate_template};
use crate::event::UnitFact;
use crate::id::RunId;
use crate::interpreter::{Prepared, interpreter};
use crate::model::attempt::{Outcome, ResumedBy};
use crate::model::error::{CHILD_ACTION, EXPRESSION_ACTION, Error};
use crate::model::flow::{Kind, WaitFor};
use crate::model::nesting::Nesting;
use crate::model::run::{Origin, ParentAttempt, Run};
use crate::model::unit::{QueuePlace, UnitRef, UnitState};
use crate::offer::WHOLE_WORKER;
use crate::recovery::ladder::{self, AttemptError};
use crate::time::Time;
use std::sync::Arc;

/// Returns why the first attempt of a step counts as a repeat: only from the second generation on, where a rerun began
/// it.
pub(crate) fn resumed_by_rerun(run: &Run) -> Option<ResumedBy> {
    (run.generation > 1).then_some(ResumedBy::Rerun)
}

/// Begins the next attempt of a unit, or whatever its kind does instead of attempts. An expression that cannot be
/// evaluated fails the unit.
pub(crate) fn begin_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    by: Option<ResumedBy>,
    place: QueuePlace,
) {
    match try_begin_attempt(draft, unit, by, place) {
        Ok(()) => {}
        Err(cause) => fail_unit_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause)),
    }
}

/// Prepares a unit and begins or queues its next attempt. Returns the cause if an expression cannot be evaluated; the
/// caller decides what that fails.
pub(crate) fn try_begin_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    by: Option<ResumedBy>,
    place: QueuePlace,
) -> Result<(), String> {
    match interpreter(draft.flow()).prepare(draft, unit)? {
        Prepared::Otherwise => Ok(()),
        Prepared::ForAttempt if draft.step(unit).queue.is_empty() && draft.run().can_schedule() => {
            begin_without_worker(draft, unit, by)
        }
        Prepared::ForAttempt => {
            queue_attempt(draft, unit, by, place);
            Ok(())
        }
    }
}

/// Computes the input of a unit again after the input of the run has changed. Returns false if that failed, which has
/// failed the unit.
pub(crate) fn rebind_input(draft: &mut Draft<'_, '_>, unit: UnitRef) -> bool {
    match interpreter(draft.flow()).rebind_input(draft, unit) {
        Ok(()) => true,
        Err(cause) => {
            fail_unit_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause));
            false
        }
    }
}

/// Queues the next attempt of a unit, and dispatches it in the same event if a waiting worker is eligible for it.
pub(crate) fn queue_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    resumed_by: Option<ResumedBy>,
    place: QueuePlace,
) {
    let (before, alone) =
        draft.run().unit(unit).map_or((0, false), |unit| (unit.attempts, unit.round.must_run_alone()));
    let place = QueuePlace { alone, ..place };
    draft.emit_unit(unit, UnitFact::Queued { attempt: before + 1, resumed_by, place });
    let step = draft.step(unit);
    if step.queue.is_empty() || !draft.run().can_schedule() {
        return;
    }
    let priority = draft.run().priority.saturating_add(step.priority);
    let queue = Kind::queue_at(&step.queue, draft.run().home.as_ref());
    let demand = Demand { load: step.load, alone: place.alone };
    if let Some(worker) = draft.context.offers.take_worker(&Entry { queue: &queue, demand, priority }) {
        dispatch_attempt(draft, unit, worker);
    }
}

/// Hands the queued attempt of a unit to `worker`: records the start (local executors) or the claim (remote workers)
/// and adds the effect that delivers it after the commit.
pub(crate) fn dispatch_attempt(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    worker: crate::model::attempt::Worker,
) {
    let attempt = draft.attempt_id(unit, draft.unit(unit).attempts);
    let is_alone = matches!(draft.unit(unit).state, UnitState::Ready(queued) if queued.place.alone);
    let load = if is_alone { WHOLE_WORKER } else { draft.step(unit).load };
    let fact = if worker.local {
        UnitFact::Started { worker: worker.clone() }
    } else {
        UnitFact::Dequeued { worker: worker.clone() }
    };
    draft.emit_unit(unit, fact);
    draft.decision.effects.push(Effect::Dispatch { attempt, worker, load });
}

/// Begins a unit whose kind needs no worker: starts a child, sets a timer, awaits a signal, or computes a value.
pub(crate) fn begin_without_worker(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    by: Option<ResumedBy>,
) -> Result<(), String> {
    match &draft.step(unit).kind {
        Kind::Child(flow) => start_child(draft, unit, flow, by),
        Kind::Wait(wait) => {
            let (due, is_instant) = compute_wait_end(draft, unit, wait)?;
            draft.emit_unit(unit, UnitFact::TimerSet { due, is_instant });
        }
        Kind::Signal(name) => {
            let until = draft.step(unit).limits.timeout.map(|limit| draft.now() + limit);
            draft.emit_unit(unit, UnitFact::SignalAwaited { name: name.clone(), until });
            deliver_signals(draft);
        }
        Kind::Set(value) => {
            let output = evaluate_template(draft, value, unit)?;
            let output = draft.store_payload(output);
            draft.emit_unit(unit, UnitFact::Done { output });
        }
        Kind::Action(_) | Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_) => {}
    }
    Ok(())
}

/// Begins every ready unit that needs no worker. Such units stay ready only while the run has no slot or is paused.
pub(crate) fn begin_ready_units_without_worker(draft: &mut Draft<'_, '_>) {
    for unit in draft.run().units_where(|unit| matches!(unit.state, UnitState::Ready(_))) {
        if draft.step(unit).queue.is_empty()
            && let UnitState::Ready(queued) = &draft.unit(unit).state
        {
            let by = queued.resumed_by;
            if let Err(cause) = begin_without_worker(draft, unit, by) {
                fail_unit_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause));
            }
        }
    }
}

/// Starts the child run of a `flow` step by a notice, or tells an existing child to continue as its next generation. A
/// child that would be nested too deep fails the unit.
pub(crate) fn start_child(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    flow: &Arc<str>,
    resumed_by: Option<ResumedBy>,
) {
    let nesting = Nesting::below(draft.run(), &draft.flow().name);
    if draft.unit(unit).child.is_none()
        && let Err(cause) = nesting.check(flow, draft.context.max_nesting)
    {
        return fail_unit_by_engine(draft, unit, Error::found_by(CHILD_ACTION, cause));
    }
    let state = draft.unit(unit);
    // An attempt that was queued while the run had no slot has its number already.
    let attempt = state.attempts + u32::from(!matches!(state.state, UnitState::Ready(_)));
    let input = state.input.clone();
    let serves = ParentAttempt { generation: draft.run().generation, attempt };
    let known = state.child;
    let run = known.unwrap_or_else(|| RunId(draft.context.ids.next(draft.now())));
    let parent = draft.run();
    let priority = parent.priority.saturating_add(draft.step(unit).priority);
    let body = StartChild {
        flow: flow.clone(),
        input: input.unwrap_or_else(|| parent.input.clone()),
        origin: Origin::Child { parent: parent.id, unit, serves, in_handler: parent.origin.is_in_handler() },
        root_flow: parent.root_flow.clone(),
        nesting: Some(Arc::new(nesting)),
        home: parent.home.clone(),
        priority,
    };
    // A child that could not be started before (no such flow, a bad input) is started now; one that exists ignores
    // this and continues as its next generation.
    draft.notify(run, NoticeBody::StartChild(Box::new(body)));
    if known.is_some() {
        draft.notify(run, NoticeBody::ContinueChild { serves, priority: Some(priority) });
    }
    draft.emit_unit(unit, UnitFact::ChildStarted { attempt, resumed_by, run });
}

/// Computes when a `wait` step ends, and whether that is a fixed instant (true) or a length of time from now (false). A
/// fixed instant does not move when the clock is corrected.
pub(crate) fn compute_wait_end(
    draft: &Draft<'_, '_>,
    unit: UnitRef,
    wait: &WaitFor,
) -> Result<(Time, bool), String> {
    let now = draft.now();
    match wait {
        WaitFor::Span(span) => Ok((now + *span, false)),
        WaitFor::Until(time) => Ok((*time, true)),
        WaitFor::Next(clock) => {
            let next = clock.next(now).map(|next| (next, true));
            next.ok_or_else(|| format!("wait: {clock}: the calendar ends before that time"))
        }
        WaitFor::Computed(expression) => {
            let value = evaluate_expression(draft, expression, unit)?;
            let until = match value.as_str().map(parse_instant) {
                Some(Ok(time)) => Ok((time, true)),
                Some(Err(_)) | None => read_duration(&value).map(|span| (now + span, false)),
            };
            until.map_err(|problem| format!("wait: {}: {problem}", expression.source))
        }
    }
}

/// Fails a unit with an error that the engine found, and climbs the recovery ladder. The failed attempt had no worker.
pub(crate) fn fail_unit_by_engine(draft: &mut Draft<'_, '_>, unit: UnitRef, error: Error) {
    end_attempt_by_engine(draft, unit, Outcome::Failed(Box::new(error)));
    ladder::climb_ladder(draft, unit, AttemptError::Failed);
}

/// Records the end of the current attempt of a unit; a unit that has none gets a new attempt number for it.
pub(crate) fn end_attempt_by_engine(draft: &mut Draft<'_, '_>, unit: UnitRef, outcome: Outcome) {
    let attempt = draft.run().unit(unit).map_or(1, |unit| match &unit.state {
        UnitState::Ready(queued) => queued.attempt,
        UnitState::Active(live) => live.attempt,
        UnitState::Pending
        | UnitState::Waiting(_)
        | UnitState::Held { .. }
        | UnitState::Error { .. }
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => unit.attempts + 1,
    });
    draft.emit_unit(unit, UnitFact::Ended { attempt, outcome });
}
