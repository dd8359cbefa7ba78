//! What is changed between batches, asked of both stores.

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::Bulk;
use unstuck_core::id::FlowId;

use super::Twin;
use crate::conformance::TestStore;
use crate::contract::{
    AdminStore, FlowChange, FlowRecord, IdempotencyRecord, Ledger, NewFlow, OpenRuns, PlannedFlow,
    PutFlowError, Store, StoreError, TokensChange,
};

impl<A: TestStore, B: TestStore> AdminStore for Twin<'_, A, B> {
    fn plan_flows(&mut self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError> {
        let expected = self.oracle.plan_flows(flows);
        let found = self.store().plan_flows(flows);
        if !self.has_crashed() {
            assert_eq!(found, expected, "both plan the same");
        }
        expected
    }

    /// Nothing that drives two stores does this: the oracle would have to do it again after a crash.
    fn change_flows(&mut self, _: FlowChange, _: u64) -> Result<(), StoreError> {
        panic!("two stores that are compared keep flows one by one")
    }

    fn flow_version(&mut self, name: &str, version: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.same(|oracle| oracle.flow_version(name, version), |store| store.flow_version(name, version))
    }

    fn flow_versions(&mut self, name: &str) -> Result<Vec<FlowRecord>, StoreError> {
        self.same(|oracle| oracle.flow_versions(name), |store| store.flow_versions(name))
    }

    /// Nothing that drives two stores records anything of it.
    fn begin_bulk(&mut self, bulk: Bulk, ledger: Ledger) -> Result<(), StoreError> {
        assert_eq!(ledger, Ledger::default(), "two stores that are compared record what comes with stages");
        self.put_bulk(bulk)
    }

    fn tokens(&mut self) -> Result<Vec<ApiToken>, StoreError> {
        self.same(A::tokens, B::tokens)
    }

    /// Nothing that drives two stores does this.
    fn put_tokens(&mut self, _: TokensChange, _: u64) -> Result<(), StoreError> {
        panic!("two stores that are compared have no tokens")
    }

    /// Nothing that drives two stores does this.
    fn record(&mut self, _: Ledger) -> Result<(), StoreError> {
        panic!("two stores that are compared record what comes with stages")
    }

    fn idempotency(&mut self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.same(|oracle| oracle.idempotency(scope, key), |store| store.idempotency(scope, key))
    }

    fn open_runs(&mut self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        self.same(|oracle| oracle.open_runs(flows), |store| store.open_runs(flows))
    }
}
