//! What policies would do, or would have done.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::PoliciesPaused;
use crate::policies::PolicyDocument;

/// What policies would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialsView {
    pub trials: Vec<TrialView>,
}

/// What one policy would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialView {
    pub policy: String,
    /// Whether it is disabled: what it would do if it were enabled is told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Why nothing resumes automatically, in a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// How many errors it takes.
    pub matched: u64,
    /// The first of them.
    pub runs: Vec<TrialRunView>,
    /// How many errors it would take if an earlier policy did not, by that policy's name.
    pub shadowed_by: BTreeMap<String, u64>,
    /// How many errors it would take if it were not spent on them.
    pub exhausted: u64,
}

/// A step that it takes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialRunView {
    pub run: String,
    pub step: String,
    /// Its rounds so far, which `maxAttempts` bounds.
    pub rounds: u32,
    pub cause: String,
    /// When it would be resumed; at the earliest, where the delay is drawn.
    #[serde(with = "crate::json_form::time")]
    pub resume_at: Timestamp,
    /// At the latest, where the delay is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::json_form::optional_time")]
    pub resume_by: Option<Timestamp>,
    /// The policy that has it now, or had it then.
    pub taken_from: Option<String>,
}

/// A policy that is suggested for a group of errors. Nothing is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuggestionView {
    pub policy: PolicyDocument,
    /// The same policy, as a file.
    pub yaml: String,
    /// What it would do to what is in error now.
    pub trial: Option<TrialView>,
}
