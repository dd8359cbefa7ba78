//! What is changed between batches: flows.

use unstuck_core::id::FlowId;
use unstuck_store::contract::{
    AdminStore, FlowChange, FlowRecord, NewFlow, OpenRuns, PlannedFlow, PutFlowError, Reader, StoreError,
};
use unstuck_store::invariants::check_version;

use crate::store::SqliteStore;
use crate::table::flow;

impl AdminStore for SqliteStore {
    fn plan_flows(&mut self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError> {
        self.check_usable()?;
        self.state.flows.plan(flows)
    }

    fn change_flows(&mut self, change: FlowChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("flows change")?;
        check_version(made_on, self.versions.flows)?;
        let mut flows = self.state.flows.clone();
        flows.change(&change.records)?;
        let written = flow::put_flows(&mut self.reader, &self.claim, &change.records);
        self.check_written(written)?;
        self.state.flows = flows;
        self.versions.flows += 1;
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
        self.settle_all()?;
        self.readers.open_runs(flows)
    }
}
