//! The connections of readers: some, opened when they are needed, so that nobody waits for the engine.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::open::{Lock, connect};
use crate::options::Options;
use crate::table::snapshot;
use crate::writer_loop::keep_log;

/// So many read at once; more wait.
const MAX_CONNECTIONS: usize = 4;

/// So much may each of them keep, as SQLite counts it: negative for KiB.
const CACHE: i64 = -4_096;

/// The connections of readers.
#[derive(Debug)]
pub(crate) struct ReadPool {
    /// Where more of them come from; `None` where the one that is there is all there is.
    file: Option<(PathBuf, Options)>,
    connections: Mutex<Connections>,
    /// Whoever wants to read waits here: one is woken by each connection that comes back.
    returned: Condvar,
    /// Whoever closes them waits here for the last one.
    ended: Condvar,
    /// What keeps others from writing meanwhile.
    _lock: Option<Lock>,
}

#[derive(Debug)]
struct Connections {
    idle: Vec<Connection>,
    /// How many somebody reads with.
    busy: usize,
    is_closed: bool,
}

impl ReadPool {
    /// Opens connections to this file as they are needed. The schema is up to date.
    pub(crate) fn of_file(path: PathBuf, options: Options) -> ReadPool {
        ReadPool::with(Some((path, options)), Vec::new(), None)
    }

    /// Reads with this connection alone.
    pub(crate) fn of_connection(connection: Connection, lock: Option<Lock>) -> ReadPool {
        ReadPool::with(None, vec![connection], lock)
    }

    fn with(file: Option<(PathBuf, Options)>, idle: Vec<Connection>, lock: Option<Lock>) -> ReadPool {
        let connections = Mutex::new(Connections { idle, busy: 0, is_closed: false });
        ReadPool { file, connections, returned: Condvar::new(), ended: Condvar::new(), _lock: lock }
    }

    /// Calls `read` with a free connection, in one read transaction: all that it reads is of one moment.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let borrowed = self.borrow_connection()?;
        let Some(connection) = &borrowed.connection else { return Err(StoreError::Closed) };
        let _snapshot = snapshot(connection)?;
        read(connection)
    }

    /// Closes all connections, and waits for those who still read.
    pub(crate) fn close(&self) {
        let mut connections = self.lock_connections();
        connections.is_closed = true;
        connections.idle.clear();
        self.returned.notify_all();
        while connections.busy > 0 {
            connections = self.ended.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Locks the list of connections. It is right after every step, so poisoning is ignored.
    fn lock_connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an idle connection, or opens one; waits while all that there may be are in use.
    fn borrow_connection(&self) -> Result<Borrowed<'_>, StoreError> {
        let mut connections = self.lock_connections();
        loop {
            if connections.is_closed {
                return Err(StoreError::Closed);
            }
            if let Some(connection) = connections.idle.pop() {
                connections.busy += 1;
                return Ok(Borrowed { pool: self, connection: Some(connection) });
            }
            if let Some((path, options)) = &self.file
                && connections.busy < MAX_CONNECTIONS
            {
                connections.busy += 1;
                drop(connections);
                let mut borrowed = Borrowed { pool: self, connection: None };
                let connection = connect(path, options)?;
                keep_log(&connection);
                for (name, value) in [("query_only", 1), ("cache_size", CACHE)] {
                    connection.pragma_update(None, name, value).map_err(store_error)?;
                }
                borrowed.connection = Some(connection);
                return Ok(borrowed);
            }
            connections = self.returned.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A connection that somebody reads with.
struct Borrowed<'a> {
    pool: &'a ReadPool,
    connection: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut connections = self.pool.lock_connections();
        connections.busy -= 1;
        let keeps = !connections.is_closed;
        connections.idle.extend(self.connection.take().filter(|_| keeps));
        drop(connections);
        if keeps {
            self.pool.returned.notify_one();
        } else {
            self.pool.ended.notify_all();
        }
    }
}
