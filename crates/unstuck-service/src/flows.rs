//! Flows as the engine and readers get them: compiled from the definitions that a store keeps.

use std::sync::Arc;

use unstuck_core::model::flow::Flow;
use unstuck_engine::flows::Compile;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::FlowRecord;

/// Returns the function that compiles stored flow definitions.
pub fn compile_flow() -> Compile {
    Box::new(compile)
}

/// Returns a cache of flows for reading without an engine.
pub fn flows_for_reading() -> ReadFlows {
    ReadFlows::new(Arc::new(compile))
}

fn compile(record: &FlowRecord) -> Result<Flow, String> {
    let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
    let first =
        |problems: Vec<unstuck_flow::Problem>| problems.first().map_or_else(String::new, ToString::to_string);
    let flow = loaded.map_err(first)?.flows.into_iter().next();
    flow.ok_or_else(|| format!("the stored text of flow `{}` contains no flow", record.name))
}
