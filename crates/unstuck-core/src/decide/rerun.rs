//! The next generation of a final run: from the point of failure, from chosen steps, or all of it.

use std::collections::BTreeSet;

use crate::command::Rerun;
use crate::decide::start::{kept_input, limit, next_deadline};
use crate::decide::{Answer, Draft, cancel};
use crate::event::Fact;
use crate::model::flow::{Flow, StepIx};
use crate::model::run::{Run, RunState, Serves};
use crate::model::unit::{StepRun, UnitRef};
use crate::refusal::Refusal;
use crate::schedule::advance_all;
use crate::time::Time;

/// Starts the next generation.
pub(crate) fn rerun(draft: &mut Draft<'_, '_>, what: &Rerun) -> Result<Answer, Refusal> {
    let deadline = next_deadline(draft);
    rerun_for(draft, what, None, deadline)
}

/// A start of a key whose run is final: all of it again, with the deadline that the start gives.
pub(crate) fn restart(draft: &mut Draft<'_, '_>, deadline: Option<Time>) -> Result<Answer, Refusal> {
    let deadline = deadline.or_else(|| next_deadline(draft));
    rerun_for(draft, &Rerun::All, None, deadline)
}

fn rerun_for(
    draft: &mut Draft<'_, '_>,
    what: &Rerun,
    serves: Option<Serves>,
    deadline: Option<Time>,
) -> Result<Answer, Refusal> {
    let run = draft.existing()?;
    let state = run.state();
    if !state.is_final() || state == RunState::Superseded {
        let hint =
            if state == RunState::Superseded { "another run took its place" } else { "cancel it first" };
        return Err(Refusal::WrongRunState { is: state, asked: "be rerun", hint });
    }
    let id = run.id;
    let limit = limit(draft, &kept_input(draft, &run.input)?)?;
    let (run, flow) = (draft.run(), draft.flow());
    let keep = match what {
        Rerun::All => Vec::new(),
        Rerun::Continue => flow.places().filter(|step| keeps(run, *step)).collect(),
        Rerun::Steps(steps) => {
            if let Some(unknown) = steps.iter().find(|step| usize::from(step.0) >= flow.steps.len()) {
                return Err(Refusal::UnknownUnit(draft.name(UnitRef::step(*unknown))));
            }
            let again = downstream(flow, steps);
            flow.places().filter(|step| keeps(run, *step) && !again.contains(step)).collect()
        }
    };
    let reran = Fact::Reran {
        generation: run.generation + 1,
        flow: flow.id,
        deadline,
        // A deadline that was given anew is an instant, and differs from what the flow gives but for chance.
        deadline_is_relative: deadline.is_some() && deadline == next_deadline(draft),
        clock: draft.context.clock,
        steps: u16::try_from(flow.steps.len()).unwrap_or(u16::MAX),
        keep,
        keep_children: *what == Rerun::Continue,
        serves,
        limit,
    };
    draft.emit(reran);
    advance_all(draft);
    Ok(Answer::Started(id))
}

/// A parent tries its step again: this run goes on as its next generation, for that attempt.
pub(crate) fn continue_child(draft: &mut Draft<'_, '_>, serves: Serves) -> Result<Answer, Refusal> {
    let run = draft.existing()?;
    if run.origin.serves().is_none_or(|known| known >= serves) {
        return Ok(Answer::Already);
    }
    if !run.is_final() {
        cancel::cancel(draft, Some("its parent tries again".into()))?;
    }
    let deadline = next_deadline(draft);
    rerun_for(draft, &Rerun::Continue, Some(serves), deadline)
}

/// Whether a step has something that the next generation can reuse: completed steps are never run again, and a
/// fan-out keeps its completed items.
fn keeps(run: &Run, step: StepIx) -> bool {
    match run.step(step) {
        StepRun::Single(unit) => unit.state.lets_others_go_on(),
        StepRun::Items(_) => true,
    }
}

/// These steps and everything that depends on them.
fn downstream(flow: &Flow, steps: &[StepIx]) -> BTreeSet<StepIx> {
    let mut found = BTreeSet::new();
    let mut work = steps.to_vec();
    while let Some(step) = work.pop() {
        if found.insert(step) {
            work.extend(&flow.dependents[usize::from(step.0)]);
        }
    }
    found
}
