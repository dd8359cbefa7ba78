//! Runs in a list, one that is shown, and what came of changing one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{PoliciesPaused, SetAside};

/// The state of a run, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// Needs a slot, or nothing has begun yet.
    Queued,
    /// A step is ready or active.
    Running,
    /// Timers or signals come first.
    Waiting,
    /// A step is at rest after an error.
    Error,
    /// An operator chooses.
    Held,
    /// By an operator.
    Paused,
    /// Final: every step is done.
    Completed,
    /// Final: it failed.
    Failed,
    /// Final: somebody cancelled it.
    Cancelled,
    /// Final: another run took its place.
    Superseded,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 10] = [
        RunState::Queued,
        RunState::Running,
        RunState::Waiting,
        RunState::Error,
        RunState::Held,
        RunState::Paused,
        RunState::Completed,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Superseded,
    ];

    /// Returns the word for it, as in every document.
    pub fn word(self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running => "running",
            RunState::Waiting => "waiting",
            RunState::Error => "error",
            RunState::Held => "held",
            RunState::Paused => "paused",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
            RunState::Superseded => "superseded",
        }
    }
}

/// Runs, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunsView {
    pub runs: Vec<RunLine>,
    /// What to give as `--after` for the next page; none where this is the last. A page may be short although more follow.
    pub next: Option<String>,
}

/// How many runs there are of each kind, most first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountsView {
    pub counts: Vec<RunCount>,
    /// Whether all runs were counted; otherwise there are more.
    pub complete: bool,
    /// When it was counted.
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
}

/// How many runs are of one kind: one of the names is given.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    pub count: u64,
}

/// A run in a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    pub id: String,
    pub generation: u32,
    pub flow: String,
    pub version: String,
    pub key: Option<String>,
    /// Its labels, and those of its flow that it does not give another value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub state: String,
    /// Which of `error`, `held`, `acknowledged` and `scheduled` steps of it are, whatever its state is.
    #[serde(default)]
    pub has: Vec<String>,
    /// Whether it has something to do and no process is executing it.
    #[serde(default)]
    pub idle: bool,
    /// The command that goes on with it, where it is idle.
    #[serde(default)]
    pub go_on: Option<String>,
    /// Whether it will be failed, and only its exception handler, or what is under way, comes first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failing: bool,
    /// The run of its exception handler, while that is at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The run that this is a child or handler of.
    pub parent: Option<String>,
    #[serde(with = "crate::json_form::time")]
    pub created_at: Timestamp,
    #[serde(with = "crate::json_form::time")]
    pub updated_at: Timestamp,
    /// Why nothing is decided about it now, if it is set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The cause of the first open error.
    pub cause: Option<String>,
    /// The earliest automatic resume.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub next_auto_resume: Option<Timestamp>,
    /// The policy behind it.
    pub next_auto_resume_reason: Option<String>,
    /// Why it does not happen, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
}

/// What a rerun would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RerunPreviewView {
    pub run: String,
    pub dry_run: bool,
    /// The generation that would begin.
    pub generation: u32,
    /// The steps that would run again; of a `forEach`, the items that are not done.
    pub again: Vec<String>,
    /// The steps that would keep what they have.
    pub kept: Vec<String>,
}

/// A run, and whether somebody has to do something for it to go on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// The run document.
    pub run: Box<RawValue>,
    /// The command that goes on with it, where nobody executes its steps.
    pub go_on: Option<String>,
}

/// A run that was changed, as it is now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedView {
    pub run: String,
    /// Whether it had been so before.
    pub already: bool,
    pub state: String,
    /// Whether it has something to do and no process is executing it.
    #[serde(default)]
    pub idle: bool,
    /// Where it stands, in one sentence.
    pub headline: String,
    /// The command that goes on with it, where nobody executes its steps.
    pub go_on: Option<String>,
}

/// A run that is gone, with its children.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgottenView {
    pub forgotten: Vec<String>,
}
