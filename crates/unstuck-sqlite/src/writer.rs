//! The writer as the store sees it, and how stages become rows.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, params};
use unstuck_core::event::Fact;
use unstuck_core::id::RunId;
use unstuck_store::contract::{Settled, StoreError};

use crate::bulks;
use crate::claim::Claim;
use crate::error::{broken, store_error};
use crate::errors;
use crate::job::{Entry, Job, MovedLease, Row, place};
use crate::listing::bits;
use crate::logs;
use crate::options::{Hand, Options};
use crate::pen::Pen;
use crate::record::{RecordRef, text, text_in};
use crate::rows;
use crate::stats::{Clock, Stats, Watch, Written};
use crate::sums;

/// What the thread is told.
pub(crate) enum Message {
    Job(Box<Job>),
    /// The store has read again what is durable: stages are welcome again after a failure.
    Reset,
    /// Is there room again?
    Probe(Sender<Result<(), StoreError>>),
}

/// The writer, as the store sees it.
#[derive(Debug)]
pub(crate) struct Writer {
    work: Work,
    outstanding: usize,
    watch: Watch,
    clock: Option<Clock>,
}

/// Where the work is done.
#[derive(Debug)]
enum Work {
    Elsewhere { sender: Option<Sender<Message>>, settled: Receiver<Settled>, thread: Option<JoinHandle<()>> },
    Here { pen: Pen, line: VecDeque<Job>, settled: VecDeque<Settled> },
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        options: &Options,
        claim: &Claim,
    ) -> Result<Writer, StoreError> {
        let watch = Watch::default();
        let mut pen = Pen::new(connection, options, claim.clone(), watch.clone())?;
        let work = match options.hand {
            Hand::Caller => Work::Here { pen, line: VecDeque::new(), settled: VecDeque::new() },
            Hand::Thread => {
                let (sender, receiver) = channel();
                let (report, settled) = channel();
                let thread = std::thread::spawn(move || pen.run(&receiver, &report));
                Work::Elsewhere { sender: Some(sender), settled, thread: Some(thread) }
            }
        };
        Ok(Writer { work, outstanding: 0, watch, clock: None })
    }

    /// For a store that is only read.
    pub(crate) fn nobody() -> Writer {
        let work = Work::Elsewhere { sender: None, settled: channel().1, thread: None };
        Writer { work, outstanding: 0, watch: Watch::default(), clock: None }
    }

    pub(crate) fn write(&mut self, job: Job) {
        self.outstanding += 1;
        if let Some(clock) = &mut self.clock {
            clock.begin();
        }
        match &mut self.work {
            // A writer that is gone shows in `settle`.
            Work::Elsewhere { sender: Some(sender), .. } => {
                let _ = sender.send(Message::Job(Box::new(job)));
            }
            Work::Elsewhere { sender: None, .. } => {}
            Work::Here { line, .. } => line.push_back(job),
        }
    }

    pub(crate) fn reset(&mut self) {
        match &mut self.work {
            Work::Elsewhere { sender: Some(sender), .. } => {
                let _ = sender.send(Message::Reset);
            }
            Work::Elsewhere { sender: None, .. } => {}
            Work::Here { pen, .. } => pen.failed = None,
        }
    }

    /// Looks whether there is room again, after there was none.
    pub(crate) fn probe(&mut self) -> Result<(), StoreError> {
        match &mut self.work {
            Work::Elsewhere { sender, .. } => {
                let Some(sender) = sender else {
                    return Err(StoreError::Away("it is open for reading only".into()));
                };
                let (answer, answered) = channel();
                let _ = sender.send(Message::Probe(answer));
                answered.recv().unwrap_or_else(|_| Err(broken("the writer has stopped")))
            }
            Work::Here { pen, .. } => pen.probe(),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The next report; with `wait`, once there is one.
    pub(crate) fn next(&mut self, wait: bool) -> Option<Settled> {
        if self.outstanding == 0 {
            return None;
        }
        let settled = match &mut self.work {
            Work::Elsewhere { settled, .. } if wait => settled.recv().ok(),
            Work::Elsewhere { settled, .. } => settled.try_recv().ok(),
            Work::Here { pen, line, settled } => {
                if wait && settled.is_empty() {
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

    /// Keeps statistics from now on.
    pub(crate) fn watch(&mut self) {
        self.watch.begin();
        self.clock = Some(Clock::new(self.outstanding));
    }

    /// The statistics, which end here.
    pub(crate) fn stats(&mut self) -> Stats {
        Stats {
            transactions: self.watch.end(),
            commits: self.clock.take().map(Clock::took).unwrap_or_default(),
        }
    }
}

impl Drop for Writer {
    /// Whatever is in line is written first.
    fn drop(&mut self) {
        match &mut self.work {
            Work::Elsewhere { sender, thread, .. } => {
                *sender = None;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            Work::Here { .. } => while self.next(true).is_some() {},
        }
    }
}

/// Makes these stages one transaction.
pub(crate) fn write_group(
    connection: &mut Connection,
    claim: &Claim,
    group: &[Job],
) -> Result<Written, StoreError> {
    let transaction = claim.begin(connection)?;
    let mut written = Written { stages: group.len() as u64, ..Written::default() };
    for job in group {
        write_job(&transaction, job, &mut written)?;
    }
    errors::count(&transaction, group)?;
    if let Some(last) = group.last() {
        put_number(&transaction, "flushed", last.flushed)?;
        put_number(&transaction, "last_id", last.last_id)?;
        put_number(&transaction, "last_time", last.at.0.cast_unsigned())?;
    }
    transaction.commit().map_err(store_error)?;
    Ok(written)
}

fn write_job(transaction: &Transaction<'_>, job: &Job, written: &mut Written) -> Result<(), StoreError> {
    let mut event =
        prepare(transaction, "INSERT INTO event (pos, run, prev, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut buffer = Vec::new();
    for Entry { pos, run, prev, event: happened, wakes } in &job.entries {
        let body = text_in(&mut buffer, &RecordRef { event: happened, wakes: wakes.as_ref() })?;
        written.events.add(body.len());
        let sum = sums::of_event(*pos, *run, *prev, body);
        event
            .execute(params![number(*pos)?, number(run.0)?, number(*prev)?, body, sum])
            .map_err(store_error)?;
    }
    let mut payload =
        prepare(transaction, "INSERT INTO payload (id, run, body, sum) VALUES (?1, ?2, ?3, ?4)")?;
    for (run, id, json) in &job.payloads {
        written.payloads.add(json.text().len());
        let sum = sums::of_payload(*id, *run, json.text());
        payload.execute(params![number(id.0)?, number(run.0)?, json.text(), sum]).map_err(store_error)?;
    }
    let mut key = prepare(transaction, "INSERT INTO run_key (flow, key, run) VALUES (?1, ?2, ?3)")?;
    for (flow, name, run) in &job.keys {
        written.keys.add(flow.len() + name.len());
        key.execute(params![&**flow, &**name, number(run.0)?]).map_err(store_error)?;
    }
    for lease in &job.leases {
        write_lease(transaction, lease)?;
    }
    for (run, unit) in &job.ended_leases {
        let (step, item) = place(Some(*unit));
        let sql = "DELETE FROM lease WHERE run = ?1 AND step = ?2 AND item = ?3";
        prepare(transaction, sql)?.execute(params![number(run.0)?, step, item]).map_err(store_error)?;
    }
    for row in &job.rows {
        write_row(transaction, row, written)?;
    }
    let mut notice = prepare(transaction, "INSERT INTO notice (id, body, sum) VALUES (?1, ?2, ?3)")?;
    for (id, body) in &job.notices {
        let body = text(body)?;
        notice.execute(params![number(id.0)?, body, sums::sum(&[id.0], &[&body])]).map_err(store_error)?;
    }
    let mut delivered = prepare(transaction, "DELETE FROM notice WHERE id = ?1")?;
    for id in &job.delivered {
        delivered.execute([number(id.0)?]).map_err(store_error)?;
    }
    errors::write(transaction, &job.errors)?;
    logs::write(transaction, &job.logs)?;
    bulks::write(transaction, &job.bulks)?;
    for (run, head) in &job.forgotten {
        forget(transaction, *run, *head)?;
    }
    let downtimes = job.downtimes.as_ref().map(|downtimes| text(downtimes).map(|text| ("downtimes", text)));
    let clock = job.clock.as_ref().map(|clock| text(clock).map(|text| ("clock", text)));
    for kept in downtimes.into_iter().chain(clock) {
        let (name, value) = kept?;
        let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        prepare(transaction, sql)?.execute(params![name, value]).map_err(store_error)?;
    }
    Ok(())
}

/// Writes the row of a run.
pub(crate) const PUT_RUN: &str =
    "INSERT INTO run (id, flow, state, parent, head, slot, local, rests) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, head = excluded.head, slot = excluded.slot,
    local = excluded.local, rests = excluded.rests";

fn write_row(transaction: &Transaction<'_>, row: &Row, written: &mut Written) -> Result<(), StoreError> {
    let parent = row.parent.map(|parent| number(parent.0)).transpose()?;
    let slot = row.slot.as_ref().map(text).transpose()?;
    prepare(transaction, PUT_RUN)?
        .execute(params![
            number(row.run.0)?,
            &*row.flow,
            row.state,
            parent,
            number(row.head)?,
            slot,
            row.is_local,
            bits(row.rests)
        ])
        .map_err(store_error)?;
    written.runs.add(row.flow.len() + row.state.len());
    if row.had_wakes {
        for sql in ["DELETE FROM wake WHERE run = ?1", "DELETE FROM lease WHERE run = ?1"] {
            prepare(transaction, sql)?.execute([number(row.run.0)?]).map_err(store_error)?;
        }
    }
    let insert =
        "INSERT INTO wake (run, step, item, due, planned, heard, ready) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for wake in &row.wakes {
        let ready = wake.ready.as_ref().map(text).transpose()?;
        written.wakes.add(ready.as_ref().map_or(0, String::len));
        let due = wake.timer.map(|timer| timer.due.0);
        let planned = wake.timer.map(|timer| timer.set.0);
        let heard = wake.timer.and_then(|timer| timer.heard).map(|heard| heard.0);
        prepare(transaction, insert)?
            .execute(params![number(row.run.0)?, wake.step, wake.item, due, planned, heard, ready])
            .map_err(store_error)?;
    }
    Ok(())
}

/// Removes a run with its history, its payloads, its key, its errors and whatever would wake it.
fn forget(transaction: &Transaction<'_>, run: RunId, head: u64) -> Result<(), StoreError> {
    let id = number(run.0)?;
    // What it names may have been written by its parent or child, which is forgotten with it.
    let mut payload = prepare(transaction, "DELETE FROM payload WHERE id = ?1")?;
    let mut event = prepare(transaction, "DELETE FROM event WHERE pos = ?1")?;
    let mut pos = head;
    while pos > 0 {
        let (record, prev) = rows::record(transaction, pos)?;
        let mut payloads = Vec::new();
        record.event.payloads(|payload| payloads.push(payload));
        for named in payloads {
            payload.execute([number(named.0)?]).map_err(store_error)?;
        }
        let is_start = matches!(record.event.facts.first(), Some(Fact::Started(_)));
        if let Some(Fact::Started(started)) = record.event.facts.first().filter(|_| is_start)
            && let Some(key) = &started.key
        {
            let sql = "DELETE FROM run_key WHERE key = ?1 AND run = ?2
                AND flow = (SELECT name FROM flow WHERE id = ?3)";
            let flow = number(started.flow.0)?;
            prepare(transaction, sql)?.execute(params![&**key, id, flow]).map_err(store_error)?;
        }
        event.execute([number(pos)?]).map_err(store_error)?;
        pos = prev;
    }
    for sql in [
        "DELETE FROM wake WHERE run = ?1",
        "DELETE FROM lease WHERE run = ?1",
        "DELETE FROM run WHERE id = ?1",
    ] {
        prepare(transaction, sql)?.execute([id]).map_err(store_error)?;
    }
    logs::forget(transaction, run)?;
    errors::forget(transaction, run)
}

fn write_lease(transaction: &Transaction<'_>, lease: &MovedLease) -> Result<(), StoreError> {
    let sql = "INSERT INTO lease (run, step, item, due, planned, heard) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (run, step, item) DO UPDATE SET due = excluded.due, planned = excluded.planned,
        heard = excluded.heard";
    let MovedLease { run, step, item, timer } = lease;
    let heard = timer.heard.unwrap_or(timer.set);
    prepare(transaction, sql)?
        .execute(params![number(run.0)?, step, item, timer.due.0, timer.set.0, heard.0])
        .map_err(store_error)?;
    Ok(())
}

pub(crate) fn prepare<'a>(
    transaction: &'a Transaction<'_>,
    sql: &str,
) -> Result<rusqlite::CachedStatement<'a>, StoreError> {
    transaction.prepare_cached(sql).map_err(store_error)
}

pub(crate) fn put_number(transaction: &Transaction<'_>, name: &str, value: u64) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    prepare(transaction, sql)?.execute(params![name, value.cast_signed()]).map_err(store_error)?;
    Ok(())
}

/// Ids and positions have 63 bits, which SQLite can keep.
pub(crate) fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| broken(format!("{value} is too large for a row")))
}
