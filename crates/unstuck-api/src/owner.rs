//! The process that has a store open, and the run that has a key.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The process that has the store open, and what it executes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerView {
    pub process: u32,
    /// Where it answers over HTTP, if it does: then it executes every run of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<String>,
    /// The run that it executes.
    pub run: Option<String>,
    /// The flow of that run.
    pub flow: Option<String>,
    /// The state of that run.
    pub state: Option<String>,
}

/// The run that has a key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    pub run: String,
    pub state: String,
    /// Whether the process that has the store open executes it.
    pub is_driven: bool,
    /// Whether it has something to do and nobody does it.
    pub is_idle: bool,
    pub headline: String,
    /// The run document.
    pub document: Box<RawValue>,
}
