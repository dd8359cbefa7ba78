//! Brings many parked runs back at once: rows and events that are neighbours are read in one walk instead of a query each.

use rusqlite::{Connection, Row};
use unstuck_core::event::Event;
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::open::insert_loaded_run;
use crate::state::StoreState;
use crate::table::event;
use crate::table::number;
use crate::table::run::{self, RunRow};
use crate::table::run_snapshot::LoadedRun;
use crate::table::snapshot;
use crate::table::wake::WakeRow;

/// So many rows that nobody asked for are passed over before the walk looks up where to go on.
const MAX_PASSED: usize = 8;

/// A run with more events than this may have a snapshot, and is loaded alone.
const MAX_EVENTS: u64 = 8;

/// A parked run while it is put together.
struct ColdRun {
    row: RunRow,
    /// The last one first.
    events: Vec<Event>,
    /// The position of the event that is read next; 0 if all are there.
    next: u64,
    wakes: Vec<WakeRow>,
    /// What is damaged, or has a long history, is left to whoever loads one run alone.
    is_left_out: bool,
}

/// Loads those of these runs that are parked and have short histories. Others are as they were: absent runs, damaged ones,
/// and those that are better loaded from their snapshots.
pub(crate) fn load_runs(
    state: &mut StoreState,
    connection: &Connection,
    runs: &[RunId],
    many_units: usize,
) -> Result<(), StoreError> {
    let _snapshot = snapshot(connection)?;
    let mut cold = load_rows(connection, runs)?;
    load_events(connection, &mut cold)?;
    load_wakes(connection, &mut cold)?;
    for ColdRun { row, events, wakes, is_left_out, .. } in cold {
        let replayed = event::replay_all(row.id, events.into_iter().rev()).ok().filter(|_| !is_left_out);
        if let Some(run) = replayed {
            let loaded = LoadedRun { run, snapshot_seq: 0 };
            insert_loaded_run(state, row, loaded, wakes, many_units);
        }
    }
    Ok(())
}

/// Loads the rows of these runs, in the order of their ids.
fn load_rows(connection: &Connection, runs: &[RunId]) -> Result<Vec<ColdRun>, StoreError> {
    let mut ids = runs.iter().map(|run| number(run.0)).collect::<Result<Vec<i64>, _>>()?;
    ids.sort_unstable();
    let mut cold = Vec::with_capacity(ids.len());
    walk(connection, "SELECT id, flow, head, state FROM run WHERE id >= ?1 ORDER BY id", &ids, |_, row| {
        if let Ok(row) = run::read_run_row(row) {
            let next = row.head;
            cold.push(ColdRun { row, events: Vec::new(), next, wakes: Vec::new(), is_left_out: false });
        }
    })?;
    Ok(cold)
}

/// Loads the histories: in each round one event of every run, from its last one back.
fn load_events(connection: &Connection, cold: &mut [ColdRun]) -> Result<(), StoreError> {
    loop {
        let open = |run: &ColdRun| run.next > 0 && !run.is_left_out;
        let wanted = cold.iter().enumerate().filter(|(_, run)| open(run));
        let wanted = wanted.map(|(place, run)| Ok((number(run.next)?, place)));
        let mut wanted = wanted.collect::<Result<Vec<(i64, usize)>, StoreError>>()?;
        if wanted.is_empty() {
            return Ok(());
        }
        wanted.sort_unstable();
        let positions: Vec<i64> = wanted.iter().map(|(position, _)| *position).collect();
        let mut found = vec![false; wanted.len()];
        let sql = "SELECT pos, run, prev, body, sum FROM event WHERE pos >= ?1 ORDER BY pos";
        walk(connection, sql, &positions, |place, row| {
            found[place] = true;
            let run = &mut cold[wanted[place].1];
            match event::read_event(row) {
                Ok((owner, prev, event))
                    if owner == run.row.id && prev < run.next && event.seq <= MAX_EVENTS =>
                {
                    run.next = prev;
                    run.events.push(event);
                }
                Ok(_) | Err(_) => run.is_left_out = true,
            }
        })?;
        for ((_, run), _) in wanted.iter().zip(found).filter(|(_, found)| !found) {
            cold[*run].is_left_out = true;
        }
    }
}

/// Loads what would wake each run.
fn load_wakes(connection: &Connection, cold: &mut [ColdRun]) -> Result<(), StoreError> {
    let ids: Vec<i64> = cold.iter().map(|run| number(run.row.id.0)).collect::<Result<_, _>>()?;
    let sql = format!("SELECT {} FROM wake WHERE run >= ?1 ORDER BY run, step, item", WakeRow::COLUMNS);
    walk(connection, &sql, &ids, |place, row| match WakeRow::read(row) {
        Ok(wake) => cold[place].wakes.push(wake),
        Err(_) => cold[place].is_left_out = true,
    })
}

/// Calls `each` with every row whose first column is one of `keys`, which are sorted, and with the place of that key. `sql`
/// gives the rows from a key on, in order.
fn walk(
    connection: &Connection,
    sql: &str,
    keys: &[i64],
    mut each: impl FnMut(usize, &Row<'_>),
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut place = 0;
    while let Some(first) = keys.get(place) {
        let mut rows = statement.query([*first]).map_err(store_error)?;
        let mut passed = 0;
        while passed <= MAX_PASSED {
            let Some(row) = rows.next().map_err(store_error)? else { return Ok(()) };
            let found: i64 = row.get(0).map_err(store_error)?;
            while keys.get(place).is_some_and(|key| *key < found) {
                place += 1;
            }
            match keys.get(place) {
                Some(key) if *key == found => {
                    each(place, row);
                    passed = 0;
                }
                Some(_) => passed += 1,
                None => return Ok(()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows, keys, and which key each of them finds.
    #[test]
    fn a_walk_finds_every_row_of_every_key_and_no_other() {
        let connection = Connection::open_in_memory().expect("opens");
        let made = "CREATE TABLE t (k INTEGER, n INTEGER); CREATE INDEX t_k ON t (k);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO t SELECT i, 0 FROM n WHERE i % 7 <> 0 UNION ALL SELECT i, 1 FROM n WHERE i % 5 = 0";
        connection.execute_batch(made).expect("made");
        let all: Vec<i64> = (1..=1_200).collect();
        let cases: [Vec<i64>; 6] = [
            vec![],
            all.clone(),
            all.iter().copied().step_by(2).collect(),
            all.iter().copied().step_by(37).collect(),
            vec![5, 6, 7, 8, 500, 503, 504, 999, 1_000, 1_001],
            vec![-3, 0, 2_000],
        ];
        for keys in cases {
            let mut found = Vec::new();
            let sql = "SELECT k, n FROM t WHERE k >= ?1 ORDER BY k, n";
            let visit = |place: usize, row: &Row<'_>| {
                found.push((
                    keys[place],
                    row.get::<_, i64>(0).expect("read"),
                    row.get::<_, i64>(1).expect("read"),
                ));
            };
            walk(&connection, sql, &keys, visit).expect("walks");
            let mut expected = Vec::new();
            for key in keys.iter().copied().filter(|key| (1..=1_000).contains(key)) {
                expected.extend((key % 7 != 0).then_some((key, key, 0)));
                expected.extend((key % 5 == 0).then_some((key, key, 1)));
            }
            assert_eq!(found, expected, "{} keys", keys.len());
        }
    }
}
