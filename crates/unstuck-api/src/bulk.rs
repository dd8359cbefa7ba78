//! Bulk actions: what was begun, how far they are, and what became of each target.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What came of an order: a bulk action, or what it would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkBegunView {
    /// None where nothing is selected, or nothing was to be done.
    pub bulk: Option<String>,
    pub dry_run: bool,
    /// What was selected, in words.
    pub selection: String,
    pub total: u64,
    /// In how many runs they are, of a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// How many runs had in common what was selected, and are left out: nothing could be done to them.
    #[serde(default)]
    pub left_out: u64,
    #[serde(default)]
    pub action: String,
    /// The first targets, of a dry run.
    pub targets: Vec<TargetView>,
}

/// Bulk actions, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulksView {
    pub bulks: Vec<BulkView>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub next: Option<String>,
}

/// A bulk action, as it stands.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkView {
    pub bulk: String,
    /// The command, such as `resume`.
    pub action: String,
    pub state: String,
    /// Why it has stopped.
    pub why: Option<String>,
    pub selection: String,
    pub by: String,
    pub reason: Option<String>,
    #[serde(with = "crate::json_form::time")]
    pub created_at: Timestamp,
    pub rate: u32,
    pub canary: Option<u32>,
    pub wave: u32,
    pub total: u64,
    /// How many runs had in common what was selected, and were left out: nothing could be done to them.
    #[serde(default)]
    pub left_out: u64,
    /// What it has come to, in the order in which it is told; a kind that nothing has come to is left out.
    pub results: Vec<KindCount>,
    /// The commands that go on with runs that it has set going and nobody executes, each once.
    pub go_on: Vec<String>,
    /// How many more targets it has set going whose runs were not looked at for that.
    #[serde(default)]
    pub not_looked_at: u64,
    /// Whether it acts on more targets by itself, as long as somebody has the store open.
    pub acts: bool,
    /// Whether nothing can happen to it any more.
    #[serde(rename = "settled")]
    pub is_over: bool,
}

/// How many targets have come to what.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCount {
    pub result: ResultKind,
    pub count: u64,
    /// Why, the most frequent first, with what changes from one to the next taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseCount>,
}

/// What became of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResultKind {
    /// Nothing yet.
    Pending,
    /// Resumed, and under way.
    Resumed,
    /// Started again, and under way.
    Rerun,
    /// Tried once more, and under way.
    Retried,
    /// The step that had failed is done, or the run that was started again is completed.
    Passed,
    /// The step, or the run, has failed again.
    FailedAgain,
    /// The error was acknowledged.
    Acknowledged,
    /// The run was cancelled.
    Cancelled,
    /// The held step was given up.
    GivenUp,
    /// The run has the signal.
    Signalled,
    /// The step was skipped.
    Skipped,
    /// The step counts as completed.
    Completed,
    /// The run is gone.
    Forgotten,
    /// A policy will resume the step.
    Scheduled,
    /// No policy resumes the step any more.
    Unscheduled,
    /// The step is as it was.
    Unchanged,
    /// It was refused.
    Refused,
}

/// How often something was the cause.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseCount {
    pub cause: String,
    pub count: u64,
    /// One of the runs.
    pub run: String,
}

/// Targets of a bulk action, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetsView {
    pub targets: Vec<TargetView>,
    /// The place of the first target of the next page; none where this is the last.
    pub next: Option<u64>,
}

/// One target.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    pub place: u64,
    pub run: String,
    pub step: Option<String>,
    pub result: ResultKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A bulk action that somebody has changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedBulkView {
    /// Whether it had been so before.
    pub already: bool,
    #[serde(flatten)]
    pub page: BulkView,
}

impl ResultKind {
    /// All of them, in the order in which they are told.
    pub const ALL: [ResultKind; 17] = [
        ResultKind::Passed,
        ResultKind::Acknowledged,
        ResultKind::Cancelled,
        ResultKind::GivenUp,
        ResultKind::Signalled,
        ResultKind::Skipped,
        ResultKind::Completed,
        ResultKind::Forgotten,
        ResultKind::Scheduled,
        ResultKind::Unscheduled,
        ResultKind::Unchanged,
        ResultKind::FailedAgain,
        ResultKind::Refused,
        ResultKind::Resumed,
        ResultKind::Rerun,
        ResultKind::Retried,
        ResultKind::Pending,
    ];

    /// Returns the word for it, as people read it.
    pub fn word(self) -> &'static str {
        match self {
            ResultKind::Pending => "pending",
            ResultKind::Resumed => "resumed",
            ResultKind::Rerun => "started again",
            ResultKind::Retried => "tried once more",
            ResultKind::Passed => "passed the step",
            ResultKind::FailedAgain => "failed again",
            ResultKind::Acknowledged => "acknowledged",
            ResultKind::Cancelled => "cancelled",
            ResultKind::GivenUp => "given up",
            ResultKind::Signalled => "signalled",
            ResultKind::Skipped => "skipped",
            ResultKind::Completed => "completed by hand",
            ResultKind::Forgotten => "forgotten",
            ResultKind::Scheduled => "scheduled",
            ResultKind::Unscheduled => "unscheduled",
            ResultKind::Unchanged => "unchanged",
            ResultKind::Refused => "refused",
        }
    }
}

impl ResultKind {
    /// The words of JSON for all of them, in the same order.
    pub const CODES: &[&str] = &[
        "passed",
        "acknowledged",
        "cancelled",
        "givenUp",
        "signalled",
        "skipped",
        "completed",
        "forgotten",
        "scheduled",
        "unscheduled",
        "unchanged",
        "failedAgain",
        "refused",
        "resumed",
        "rerun",
        "retried",
        "pending",
    ];

    /// Returns the word of JSON for it.
    pub fn code(self) -> &'static str {
        let of = |(kind, code): (ResultKind, &&'static str)| (kind == self).then_some(*code);
        ResultKind::ALL.into_iter().zip(ResultKind::CODES).find_map(of).unwrap_or("pending")
    }

    /// Returns the one that has this word of JSON.
    pub fn of_code(word: &str) -> Option<ResultKind> {
        ResultKind::ALL.into_iter().find(|kind| kind.code() == word)
    }
}
