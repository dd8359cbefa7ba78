//! When a batch goes wrong: its parts are decided again, each alone, until the one that is to blame is found.
//!
//! A batch goes wrong when the store finds a conflict in it, or when deciding it panics. Then nothing of it has happened.
//! Every kind of work has its turn, one thing in a batch, and what follows from it is stored rather than done in the same
//! batch. What goes wrong alone several times is refused, if somebody asked for it; else its run is set aside.

use std::any::Any;

use rustc_hash::FxHashMap;
use unstuck_core::command::{Notice, NoticeBody};
use unstuck_core::id::RunId;
use unstuck_store::contract::{NoticeId, Store, StoreError};

use super::Engine;
use super::settling::{Outstanding, STORE_RETRY};
use crate::executor::Word;
use crate::request::{EngineError, Output, Request};

/// As often as this something may go wrong alone.
const MAX_FAILURES: u32 = 3;

/// The kinds of work in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Claim,
    Due,
    Admission,
    Notice,
    Request,
    Bulk,
}

impl Work {
    const ALL: [Work; 6] = [Work::Claim, Work::Due, Work::Admission, Work::Notice, Work::Request, Work::Bulk];
}

/// How much of each kind a batch has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts([usize; Work::ALL.len()]);

impl Counts {
    pub(crate) fn add(&mut self, work: Work, count: usize) {
        self.0[work as usize] += count;
    }
}

/// The one thing that was decided in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Suspect {
    /// Something that the engine does about this run.
    Run(RunId),
    /// A stored notice.
    Notice { id: NoticeId, to: RunId, starts: bool },
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
pub(super) enum Failure {
    Store(StoreError),
    /// A defect of ours, as it was told.
    Panic(String),
}

/// One thing at a time.
#[derive(Debug)]
pub(super) struct Isolation {
    turn: Work,
    /// How much of each kind is left of the batch that went wrong.
    left: Counts,
    /// How often something about these runs has gone wrong alone.
    failures: FxHashMap<RunId, u32>,
    /// How often the first request in line has.
    request_failures: u32,
}

impl Isolation {
    fn new(left: Counts) -> Option<Isolation> {
        let turn = Work::ALL.into_iter().find(|work| left.0[*work as usize] > 0)?;
        Some(Isolation { turn, left, failures: FxHashMap::default(), request_failures: 0 })
    }

    /// The kind of work whose turn it is.
    pub(super) fn turn(&self) -> Work {
        self.turn
    }

    /// One thing of the kind whose turn it is has been dealt with, or there is nothing left of that kind.
    fn done_with(&mut self, taken: bool) {
        let left = &mut self.left.0[self.turn as usize];
        *left = if taken { left.saturating_sub(1) } else { 0 };
    }

    /// The next kind has its turn; false when nothing is left.
    fn next_turn(&mut self) -> bool {
        let next = (1..=Work::ALL.len()).map(|step| Work::ALL[(self.turn as usize + step) % Work::ALL.len()]);
        let next = next.into_iter().find(|work| self.left.0[*work as usize] > 0);
        self.turn = next.unwrap_or(self.turn);
        next.is_some()
    }

    /// This has gone wrong, alone; gives how often it has by now.
    fn failed(&mut self, suspect: &Suspect) -> u32 {
        let failures = match suspect {
            Suspect::Run(run) | Suspect::Notice { to: run, .. } => self.failures.entry(*run).or_default(),
            Suspect::Request => &mut self.request_failures,
        };
        *failures += 1;
        *failures
    }
}

impl<S: Store> Engine<S> {
    /// A batch went well; if it was one thing alone, the next has its turn.
    pub(super) fn passed(&mut self, done: &Outstanding) {
        let Some(isolation) = &mut self.isolation else { return };
        isolation.done_with(done.counts.0[isolation.turn as usize] > 0);
        match &done.suspect {
            Some(Suspect::Run(run) | Suspect::Notice { to: run, .. }) => drop(isolation.failures.remove(run)),
            Some(Suspect::Request) => isolation.request_failures = 0,
            None => {}
        }
        self.next_alone();
    }

    /// A batch went wrong, and nothing of it has happened.
    pub(super) fn failed(&mut self, failure: Failure, done: &Outstanding, outputs: &mut Vec<Output>) {
        let failure = match failure {
            Failure::Store(error @ (StoreError::Full(_) | StoreError::Away(_) | StoreError::Broken(_))) => {
                return self.store_failed(error, outputs);
            }
            Failure::Store(StoreError::Conflict(_) | StoreError::Damaged(_)) | Failure::Panic(_) => failure,
        };
        let Some(isolation) = &mut self.isolation else {
            self.isolation = Isolation::new(done.counts);
            if self.isolation.is_none() {
                // Nothing was decided, so nothing of it is to blame.
                self.retry_at = Some(self.now + STORE_RETRY);
            }
            return;
        };
        match &done.suspect {
            None => isolation.done_with(false),
            Some(suspect) => {
                let failures = isolation.failed(suspect);
                // Whoever asked is told of a defect at once: asking again is up to them.
                let is_asked = matches!(suspect, Suspect::Request)
                    && self.inbox.front().is_some_and(|request| request.ticket().is_some());
                if failures >= MAX_FAILURES || is_asked && matches!(failure, Failure::Panic(_)) {
                    isolation.done_with(true);
                    isolation.request_failures = 0;
                    self.give_up_on(*suspect, &failure, outputs);
                }
            }
        }
        self.next_alone();
    }

    fn next_alone(&mut self) {
        if self.isolation.as_mut().is_some_and(|isolation| !isolation.next_turn()) {
            self.isolation = None;
            self.more = true;
        }
    }

    /// This goes wrong whenever it is decided.
    fn give_up_on(&mut self, suspect: Suspect, failure: &Failure, outputs: &mut Vec<Output>) {
        match suspect {
            Suspect::Run(run) | Suspect::Notice { to: run, starts: false, .. } => {
                self.set_aside(run, None, &failure.why());
            }
            Suspect::Notice { id, starts: true, .. } => {
                self.condemned.insert(id, failure.error().to_string());
            }
            Suspect::Request => {
                let Some(request) = self.inbox.pop_front() else { return };
                if let Some(ticket) = request.ticket() {
                    outputs.push(Output::Reply { ticket, result: Err(failure.error()) });
                    return;
                }
                let Some(run) = request.run() else { return };
                if let Request::Word(word) = &request {
                    self.give_room_back(word);
                }
                self.set_aside(run, None, &failure.why());
                let mut done = Outstanding { held: vec![(run, request)], ..Outstanding::default() };
                self.staged_aside(&mut done);
            }
        }
    }

    /// The last word about an attempt gives its room back.
    fn give_room_back(&mut self, word: &Word) {
        if let Some(attempt) = word.ends()
            && let Some((worker, load)) = self.handed_out.remove(&attempt)
        {
            self.offers.give_back(&worker, load);
        }
    }
}

impl Failure {
    fn error(&self) -> EngineError {
        match self {
            Failure::Store(error) => EngineError::Store(error.clone()),
            Failure::Panic(message) => EngineError::Defect(message.clone()),
        }
    }

    /// Why a run is set aside.
    fn why(&self) -> String {
        let what = match self {
            Failure::Store(error) => format!("the store refused the change: {error}"),
            Failure::Panic(message) => format!("a bug in Unstuck: {message}"),
        };
        format!(
            "processing it failed {MAX_FAILURES} times ({what}). Please report this. The run is retried automatically, first \
             after 1 minute, later every hour; a command to the run or a restart of the engine retries it at once"
        )
    }
}

/// What a panic says.
pub(super) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
