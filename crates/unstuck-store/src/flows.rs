//! The flows that are kept, with all their versions.

use std::collections::HashMap;
use std::sync::Arc;

use unstuck_core::id::FlowId;

use crate::contract::{FlowChangeKind, FlowRecord, NewFlow, PlannedFlow, PutFlowError, StoreError};

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
        let PlannedFlow { record, .. } = self.plan_one(flow)?;
        self.keep(record.clone());
        Ok(record)
    }

    /// Says what keeping these comes to, one after the other.
    pub fn plan(&self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError> {
        let mut after = self.clone();
        let plan = |flow: &NewFlow| {
            let planned = after.plan_one(flow.clone())?;
            after.keep(planned.record.clone());
            Ok(planned)
        };
        flows.iter().map(plan).collect()
    }

    /// Keeps versions that were planned; refused if they do not follow what is there.
    pub fn change(&mut self, records: &[FlowRecord]) -> Result<(), StoreError> {
        let mut next = self.records.len();
        for record in records {
            let place = index_of(record.id);
            let is_same = self.records.get(place).is_some_and(|known| {
                (&known.name, &known.version, &known.source)
                    == (&record.name, &record.version, &record.source)
            });
            if !is_same && place != next {
                let FlowRecord { id, name, version, .. } = record;
                let what = format!("version {version} of flow `{name}` cannot be kept as {id}");
                return Err(StoreError::Conflict(what));
            }
            next = next.max(place + 1);
        }
        for record in records {
            self.keep(record.clone());
        }
        Ok(())
    }

    fn plan_one(&self, flow: NewFlow) -> Result<PlannedFlow, PutFlowError> {
        let newest = self.newest(&flow.name);
        let known = match &flow.version {
            Some(version) => self.versions_of(&flow.name).find(|record| record.version == *version).cloned(),
            None => newest
                .clone()
                .or_else(|| self.versions_of(&flow.name).next_back().cloned())
                .filter(|newest| newest.source == flow.source),
        };
        let new_version = match newest {
            Some(_) => FlowChangeKind::Changed,
            None => FlowChangeKind::Added,
        };
        if let Some(known) = known {
            if known.source != flow.source {
                return Err(PutFlowError::VersionTaken { name: flow.name, version: known.version });
            }
            let what = if known.is_deleted { new_version } else { FlowChangeKind::Unchanged };
            let steps = known.steps.clone().or(Some(flow.steps));
            let record = FlowRecord { directory: flow.directory, steps, is_deleted: false, ..known };
            return Ok(PlannedFlow { record, what });
        }
        let version = flow.version.unwrap_or_else(|| self.next_number(&flow.name));
        let id = FlowId(self.records.len() as u64 + 1);
        let NewFlow { name, source, directory, steps, .. } = flow;
        let (applied, is_deleted) = (None, false);
        let record =
            FlowRecord { id, name, version, source, directory, steps: Some(steps), applied, is_deleted };
        Ok(PlannedFlow { record, what: new_version })
    }

    /// Keeps a version: in its place, or as the next one.
    fn keep(&mut self, record: FlowRecord) {
        match self.records.get_mut(index_of(record.id)) {
            Some(known) => *known = record,
            None => self.restore(record),
        }
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

    /// Finds the newest version of a flow, of those that are not deleted.
    pub fn newest(&self, name: &str) -> Option<FlowRecord> {
        self.versions_of(name).rev().find(|record| !record.is_deleted).cloned()
    }

    /// Lists the flows that can be started in order of their names, each with its newest version, and the ids of those of
    /// its versions that can be started.
    pub fn list_startable(&self, after: Option<&str>, limit: usize) -> Vec<(FlowRecord, Vec<FlowId>)> {
        let mut names: Vec<&Arc<str>> =
            self.versions.keys().filter(|name| after.is_none_or(|after| ***name > *after)).collect();
        names.sort_unstable();
        let listed = names.into_iter().filter_map(|name| {
            let startable = self.versions_of(name).filter(|record| !record.is_deleted);
            Some((self.newest(name)?, startable.map(|record| record.id).collect()))
        });
        listed.take(limit).collect()
    }

    /// Finds the version of a flow by its label.
    pub fn version(&self, name: &str, version: &str) -> Option<FlowRecord> {
        self.versions_of(name).find(|record| *record.version == *version).cloned()
    }

    /// Lists the versions of a flow, the oldest first.
    pub fn versions_of(&self, name: &str) -> impl DoubleEndedIterator<Item = &FlowRecord> {
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
