//! Flows as they are applied, listed and deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ProblemPart;

/// What came of applying a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowsAppliedView {
    /// In the order of the file.
    pub flows: Vec<AppliedFlowView>,
    pub warnings: Vec<ProblemPart>,
    /// Whether nothing was changed, because that was only asked.
    pub dry_run: bool,
}

/// What came of moving runs to another version of their flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationView {
    pub flow: String,
    /// The version that they are moved to.
    pub to: String,
    /// Whether nothing was changed, because that was only asked.
    pub dry_run: bool,
    /// How many were moved, or could be.
    pub moved: u64,
    /// How many were looked at.
    pub total: u64,
    /// Those that cannot be moved as they are now.
    pub not_moved: Vec<NotMoved>,
    /// What to give as `after` for the next runs; none where these were the last.
    pub next: Option<String>,
}

/// A run that cannot be moved as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotMoved {
    pub run: String,
    /// The step that keeps it, if it is one.
    pub step: Option<String>,
    /// In a sentence.
    pub why: String,
}

/// What became of one flow of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedFlowView {
    pub flow: String,
    pub version: String,
    /// Of the version. In a dry run, the one that it would get now.
    pub id: String,
    /// `added`, `changed` or `unchanged`.
    pub what: String,
    /// When a server starts the next run of it by its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::json_form::optional_time")]
    pub next: Option<Timestamp>,
    /// What came of moving runs of earlier versions to it, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationView>,
}

/// A page of flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowsView {
    /// In order of their names.
    pub flows: Vec<FlowLine>,
    /// The name after which the next page begins; none where this is the last.
    pub next: Option<String>,
}

/// A flow in a list: its newest version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowLine {
    pub flow: String,
    pub version: String,
    pub id: String,
    pub description: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// How many versions can be started.
    pub versions: u64,
    /// How many runs of any version are not final.
    pub open: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub applied_at: Option<Timestamp>,
    pub by: Option<String>,
}

/// One version of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowView {
    pub flow: String,
    pub version: String,
    pub id: String,
    pub definition: Value,
    pub description: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Why it cannot be used, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// When a server starts runs of it by the clock, such as `0 3 * * * Europe/Berlin` or `every 15m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    pub deleted: bool,
    pub open: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub applied_at: Option<Timestamp>,
    pub by: Option<String>,
}

/// A page of the versions of a flow, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowVersionsView {
    pub versions: Vec<FlowVersionLine>,
    /// The id before which the next page begins; none where this is the last.
    pub next: Option<String>,
}

/// A version of a flow in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowVersionLine {
    pub version: String,
    pub id: String,
    /// Whether it can be started no more.
    pub deleted: bool,
    pub open: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub applied_at: Option<Timestamp>,
    pub by: Option<String>,
}
