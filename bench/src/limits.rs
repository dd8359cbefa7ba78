//! What the disk and SQLite themselves could do: the same bytes and the same rows, without an engine.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use unstuck_sqlite::SqliteStore;
use unstuck_sqlite::stats::{PRAGMAS, Rows, Written};

/// Appends as many bytes as each transaction wrote to a file, and syncs after each.
pub fn append_and_sync(directory: &Path, transactions: &[Written]) -> Duration {
    fs::create_dir_all(directory).expect("the folder can be made");
    let mut file = File::create(directory.join("appended")).expect("the file can be made");
    let longest = transactions.iter().map(Written::bytes).max().unwrap_or(0);
    let filler = vec![b'x'; usize::try_from(longest).expect("it is small")];
    let begin = Instant::now();
    for written in transactions {
        let bytes = usize::try_from(written.bytes()).expect("it is small");
        file.write_all(&filler[..bytes]).expect("written");
        file.sync_data().expect("synced");
    }
    begin.elapsed()
}

/// Writes rows of the same sizes, in the same transactions, to an empty database of the same schema.
pub fn bare_rows(directory: &Path, transactions: &[Written]) -> Duration {
    drop(SqliteStore::open(directory).expect("the store opens"));
    let mut connection = Connection::open(directory.join("unstuck.db")).expect("the database opens");
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(PRAGMAS).expect("set up");
    let begin = Instant::now();
    let mut writer = BareWriter { next: 0, filler: "x".repeat(1 << 20) };
    for written in transactions {
        writer.write(&mut connection, written).expect("written");
    }
    begin.elapsed()
}

struct BareWriter {
    /// Ids and positions.
    next: i64,
    filler: String,
}

impl BareWriter {
    fn write(&mut self, connection: &mut Connection, written: &Written) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        let mut event =
            transaction.prepare_cached("INSERT INTO event (pos, run, prev, body) VALUES (?1, ?2, ?3, ?4)")?;
        self.each(written.events, |id, body| event.execute(params![id, id, id - 1, body]))?;
        let mut payload =
            transaction.prepare_cached("INSERT INTO payload (id, run, body) VALUES (?1, ?2, ?3)")?;
        self.each(written.payloads, |id, body| payload.execute(params![id, id, body]))?;
        let mut key =
            transaction.prepare_cached("INSERT INTO run_key (flow, key, run) VALUES (?1, ?2, ?3)")?;
        self.each(written.keys, |id, _| key.execute(params!["full", format!("key-1800000000000-{id}"), id]))?;
        let mut run = transaction.prepare_cached(
            "INSERT INTO run (id, flow, state, parent, head, slot, local) VALUES (?1, ?2, ?3, NULL, ?4, NULL, 0)",
        )?;
        self.each(written.runs, |id, _| run.execute(params![id, "bare", "completed", id]))?;
        let mut wake = transaction.prepare_cached(
            "INSERT INTO wake (run, step, item, due, planned, heard, ready) VALUES (?1, 0, -1, ?2, ?2, NULL, ?3)",
        )?;
        self.each(written.wakes, |id, body| wake.execute(params![id, id, body]))?;
        let mut meta = transaction.prepare_cached(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?;
        for name in ["flushed", "last_id", "last_time"] {
            meta.execute(params![name, self.next])?;
        }
        drop((event, payload, key, run, wake, meta));
        transaction.commit()
    }

    /// So many rows, with as many bytes of text in all.
    fn each(
        &mut self,
        rows: Rows,
        mut insert: impl FnMut(i64, &str) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<()> {
        let each = usize::try_from(rows.bytes.checked_div(rows.count).unwrap_or(0)).expect("it is small");
        for _ in 0..rows.count {
            self.next += 1;
            insert(self.next, &self.filler[..each])?;
        }
        Ok(())
    }
}
