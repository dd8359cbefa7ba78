//! What is changed between batches: flows, and what is recorded of requests.

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::Bulk;
use unstuck_core::id::FlowId;

use crate::contract::{
    AdminStore, FlowChange, FlowRecord, IdempotencyRecord, Ledger, NewFlow, OpenRuns, PlannedFlow,
    PutFlowError, StoreError, TokensChange,
};
use crate::invariants::check_version;
use crate::memory::MemoryStore;

impl MemoryStore {
    /// Refuses a key that stands for something.
    pub(super) fn check_ledger(&self, ledger: &Ledger) -> Result<(), StoreError> {
        self.state.ledger.check(ledger.idempotency.as_slice())
    }

    /// Records what comes with a change that is durable at once.
    pub(super) fn add_ledger(&mut self, ledger: Ledger) {
        if let Some(durable) = &self.durable {
            durable.state().ledger.add_ledger(ledger.clone());
        }
        self.state.ledger.add_ledger(ledger);
    }
}

impl AdminStore for MemoryStore {
    fn plan_flows(&mut self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError> {
        self.check_usable()?;
        self.state.flows.plan(flows)
    }

    fn change_flows(&mut self, change: FlowChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("flows change")?;
        check_version(made_on, self.versions.flows)?;
        self.check_ledger(&change.ledger)?;
        self.state.flows.change(&change.records)?;
        self.versions.flows += 1;
        self.wake_others();
        if let Some(durable) = &self.durable {
            durable.state().flows = self.state.flows.clone();
        }
        self.add_ledger(change.ledger);
        Ok(())
    }

    fn begin_bulk(&mut self, bulk: Bulk, ledger: Ledger) -> Result<(), StoreError> {
        self.check_no_batch("a bulk action begins")?;
        self.check_ledger(&ledger)?;
        self.state.put_bulk(bulk.clone())?;
        self.wake_others();
        if let Some(durable) = &self.durable {
            durable.state().put_bulk(bulk)?;
        }
        self.add_ledger(ledger);
        Ok(())
    }

    fn tokens(&mut self) -> Result<Vec<ApiToken>, StoreError> {
        self.check_usable()?;
        Ok(self.state.tokens.values().cloned().collect())
    }

    fn put_tokens(&mut self, change: TokensChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("tokens change")?;
        check_version(made_on, self.versions.tokens)?;
        self.check_ledger(&change.ledger)?;
        if let Some(durable) = &self.durable {
            durable.state().put_tokens(change.tokens.clone(), change.last_id);
        }
        self.state.put_tokens(change.tokens, change.last_id);
        self.versions.tokens += 1;
        self.wake_others();
        self.add_ledger(change.ledger);
        Ok(())
    }

    fn record(&mut self, ledger: Ledger) -> Result<(), StoreError> {
        self.check_no_batch("a request is recorded")?;
        self.check_ledger(&ledger)?;
        self.add_ledger(ledger);
        Ok(())
    }

    fn idempotency(&mut self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.check_usable()?;
        Ok(self.state.ledger.find(scope, key))
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
