//! Lists the signals that wait in a run until a step consumes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use unstuck_api::{SignalLine, SignalsView};
use unstuck_core::event::Fact;
use unstuck_core::json::Payload;
use unstuck_core::model::run::Run;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Time;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::Reader;

use crate::run_name;
use crate::service::ServiceError;

/// Lists which signals wait in a run, how many of each, and since when.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn list_signals(reader: &dyn Reader, flows: &ReadFlows, name: &str) -> Result<SignalsView, ServiceError> {
    let id = run_name::find_run(reader, flows, name)?;
    let run = reader.run(id)?.ok_or(EngineError::Refused(Refusal::UnknownRun(id)))?;
    let oldest = find_oldest(reader, &run)?;
    let line = |(name, kept): (&Arc<str>, &VecDeque<Payload>)| SignalLine {
        name: name.to_string(),
        waiting: u32::try_from(kept.len()).unwrap_or(u32::MAX),
        oldest: oldest.get(name).map(ToString::to_string),
    };
    Ok(SignalsView { run: id.to_string(), signals: run.signals.iter().map(line).collect() })
}

/// When the oldest waiting signal of each name came. Only the history has that; they are consumed in the order in which
/// they came, so those that wait are the last of their name.
fn find_oldest(reader: &dyn Reader, run: &Run) -> Result<BTreeMap<Arc<str>, Time>, ServiceError> {
    let mut oldest = BTreeMap::new();
    if run.signals.is_empty() {
        return Ok(oldest);
    }
    let mut came: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    let history = reader.history(run.id, 0, usize::MAX)?;
    for event in history.iter().rev() {
        for fact in event.facts.iter().rev() {
            let Fact::SignalKept { name, .. } = fact else { continue };
            let Some((name, kept)) = run.signals.get_key_value(name) else { continue };
            let count = came.entry(name).or_default();
            if *count < kept.len() {
                *count += 1;
                oldest.insert(Arc::clone(name), event.at);
            }
        }
    }
    Ok(oldest)
}
