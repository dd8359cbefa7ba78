//! What is durable, for any number of readers on any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::{Bulk, ResultKind, Target};
use unstuck_core::clock::ClockRecord;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{AuditEntryId, BulkId, FlowId, PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::schedule::Schedule;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;

use crate::contract::{
    AuditEntry, AuditFilter, AuditId, Cursor, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter,
    GroupPlace, IdempotencyRecord, ListedFlow, OnChange, OpenErrorFilter, OpenRuns, PolicyAudit, PolicyHits,
    RunFilter, RunLogs, RunPage, RunPlace, RunSort, SetAside, StoreError, TailError, TailPage,
};

/// How many runs of a flow, by its name, are in a state.
pub type RunCounts = BTreeMap<(Arc<str>, RunState), u64>;

/// A run, and all of its events.
pub type RunWithHistory = (Run, Vec<Event>);

/// Reads a store, from any thread, while others change it. Nothing waits for a reader.
///
/// It shows what is durable and nothing else. Whatever [`Store::settle`](crate::contract::Store::settle) has told of is
/// shown to every read that begins later, so that whoever was answered reads what was done. What one call gives is of one
/// moment; two calls are not.
pub trait Reader: Send + Sync {
    /// Loads a run.
    fn run(&self, run: RunId) -> Result<Option<Run>, StoreError>;

    /// Finds the run that has this key in this flow, in any state.
    fn run_of_key(&self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError>;

    /// Tells whether there is such a run.
    fn has_run(&self, run: RunId) -> Result<bool, StoreError>;

    /// Loads the events of a run after number `after`, in order, at most `limit`.
    fn history(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Loads these runs, each with all of its events, in the same order and all of one moment.
    fn runs_with_history(&self, runs: &[RunId]) -> Result<Vec<Option<RunWithHistory>>, StoreError>;

    /// Lists runs in this order, after the place `after`, at most `limit`. However many runs there are, it looks at a
    /// bounded number of them. A place of another order is none.
    fn page(
        &self,
        filter: &RunFilter,
        sort: RunSort,
        after: Option<RunPlace>,
        limit: usize,
    ) -> Result<RunPage, StoreError>;

    /// Lists runs, newest first, before the id `before`, at most `limit`, however long that takes.
    fn list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let mut found = Vec::new();
        let mut after = before.map(RunPlace::Created);
        while found.len() < limit {
            let page = self.page(filter, RunSort::Created, after, limit - found.len())?;
            found.extend(page.runs);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Counts root runs by flow and state: all that are not final, and of the final ones those started at `since` or
    /// later, by their ids.
    fn count_runs(&self, since: Time) -> Result<RunCounts, StoreError>;

    /// Lists runs with the next thing that is due in them, the earliest first, each once, at most `limit`. A time may
    /// be too early: the run itself says what is due.
    fn upcoming(&self, limit: usize) -> Result<Vec<(Time, RunId)>, StoreError>;

    /// Lists the holders of a limit's slots, oldest first, at most `most`.
    fn slot_holders(&self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError>;

    /// Returns since when and why the server of this reader has set the run aside, if it has.
    fn set_aside_record(&self, run: RunId) -> Option<SetAside>;

    /// Loads these payloads, in the same order.
    fn payloads(&self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError>;

    /// Loads what attempts of a run printed, as far as it is kept.
    fn logs(&self, run: RunId) -> Result<RunLogs, StoreError>;

    /// Finds a flow version.
    fn flow(&self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError>;

    /// Lists flow versions in order of their ids, after the id `after`, at most `limit`.
    fn flows(&self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError>;

    /// Lists the flows that can be started in order of their names, after the name `after`, at most `limit`.
    fn flow_names(&self, after: Option<&str>, limit: usize) -> Result<Vec<ListedFlow>, StoreError>;

    /// Lists versions of a flow, the newest first, before the version `before`, at most `limit`; deleted ones too.
    fn flow_versions(
        &self,
        name: &str,
        before: Option<FlowId>,
        limit: usize,
    ) -> Result<Vec<FlowRecord>, StoreError>;

    /// Counts the runs of these flow versions that are not final, children and handlers too. A version without any is
    /// left out.
    fn open_runs(&self, flows: &[FlowId]) -> Result<OpenRuns, StoreError>;

    /// Lists every policy, enabled or not, the oldest first, with whether automatic resumes are paused.
    fn policies(&self) -> Result<(Vec<Policy>, PolicySwitch), StoreError>;

    /// Lists changes of policies, newest first, before the id `before`, at most `limit`.
    fn policy_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError>;

    /// Lists all tokens of the API in order of their ids, revoked ones too.
    fn tokens(&self) -> Result<Vec<ApiToken>, StoreError>;

    /// Lists when tokens were last used, as far as that is known: to a minute or so.
    fn token_uses(&self) -> Result<Vec<(TokenId, Time)>, StoreError>;

    /// Lists who changed what, newest first, before the entry `before`, at most `limit`.
    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditEntryId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Lists who changed what, oldest first, after the entry `after`, at most `limit`: each entry has a larger number than all
    /// that were durable before it.
    fn audit_after(&self, after: AuditEntryId, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Finds the request that was carried out under a key. One that
    /// [stands for it no more](crate::contract::is_expired) may be found for a while.
    fn idempotency(&self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// Counts what policies have taken, in order of their ids; deleted policies too.
    fn policy_hits(&self) -> Result<Vec<PolicyHits>, StoreError>;

    /// Lists recorded errors, oldest first, after the id `after`, at most `limit`.
    fn errors(
        &self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError>;

    /// Lists recorded errors, newest first, before the id `before`, at most `limit`.
    fn errors_before(
        &self,
        filter: &ErrorFilter,
        before: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError>;

    /// Lists what is in error now, by run and unit, after the place `after`, at most `limit`.
    fn open_errors(
        &self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError>;

    /// Lists groups of errors, those seen last first, then by name, after the place `after`, at most `limit`.
    fn error_groups(
        &self,
        filter: &GroupFilter,
        after: Option<&GroupPlace>,
        limit: usize,
    ) -> Result<Vec<ErrorGroup>, StoreError>;

    /// Finds a bulk action.
    fn bulk(&self, bulk: BulkId) -> Result<Option<Bulk>, StoreError>;

    /// Lists bulk actions, newest first, before the id `before`, at most `limit`; with `open_only` those that are not
    /// settled.
    fn bulks(&self, open_only: bool, before: Option<BulkId>, limit: usize) -> Result<Vec<Bulk>, StoreError>;

    /// Lists targets of a bulk action from the place `from` on, at most `limit`; with `only` those with such a
    /// result.
    fn targets(
        &self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError>;

    /// Lists what is kept of all schedules, in order of the names of their flows.
    fn schedules(&self) -> Result<Vec<Schedule>, StoreError>;

    /// Returns the end of what is durable. Taken before something is read, a tail from there on misses nothing that
    /// was not read.
    fn cursor(&self) -> Result<Cursor, StoreError>;

    /// The same with the last entry of the audit, of one moment; entry 0 where there is none.
    fn ends(&self) -> Result<(Cursor, AuditEntryId), StoreError>;

    /// Lists what happened after this place in the order in which it became durable, whoever wrote it; at most
    /// `limit` events.
    fn tail(&self, after: &Cursor, limit: usize) -> Result<TailPage, TailError>;

    /// Calls the watcher whenever something has become durable, for as long as the caller keeps it alive.
    fn on_change(&self, watcher: &OnChange);

    /// Returns how often and by how much the clock was set.
    fn clock(&self) -> Result<ClockRecord, StoreError>;

    /// Returns the time of the last stage, by the clock as it was then; `None` for an empty store.
    fn last_time(&self) -> Result<Option<Time>, StoreError>;
}
