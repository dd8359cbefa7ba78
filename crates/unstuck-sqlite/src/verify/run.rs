//! One run after the other: its history, what follows from that, and what is kept beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;

use rusqlite::CachedStatement;
use unstuck_core::bulk::BulkRef;
use unstuck_core::digest::is_digest_of;
use unstuck_core::id::{FlowId, PayloadId, RunId};
use unstuck_core::json::Payload;
use unstuck_core::model::run::{Run, Slot};
use unstuck_core::summary::RunSummary;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::history::HistoryCheck;
use unstuck_store::verify::{FORGET, Finding, Promise, RESTORE, movers};

use crate::error::store_error;
use crate::list_runs::encode_rests;
use crate::stored_summary;
use crate::table::payload;
use crate::table::run_key;
use crate::table::run_label;
use crate::table::run_snapshot::{self, RunSnapshot};
use crate::table::unsigned;
use crate::table::wake::WakeRow;
use crate::verify::CheckReport;
use crate::verify::by_run::ByRun;
use crate::verify::chain::{Chain, Link};
use crate::verify::counts::RowCounts;
use crate::verify::errors::{EndedInError, StoredError, StoredOpenError, compare_open};
use crate::verify::kept_state::KeptState;
use crate::verify::payloads::KnownPayloads;
use crate::verify::positions::Positions;
use crate::verify::ranges::Range;
use crate::verify::snapshot::Snapshot;
use crate::verify::tables::report_unreadable;
use crate::verify::wakes::{LeaseRow, StoredWakeRows};

/// Looks at runs, and keeps what is looked at once all are known.
pub(crate) struct RunChecks<'c> {
    /// Reads the log.
    events: CachedStatement<'c>,
    pub(crate) snapshot: Snapshot<'c>,
    pub(crate) totals: Totals,
    /// The payloads of this range.
    pub(crate) payloads: KnownPayloads,
    /// Runs of this range that wait for children, which are looked at once these have been read: their ids are higher.
    parents: Vec<(Run, bool)>,
}

/// What is known of many runs together.
#[derive(Default)]
pub(crate) struct Totals {
    /// The events that are in the history of a run.
    pub(crate) visited: Positions,
    /// How many runs are found by their key.
    pub(crate) keys: u64,
    /// How many labels of runs lead to them.
    pub(crate) labels: u64,
    /// How many have a slot of each limit, and how many may.
    pub(crate) slots: BTreeMap<Arc<str>, (u32, u32)>,
    /// The targets of bulk actions that are under way, by what the runs remember.
    pub(crate) resumed: HashMap<BulkRef, RunId>,
    /// How many rows there are of each kind.
    pub(crate) rows: RowCounts,
    /// Whether there are wakeups or leases of no run.
    pub(crate) has_stray_wakes: bool,
    /// Whether there are errors of no run.
    pub(crate) has_stray_errors: bool,
    /// Whether there are states of no run.
    pub(crate) has_stray_snapshots: bool,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        let Totals {
            visited,
            keys,
            labels,
            slots,
            resumed,
            rows,
            has_stray_wakes,
            has_stray_errors,
            has_stray_snapshots,
        } = other;
        self.visited.add(visited);
        self.rows.append(rows);
        self.keys += keys;
        self.labels += labels;
        for (name, (taken, max)) in slots {
            let known = self.slots.entry(name).or_default();
            *known = (known.0 + taken, known.1.max(max));
        }
        self.resumed.extend(resumed);
        self.has_stray_wakes |= has_stray_wakes;
        self.has_stray_errors |= has_stray_errors;
        self.has_stray_snapshots |= has_stray_snapshots;
    }
}

/// What is kept of a run beside its history.
struct StoredRun {
    wakes: Vec<WakeRow>,
    leases: Vec<LeaseRow>,
    errors: Vec<StoredError>,
    open: Vec<StoredOpenError>,
    snapshot: Option<Result<RunSnapshot, String>>,
}

/// The row of a run.
struct RunRowState {
    id: RunId,
    flow: String,
    state: String,
    parent: Option<RunId>,
    head: u64,
    slot: Option<String>,
    is_local: bool,
    rests: Option<i64>,
    version: Option<i64>,
    summary: Option<String>,
}

impl<'c> RunChecks<'c> {
    pub(crate) fn new(snapshot: Snapshot<'c>) -> Result<RunChecks<'c>, StoreError> {
        Ok(RunChecks {
            events: Chain::statement(snapshot.connection)?,
            snapshot,
            totals: Totals::default(),
            payloads: KnownPayloads::default(),
            parents: Vec::new(),
        })
    }

    /// Checks the runs of a range, reading all their tables once in order of run.
    pub(crate) fn check_runs(
        &mut self,
        range: Range,
        ids: &[RunId],
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        let connection = self.snapshot.connection;
        let select = |columns: &str, table: &str, id: &str| {
            let sql = format!("SELECT {columns} FROM {table} WHERE {id} BETWEEN ?1 AND ?2 ORDER BY {id}");
            connection.prepare_cached(&sql).map_err(store_error)
        };
        let ends = || range.ends();
        let mut statement = select(WakeRow::COLUMNS, "wake", "run")?;
        let mut wakes = ByRun::new(statement.query(ends()).map_err(store_error)?, WakeRow::read)?;
        let mut statement = select(LeaseRow::COLUMNS, "lease", "run")?;
        let mut leases = ByRun::new(statement.query(ends()).map_err(store_error)?, LeaseRow::read)?;
        let mut statement = select(StoredError::COLUMNS, "error", "run")?;
        let mut errors = ByRun::new(statement.query(ends()).map_err(store_error)?, StoredError::read)?;
        let mut statement = select(StoredOpenError::COLUMNS, "open_error", "run")?;
        let mut open = ByRun::new(statement.query(ends()).map_err(store_error)?, StoredOpenError::read)?;

        let mut statement = select(run_snapshot::COLUMNS, "run_snapshot", "run")?;
        let mut snapshots = ByRun::new(statement.query(ends()).map_err(store_error)?, run_snapshot::read)?;

        let mut statement =
            select("id, flow, state, parent, head, slot, local, rests, version, summary", "run", "id")?;
        let mut found = ByRun::new(statement.query(ends()).map_err(store_error)?, read_row)?;
        for id in ids.iter().copied() {
            let row = found.take_rows(id).map(|rows| rows.into_iter().next());
            let mut kept = |row: &Option<RunRowState>| {
                // Only a run with a row has wakeups in rows, and a state.
                let wakes = if row.is_some() { wakes.take_rows(id)? } else { Vec::new() };
                let snapshot = if row.is_some() { snapshots.take_rows(id)?.pop().flatten() } else { None };
                let (leases, errors, open) =
                    (leases.take_rows(id)?, errors.take_rows(id)?, open.take_rows(id)?);
                Ok(StoredRun { wakes, leases, errors, open, snapshot })
            };
            match row.and_then(|row| Ok((kept(&row)?, row))) {
                Ok((kept, row)) => {
                    if let Some(row) = &row {
                        self.totals.rows.add_row(id, &row.state, row.parent.is_some(), &row.flow);
                    }
                    self.check_or_report(id, row.as_ref(), kept, report)?;
                }
                Err(error) if !error.is_transient() => {
                    report.runs += 1;
                    self.snapshot.broken.insert(id);
                    report.add(unreadable_finding(&id.to_string(), &error));
                }
                Err(error) => return Err(error),
            }
        }
        for (parent, by_user) in std::mem::take(&mut self.parents) {
            let mut findings = Vec::new();
            let result = self.check_movers(&parent, by_user, &mut findings);
            report_unreadable(&parent.id.to_string(), result, report)?;
            report.extend(findings);
        }
        self.totals.has_stray_wakes |= wakes.finish()? | leases.finish()?;
        self.totals.has_stray_errors |= errors.finish()? | open.finish()?;
        self.totals.has_stray_snapshots |= snapshots.finish()?;
        Ok(())
    }

    /// Checks a run; a row that cannot be read is a finding, and not the end of the check.
    fn check_or_report(
        &mut self,
        id: RunId,
        row: Option<&RunRowState>,
        kept: StoredRun,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        report.runs += 1;
        let (mut findings, mut of_summary) = (Vec::new(), None);
        let result = self.check_run(id, row, kept, report, (&mut findings, &mut of_summary));
        if findings.is_empty() {
            findings.extend(of_summary);
        }
        report.extend(findings);
        report_unreadable(&id.to_string(), result, report)
    }

    /// Replays the history of a run, and compares everything stored about it with the result.
    fn check_run(
        &mut self,
        id: RunId,
        row: Option<&RunRowState>,
        kept: StoredRun,
        report: &mut CheckReport,
        (findings, of_summary): (&mut Vec<Finding>, &mut Option<Finding>),
    ) -> Result<(), StoreError> {
        let row_head = row.map_or(0, |row| row.head);
        let head = self.snapshot.tail.get(&id).copied().unwrap_or(row_head);
        let chain = Chain::read(&mut self.events, id, head, row_head, Some(&mut self.totals.visited))?;
        report.events += chain.links.len() as u64;
        if let Some(break_) = chain.break_ {
            self.snapshot.broken.insert(id);
            let what = format!("{break_}: the run cannot be read");
            findings.push(Finding::new(Promise::History, id.to_string(), what, RESTORE));
            return Ok(());
        }
        if row.is_some() && !chain.links.iter().any(|link| link.pos == row_head) {
            let what = format!(
                "its row says that its history ends at event row {row_head}, which is not in its history"
            );
            findings.push(Finding::new(Promise::Row, id.to_string(), what, RESTORE));
        }
        let mut history = HistoryCheck::new(id);
        let mut wakes = match row {
            Some(row) => StoredWakeRows::of_rows(kept.wakes, row.slot.as_deref())?,
            None => StoredWakeRows::default(),
        };
        let mut kept_state = KeptState::new(id, kept.snapshot);
        let mut payloads = BTreeSet::new();
        let mut ended = EndedInError::default();
        for Link { pos, record } in chain.links {
            let record = match record {
                Ok(record) => record,
                Err(problem) => {
                    let place = format!("event row {pos} of {id}");
                    let what = format!("it cannot be read ({problem}), so the run cannot be read");
                    findings.push(Finding::new(Promise::History, place, what, RESTORE));
                    history.mark_unreadable();
                    continue;
                }
            };
            history.check_event(&record.event, findings);
            kept_state.compare(pos, history.run(), findings);
            ended.follow(&record.event, history.run(), pos > self.snapshot.errors_from);
            record.event.for_each_payload(|payload| {
                payloads.insert(payload);
            });
            if pos == row_head {
                self.compare_row(row, &history, findings);
                *of_summary = compare_summary(row, history.run());
            } else if let Some(changed) = record.wakes.filter(|_| pos > row_head) {
                wakes.change(changed);
            }
        }
        kept_state.finish(findings);
        wakes.move_leases(kept.leases);
        if history.run().is_some() {
            ended.compare(id, kept.errors, findings);
        }
        self.check_payloads(id, payloads, findings)?;
        self.check_state(history, &wakes, kept.open, findings)
    }

    /// Compares the row with what the history gives up to the event that the row covers.
    fn compare_row(&self, row: Option<&RunRowState>, history: &HistoryCheck, findings: &mut Vec<Finding>) {
        let (Some(row), Some(run)) = (row, history.run()) else { return };
        let mut differs = |what: &str, said: &dyn Display, is: &dyn Display| {
            let what = format!(
                "its row says that its {what} is {said}, but by its history it is {is}: it would be listed wrongly"
            );
            findings.push(Finding::new(Promise::Row, row.id.to_string(), what, RESTORE));
        };
        let state = run.state().word();
        if row.state != state {
            differs("state", &row.state, &state);
        }
        let parent = run.origin.parent();
        if row.parent != parent {
            let shown = |run: Option<RunId>| run.map_or("none".to_owned(), |run| run.to_string());
            differs("parent", &shown(row.parent), &shown(parent));
        }
        let rests = encode_rests(run.attention());
        // Rows from before this was kept do not say.
        if let Some(said) = row.rests.filter(|said| *said != rests) {
            differs("rest", &said, &rests);
        }
        let is_local = !run.local_attempts().is_empty();
        if row.is_local != is_local {
            let hands = |is_local: bool| if is_local { "local" } else { "not local" };
            differs("work", &hands(row.is_local), &hands(is_local));
        }
        if let Some(said) =
            row.version.map(|version| FlowId(unsigned(version))).filter(|said| *said != run.flow)
        {
            differs("version", &said, &run.flow);
        }
        // One that is damaged has a finding of its own.
        if let Some(version) = self.snapshot.flows.get(&run.flow)
            && version.flow.is_some()
            && *row.flow != *version.name
        {
            differs("flow", &row.flow, &version.name);
        }
    }

    /// Checks what must follow from the replayed state: wakeups, slot, open errors and what the run waits for.
    fn check_state(
        &mut self,
        history: HistoryCheck,
        wakes: &StoredWakeRows,
        open: Vec<StoredOpenError>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let Some(run) = history.run() else { return Ok(()) };
        let waits_for_children = self.snapshot.remember(run);
        let was_set_back = self.snapshot.was_set_back();
        let ahead = history.last_time().filter(|at| *at > self.snapshot.last_time && !was_set_back);
        if let Some(at) = ahead {
            let what = format!(
                "its last event is from {at}, but the store says that its last change was at {}: time would go back",
                self.snapshot.last_time
            );
            findings.push(Finding::new(Promise::Time, run.id.to_string(), what, RESTORE));
        }
        self.check_ids(run, findings);
        run.each_unit(|_, unit| self.totals.resumed.extend(unit.round.bulk.map(|target| (target, run.id))));
        self.totals.resumed.extend(run.bulk.map(|target| (target, run.id)));
        if let Slot::Taken(limit) = &run.slot {
            let (taken, max) = self.totals.slots.entry(limit.name.clone()).or_default();
            (*taken, *max) = (*taken + 1, limit.max.max(*max));
        }
        let flows = self.snapshot.flows;
        let Some(version) = flows.get(&run.flow) else {
            let what = format!("its flow version, {}, does not exist: the run cannot continue", run.flow);
            findings.push(Finding::new(Promise::Flow, run.id.to_string(), what, RESTORE));
            return Ok(());
        };
        match &version.flow {
            Some(flow) if flow.steps.len() == run.steps.len() => {
                wakes.compare(run, flow, findings);
                compare_open(self.snapshot.connection, run, flow, open, findings)?;
            }
            Some(flow) => {
                let (has, should) = (run.steps.len(), flow.steps.len());
                let what = format!(
                    "it has {has} steps, but its flow version has {should}: the flow version was changed"
                );
                findings.push(Finding::new(Promise::Flow, run.id.to_string(), what, RESTORE));
            }
            None => {}
        }
        self.check_key(run, &version.name, history.is_input_changed(), findings)?;
        self.check_labels(run, findings)?;
        let by_user = history.was_started_by_user();
        if !waits_for_children {
            return self.check_movers(run, by_user, findings);
        }
        self.parents.extend(history.into_run().map(|run| (run, by_user)));
        Ok(())
    }

    /// Checks that a run which is not final has something that will advance it.
    fn check_movers(
        &mut self,
        run: &Run,
        by_user: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let flows = self.snapshot.flows;
        match flows.get(&run.flow).and_then(|version| version.flow.as_ref()) {
            Some(flow) if flow.steps.len() == run.steps.len() => {
                movers::check_movers(run, flow, by_user, &mut self.snapshot, findings)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_ids(&self, run: &Run, findings: &mut Vec<Finding>) {
        let mut highest = run.id;
        run.each_unit(|_, unit| highest = highest.max(unit.child.unwrap_or(highest)));
        if highest.0 > self.snapshot.last_id {
            let what = format!("{highest} is above the last id of the store, so ids would be used twice");
            findings.push(Finding::new(Promise::Id, run.id.to_string(), what, RESTORE));
        }
    }

    /// A run with a key is found by it, and has the input whose digest it keeps, unless an operator has changed it.
    fn check_key(
        &mut self,
        run: &Run,
        flow: &str,
        is_input_changed: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let Some(key) = &run.key else { return Ok(()) };
        let connection = self.snapshot.connection;
        let mut add = |promise: Promise, what: String| {
            findings.push(Finding::new(promise, run.id.to_string(), what, RESTORE));
        };
        match run_key::find_run_of_key(connection, flow, key)? {
            Some(found) if found == run.id => self.totals.keys += 1,
            Some(found) => add(Promise::Key, format!("its key `{key}` in flow `{flow}` leads to {found}")),
            None => add(
                Promise::Key,
                format!("its key `{key}` in flow `{flow}` leads to no run: a start would start a second one"),
            ),
        }
        let Some(kept) = run.input_digest.as_ref().filter(|_| !is_input_changed) else { return Ok(()) };
        let is_same = match &run.input {
            Payload::Inline(json) => is_digest_of(kept, json.text()),
            // One that cannot be read has a finding of its own.
            Payload::Stored(id) => {
                payload::with_payload_text(connection, *id, |text| is_digest_of(kept, text))?.unwrap_or(true)
            }
        };
        if !is_same {
            add(Promise::Payload, "its input is not the input that it was started with".to_owned());
        }
        Ok(())
    }

    /// A run with labels is found by each of them.
    fn check_labels(&mut self, run: &Run, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        for (name, value) in run.labels.iter().flat_map(|labels| labels.iter()) {
            if run_label::has_label(self.snapshot.connection, run.id, name, value)? {
                self.totals.labels += 1;
            } else {
                let what =
                    format!("its label `{name}={value}` does not lead to it: lists by label leave it out");
                findings.push(Finding::new(Promise::Row, run.id.to_string(), what, RESTORE));
            }
        }
        Ok(())
    }

    /// Every payload that the history names is there.
    fn check_payloads(
        &self,
        run: RunId,
        payloads: BTreeSet<PayloadId>,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        for id in payloads {
            let is_there = match self.payloads.has(id) {
                Some(known) => known,
                None => payload::has_payload(self.snapshot.connection, id)?,
            };
            if !is_there {
                let what = format!("payload {id} is missing, an input, output or signal in its history");
                findings.push(Finding::new(Promise::Payload, run.to_string(), what, FORGET));
            }
        }
        Ok(())
    }
}

/// Compares the summary in the row with the replayed run. Any other fault makes it differ too, so the caller reports
/// it only if nothing else is wrong.
fn compare_summary(row: Option<&RunRowState>, run: Option<&Run>) -> Option<Finding> {
    let (row, run) = (row?, run?);
    // Rows from before this was kept do not say.
    let said = row.summary.as_ref()?;
    let mut buffer = Vec::new();
    let is = stored_summary::write_summary_text(&mut buffer, &RunSummary::of(run)).ok()?;
    let what = || {
        format!(
            "its row says that its summary is {said}, but by its history it is {is}: it would be listed wrongly"
        )
    };
    (*said != is).then(|| Finding::new(Promise::Row, row.id.to_string(), what(), RESTORE))
}

pub(crate) fn unreadable_finding(place: &str, error: &StoreError) -> Finding {
    let what = match error {
        StoreError::Broken(what) => what.clone(),
        other => other.to_string(),
    };
    Finding::new(Promise::File, place, format!("it cannot be read: {what}"), RESTORE)
}

fn read_row(row: &rusqlite::Row<'_>) -> Result<RunRowState, StoreError> {
    map_row(row).map_err(store_error)
}

fn map_row(row: &rusqlite::Row<'_>) -> Result<RunRowState, rusqlite::Error> {
    Ok(RunRowState {
        id: RunId(unsigned(row.get(0)?)),
        flow: row.get(1)?,
        state: row.get(2)?,
        parent: row.get::<_, Option<i64>>(3)?.map(|parent| RunId(unsigned(parent))),
        head: unsigned(row.get(4)?),
        slot: row.get(5)?,
        is_local: row.get(6)?,
        rests: row.get(7)?,
        version: row.get(8)?,
        summary: row.get(9)?,
    })
}
