//! Reading what is durable, from any thread: the file, and what is newer in the log than the rows of runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use unstuck_core::api_token::ApiToken;
use unstuck_core::bulk::{Bulk, ResultKind, Target};
use unstuck_core::clock::ClockRecord;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{AuditEntryId, BulkId, FlowId, PayloadId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::schedule::Schedule;
use unstuck_core::thing::Thing;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    AuditEntry, AuditFilter, AuditId, Cursor, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter,
    GroupPlace, IdempotencyRecord, ListedFlow, OnChange, OpenErrorFilter, OpenRuns, PolicyAudit, PolicyHits,
    Reader, RunCounts, RunFilter, RunLogs, RunPage, RunPlace, RunSort, RunWithHistory, SetAside, StoreError,
    TailError, TailPage,
};

use crate::list_runs;
use crate::log_entry::StoredSlot;
use crate::open;
use crate::overlay::Published;
use crate::page_runs::PageSearch;
use crate::read_pool::ReadPool;
use crate::table::attempt_log;
use crate::table::audit;
use crate::table::bulk;
use crate::table::error;
use crate::table::event;
use crate::table::flow;
use crate::table::idempotency;
use crate::table::meta;
use crate::table::payload;
use crate::table::policy;
use crate::table::run;
use crate::table::run_key;
use crate::table::run_snapshot;
use crate::table::schedule;
use crate::table::token;
use crate::table::wake;

/// So often counts are tried again when something was written at the same time, before every run is looked up.
const COUNT_TRIES: usize = 8;

/// Reads a store in a folder.
#[derive(Clone, Debug)]
pub struct SqliteReader {
    pub(crate) published: Arc<Published>,
    pub(crate) pool: Arc<ReadPool>,
    /// So many runs are looked at for a page of a list, at most.
    pub(crate) max_candidates: usize,
}

impl SqliteReader {
    /// Reads the store in this folder, which nobody else may have open meanwhile. Nothing in the folder is written, made or
    /// removed, so the disk may be full or read-only.
    pub fn open(directory: &Path) -> Result<SqliteReader, StoreError> {
        open::open_for_reading(directory)
    }

    /// Reads the store in this folder beside whoever has it open: what is durable at this moment.
    pub fn open_beside(directory: &Path) -> Result<SqliteReader, StoreError> {
        open::open_beside(directory)
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.published.check_usable()?;
        self.pool.read(read)
    }

    /// Reads with the position of the last event of a run, if there is such a run.
    fn read_at_head<T>(
        &self,
        id: RunId,
        read: impl FnOnce(&Connection, u64) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        // First of all: what is told of later may not be in what is read of the file.
        let fresh = self.published.head(id)?;
        self.pool.read(|connection| {
            find_head(connection, id, fresh)?.map(|head| read(connection, head)).transpose()
        })
    }
}

/// Finds the position of the last event of a run, if there is such a run; `fresh` is what was told of it before.
fn find_head(connection: &Connection, id: RunId, fresh: Option<u64>) -> Result<Option<u64>, StoreError> {
    match run::load_run_row(connection, id)? {
        Some(row) => Ok(fresh.max(Some(row.head))),
        None => list_runs::head_if_present(connection, fresh),
    }
}

impl Reader for SqliteReader {
    fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        self.read_at_head(id, |connection, head| Ok(run_snapshot::load_run_at(connection, id, head)?.run))
    }

    fn run_of_key(&self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.read(|connection| run_key::find_run_of_key(connection, flow, key))
    }

    fn history(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let page = self.read_at_head(run, |connection, head| {
            event::load_history_page(connection, run, head, after, limit)
        })?;
        Ok(page.unwrap_or_default())
    }

    fn has_run(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.read_at_head(run, |_, _| Ok(()))?.is_some())
    }

    fn runs_with_history(&self, runs: &[RunId]) -> Result<Vec<Option<RunWithHistory>>, StoreError> {
        let fresh = runs.iter().map(|id| self.published.head(*id)).collect::<Result<Vec<_>, _>>()?;
        self.pool.read(|connection| {
            let load = |(id, fresh): (&RunId, Option<u64>)| {
                let Some(head) = find_head(connection, *id, fresh)? else { return Ok(None) };
                let events = event::load_history(connection, head, 0)?;
                Ok(Some((event::replay_all(*id, &events)?, events)))
            };
            runs.iter().zip(fresh).map(load).collect()
        })
    }

    fn page(
        &self,
        filter: &RunFilter,
        sort: RunSort,
        after: Option<RunPlace>,
        limit: usize,
    ) -> Result<RunPage, StoreError> {
        let (fresh, max_candidates) = (self.published.fresh()?, self.max_candidates);
        self.pool.read(|connection| {
            let search = PageSearch { connection, fresh: &fresh, filter, limit, max_candidates };
            search.find(sort, after)
        })
    }

    fn count_runs(&self, since: Time) -> Result<RunCounts, StoreError> {
        for _ in 0..COUNT_TRIES {
            let told = self.published.now()?;
            let counted = self.pool.read(|connection| list_runs::count_roots(connection, &told, since))?;
            if let Some(counts) = counted {
                return Ok(counts);
            }
        }
        let told = self.published.now()?;
        self.pool.read(|connection| list_runs::count_roots_one_by_one(connection, &told, since))
    }

    fn upcoming(&self, limit: usize) -> Result<Vec<(Time, RunId)>, StoreError> {
        let fresh = self.published.fresh()?;
        let mut found: Vec<(Time, RunId)> =
            fresh.iter().filter_map(|(id, run)| Some((run.due?, id))).collect();
        self.pool.read(|connection| {
            let mut seen = BTreeSet::new();
            wake::for_each_timer(connection, |due, run| {
                if fresh.get(run).is_none() && seen.insert(run) {
                    found.push((due, run));
                }
                seen.len() < limit
            })
        })?;
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    fn slot_holders(&self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError> {
        let fresh = self.published.fresh()?;
        let has_slot = fresh.iter().filter(|(_, run)| run.slot.as_deref() == Some(limit));
        let mut holders: Vec<RunId> = has_slot.map(|(id, _)| id).collect();
        let rows = self.pool.read(run::list_slots)?.into_iter();
        holders.extend(rows.filter_map(|(id, slot, _)| match slot {
            StoredSlot::Has(has) if *has.name == *limit && fresh.get(id).is_none() => Some(id),
            StoredSlot::Has(_) | StoredSlot::Wants(..) | StoredSlot::None => None,
        }));
        holders.sort_unstable();
        holders.truncate(most);
        Ok(holders)
    }

    fn set_aside_record(&self, run: RunId) -> Option<SetAside> {
        self.published.set_aside_record(run)
    }

    fn payloads(&self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.read(|connection| ids.iter().map(|id| payload::load_payload(connection, *id)).collect())
    }

    fn logs(&self, run: RunId) -> Result<RunLogs, StoreError> {
        self.read(|connection| attempt_log::list_logs(connection, run))
    }

    fn flow(&self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError> {
        let before = FlowId(flow.0.saturating_sub(1));
        let found = self.read(|connection| flow::list_flows(connection, before, 1))?.pop();
        Ok(found.filter(|found| found.id == flow))
    }

    fn flows(&self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError> {
        self.read(|connection| flow::list_flows(connection, after.unwrap_or(FlowId(0)), limit))
    }

    fn flow_names(&self, after: Option<&str>, limit: usize) -> Result<Vec<ListedFlow>, StoreError> {
        let listed = self.read(|connection| {
            let flows = flow::list_startable(connection, after, limit)?.into_iter();
            let with_ids = flows.map(|(newest, versions)| {
                let all = flow::list_versions(connection, Some(&newest.name))?;
                Ok((newest, versions, all.into_iter().map(|(id, _)| id).collect::<Vec<_>>()))
            });
            with_ids.collect::<Result<Vec<_>, StoreError>>()
        })?;
        let all: Vec<FlowId> = listed.iter().flat_map(|(_, _, ids)| ids).copied().collect();
        let open = self.open_runs(&all)?;
        let flows = listed.into_iter().map(|(newest, versions, ids)| {
            let open = ids.iter().filter_map(|id| open.get(id)).sum();
            ListedFlow { name: newest.name.clone(), newest, versions, open }
        });
        Ok(flows.collect())
    }

    fn flow_versions(
        &self,
        name: &str,
        before: Option<FlowId>,
        limit: usize,
    ) -> Result<Vec<FlowRecord>, StoreError> {
        self.read(|connection| flow::list_versions_before(connection, name, before, limit))
    }

    fn open_runs(&self, flows: &[FlowId]) -> Result<OpenRuns, StoreError> {
        for _ in 0..COUNT_TRIES {
            let told = self.published.now()?;
            let counted = self.pool.read(|connection| list_runs::count_open(connection, &told, flows))?;
            if let Some(counts) = counted {
                return Ok(counts);
            }
        }
        let told = self.published.now()?;
        self.pool.read(|connection| list_runs::count_open_one_by_one(connection, &told, flows))
    }

    fn policies(&self) -> Result<(Vec<Policy>, PolicySwitch), StoreError> {
        self.read(|connection| Ok((policy::list_policies(connection)?, policy::load_switch(connection)?)))
    }

    fn policy_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        self.read(|connection| policy::list_audit(connection, before, limit))
    }

    fn tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        self.read(token::list_tokens)
    }

    fn token_uses(&self) -> Result<Vec<(TokenId, Time)>, StoreError> {
        self.read(token::list_uses)
    }

    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<AuditEntryId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.read(|connection| audit::list_entries(connection, filter, before, limit))
    }

    fn audit_after(&self, after: AuditEntryId, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.read(|connection| audit::list_entries_after(connection, after, limit))
    }

    fn idempotency(&self, scope: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.read(|connection| idempotency::find_record(connection, scope, key))
    }

    fn policy_hits(&self) -> Result<Vec<PolicyHits>, StoreError> {
        self.read(error::list_policy_hits)
    }

    fn errors(
        &self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.read(|connection| error::list_errors(connection, filter, after, limit))
    }

    fn errors_before(
        &self,
        filter: &ErrorFilter,
        before: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.read(|connection| error::list_errors_before(connection, filter, before, limit))
    }

    fn open_errors(
        &self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.read(|connection| error::list_open_errors(connection, filter, after, limit))
    }

    fn error_groups(
        &self,
        filter: &GroupFilter,
        after: Option<&GroupPlace>,
        limit: usize,
    ) -> Result<Vec<ErrorGroup>, StoreError> {
        self.read(|connection| error::list_groups(connection, filter, after, limit))
    }

    fn bulk(&self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        self.read(|connection| bulk::find_bulk(connection, bulk))
    }

    fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let things = self.read(schedule::list_schedules)?;
        Ok(things.iter().filter_map(Thing::schedule).cloned().collect())
    }

    fn bulks(&self, open_only: bool, before: Option<BulkId>, limit: usize) -> Result<Vec<Bulk>, StoreError> {
        self.read(|connection| bulk::list_bulks(connection, open_only, before, limit))
    }

    fn targets(
        &self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError> {
        self.read(|connection| bulk::list_targets(connection, bulk, only, from, limit))
    }

    fn cursor(&self) -> Result<Cursor, StoreError> {
        self.read(event::load_end_cursor)
    }

    fn ends(&self) -> Result<(Cursor, AuditEntryId), StoreError> {
        self.read(|connection| Ok((event::load_end_cursor(connection)?, audit::load_last_id(connection)?)))
    }

    fn tail(&self, after: &Cursor, limit: usize) -> Result<TailPage, TailError> {
        let read = self.read(|connection| {
            let end = event::load_end_cursor(connection)?;
            match after.position_before(&end) {
                Ok(from) => event::load_tail_page(connection, from, &end, limit).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        });
        read?
    }

    fn on_change(&self, watcher: &OnChange) {
        self.published.watchers.add(watcher);
    }

    fn clock(&self) -> Result<ClockRecord, StoreError> {
        self.read(meta::load_clock)
    }

    fn last_time(&self) -> Result<Option<Time>, StoreError> {
        self.read(|connection| Ok(meta::load_number(connection, "last_time")?.map(Time)))
    }
}
