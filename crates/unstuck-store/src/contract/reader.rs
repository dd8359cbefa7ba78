//! What is durable, for any number of readers on any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, ResultKind, Target};
use unstuck_core::clock::ClockRecord;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;

use crate::contract::{
    AuditId, Cursor, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter, GroupPlace, OnChange,
    OpenErrorFilter, PolicyAudit, PolicyHits, RunFilter, RunLogs, SetAside, StoreError, TailError, TailPage,
};

/// How many runs of a flow, by its name, are in a state.
pub type RunCounts = BTreeMap<(Arc<str>, RunState), u64>;

/// Reads a store, from any thread, while others change it. Nothing waits for a reader.
///
/// It shows what is durable and nothing else. Whatever [`Store::settle`](crate::contract::Store::settle) has told of is
/// shown to every read that begins later, so that whoever was answered reads what was done. What one call gives is of one
/// moment; two calls are not.
pub trait Reader: Send + Sync {
    /// One run.
    fn run(&self, run: RunId) -> Result<Option<Run>, StoreError>;

    /// The run that has this key in this flow, in any state.
    fn run_of_key(&self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError>;

    /// The events of a run after number `after`, in order, at most `limit`.
    fn history(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Runs, newest first, before the id `before`, at most `limit`.
    fn list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError>;

    /// How many root runs of each flow are in each state: all that are not final, and of the final ones those that were
    /// started at `since` or later, by their ids.
    fn count_runs(&self, since: Time) -> Result<RunCounts, StoreError>;

    /// Runs in which something is due next, the earliest first, each once, at most `limit`. A time may be too early: what is
    /// due in a run, the run itself says.
    fn upcoming(&self, limit: usize) -> Result<Vec<(Time, RunId)>, StoreError>;

    /// Who has a slot of this limit, the oldest first, at most `most`.
    fn slot_holders(&self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError>;

    /// Since when and why this run is set aside by the server whose reader this is, if it is.
    fn set_aside_record(&self, run: RunId) -> Option<SetAside>;

    /// These payloads, in the same order.
    fn payloads(&self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError>;

    /// What attempts of a run printed, as much of it as is kept.
    fn logs(&self, run: RunId) -> Result<RunLogs, StoreError>;

    /// A flow version.
    fn flow(&self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError>;

    /// Flow versions, in the order of their ids, after the id `after`, at most `limit`.
    fn flows(&self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError>;

    /// Every policy, whether it is enabled or not, the oldest first; and whether they resume anything.
    fn policies(&self) -> Result<(Vec<Policy>, PolicySwitch), StoreError>;

    /// Changes of policies, newest first, before the id `before`, at most `limit`.
    fn policy_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError>;

    /// What policies have done, in order of their ids; those that were deleted too.
    fn policy_hits(&self) -> Result<Vec<PolicyHits>, StoreError>;

    /// Recorded errors, oldest first, after the id `after`, at most `limit`.
    fn errors(
        &self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError>;

    /// What is in error now, by run and unit, after the place `after`, at most `limit`.
    fn open_errors(
        &self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError>;

    /// Groups of errors, those seen last first, then by name, after the place `after`, at most `limit`.
    fn error_groups(
        &self,
        filter: &GroupFilter,
        after: Option<&GroupPlace>,
        limit: usize,
    ) -> Result<Vec<ErrorGroup>, StoreError>;

    /// A bulk action.
    fn bulk(&self, bulk: BulkId) -> Result<Option<Bulk>, StoreError>;

    /// Bulk actions, newest first, before the id `before`, at most `limit`; only those that are not over if so wanted.
    fn bulks(&self, open_only: bool, before: Option<BulkId>, limit: usize) -> Result<Vec<Bulk>, StoreError>;

    /// Targets of a bulk action from the place `from` on, at most `limit`; only those with such a result if so wanted.
    fn targets(
        &self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError>;

    /// The end of what is durable: whatever becomes durable later comes after it. Taken before something is read, a tail from
    /// there on misses nothing of what was not read.
    fn cursor(&self) -> Result<Cursor, StoreError>;

    /// What happened after this place, in the order in which it became durable, whoever wrote it; at most `limit` events.
    fn tail(&self, after: &Cursor, limit: usize) -> Result<TailPage, TailError>;

    /// Calls this whenever something has become durable, for as long as the caller keeps it.
    fn on_change(&self, watcher: &OnChange);

    /// How often and by how much the clock was set.
    fn clock(&self) -> Result<ClockRecord, StoreError>;

    /// The time of the last stage, by the clock as it was then; `None` for an empty store.
    fn last_time(&self) -> Result<Option<Time>, StoreError>;
}
