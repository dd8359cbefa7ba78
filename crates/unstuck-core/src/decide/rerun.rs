//! Starts the next generation of a final run: from the point of failure, from chosen steps, or all of it.

use crate::command::{Changes, Rerun};
use crate::decide::resume::check_inputs;
use crate::decide::start::{input_for_limit, next_deadline};
use crate::decide::{Answer, Draft, cancel};
use crate::digest::digest;
use crate::event::{Fact, UnitFact};
use crate::interpreter::{advance_all, interpreter};
use crate::json::Json;
use crate::model::flow::StepIndex;
use crate::model::run::{Origin, ParentAttempt, Phase, Run, RunEnd, RunOutcome, RunState};
use crate::model::unit::UnitRef;
use crate::refusal::Refusal;
use crate::slot::limit_for_input;
use crate::time::Time;

/// Starts the next generation of a final run on behalf of an operator, with changed input where `changes` has some.
pub(crate) fn rerun(draft: &mut Draft<'_, '_>, what: &Rerun, changes: Changes) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.is_final() {
        check_rerun(run, *what == Rerun::Continue)?;
    }
    let deadline = next_deadline(draft);
    start_next_generation(draft, RerunRequest { what, serves: None, deadline, takes_key: false }, changes)
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
pub(crate) fn restart(
    draft: &mut Draft<'_, '_>,
    input: Option<Json>,
    deadline: Option<Time>,
) -> Result<Answer, Refusal> {
    let deadline = deadline.or_else(|| next_deadline(draft));
    let again = RerunRequest { what: &Rerun::All, serves: None, deadline, takes_key: true };
    start_next_generation(draft, again, Changes { input, ..Changes::default() })
}

/// The parameters of a next generation.
#[derive(Clone, Copy)]
struct RerunRequest<'a> {
    what: &'a Rerun,
    /// The attempt of its parent that it works for now.
    serves: Option<ParentAttempt>,
    deadline: Option<Time>,
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
    let state = run.state();
    if !state.is_final() || state == RunState::Superseded {
        let hint = if state == RunState::Superseded { "another run replaced it" } else { "cancel it first" };
        return Err(Refusal::WrongRunState { is: state, asked: "be rerun", hint });
    }
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
    let keep = interpreter(flow).kept_steps(run, flow, what);
    let reran = Fact::Reran {
        generation: run.generation + 1,
        flow: flow.id,
        deadline,
        // A deadline that was given with the rerun is an instant; it equals the flow's own only by chance.
        deadline_is_relative: deadline.is_some() && deadline == next_deadline(draft),
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
pub(crate) fn continue_child(draft: &mut Draft<'_, '_>, serves: ParentAttempt) -> Result<Answer, Refusal> {
    let run = draft.require_run()?;
    if run.origin.serves().is_none_or(|known| known >= serves) {
        return Ok(Answer::Already);
    }
    if !run.is_final() {
        cancel::cancel(draft, Some("its parent retries".into()))?;
    }
    let deadline = next_deadline(draft);
    let again = RerunRequest { what: &Rerun::Continue, serves: Some(serves), deadline, takes_key: false };
    start_next_generation(draft, again, Changes::default())
}
