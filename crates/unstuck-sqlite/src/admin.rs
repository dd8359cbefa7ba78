//! What is changed between batches: flows, and what is recorded of requests.

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::Bulk;
use unstuck_core::id::{FlowId, TokenId};
use unstuck_core::thing::Thing;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AdminStore, AuditRecord, FlowChange, FlowRecord, IdempotencyRecord, Ledger, NewFlow, OpenRuns,
    PlannedFlow, PutFlowError, Reader, StoreError, TokensChange,
};
use unstuck_store::invariants::{check_keys, check_version};

use crate::pending_transaction::PendingTransaction;
use crate::store::SqliteStore;
use crate::table;
use crate::table::bulk;
use crate::table::flow;
use crate::table::idempotency;
use crate::table::token;

impl SqliteStore {
    /// Finds what was done under a key: in stages that are not durable yet, then in the file.
    pub(crate) fn find_idempotency(
        &self,
        scope: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        match self.state.calls.get(scope, key) {
            Some(record) => Ok(Some(record.clone())),
            None => idempotency::find_record(&self.reader, scope, key),
        }
    }

    /// Records what comes with the requests of a stage.
    pub(crate) fn record_requests(
        &mut self,
        recorded: (Vec<IdempotencyRecord>, Vec<AuditRecord>, Vec<(TokenId, Time)>),
        job: &mut PendingTransaction,
    ) {
        (job.idempotency, job.audit, job.token_uses) = recorded;
        self.state.calls.put(&job.idempotency, job.stage);
    }

    /// Refuses keys that stand for something.
    pub(crate) fn check_keys(&self, records: &[IdempotencyRecord]) -> Result<(), StoreError> {
        check_keys(records, |scope, key| self.find_idempotency(scope, key))
    }
}

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
        self.check_keys(change.ledger.idempotency.as_slice())?;
        let written = flow::put_flows(&mut self.reader, &self.claim, &change.records, &change.ledger);
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

    fn begin_bulk(&mut self, bulk: Bulk, ledger: Ledger) -> Result<(), StoreError> {
        self.check_no_batch("a bulk action begins")?;
        self.check_keys(ledger.idempotency.as_slice())?;
        let last_id = self.state.last_id.max(bulk.id.0);
        let written = bulk::put_bulk(&mut self.reader, &self.claim, &bulk, last_id, &ledger);
        self.check_written(written)?;
        self.state.last_id = last_id;
        self.state.things.put(Thing::of_bulk(bulk));
        Ok(())
    }

    fn tokens(&mut self) -> Result<Vec<ApiToken>, StoreError> {
        self.check_usable()?;
        token::list_tokens(&self.reader)
    }

    fn put_tokens(&mut self, change: TokensChange, made_on: u64) -> Result<(), StoreError> {
        self.check_no_batch("tokens change")?;
        check_version(made_on, self.versions.tokens)?;
        let TokensChange { tokens, last_id, ledger } = change;
        self.check_keys(ledger.idempotency.as_slice())?;
        let last_id = self.state.last_id.max(last_id);
        let written = token::put_tokens(&mut self.reader, &self.claim, &tokens, last_id, &ledger);
        self.check_written(written)?;
        self.state.last_id = last_id;
        self.versions.tokens += 1;
        Ok(())
    }

    fn record(&mut self, ledger: Ledger) -> Result<(), StoreError> {
        self.check_no_batch("a request is recorded")?;
        self.check_keys(ledger.idempotency.as_slice())?;
        let written = table::put_ledger(&mut self.reader, &self.claim, &ledger);
        self.check_written(written)
    }

    fn idempotency(&mut self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.check_usable()?;
        self.find_idempotency(scope, key)
    }

    fn open_runs(&mut self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        self.settle_all()?;
        self.readers.open_runs(flows)
    }
}
