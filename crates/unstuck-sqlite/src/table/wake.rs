//! The table `wake`: what will wake a parked run.

use crate::error::{broken_store, store_error};
use crate::log_entry::from_text;
use crate::table::number;
use crate::table::unsigned;
use rusqlite::Connection;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;
use unstuck_store::contract::StoreError;
use unstuck_store::timers::Timer;

/// A wakeup of a parked run.
pub(crate) struct WakeRow {
    pub(crate) run: RunId,
    pub(crate) unit: Option<UnitRef>,
    pub(crate) timer: Option<Timer>,
    pub(crate) ready: Option<ReadyAttempt>,
}

impl WakeRow {
    pub(crate) const COLUMNS: &str = "run, step, item, due, planned, heard, ready";

    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<WakeRow, StoreError> {
        let run = RunId(unsigned(row.get(0).map_err(store_error)?));
        let unit = unit_from_columns(row.get(1).map_err(store_error)?, row.get(2).map_err(store_error)?);
        let time = |place: usize| row.get::<_, Option<i64>>(place).map_err(store_error);
        let (due, set, heard) = (time(3)?, time(4)?, time(5)?.map(Time));
        let timer = due.zip(set).map(|(due, set)| Timer { due: Time(due), set: Time(set), heard });
        let ready = row.get_ref(6).map_err(store_error)?;
        let ready = ready.as_str_or_null().map_err(|error| broken_store(error.to_string()))?;
        let ready = ready.map(|ready| from_text(ready, "a queue entry")).transpose()?;
        Ok(WakeRow { run, unit, timer, ready })
    }
}

/// Calls `each` with the wakeups of all parked runs, or of one.
pub(crate) fn for_each_wake(
    connection: &Connection,
    only: Option<RunId>,
    mut each: impl FnMut(WakeRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut sql = format!("SELECT {} FROM wake", WakeRow::COLUMNS);
    if only.is_some() {
        sql.push_str(" WHERE run = ?1");
    }
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let only = only.map(|run| number(run.0)).transpose()?;
    let mut rows = statement.query(rusqlite::params_from_iter(only)).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        each(WakeRow::read(row)?)?;
    }
    Ok(())
}

/// Lists the wakeups of a parked run.
pub(crate) fn list_wakes(connection: &Connection, run: RunId) -> Result<Vec<WakeRow>, StoreError> {
    let mut wakes = Vec::new();
    for_each_wake(connection, Some(run), |wake| {
        wakes.push(wake);
        Ok(())
    })?;
    Ok(wakes)
}

/// Calls `each` with the timers of parked runs, the earliest first, until it returns false.
pub(crate) fn for_each_timer(
    connection: &Connection,
    mut each: impl FnMut(Time, RunId) -> bool,
) -> Result<(), StoreError> {
    let sql = "SELECT due, run FROM wake WHERE due IS NOT NULL ORDER BY due, run";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let due = Time(row.get(0).map_err(store_error)?);
        if !each(due, RunId(unsigned(row.get(1).map_err(store_error)?))) {
            return Ok(());
        }
    }
    Ok(())
}

/// Lists the timers of parked runs after this one, the earliest first, each run once at each time, at most `limit`.
pub(crate) fn list_timers_after(
    connection: &Connection,
    after: Option<(Time, RunId)>,
    limit: usize,
) -> Result<Vec<(Time, RunId)>, StoreError> {
    let sql = "SELECT DISTINCT due, run FROM wake INDEXED BY wake_due
        WHERE due IS NOT NULL AND (due, run) > (?1, ?2) ORDER BY due, run LIMIT ?3";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let (due, run) = after.map_or((i64::MIN, RunId(0)), |(due, run)| (due.0, run));
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map([due, number(run.0)?, most], |row| Ok((Time(row.get(0)?), RunId(unsigned(row.get(1)?)))));
    rows.map_err(store_error)?.collect::<Result<_, _>>().map_err(store_error)
}

/// Reverses `unit_columns`.
pub(crate) fn unit_from_columns(step: i64, item: i64) -> Option<UnitRef> {
    u16::try_from(step).ok().map(|step| UnitRef { step: StepIndex(step), item: u32::try_from(item).ok() })
}
