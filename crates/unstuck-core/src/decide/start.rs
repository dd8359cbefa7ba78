//! Starts a run: checks its input and its key, and asks for its slot.

use crate::slot::limit_for_input;

use serde_json::Value;

use crate::command::{OnDuplicate, Start, StartChild, StartInput};
use crate::decide::{Answer, Draft, MAX_KEY_BYTES, MAX_PAYLOAD_BYTES, rerun};
use crate::digest::digest;
use crate::event::{Fact, Started};
use crate::interpreter::advance_all;
use crate::json::{Json, Payload};
use crate::model::flow::{Deadline, Flow};
use crate::model::labels::check_labels;
use crate::model::run::Run;
use crate::refusal::Refusal;
use crate::time::Time;

/// Starts a run, or handles the duplicate if its key has one already.
pub(crate) fn start_run(draft: &mut Draft<'_, '_>, start: Start) -> Result<Answer, Refusal> {
    let json = match &start.input {
        StartInput::New(json) => json.clone(),
        StartInput::Kept(payload) => {
            draft.payload_json(payload).map_err(|problem| Refusal::BadInput(vec![problem]))?
        }
    };
    if draft.run_if_any().is_some() {
        return start_duplicate(draft, &start, json);
    }
    if let Some(key) = &start.key {
        Refusal::unless_named("the key", key, MAX_KEY_BYTES)?;
    }
    let labels = start.labels.filter(|labels| !labels.is_empty());
    if let Some(labels) = &labels {
        check_labels(labels)?;
    }
    let bytes = json.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Refusal::TooLarge { what: "the input", bytes, max: MAX_PAYLOAD_BYTES });
    }
    let flow = draft.flow();
    let value = if flow.input.is_some() || flow.concurrency.is_some() || start.key.is_some() {
        json.value()
    } else {
        Value::Null
    };
    if let Some(check) = &flow.input {
        check.check(&value).map_err(Refusal::BadInput)?;
    }
    let input_digest = start.key.as_ref().map(|_| digest(&value));
    let limit = limit_for_input(draft, &value)?;
    let input = match start.input {
        StartInput::New(json) => draft.store_payload(json),
        StartInput::Kept(payload) => payload,
    };
    let started = Started {
        run: start.run,
        flow: flow.id,
        steps: u16::try_from(flow.steps.len()).unwrap_or(u16::MAX),
        key: start.key,
        labels,
        input,
        input_digest,
        origin: start.origin,
        root_flow: start.root_flow.unwrap_or_else(|| flow.name.clone()),
        nesting: start.nesting,
        home: start.home,
        priority: start.priority,
        deadline: start.deadline.or_else(|| first_deadline(draft)),
        deadline_is_relative: start.deadline.is_none() && has_relative_deadline(flow),
        clock: draft.context.clock,
        limit,
    };
    draft.emit(Fact::Started(Box::new(started)));
    advance_all(draft);
    Ok(Answer::Started(start.run))
}

/// Starts a child or handler on behalf of its parent. A second notice finds the run and changes nothing.
pub(crate) fn start_child(draft: &mut Draft<'_, '_>, child: StartChild) -> Result<Answer, Refusal> {
    if let Some(run) = draft.run_if_any() {
        return Ok(Answer::Exists(run.id));
    }
    let run = draft.context.run;
    start_run(
        draft,
        Start {
            run,
            key: None,
            input: StartInput::Kept(child.input),
            labels: None,
            priority: child.priority,
            deadline: None,
            origin: child.origin,
            root_flow: Some(child.root_flow),
            nesting: child.nesting,
            home: child.home,
            on_duplicate: OnDuplicate::Return,
            by: crate::event::Actor::Engine,
        },
    )
}

/// Handles a start whose key has a run: returns that run if the input is the same, else refuses. With `RestartIfFinal`
/// a final run is started again, whatever the input.
fn start_duplicate(draft: &mut Draft<'_, '_>, start: &Start, input: Json) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if start.on_duplicate == OnDuplicate::RestartIfFinal && run.is_final() {
        let input = (!has_same_input(draft, run, &input)?).then_some(input);
        return rerun::restart_run(draft, input, start.deadline);
    }
    if let Some(key) = &start.key {
        check_same_input(run, key, &input)?;
    }
    if start.on_duplicate == OnDuplicate::Refuse {
        return Err(Refusal::KeyExists { key: start.key.clone().unwrap_or_default(), run: run.id });
    }
    Ok(Answer::Exists(run.id))
}

/// Returns whether a run was started with this input and still has it: an operator may have changed it since.
fn has_same_input(draft: &Draft<'_, '_>, run: &Run, input: &Json) -> Result<bool, Refusal> {
    let Some(started_with) = &run.input_digest else { return Ok(true) };
    let now = draft.payload_json(&run.input).map_err(|problem| Refusal::BadInput(vec![problem]))?;
    let given = digest(&input.value());
    Ok(*started_with == given && digest(&now.value()) == given)
}

/// Refuses a start whose key belongs to a run with another input.
pub fn check_same_input(run: &Run, key: &str, input: &Json) -> Result<(), Refusal> {
    let Some(theirs) = &run.input_digest else { return Ok(()) };
    let ours = digest(&input.value());
    if *theirs == ours {
        return Ok(());
    }
    Err(Refusal::KeyTaken { key: key.into(), run: run.id, theirs: theirs.clone(), ours })
}

/// Computes the deadline of the first generation.
fn first_deadline(draft: &Draft<'_, '_>) -> Option<Time> {
    draft.flow().deadline.map(|deadline| match deadline {
        Deadline::After(span) => draft.now() + span,
        Deadline::At(time) => time,
    })
}

/// Returns whether the flow's deadline is a length of time.
pub(crate) fn has_relative_deadline(flow: &Flow) -> bool {
    matches!(flow.deadline, Some(Deadline::After(_)))
}

/// Computes the deadline of a later generation: a relative one starts again, an absolute one has passed and applies
/// only if it is given again.
pub(crate) fn next_deadline(draft: &Draft<'_, '_>) -> Option<Time> {
    match draft.flow().deadline {
        Some(Deadline::After(span)) => Some(draft.now() + span),
        Some(Deadline::At(_)) | None => None,
    }
}

/// Loads the input of an existing run to find its concurrency limit; null where the flow has no limit, which saves the
/// load.
pub(crate) fn input_for_limit(draft: &Draft<'_, '_>, input: &Payload) -> Result<Value, Refusal> {
    if draft.flow().concurrency.is_none() {
        return Ok(Value::Null);
    }
    draft.payload_json(input).map(|json| json.value()).map_err(|problem| Refusal::BadInput(vec![problem]))
}
