//! Loads the state of a run and its descendants, at the start or after events were left out.

use std::sync::Arc;

use unstuck_core::id::RunId;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_sqlite::SqliteStore;
use unstuck_store::contract::{Reader, Store};

use super::tree::Tree;
use crate::error::CommandError;
use unstuck_service::family as relatives;
use unstuck_service::flows::flows_for_reading;

/// How many runs are read; the others are read when an event about them comes.
const MAX_READ: usize = 1_000;

/// Loads the run and its descendants under way into a tree.
pub(super) fn load_tree(store: &mut SqliteStore, run: RunId) -> Result<Tree, CommandError> {
    let mut tree = Tree::new(run);
    let family = load_family(&*store.reader(), &flows_for_reading(), run);
    tree.replace_runs(family?);
    Ok(tree)
}

/// Loads a run and its descendants under way, each with its flow.
pub(super) fn load_family(
    reader: &dyn Reader,
    flows: &ReadFlows,
    root: RunId,
) -> Result<Vec<(Run, Arc<Flow>)>, EngineError> {
    let Some(root) = reader.run(root)? else { return Ok(Vec::new()) };
    let runs = relatives::load_runs_under_way(reader, root, MAX_READ)?;
    runs.into_iter().map(|run| flows.get(reader, run.flow).map(|flow| (run, flow))).collect()
}
