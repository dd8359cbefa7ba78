//! Schedules in the file: one row for each flow that is started by the clock.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::schedule::Schedule;
use unstuck_core::thing::{Thing, ThingBody};
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::log_entry::{from_text, to_text};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;

/// Writes the schedules of a stage; those that are removed have no row.
pub(crate) fn write_schedules(transaction: &Transaction<'_>, things: &[Thing]) -> Result<(), StoreError> {
    for thing in things {
        let ThingBody::Schedule(schedule) = &thing.body else { continue };
        let id = number(schedule.id.0)?;
        if schedule.is_removed {
            prepare(transaction, "DELETE FROM schedule WHERE id = ?1")?.execute([id]).map_err(store_error)?;
            continue;
        }
        let sql = "INSERT INTO schedule (id, flow, version, body) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (id) DO UPDATE SET version = ?3, body = ?4";
        prepare(transaction, sql)?
            .execute(params![id, &*schedule.flow, number(thing.version)?, to_text(schedule)?])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Lists all schedules as things, in order of the names of their flows.
pub(crate) fn list_schedules(connection: &Connection) -> Result<Vec<Thing>, StoreError> {
    let sql = "SELECT version, body FROM schedule ORDER BY flow";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([], |row| Ok((unsigned(row.get(0)?), row.get::<_, String>(1)?)));
    let thing = |row: rusqlite::Result<(u64, String)>| {
        let (version, body) = row.map_err(store_error)?;
        let schedule: Schedule = from_text(&body, "a schedule")?;
        Ok(Thing { version, body: ThingBody::Schedule(Box::new(schedule)) })
    };
    rows.map_err(store_error)?.map(thing).collect()
}
