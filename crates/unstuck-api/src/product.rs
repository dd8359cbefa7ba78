//! What a worker receives.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Error;

/// The product: everything an attempt needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    pub run: String,
    pub generation: u32,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The name of its flow.
    pub flow: String,
    /// The step, or `step[2]` for an item.
    pub step: String,
    /// The action; for a local process, the id of the step.
    pub action: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The number of the round.
    pub round: u32,
    /// Why this is a repeat (`retry`, `defer`, `policy`, `operator`, `release`, `reclaim`, `rerun`), if it is one.
    pub resumed_by: Option<String>,
    /// The worker that was given the attempt.
    pub worker: String,
    /// Which start of that worker.
    pub incarnation: u64,
    /// What every answer carries.
    pub token: String,
    pub input: Box<RawValue>,
    /// When the run is given up on.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub deadline: Option<Timestamp>,
    /// The last 20 attempts of the run, oldest first.
    pub history: Vec<PastAttempt>,
    /// The last attempt of this step.
    pub previous: Option<Previous>,
}

/// An attempt of the run that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastAttempt {
    /// The generation of the run that it belongs to: numbers of attempts start again with each.
    pub generation: u32,
    pub step: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// How it ended.
    pub state: String,
    /// When work began.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "crate::json_form::time")]
    pub ended_at: Timestamp,
    /// Who executed it.
    pub worker: Option<String>,
    /// What went wrong.
    pub error: Option<Error>,
}

/// The last attempt of the same step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Previous {
    /// The generation of the run that it belongs to: this one, or one that it continues.
    pub generation: u32,
    pub attempt: u32,
    /// How it ended.
    pub state: String,
    /// What went wrong.
    pub error: Option<Error>,
    /// Its last progress.
    pub progress: Option<Box<RawValue>>,
}
