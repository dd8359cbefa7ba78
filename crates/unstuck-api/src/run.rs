//! The run document, everywhere the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub id: String,
    /// From 1; a rerun begins the next.
    pub generation: u32,
    /// The name of its flow.
    pub flow: String,
    /// The version of its flow.
    pub version: String,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// Its labels, and those of its flow that it does not give another value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The run that it is a child or handler of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The run at the top of its family, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Higher first.
    #[serde(default)]
    pub priority: i32,
    /// When it is given up on.
    #[serde(default, with = "crate::json_form::optional_time", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub state: String,
    /// Whether it has something to do and no process is executing it.
    #[serde(default)]
    pub idle: bool,
    /// The command that goes on with it, where it is idle.
    #[serde(default)]
    pub go_on: Option<String>,
    /// Why nothing is decided about it now, if it is set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// Whether it will be failed, and only its exception handler, or what is under way, comes first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// Its exception handler, where one takes over or has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<Handler>,
    pub input: Box<RawValue>,
    /// What it put out, once completed.
    pub output: Option<Box<RawValue>>,
    /// When it was started.
    #[serde(with = "crate::json_form::time")]
    pub created_at: Timestamp,
    /// When its last event was.
    #[serde(with = "crate::json_form::time")]
    pub updated_at: Timestamp,
    /// The first open error.
    pub error: Option<Error>,
    /// The earliest automatic resume.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub next_auto_resume: Option<Timestamp>,
    /// The policy behind it.
    pub next_auto_resume_reason: Option<String>,
    /// Why it does not happen, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// Its steps, in order; the items of a `forEach` as `step[0]`, `step[1]`, ... after it.
    pub steps: Vec<Step>,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
}

/// That nothing is decided about a run for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAside {
    /// Since when; not known where no engine has the store open.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub since: Option<Timestamp>,
    /// Why, and what to do, in sentences.
    pub why: String,
    /// When it is tried again by itself, if it is.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub next_try: Option<Timestamp>,
}

/// Since when, by whom and why automatic resumes are paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoliciesPaused {
    /// Since then.
    #[serde(with = "crate::json_form::time")]
    pub since: Timestamp,
    /// Who paused them.
    pub by: String,
    pub reason: String,
}

/// The exception handler of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handler {
    /// Its flow, while the run is failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Its run, once started.
    pub run: Option<String>,
    /// What that is doing, or how it ended.
    pub state: Option<String>,
    /// What is wrong with the handler itself, if anything is.
    pub error: Option<Error>,
}

/// One step or item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub id: String,
    /// The full name of its action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<String>,
    pub state: String,
    /// Why its next attempt is still queued, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// That its error is known, where somebody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    /// How many items a `forEach` has, once its list is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    pub output: Option<Box<RawValue>>,
    /// The error of its last attempt, while that is open.
    pub error: Option<Error>,
    /// When it is resumed automatically.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub next_auto_resume: Option<Timestamp>,
    /// The policy behind that.
    pub next_auto_resume_reason: Option<String>,
    /// How many rounds it has had.
    pub rounds: u32,
    /// The child run of a `flow` step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// Its last attempts, in order.
    pub attempts: Vec<Attempt>,
}

/// An error that somebody has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledged {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// Who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Items of `forEach` steps, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemsView {
    pub run: String,
    pub items: Vec<Step>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// The signals that wait in a run until a step consumes them, by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalsView {
    pub run: String,
    pub signals: Vec<SignalLine>,
}

/// The waiting signals of one name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalLine {
    pub name: String,
    pub waiting: u32,
    /// When the oldest of them came.
    pub oldest: Option<String>,
}

/// One attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub attempt: u32,
    /// The round that it belongs to, from 1; a resume begins the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Why it is a repeat, if it is one: `retry`, `policy`, `manual`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<String>,
    pub state: String,
    /// Who executes it.
    pub worker: Option<String>,
    /// When it became ready.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub queued_at: Option<Timestamp>,
    /// When work began.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub ended_at: Option<Timestamp>,
    /// What went wrong: its error, the limit that it was stuck at, or what it was deferred for.
    pub error: Option<Error>,
    /// Its last progress.
    pub progress: Option<Box<RawValue>>,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The full action name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The engine-made action that found it, where it was no worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// The label of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_type: Option<String>,
    /// Short.
    pub cause: String,
    /// Long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// `processing`, `data`, `capacity` or `time`.
    pub reason: String,
    /// Anything else that the worker told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<RawValue>>,
    /// How many attempts the step has had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// A recorded choice of the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// The step or item, unless it is about the run.
    pub step: Option<String>,
    /// The attempt that it follows.
    pub attempt: Option<u32>,
    /// The rung of the recovery ladder, or what else decided.
    pub rung: String,
    /// The rule, as it is written in the flow.
    pub rule: String,
    /// Why, in a sentence.
    pub reason: String,
}
