//! The ids of runs and payloads in ranges of about as many runs each, so that several threads can share them.

use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;
use rusqlite::types::Value;
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::table::unsigned;

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
    /// What a column is compared with. What is no number at all is after the last number.
    pub(crate) fn ends(self) -> [Value; 2] {
        let last = if self.last == i64::MAX { vec![0xff; 16].into() } else { self.last.into() };
        [self.first.into(), last]
    }
}

/// All ids, each in one range.
#[derive(Debug)]
pub(crate) struct Ranges {
    list: Vec<Range>,
    next: AtomicUsize,
    /// How many runs there are.
    pub(crate) runs: u64,
}

impl Ranges {
    /// Ranges for the runs with rows and these others, which are in order.
    pub(crate) fn new(connection: &Connection, others: &[RunId]) -> Result<Ranges, StoreError> {
        let count: i64 =
            connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).map_err(store_error)?;
        let size = ((unsigned(count) + others.len() as u64) / MIN_RANGES).clamp(1, MAX_RUNS);
        let mut statement = connection.prepare("SELECT id FROM run ORDER BY id").map_err(store_error)?;
        let mut rows = statement.query([]).map_err(store_error)?;
        let mut others = others.iter().map(|run| run.0.cast_signed()).peekable();
        let mut ranges = Ranges { list: Vec::new(), next: AtomicUsize::new(0), runs: 0 };
        let mut first = i64::MIN;
        let mut count = |id: i64| {
            ranges.runs += 1;
            if ranges.runs.is_multiple_of(size) {
                ranges.list.push(Range { first, last: id });
                first = id.saturating_add(1);
            }
        };
        while let Some(row) = rows.next().map_err(store_error)? {
            let id = row.get(0).map_err(store_error)?;
            while let Some(other) = others.next_if(|other| *other <= id) {
                if other < id {
                    count(other);
                }
            }
            count(id);
        }
        others.for_each(&mut count);
        ranges.list.push(Range { first, last: i64::MAX });
        Ok(ranges)
    }

    /// The next that nobody has taken, with its number.
    pub(crate) fn take(&self) -> Option<(usize, Range)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.list.get(number).map(|range| (number, *range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_in_one_range_and_every_run_is_counted_once() {
        let ids = |from: u64, to: u64, step: usize| (from..to).step_by(step).map(RunId).collect::<Vec<_>>();
        let cases: [(u64, Vec<RunId>, u64); 6] = [
            (0, vec![], 0),
            (0, ids(1, 5_001, 1), 5_000),
            (9_000, vec![], 9_000),
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
            while let Some((_, Range { first, last })) = ranges.take() {
                assert_eq!(Some(first), next);
                next = last.checked_add(1);
            }
            assert_eq!(next, None);
        }
    }
}
