//! Opening a store: the checks, the rows, and the replay of what they do not cover.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use unstuck_core::id::RunId;
use unstuck_core::replay::replay_event;
use unstuck_core::time::Time;
use unstuck_store::contract::StoreError;

use crate::access::{self, LOCK, check_access, make_file, restrict_permissions};
use crate::error::{add_path, broken_store, folder_error, store_error};
use crate::hot_runs::{HotRun, Residency};
use crate::log_entry::{LogEntry, StoredWakeup};
use crate::options::{MAX_CANDIDATES, Options};
use crate::overlay::Published;
use crate::read_only::{self, ReadConnection};
use crate::read_pool::ReadPool;
use crate::reader::SqliteReader;
use crate::reserve;
use crate::schema::{check_current, check_kind, migrate};
use crate::state::StoreState;
use crate::store::SqliteStore;
use crate::table::bulk;
use crate::table::event;
use crate::table::flow;
use crate::table::lease;
use crate::table::meta;
use crate::table::notice;
use crate::table::policy;
use crate::table::run::{self, RunRow};
use crate::table::run_count;
use crate::table::run_snapshot::{self, LoadedRun};
use crate::table::schedule;
use crate::table::snapshot;
use crate::table::unsigned;
use crate::table::wake::{self, WakeRow};
use crate::telemetry::Stopwatch;
use crate::verify;
use crate::wal::{empty_log, make_durable};
use crate::writer::Writer;
use crate::writer_claim::WriterClaim;
use crate::writer_loop::keep_log;

/// The file of the database inside the folder of a store.
pub(crate) const DATABASE: &str = "unstuck.db";

/// How every connection is set up.
pub const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
    PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;";

/// So much may the connection that reads keep, as SQLite counts it: negative for KiB.
const READER_CACHE: i64 = -2_048;

/// Opens the store in a folder, which is made if it is not there.
pub(crate) fn open(directory: &Path, options: Options) -> Result<SqliteStore, StoreError> {
    let lock = if options.disk.is_none() { Some(Lock::lock_for_writing(directory)?) } else { None };
    let path = directory.join(DATABASE);
    let claim = WriterClaim::default();
    let watch = Stopwatch::start();
    let published = Arc::new(Published::default());
    let opened = connect_writer_and_reader(&path, &options, &claim, &published)
        .map_err(|error| add_path(&path, error))?;
    let runs = opened.2.hot.len();
    tracing::debug!(store = %directory.display(), runs, took = ?watch.took(), "store opened");
    if lock.is_some() {
        reserve::keep_reserve(directory);
    }
    Ok(SqliteStore::with(directory.to_owned(), options, lock, claim, opened, published))
}

/// Opens a store that nobody has open, for reading alone: nothing in its folder changes.
pub(crate) fn open_for_reading(directory: &Path) -> Result<SqliteReader, StoreError> {
    new_reader(directory, read_only::open(directory)?)
}

/// Opens a store for reading alone, as it is at this moment, whoever has it open.
pub(crate) fn open_beside(directory: &Path) -> Result<SqliteReader, StoreError> {
    let opened = verify::open_for_reading(directory)?;
    // All that is read from now on is of one moment.
    opened.connection.execute_batch("BEGIN").map_err(store_error)?;
    new_reader(directory, opened)
}

/// Builds a reader without a store: there is no engine, so the overlay is loaded once from the log.
fn new_reader(directory: &Path, opened: ReadConnection) -> Result<SqliteReader, StoreError> {
    let path = directory.join(DATABASE);
    let ReadConnection { connection, lock } = opened;
    let state = check_kind(&connection)
        .and_then(|()| check_current(&connection))
        .and_then(|()| load_state(&connection));
    let state = state.map_err(|error| add_path(&path, error))?;
    let published = Published::default();
    published.publish(run_count::load_last_stage(&connection)?, [state.fresh_runs()]);
    let pool = Arc::new(ReadPool::of_connection(connection, lock));
    Ok(SqliteReader { published: Arc::new(published), pool, max_candidates: MAX_CANDIDATES })
}

/// Opens the connection that writes, brings the schema up to date, and loads memory by the one that reads. A store
/// that is refused on the way is left as it was.
fn connect_writer_and_reader(
    path: &Path,
    options: &Options,
    claim: &WriterClaim,
    published: &Arc<Published>,
) -> Result<(Writer, Connection, StoreState), StoreError> {
    // Before any connection: closing a file gives up the locks that this process has on it.
    make_durable(path, options)?;
    if options.disk.is_none() {
        // What SQLite makes beside it has the mode of the database.
        make_file(path).map_err(|error| folder_error("the file", path, "cannot be created", &error))?;
    }
    let mut writer = connect(path, options)?;
    migrate(&mut writer)?;
    let reader = connect(path, options)?;
    // What it has read is forgotten with every commit, so it need not have much.
    reader.pragma_update(None, "cache_size", READER_CACHE).map_err(store_error)?;
    let state = load_state(&reader)?;
    published.publish(state.stage, [state.fresh_runs()]);
    // Until here whatever is refused is left as it was; from now on it is closed in good order.
    empty_log(&writer)?;
    for connection in [&writer, &reader] {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(store_error)?;
    }
    Ok((Writer::start(writer, options, claim, published.clone())?, reader, state))
}

/// What makes a process the only one that has a store open: the lock file, and the folder itself, which nobody can
/// remove while there is a store in it.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Its time says when an engine was last alive.
    pub(crate) file: Option<File>,
    _folder: Option<File>,
}

impl Lock {
    /// Makes the folder, if it is not there, and locks it.
    fn lock_for_writing(directory: &Path) -> Result<Lock, StoreError> {
        check_access(directory)?;
        let made = make_folder(directory);
        made.map_err(|error| folder_error("the folder", directory, "cannot be created", &error))?;
        restrict_permissions(directory)?;
        let path = directory.join(LOCK);
        let file = make_file(&path);
        let file = file.map_err(|error| folder_error("the file", &path, "cannot be opened", &error))?;
        Lock::acquire(directory, Some(file))
    }

    /// Locks a store that may not be written to.
    pub(crate) fn lock_for_reading(directory: &Path) -> Result<Lock, StoreError> {
        Lock::acquire(directory, File::open(directory.join(LOCK)).ok())
    }

    /// Locks the lock file and the folder, and fails if another process has one of them.
    fn acquire(directory: &Path, file: Option<File>) -> Result<Lock, StoreError> {
        if let Some(file) = &file {
            let path = directory.join(LOCK);
            try_lock(file, directory)?
                .map_err(|error| folder_error("the file", &path, "cannot be locked", &error))?;
        }
        // Some file systems cannot lock a folder.
        let folder = File::open(directory).ok();
        if let Some(folder) = &folder {
            let _ = try_lock(folder, directory)?;
        }
        Ok(Lock { file, _folder: folder })
    }
}

/// Tries to lock a file. The outer error means that another process has it, the inner one that it cannot be locked at
/// all.
fn try_lock(file: &File, directory: &Path) -> Result<io::Result<()>, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(Ok(())),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::Away(format!("another process has the store {} open", directory.display())))
        }
        Err(TryLockError::Error(error)) => Ok(Err(error)),
    }
}

/// Makes a folder that outlives a power cut: a new name is durable once the folder that has it is synced.
fn make_folder(directory: &Path) -> io::Result<()> {
    let new: Vec<&Path> = directory.ancestors().take_while(|folder| !folder.exists()).collect();
    access::make_folder(directory)?;
    for folder in new {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        match File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()) {
            // Some may not be read, and some file systems have nothing to sync.
            Err(error) if !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
                return Err(error);
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn connect(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match &options.disk {
        Some(disk) => Connection::open_with_flags_and_vfs(path, flags, disk.vfs()),
        None => Connection::open_with_flags(path, flags),
    };
    let connection = connection.map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(64);
    keep_log(&connection);
    check_kind(&connection)?;
    enable_wal(&connection)?;
    connection.execute_batch(PRAGMAS).map_err(store_error)?;
    // The writer takes the log over by itself.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(store_error)?;
    Ok(connection)
}

/// Switches to the write-ahead log. Where there cannot be one, SQLite silently continues without, which is refused
/// here.
fn enable_wal(connection: &Connection) -> Result<(), StoreError> {
    let mode = set_wal_mode(connection).map_err(store_error)?;
    if mode == "wal" {
        return Ok(());
    }
    Err(broken_store(format!(
        "the file cannot have a write-ahead log (its mode is `{mode}`); give a folder on a local disk"
    )))
}

/// Asks for the write-ahead log, and returns the journal mode that SQLite has then.
fn set_wal_mode(connection: &Connection) -> Result<String, rusqlite::Error> {
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mut mode = String::new();
    // The change is made, or fails, after the row that tells it.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    Ok(mode)
}

/// Loads everything that is kept in memory from what is durable.
pub(crate) fn load_state(connection: &Connection) -> Result<StoreState, StoreError> {
    let _snapshot = snapshot(connection)?;
    let mut state = StoreState::default();
    load_meta_values(&mut state, connection)?;
    load_parked_wakes(&mut state, connection, None)?;
    load_tail(&mut state, connection, |_, _| Ok(()))?;
    Ok(state)
}

/// Finds what would stop [`load_state`]. Of parked runs only those that the tail of the log names are loaded: the
/// check of runs looks at the others.
pub(crate) fn check_loadable(connection: &Connection) -> Result<(), StoreError> {
    let _snapshot = snapshot(connection)?;
    let mut state = StoreState::default();
    load_meta_values(&mut state, connection)?;
    load_tail(&mut state, connection, |state, run| load_parked_wakes(state, connection, Some(run)))
}

/// Loads what concerns the store as a whole: flows, policies, notices, counters and the clock.
fn load_meta_values(state: &mut StoreState, connection: &Connection) -> Result<(), StoreError> {
    for flow in flow::list_all_flows(connection)? {
        state.flows.restore(flow);
    }
    state.policies = policy::list_policies(connection)?;
    state.policy_switch = policy::load_switch(connection)?;
    let notices = notice::list_notices(connection)?;
    state.last_notice = notices.last().map_or(0, |(id, ..)| id.0);
    for (id, notice, delivery) in notices {
        state.notices.insert_tried(id, notice, delivery);
    }
    bulk::list_open_things(connection)?.into_iter().for_each(|thing| state.things.put(thing));
    schedule::list_schedules(connection)?.into_iter().for_each(|thing| state.things.put(thing));
    state.last_error = meta::load_number(connection, "last_error")?.map_or(0, unsigned);
    state.last_id = meta::load_number(connection, "last_id")?.map_or(0, unsigned);
    state.last_time = meta::load_number(connection, "last_time")?.map(Time);
    // The last events may have been forgotten; their positions are not given again.
    state.end = event::load_last_given_position(connection)?;
    state.stage = run_count::load_last_stage(connection)?;
    state.downtimes = meta::load_downtimes(connection)?;
    state.clock = meta::load_clock(connection)?;
    for (run, slot, since) in run::list_slots(connection)? {
        state.slots.set(run, &slot.slot(), since.unwrap_or_default());
    }
    Ok(())
}

/// Loads the position up to which all events are covered by rows.
fn load_covered_position(connection: &Connection) -> Result<u64, StoreError> {
    Ok(meta::load_number(connection, "flushed")?.map_or(0, unsigned))
}

/// Loads what will wake parked runs, or one of them: into the queues and timers only, not the runs.
fn load_parked_wakes(
    state: &mut StoreState,
    connection: &Connection,
    only: Option<RunId>,
) -> Result<(), StoreError> {
    wake::for_each_wake(connection, only, |wake| {
        if let Some(timer) = wake.timer {
            state.timers.add_parked(wake.run, wake.unit, timer);
        }
        if let Some(ready) = &wake.ready {
            state.ready.add_parked(ready);
        }
        Ok(())
    })
}

/// Replays the events that rows do not cover. `unknown` is called with each run before it is loaded.
fn load_tail(
    state: &mut StoreState,
    connection: &Connection,
    mut unknown: impl FnMut(&mut StoreState, RunId) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut events = 0_u64;
    event::for_each_uncovered(connection, load_covered_position(connection)?, |pos, run, prev, record| {
        events += 1;
        if state.hot.get(run).is_none() {
            unknown(state, run)?;
        }
        replay_entry(state, connection, pos, run, prev, record)
    })?;
    tracing::debug!(events, "log replayed");
    state.hot.find_ended();
    for (run, lease, planned) in lease::list_leases(connection)? {
        state.leased.insert(run);
        if state.hot.get(run).is_none() {
            unknown(state, run)?;
            unpark_run(state, wake::list_wakes(connection, run)?);
        }
        // One of an attempt that has ended since is over.
        if state.timers.get(run, Some(lease.unit)).is_some_and(|timer| timer.set == planned) {
            state.timers.move_lease(run, lease);
        }
    }
    Ok(())
}

/// Loads a run from its row. With more than `many_units` units, changed wakeups are noted one by one from then on.
pub(crate) fn load_run(
    state: &mut StoreState,
    connection: &Connection,
    run: RunId,
    many_units: usize,
) -> Result<bool, StoreError> {
    let _snapshot = snapshot(connection)?;
    let Some(row) = run::load_run_row(connection, run)? else { return Ok(false) };
    let loaded = run_snapshot::load_run_at(connection, run, row.head)?;
    let wakes = wake::list_wakes(connection, run)?;
    insert_loaded_run(state, row, loaded, wakes, many_units);
    Ok(true)
}

/// Puts a run that was loaded into memory, with what will wake it.
pub(crate) fn insert_loaded_run(
    state: &mut StoreState,
    row: RunRow,
    LoadedRun { run, snapshot_seq }: LoadedRun,
    wakes: Vec<WakeRow>,
    many_units: usize,
) {
    let id = row.id;
    let (seq, has_many_units, has_wakes) = (run.seq, run.unit_count() > many_units, !wakes.is_empty());
    unpark_run(state, wakes);
    let mut hot = HotRun {
        run: Residency::Here(Box::new(run)),
        flow: row.flow,
        head: row.head,
        behind_since: None,
        row: Some(row.state),
        is_saved: !state.leased.contains(&id),
        has_wakes,
        has_leases: state.leased.contains(&id),
        snapshot_seq,
        unsaved: None,
    };
    hot.note_changes(has_many_units);
    state.hot.insert(id, hot);
    state.hot.mark_recent(id, seq);
}

/// Makes the wakeups of a parked run known by run again, so that they can change.
fn unpark_run(state: &mut StoreState, wakes: Vec<WakeRow>) {
    for wake in wakes {
        if let Some(timer) = wake.timer {
            state.timers.unpark(wake.run, wake.unit, timer);
        }
        if let Some(ready) = &wake.ready {
            state.ready.unpark(ready);
        }
    }
}

/// Applies an event that the row of its run does not cover: to the run, its wakeups and its slot.
fn replay_entry(
    state: &mut StoreState,
    connection: &Connection,
    pos: u64,
    run: RunId,
    prev: u64,
    record: LogEntry,
) -> Result<(), StoreError> {
    if state.hot.get(run).is_none() {
        load_run(state, connection, run, usize::MAX)?;
    }
    let head = state.hot.get(run).map_or(0, |hot| hot.head);
    if pos <= head {
        return Ok(());
    }
    if head != prev {
        return Err(broken_store(format!(
            "event {pos} of {run} follows event {prev}, but its last known event is {head}"
        )));
    }
    let mut slot = match state.hot.take(run) {
        None => None,
        Some(Residency::Here(run)) => Some(*run),
        Some(Residency::Out(_)) => {
            return Err(broken_store(format!("{run} is locked while the store is opened")));
        }
    };
    replay_event(&mut slot, &record.event)
        .map_err(|why| event::unsound_event(run, record.event.seq, &why))?;
    let here = slot.ok_or_else(|| broken_store(format!("{run} has no start event")))?;
    if here.id != run {
        return Err(event::unsound_event(
            run,
            record.event.seq,
            &format!("it starts another run, {}", here.id),
        ));
    }
    let (seq, flow) = (here.seq, state.flow_name(here.flow)?);
    state.hot.put(run, Box::new(here), flow, pos);
    if let Some(hot) = state.hot.get_mut(run) {
        hot.has_leases = true;
        hot.is_saved = false;
    }
    state.hot.mark_row_behind(run, pos);
    state.hot.mark_recent(run, seq);
    if let Some(wakes) = record.wakes {
        let list: Vec<_> = wakes.list.into_iter().map(StoredWakeup::wakeup).collect();
        state.set_wakeups(run, &list, wakes.replaces_all, &wakes.slot.slot(), record.event.time());
    }
    Ok(())
}
