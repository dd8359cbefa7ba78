//! The flows that are kept, with all their versions.

use std::collections::HashMap;
use std::sync::Arc;

use unstuck_core::id::FlowId;

use crate::contract::{FlowRecord, NewFlow, PutFlowError};

/// The kept flows.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// By id, which counts from 1.
    records: Vec<FlowRecord>,
    /// The versions of a flow, the newest last.
    versions: HashMap<Arc<str>, Vec<FlowId>>,
}

impl Flows {
    /// Keeps a flow, or says why not: see [`Store::put_flow`](crate::contract::Store::put_flow).
    pub fn put(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError> {
        let known = match &flow.version {
            Some(version) => self.versions_of(&flow.name).find(|record| record.version == *version),
            None => self.versions_of(&flow.name).next_back().filter(|newest| newest.source == flow.source),
        };
        if let Some(known) = known {
            if known.source != flow.source {
                return Err(PutFlowError::VersionTaken { name: flow.name, version: known.version.clone() });
            }
            let place = index_of(known.id);
            self.records[place].directory = flow.directory;
            self.records[place].steps.get_or_insert(flow.steps);
            return Ok(self.records[place].clone());
        }
        let version = flow.version.unwrap_or_else(|| self.next_number(&flow.name));
        let id = FlowId(self.records.len() as u64 + 1);
        self.versions.entry(flow.name.clone()).or_default().push(id);
        let NewFlow { name, source, directory, steps, .. } = flow;
        let record = FlowRecord { id, name, version, source, directory, steps: Some(steps) };
        self.records.push(record.clone());
        Ok(record)
    }

    /// Adds a stored flow version while a store is opened; they come in the order of their ids.
    pub fn restore(&mut self, record: FlowRecord) {
        self.versions.entry(record.name.clone()).or_default().push(record.id);
        self.records.push(record);
    }

    pub fn get(&self, flow: FlowId) -> Option<FlowRecord> {
        self.records.get(index_of(flow)).cloned()
    }

    /// Lists flow versions with ids above `after`, at most `limit`.
    pub fn after(&self, after: Option<FlowId>, limit: usize) -> Vec<FlowRecord> {
        let first = after.map_or(0, |after| index_of(after).saturating_add(1));
        self.records.iter().skip(first).take(limit).cloned().collect()
    }

    /// The names of all flows, each once, in no order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.versions.keys().cloned().collect()
    }

    /// Finds the newest version of a flow.
    pub fn newest(&self, name: &str) -> Option<FlowRecord> {
        self.versions_of(name).next_back().cloned()
    }

    /// Finds the version of a flow by its label.
    pub fn version(&self, name: &str, version: &str) -> Option<FlowRecord> {
        self.versions_of(name).find(|record| *record.version == *version).cloned()
    }

    /// Lists the versions of a flow, the oldest first.
    fn versions_of(&self, name: &str) -> impl DoubleEndedIterator<Item = &FlowRecord> {
        let ids = self.versions.get(name).map(Vec::as_slice).unwrap_or_default();
        ids.iter().map(|id| &self.records[index_of(*id)])
    }

    /// Returns the label for a version without one: one above the highest label that is a number.
    fn next_number(&self, name: &str) -> Arc<str> {
        let numbers = self.versions_of(name).filter_map(|record| record.version.parse::<u64>().ok());
        (numbers.max().unwrap_or(0).saturating_add(1)).to_string().into()
    }
}

/// Ids count from 1, and no version is ever removed.
fn index_of(flow: FlowId) -> usize {
    usize::try_from(flow.0.wrapping_sub(1)).unwrap_or(usize::MAX)
}
