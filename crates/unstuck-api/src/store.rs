//! Checks and copies of the store of a server.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A check or a copy, under way or over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreJobView {
    pub job: String,
    pub what: StoreJobKind,
    pub state: StoreJobState,
    /// Who asked for it.
    pub by: String,
    #[serde(with = "crate::json_form::time")]
    pub started_at: Timestamp,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub ended_at: Option<Timestamp>,
    /// What a check has found, as `unstuck store check -o json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Value>,
    /// Where a copy is, as `unstuck store copy -o json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is done to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoreJobKind {
    Check,
    Copy,
}

impl StoreJobKind {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            StoreJobKind::Check => "check",
            StoreJobKind::Copy => "copy",
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoreJobState {
    Running,
    Done,
    Failed,
}

/// A copy to make, in the folder that is configured for copies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreCopyBody {
    /// The name of its folder; the time, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
