//! What is changed between batches: flows.

use unstuck_core::id::FlowId;

use crate::contract::{
    AdminStore, FlowChange, FlowRecord, NewFlow, OpenRuns, PlannedFlow, PutFlowError, StoreError,
};
use crate::invariants::check_version;
use crate::memory::MemoryStore;

impl AdminStore for MemoryStore {
    fn plan_flows(&mut self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError> {
        self.check_usable()?;
        self.state.flows.plan(flows)
    }

    fn change_flows(&mut self, change: FlowChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("flows change")?;
        check_version(made_on, self.versions.flows)?;
        self.state.flows.change(&change.records)?;
        self.versions.flows += 1;
        self.wake_others();
        if let Some(durable) = &self.durable {
            durable.state().flows = self.state.flows.clone();
        }
        Ok(())
    }

    fn flow_version(&mut self, name: &str, version: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.flows.version(name, version))
    }

    fn flow_versions(&mut self, name: &str) -> Result<Vec<FlowRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.flows.versions_of(name).cloned().collect())
    }

    fn open_runs(&mut self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        self.check_usable()?;
        self.state.count_open(flows)
    }
}
