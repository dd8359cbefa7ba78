//! Families of runs: parents, children and handlers.

use unstuck_core::id::RunId;
use unstuck_core::model::run::{Failing, Handler, Phase, Run};
use unstuck_core::model::unit::UnitState;
use unstuck_core::summary::RunSummary;
use unstuck_store::contract::{Reader, StoreError};

/// Lists the children under way and the handler.
pub fn list_active_children(run: &Run) -> Vec<RunId> {
    let mut children = Vec::new();
    run.each_unit(|_, unit| {
        if let (UnitState::Active(_), Some(child)) = (&unit.state, unit.child) {
            children.push(child);
        }
    });
    if let Phase::Failing(Failing { handler: Some(Handler { run: Some(handler), .. }), .. }) = &run.phase {
        children.push(*handler);
    }
    children
}

/// Loads the run and its descendants under way, parents before their children, at most `most` of them.
pub fn load_runs_under_way(reader: &dyn Reader, run: Run, most: usize) -> Result<Vec<Run>, StoreError> {
    let mut found = vec![run];
    let mut place = 0;
    while let Some(run) = found.get(place) {
        place += 1;
        for child in list_active_children(run) {
            if found.len() >= most {
                return Ok(found);
            }
            found.extend(reader.run(child)?);
        }
    }
    Ok(found)
}

/// Whether a person is needed in this very run.
pub use unstuck_core::bulk::needs_person as needs_a_person;

/// Finds the root of a run's family; or the handler that was rerun by itself after its parent had ended.
pub fn find_root(reader: &dyn Reader, run: &RunSummary) -> Result<RunId, StoreError> {
    let (mut root, mut is_final, mut parent) = (run.id, run.is_final(), run.parent);
    while let Some(id) = parent {
        let found = reader.run(id)?;
        if found.as_ref().is_some_and(Run::is_final) && !is_final {
            break;
        }
        (root, is_final) = (id, found.as_ref().is_none_or(Run::is_final));
        parent = found.and_then(|run| run.origin.parent());
    }
    Ok(root)
}
