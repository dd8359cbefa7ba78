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
pub const RESTORE: &str = "go back to a copy of the store from before the damage";
/// One run is at fault, and the others are not.
pub const FORGET: &str = "go back to a copy of the store, or cancel and forget this run and start it again";
/// The data is whole, and the program that wrote it is at fault.
pub const REPORT: &str =
    "nothing is lost; keep a copy of the store and report this as a defect, with the history of the run";

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
    /// Logs are kept.
    Log,
}

impl Promise {
    /// Every promise.
    pub const ALL: [Promise; 20] = [
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
        Promise::Log,
    ];

    /// The promise as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Promise::File => "the file is whole",
            Promise::Schema => "the file has the tables of this version of Unstuck, and nothing else",
            Promise::History => "every event leads back to the start of its run, without a gap",
            Promise::Time => "time never goes back",
            Promise::Final => "a final generation never changes; only a rerun may follow",
            Promise::Once => {
                "an attempt ends once, its number is used once, and a completed step is not run again"
            }
            Promise::Row => "the row of a run says what its history gives",
            Promise::Wakeup => "what wakes a run is what its state asks for",
            Promise::Moved => "no run is without something that will move it",
            Promise::Key => "a key has one run in its flow, and every run with a key is found by it",
            Promise::Slot => "no more runs have a slot than their limit allows",
            Promise::Payload => "every payload that a run speaks of is kept, and belongs to a run",
            Promise::Notice => "every notice has a run to go to, or makes it",
            Promise::Child => "a child has a parent, and a step that waits for a child has one",
            Promise::Id => "no id is given out twice",
            Promise::Flow => "every run has its flow version, which never changes",
            Promise::Error => {
                "every error is recorded once, and what is open of errors is what the runs are in"
            }
            Promise::Policy => "every policy is kept as it was loaded, and so is who changed it",
            Promise::Log => "every log is what was written, and belongs to a run",
            Promise::Bulk => {
                "a bulk action counts each of its targets once, and learns how what it has resumed comes out"
            }
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}
