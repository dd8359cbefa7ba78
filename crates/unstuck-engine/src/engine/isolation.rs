//! When a batch goes wrong: its parts are decided again, each alone, until the one that is to blame is found.
//!
//! A batch goes wrong when the store finds a conflict in it, or when deciding it panics. Then nothing of it has happened.
//! Every kind of work has its turn, one thing in a batch, and what follows from it is stored rather than done in the same
//! batch. What goes wrong alone several times is refused, if somebody asked for it; else its run is set aside.

use std::any::Any;

use rustc_hash::FxHashMap;
use unstuck_core::command::{Notice, NoticeBody};
use unstuck_core::id::RunId;
use unstuck_core::thing::ThingRef;
use unstuck_store::contract::{NoticeId, Store, StoreError};

use super::Engine;
use super::settling::{OutstandingBatch, STORE_RETRY};
use super::telemetry;
use crate::executor::ExecutorReport;
use crate::request::{EngineError, Output, Request};

/// As often as this something may go wrong alone.
const MAX_FAILURES: u32 = 3;

/// The kinds of work in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    Claim,
    Due,
    Admission,
    Notice,
    Request,
    Bulk,
}

impl WorkKind {
    const ALL: [WorkKind; 6] = [
        WorkKind::Claim,
        WorkKind::Due,
        WorkKind::Admission,
        WorkKind::Notice,
        WorkKind::Request,
        WorkKind::Bulk,
    ];
}

/// How much of each kind a batch has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkCounts([usize; WorkKind::ALL.len()]);

impl WorkCounts {
    pub(crate) fn add(&mut self, work: WorkKind, count: usize) {
        self.0[work as usize] += count;
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().sum()
    }

    pub(super) fn of(&self, work: WorkKind) -> usize {
        self.0[work as usize]
    }
}

/// The one thing that was decided in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Suspect {
    /// Something that the engine does about this run.
    Run(RunId),
    /// A stored notice.
    Notice { id: NoticeId, to: ThingRef, starts: bool },
    /// The first request in line.
    Request,
}

impl Suspect {
    pub(super) fn notice(id: NoticeId, notice: &Notice) -> Suspect {
        let starts = matches!(notice.body, NoticeBody::StartChild(_));
        Suspect::Notice { id, to: notice.to, starts }
    }
}

/// What went wrong with a batch.
pub(super) enum BatchFailure {
    Store(StoreError),
    /// A defect of ours, as it was told.
    Panic(String),
}

/// One thing at a time.
#[derive(Debug)]
pub(super) struct Isolation {
    turn: WorkKind,
    /// How much of each kind is left of the batch that went wrong.
    left: WorkCounts,
    /// How often something about these has gone wrong alone.
    failures: FxHashMap<ThingRef, u32>,
    /// How often the first request in line has.
    request_failures: u32,
}

impl Isolation {
    fn new(left: WorkCounts) -> Option<Isolation> {
        let turn = WorkKind::ALL.into_iter().find(|work| left.0[*work as usize] > 0)?;
        Some(Isolation { turn, left, failures: FxHashMap::default(), request_failures: 0 })
    }

    /// The kind of work whose turn it is.
    pub(super) fn current_kind(&self) -> WorkKind {
        self.turn
    }

    /// One thing of the kind whose turn it is has been dealt with, or there is nothing left of that kind.
    fn finish_one(&mut self, taken: bool) {
        let left = &mut self.left.0[self.turn as usize];
        *left = if taken { left.saturating_sub(1) } else { 0 };
    }

    /// The next kind has its turn; false when nothing is left.
    fn next_turn(&mut self) -> bool {
        let next = (1..=WorkKind::ALL.len())
            .map(|step| WorkKind::ALL[(self.turn as usize + step) % WorkKind::ALL.len()]);
        let next = next.into_iter().find(|work| self.left.0[*work as usize] > 0);
        self.turn = next.unwrap_or(self.turn);
        next.is_some()
    }

    /// This has gone wrong, alone; gives how often it has by now.
    fn failed(&mut self, suspect: &Suspect) -> u32 {
        let failures = match suspect {
            Suspect::Run(run) => self.failures.entry(ThingRef::Run(*run)).or_default(),
            Suspect::Notice { to, .. } => self.failures.entry(*to).or_default(),
            Suspect::Request => &mut self.request_failures,
        };
        *failures += 1;
        *failures
    }
}

impl<S: Store> Engine<S> {
    /// A batch went well; if it was one thing alone, the next has its turn.
    pub(super) fn passed(&mut self, done: &OutstandingBatch) {
        let Some(isolation) = &mut self.isolation else { return };
        isolation.finish_one(done.counts.0[isolation.turn as usize] > 0);
        match &done.suspect {
            Some(Suspect::Run(run)) => drop(isolation.failures.remove(&ThingRef::Run(*run))),
            Some(Suspect::Notice { to, .. }) => drop(isolation.failures.remove(to)),
            Some(Suspect::Request) => isolation.request_failures = 0,
            None => {}
        }
        self.next_alone();
    }

    /// A batch went wrong, and nothing of it has happened.
    pub(super) fn failed(
        &mut self,
        failure: BatchFailure,
        done: &OutstandingBatch,
        outputs: &mut Vec<Output>,
    ) {
        let failure = match failure {
            BatchFailure::Store(
                error @ (StoreError::Full(_)
                | StoreError::Away(_)
                | StoreError::Broken(_)
                | StoreError::SessionEnded
                | StoreError::Closed),
            ) => {
                return self.store_failed(error, outputs);
            }
            BatchFailure::Store(StoreError::Conflict(_) | StoreError::Damaged(_))
            | BatchFailure::Panic(_) => failure,
        };
        let is_conflict = matches!(failure, BatchFailure::Store(StoreError::Conflict(_)));
        if is_conflict && self.isolation.is_none() && self.halve_batch(done) {
            return;
        }
        telemetry::batch_failed(&failure, done.suspect.as_ref(), self.isolation.is_some());
        let Some(isolation) = &mut self.isolation else {
            self.isolation = Isolation::new(done.counts);
            if self.isolation.is_none() {
                // Nothing was decided, so nothing of it is to blame.
                self.retry_at = Some(self.now + STORE_RETRY);
            }
            return;
        };
        match &done.suspect {
            None => isolation.finish_one(false),
            Some(suspect) => {
                let failures = isolation.failed(suspect);
                // Whoever asked is told of a defect at once: asking again is up to them.
                let is_asked = matches!(suspect, Suspect::Request)
                    && self.inbox.front().is_some_and(|request| request.ticket().is_some());
                if failures >= MAX_FAILURES || is_asked && matches!(failure, BatchFailure::Panic(_)) {
                    isolation.finish_one(true);
                    isolation.request_failures = 0;
                    self.exclude_suspect(*suspect, &failure, outputs);
                }
            }
        }
        self.next_alone();
    }

    /// Others have changed what a batch was decided on: half of it is tried next. False where there is nothing to halve.
    fn halve_batch(&mut self, done: &OutstandingBatch) -> bool {
        let most = done.counts.0.iter().copied().max().unwrap_or(0).min(self.batch_limit);
        if most > 1 {
            self.batch_limit = most / 2;
            self.more = true;
        }
        most > 1
    }

    fn next_alone(&mut self) {
        if self.isolation.as_mut().is_some_and(|isolation| !isolation.next_turn()) {
            self.isolation = None;
            self.more = true;
        }
    }

    /// This goes wrong whenever it is decided.
    fn exclude_suspect(&mut self, suspect: Suspect, failure: &BatchFailure, outputs: &mut Vec<Output>) {
        match suspect {
            Suspect::Run(run) | Suspect::Notice { to: ThingRef::Run(run), starts: false, .. } => {
                self.set_aside(run, None, &failure.set_aside_reason());
            }
            // A bulk action cannot be set aside: it goes on without what cannot be told.
            Suspect::Notice { id, .. } => {
                self.condemned.insert(id, failure.error().to_string());
            }
            Suspect::Request => {
                let Some(request) = self.inbox.pop_front() else { return };
                if let Some(ticket) = request.ticket() {
                    outputs.push(Output::Reply { ticket, result: Err(failure.error()) });
                    return;
                }
                let Some(run) = request.run() else { return };
                if let Request::Executor(word) = &request {
                    self.give_room_back(word);
                }
                self.set_aside(run, None, &failure.set_aside_reason());
                let mut done = OutstandingBatch { held: vec![(run, request)], ..OutstandingBatch::default() };
                self.record_staged_aside(&mut done);
            }
        }
    }

    /// The last word about an attempt gives its room back.
    fn give_room_back(&mut self, word: &ExecutorReport) {
        if let Some(attempt) = word.ended_attempt()
            && let Some((worker, load)) = self.handed_out.remove(&attempt)
        {
            self.offers.release_room(&worker, load);
        }
    }
}

impl BatchFailure {
    fn error(&self) -> EngineError {
        match self {
            BatchFailure::Store(error) => EngineError::Store(error.clone()),
            BatchFailure::Panic(message) => EngineError::Defect(message.clone()),
        }
    }

    /// Why a run is set aside.
    fn set_aside_reason(&self) -> String {
        let what = match self {
            BatchFailure::Store(error) => format!("the store refused the change: {error}"),
            BatchFailure::Panic(message) => format!("a bug in Unstuck: {message}"),
        };
        format!(
            "processing it failed {MAX_FAILURES} times ({what}). Please report this. The run is retried automatically, first \
             after 1 minute, later every hour; a command to the run or a restart of the engine retries it at once"
        )
    }
}

/// What a panic says.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
