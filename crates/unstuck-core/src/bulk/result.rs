//! What becomes of the targets of a bulk action.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What became of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetResult {
    /// Nothing yet.
    #[default]
    Pending,
    /// The step was resumed, and is under way.
    Resumed,
    /// The next generation of the run has started, and is under way.
    Rerun,
    /// A held step has one more attempt, which is under way.
    Retried,
    /// The step that had failed is done; after a rerun, the run is completed.
    Passed,
    /// The step, or the run, has failed again.
    FailedAgain { cause: Arc<str> },
    /// The error was acknowledged.
    Acknowledged,
    /// The run was cancelled.
    Cancelled,
    /// A held step was given up.
    GivenUp,
    /// The run has the signal.
    Signalled,
    /// The step was skipped.
    Skipped,
    /// The step counts as completed.
    Completed,
    /// The run is gone; all that is left of it is this.
    Forgotten,
    /// A policy will resume the step now, or at another time than before.
    Scheduled,
    /// No policy resumes the step any more.
    Unscheduled,
    /// The step is where the policies would put it.
    Unchanged,
    /// It was refused: nothing was done.
    Refused { why: Arc<str> },
}

/// The kinds of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// Which of its counts a bulk action counts a result in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedAs {
    /// Acted on, with the result still to come.
    UnderWay,
    /// As it was meant.
    Passed,
    /// Failed again.
    Failed,
    Refused,
    /// No policy takes it any more.
    Unscheduled,
    /// As it was.
    Unchanged,
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

    /// The word for it.
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

    /// Where it is counted; nowhere before the target was acted on.
    pub fn counts_as(self) -> Option<CountedAs> {
        match self {
            ResultKind::Pending => None,
            ResultKind::Resumed | ResultKind::Rerun | ResultKind::Retried => Some(CountedAs::UnderWay),
            ResultKind::Passed
            | ResultKind::Acknowledged
            | ResultKind::Cancelled
            | ResultKind::GivenUp
            | ResultKind::Signalled
            | ResultKind::Skipped
            | ResultKind::Completed
            | ResultKind::Forgotten
            | ResultKind::Scheduled => Some(CountedAs::Passed),
            ResultKind::FailedAgain => Some(CountedAs::Failed),
            ResultKind::Refused => Some(CountedAs::Refused),
            ResultKind::Unscheduled => Some(CountedAs::Unscheduled),
            ResultKind::Unchanged => Some(CountedAs::Unchanged),
        }
    }
}

impl TargetResult {
    /// Which kind it is.
    pub fn kind(&self) -> ResultKind {
        match self {
            TargetResult::Pending => ResultKind::Pending,
            TargetResult::Resumed => ResultKind::Resumed,
            TargetResult::Rerun => ResultKind::Rerun,
            TargetResult::Retried => ResultKind::Retried,
            TargetResult::Passed => ResultKind::Passed,
            TargetResult::FailedAgain { .. } => ResultKind::FailedAgain,
            TargetResult::Acknowledged => ResultKind::Acknowledged,
            TargetResult::Cancelled => ResultKind::Cancelled,
            TargetResult::GivenUp => ResultKind::GivenUp,
            TargetResult::Signalled => ResultKind::Signalled,
            TargetResult::Skipped => ResultKind::Skipped,
            TargetResult::Completed => ResultKind::Completed,
            TargetResult::Forgotten => ResultKind::Forgotten,
            TargetResult::Scheduled => ResultKind::Scheduled,
            TargetResult::Unscheduled => ResultKind::Unscheduled,
            TargetResult::Unchanged => ResultKind::Unchanged,
            TargetResult::Refused { .. } => ResultKind::Refused,
        }
    }

    /// The result of this kind, with how it failed or why it was refused.
    pub fn of(kind: ResultKind, why: impl FnOnce() -> Arc<str>) -> TargetResult {
        match kind {
            ResultKind::Pending => TargetResult::Pending,
            ResultKind::Resumed => TargetResult::Resumed,
            ResultKind::Rerun => TargetResult::Rerun,
            ResultKind::Retried => TargetResult::Retried,
            ResultKind::Passed => TargetResult::Passed,
            ResultKind::FailedAgain => TargetResult::FailedAgain { cause: why() },
            ResultKind::Acknowledged => TargetResult::Acknowledged,
            ResultKind::Cancelled => TargetResult::Cancelled,
            ResultKind::GivenUp => TargetResult::GivenUp,
            ResultKind::Signalled => TargetResult::Signalled,
            ResultKind::Skipped => TargetResult::Skipped,
            ResultKind::Completed => TargetResult::Completed,
            ResultKind::Forgotten => TargetResult::Forgotten,
            ResultKind::Scheduled => TargetResult::Scheduled,
            ResultKind::Unscheduled => TargetResult::Unscheduled,
            ResultKind::Unchanged => TargetResult::Unchanged,
            ResultKind::Refused => TargetResult::Refused { why: why() },
        }
    }

    /// Whether another result follows.
    pub fn is_under_way(&self) -> bool {
        self.kind().counts_as() == Some(CountedAs::UnderWay)
    }

    /// How it failed, or why it was refused.
    pub fn why(&self) -> Option<&Arc<str>> {
        match self {
            TargetResult::FailedAgain { cause } => Some(cause),
            TargetResult::Refused { why } => Some(why),
            TargetResult::Pending
            | TargetResult::Resumed
            | TargetResult::Rerun
            | TargetResult::Retried
            | TargetResult::Passed
            | TargetResult::Acknowledged
            | TargetResult::Cancelled
            | TargetResult::GivenUp
            | TargetResult::Signalled
            | TargetResult::Skipped
            | TargetResult::Completed
            | TargetResult::Forgotten
            | TargetResult::Scheduled
            | TargetResult::Unscheduled
            | TargetResult::Unchanged => None,
        }
    }
}
