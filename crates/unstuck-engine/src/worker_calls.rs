//! Calls of workers outside of this process: one carries reports and offers room, and is answered once, with an answer to
//! each report and the attempts that were handed to the worker in the same commit.
//!
//! Nobody waits in a thread. A call is a record here until it is complete: when all that it reports is durable, or, if it
//! reports nothing, when there is something to tell or its time is up. What is handed to a worker whose call was answered
//! already is kept a moment for its next one. Lengths of time are by a clock that nobody sets.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;
use unstuck_store::contract::Store;

use crate::engine::Engine;
use crate::executor::{ExecutorReport, Job};
use crate::request::{EngineError, Output, Request, Ticket};

/// A call may wait so long at most.
pub const MAX_WAIT: Millis = Millis::seconds(60);
/// What was handed to a worker and not delivered is kept so long for its next call; then it is released.
const KEEP_UNDELIVERED: Millis = Millis::seconds(5);
/// A worker without a call for so long is forgotten until it calls again. What it has is another matter: its leases decide.
const WORKER_TIMEOUT: Millis = Millis::seconds(60);

/// Who calls, and what it takes.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Not an executor of this process.
    pub worker: Worker,
    /// The queues that it takes from.
    pub queues: Arc<[Arc<str>]>,
    /// How much it can carry in all.
    pub max_load: u32,
}

/// One call of a worker.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub caller: Caller,
    /// How much load this call may bring, once what it reports as ended is over.
    pub room: u32,
    /// How many past attempts come with each job, at most.
    pub history: usize,
    /// What it says about attempts, in order.
    pub reports: Vec<(AttemptId, Report)>,
    /// How long it waits where it reports nothing and there is nothing to tell.
    pub wait: Millis,
}

/// What a call is answered with.
#[derive(Debug, Default)]
pub struct Exchanged {
    /// An answer to each report, in order.
    pub answers: Vec<Result<Answer, EngineError>>,
    pub jobs: Vec<Job>,
    /// Attempts that were taken away from the worker since its last answer.
    pub lost: Vec<LostAttempt>,
}

/// An attempt that is no longer its worker's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostAttempt {
    pub attempt: AttemptId,
    pub why: String,
}

type WorkerKey = (Arc<str>, u64);

/// The open calls, and the workers that have called lately.
#[derive(Default)]
pub struct WorkerCalls {
    calls: FxHashMap<Ticket, Call>,
    workers: FxHashMap<WorkerKey, CallingWorker>,
    /// The reports that are not answered yet.
    reports: FxHashMap<Ticket, ReportPlace>,
    /// When calls have waited long enough, and when workers or what was kept for them is given up.
    deadlines: BTreeSet<(Millis, Deadline)>,
    /// Calls that may be complete.
    touched: Vec<Ticket>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    Call(Ticket),
    Worker(WorkerKey),
}

/// Where the answer to a report belongs.
struct ReportPlace {
    call: Ticket,
    place: usize,
    attempt: AttemptId,
}

struct Call {
    worker: WorkerKey,
    /// The room that it offers still.
    room: u32,
    /// How many reports are not answered yet.
    unanswered: usize,
    answers: Vec<Option<Result<Answer, EngineError>>>,
    jobs: Vec<(Job, u32)>,
    /// When it has waited long enough, until it has.
    waits_until: Option<Millis>,
}

struct CallingWorker {
    caller: Caller,
    /// Its open calls, the oldest first.
    calls: VecDeque<Ticket>,
    /// What it was handed after its call was answered, and since when.
    undelivered: Vec<Job>,
    undelivered_since: Millis,
    /// What was taken away from it and it was not told.
    lost: Vec<LostAttempt>,
    /// When it is looked at again: it may be silent, or what was kept for it is old.
    looked_at: Millis,
    heard: Millis,
}

impl WorkerCalls {
    /// Takes a call in. `next_ticket` gives each of its reports a ticket.
    ///
    /// For each worker, what it may be handed in all is what it holds and the room of its open calls, less what waits here to
    /// be delivered. So room counts once, whichever call brings what was handed out for it.
    pub fn begin<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        ticket: Ticket,
        exchange: Exchange,
        now: Millis,
        mut next_ticket: impl FnMut() -> Ticket,
    ) {
        let Exchange { caller, room, history, reports, wait } = exchange;
        let room = room.min(caller.max_load);
        let ending = ending_load(engine, &caller.worker, &reports);
        let has_reports = !reports.is_empty();
        let key = key_of(&caller.worker);
        let mut call = Call {
            worker: key.clone(),
            room,
            unanswered: reports.len(),
            answers: reports.iter().map(|_| None).collect(),
            jobs: Vec::new(),
            waits_until: None,
        };
        for (place, (attempt, report)) in reports.into_iter().enumerate() {
            let report_ticket = next_ticket();
            self.reports.insert(report_ticket, ReportPlace { call: ticket, place, attempt });
            let command = Command::Report { attempt, report };
            engine.submit(Request::Command { ticket: report_ticket, run: attempt.run, command });
        }
        // The room of what this call ends comes back with each report, so that what follows from it is handed over first.
        engine.add_room(&caller, room, history);
        engine.withdraw_room(&caller.worker, ending);
        let worker = self.worker_mut(key, caller, now);
        worker.calls.push_back(ticket);
        for job in worker.undelivered.drain(..) {
            let load = engine.load_of(job.attempt, &worker.caller.worker).unwrap_or(0);
            call.room = call.room.saturating_sub(load);
            call.jobs.push((job, load));
        }
        if !has_reports {
            let until = now.plus(wait.min(MAX_WAIT));
            call.waits_until = Some(until);
            self.deadlines.insert((until, Deadline::Call(ticket)));
        }
        self.calls.insert(ticket, call);
        self.touched.push(ticket);
    }

    /// Whoever made this call does not wait for its answer any more: it is answered as soon as its reports are, and what it was
    /// handed is kept for the next one.
    pub fn withdraw<S: Store>(&mut self, engine: &mut Engine<S>, ticket: Ticket, now: Millis) {
        let Some(call) = self.calls.get_mut(&ticket) else { return };
        let (jobs, key) = (std::mem::take(&mut call.jobs), call.worker.clone());
        let loads = jobs.iter().map(|(_, load)| *load).fold(0, u32::saturating_add);
        let room = std::mem::take(&mut call.room).saturating_add(loads);
        if let Some(until) = call.waits_until.replace(now) {
            self.deadlines.remove(&(until, Deadline::Call(ticket)));
        }
        if let Some(worker) = self.workers.get(&key) {
            engine.withdraw_room(&worker.caller.worker, room);
        }
        for (job, _) in jobs {
            self.keep_undelivered(&key, job, now);
        }
        self.touched.push(ticket);
    }

    /// Ends every wait: the engine stops, and whoever waits is told at once.
    pub fn end_waits(&mut self, now: Millis) {
        for (ticket, call) in &mut self.calls {
            if let Some(until) = call.waits_until.replace(now) {
                self.deadlines.remove(&(until, Deadline::Call(*ticket)));
            }
            self.touched.push(*ticket);
        }
    }

    /// Takes out of `outputs` what is for workers that call, and gives the calls that are complete by `now`, with their
    /// answers.
    pub fn take_outputs<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        outputs: &mut Vec<Output>,
        now: Millis,
    ) -> Vec<(Ticket, Exchanged)> {
        if self.workers.is_empty() {
            return Vec::new();
        }
        let mut others = Vec::with_capacity(outputs.len());
        for output in outputs.drain(..) {
            others.extend(self.take_output(engine, output, now));
        }
        *outputs = others;
        self.take_due(engine, now);
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let answered = touched.into_iter();
        answered.filter_map(|ticket| Some((ticket, self.answer(engine, ticket, now)?))).collect()
    }

    /// When something is to be done here at the latest.
    pub fn next_due(&self) -> Option<Millis> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// How many calls are open.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn worker_mut(&mut self, key: WorkerKey, caller: Caller, now: Millis) -> &mut CallingWorker {
        let deadlines = &mut self.deadlines;
        let worker = self.workers.entry(key).or_insert_with_key(|key| {
            let looked_at = now.plus(WORKER_TIMEOUT);
            deadlines.insert((looked_at, Deadline::Worker(key.clone())));
            CallingWorker {
                caller: caller.clone(),
                calls: VecDeque::new(),
                undelivered: Vec::new(),
                undelivered_since: now,
                lost: Vec::new(),
                looked_at,
                heard: now,
            }
        });
        (worker.caller, worker.heard) = (caller, now);
        worker
    }

    /// Takes an output in if it is for a worker that calls; gives it back if not.
    fn take_output<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        output: Output,
        now: Millis,
    ) -> Option<Output> {
        match output {
            Output::Reply { ticket, result } => {
                let Some(report) = self.reports.remove(&ticket) else {
                    return Some(Output::Reply { ticket, result });
                };
                self.take_answer(engine, &report, result);
            }
            Output::Dispatch { worker, job } => {
                let key = key_of(&worker);
                if !self.workers.contains_key(&key) {
                    return Some(Output::Dispatch { worker, job });
                }
                self.take_job(engine, &key, job, now);
            }
            Output::Interrupt { worker, attempt, why } => {
                let key = key_of(&worker);
                if !self.workers.contains_key(&key) {
                    return Some(Output::Interrupt { worker, attempt, why });
                }
                self.take_interrupt(engine, &key, LostAttempt { attempt, why });
            }
            Output::CleanUp { .. } | Output::Happened { .. } | Output::Forgotten { .. } => {
                return Some(output);
            }
        }
        None
    }

    fn take_answer<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        report: &ReportPlace,
        result: Result<Answer, EngineError>,
    ) {
        let Some(call) = self.calls.get_mut(&report.call) else { return };
        if let Err(EngineError::Refused(Refusal::Void(_))) = &result
            && let Some(worker) = self.workers.get(&call.worker)
        {
            // It was taken away by another server, which could not tell us.
            forget_delivered(engine, &worker.caller.worker, report.attempt);
        }
        call.answers[report.place] = Some(result);
        call.unanswered -= 1;
        if call.unanswered == 0 {
            self.touched.push(report.call);
        }
    }

    /// An attempt was handed to a worker: its oldest call with room brings it, else its next call.
    fn take_job<S: Store>(&mut self, engine: &Engine<S>, key: &WorkerKey, job: Job, now: Millis) {
        let Some(worker) = self.workers.get(key) else { return };
        let load = engine.load_of(job.attempt, &worker.caller.worker).unwrap_or(0);
        let mut calls = worker.calls.iter();
        let open = calls.find(|ticket| self.calls.get(*ticket).is_some_and(|call| call.room > 0)).copied();
        match open.and_then(|ticket| Some((ticket, self.calls.get_mut(&ticket)?))) {
            Some((ticket, call)) => {
                // One that must run alone has the load of the whole worker, whatever that is.
                call.room = call.room.saturating_sub(load);
                call.jobs.push((job, load));
                self.touched.push(ticket);
            }
            None => self.keep_undelivered(key, job, now),
        }
    }

    fn keep_undelivered(&mut self, key: &WorkerKey, job: Job, now: Millis) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        if worker.undelivered.is_empty() {
            worker.undelivered_since = now;
            let (looked_at, sooner) = (worker.looked_at, now.plus(KEEP_UNDELIVERED));
            if sooner < looked_at {
                self.deadlines.remove(&(looked_at, Deadline::Worker(key.clone())));
                self.deadlines.insert((sooner, Deadline::Worker(key.clone())));
                worker.looked_at = sooner;
            }
        }
        worker.undelivered.push(job);
    }

    /// An attempt is no longer its worker's. One that was not delivered yet is not heard of at all; else a waiting call tells
    /// it at once.
    fn take_interrupt<S: Store>(&mut self, engine: &mut Engine<S>, key: &WorkerKey, lost: LostAttempt) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        let attempt = lost.attempt;
        if let Some(place) = worker.undelivered.iter().position(|job| job.attempt == attempt) {
            worker.undelivered.remove(place);
            engine.forget_attempt(attempt, &worker.caller.worker);
            return;
        }
        for ticket in &worker.calls {
            let Some(call) = self.calls.get_mut(ticket) else { continue };
            if let Some(place) = call.jobs.iter().position(|(job, _)| job.attempt == attempt) {
                let (_, load) = call.jobs.remove(place);
                call.room = call.room.saturating_add(load).min(worker.caller.max_load);
                engine.forget_attempt(attempt, &worker.caller.worker);
                return;
            }
        }
        forget_delivered(engine, &worker.caller.worker, attempt);
        worker.lost.push(lost);
        self.touched.extend(&worker.calls);
    }

    /// Calls that have waited long enough, and workers to look at.
    fn take_due<S: Store>(&mut self, engine: &mut Engine<S>, now: Millis) {
        while let Some((due, _)) = self.deadlines.first()
            && *due <= now
            && let Some((_, deadline)) = self.deadlines.pop_first()
        {
            match deadline {
                Deadline::Call(ticket) => self.touched.push(ticket),
                Deadline::Worker(key) => self.look_at_worker(engine, key, now),
            }
        }
    }

    /// What was not delivered for too long is released, and a worker that was silent for too long is forgotten.
    fn look_at_worker<S: Store>(&mut self, engine: &mut Engine<S>, key: WorkerKey, now: Millis) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        if !worker.undelivered.is_empty() && worker.undelivered_since.plus(KEEP_UNDELIVERED) <= now {
            for job in worker.undelivered.drain(..) {
                engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, Report::Release)));
            }
        }
        if !worker.calls.is_empty() {
            worker.heard = now;
        }
        if worker.heard.plus(WORKER_TIMEOUT) <= now && worker.undelivered.is_empty() {
            engine.dismiss(&worker.caller.worker);
            self.workers.remove(&key);
            return;
        }
        worker.looked_at = worker.heard.plus(WORKER_TIMEOUT);
        if !worker.undelivered.is_empty() {
            worker.looked_at = worker.looked_at.min(worker.undelivered_since.plus(KEEP_UNDELIVERED));
        }
        self.deadlines.insert((worker.looked_at, Deadline::Worker(key)));
    }

    /// Answers a call, if it is complete. The room that is left of it is withdrawn.
    fn answer<S: Store>(&mut self, engine: &mut Engine<S>, ticket: Ticket, now: Millis) -> Option<Exchanged> {
        let call = self.calls.get(&ticket)?;
        let worker = self.workers.get_mut(&call.worker)?;
        let is_waiting = call.waits_until.is_some_and(|until| until > now);
        if call.unanswered > 0 || is_waiting && call.jobs.is_empty() && worker.lost.is_empty() {
            return None;
        }
        let call = self.calls.remove(&ticket)?;
        if let Some(until) = call.waits_until {
            self.deadlines.remove(&(until, Deadline::Call(ticket)));
        }
        worker.calls.retain(|open| *open != ticket);
        worker.heard = now;
        engine.withdraw_room(&worker.caller.worker, call.room);
        Some(Exchanged {
            answers: call.answers.into_iter().flatten().collect(),
            jobs: call.jobs.into_iter().map(|(job, _)| job).collect(),
            lost: std::mem::take(&mut worker.lost),
        })
    }
}

/// An attempt that a worker was told of is not its own any more. It states itself when it has room again.
fn forget_delivered<S: Store>(engine: &mut Engine<S>, worker: &Worker, attempt: AttemptId) {
    if let Some(load) = engine.forget_attempt(attempt, worker) {
        engine.withdraw_room(worker, load);
    }
}

/// The load of what these reports end, as far as this server has handed it out.
fn ending_load<S: Store>(engine: &Engine<S>, worker: &Worker, reports: &[(AttemptId, Report)]) -> u32 {
    let ended = reports.iter().filter(|(_, report)| report.ends_attempt());
    ended.filter_map(|(attempt, _)| engine.load_of(*attempt, worker)).fold(0, u32::saturating_add)
}

fn key_of(worker: &Worker) -> WorkerKey {
    (worker.name.clone(), worker.incarnation)
}
