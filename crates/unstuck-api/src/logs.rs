//! What the attempts of a run printed, and what went wrong with them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The logs of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsView {
    pub run: String,
    /// How many older logs were dropped.
    pub dropped: u64,
    /// By generation, then in the order of the steps, then by attempt.
    pub logs: Vec<LogView>,
}

/// What one attempt printed, or why it went wrong.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogView {
    pub step: String,
    pub generation: u32,
    pub attempt: u32,
    /// How it ended, unless the run no longer knows; `active` while it runs.
    pub state: Option<String>,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub ended_at: Option<Timestamp>,
    /// Of an attempt that went wrong.
    pub cause: Option<String>,
    /// What an attempt that went wrong told besides: all of its context, or what is not in the streams below.
    pub context: Option<String>,
    pub stderr: Option<Tail>,
    pub stdout: Option<Tail>,
    /// Lines of its report that were ignored.
    pub ignored: Vec<IgnoredLine>,
    pub more_ignored: u64,
}

/// The end of a stream.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tail {
    /// The text that is kept.
    pub text: String,
    /// How many bytes the whole stream had.
    pub bytes: u64,
    /// Whether what came before the text was dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A line of a report that was ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredLine {
    /// Its number in the file, from 1.
    pub line: u64,
    /// Its text, shortened.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}
