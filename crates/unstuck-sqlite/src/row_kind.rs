//! The kinds of text that rows hold: each can be read and written again, which tests do with texts of any kind.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use unstuck_core::bulk::Bulk;
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::model::log::LogRecord;
use unstuck_core::policy::{Policy, PolicyAudit, PolicySwitch};
use unstuck_core::schedule::Schedule;
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;
use unstuck_store::contract::StoreError;

use crate::log_entry::{LogEntry, LogEntryRef, StoredSlot, from_text, to_text};

/// A kind of text that is read back from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// An event of the log, with the wakeups that follow from it.
    Event,
    /// An attempt of a parked run that may be handed out.
    Ready,
    /// What a parked run has or wants of its limit.
    Slot,
    /// What runs tell each other.
    Notice,
    /// When nobody could take answers.
    Downtimes,
    /// A resume policy.
    Policy,
    /// A change of one.
    PolicyAudit,
    /// An error that was recorded.
    Error,
    /// What is in error now.
    OpenError,
    /// A bulk action.
    Bulk,
    /// Whether automatic resumes are paused.
    PolicySwitch,
    /// How the clock was set.
    Clock,
    /// The steps of a flow version, in the order by which events number them.
    StepOrder,
    /// What an attempt printed.
    Log,
    /// A schedule.
    Schedule,
}

impl StoredKind {
    /// Every kind.
    pub const ALL: [StoredKind; 15] = [
        StoredKind::Event,
        StoredKind::Ready,
        StoredKind::Slot,
        StoredKind::Notice,
        StoredKind::Downtimes,
        StoredKind::Policy,
        StoredKind::PolicyAudit,
        StoredKind::Error,
        StoredKind::OpenError,
        StoredKind::Bulk,
        StoredKind::PolicySwitch,
        StoredKind::Clock,
        StoredKind::StepOrder,
        StoredKind::Log,
        StoredKind::Schedule,
    ];

    /// What it is, for people.
    pub fn what(self) -> &'static str {
        match self {
            StoredKind::Event => "an event",
            StoredKind::Ready => "a queue entry",
            StoredKind::Slot => "a slot",
            StoredKind::Notice => "a notice",
            StoredKind::Downtimes => "the list of downtimes",
            StoredKind::Policy => "a policy",
            StoredKind::PolicyAudit => "a change of a policy",
            StoredKind::Error => "an error",
            StoredKind::OpenError => "an open error",
            StoredKind::Bulk => "a bulk action",
            StoredKind::PolicySwitch => "the switch of policies",
            StoredKind::Clock => "the record of the clock",
            StoredKind::StepOrder => "the order of steps",
            StoredKind::Log => "a log",
            StoredKind::Schedule => "a schedule",
        }
    }

    /// Parses a stored text and writes it again: tests compare the two to prove that old rows stay readable.
    pub fn read_and_write(self, kept: &str) -> Result<String, StoreError> {
        match self {
            StoredKind::Event => {
                let LogEntry { event, wakes } = from_text(kept, self.what())?;
                to_text(&LogEntryRef { event: &event, wakes: wakes.as_ref() })
            }
            StoredKind::Ready => self.read_and_write_as::<ReadyAttempt>(kept),
            StoredKind::Slot => self.read_and_write_as::<(StoredSlot, Option<Time>)>(kept),
            StoredKind::Notice => self.read_and_write_as::<Notice>(kept),
            StoredKind::Downtimes => self.read_and_write_as::<Vec<Downtime>>(kept),
            StoredKind::Policy => self.read_and_write_as::<Policy>(kept),
            StoredKind::PolicyAudit => self.read_and_write_as::<PolicyAudit>(kept),
            StoredKind::Error => self.read_and_write_as::<ErrorRecord>(kept),
            StoredKind::OpenError => self.read_and_write_as::<OpenError>(kept),
            StoredKind::Bulk => self.read_and_write_as::<Bulk>(kept),
            StoredKind::PolicySwitch => self.read_and_write_as::<PolicySwitch>(kept),
            StoredKind::Clock => self.read_and_write_as::<ClockRecord>(kept),
            StoredKind::StepOrder => self.read_and_write_as::<Vec<Arc<str>>>(kept),
            StoredKind::Log => self.read_and_write_as::<LogRecord>(kept),
            StoredKind::Schedule => self.read_and_write_as::<Schedule>(kept),
        }
    }

    fn read_and_write_as<T: Serialize + DeserializeOwned>(self, kept: &str) -> Result<String, StoreError> {
        to_text(&from_text::<T>(kept, self.what())?)
    }
}
