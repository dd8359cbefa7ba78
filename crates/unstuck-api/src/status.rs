//! How a store is: what needs a person, who executes, what comes next, and how many runs there are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::PoliciesPaused;
use crate::owner::OwnerView;

/// How a store is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// The runs in which a person is needed, newest first; the first ones.
    pub needs_person: Vec<NeedsPerson>,
    /// How many there are.
    pub needs_person_count: usize,
    /// Who has the store open and executes a run.
    pub executes: Option<OwnerView>,
    /// The commands that continue runs which no process is executing; the first ones.
    #[serde(rename = "goOn")]
    pub idle: Vec<String>,
    /// How many such runs there are.
    pub idle_count: usize,
    /// In which states they are, as they are counted in `open`.
    #[serde(default)]
    pub idle_states: BTreeMap<String, u64>,
    /// Why nothing resumes automatically, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// What comes next, in order of time; the first of it.
    pub next: Vec<UpcomingView>,
    /// Runs that are not final, by state.
    pub open: BTreeMap<String, u64>,
    /// Runs that were started in the last 24 hours and are final, by state.
    pub ended: BTreeMap<String, u64>,
    /// Whether there are more open runs than were looked at.
    pub more: bool,
}

/// A run that somebody has to do something about.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NeedsPerson {
    pub run: String,
    pub flow: String,
    pub key: Option<String>,
    pub state: String,
    #[serde(with = "crate::json_form::time")]
    pub since: Timestamp,
    pub cause: Option<String>,
}

/// Something that happens by itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpcomingView {
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    pub run: String,
    pub what: String,
}
