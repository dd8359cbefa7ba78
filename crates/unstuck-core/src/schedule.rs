//! The interpreter of a flow's graph: which steps are entered next, how each kind begins, when the run is done.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::command::{NoticeBody, StartChild};
use crate::decide::{Draft, Effect, MAX_PAYLOAD_BYTES};
use crate::duration::{parse_instant, read_duration};
use crate::event::{Fact, UnitFact};
use crate::id::RunId;
use crate::json::{Json, MAX_DEPTH, Payload};
use crate::model::attempt::{Outcome, ResumedBy};
use crate::model::error::{CHILD_ACTION, EXPRESSION_ACTION, Error, OUTPUT_ACTION, RunError};
use crate::model::expression::{Expression, Template};
use crate::model::flow::{Flow, ForEach, Kind, StepIx, WaitFor};
use crate::model::nesting::Nesting;
use crate::model::run::{Origin, Phase, Run, Serves};
use crate::model::unit::{
    ITEMS_PER_PART, ItemsEnd, QueuePlace, SkippedBy, StepRun, Unit, UnitRef, UnitState, Waiting,
};
use crate::offer::WHOLE_WORKER;
use crate::recovery::failing;
use crate::recovery::ladder::{self, Verdict};
use crate::time::Time;

/// Enters every step that may be entered now, and completes the run when all are done.
pub(crate) fn advance_all(draft: &mut Draft<'_, '_>) {
    if draft.run().may_go_on() {
        feed_signals(draft);
        begin_waiting_for_slot(draft);
        let all: Vec<StepIx> = draft.flow().places().collect();
        advance(draft, &all);
    }
}

/// Goes on after this step has changed: its dependents, its further items, the end of the run.
pub(crate) fn advance_after(draft: &mut Draft<'_, '_>, step: StepIx) {
    if draft.run().may_go_on() {
        advance(draft, &[step]);
    }
}

/// Whether the run could do something that no unit's state shows: enter a step, launch an item, complete.
pub(crate) fn could_go_on(run: &Run, flow: &Flow) -> bool {
    flow.places().any(|step| may_enter(run, flow, step) || may_launch(run, flow, step))
        || run.steps.iter().all(StepRun::is_final)
        || !run.signals.is_empty() && !run.units_where(|unit| kept_signal(run, unit).is_some()).is_empty()
}

/// The signal that has come for a unit that waits for one.
fn kept_signal<'a>(run: &'a Run, unit: &'a Unit) -> Option<(&'a Arc<str>, &'a Payload)> {
    if let UnitState::Waiting(Waiting::Signal { name, .. }) = &unit.state {
        run.signals.get(name).and_then(|kept| kept.front()).map(|payload| (name, payload))
    } else {
        None
    }
}

fn may_enter(run: &Run, flow: &Flow, step: StepIx) -> bool {
    matches!(run.step(step), StepRun::Single(Unit { state: UnitState::Pending, .. }))
        && flow.step(step).needs.iter().all(|need| run.step(*need).lets_others_go_on())
}

fn may_launch(run: &Run, flow: &Flow, step: StepIx) -> bool {
    let parallel = flow.step(step).for_each.as_ref().map_or(1, |each| each.parallel);
    run.items(step).is_some_and(|items| {
        matches!(items.end, ItemsEnd::Open)
            && items.in_motion < parallel
            && items.to_launch().next().is_some()
    })
}

/// Works through a list of steps: one that is done makes its dependents worth a look. What comes up while it is at it
/// joins the list, so that a long chain needs no deep stack.
fn advance(draft: &mut Draft<'_, '_>, work: &[StepIx]) {
    draft.work.extend(work.iter().rev());
    if std::mem::replace(&mut draft.is_advancing, true) {
        return;
    }
    while let Some(step) = draft.work.pop() {
        if !draft.run().may_go_on() {
            draft.work.clear();
            break;
        }
        let flow = draft.flow();
        if may_enter(draft.run(), flow, step) {
            begin(draft, UnitRef::step(step), rerun_mark(draft.run()), QueuePlace::default());
        }
        if draft.run().items(step).is_some_and(|items| matches!(items.end, ItemsEnd::Open)) {
            launch_items(draft, step);
            complete_items(draft, step);
        }
        if draft.run().step(step).lets_others_go_on() {
            for dependent in flow.dependents[usize::from(step.0)].iter().rev() {
                if may_enter(draft.run(), flow, *dependent) {
                    draft.work.push(*dependent);
                }
            }
        }
    }
    draft.is_advancing = false;
    if draft.run().may_go_on() && draft.run().steps.iter().all(StepRun::is_final) {
        complete_run(draft);
    }
}

/// Why the first attempt of a step is a repeat: only in a later generation.
fn rerun_mark(run: &Run) -> Option<ResumedBy> {
    (run.generation > 1).then_some(ResumedBy::Rerun)
}

/// Begins the next attempt of a unit, or whatever its kind has in place of attempts.
pub(crate) fn begin(draft: &mut Draft<'_, '_>, unit: UnitRef, by: Option<ResumedBy>, place: QueuePlace) {
    match try_begin(draft, unit, by, place) {
        Ok(()) => {}
        Err(cause) => fail_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause)),
    }
}

fn try_begin(
    draft: &mut Draft<'_, '_>,
    unit: UnitRef,
    by: Option<ResumedBy>,
    place: QueuePlace,
) -> Result<(), String> {
    let step = draft.step(unit);
    let seen_by_worker =
        draft.run().unit(unit).is_some_and(|unit| unit.past.iter().any(|past| past.worker.is_some()));
    if let (Some(condition), None, false) = (&step.when, unit.item, seen_by_worker)
        && !holds(draft, condition)?
    {
        draft.emit_unit(unit, UnitFact::Skipped { why: SkippedBy::Condition, reason: None });
        return Ok(());
    }
    if let (Some(each), None) = (&step.for_each, unit.item) {
        return know_items(draft, unit.step, each);
    }
    bind_input(draft, unit)?;
    if step.queue.is_empty() && draft.run().may_go_on() {
        begin_here(draft, unit, by)
    } else {
        queue(draft, unit, by, place);
        Ok(())
    }
}

/// Queues the next attempt, and hands it over at once where somebody waits for it.
fn queue(draft: &mut Draft<'_, '_>, unit: UnitRef, resumed_by: Option<ResumedBy>, place: QueuePlace) {
    let (before, alone) =
        draft.run().unit(unit).map_or((0, false), |unit| (unit.attempts, unit.round.runs_alone()));
    let place = QueuePlace { alone, ..place };
    draft.emit_unit(unit, UnitFact::Queued { attempt: before + 1, resumed_by, place });
    let step = draft.step(unit);
    if step.queue.is_empty() || !draft.run().may_go_on() {
        return;
    }
    let priority = draft.run().priority.saturating_add(step.priority);
    let queue = Kind::queue_at(&step.queue, draft.run().home.as_ref());
    if let Some(worker) = draft.context.offers.take(&queue, step.load, place.alone, priority) {
        hand_over(draft, unit, worker);
    }
}

/// Hands the queued attempt of a unit to a worker.
pub(crate) fn hand_over(draft: &mut Draft<'_, '_>, unit: UnitRef, worker: crate::model::attempt::Worker) {
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

/// Begins a unit that needs no worker.
fn begin_here(draft: &mut Draft<'_, '_>, unit: UnitRef, by: Option<ResumedBy>) -> Result<(), String> {
    match &draft.step(unit).kind {
        Kind::Child(flow) => start_child(draft, unit, flow, by),
        Kind::Wait(wait) => {
            let (due, is_instant) = wait_until(draft, unit, wait)?;
            draft.emit_unit(unit, UnitFact::TimerSet { due, is_instant });
        }
        Kind::Signal(name) => {
            let until = draft.step(unit).limits.timeout.map(|limit| draft.now() + limit);
            draft.emit_unit(unit, UnitFact::SignalAwaited { name: name.clone(), until });
            feed_signals(draft);
        }
        Kind::Set(value) => {
            let output = evaluate(draft, value, unit)?;
            let output = draft.keep(output);
            draft.emit_unit(unit, UnitFact::Done { output });
        }
        Kind::Action(_) | Kind::Process(_) | Kind::Emulate(_) => {}
    }
    Ok(())
}

/// Units that were ready while the run had no slot or was paused, and that need no worker.
fn begin_waiting_for_slot(draft: &mut Draft<'_, '_>) {
    for unit in draft.run().units_where(|unit| matches!(unit.state, UnitState::Ready(_))) {
        if draft.step(unit).queue.is_empty()
            && let UnitState::Ready(queued) = &draft.unit(unit).state
        {
            let by = queued.resumed_by;
            if let Err(cause) = begin_here(draft, unit, by) {
                fail_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause));
            }
        }
    }
}

fn start_child(draft: &mut Draft<'_, '_>, unit: UnitRef, flow: &Arc<str>, resumed_by: Option<ResumedBy>) {
    let nesting = Nesting::below(draft.run(), &draft.flow().name);
    if draft.unit(unit).child.is_none()
        && let Err(cause) = nesting.check(flow, draft.context.max_nesting)
    {
        return fail_by_engine(draft, unit, Error::found_by(CHILD_ACTION, cause));
    }
    let state = draft.unit(unit);
    // An attempt that was queued while the run had no slot has its number already.
    let attempt = state.attempts + u32::from(!matches!(state.state, UnitState::Ready(_)));
    let input = state.input.clone();
    let serves = Serves { generation: draft.run().generation, attempt };
    let known = state.child;
    let run = known.unwrap_or_else(|| RunId(draft.context.ids.next(draft.now())));
    let parent = draft.run();
    let body = StartChild {
        flow: flow.clone(),
        input: input.unwrap_or_else(|| parent.input.clone()),
        origin: Origin::Child { parent: parent.id, unit, serves, in_handler: parent.origin.in_handler() },
        root_flow: parent.root_flow.clone(),
        nesting: Some(Arc::new(nesting)),
        home: parent.home.clone(),
        priority: parent.priority.saturating_add(draft.step(unit).priority),
    };
    // A child that could not be started (no such flow, a bad input) is started now; one that exists takes no notice
    // of this, and goes on as its next generation.
    draft.notify(run, NoticeBody::StartChild(Box::new(body)));
    if known.is_some() {
        draft.notify(run, NoticeBody::ContinueChild { serves });
    }
    draft.emit_unit(unit, UnitFact::ChildStarted { attempt, resumed_by, run });
}

/// Gives kept signals to the steps that wait for them, first come, first served.
pub(crate) fn feed_signals(draft: &mut Draft<'_, '_>) {
    if draft.run().signals.is_empty() || !draft.run().may_go_on() {
        return;
    }
    for unit in draft.run().units_where(|unit| kept_signal(draft.run(), unit).is_some()) {
        // The one before it may have consumed the last.
        let Some((name, output)) = kept_signal(draft.run(), draft.unit(unit)) else { continue };
        let (name, output) = (name.clone(), output.clone());
        draft.emit(Fact::SignalTaken { name });
        draft.emit_unit(unit, UnitFact::Done { output });
    }
}

/// Finds out the list of a fan-out.
fn know_items(draft: &mut Draft<'_, '_>, step: StepIx, each: &ForEach) -> Result<(), String> {
    let list = evaluate(draft, &each.items, UnitRef::step(step))?;
    let Value::Array(values) = list.value() else {
        return Err(format!("forEach needs a list but got {}", shown(&list)));
    };
    let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
    if total > each.max_items {
        return Err(format!(
            "forEach got {total} items, at most {} are allowed: raise maxItems",
            each.max_items
        ));
    }
    let parts = values.chunks(ITEMS_PER_PART).map(|part| draft.keep(Json::of(&Value::Array(part.to_vec()))));
    let values = parts.collect();
    draft.emit(Fact::ItemsKnown { step, values, total });
    launch_items(draft, step);
    complete_items(draft, step);
    Ok(())
}

/// Launches items while there is room under `parallel`.
fn launch_items(draft: &mut Draft<'_, '_>, step: StepIx) {
    let flow = draft.flow();
    while draft.run().may_go_on() && may_launch(draft.run(), flow, step) {
        let Some(item) = draft.run().items(step).and_then(|items| items.to_launch().next()) else { return };
        begin(draft, UnitRef::item(step, item), rerun_mark(draft.run()), QueuePlace::default());
    }
}

/// Completes a fan-out whose items are all done, with their outputs in order.
fn complete_items(draft: &mut Draft<'_, '_>, step: StepIx) {
    let Some(items) = draft.run().items(step) else { return };
    let done = items.units.len() == items.total as usize
        && items.in_motion == 0
        && items.units.values().all(|unit| unit.state.lets_others_go_on());
    if !done || !matches!(items.end, ItemsEnd::Open) {
        return;
    }
    let outputs: Result<Vec<Json>, String> = items
        .units
        .values()
        .map(|unit| match &unit.state {
            UnitState::Completed { output, .. } => draft.json(output),
            UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Active(_)
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Error { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => Ok(Json::NULL),
        })
        .collect();
    match outputs.map(|outputs| Json::array(&outputs)).and_then(within_limit) {
        Ok(output) => {
            let output = draft.keep(output);
            draft.emit(Fact::ItemsCompleted { step, output });
        }
        Err(cause) => {
            let error = Error::found_by(OUTPUT_ACTION, cause);
            failing::fail_run(draft, RunError::of_unit(UnitRef::step(step), true, error), step);
        }
    }
}

/// What is made of others is a payload too, which must be stored and read again.
fn within_limit(json: Json) -> Result<Json, String> {
    let bytes = json.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(format!(
            "the outputs together are too large ({bytes} bytes, at most {MAX_PAYLOAD_BYTES}); return references"
        ));
    }
    // Most are so short that they cannot be too deep.
    if bytes > MAX_DEPTH && json.depth() > MAX_DEPTH {
        return Err(format!(
            "the outputs together are nested too deep ({} levels, at most {MAX_DEPTH}); return references",
            json.depth()
        ));
    }
    Ok(json)
}

/// The input of the run has changed: that of a unit is computed anew. False where that fails, and the unit with it.
pub(crate) fn rebind(draft: &mut Draft<'_, '_>, unit: UnitRef) -> bool {
    // Without a template the run's input is looked up anyway, and an item is what it was when the list was made.
    let Some(template) = &draft.step(unit).with else { return true };
    match evaluate(draft, template, unit) {
        Ok(input) => {
            let input = draft.keep(input);
            draft.emit_unit(unit, UnitFact::Bound { input });
            true
        }
        Err(cause) => {
            fail_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause));
            false
        }
    }
}

/// Computes the input of a unit, once.
fn bind_input(draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String> {
    if draft.run().unit(unit).is_some_and(|unit| unit.input.is_some()) {
        return Ok(());
    }
    let input = match (&draft.step(unit).with, unit.item) {
        (Some(template), _) => evaluate(draft, template, unit)?,
        (None, Some(item)) => Json::of(&item_value(draft, unit.step, item)?),
        (None, None) => return Ok(()),
    };
    let input = draft.keep(input);
    draft.emit_unit(unit, UnitFact::Bound { input });
    Ok(())
}

fn item_value(draft: &Draft<'_, '_>, step: StepIx, item: u32) -> Result<Value, String> {
    let place = item as usize;
    let part = draft.run().items(step).and_then(|items| items.values.get(place / ITEMS_PER_PART));
    let values = draft.json(part.ok_or("the list of items is not known")?)?.value();
    values.get(place % ITEMS_PER_PART).cloned().ok_or_else(|| format!("there is no item {item}"))
}

fn evaluate(draft: &Draft<'_, '_>, template: &Template, unit: UnitRef) -> Result<Json, String> {
    match template {
        Template::Fixed(json) => Ok(json.clone()),
        Template::Computed(expression) => within_limit(Json::of(&value_of(draft, expression, unit)?)),
    }
}

fn value_of(draft: &Draft<'_, '_>, expression: &Expression, unit: UnitRef) -> Result<Value, String> {
    let item = match unit.item {
        Some(item) if expression.reads.item => Some((item_value(draft, unit.step, item)?, item)),
        Some(_) | None => None,
    };
    let scope = draft.scope(&expression.reads, item)?;
    expression.program.evaluate(&scope).map_err(|problem| format!("{}: {problem}", expression.source))
}

fn holds(draft: &Draft<'_, '_>, condition: &Expression) -> Result<bool, String> {
    let scope = draft.scope(&condition.reads, None)?;
    match condition.program.evaluate(&scope) {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!(
            "if: {} must be true or false, but is {}",
            condition.source,
            shown(&Json::of(&other))
        )),
        Err(problem) => Err(format!("if: {}: {problem}", condition.source)),
    }
}

/// When a `wait` is over, and whether somebody gave that instant, and not a length of time.
fn wait_until(draft: &Draft<'_, '_>, unit: UnitRef, wait: &WaitFor) -> Result<(Time, bool), String> {
    let now = draft.now();
    match wait {
        WaitFor::Span(span) => Ok((now + *span, false)),
        WaitFor::Until(time) => Ok((*time, true)),
        WaitFor::Next(clock) => {
            let next = clock.next(now).map(|next| (next, true));
            next.ok_or_else(|| format!("wait: {clock}: the calendar ends before that time"))
        }
        WaitFor::Computed(expression) => {
            let value = value_of(draft, expression, unit)?;
            let until = match value.as_str().map(parse_instant) {
                Some(Ok(time)) => Ok((time, true)),
                Some(Err(_)) | None => read_duration(&value).map(|span| (now + span, false)),
            };
            until.map_err(|problem| format!("wait: {}: {problem}", expression.source))
        }
    }
}

/// The first characters of a value, for an error text.
fn shown(json: &Json) -> String {
    let text = json.text();
    match text.char_indices().nth(60) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// What the engine itself finds wrong with a unit is *failed*, with an attempt that nobody executed.
pub(crate) fn fail_by_engine(draft: &mut Draft<'_, '_>, unit: UnitRef, error: Error) {
    end_by_engine(draft, unit, Outcome::Failed(Box::new(error)));
    ladder::climb(draft, unit, Verdict::Failed);
}

/// Ends the queued attempt of a unit, or one that is numbered for it.
pub(crate) fn end_by_engine(draft: &mut Draft<'_, '_>, unit: UnitRef, outcome: Outcome) {
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

fn complete_run(draft: &mut Draft<'_, '_>) {
    match run_output(draft) {
        Ok(output) => draft.emit(Fact::Completed { output }),
        Err(cause) => {
            let error = Error::found_by(EXPRESSION_ACTION, format!("output: {cause}"));
            let last = StepIx(u16::try_from(draft.run().steps.len().saturating_sub(1)).unwrap_or(u16::MAX));
            failing::fail_run(draft, RunError::of_run(error), last);
        }
    }
}

/// What the flow says, or else the output of the last step; of several last steps, an object by step id.
fn run_output(draft: &mut Draft<'_, '_>) -> Result<Payload, String> {
    let flow = draft.flow();
    let json = match &flow.output {
        Some(Template::Fixed(json)) => json.clone(),
        Some(Template::Computed(expression)) => {
            let scope = draft.scope(&expression.reads, None)?;
            let value = expression.program.evaluate(&scope);
            within_limit(Json::of(&value.map_err(|problem| format!("{}: {problem}", expression.source))?))?
        }
        None => {
            let last: Vec<StepIx> = last_steps(flow).collect();
            if let [only] = last[..] {
                return Ok(draft.run().step(only).output().cloned().unwrap_or(Payload::NULL));
            }
            let mut object = Map::new();
            for step in last {
                let output =
                    draft.run().step(step).output().map_or(Ok(Json::NULL), |output| draft.json(output))?;
                object.insert(flow.step(step).id.to_string(), output.value());
            }
            within_limit(Json::of(&Value::Object(object)))?
        }
    };
    Ok(draft.keep(json))
}

/// The steps that no other step needs.
pub(crate) fn last_steps(flow: &Flow) -> impl Iterator<Item = StepIx> {
    flow.places().filter(|step| flow.dependents[usize::from(step.0)].is_empty())
}

/// Whether the run is on its way to `failed`.
pub(crate) fn is_failing(run: &Run) -> bool {
    matches!(run.phase, Phase::Failing(_))
}
