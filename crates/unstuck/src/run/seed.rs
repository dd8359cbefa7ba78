//! What is known of a run before this process goes on with it.

use unstuck_core::model::run::Run;
use unstuck_sqlite::SqliteStore;

use super::begin::failed;
use super::tree::Tree;
use crate::desk::family;
use crate::engine;
use crate::failure::Failure;

/// The run and all that is under way for it.
pub(super) fn tree(store: &mut SqliteStore, run: Run) -> Result<Tree, Failure> {
    let mut flows = engine::flows();
    let mut tree = Tree::new(run.id);
    for run in family::under_way(store, run).map_err(failed)? {
        let flow = flows.get(store, run.flow).map_err(|error| Failure::new(error.to_string()))?;
        tree.know(flow);
        tree.put(run);
    }
    Ok(tree)
}
