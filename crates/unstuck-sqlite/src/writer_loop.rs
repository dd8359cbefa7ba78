//! What writes: it takes all stages that wait, makes them one transaction, syncs once, and takes the log over in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use unstuck_store::contract::{Settled, StoreError};

use crate::error::store_error;
use crate::options::Options;
use crate::overlay::Published;
use crate::pending_transaction::PendingTransaction;
use crate::stats::WriteObserver;
use crate::telemetry::{self, Stopwatch};
use crate::writer::Message;
use crate::writer::write_group;
use crate::writer_claim::WriterClaim;

/// So many bytes must find room before stages are welcome again.
const PROBE: i64 = 64 * 1024;

/// What writes.
#[derive(Debug)]
pub(crate) struct WriterLoop {
    connection: Connection,
    claim: WriterClaim,
    pub(crate) max_group: usize,
    checkpoint_pages: u32,
    /// So many pages are in the write-ahead log.
    logged: Arc<AtomicU32>,
    /// A stage has failed: all that stand on it fail with it, until the store has started over.
    pub(crate) failed: Option<StoreError>,
    watch: WriteObserver,
    /// What readers are told.
    published: Arc<Published>,
}

impl WriterLoop {
    pub(crate) fn new(
        mut connection: Connection,
        options: &Options,
        claim: WriterClaim,
        watch: WriteObserver,
        published: Arc<Published>,
    ) -> Result<WriterLoop, StoreError> {
        let logged = Arc::new(AtomicU32::new(0));
        let pages = logged.clone();
        // In place of SQLite's own checkpoints, which keep it to themselves when a sync fails.
        let hook = move |_: &mut Wal, logged: i32| {
            pages.store(logged.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(store_error)?;
        let (max_group, checkpoint_pages) = (options.max_group.max(1), options.checkpoint_pages);
        Ok(WriterLoop {
            connection,
            claim,
            max_group,
            checkpoint_pages,
            logged,
            failed: None,
            watch,
            published,
        })
    }

    /// Writes what comes until the sender is gone. All that waits, at most `max_group`, is one commit; a reset or
    /// probe is handled in its place between them.
    pub(crate) fn run(&mut self, receiver: &Receiver<Message>, report: &Sender<Settled>) {
        let mut tell = |settled| {
            let _ = report.send(settled);
        };
        while let Ok(first) = receiver.recv() {
            let mut group = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Job(job) => group.push(*job),
                    Message::Reset => {
                        self.write(std::mem::take(&mut group), &mut tell);
                        self.failed = None;
                    }
                    Message::Probe(answer) => {
                        self.write(std::mem::take(&mut group), &mut tell);
                        let _ = answer.send(self.probe());
                    }
                }
                if group.len() < self.max_group {
                    next = receiver.try_recv().ok();
                }
            }
            self.write(group, &mut tell);
        }
    }

    /// Commits a group, publishes it to readers, and only then reports it as durable. After a failure every later
    /// stage fails too, until a reset.
    pub(crate) fn write(&mut self, mut group: Vec<PendingTransaction>, mut tell: impl FnMut(Settled)) {
        let Some(last) = group.last().map(|job| job.stage) else { return };
        if self.failed.is_none() {
            let watch = Stopwatch::start();
            match write_group(&mut self.connection, &self.claim, &group) {
                Ok(written) => {
                    // Before anybody is told that it is durable.
                    let fresh = group.iter_mut().map(|job| std::mem::take(&mut job.fresh));
                    self.published.publish(last, fresh);
                    telemetry::log_commit(&group, &written, &watch);
                    self.watch.tell(written);
                }
                Err(error) => {
                    telemetry::log_failed_commit(&group, &error);
                    self.failed = Some(error);
                }
            }
        }
        for job in group {
            let result = self.failed.clone().map_or(Ok(()), Err);
            tell(Settled { stage: job.id(), result });
        }
        if self.failed.is_none() && self.logged.load(Ordering::Relaxed) >= self.checkpoint_pages {
            self.failed = self.checkpoint(CheckpointMode::PASSIVE).err();
        }
        if self.failed.as_ref().is_some_and(|error| !error.is_transient()) {
            // Nothing is synced again after that: the next one to open it begins with what is there.
            keep_log(&self.connection);
        }
    }

    /// Copies the write-ahead log into the database, so that it can start over. If the disk is full or somebody reads
    /// old pages, the log grows until the next try.
    fn checkpoint(&self, mode: CheckpointMode) -> Result<(), StoreError> {
        let watch = Stopwatch::start();
        let taken_over = self.connection.wal_checkpoint_v2(rusqlite::DEFAULT_NAME, mode).map_err(store_error);
        tracing::debug!(pages = self.logged.load(Ordering::Relaxed), took = ?watch.took(), "log checkpointed");
        match taken_over {
            Err(error) if !error.is_transient() => Err(error),
            Err(_) | Ok(_) => Ok(()),
        }
    }

    /// Tests by a small write whether the disk has room. The log is restarted first, so that what was half written
    /// when there was none is left behind.
    pub(crate) fn probe(&mut self) -> Result<(), StoreError> {
        self.checkpoint(CheckpointMode::RESTART)?;
        let sql = "INSERT INTO meta (name, value) VALUES ('room', zeroblob(?1))
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        let transaction = self.claim.begin(&mut self.connection)?;
        transaction.execute(sql, [PROBE]).map_err(store_error)?;
        transaction.commit().map_err(store_error)
    }
}

/// Keeps SQLite from checkpointing when this connection closes: the write-ahead log stays as it is.
pub(crate) fn keep_log(connection: &Connection) {
    // It fails only for options that SQLite does not know.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}
