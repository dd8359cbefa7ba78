//! Schedules: when a server starts runs of a flow by the clock, and what has become of its times.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Schedules, in order of the names of their flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulesView {
    pub schedules: Vec<ScheduleView>,
    /// The name after which the next page begins; none where this is the last.
    pub next: Option<String>,
}

/// The schedule of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    pub flow: String,
    /// A cron expression, or an interval such as `every 15m`.
    pub spec: String,
    /// Of a cron expression.
    pub time_zone: Option<String>,
    /// `skip`, `queue` or `allow`.
    pub overlap: String,
    pub catch_up: CatchUpView,
    /// The input of its runs.
    pub input: Value,
    /// Who has paused it, if somebody has.
    pub paused: Option<SchedulePausedView>,
    /// Whether a server has taken it up. Nothing is started before that.
    pub begun: bool,
    /// The last run that it has started.
    pub last: Option<FiringView>,
    /// The next ten times; none while it is paused.
    #[serde(with = "crate::json_form::times")]
    pub next: Vec<Timestamp>,
    /// Since when a run waits for others to end, with `overlap: queue`, or for its flow to be usable.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub waiting_since: Option<Timestamp>,
    /// How many runs it has started.
    pub fired: u64,
    /// How many times passed while no server was there, and were not made up for.
    pub missed: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub last_missed: Option<Timestamp>,
    /// How many times were left out because an earlier run had not ended.
    pub skipped: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub last_skipped: Option<Timestamp>,
    /// Why the last time came to nothing, where something is wrong.
    pub problem: Option<String>,
}

/// What is made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatchUpView {
    pub limit: u32,
    /// In seconds; none where it does not matter how long ago a time was.
    #[serde(with = "crate::json_form::optional_seconds")]
    pub within: Option<Duration>,
}

/// Who has paused a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePausedView {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    pub by: String,
    pub reason: Option<String>,
}

/// A run that a schedule has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FiringView {
    /// The time that it was for.
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    pub run: String,
}

/// A schedule that somebody has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedScheduleView {
    /// Whether it had been so before.
    pub already: bool,
    #[serde(flatten)]
    pub schedule: ScheduleView,
}
