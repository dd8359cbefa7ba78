//! Why a run is where it is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::PoliciesPaused;
use crate::run::SetAside;

/// A run, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub run: String,
    /// When it was explained.
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
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
    /// The whole in one sentence.
    pub headline: String,
    /// What else is to be known about it, in sentences: that its process is stopped, or that a clock was wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What happened in this generation, the last of it.
    pub happened: Vec<Happened>,
    /// How many sentences before that are left out.
    pub earlier: usize,
    /// Why each step is where it is.
    pub because: Vec<Because>,
    /// Why nothing resumes automatically, where a policy would resume a step of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// What comes next: in order of time, then what has no time.
    pub next: Vec<Next>,
    /// What an operator could do now.
    pub can: Vec<Possible>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    pub what: String,
}

/// Why a step or item is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Because {
    pub step: String,
    pub state: String,
    pub why: String,
}

/// Something that comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// When, if that is known.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub at: Option<Timestamp>,
    pub what: String,
}

/// Something that an operator could do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Possible {
    /// The command, ready to be typed.
    pub command: String,
    /// What it does.
    pub what: String,
    /// The call of the API that does it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ApiCall>,
}

/// A call of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiCall {
    pub method: String,
    pub path: String,
    /// Null where the call has none.
    pub body: serde_json::Value,
}
