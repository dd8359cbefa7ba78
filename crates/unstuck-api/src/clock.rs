//! What is said of the clock of a store.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is said of a clock, for programs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockView {
    /// How it was set, in order; the last ones.
    pub corrections: Vec<CorrectionView>,
    /// By how much the last recorded time lies ahead of the clock, in seconds.
    #[serde(with = "crate::json_form::optional_seconds")]
    pub ahead_by: Option<Duration>,
    pub sentences: Vec<String>,
}

/// That a clock was set.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CorrectionView {
    #[serde(with = "crate::json_form::time")]
    pub from: Timestamp,
    #[serde(with = "crate::json_form::time")]
    pub to: Timestamp,
    /// By how much, forward or (negative) back, in seconds.
    #[serde(with = "crate::json_form::signed_seconds")]
    pub shift: i64,
}
