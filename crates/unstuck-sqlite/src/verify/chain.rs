//! The history of one run, from its last event back to its start.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Statement};
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::checksum;
use crate::error::store_error;
use crate::log_entry::{EventOnly, LogEntry};
use crate::table::number;
use crate::table::unsigned;
use crate::verify::positions::Positions;

/// A run's part of the log.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// In order.
    pub(crate) links: Vec<Link>,
    /// Why it does not lead to a start.
    pub(crate) break_: Option<String>,
}

/// One row of the log.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pos: u64,
    /// What it holds, or why that cannot be read.
    pub(crate) record: Result<LogEntry, String>,
}

impl Chain {
    /// Prepares the statement that [`Chain::read`] needs, once for many runs.
    pub(crate) fn statement(connection: &Connection) -> Result<CachedStatement<'_>, StoreError> {
        let sql = "SELECT run, prev, body, sum FROM event WHERE pos = ?1";
        connection.prepare_cached(sql).map_err(store_error)
    }

    /// Reads the history that ends at `head`. Positions that it passes are added to `visited`, where that is given: each
    /// belongs to one history. Of what has a checksum, and is covered by rows, as all up to `covered` is, only the event
    /// is read.
    pub(crate) fn read(
        statement: &mut Statement<'_>,
        run: RunId,
        head: u64,
        covered: u64,
        mut visited: Option<&mut Positions>,
    ) -> Result<Chain, StoreError> {
        let mut chain = Chain::default();
        let mut pos = head;
        while pos > 0 {
            let row = |row: &rusqlite::Row<'_>| {
                let (owner, prev) = (RunId(unsigned(row.get(0)?)), unsigned(row.get(1)?));
                let sum: Option<i64> = row.get(3)?;
                let body = match row.get_ref(2)?.as_str() {
                    Ok(body) if !checksum::is_sum_valid(sum, checksum::sum_event(pos, owner, prev, body)) => {
                        Err(checksum::WRONG_SUM.to_owned())
                    }
                    Ok(body) if sum.is_some() && pos <= covered => serde_json::from_str(body)
                        .map(|EventOnly { event }| LogEntry { event, wakes: None })
                        .map_err(|error| error.to_string()),
                    Ok(body) => serde_json::from_str(body).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                Ok((owner, prev, body))
            };
            let found = statement.query_row([number(pos)?], row).optional().map_err(store_error)?;
            let Some((owner, prev, record)) = found else {
                chain.break_ = Some(format!("event row {pos} of its history is missing"));
                break;
            };
            if owner != run {
                chain.break_ =
                    Some(format!("its history leads to event row {pos}, which belongs to {owner}"));
                break;
            }
            if visited.as_mut().is_some_and(|visited| !visited.insert(pos)) {
                chain.break_ = Some(format!("event row {pos} is in two histories"));
                break;
            }
            chain.links.push(Link { pos, record });
            if prev >= pos {
                chain.break_ = Some(format!("event row {pos} follows a later row, {prev}"));
                break;
            }
            pos = prev;
        }
        chain.links.reverse();
        Ok(chain)
    }
}
