//! Failing runs: nothing more is dispatched, active attempts end, the handler runs, then the run is failed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::command::{NoticeBody, StartChild};
use crate::decide::Draft;
use crate::event::{Closing, Fact, UnitFact};
use crate::id::RunId;
use crate::interpreter::interpreter;
use crate::json::{Json, MAX_DEPTH};
use crate::model::attempt::{Cancelled, Outcome};
use crate::model::error::{CHILD_ACTION, DEADLINE_ACTION, Error, Reason, RunError};
use crate::model::flow::StepIndex;
use crate::model::nesting::Nesting;
use crate::model::run::{Failing, Handler, Origin, ParentAttempt, Phase, Slot};
use crate::model::unit::{AttemptPhase, ItemsEnd, LiveAttempt, StepRun, UnitRef, UnitState, Waiting};

/// Fails the run because of this error of a step: through the step's exception handler if it has one, else at once.
pub(crate) fn fail_run(draft: &mut Draft<'_, '_>, error: RunError, step: StepIndex) {
    let handler = draft.flow().step(step).exception_handler.clone();
    begin_failing(draft, error, handler);
    cancel_children(draft);
    advance_failing(draft);
}

/// Fails a run that has missed its deadline: voids its attempts, cancels its children, and runs a handler if there is
/// one.
pub(crate) fn miss_deadline(draft: &mut Draft<'_, '_>) {
    let deadline = draft.run().deadline.unwrap_or(draft.now());
    let (waiting, doing) = find_waited_unit(draft);
    let cause = format!("missed its deadline ({deadline}) while {doing}");
    let error = Error::found_with(DEADLINE_ACTION, Reason::Time, cause);
    let handler = find_open_handler(draft);
    begin_failing(draft, RunError { waiting, ..RunError::of_run(error) }, handler);
    cancel_children(draft);
    void_attempts(draft, Cancelled::Deadline);
    advance_failing(draft);
}

/// Voids the active attempts of a run that was failing already when its deadline came.
pub(crate) fn stop_draining(draft: &mut Draft<'_, '_>) {
    void_attempts(draft, Cancelled::Deadline);
    advance_failing(draft);
}

/// Finds the unit that the run is waiting for, the one that has come furthest, and describes what it is doing.
fn find_waited_unit(draft: &Draft<'_, '_>) -> (Option<UnitRef>, String) {
    let run = draft.run();
    let mut found: Option<(u8, UnitRef, String)> = None;
    run.each_unit(|unit, state| {
        if let Some((rank, doing)) = describe_open_state(&state.state)
            && found.as_ref().is_none_or(|(known, _, _)| rank < *known)
        {
            found = Some((rank, unit, format!("`{}` {doing}", draft.name(unit))));
        }
    });
    // A paused run may have no open unit left and only wait to complete.
    let next = || draft.flow().step_indices().find(|step| !run.step(*step).is_final());
    let next = || next().or_else(|| draft.flow().step_indices().last()).map(UnitRef::step);
    let waiting = found.as_ref().map(|(_, unit, _)| *unit).or_else(next);
    let doing = match (found, &run.slot) {
        (Some((1, _, _)) | None, Slot::Wanted(limit)) => {
            format!("waiting for a slot of limit `{}`", limit.name)
        }
        (Some((_, _, doing)), _) => doing,
        (None, _) => "its next step had not started".to_owned(),
    };
    let doing = if run.paused.is_some() { format!("it was paused and {doing}") } else { doing };
    (waiting, doing)
}

/// Describes what an open unit is doing, with a rank: active units come first.
fn describe_open_state(state: &UnitState) -> Option<(u8, String)> {
    Some(match state {
        UnitState::Active(LiveAttempt { doing: AttemptPhase::Child { .. }, .. }) => {
            (0, "was waiting for its child".to_owned())
        }
        UnitState::Active(live) => (0, format!("was active (attempt {})", live.attempt)),
        UnitState::Ready(queued) => (1, format!("was queued (attempt {})", queued.attempt)),
        UnitState::Waiting(Waiting::Signal { name, .. }) => (2, format!("was waiting for signal `{name}`")),
        UnitState::Waiting(Waiting::Timer { .. }) => (2, "was waiting".to_owned()),
        UnitState::Waiting(Waiting::Again { .. }) => (2, "was waiting for a retry".to_owned()),
        UnitState::Held { .. } => (3, "was held".to_owned()),
        UnitState::Error { .. } => (3, "was in error".to_owned()),
        UnitState::Pending
        | UnitState::Completed { .. }
        | UnitState::Skipped { .. }
        | UnitState::Failed { .. }
        | UnitState::Dropped { .. }
        | UnitState::Cancelled { .. } => return None,
    })
}

/// Finds the exception handler of the first step that has been reached and is not done; else of a later step.
fn find_open_handler(draft: &Draft<'_, '_>) -> Option<std::sync::Arc<str>> {
    let (run, flow) = (draft.run(), draft.flow());
    let handler_of = |step: StepIndex| flow.step(step).exception_handler.clone();
    let open = |step: &StepIndex| !run.step(*step).is_final();
    let reached =
        |step: &StepIndex| open(step) && interpreter(flow).missing_steps(run, flow, *step).is_empty();
    flow.step_indices()
        .filter(reached)
        .find_map(handler_of)
        .or_else(|| flow.step_indices().filter(open).find_map(handler_of))
}

/// Records that the run is failing, and closes all units that are not active.
fn begin_failing(draft: &mut Draft<'_, '_>, error: RunError, handler: Option<std::sync::Arc<str>>) {
    draft.emit(Fact::Failing { error: Box::new(error), handler });
    let how = closing_for_open_units(draft);
    let open =
        draft.run().units_where(|unit| !unit.state.is_final() && !matches!(unit.state, UnitState::Active(_)));
    for unit in open {
        draft.emit_unit(unit, UnitFact::Closed { how });
    }
}

/// Returns how open units end in a failing run: dropped if a handler takes over, else cancelled.
pub(crate) fn closing_for_open_units(draft: &Draft<'_, '_>) -> Closing {
    match &draft.run().phase {
        Phase::Failing(Failing { handler: Some(_), .. }) => Closing::Dropped,
        Phase::Failing(_) | Phase::Going | Phase::Ended(_) => Closing::Cancelled,
    }
}

/// Cancels the children of a failing run by notice; their steps end when they report that they have ended.
fn cancel_children(draft: &mut Draft<'_, '_>) {
    for (child, serves) in active_children(draft) {
        draft.notify(child, NoticeBody::CancelChild { serves });
    }
}

/// Lists the child runs under way, each with the attempt that it serves.
pub(crate) fn active_children(draft: &Draft<'_, '_>) -> Vec<(RunId, ParentAttempt)> {
    let generation = draft.run().generation;
    let mut children = Vec::new();
    draft.run().each_unit(|_, unit| {
        if let UnitState::Active(LiveAttempt { attempt, doing: AttemptPhase::Child { .. }, .. }) = &unit.state
        {
            children.extend(unit.child.map(|child| (child, ParentAttempt { generation, attempt: *attempt })));
        }
    });
    children
}

/// Ends every active attempt and interrupts its worker; reports about it are refused from now on.
pub(crate) fn void_attempts(draft: &mut Draft<'_, '_>, why: Cancelled) {
    let how = closing_for_open_units(draft);
    for unit in draft.run().units_where(|unit| matches!(unit.state, UnitState::Active(_))) {
        let UnitState::Active(live) = &draft.unit(unit).state else { continue };
        let attempt = live.attempt;
        if let AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } = &live.doing {
            let worker = worker.clone();
            draft.interrupt(unit, attempt, &worker, why.text());
        }
        draft.emit_unit(unit, UnitFact::Ended { attempt, outcome: Outcome::Cancelled(why) });
        draft.emit_unit(unit, UnitFact::Closed { how });
    }
}

/// Advances a failing run once nothing is active: starts its handler, or ends it as failed.
pub(crate) fn advance_failing(draft: &mut Draft<'_, '_>) {
    let Phase::Failing(failing) = &draft.run().phase else { return };
    let error = failing.error.clone();
    let handler = failing.handler.clone();
    if draft.run().has_active() {
        return;
    }
    // From here on the deadline does not apply, so that the run's wakeup must be derived again.
    draft.decision.touched.all = true;
    close_fan_outs(draft, error.unit);
    match handler {
        None => draft.emit(Fact::RunFailed { handler_error: None }),
        // A paused run starts nothing, not even its handler.
        Some(Handler { run: None, flow, .. }) if draft.run().paused.is_none() => {
            start_handler(draft, flow, &error);
        }
        Some(Handler { .. }) => {}
    }
}

/// Ends the open fan-outs of a failing run; the one that caused the failure counts as failed.
fn close_fan_outs(draft: &mut Draft<'_, '_>, failed: Option<UnitRef>) {
    let how = closing_for_open_units(draft);
    for step in draft.flow().step_indices() {
        if let StepRun::Items(items) = draft.run().step(step)
            && matches!(items.end, ItemsEnd::Open)
        {
            let is_failed = failed.is_some_and(|unit| unit.step == step);
            draft.emit(Fact::ItemsEnded { step, how: if is_failed { Closing::Failed } else { how } });
        }
    }
}

/// Starts the exception handler by notice. A handler that would be nested too deep counts as failed, and the run ends.
fn start_handler(draft: &mut Draft<'_, '_>, flow: Arc<str>, error: &RunError) {
    let handler = RunId(draft.context.ids.next(draft.now()));
    let nesting = Nesting::below(draft.run(), &draft.flow().name);
    if let Err(cause) = nesting.check(&flow, draft.context.max_nesting) {
        let error = Error::found_by(CHILD_ACTION, cause);
        draft.emit(Fact::HandlerStarted { run: handler });
        let handler_error = Some(Box::new(RunError::of_run(error)));
        return draft.emit(Fact::RunFailed { handler_error });
    }
    let input = handler_input(draft, error);
    let input = draft.store_payload(input);
    let run = draft.run();
    let body = StartChild {
        flow,
        input,
        origin: Origin::Handler { parent: run.id, generation: run.generation },
        root_flow: run.root_flow.clone(),
        nesting: Some(Arc::new(nesting)),
        home: run.home.clone(),
        priority: run.priority,
    };
    draft.emit(Fact::HandlerStarted { run: handler });
    draft.notify(handler, NoticeBody::StartChild(Box::new(body)));
}

/// Builds the input of a handler: the run, the failed step and its error.
fn handler_input(draft: &Draft<'_, '_>, failed: &RunError) -> Json {
    let (run, flow) = (draft.run(), draft.flow());
    let place = failed.place();
    let step = place.map(|unit| flow.step(unit.step));
    let attempts = place.and_then(|unit| run.unit(unit)).map_or(0, |unit| unit.attempts);
    let details = &failed.error.details;
    // Details that would be too deep inside this document are passed as text.
    let is_deep = details.depth() > MAX_DEPTH;
    let details = if is_deep { Value::from(details.text()) } else { details.value() };
    Json::of(&json!({
        "run": run.id.to_string(),
        "generation": run.generation,
        "key": run.key.as_deref(),
        "flow": &*flow.name,
        "step": place.map(|unit| draft.name(unit)),
        "error": {
            "step": place.map(|unit| draft.name(unit)),
            "action": step.map(|step| &*step.full_action),
            "foundBy": failed.error.found_by.as_deref(),
            "actionType": step.and_then(|step| step.action_type.as_deref()),
            "cause": &*failed.error.cause,
            "context": failed.error.context.as_deref(),
            "reason": failed.error.reason.word(),
            "details": details,
            "fatal": failed.fatal,
            "attempts": attempts,
        },
    }))
}
