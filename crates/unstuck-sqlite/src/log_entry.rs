//! What one row of the log holds: an event, and the wakeups that follow from it, so that replay needs nothing else.

use serde::{Deserialize, Serialize};
use unstuck_core::event::Event;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::Limit;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::slot::SlotClaim;
use unstuck_core::time::Time;
use unstuck_core::wakeup::{ReadyAttempt, Wakeup};
use unstuck_store::contract::StoreError;

use crate::error::broken_store;

/// A row of the log.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LogEntry {
    /// What happened.
    #[serde(rename = "e")]
    pub(crate) event: Event,
    /// What the change that this event ends does to the run's wakeups; only with the last event of a change.
    #[serde(rename = "w", default)]
    pub(crate) wakes: Option<StoredWakeups>,
}

/// A row of the log whose wakeups nobody needs: they are not parsed.
#[derive(Deserialize)]
pub(crate) struct EventOnly {
    #[serde(rename = "e")]
    pub(crate) event: Event,
}

/// A row of the log that is to be written.
#[derive(Serialize)]
pub(crate) struct LogEntryRef<'a> {
    #[serde(rename = "e")]
    pub(crate) event: &'a Event,
    #[serde(rename = "w", skip_serializing_if = "Option::is_none")]
    pub(crate) wakes: Option<&'a StoredWakeups>,
}

/// The wakeups of a run, as a change leaves them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredWakeups {
    /// Whether those that are not listed are gone.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) replaces_all: bool,
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) list: Vec<StoredWakeup>,
    /// What it has or wants of its limit.
    #[serde(rename = "s", default, skip_serializing_if = "StoredSlot::is_none")]
    pub(crate) slot: StoredSlot,
}

/// One wakeup: step, item, due, ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredWakeup(
    pub(crate) Option<StepIndex>,
    pub(crate) Option<u32>,
    pub(crate) Option<Time>,
    pub(crate) Option<ReadyAttempt>,
);

/// A [`SlotClaim`] as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StoredSlot {
    #[default]
    None,
    Wants(Limit, i32),
    Has(Limit),
}

impl StoredSlot {
    pub(crate) fn of(slot: &SlotClaim) -> StoredSlot {
        match slot {
            SlotClaim::None => StoredSlot::None,
            SlotClaim::Wants { limit, priority } => StoredSlot::Wants(limit.clone(), *priority),
            SlotClaim::Has { limit } => StoredSlot::Has(limit.clone()),
        }
    }

    pub(crate) fn slot(self) -> SlotClaim {
        match self {
            StoredSlot::None => SlotClaim::None,
            StoredSlot::Wants(limit, priority) => SlotClaim::Wants { limit, priority },
            StoredSlot::Has(limit) => SlotClaim::Has { limit },
        }
    }

    /// Leaves the field out of stored entries, as most runs have no slot.
    pub(crate) fn is_none(&self) -> bool {
        *self == StoredSlot::None
    }
}

impl StoredWakeup {
    pub(crate) fn of((unit, wakeup): (Option<UnitRef>, Wakeup)) -> StoredWakeup {
        let (step, item) = unit.map_or((None, None), |unit| (Some(unit.step), unit.item));
        StoredWakeup(step, item, wakeup.due, wakeup.ready)
    }

    pub(crate) fn wakeup(self) -> (Option<UnitRef>, Wakeup) {
        let StoredWakeup(step, item, due, ready) = self;
        (step.map(|step| UnitRef { step, item }), Wakeup { ready, due })
    }
}

/// Writes a value as JSON for a column.
pub(crate) fn to_text(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| broken_store(format!("a row cannot be written: {error}")))
}

/// As [`to_text`], into a buffer that is used again: entries are written often.
pub(crate) fn to_text_in<'a>(buffer: &'a mut Vec<u8>, value: &impl Serialize) -> Result<&'a str, StoreError> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value)
        .map_err(|error| broken_store(format!("a row cannot be written: {error}")))?;
    std::str::from_utf8(buffer).map_err(|error| broken_store(format!("a row cannot be written: {error}")))
}

/// Parses the JSON of a column; `what` names it in the error.
pub(crate) fn from_text<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| broken_store(format!("{what} is damaged: {error}")))
}
