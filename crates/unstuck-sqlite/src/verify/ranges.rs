//! The ids of runs and payloads in ranges of about as many runs each, so that several threads can share them.

use std::sync::{Mutex, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::table::number;
use crate::verify::tables::count_rows;

/// So many runs are in a range at most.
const MAX_RUNS: u64 = 2_000;
/// So many ranges there are where there are runs enough, so that all have something to do until the end.
const MIN_RANGES: u64 = 64;

/// Ids from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Range {
    /// Returns the bounds for SQL. Text and blobs sort after all numbers, so the last range has an open end.
    pub(crate) fn ends(self) -> [Value; 2] {
        let last = if self.last == i64::MAX { vec![0xff; 16].into() } else { self.last.into() };
        [self.first.into(), last]
    }
}

/// All ids, each in one range. Where a range ends is known once somebody takes it: nobody waits until all are made.
#[derive(Debug)]
pub(crate) struct Ranges<'a> {
    /// So many runs with rows are in a range at most, and so many others.
    size: u64,
    /// Runs that may have no rows, in order.
    others: &'a [RunId],
    next: Mutex<Next>,
    /// How many runs there are.
    pub(crate) runs: u64,
}

/// The range that comes next.
#[derive(Debug)]
struct Next {
    number: usize,
    /// `None` where there are no more.
    first: Option<i64>,
}

impl Ranges<'_> {
    /// Divides the runs with rows and `others`, which are sorted, into ranges.
    pub(crate) fn new<'a>(connection: &Connection, others: &'a [RunId]) -> Result<Ranges<'a>, StoreError> {
        let mut runs = count_rows(connection, "run")?;
        let mut row = connection.prepare("SELECT 1 FROM run WHERE id = ?1").map_err(store_error)?;
        for other in others {
            runs += u64::from(!row.exists([other.0.cast_signed()]).map_err(store_error)?);
        }
        let size = (runs / MIN_RANGES).clamp(1, MAX_RUNS);
        Ok(Ranges { size, others, next: Mutex::new(Next { number: 0, first: Some(i64::MIN) }), runs })
    }

    /// Takes the next range that no thread has taken, with its number.
    pub(crate) fn take(&self, connection: &Connection) -> Result<Option<(usize, Range)>, StoreError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = next.first else { return Ok(None) };
        let last = self.last_from(connection, first)?;
        let number = next.number;
        *next = Next { number: number + 1, first: last.checked_add(1) };
        Ok(Some((number, Range { first, last })))
    }

    /// Returns the last id of the range that begins at `first`.
    fn last_from(&self, connection: &Connection, first: i64) -> Result<i64, StoreError> {
        let sql = "SELECT id FROM run WHERE id >= ?1 ORDER BY id LIMIT 1 OFFSET ?2";
        let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
        let offset = number(self.size - 1)?;
        let row = statement.query_row([first, offset], |row| row.get(0)).optional().map_err(store_error)?;
        let before = self.others.partition_point(|run| run.0.cast_signed() < first);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let other = self.others.get(before.saturating_add(offset)).map(|run| run.0.cast_signed());
        Ok(row.unwrap_or(i64::MAX).min(other.unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_in_one_range_and_every_run_is_counted_once() {
        let ids = |from: u64, to: u64, step: usize| (from..to).step_by(step).map(RunId).collect::<Vec<_>>();
        let cases: [(u64, Vec<RunId>, u64); 7] = [
            (0, vec![], 0),
            (0, ids(1, 5_001, 1), 5_000),
            (9_000, vec![], 9_000),
            (300_000, vec![], 300_000),
            // Some have a row besides.
            (3_000, ids(2_901, 3_101, 1), 3_100),
            (3_000, ids(1, 3_001, 7), 3_000),
            (3_000, ids(5_000, 15_000, 2), 8_000),
        ];
        for (rows, others, runs) in cases {
            let connection = Connection::open_in_memory().expect("opens");
            let made = format!(
                "CREATE TABLE run (id INTEGER PRIMARY KEY); WITH RECURSIVE n(i) AS
                    (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) INSERT INTO run SELECT i FROM n WHERE {rows} > 0"
            );
            connection.execute_batch(&made).expect("made");
            let ranges = Ranges::new(&connection, &others).expect("reads");
            assert_eq!(ranges.runs, runs, "{rows} {}", others.len());
            let mut next = Some(i64::MIN);
            let mut number = 0;
            while let Some((taken, Range { first, last })) = ranges.take(&connection).expect("reads") {
                assert_eq!((taken, Some(first)), (number, next));
                let sql = "SELECT count(*) FROM run WHERE id BETWEEN ?1 AND ?2";
                let with_rows: u32 =
                    connection.query_row(sql, [first, last], |row| row.get(0)).expect("read");
                let within = |run: &&RunId| (first..=last).contains(&run.0.cast_signed());
                let without = others.iter().filter(within).count() as u64;
                assert!(u64::from(with_rows).max(without) <= (runs / MIN_RANGES).clamp(1, MAX_RUNS));
                (number, next) = (number + 1, last.checked_add(1));
            }
            assert_eq!(next, None);
            assert!(u64::try_from(number).expect("few") >= runs.min(MIN_RANGES), "{number}");
        }
    }
}
