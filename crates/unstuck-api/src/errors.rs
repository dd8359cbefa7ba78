//! Errors as things of their own: the groups that they fall into, and what is in error now.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::PoliciesPaused;

/// Groups of errors, the last seen first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorGroupsView {
    pub groups: Vec<ErrorGroupView>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// Errors that are the same kind of trouble.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorGroupView {
    pub group: String,
    /// The full name of the action.
    pub action: String,
    /// What their causes have in common.
    pub pattern: String,
    #[serde(with = "crate::json_form::time")]
    pub first: Timestamp,
    #[serde(with = "crate::json_form::time")]
    pub last: Timestamp,
    /// How many there ever were.
    pub count: u64,
    /// By flow of the root run, the most frequent first.
    pub flows: Vec<FlowCount>,
    /// Steps in error now, and how many runs these belong to.
    pub open: u64,
    pub runs: u64,
    pub acknowledged: u64,
    /// How many of the open ones a policy will resume.
    pub scheduled: Vec<PolicyCount>,
    /// Why that does not happen, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// Newest first.
    pub examples: Vec<ErrorView>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FlowCount {
    pub flow: String,
    pub count: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PolicyCount {
    pub policy: String,
    pub count: u64,
}

/// One error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorView {
    pub run: String,
    pub generation: u32,
    pub step: String,
    pub attempt: u32,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// Of the root run.
    pub flow: String,
    #[serde(default)]
    pub action_type: Option<String>,
    /// The engine-made action that found it, where it was no worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    pub cause: String,
    pub fatal: bool,
    /// `processing`, `data`, `capacity` or `time`.
    pub reason: String,
    /// The policy that took it.
    pub policy: Option<String>,
}

/// A group, and what is in error now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorGroupDetails {
    #[serde(flatten)]
    pub line: ErrorGroupView,
    /// The first of them, in the order of their runs.
    pub now: Vec<OpenErrorView>,
}

/// What is in error now in a group, in the order of the runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenErrorsView {
    pub open: Vec<OpenErrorView>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// Errors that a group has had, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRecordsView {
    pub records: Vec<ErrorView>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// A step in error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenErrorView {
    pub run: String,
    pub step: String,
    /// Its rounds so far.
    pub rounds: u32,
    #[serde(with = "crate::json_form::time")]
    pub since: Timestamp,
    pub cause: String,
    pub acknowledged: bool,
    /// When it is resumed automatically.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub next_auto_resume: Option<Timestamp>,
    /// The policy behind that.
    pub next_auto_resume_reason: Option<String>,
}
