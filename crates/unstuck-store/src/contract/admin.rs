//! What is kept beside runs and changed between batches: flows as they are applied and deleted, and what is recorded of
//! requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::Bulk;
use unstuck_core::event::Actor;
use unstuck_core::id::FlowId;
use unstuck_core::time::Time;

use super::{FlowRecord, IdempotencyRecord, Ledger, NewFlow, PutFlowError, StoreError};

/// The part of a store that whoever administers it changes. All of it happens outside of transactions, and is durable on
/// return.
pub trait AdminStore {
    /// Returns what [`Store::put_flow`](super::Store::put_flow) would make of these, one after the other: nothing is changed.
    /// One that was deleted and comes again is there again.
    fn plan_flows(&mut self, flows: &[NewFlow]) -> Result<Vec<PlannedFlow>, PutFlowError>;

    /// Keeps these flow versions as they are given, all of them or none. `made_on` is the version of the flows that they were
    /// planned on: refused as a conflict if that is no longer the newest.
    fn change_flows(&mut self, change: FlowChange, made_on: u64) -> Result<(), StoreError>;

    /// Finds a version of a flow by its label, deleted or not.
    fn flow_version(&mut self, name: &str, version: &str) -> Result<Option<FlowRecord>, StoreError>;

    /// Lists the versions of a flow, the oldest first, deleted ones too.
    fn flow_versions(&mut self, name: &str) -> Result<Vec<FlowRecord>, StoreError>;

    /// As [`Store::put_bulk`](super::Store::put_bulk), with what is recorded of it.
    fn begin_bulk(&mut self, bulk: Bulk, ledger: Ledger) -> Result<(), StoreError>;

    /// Lists all tokens of the API in order of their ids, revoked ones too.
    fn tokens(&mut self) -> Result<Vec<ApiToken>, StoreError>;

    /// Keeps tokens, all of them or none. `made_on` is the version that the change was made of: refused as a conflict if
    /// that is no longer the newest.
    fn put_tokens(&mut self, change: TokensChange, made_on: u64) -> Result<(), StoreError>;

    /// Records something that came to nothing: it was asked, and was so already.
    fn record(&mut self, ledger: Ledger) -> Result<(), StoreError>;

    /// Finds the request that was carried out under a key, as the last stage leaves it. One that
    /// [stands for it no more](super::is_expired) may be found for a while.
    fn idempotency(&mut self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// Counts the runs of these flow versions that are not final, children and handlers too, as the last stage leaves
    /// them. A version without any is left out.
    fn open_runs(&mut self, flows: &[FlowId]) -> Result<OpenRuns, StoreError>;
}

/// A change of tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokensChange {
    /// Those that are new or have changed, as they are from now on.
    pub tokens: Vec<ApiToken>,
    /// The highest id that was given out.
    pub last_id: u64,
    pub ledger: Ledger,
}

/// How many runs of a flow version are not final.
pub type OpenRuns = BTreeMap<FlowId, u64>;

/// Who applied a flow version, and when: the first time, or after it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub at: Time,
    pub by: Actor,
}

/// A change of flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowChange {
    /// The versions that are new or have changed, as they are from now on, in order of their ids.
    pub records: Vec<FlowRecord>,
    pub ledger: Ledger,
}

/// What keeping a flow comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFlow {
    /// The version that there is then.
    pub record: FlowRecord,
    pub what: FlowChangeKind,
}

impl PlannedFlow {
    /// The version as it is kept: whoever brings something new has applied it.
    pub fn into_record(self, at: Time, by: &Actor) -> FlowRecord {
        match self.what {
            FlowChangeKind::Added | FlowChangeKind::Changed => {
                FlowRecord { applied: Some(Applied { at, by: by.clone() }), ..self.record }
            }
            FlowChangeKind::Unchanged => self.record,
        }
    }
}

/// What is done to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FlowChangeKind {
    /// It can be started for the first time, or again.
    Added,
    /// It has another version.
    Changed,
    /// It is as it was.
    Unchanged,
}

impl FlowChangeKind {
    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            FlowChangeKind::Added => "added",
            FlowChangeKind::Changed => "changed",
            FlowChangeKind::Unchanged => "unchanged",
        }
    }
}

/// A flow in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFlow {
    pub name: Arc<str>,
    /// The version that is started unless another one is named.
    pub newest: FlowRecord,
    /// How many versions can be started.
    pub versions: u64,
    /// How many runs of any version are not final.
    pub open: u64,
}
