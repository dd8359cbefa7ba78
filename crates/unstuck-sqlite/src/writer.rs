//! The writer as the store sees it, and how stages become rows.

use crate::table::{
    event, lease, meta, notice, number, payload, prepare, run, run_key, run_label, run_snapshot,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction};
use unstuck_core::event::Fact;
use unstuck_core::id::RunId;
use unstuck_store::contract::{MAX_WAIT, Settled, StoreError};

use crate::error::{broken_store, store_error};
use crate::log_entry::to_text;
use crate::options::{Options, WriteMode};
use crate::overlay::Published;
use crate::pending_transaction::PendingTransaction;
use crate::stats::{StageTimer, Stats, WriteObserver, Written};
use crate::table::attempt_log;
use crate::table::audit;
use crate::table::bulk;
use crate::table::error::{self, OpenChanges};
use crate::table::idempotency;
use crate::table::run_count::CountChanges;
use crate::table::schedule;
use crate::table::token;
use crate::writer_claim::WriterClaim;
use crate::writer_loop::WriterLoop;

/// How long to wait for the next stage that settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    /// No longer than anybody waits at once.
    AWhile,
    /// As long as it takes.
    Endless,
}

/// What the thread is told.
pub(crate) enum Message {
    Job(Box<PendingTransaction>),
    /// The store has read again what is durable: stages are welcome again after a failure.
    Reset,
    /// Is there room again?
    Probe(Sender<Result<(), StoreError>>),
}

/// The writer, as the store sees it.
#[derive(Debug)]
pub(crate) struct Writer {
    work: WriterTask,
    outstanding: usize,
    watch: WriteObserver,
    clock: Option<StageTimer>,
}

/// Where the work is done.
#[derive(Debug)]
enum WriterTask {
    Elsewhere { sender: Option<Sender<Message>>, settled: Receiver<Settled>, thread: Option<JoinHandle<()>> },
    Here { pen: WriterLoop, line: VecDeque<PendingTransaction>, settled: VecDeque<Settled> },
}

impl Writer {
    /// Starts the writer: on a thread of its own, or on the thread of whoever waits, so that everything happens in
    /// the same order every time.
    pub(crate) fn start(
        connection: Connection,
        options: &Options,
        claim: &WriterClaim,
        published: Arc<Published>,
    ) -> Result<Writer, StoreError> {
        let watch = WriteObserver::default();
        let mut pen = WriterLoop::new(connection, options, claim.clone(), watch.clone(), published)?;
        let work = match options.hand {
            WriteMode::Caller => WriterTask::Here { pen, line: VecDeque::new(), settled: VecDeque::new() },
            WriteMode::Thread => {
                let (sender, receiver) = channel();
                let (report, settled) = channel();
                let thread = std::thread::spawn(move || pen.run(&receiver, &report));
                WriterTask::Elsewhere { sender: Some(sender), settled, thread: Some(thread) }
            }
        };
        Ok(Writer { work, outstanding: 0, watch, clock: None })
    }

    /// Queues a transaction. If the writer has gone, `next_settled` reports it.
    pub(crate) fn write(&mut self, job: PendingTransaction) {
        self.outstanding += 1;
        if let Some(clock) = &mut self.clock {
            clock.begin();
        }
        match &mut self.work {
            // A writer that is gone shows in `settle`.
            WriterTask::Elsewhere { sender: Some(sender), .. } => {
                let _ = sender.send(Message::Job(Box::new(job)));
            }
            WriterTask::Elsewhere { sender: None, .. } => {}
            WriterTask::Here { line, .. } => line.push_back(job),
        }
    }

    /// Accepts stages again after a failure: memory has been reloaded from what is durable.
    pub(crate) fn reset(&mut self) {
        match &mut self.work {
            WriterTask::Elsewhere { sender: Some(sender), .. } => {
                let _ = sender.send(Message::Reset);
            }
            WriterTask::Elsewhere { sender: None, .. } => {}
            WriterTask::Here { pen, .. } => pen.failed = None,
        }
    }

    /// Tests by a small write whether the disk has room again.
    pub(crate) fn probe(&mut self) -> Result<(), StoreError> {
        match &mut self.work {
            WriterTask::Elsewhere { sender, .. } => {
                let Some(sender) = sender else {
                    return Err(StoreError::Away("it is open for reading only".into()));
                };
                let (answer, answered) = channel();
                let _ = sender.send(Message::Probe(answer));
                answered.recv().unwrap_or_else(|_| Err(broken_store("the writer has stopped")))
            }
            WriterTask::Here { pen, .. } => pen.probe(),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The next report; with `wait`, once there is one.
    pub(crate) fn next_settled(&mut self, patience: Patience) -> Option<Settled> {
        if self.outstanding == 0 {
            return None;
        }
        let settled = match &mut self.work {
            WriterTask::Elsewhere { settled, .. } => match patience {
                Patience::None => settled.try_recv().ok(),
                Patience::AWhile => settled.recv_timeout(MAX_WAIT).ok(),
                Patience::Endless => settled.recv().ok(),
            },
            WriterTask::Here { pen, line, settled } => {
                if patience != Patience::None && settled.is_empty() {
                    let group = line.drain(..line.len().min(pen.max_group)).collect();
                    pen.write(group, |report| settled.push_back(report));
                }
                settled.pop_front()
            }
        };
        self.outstanding -= usize::from(settled.is_some());
        if let (Some(clock), Some(_)) = (&mut self.clock, &settled) {
            clock.end();
        }
        settled
    }

    /// Collects statistics from now on.
    pub(crate) fn watch(&mut self) {
        self.watch.begin();
        self.clock = Some(StageTimer::new(self.outstanding));
    }

    /// Returns the statistics, and stops collecting.
    pub(crate) fn stats(&mut self) -> Stats {
        Stats {
            transactions: self.watch.end(),
            commits: self.clock.take().map(StageTimer::took).unwrap_or_default(),
        }
    }
}

impl Drop for Writer {
    /// Whatever is in line is written first.
    fn drop(&mut self) {
        match &mut self.work {
            WriterTask::Elsewhere { sender, thread, .. } => {
                *sender = None;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            WriterTask::Here { .. } => while self.next_settled(Patience::Endless).is_some() {},
        }
    }
}

/// Writes these stages in one transaction: one sync makes all of them durable.
pub(crate) fn write_group(
    connection: &mut Connection,
    claim: &WriterClaim,
    group: &[PendingTransaction],
) -> Result<Written, StoreError> {
    let transaction = claim.begin(connection)?;
    let mut written = Written { stages: group.len() as u64, ..Written::default() };
    let mut counts = CountChanges::default();
    let mut open = OpenChanges::default();
    for job in group {
        write_transaction(&transaction, job, &mut written, &mut counts, &mut open)?;
    }
    counts.write(&transaction)?;
    open.write(&transaction)?;
    error::count_recorded(&transaction, group)?;
    if let Some(last) = group.last() {
        meta::put_number(&transaction, "stage", last.stage)?;
        meta::put_number(&transaction, "end", last.end)?;
        meta::put_number(&transaction, "flushed", last.flushed)?;
        meta::put_number(&transaction, "last_id", last.last_id)?;
        meta::put_number(&transaction, "last_time", last.at.0.cast_unsigned())?;
    }
    transaction.commit().map_err(store_error)?;
    Ok(written)
}

/// Writes all parts of one stage. The runs that it forgets are deleted last, so that nothing of them is written
/// after.
fn write_transaction(
    transaction: &Transaction<'_>,
    job: &PendingTransaction,
    written: &mut Written,
    counts: &mut CountChanges,
    open: &mut OpenChanges,
) -> Result<(), StoreError> {
    event::append_events(transaction, &job.entries, written)?;
    payload::write_payloads(transaction, &job.payloads, written)?;
    run_key::write_keys(transaction, &job.keys, written)?;
    run_label::write_labels(transaction, &job.labels, written)?;
    for lease in &job.leases {
        lease::write_lease(transaction, lease)?;
    }
    for (run, unit) in &job.ended_leases {
        lease::delete_lease(transaction, *run, *unit)?;
    }
    run::write_rows(transaction, &job.rows, written, counts)?;
    notice::write_notices(transaction, &job.notices)?;
    notice::delete_notices(transaction, &job.delivered)?;
    notice::write_deliveries(transaction, &job.postponed)?;
    error::write_errors(transaction, &job.errors, open)?;
    attempt_log::write_logs(transaction, &job.logs)?;
    bulk::write_bulks(transaction, &job.things, &job.results)?;
    schedule::write_schedules(transaction, &job.things)?;
    idempotency::write_records(transaction, &job.idempotency)?;
    audit::write_entries(transaction, &job.audit)?;
    token::write_uses(transaction, &job.token_uses)?;
    for (run, head) in &job.forgotten {
        delete_run(transaction, *run, *head, counts, open)?;
    }
    if let Some(downtimes) = &job.downtimes {
        meta::put_text(transaction, "downtimes", &to_text(downtimes)?)?;
    }
    if let Some(clock) = &job.clock {
        meta::put_text(transaction, "clock", &to_text(clock)?)?;
    }
    Ok(())
}

/// Deletes a run with its history, payloads, key, errors and wakeups; its counts go with it.
fn delete_run(
    transaction: &Transaction<'_>,
    run: RunId,
    head: u64,
    counts: &mut CountChanges,
    open: &mut OpenChanges,
) -> Result<(), StoreError> {
    let id = number(run.0)?;
    // What it names may have been written by its parent or child, which is forgotten with it.
    let mut payload = prepare(transaction, "DELETE FROM payload WHERE id = ?1")?;
    let mut event = prepare(transaction, "DELETE FROM event WHERE pos = ?1")?;
    let mut pos = head;
    while pos > 0 {
        let (deleted, prev) = event::load_event(transaction, pos)?;
        let mut payloads = Vec::new();
        deleted.for_each_payload(|payload| payloads.push(payload));
        for named in payloads {
            payload.execute([number(named.0)?]).map_err(store_error)?;
        }
        if let Some(Fact::Started(started)) = deleted.facts.first()
            && let Some(key) = &started.key
        {
            run_key::delete_key(transaction, run, started.flow, key)?;
        }
        run_label::forget_labels(transaction, run, &deleted)?;
        event.execute([number(pos)?]).map_err(store_error)?;
        pos = prev;
    }
    counts.remove_row(transaction, run)?;
    for sql in [
        "DELETE FROM event_mark WHERE run = ?1",
        "DELETE FROM wake WHERE run = ?1",
        "DELETE FROM lease WHERE run = ?1",
        "DELETE FROM run WHERE id = ?1",
    ] {
        prepare(transaction, sql)?.execute([id]).map_err(store_error)?;
    }
    run_snapshot::delete_snapshot(transaction, run)?;
    attempt_log::delete_logs(transaction, run)?;
    error::delete_errors(transaction, run, open)
}
