//! Resume policies as they are written.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A policy as it is written, with nothing that would be so anyway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDocument {
    /// Its id; absent where it is to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub name: String,
    /// Somewhere in the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_substring: Option<String>,
    /// The flow of the root run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The full name of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<String>,
    /// A step is resumed while its rounds are below this.
    pub max_attempts: u32,
    /// Where somebody set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    pub back_off: BackOffDocument,
    /// False, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// True, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_fatal: Option<bool>,
}

/// When a policy resumes, as it is written. Durations are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOffDocument {
    /// The base.
    pub delay: Value,
    /// The cap, and the upper end of `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Value>,
    /// `delay * multiplier * rounds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<Value>,
    /// True, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<bool>,
}
