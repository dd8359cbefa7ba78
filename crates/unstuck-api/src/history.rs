//! The history of a run: its events in sentences, and their facts for programs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Events of a run, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryView {
    pub run: String,
    pub events: Vec<HistoryEntry>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<u64>,
}

/// An event, told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    pub number: u64,
    pub generation: u32,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// `engine`, `worker`, or `user`.
    pub by: String,
    /// The name of the user.
    pub user: Option<String>,
    /// In sentences.
    pub what: Vec<String>,
    /// For programs. There may be facts that no sentence is about.
    pub facts: Vec<FactView>,
}

/// One thing that became true. What does not belong to its type is left out; payloads are never in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactView {
    /// `run.`, `step.` or `attempt.`, and what became true of it. There may be more types one day.
    #[serde(rename = "type")]
    pub kind: String,
    /// The step or item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The attempt of the step that it is about, or that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The name of a flow: of the run, or of its exception handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The version of its flow that the run is of now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The key of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The run that this one belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Another run: the child, or the exception handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What that run is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The generation that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Who executes the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Why it is a repeat, as in a product; or who has paused or skipped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// In the words of whoever did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The priority of the run now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Labels of the run that were changed, with their values now, or none where they are gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// When it comes to something.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::json_form::optional_time")]
    pub due: Option<Timestamp>,
    /// How long that is, or by how much a limit or the clock was moved, in seconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::json_form::optional_signed_seconds"
    )]
    pub delay: Option<i64>,
    /// The policy, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Policies that are about the error and did not take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<PassedPolicyView>,
    /// How many: attempts that stalled, rounds, times that it was stuck, items, ignored lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Out of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The name of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What an operator chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The bulk action that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
}

/// A policy that is about an error and did not take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedPolicyView {
    pub policy: String,
    /// `spent` or `disabled`.
    pub why: String,
}

/// An event of a run, in a stream of all that happens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamEventView {
    pub run: String,
    pub flow: String,
    /// The steps that lead to the run from the root of its family; for an exception handler, its flow. Empty for a root.
    #[serde(default)]
    pub path: Vec<String>,
    pub generation: u32,
    /// The number of the event in its run: whoever sees one twice has seen it.
    pub number: u64,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// `engine`, `worker`, or `user`.
    pub by: String,
    /// The name of the user.
    pub user: Option<String>,
    /// The state of the run after it.
    pub state: String,
    /// The step or item that it is about, if it is about one.
    pub step: Option<String>,
    /// The attempt of that step.
    pub attempt: Option<u32>,
    /// The types of its facts.
    pub facts: Vec<String>,
    /// In sentences.
    pub what: Vec<String>,
}

/// A change of flows, policies, schedules or bulk actions, in a stream of all that happens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamChangeView {
    /// Its entry in the audit, or the run that the clock has started: whoever sees one twice has seen it.
    pub id: String,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// `engine`, `worker`, or `user`.
    pub by: String,
    /// The name of the user.
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
    /// The run that a schedule has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What became true, such as `policy.added`.
    pub facts: Vec<String>,
    /// In sentences.
    pub what: Vec<String>,
}
