//! A table in the order of runs, read once beside the runs: no query for each of them.

use rusqlite::{Row, Rows};
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::error::store_error;

/// The rows of a table, whose first column is the run, in its order.
pub(crate) struct ByRun<'s, T> {
    rows: Rows<'s>,
    read: fn(&Row<'_>) -> Result<T, StoreError>,
    /// What has been read and not been asked for yet.
    next: Option<(i64, Result<T, StoreError>)>,
    /// Whether there were rows of runs that nobody asked for.
    has_strays: bool,
}

impl<'s, T> ByRun<'s, T> {
    pub(crate) fn new(
        rows: Rows<'s>,
        read: fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<ByRun<'s, T>, StoreError> {
        let mut table = ByRun { rows, read, next: None, has_strays: false };
        table.advance()?;
        Ok(table)
    }

    /// Returns the rows of a run. Runs must be asked for in order, as rows are read once.
    pub(crate) fn take_rows(&mut self, run: RunId) -> Result<Vec<T>, StoreError> {
        let (wanted, mut found) = (run.0.cast_signed(), Vec::new());
        while let Some((next, row)) = self.next.take() {
            if next > wanted {
                self.next = Some((next, row));
                break;
            }
            self.advance()?;
            if next == wanted {
                found.push(row?);
            } else {
                self.has_strays = true;
            }
        }
        Ok(found)
    }

    /// Reads to the end, and returns whether there were rows of runs that were not asked for.
    pub(crate) fn finish(mut self) -> Result<bool, StoreError> {
        Ok(self.has_strays || self.next.is_some() || self.rows.next().map_err(store_error)?.is_some())
    }

    /// Reads the next row ahead, to know when the rows of a run end.
    fn advance(&mut self) -> Result<(), StoreError> {
        self.next = match self.rows.next().map_err(store_error)? {
            None => None,
            Some(row) => Some((row.get(0).map_err(store_error)?, (self.read)(row))),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::error::broken_store;

    fn even(row: &Row<'_>) -> Result<i64, StoreError> {
        let number: i64 = row.get(1).map_err(store_error)?;
        if number % 2 == 0 { Ok(number) } else { Err(broken_store("it is odd")) }
    }

    /// Rows, what is asked for, what each gets, and whether there are others.
    type Case = (&'static str, &'static [u64], &'static [Option<&'static [i64]>], bool);

    /// What is asked for gets its own rows; what nobody asks for, and what cannot be read, is in nobody's way.
    #[test]
    fn each_run_has_its_own_rows() {
        let cases: [Case; 6] = [
            ("(1, 2), (1, 4), (3, 6)", &[1, 2, 3], &[Some(&[2, 4]), Some(&[]), Some(&[6])], false),
            ("(1, 2), (2, 4), (3, 6)", &[1, 3], &[Some(&[2]), Some(&[6])], true),
            ("(1, 2), (9, 4)", &[1], &[Some(&[2])], true),
            ("(0, 2), (1, 4)", &[1], &[Some(&[4])], true),
            ("(1, 2), (1, 3), (1, 4), (2, 6)", &[1, 2], &[None, Some(&[6])], true),
            ("(1, 2), (1, 3), (2, 6)", &[1, 2], &[None, Some(&[6])], false),
        ];
        for (values, asked, wanted, has_strays) in cases {
            let connection = Connection::open_in_memory().expect("opens");
            connection
                .execute_batch(&format!("CREATE TABLE t (run, n); INSERT INTO t VALUES {values}"))
                .expect("made");
            let mut statement = connection.prepare("SELECT run, n FROM t ORDER BY run, n").expect("right");
            let mut table = ByRun::new(statement.query([]).expect("read"), even).expect("begins");
            let found: Vec<_> = asked.iter().map(|run| table.take_rows(RunId(*run)).ok()).collect();
            let wanted: Vec<_> = wanted.iter().map(|rows| rows.map(<[i64]>::to_vec)).collect();
            assert_eq!(found, wanted, "{values}");
            assert_eq!(table.finish(), Ok(has_strays), "{values}");
        }
    }
}
