//! What the data of any store must be, as promised: findings, and the checks that need nothing but a run, its history and
//! its flow.

pub mod history;
pub mod movers;

use std::fmt;

/// Something that is not as promised: what, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was promised.
    pub promise: Promise,
    /// The run, its event, or the row.
    pub place: String,
    /// What is wrong, and what it means.
    pub what: String,
    /// What to do.
    pub hint: &'static str,
}

impl Finding {
    /// Something that is not as promised.
    pub fn new(
        promise: Promise,
        place: impl Into<String>,
        what: impl Into<String>,
        hint: &'static str,
    ) -> Finding {
        Finding { promise, place: place.into(), what: what.into(), hint }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { place, what, hint, .. } = self;
        write!(f, "{place}: {what}; {hint}")
    }
}

/// Only a copy has what is missing.
pub const RESTORE: &str = "restore a copy of the store from before the damage";
/// One run is at fault, and the others are not.
pub const FORGET: &str = "restore a copy of the store, or cancel and forget this run and start it again";
/// The data is whole, and the program that wrote it is at fault.
pub const REPORT: &str =
    "nothing is lost; keep a copy of the store and report this as a bug, with the history of the run";

/// What is promised of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// The file is whole.
    File,
    /// Its tables are the known ones.
    Schema,
    /// Histories have no gaps.
    History,
    /// Time never goes back.
    Time,
    /// A final generation never changes.
    Final,
    /// What happened is recorded once.
    Once,
    /// Rows say what histories give.
    Row,
    /// What wakes a run is what its state asks for.
    Wakeup,
    /// Something will move every run.
    Moved,
    /// A key has one run.
    Key,
    /// No limit is exceeded.
    Slot,
    /// Payloads are kept.
    Payload,
    /// Notices have somebody to go to.
    Notice,
    /// Children and parents know each other.
    Child,
    /// Ids are given out once.
    Id,
    /// Flows are kept by version.
    Flow,
    /// Errors are recorded once, and what is open is known.
    Error,
    /// Policies are kept.
    Policy,
    /// Bulk actions count each target once.
    Bulk,
    /// Schedules belong to flows.
    Schedule,
    /// Logs are kept.
    Log,
    /// States that are kept are what histories give.
    Snapshot,
    /// What is recorded of requests is kept.
    Request,
}

impl Promise {
    /// Every promise.
    pub const ALL: [Promise; 23] = [
        Promise::File,
        Promise::Schema,
        Promise::History,
        Promise::Time,
        Promise::Final,
        Promise::Once,
        Promise::Row,
        Promise::Wakeup,
        Promise::Moved,
        Promise::Key,
        Promise::Slot,
        Promise::Payload,
        Promise::Notice,
        Promise::Child,
        Promise::Id,
        Promise::Flow,
        Promise::Error,
        Promise::Policy,
        Promise::Bulk,
        Promise::Schedule,
        Promise::Log,
        Promise::Snapshot,
        Promise::Request,
    ];

    /// The promise as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Promise::File => "the file is not damaged",
            Promise::Schema => "the file has exactly the tables of this version of Unstuck",
            Promise::History => "the history of every run is complete, without gaps",
            Promise::Time => "times in a history never go back",
            Promise::Final => "a final generation never changes; only a rerun can follow",
            Promise::Once => {
                "every attempt ends once, every attempt number is used once, and completed steps do not run again"
            }
            Promise::Row => "the row of every run matches its history",
            Promise::Wakeup => "timers and queue entries match the states of the runs",
            Promise::Moved => "every open run has something that will move it",
            Promise::Key => "every key leads to one run of its flow, and every run with a key is found by it",
            Promise::Slot => "no limit has more slots taken than it allows",
            Promise::Payload => "every payload that a run names exists, and every payload belongs to a run",
            Promise::Notice => "every notice is addressed to a run that exists or that it starts",
            Promise::Child => "every child has a parent, and every step that waits for a child has one",
            Promise::Id => "no id is used twice",
            Promise::Flow => "the flow version of every run exists and never changes",
            Promise::Error => "every error is recorded once, and open errors match the states of the runs",
            Promise::Policy => "every policy and its change log are stored as they were written",
            Promise::Schedule => "every schedule belongs to a flow and is stored as it was written",
            Promise::Log => "every log is stored as it was written and belongs to a run",
            Promise::Snapshot => "every state that is stored of a run matches its history",
            Promise::Request => "every idempotency key, audit entry and token is stored as it was written",
            Promise::Bulk => {
                "every bulk action counts each target once and gets the result of what it resumed"
            }
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}
