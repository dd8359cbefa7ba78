//! What a list tells of a run, as its row keeps it: what its other columns do not say.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_core::id::RunId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::labels::Labels;
use unstuck_core::policy::PolicyRef;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_store::contract::StoreError;

use crate::log_entry::{from_text, to_text_in};

/// The part of a summary that is kept as a text. Names are short: every run that is over has one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as the summary that it is a part of")]
struct StoredSummary {
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    key: Option<Arc<str>>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    labels: Option<Arc<Labels>>,
    #[serde(rename = "g")]
    generation: u32,
    #[serde(rename = "n")]
    seq: u64,
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    is_failing: bool,
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    handler: Option<RunId>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    home: Option<Arc<str>>,
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    has_work: bool,
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    needs_person: bool,
    #[serde(rename = "c")]
    created_at: Time,
    #[serde(rename = "u")]
    updated_at: Time,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    cause: Option<Arc<str>>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    next_resume: Option<(Time, PolicyRef)>,
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    has_acknowledged: bool,
    #[serde(rename = "s", default, skip_serializing_if = "Vec::is_empty")]
    open_steps: Vec<StepIndex>,
    #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
    workers: Vec<Arc<str>>,
}

/// Writes the part of a summary that has no column of its own.
pub(crate) fn write_summary_text<'b>(
    buffer: &'b mut Vec<u8>,
    summary: &RunSummary,
) -> Result<&'b str, StoreError> {
    let stored = StoredSummary {
        key: summary.key.clone(),
        labels: summary.labels.clone(),
        generation: summary.generation,
        seq: summary.seq,
        is_failing: summary.is_failing,
        handler: summary.handler,
        home: summary.home.clone(),
        has_work: summary.has_work,
        needs_person: summary.needs_person,
        created_at: summary.created_at,
        updated_at: summary.updated_at,
        cause: summary.cause.clone(),
        next_resume: summary.next_resume.clone(),
        has_acknowledged: summary.has_acknowledged,
        open_steps: summary.open_steps.clone(),
        workers: summary.workers.clone(),
    };
    to_text_in(buffer, &stored)
}

/// Adds what the text says to a summary that was read from columns.
pub(crate) fn complete_summary(summary: &RunSummary, text: &str) -> Result<RunSummary, StoreError> {
    let StoredSummary {
        key,
        labels,
        generation,
        seq,
        is_failing,
        handler,
        home,
        has_work,
        needs_person,
        created_at,
        updated_at,
        cause,
        next_resume,
        has_acknowledged,
        open_steps,
        workers,
    } = from_text(text, "the summary of a run")?;
    Ok(RunSummary {
        key,
        labels,
        generation,
        seq,
        is_failing,
        handler,
        home,
        has_work,
        needs_person,
        created_at,
        updated_at,
        cause,
        next_resume,
        has_acknowledged,
        open_steps,
        workers,
        ..summary.clone()
    })
}
