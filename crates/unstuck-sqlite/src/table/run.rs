//! The table `run`: where the history of a run ends, for runs that have left memory or are behind in the log.

use crate::error::store_error;
use crate::info;
use crate::list_runs::encode_rests;
use crate::log_entry::{StoredSlot, from_text, to_text};
use crate::pending_transaction::{ReplacedWakes, Row};
use crate::stats::Written;
use crate::stored_summary;
use crate::table::number;
use crate::table::prepare;
use crate::table::run_count::CountChanges;
use crate::table::run_snapshot;
use crate::table::unsigned;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, params};
use std::sync::Arc;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, RunState};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::{Filtered, StoreError};

/// The row of a run.
pub(crate) struct RunRow {
    pub(crate) id: RunId,
    pub(crate) flow: Arc<str>,
    pub(crate) head: u64,
    pub(crate) state: RunState,
}

/// The row of a run with all that a list tells of it.
pub(crate) struct ListedRow {
    pub(crate) id: RunId,
    pub(crate) flow: Arc<str>,
    pub(crate) head: u64,
    state: RunState,
    parent: Option<RunId>,
    /// Which of `error` and `held` its steps are in, the version of its flow, and the rest of its summary; rows from before
    /// they were kept have none.
    rests: Option<i64>,
    version: Option<FlowId>,
    text: Option<String>,
}

impl ListedRow {
    /// Returns the fields that filters test; `None` for a row from before one of them was stored. The key has its own
    /// table.
    pub(crate) fn filtered(&self) -> Option<Filtered<'_>> {
        let (version, rests) = (self.version?, self.rests?);
        Some(Filtered {
            id: self.id,
            flow: &self.flow,
            version,
            key: None,
            state: self.state,
            attention: decode_rests(rests),
            parent: self.parent,
        })
    }

    /// Builds the summary from the columns; `None` for a row from before all of them were stored.
    pub(crate) fn summary(&self) -> Result<Option<RunSummary>, StoreError> {
        let (Some(flow), Some(rests), Some(text)) = (self.version, self.rests, &self.text) else {
            return Ok(None);
        };
        let known = RunSummary {
            id: self.id,
            flow,
            key: None,
            labels: None,
            generation: 0,
            seq: 0,
            state: self.state,
            attention: decode_rests(rests),
            parent: self.parent,
            is_failing: false,
            handler: None,
            home: None,
            has_work: false,
            needs_person: false,
            created_at: Time::default(),
            updated_at: Time::default(),
            cause: None,
            next_resume: None,
            has_acknowledged: false,
            open_steps: Vec::new(),
            workers: Vec::new(),
        };
        stored_summary::complete_summary(&known, text).map(Some)
    }
}

/// Reverses `encode_rests`.
fn decode_rests(rests: i64) -> Attention {
    Attention { error: rests & 1 != 0, held: rests & 2 != 0 }
}

/// The row of this run, if it has one, as lists read it.
pub(crate) fn load_listed_row(connection: &Connection, run: RunId) -> Result<Option<ListedRow>, StoreError> {
    let sql = "SELECT id, flow, head, state, parent, rests, version, summary FROM run WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(run.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let RunRow { id, flow, head, state } = read_run_row(row)?;
    let number = |column: usize| row.get::<_, Option<i64>>(column).map_err(store_error);
    Ok(Some(ListedRow {
        id,
        flow,
        head,
        state,
        parent: number(4)?.map(|parent| RunId(unsigned(parent))),
        rests: number(5)?,
        version: number(6)?.map(|version| FlowId(unsigned(version))),
        text: row.get(7).map_err(store_error)?,
    }))
}

/// Lists the children and handlers of a run that have rows.
pub(crate) fn list_children(connection: &Connection, parent: RunId) -> Result<Vec<RunId>, StoreError> {
    let sql = "SELECT id FROM run INDEXED BY run_parent WHERE parent = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([number(parent.0)?], |row| row.get(0)).map_err(store_error)?;
    rows.map(|id| id.map(|id| RunId(unsigned(id)))).collect::<Result<_, _>>().map_err(store_error)
}

/// The row of this run, if it has one.
pub(crate) fn load_run_row(connection: &Connection, run: RunId) -> Result<Option<RunRow>, StoreError> {
    let sql = "SELECT id, flow, head, state FROM run WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(run.0)?]).map_err(store_error)?;
    rows.next().map_err(store_error)?.map(read_run_row).transpose()
}

/// Loads the state in the row of a run, and the position of the last event that the row covers.
pub(crate) fn load_row_state(
    connection: &Connection,
    run: RunId,
) -> Result<Option<(u64, RunState)>, StoreError> {
    let sql = "SELECT head, state FROM run WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let row = statement.query_row([number(run.0)?], |row| Ok((row.get(0)?, row.get(1)?)));
    let row: Option<(i64, String)> = row.optional().map_err(store_error)?;
    row.map(|(head, state)| Ok((unsigned(head), info::parse_run_state(&state)?))).transpose()
}

/// Reads the columns id, flow, head and state.
pub(crate) fn read_run_row(row: &rusqlite::Row<'_>) -> Result<RunRow, StoreError> {
    let flow: String = row.get(1).map_err(store_error)?;
    let number = |column: usize| row.get(column).map(unsigned).map_err(store_error);
    let state = row.get_ref(3).map_err(store_error)?;
    let state = info::parse_run_state(state.as_str().unwrap_or_default())?;
    Ok(RunRow { id: RunId(number(0)?), flow: flow.into(), head: number(2)?, state })
}

/// Lists what runs with rows hold or want of limits, and since when they want it.
pub(crate) fn list_slots(
    connection: &Connection,
) -> Result<Vec<(RunId, StoredSlot, Option<Time>)>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, slot FROM run WHERE slot IS NOT NULL").map_err(store_error)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    let mut slots = Vec::new();
    for row in rows {
        let (run, slot): (i64, String) = row.map_err(store_error)?;
        let (slot, since) = from_text(&slot, "a slot")?;
        slots.push((RunId(unsigned(run)), slot, since));
    }
    Ok(slots)
}

/// Lists runs with rows in which an executor of this process had an attempt: these attempts are lost after a restart.
pub(crate) fn list_local_runs(connection: &Connection) -> Result<Vec<RunId>, StoreError> {
    let mut statement = connection.prepare("SELECT id FROM run WHERE local = 1").map_err(store_error)?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(store_error)?;
    rows.map(|id| id.map(|id| RunId(unsigned(id)))).collect::<Result<_, _>>().map_err(store_error)
}

/// Lists runs of this flow that are not final and whose rows do not say their version, with the last events that the
/// rows cover.
pub(crate) fn list_unversioned_open(
    connection: &Connection,
    flow: &str,
) -> Result<Vec<(RunId, u64)>, StoreError> {
    let sql =
        "SELECT id, head, state FROM run INDEXED BY run_unversioned WHERE flow = ?1 AND version IS NULL";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([flow]).map_err(store_error)?;
    let mut open = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let state = row.get_ref(2).map_err(store_error)?;
        if !info::parse_run_state(state.as_str().unwrap_or_default())?.is_final() {
            let number = |column: usize| row.get(column).map(unsigned).map_err(store_error);
            open.push((RunId(number(0)?), number(1)?));
        }
    }
    Ok(open)
}

/// Writes the row of a run.
pub(crate) const PUT_RUN: &str =
    "INSERT INTO run (id, flow, state, parent, head, slot, local, rests, version, summary)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, head = excluded.head, slot = excluded.slot,
    local = excluded.local, rests = excluded.rests, version = excluded.version, summary = excluded.summary";

/// Writes the rows of runs with their wakeups and snapshots; moves the counts with them.
pub(crate) fn write_rows(
    transaction: &Transaction<'_>,
    rows: &[Row],
    written: &mut Written,
    counts: &mut CountChanges,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut statements = RowStatements {
        put: prepare(transaction, PUT_RUN)?,
        delete_wakes: prepare(transaction, "DELETE FROM wake WHERE run = ?1")?,
        insert_wake: prepare(transaction, INSERT_WAKE)?,
        buffer: Vec::new(),
    };
    rows.iter().try_for_each(|row| write_row(transaction, &mut statements, row, written, counts))
}

/// What is used for each of many rows: to look a statement up costs as much as a small one.
struct RowStatements<'t> {
    put: CachedStatement<'t>,
    delete_wakes: CachedStatement<'t>,
    insert_wake: CachedStatement<'t>,
    buffer: Vec<u8>,
}

const INSERT_WAKE: &str =
    "INSERT INTO wake (run, step, item, due, planned, heard, ready) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Writes the row of a run with its wakeups and, if there is one, its snapshot; moves the counts with it.
fn write_row(
    transaction: &Transaction<'_>,
    statements: &mut RowStatements<'_>,
    row: &Row,
    written: &mut Written,
    counts: &mut CountChanges,
) -> Result<(), StoreError> {
    let RunSummary { state, parent, attention, flow: version, .. } = row.summary;
    for (state, by) in [(row.before, -1), (Some(state), 1)] {
        if let Some(state) = state {
            counts.add(row.run, state, parent.is_some(), &row.flow, by);
        }
    }
    let parent = parent.map(|parent| number(parent.0)).transpose()?;
    let summary = stored_summary::write_summary_text(&mut statements.buffer, &row.summary)?;
    let slot = row.slot.as_ref().map(to_text).transpose()?;
    statements
        .put
        .execute(params![
            number(row.run.0)?,
            &*row.flow,
            state.word(),
            parent,
            number(row.head)?,
            slot,
            row.is_local,
            encode_rests(attention),
            number(version.0)?,
            summary,
        ])
        .map_err(store_error)?;
    written.runs.add(row.flow.len() + state.word().len() + summary.len());
    if let Some(body) = &row.snapshot {
        run_snapshot::write(transaction, row.run, row.head, body, written)?;
    }
    write_wakes(transaction, statements, row, written)
}

/// Replaces the wakeups of a run: all of them, or those of the units that changed.
fn write_wakes(
    transaction: &Transaction<'_>,
    statements: &mut RowStatements<'_>,
    row: &Row,
    written: &mut Written,
) -> Result<(), StoreError> {
    let run = number(row.run.0)?;
    match &row.replaced {
        ReplacedWakes::All { wakes, leases } => {
            if *wakes {
                statements.delete_wakes.execute([run]).map_err(store_error)?;
            }
            if *leases {
                let sql = "DELETE FROM lease WHERE run = ?1";
                prepare(transaction, sql)?.execute([run]).map_err(store_error)?;
            }
        }
        ReplacedWakes::Of(places) => {
            for sql in [
                "DELETE FROM wake WHERE run = ?1 AND step = ?2 AND item = ?3",
                "DELETE FROM lease WHERE run = ?1 AND step = ?2 AND item = ?3",
            ] {
                let mut delete = prepare(transaction, sql)?;
                for (step, item) in places {
                    delete.execute([run, *step, *item]).map_err(store_error)?;
                }
            }
        }
    }
    for wake in &row.wakes {
        let ready = wake.ready.as_ref().map(to_text).transpose()?;
        written.wakes.add(ready.as_ref().map_or(0, String::len));
        let due = wake.timer.map(|timer| timer.due.0);
        let planned = wake.timer.map(|timer| timer.set.0);
        let heard = wake.timer.and_then(|timer| timer.heard).map(|heard| heard.0);
        statements
            .insert_wake
            .execute(params![run, wake.step, wake.item, due, planned, heard, ready])
            .map_err(store_error)?;
    }
    Ok(())
}
