//! What a store holds, in numbers: read beside whoever owns it, and nothing is changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use unstuck_core::clock::ClockRecord;
use unstuck_core::id::RunId;
use unstuck_core::model::run::RunState;
use unstuck_core::time::Time;
use unstuck_store::contract::StoreError;

use crate::error::{broken_store, store_error};
use crate::open::DATABASE;
use crate::table::event;
use crate::table::flow;
use crate::table::meta;
use crate::table::number;
use crate::table::run_snapshot;
use crate::table::unsigned;
use crate::verify;

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The version of its tables.
    pub schema: u32,
    /// Its files, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// How many runs are in each state, children and handlers too.
    pub runs: BTreeMap<RunState, u64>,
    /// How many events were ever written to it.
    pub events: u64,
    /// Its flows, with their versions in the order in which they were kept.
    pub flows: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The oldest run that is kept.
    pub oldest: Option<RunId>,
    /// The newest one.
    pub newest: Option<RunId>,
    /// How the clock was set.
    pub clock: ClockRecord,
    /// When the last change was recorded.
    pub last_time: Option<Time>,
}

/// Whether there is a store in this folder.
pub fn has_store(directory: &Path) -> bool {
    directory.join(DATABASE).is_file()
}

/// What the store in this folder holds, as far as it is durable. An engine may go on with it meanwhile.
pub fn info(directory: &Path) -> Result<Info, StoreError> {
    let files = list_files(directory)?;
    let mut connection = verify::open_for_reading(directory)?;
    let transaction = connection.transaction().map_err(store_error)?;
    let schema =
        transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(store_error)?;
    let mut flows: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
    for flow in flow::list_all_flows(&transaction)? {
        flows.entry(flow.name).or_default().push(flow.version);
    }
    let tail = load_tail_heads(&transaction)?;
    let (oldest, newest) = find_first_and_last_run(&transaction, tail.keys().copied())?;
    Ok(Info {
        schema,
        files,
        runs: count_runs(&transaction, &tail)?,
        events: event::load_last_position(&transaction)?,
        flows,
        oldest,
        newest,
        clock: meta::load_clock(&transaction)?,
        last_time: meta::load_number(&transaction, "last_time")?.map(Time),
    })
}

fn list_files(directory: &Path) -> Result<Vec<(String, u64)>, StoreError> {
    let unreadable =
        |error| broken_store(format!("the folder {} cannot be read: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // One that goes away meanwhile is none.
        if name.starts_with(DATABASE)
            && let Ok(about) = entry.metadata()
        {
            files.push((name, about.len()));
        }
    }
    files.sort();
    Ok(files)
}

/// Loads the last event of each run that has events after what rows cover: for these the row may be out of date.
fn load_tail_heads(connection: &Connection) -> Result<BTreeMap<RunId, u64>, StoreError> {
    let flushed = meta::load_number(connection, "flushed")?.unwrap_or(0);
    let sql = "SELECT run, max(pos) FROM event WHERE pos > ?1 GROUP BY run";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let found = statement
        .query_map([flushed], |row| Ok((RunId(unsigned(row.get(0)?)), unsigned(row.get(1)?))))
        .map_err(store_error)?;
    found.collect::<Result<_, _>>().map_err(store_error)
}

/// Counts runs by state: by their rows, corrected by the log for runs whose rows are behind.
fn count_runs(
    connection: &Connection,
    tail: &BTreeMap<RunId, u64>,
) -> Result<BTreeMap<RunState, u64>, StoreError> {
    let mut counts: BTreeMap<RunState, u64> = BTreeMap::new();
    let mut statement =
        connection.prepare("SELECT state, count(*) FROM run GROUP BY state").map_err(store_error)?;
    let found = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, unsigned(row.get(1)?))))
        .map_err(store_error)?;
    for row in found {
        let (word, count) = row.map_err(store_error)?;
        counts.insert(parse_run_state(&word)?, count);
    }
    let mut row_state = connection.prepare("SELECT state FROM run WHERE id = ?1").map_err(store_error)?;
    for (run, head) in tail {
        let mut known = row_state.query([number(run.0)?]).map_err(store_error)?;
        if let Some(row) = known.next().map_err(store_error)? {
            let word: String = row.get(0).map_err(store_error)?;
            if let Some(count) = counts.get_mut(&parse_run_state(&word)?) {
                *count = count.saturating_sub(1);
            }
        }
        *counts.entry(run_snapshot::load_run_at(connection, *run, *head)?.run.state()).or_default() += 1;
    }
    counts.retain(|_, count| *count > 0);
    Ok(counts)
}

pub(crate) fn parse_run_state(word: &str) -> Result<RunState, StoreError> {
    let found = RunState::ALL.into_iter().find(|state| state.word() == word);
    found.ok_or_else(|| {
        broken_store(format!("a run has the unknown state `{word}`; run `unstuck store check`"))
    })
}

/// The first and the last id.
fn find_first_and_last_run(
    connection: &Connection,
    tail: impl Iterator<Item = RunId>,
) -> Result<(Option<RunId>, Option<RunId>), StoreError> {
    let rows: (Option<i64>, Option<i64>) = connection
        .query_row("SELECT (SELECT min(id) FROM run), (SELECT max(id) FROM run)", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(store_error)?;
    let known = [rows.0, rows.1].into_iter().flatten().map(|id| RunId(unsigned(id)));
    let mut all: Vec<RunId> = known.chain(tail).collect();
    all.sort_unstable();
    Ok((all.first().copied(), all.last().copied()))
}
