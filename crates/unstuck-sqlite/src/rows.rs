//! Reading the tables.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::decide::LeaseMove;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Event;
use unstuck_core::id::{FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::flow::StepIx;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::replay::replay_event;
use unstuck_core::time::Time;
use unstuck_core::wakeup::Ready;
use unstuck_store::audit::RESTORE;
use unstuck_store::contract::{FlowRecord, Life, NoticeId, StoreError};
use unstuck_store::timers::Timer;

use crate::bulks;
use crate::claim::Claim;
use crate::error::{broken, store_error};
use crate::record::{KeptSlot, Record, read, text};
use crate::sums;
use crate::whose;
use crate::writer::number;

/// The row of a run.
pub(crate) struct RunRow {
    pub(crate) id: RunId,
    pub(crate) flow: Arc<str>,
    pub(crate) head: u64,
}

/// A wakeup of a parked run.
pub(crate) struct WakeRow {
    pub(crate) run: RunId,
    pub(crate) unit: Option<UnitRef>,
    pub(crate) timer: Option<Timer>,
    pub(crate) ready: Option<Ready>,
}

impl WakeRow {
    pub(crate) const COLUMNS: &str = "run, step, item, due, planned, heard, ready";

    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<WakeRow, StoreError> {
        let run = RunId(unsigned(row.get(0).map_err(store_error)?));
        let unit = unit(row.get(1).map_err(store_error)?, row.get(2).map_err(store_error)?);
        let time = |place: usize| row.get::<_, Option<i64>>(place).map_err(store_error);
        let (due, set, heard) = (time(3)?, time(4)?, time(5)?.map(Time));
        let timer = due.zip(set).map(|(due, set)| Timer { due: Time(due), set: Time(set), heard });
        let ready = row.get_ref(6).map_err(store_error)?;
        let ready = ready.as_str_or_null().map_err(|error| broken(error.to_string()))?;
        let ready = ready.map(|ready| read(ready, "a queue entry")).transpose()?;
        Ok(WakeRow { run, unit, timer, ready })
    }
}

/// While this is kept, all that is read is of one moment, and SQLite takes and gives back its locks once and not with every
/// query. `None` where that is so already.
pub(crate) fn snapshot(connection: &Connection) -> Result<Option<Transaction<'_>>, StoreError> {
    connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose().map_err(store_error)
}

/// The row of this run, if it has one.
pub(crate) fn run_row(connection: &Connection, run: RunId) -> Result<Option<RunRow>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, flow, head FROM run WHERE id = ?1").map_err(store_error)?;
    statement.query_row([number(run.0)?], to_run_row).optional().map_err(store_error)
}

pub(crate) fn to_run_row(row: &rusqlite::Row<'_>) -> Result<RunRow, rusqlite::Error> {
    let flow: String = row.get(1)?;
    Ok(RunRow { id: RunId(unsigned(row.get(0)?)), flow: flow.into(), head: unsigned(row.get(2)?) })
}

/// The record at a position, with the position of the run's record before it.
pub(crate) fn record(connection: &Connection, pos: u64) -> Result<(Record, u64), StoreError> {
    let sql = "SELECT pos, run, prev, body, sum FROM event WHERE pos = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(pos)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else {
        return Err(broken(format!("event {pos} of the log is missing; {RESTORE}")));
    };
    let EventRow { prev, record, .. } = event_row(row)?;
    Ok((record, prev))
}

/// A row of the log, which is what was written.
struct EventRow {
    pos: u64,
    run: RunId,
    prev: u64,
    record: Record,
}

/// Reads a row of the log: position, run, the position before it, body and checksum.
fn event_row(row: &rusqlite::Row<'_>) -> Result<EventRow, StoreError> {
    let (pos, run, prev, body) = checked_event(row)?;
    let record = serde_json::from_str(body)
        .map_err(|error| broken(sums::damaged_event(pos, run, &error.to_string())))?;
    Ok(EventRow { pos, run, prev, record })
}

/// The same, with the body as it is in the file. Its checksum fits, if it has one.
fn checked_event<'r>(row: &'r rusqlite::Row<'_>) -> Result<(u64, RunId, u64, &'r str), StoreError> {
    let number = |column: usize| row.get(column).map(unsigned).map_err(store_error);
    let (pos, run, prev) = (number(0)?, RunId(number(1)?), number(2)?);
    let damaged = |why: &str| broken(sums::damaged_event(pos, run, why));
    let body = row.get_ref(3).map_err(store_error)?;
    let body = body.as_str().map_err(|error| damaged(&error.to_string()))?;
    let kept: Option<i64> = row.get(4).map_err(store_error)?;
    if !sums::fits(kept, sums::of_event(pos, run, prev, body)) {
        return Err(damaged(sums::WRONG_SUM));
    }
    Ok((pos, run, prev, body))
}

/// The events of a run up to `head`, those after number `after`, in order.
pub(crate) fn history(connection: &Connection, head: u64, after: u64) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    let mut pos = head;
    while pos > 0 {
        let (record, prev) = record(connection, pos)?;
        if record.event.seq <= after {
            break;
        }
        events.push(record.event);
        pos = prev;
    }
    events.reverse();
    Ok(events)
}

/// A run as its history up to `head` gives it.
pub(crate) fn run_at(connection: &Connection, id: RunId, head: u64) -> Result<Run, StoreError> {
    let mut run = None;
    for event in history(connection, head, 0)? {
        replay_event(&mut run, &event).map_err(|why| unsound(id, event.seq, &why))?;
    }
    let run = run.ok_or_else(|| broken(format!("{id} has no history; {RESTORE}")))?;
    if run.id == id { Ok(run) } else { Err(unsound(id, 1, &format!("it starts another run, {}", run.id))) }
}

/// An event can be read, and makes no sense where it stands.
pub(crate) fn unsound(run: RunId, seq: u64, why: &str) -> StoreError {
    broken(format!(
        "event {seq} of {run} is damaged: {why}; {RESTORE}, or run `unstuck store check` to see all damage"
    ))
}

/// Calls `each` with every record after a position that the row of its run does not cover: position, run, the position
/// before it, record.
pub(crate) fn tail(
    connection: &Connection,
    after: u64,
    mut each: impl FnMut(u64, RunId, u64, Record) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let sql = "SELECT event.pos, event.run, event.prev, event.body, event.sum, run.head
        FROM event LEFT JOIN run ON run.id = event.run WHERE event.pos > ?1 ORDER BY event.pos";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([number(after)?]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let head: Option<i64> = row.get(5).map_err(store_error)?;
        if head.is_some_and(|head| row.get(0).is_ok_and(|pos: i64| pos <= head)) {
            checked_event(row)?;
            continue;
        }
        let EventRow { pos, run, prev, record } = event_row(row)?;
        each(pos, run, prev, record)?;
    }
    Ok(())
}

/// The end of the log.
pub(crate) fn last_position(connection: &Connection) -> Result<u64, StoreError> {
    let last: Option<i64> =
        connection.query_row("SELECT max(pos) FROM event", [], |row| row.get(0)).map_err(store_error)?;
    Ok(last.map_or(0, unsigned))
}

/// Every wakeup of parked runs, or of this one.
pub(crate) fn wakes(
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

/// The unit that a row names.
pub(crate) fn unit(step: i64, item: i64) -> Option<UnitRef> {
    u16::try_from(step).ok().map(|step| UnitRef { step: StepIx(step), item: u32::try_from(item).ok() })
}

/// Every lease that a sign of life has moved, with what it was planned to be.
pub(crate) fn leases(connection: &Connection) -> Result<Vec<(RunId, LeaseMove, Time)>, StoreError> {
    let sql = "SELECT run, step, item, due, planned, heard FROM lease";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let number = |place: usize| row.get::<_, i64>(place).map_err(store_error);
        if let Some(unit) = unit(number(1)?, number(2)?) {
            let lease = LeaseMove { unit, due: Time(number(3)?), heard: Time(number(5)?) };
            leases.push((RunId(unsigned(number(0)?)), lease, Time(number(4)?)));
        }
    }
    Ok(leases)
}

/// What runs with rows have or want of their limits, and since when.
pub(crate) fn slots(connection: &Connection) -> Result<Vec<(RunId, KeptSlot, Option<Time>)>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, slot FROM run WHERE slot IS NOT NULL").map_err(store_error)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    let mut slots = Vec::new();
    for row in rows {
        let (run, slot): (i64, String) = row.map_err(store_error)?;
        let (slot, since) = read(&slot, "a slot")?;
        slots.push((RunId(unsigned(run)), slot, since));
    }
    Ok(slots)
}

/// Runs with rows that an executor of this process had an attempt of.
pub(crate) fn local_runs(connection: &Connection) -> Result<Vec<RunId>, StoreError> {
    let mut statement = connection.prepare("SELECT id FROM run WHERE local = 1").map_err(store_error)?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(store_error)?;
    rows.map(|id| id.map(|id| RunId(unsigned(id)))).collect::<Result<_, _>>().map_err(store_error)
}

/// The run of a key.
pub(crate) fn run_of_key(
    connection: &Connection,
    flow: &str,
    key: &str,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM run_key WHERE flow = ?1 AND key = ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let run: Option<i64> =
        statement.query_row([flow, key], |row| row.get(0)).optional().map_err(store_error)?;
    Ok(run.map(|run| RunId(unsigned(run))))
}

/// Whether this payload is kept, whatever it says.
pub(crate) fn has_payload(connection: &Connection, id: PayloadId) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM payload WHERE id = ?1").map_err(store_error)?;
    statement.exists([number(id.0)?]).map_err(store_error)
}

/// A payload. One that is damaged is told with what it is to its run; nothing else is harmed by it.
pub(crate) fn payload(connection: &Connection, id: PayloadId) -> Result<Option<Json>, StoreError> {
    let sql = "SELECT run, body, sum FROM payload WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(id.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let run = RunId(unsigned(row.get(0).map_err(store_error)?));
    let kept: Option<i64> = row.get(2).map_err(store_error)?;
    let read = match row.get_ref(1).map_err(store_error)?.as_str() {
        Ok(body) if !sums::fits(kept, sums::of_payload(id, run, body)) => Err(sums::WRONG_SUM.to_owned()),
        Ok(body) => Json::parse(body).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let damaged = |why: String| {
        let what = whose::payload(connection, run, id);
        StoreError::Damaged(sums::damaged_payload(id, run, what.as_deref(), &why))
    };
    read.map(Some).map_err(damaged)
}

/// What somebody makes of the text of a payload; `None` where there is no such payload, or it is damaged.
pub(crate) fn payload_text<T>(
    connection: &Connection,
    id: PayloadId,
    look: impl FnOnce(&str) -> T,
) -> Result<Option<T>, StoreError> {
    let sql = "SELECT run, body, sum FROM payload WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(id.0)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let run = RunId(unsigned(row.get(0).map_err(store_error)?));
    let kept: Option<i64> = row.get(2).map_err(store_error)?;
    let body = row.get_ref(1).map_err(store_error)?;
    let is_whole = |body: &&str| match kept {
        Some(_) => sums::fits(kept, sums::of_payload(id, run, body)),
        None => Json::parse(body).is_ok(),
    };
    Ok(body.as_str().ok().filter(is_whole).map(look))
}

/// Every undelivered notice.
pub(crate) fn notices(connection: &Connection) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
    let mut statement =
        connection.prepare("SELECT id, body, sum FROM notice ORDER BY id").map_err(store_error)?;
    let rows = statement
        .query_map([], |row| Ok((unsigned(row.get(0)?), row.get(1)?, row.get(2)?)))
        .map_err(store_error)?;
    let mut notices = Vec::new();
    for row in rows {
        let (id, body, kept): (u64, String, Option<i64>) = row.map_err(store_error)?;
        if !sums::fits(kept, sums::sum(&[id], &[&body])) {
            return Err(broken(format!("notice {id} is damaged: {}; {RESTORE}", sums::WRONG_SUM)));
        }
        notices.push((NoticeId(id), read(&body, "a notice")?));
    }
    Ok(notices)
}

/// Every flow version, in the order in which they were kept.
pub(crate) fn flows(connection: &Connection) -> Result<Vec<FlowRecord>, StoreError> {
    let damaged = |(flow, why): (FlowRecord, Option<String>)| match why {
        None => Ok(flow),
        Some(why) => {
            let FlowRecord { name, version, .. } = flow;
            Err(broken(format!("version {version} of flow `{name}` is damaged: {why}; {RESTORE}")))
        }
    };
    flow_rows(connection)?.into_iter().map(damaged).collect()
}

/// Every flow version, in the order in which they were kept, with what is wrong with its row.
pub(crate) fn flow_rows(connection: &Connection) -> Result<Vec<(FlowRecord, Option<String>)>, StoreError> {
    let sql = "SELECT id, name, version, source, directory, steps, sum FROM flow ORDER BY id";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut flows = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = FlowId(unsigned(row.get(0).map_err(store_error)?));
        let text = |column: usize| row.get::<_, String>(column).map(Arc::<str>::from).map_err(store_error);
        let kept: Option<String> = row.get(5).map_err(store_error)?;
        let (steps, mut why) = match kept.as_deref().map(serde_json::from_str).transpose() {
            Ok(steps) => (steps, None),
            Err(error) => (None, Some(format!("the order of its steps cannot be read: {error}"))),
        };
        let (name, version, source, directory) = (text(1)?, text(2)?, text(3)?, text(4)?);
        let flow = FlowRecord { id, name, version, source, directory, steps };
        if !sums::fits(row.get(6).map_err(store_error)?, flow_sum(&flow, kept.as_deref())) {
            why = Some(sums::WRONG_SUM.to_owned());
        }
        flows.push((flow, why));
    }
    Ok(flows)
}

fn flow_sum(flow: &FlowRecord, steps: Option<&str>) -> i32 {
    let FlowRecord { id, name, version, source, directory, .. } = flow;
    sums::sum(&[id.0], &[name, version, source, directory, steps.unwrap_or_default()])
}

/// Keeps a flow version, or its new folder and the order of its steps.
pub(crate) fn put_flow(
    connection: &mut Connection,
    claim: &Claim,
    flow: &FlowRecord,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO flow (id, name, version, source, directory, steps, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (id) DO UPDATE SET directory = excluded.directory, steps = excluded.steps, sum = excluded.sum";
    let FlowRecord { id, name, version, source, directory, steps } = flow;
    let steps = steps.as_ref().map(text).transpose()?;
    let sum = flow_sum(flow, steps.as_deref());
    let transaction = claim.begin(connection)?;
    transaction
        .execute(sql, params![number(id.0)?, &**name, &**version, &**source, &**directory, steps, sum])
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)
}

/// A number of `meta`.
pub(crate) fn meta(connection: &Connection, name: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    connection.query_row(sql, [name], |row| row.get(0)).optional().map_err(store_error)
}

/// When engines could not take answers lately.
pub(crate) fn downtimes(connection: &Connection) -> Result<Vec<Downtime>, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'downtimes'";
    let kept: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    kept.map_or(Ok(Vec::new()), |kept| read(&kept, "the list of downtimes"))
}

/// How the clock was set.
pub(crate) fn clock(connection: &Connection) -> Result<ClockRecord, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'clock'";
    let kept: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    kept.map_or(Ok(ClockRecord::default()), |kept| read(&kept, "what the clock was set by"))
}

/// A new life begins: its key is made once, its incarnation counted.
pub(crate) fn begin_life(
    connection: &mut Connection,
    claim: &Claim,
    fresh_key: [u8; 32],
) -> Result<Life, StoreError> {
    let transaction = claim.begin(connection)?;
    bulks::drop_drafts(&transaction)?;
    let put = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let key = "SELECT value FROM meta WHERE name = 'token_key'";
    let known: Option<Vec<u8>> =
        transaction.query_row(key, [], |row| row.get(0)).optional().map_err(store_error)?;
    let token_key = if let Some(known) = known {
        known.try_into().map_err(|_| broken("the key of its tokens is damaged"))?
    } else {
        transaction.execute(put, params!["token_key", fresh_key]).map_err(store_error)?;
        fresh_key
    };
    let epoch = meta(&transaction, "epoch")?.unwrap_or(1);
    let incarnation = meta(&transaction, "incarnation")?.unwrap_or(0) + 1;
    transaction.execute(put, params!["epoch", epoch]).map_err(store_error)?;
    transaction.execute(put, params!["incarnation", incarnation]).map_err(store_error)?;
    transaction.commit().map_err(store_error)?;
    let epoch = u32::try_from(epoch).map_err(|_| broken("its epoch is damaged"))?;
    Ok(Life { epoch, token_key, incarnation: unsigned(incarnation) })
}

/// Whether the open errors of a run are known.
pub(crate) fn is_examined(connection: &Connection, run: RunId) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM unexamined WHERE run = ?1").map_err(store_error)?;
    statement.exists([number(run.0)?]).map(|is_unexamined| !is_unexamined).map_err(store_error)
}

/// What was kept as a signed number.
pub(crate) fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}
