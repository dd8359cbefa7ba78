//! Opening a store: the checks, the rows, and the replay of what they do not cover.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use unstuck_core::evolve::evolve;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;
use unstuck_store::contract::StoreError;

use crate::error::{at, broken, folder_error, store_error};
use crate::hot::{Hot, Whereabouts};
use crate::options::Options;
use crate::pen::keep_log;
use crate::policies;
use crate::record::{Record, Wake};
use crate::rows;
use crate::schema::{check_kind, migrate};
use crate::state::State;
use crate::store::SqliteStore;
use crate::wal::{empty_log, make_durable};
use crate::writer::Writer;

/// The file of the database inside the folder of a store.
pub(crate) const DATABASE: &str = "unstuck.db";

/// How every connection is set up.
pub const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
    PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;";

/// So much may the connection that reads keep, as SQLite counts it: negative for KiB.
const READER_CACHE: i64 = -2_048;

/// Opens the store in a folder, which is made if it is not there.
pub(crate) fn open(directory: &Path, options: Options) -> Result<SqliteStore, StoreError> {
    let lock = if options.disk.is_none() { Some(own(directory)?) } else { None };
    let path = directory.join(DATABASE);
    let (writer, reader, state) = connect_both(&path, &options).map_err(|error| at(&path, error))?;
    Ok(SqliteStore::with(directory.to_owned(), options, lock, reader, writer, state))
}

fn connect_both(path: &Path, options: &Options) -> Result<(Writer, Connection, State), StoreError> {
    // Before any connection: closing a file gives up the locks that this process has on it.
    make_durable(path, options)?;
    let mut writer = connect(path, options)?;
    migrate(&mut writer)?;
    let reader = connect(path, options)?;
    // What it has read is forgotten with every commit, so it need not have much.
    reader.pragma_update(None, "cache_size", READER_CACHE).map_err(store_error)?;
    let state = load(&reader)?;
    // Until here whatever is refused is left as it was; from now on it is closed in good order.
    empty_log(&writer)?;
    for connection in [&writer, &reader] {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(store_error)?;
    }
    Ok((Writer::start(writer, options)?, reader, state))
}

/// Makes the folder, if it is not there, and locks it.
fn own(directory: &Path) -> Result<File, StoreError> {
    let made = make_folder(directory);
    made.map_err(|error| folder_error("the folder", directory, "cannot be made", &error))?;
    let path = directory.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| folder_error("the file", &path, "cannot be opened", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::Away(format!("another process has the store {} open", directory.display())))
        }
        Err(TryLockError::Error(error)) => Err(folder_error("the file", &path, "cannot be locked", &error)),
    }
}

/// Makes a folder that outlives a power cut: a new name is durable once the folder that has it is synced.
fn make_folder(directory: &Path) -> io::Result<()> {
    let new: Vec<&Path> = directory.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(directory)?;
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

fn connect(path: &Path, options: &Options) -> Result<Connection, StoreError> {
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
    use_log(&connection)?;
    connection.execute_batch(PRAGMAS).map_err(store_error)?;
    // The writer takes the log over by itself.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(store_error)?;
    Ok(connection)
}

/// From now on there is a write-ahead log. Where there cannot be one, SQLite goes on without.
fn use_log(connection: &Connection) -> Result<(), StoreError> {
    let mode = set_mode(connection).map_err(store_error)?;
    if mode == "wal" {
        return Ok(());
    }
    Err(broken(format!(
        "the file cannot have a write-ahead log (its mode is `{mode}`); give a folder on a disk of this machine"
    )))
}

fn set_mode(connection: &Connection) -> Result<String, rusqlite::Error> {
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    let mut rows = statement.query([])?;
    let mut mode = String::new();
    // The change is made, or fails, after the row that tells it.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    Ok(mode)
}

/// All that is in memory, from what is durable.
pub(crate) fn load(connection: &Connection) -> Result<State, StoreError> {
    let mut state = State::default();
    for flow in rows::flows(connection)? {
        state.flows.restore(flow);
    }
    state.policies = policies::all(connection)?;
    let notices = rows::notices(connection)?;
    state.last_notice = notices.last().map_or(0, |(id, _)| id.0);
    state.notices = notices.into_iter().collect();
    state.last_error = rows::meta(connection, "last_error")?.map_or(0, rows::unsigned);
    state.last_id = rows::meta(connection, "last_id")?.map_or(0, rows::unsigned);
    state.last_time = rows::meta(connection, "last_time")?.map(Time);
    let flushed = rows::meta(connection, "flushed")?.map_or(0, rows::unsigned);
    // The last events may have been forgotten; their positions are not given again.
    state.end = rows::last_position(connection)?.max(flushed);
    state.downtimes = rows::downtimes(connection)?;
    rows::wakes(connection, None, |wake| {
        if let Some(timer) = wake.timer {
            state.timers.add_parked(wake.run, wake.unit, timer);
        }
        if let Some(ready) = &wake.ready {
            state.ready.add_parked(ready);
        }
        Ok(())
    })?;
    for (run, slot, since) in rows::slots(connection)? {
        state.slots.set(run, &slot.slot(), since.unwrap_or_default());
    }
    for run in rows::local_runs(connection)? {
        warm_up(&mut state, connection, run)?;
    }
    rows::tail(connection, flushed, |pos, run, prev, record| {
        replay(&mut state, connection, pos, run, prev, record)
    })?;
    for (run, lease, planned) in rows::leases(connection)? {
        if state.hot.get(run).is_none() {
            unpark(&mut state, connection, run)?;
        }
        // One of an attempt that has ended since is over.
        if state.timers.get(run, Some(lease.unit)).is_some_and(|timer| timer.set == planned) {
            state.timers.move_lease(run, lease);
        }
    }
    Ok(state)
}

/// Brings one run into memory from its row.
pub(crate) fn warm_up(state: &mut State, connection: &Connection, run: RunId) -> Result<bool, StoreError> {
    let Some(row) = rows::run_row(connection, run)? else { return Ok(false) };
    let here = rows::run_at(connection, run, row.head)?;
    unpark(state, connection, run)?;
    let seq = here.seq;
    let run_at = Whereabouts::Here(Box::new(here));
    state.hot.insert(
        run,
        Hot {
            run: run_at,
            flow: row.flow,
            head: row.head,
            behind_since: None,
            has_wakes: true,
            has_leases: true,
        },
    );
    state.hot.touch(run, seq);
    Ok(true)
}

/// What will wake a parked run is known by run again.
fn unpark(state: &mut State, connection: &Connection, run: RunId) -> Result<(), StoreError> {
    rows::wakes(connection, Some(run), |wake| {
        if let Some(timer) = wake.timer {
            state.timers.unpark(run, wake.unit, timer);
        }
        if let Some(ready) = &wake.ready {
            state.ready.unpark(ready);
        }
        Ok(())
    })
}

/// Applies a record that the rows may not cover.
fn replay(
    state: &mut State,
    connection: &Connection,
    pos: u64,
    run: RunId,
    prev: u64,
    record: Record,
) -> Result<(), StoreError> {
    // Even a run that begins here may have parked since: then its row has all of this, and its places in line.
    if state.hot.get(run).is_none() {
        warm_up(state, connection, run)?;
    }
    let head = state.hot.get(run).map_or(0, |hot| hot.head);
    if pos <= head {
        return Ok(());
    }
    if head != prev {
        return Err(broken(format!(
            "event {pos} of {run} follows event {prev}, and the last one known is {head}"
        )));
    }
    let mut slot = match state.hot.take(run) {
        None => None,
        Some(Whereabouts::Here(run)) => Some(*run),
        Some(Whereabouts::Out(_)) => {
            return Err(broken(format!("{run} is locked while the store is opened")));
        }
    };
    evolve(&mut slot, &record.event);
    let here = slot.ok_or_else(|| broken(format!("{run} has no beginning")))?;
    let (seq, flow) = (here.seq, state.flow_name(here.flow)?);
    state.hot.put(run, Box::new(here), flow, pos);
    if let Some(hot) = state.hot.get_mut(run) {
        hot.has_leases = true;
    }
    state.hot.fall_behind(run, pos);
    state.hot.touch(run, seq);
    if let Some(wakes) = record.wakes {
        let list: Vec<_> = wakes.list.into_iter().map(Wake::wakeup).collect();
        state.wake(run, &list, wakes.replaces_all, &wakes.slot.slot(), record.event.at);
    }
    Ok(())
}
