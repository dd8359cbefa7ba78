//! Starts the next generation of a final run: from the point of failure, from chosen steps, or all of it.

use crate::command::{Changes, Rerun};
use crate::decide::resume::check_inputs;
use crate::decide::start::{input_for_limit, next_deadline};
use crate::decide::{Answer, Draft, amend, cancel};
use crate::digest::digest;
use crate::event::{AmendedDeadline, Fact, UnitFact};
use crate::interpreter::{advance_all, interpreter};
use crate::json::Json;
use crate::model::flow::{Flow, StepIndex};
use crate::model::run::{Origin, ParentAttempt, Phase, Run, RunEnd, RunOutcome, RunState};
use crate::model::unit::{ItemsEnd, StepRun, UnitRef};
use crate::refusal::Refusal;
use crate::slot::limit_for_input;
use crate::time::Time;

/// Starts the next generation of a final run on behalf of an operator, with changed input where `changes` has some.
pub(crate) fn rerun_by_operator(
    draft: &mut Draft<'_, '_>,
    what: &Rerun,
    changes: Changes,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    check_rerun_from_outside(run, *what == Rerun::Continue, changes.cancel_first)?;
    let deadline = match changes.deadline {
        Some(deadline) => amend::read_deadline(deadline, draft.now())?,
        None => flow_deadline(draft),
    };
    start_next_generation(draft, RerunRequest { what, serves: None, deadline, takes_key: false }, changes)
}

/// What a rerun would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RerunPreview {
    /// The generation that would begin.
    pub generation: u32,
    /// The steps that would run again; of a fan-out, the items that are not done.
    pub again: Vec<StepIndex>,
    /// The steps that would keep what they have.
    pub kept: Vec<StepIndex>,
}

/// Says what a rerun of a run would do, or why it would be refused. Inputs are not looked at.
pub fn preview_rerun(
    run: &Run,
    flow: &Flow,
    what: &Rerun,
    cancel_first: bool,
) -> Result<RerunPreview, Refusal> {
    check_rerun_from_outside(run, *what == Rerun::Continue, cancel_first)?;
    check_state(run, cancel_first)?;
    let keep = interpreter(flow).kept_steps(run, flow, what);
    let is_partly_done = |step: StepIndex| match run.step(step) {
        StepRun::Single(_) => false,
        StepRun::Items(items) => !matches!(items.end, ItemsEnd::Completed { .. } | ItemsEnd::Skipped { .. }),
    };
    let (kept, again) = flow.step_indices().partition(|step| keep.contains(step) && !is_partly_done(*step));
    Ok(RerunPreview { generation: run.generation + 1, again, kept })
}

/// Checks a rerun from outside, of a run that is final or is to be cancelled first.
fn check_rerun_from_outside(run: &Run, continues: bool, cancel_first: bool) -> Result<(), Refusal> {
    if run.is_final() || cancel_first { check_rerun(run, continues) } else { Ok(()) }
}

/// Refuses the next generation of a run that is under way, unless it is cancelled first, and of one that was replaced.
fn check_state(run: &Run, cancel_first: bool) -> Result<(), Refusal> {
    let state = run.state();
    let is_replaced = state == RunState::Superseded;
    if !is_replaced && (state.is_final() || cancel_first) {
        return Ok(());
    }
    let hint = if is_replaced { "another run replaced it" } else { "cancel it first" };
    Err(Refusal::WrongRunState { is: state, asked: "be rerun", hint })
}

/// Returns the deadline that the flow gives a later generation.
fn flow_deadline(draft: &Draft<'_, '_>) -> AmendedDeadline {
    let at = next_deadline(draft);
    AmendedDeadline { at, is_relative: at.is_some() }
}

/// Checks that a final run may be rerun from outside: a child runs again only with its parent, and a completed run has
/// no point of failure to continue from. A handler may be rerun, because its parent never starts it again.
pub fn check_rerun(run: &Run, continues: bool) -> Result<(), Refusal> {
    if let Origin::Child { parent, .. } = &run.origin {
        return Err(Refusal::RerunOfChild { run: run.id, parent: *parent });
    }
    let state = run.state();
    if continues && state == RunState::Completed {
        let hint = "there is no point of failure; rerun it with --all or --steps";
        return Err(Refusal::WrongRunState { is: state, asked: "continue", hint });
    }
    Ok(())
}

/// Reruns all of a final run because its key was started again, with that start's deadline and its input where it
/// differs. From then on the key belongs to the new input.
pub(crate) fn restart_run(
    draft: &mut Draft<'_, '_>,
    input: Option<Json>,
    deadline: Option<Time>,
) -> Result<Answer, Refusal> {
    // A deadline that was given with the start is an instant.
    let given = deadline.map(|at| AmendedDeadline { at: Some(at), is_relative: false });
    let deadline = given.unwrap_or_else(|| flow_deadline(draft));
    let again = RerunRequest { what: &Rerun::All, serves: None, deadline, takes_key: true };
    start_next_generation(draft, again, Changes { input, ..Changes::default() })
}

/// The parameters of a next generation.
#[derive(Clone, Copy)]
struct RerunRequest<'a> {
    what: &'a Rerun,
    /// The attempt of its parent that it works for now.
    serves: Option<ParentAttempt>,
    deadline: AmendedDeadline,
    /// Whether its key goes with the new input from now on.
    takes_key: bool,
}

/// Begins the next generation of a final run: decides which steps are kept, applies changed inputs, and advances the
/// run.
fn start_next_generation(
    draft: &mut Draft<'_, '_>,
    again: RerunRequest<'_>,
    changes: Changes,
) -> Result<Answer, Refusal> {
    let RerunRequest { what, serves, deadline, takes_key } = again;
    let run = draft.require_run()?;
    check_state(run, changes.cancel_first)?;
    let id = run.id;
    check_inputs(draft, changes.input.as_ref(), changes.step_input.as_ref())?;
    let rebound = changes.step_input.as_ref().map(|_| step_to_change(draft, what)).transpose()?;
    let limit = match &changes.input {
        Some(input) => limit_for_input(draft, &input.value())?,
        None => limit_for_input(draft, &input_for_limit(draft, &run.input)?)?,
    };
    let (run, flow) = (draft.run(), draft.flow());
    if let Rerun::Steps(steps) = what
        && let Some(unknown) = steps.iter().find(|step| usize::from(step.0) >= flow.steps.len())
    {
        return Err(Refusal::UnknownUnit(draft.name(UnitRef::step(*unknown))));
    }
    // Nothing is refused from here on: what is refused changes nothing.
    if !run.is_final() {
        cancel::cancel_run(draft, Some("it is rerun".into()))?;
    }
    let run = draft.run();
    let keep = interpreter(flow).kept_steps(run, flow, what);
    let reran = Fact::Reran {
        generation: run.generation + 1,
        flow: flow.id,
        deadline: deadline.at,
        deadline_is_relative: deadline.is_relative,
        clock: draft.context.clock,
        steps: u16::try_from(flow.steps.len()).unwrap_or(u16::MAX),
        keep,
        keep_children: *what == Rerun::Continue,
        serves,
        limit,
        bulk: changes.bulk,
    };
    draft.emit(reran);
    if let Some(input) = changes.input {
        let digest = (takes_key && draft.run().key.is_some()).then(|| digest(&input.value()));
        let input = draft.store_payload(input);
        draft.emit(Fact::InputChanged { input, digest });
    }
    if let (Some(step), Some(input)) = (rebound, changes.step_input) {
        let input = draft.store_payload(input);
        draft.emit_unit(UnitRef::step(step), UnitFact::InputBound { input });
    }
    advance_all(draft);
    Ok(Answer::Started(id))
}

/// Finds the step that a changed step input is for: the only chosen one, or the one that failed the run.
fn step_to_change(draft: &Draft<'_, '_>, what: &Rerun) -> Result<StepIndex, Refusal> {
    let failed = match &draft.run().phase {
        Phase::Ended(RunEnd { how: RunOutcome::Failed { error, .. }, .. }) => error.unit,
        Phase::Ended(_) | Phase::Going | Phase::Failing(_) => None,
    };
    let step = match (what, failed) {
        (Rerun::Steps(steps), _) if steps.len() == 1 => Some(steps[0]),
        (Rerun::Continue, Some(UnitRef { step, item: None })) => Some(step),
        (Rerun::Steps(_) | Rerun::Continue | Rerun::All, _) => None,
    };
    let is_fan_out = |step: &StepIndex| {
        draft.flow().steps.get(usize::from(step.0)).is_some_and(|step| step.node.for_each.is_some())
    };
    step.filter(|step| !is_fan_out(step)).ok_or_else(|| {
        let problem = "an input for a step was given, but it is not clear for which step; choose one step without \
                       `forEach`, or change the input of the run";
        Refusal::BadInput(vec![problem.to_owned()])
    })
}

/// Continues this child as its next generation, for a new attempt of its parent's step. A notice about an older attempt
/// is stale.
pub(crate) fn continue_child(
    draft: &mut Draft<'_, '_>,
    serves: ParentAttempt,
    priority: Option<i32>,
) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.origin.serves().is_none_or(|known| known >= serves) {
        return Ok(Answer::Already);
    }
    if !run.is_final() {
        cancel::cancel_run(draft, Some("its parent retries".into()))?;
    }
    let deadline = flow_deadline(draft);
    let again = RerunRequest { what: &Rerun::Continue, serves: Some(serves), deadline, takes_key: false };
    let answer = start_next_generation(draft, again, Changes::default())?;
    if let Some(priority) = priority {
        amend::amend_child(draft, priority)?;
    }
    Ok(answer)
}
