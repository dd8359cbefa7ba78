//! The table `event`: the log, which is the truth; each row an event and the wakeups that follow from it.

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::{EventOnly, LogEntry, LogEntryRef, to_text_in};
use crate::pending_transaction::Entry;
use crate::stats::Written;
use crate::table::meta;
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use std::borrow::Borrow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_core::replay::replay_event;
use unstuck_store::contract::{Cursor, StoreError, TailPage};
use unstuck_store::verify::RESTORE;

/// A row of the log, which is what was written.
pub(crate) struct EventRow {
    pos: u64,
    run: RunId,
    prev: u64,
    record: LogEntry,
}

/// Reads a row of the log: position, run, the position before it, body and checksum.
pub(crate) fn read_event_row(row: &rusqlite::Row<'_>) -> Result<EventRow, StoreError> {
    let (pos, run, prev, body) = read_checked_event(row)?;
    let record = serde_json::from_str(body)
        .map_err(|error| broken_store(checksum::describe_damaged_event(pos, run, &error.to_string())))?;
    Ok(EventRow { pos, run, prev, record })
}

/// Reads a row of the log without parsing the body, and fails if its checksum does not match.
pub(crate) fn read_checked_event<'r>(
    row: &'r rusqlite::Row<'_>,
) -> Result<(u64, RunId, u64, &'r str), StoreError> {
    let number = |column: usize| row.get(column).map(unsigned).map_err(store_error);
    let (pos, run, prev) = (number(0)?, RunId(number(1)?), number(2)?);
    let damaged = |why: &str| broken_store(checksum::describe_damaged_event(pos, run, why));
    let body = row.get_ref(3).map_err(store_error)?;
    let body = body.as_str().map_err(|error| damaged(&error.to_string()))?;
    let kept: Option<i64> = row.get(4).map_err(store_error)?;
    if !checksum::is_sum_valid(kept, checksum::sum_event(pos, run, prev, body)) {
        return Err(damaged(checksum::WRONG_SUM));
    }
    Ok((pos, run, prev, body))
}

/// Reads the event of a row of the log, with its run and the position before it. What follows from the event is not parsed,
/// where a checksum says that it is whole.
pub(crate) fn read_event(row: &rusqlite::Row<'_>) -> Result<(RunId, u64, Event), StoreError> {
    let (pos, run, prev, body) = read_checked_event(row)?;
    let has_sum = row.get_ref(4).is_ok_and(|sum| sum != ValueRef::Null);
    let event = if has_sum {
        serde_json::from_str(body).map(|EventOnly { event }| event)
    } else {
        serde_json::from_str(body).map(|LogEntry { event, .. }| event)
    };
    let event = event
        .map_err(|error| broken_store(checksum::describe_damaged_event(pos, run, &error.to_string())))?;
    Ok((run, prev, event))
}

/// Loads the event at a position, with the position of the run's event before it.
pub(crate) fn load_event(connection: &Connection, pos: u64) -> Result<(Event, u64), StoreError> {
    let sql = "SELECT pos, run, prev, body, sum FROM event WHERE pos = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([number(pos)?]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else {
        return Err(broken_store(format!("event {pos} of the log is missing; {RESTORE}")));
    };
    read_event(row).map(|(_, prev, event)| (event, prev))
}

/// Lists the positions of events before this one, each with its run, the last first, at most `limit`.
pub(crate) fn list_events_before(
    connection: &Connection,
    before: u64,
    limit: usize,
) -> Result<Vec<(u64, RunId)>, StoreError> {
    let sql = "SELECT pos, run FROM event WHERE pos < ?1 ORDER BY pos DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows =
        statement.query_map([before, most], |row| Ok((unsigned(row.get(0)?), RunId(unsigned(row.get(1)?)))));
    rows.map_err(store_error)?.collect::<Result<_, _>>().map_err(store_error)
}

/// Whether there is a record at a position.
pub(crate) fn has_event(connection: &Connection, pos: u64) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM event WHERE pos = ?1").map_err(store_error)?;
    statement.exists([number(pos)?]).map_err(store_error)
}

/// Loads the events of a run up to `head` that come after number `after`, by following the links back from `head`.
pub(crate) fn load_history(connection: &Connection, head: u64, after: u64) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    let mut pos = head;
    while pos > 0 {
        let (event, prev) = load_event(connection, pos)?;
        if event.seq <= after {
            break;
        }
        events.push(event);
        pos = prev;
    }
    events.reverse();
    Ok(events)
}

/// Loads the events after the one at position `after` up to `head`; `None` if following the links back does not meet
/// `after`.
pub(crate) fn load_history_since(
    connection: &Connection,
    head: u64,
    after: u64,
) -> Result<Option<Vec<Event>>, StoreError> {
    let mut events = Vec::new();
    let mut pos = head;
    while pos > after {
        let (event, prev) = load_event(connection, pos)?;
        events.push(event);
        pos = prev;
    }
    events.reverse();
    Ok((pos == after).then_some(events))
}

/// Of so many events of a run one is marked with its position, so that a page begins near its end.
pub(crate) const MARKED: u64 = 64;

/// The events of a run after number `after`, in order, at most `limit`; `head` is the position of the last one.
pub(crate) fn load_history_page(
    connection: &Connection,
    run: RunId,
    head: u64,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    // Events lead back: the walk begins at the first mark at or after the end of the page.
    let last = i64::try_from(after.saturating_add(limit as u64)).unwrap_or(i64::MAX);
    let sql = "SELECT pos FROM event_mark WHERE run = ?1 AND seq >= ?2 AND pos <= ?3 ORDER BY seq LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mark = statement.query_row([number(run.0)?, last, number(head)?], |row| row.get(0));
    let start = mark.optional().map_err(store_error)?.map_or(head, unsigned);
    let mut events = load_history(connection, start, after)?;
    events.truncate(limit);
    Ok(events)
}

/// A run as replaying all of its history up to `head` gives it.
pub(crate) fn replay_to(connection: &Connection, id: RunId, head: u64) -> Result<Run, StoreError> {
    replay_all(id, load_history(connection, head, 0)?)
}

/// A run as these events, which are all of its history, give it.
pub(crate) fn replay_all(
    id: RunId,
    events: impl IntoIterator<Item: Borrow<Event>>,
) -> Result<Run, StoreError> {
    let mut run = None;
    for event in events {
        let event = event.borrow();
        replay_event(&mut run, event).map_err(|why| unsound_event(id, event.seq, &why))?;
    }
    let run = run.ok_or_else(|| broken_store(format!("{id} has no history; {RESTORE}")))?;
    if run.id == id {
        Ok(run)
    } else {
        Err(unsound_event(id, 1, &format!("it starts another run, {}", run.id)))
    }
}

/// Builds the error of an event that can be read but cannot follow the ones before it.
pub(crate) fn unsound_event(run: RunId, seq: u64, why: &str) -> StoreError {
    broken_store(format!(
        "event {seq} of {run} is damaged: {why}; {RESTORE}, or run `unstuck store check` to see all damage"
    ))
}

/// Calls `each` with every entry after a position that the row of its run does not cover: position, run, the run's
/// position before it, entry. Checksums of the others are verified too.
pub(crate) fn for_each_uncovered(
    connection: &Connection,
    after: u64,
    mut each: impl FnMut(u64, RunId, u64, LogEntry) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let sql = "SELECT event.pos, event.run, event.prev, event.body, event.sum, run.head
        FROM event LEFT JOIN run ON run.id = event.run WHERE event.pos > ?1 ORDER BY event.pos";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([number(after)?]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let head: Option<i64> = row.get(5).map_err(store_error)?;
        if head.is_some_and(|head| row.get(0).is_ok_and(|pos: i64| pos <= head)) {
            read_checked_event(row)?;
            continue;
        }
        let EventRow { pos, run, prev, record } = read_event_row(row)?;
        each(pos, run, prev, record)?;
    }
    Ok(())
}

/// Returns the highest position ever given, even if its event was forgotten since: positions are never given twice.
pub(crate) fn load_last_given_position(connection: &Connection) -> Result<u64, StoreError> {
    let given = |name: &str| Ok(meta::load_number(connection, name)?.map_or(0, unsigned));
    Ok(load_last_position(connection)?.max(given("flushed")?).max(given("end")?))
}

/// The end of what is durable, for tails.
pub(crate) fn load_end_cursor(connection: &Connection) -> Result<Cursor, StoreError> {
    Ok(Cursor::new(
        meta::load_store_number(connection)?,
        meta::load_epoch(connection)?,
        load_last_given_position(connection)?,
    ))
}

/// Loads the events after a position with their runs, at most `limit`, up to `end`.
pub(crate) fn load_tail_page(
    connection: &Connection,
    after: u64,
    end: &Cursor,
    limit: usize,
) -> Result<TailPage, StoreError> {
    let sql = "SELECT pos, run, prev, body, sum FROM event WHERE pos > ?1 ORDER BY pos LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query([number(after)?, most]).map_err(store_error)?;
    let (mut events, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next().map_err(store_error)? {
        let EventRow { pos, run, record, .. } = read_event_row(row)?;
        last = pos;
        events.push((run, record.event));
    }
    // The last events of all may have been forgotten.
    let position = if events.len() < limit { end.position() } else { last };
    Ok(TailPage { events, next: end.with_position(position), is_end: position == end.position() })
}

/// Returns the position of the last event in the table.
pub(crate) fn load_last_position(connection: &Connection) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT max(pos) FROM event").map_err(store_error)?;
    let last: Option<i64> = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
    Ok(last.map_or(0, unsigned))
}

/// Appends the events of a stage to the log.
pub(crate) fn append_events(
    transaction: &Transaction<'_>,
    entries: &[Entry],
    written: &mut Written,
) -> Result<(), StoreError> {
    let mut event =
        prepare(transaction, "INSERT INTO event (pos, run, prev, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut buffer = Vec::new();
    for Entry { pos, run, prev, event: happened, wakes } in entries {
        let body = to_text_in(&mut buffer, &LogEntryRef { event: happened, wakes: wakes.as_ref() })?;
        written.events.add(body.len());
        let sum = checksum::sum_event(*pos, *run, *prev, body);
        event
            .execute(params![number(*pos)?, number(run.0)?, number(*prev)?, body, sum])
            .map_err(store_error)?;
        if happened.seq.is_multiple_of(MARKED) {
            let mark = "INSERT INTO event_mark (run, seq, pos) VALUES (?1, ?2, ?3)";
            prepare(transaction, mark)?
                .execute([number(run.0)?, number(happened.seq)?, number(*pos)?])
                .map_err(store_error)?;
        }
    }
    Ok(())
}
