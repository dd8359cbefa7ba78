//! Converts between types of the API and of the core. Each match is exhaustive, so that a new variant needs a
//! counterpart.

use jiff::Timestamp;
use unstuck_api::bulk::ResultKind;
use unstuck_api::request::{Choice, OnDuplicate, RunSort, StepMark};
use unstuck_api::runs::RunState;
use unstuck_core::time::Time;
use unstuck_core::{bulk, command, event, model};
use unstuck_store::contract;

/// The core counts in whole milliseconds: what is finer is cut off.
pub fn to_core_time(at: Timestamp) -> Time {
    Time(at.as_millisecond())
}

pub fn to_core_on_duplicate(what: OnDuplicate) -> command::OnDuplicate {
    match what {
        OnDuplicate::Return => command::OnDuplicate::Return,
        OnDuplicate::RestartIfFinal => command::OnDuplicate::RestartIfFinal,
        OnDuplicate::Refuse => command::OnDuplicate::Refuse,
    }
}

pub(crate) fn to_core_choice(choice: Choice) -> event::Choice {
    match choice {
        Choice::Retry => event::Choice::Retry,
        Choice::None => event::Choice::None,
    }
}

pub(crate) fn to_store_step_mark(mark: StepMark) -> contract::StepMark {
    match mark {
        StepMark::Error => contract::StepMark::Error,
        StepMark::Held => contract::StepMark::Held,
        StepMark::Acknowledged => contract::StepMark::Acknowledged,
        StepMark::Scheduled => contract::StepMark::Scheduled,
    }
}

pub(crate) fn to_store_run_sort(sort: RunSort) -> contract::RunSort {
    match sort {
        RunSort::Created => contract::RunSort::Created,
        RunSort::Updated => contract::RunSort::Updated,
        RunSort::NextAutoResume => contract::RunSort::NextResume,
    }
}

pub(crate) fn to_core_run_state(state: RunState) -> model::run::RunState {
    use model::run::RunState as Of;
    match state {
        RunState::Queued => Of::Queued,
        RunState::Running => Of::Running,
        RunState::Waiting => Of::Waiting,
        RunState::Error => Of::Error,
        RunState::Held => Of::Held,
        RunState::Paused => Of::Paused,
        RunState::Completed => Of::Completed,
        RunState::Failed => Of::Failed,
        RunState::Cancelled => Of::Cancelled,
        RunState::Superseded => Of::Superseded,
    }
}

pub(crate) fn to_api_result_kind(kind: bulk::ResultKind) -> ResultKind {
    use bulk::ResultKind as Of;
    match kind {
        Of::Pending => ResultKind::Pending,
        Of::Resumed => ResultKind::Resumed,
        Of::Rerun => ResultKind::Rerun,
        Of::Retried => ResultKind::Retried,
        Of::Passed => ResultKind::Passed,
        Of::FailedAgain => ResultKind::FailedAgain,
        Of::Acknowledged => ResultKind::Acknowledged,
        Of::Cancelled => ResultKind::Cancelled,
        Of::GivenUp => ResultKind::GivenUp,
        Of::Signalled => ResultKind::Signalled,
        Of::Skipped => ResultKind::Skipped,
        Of::Completed => ResultKind::Completed,
        Of::Forgotten => ResultKind::Forgotten,
        Of::Scheduled => ResultKind::Scheduled,
        Of::Unscheduled => ResultKind::Unscheduled,
        Of::Unchanged => ResultKind::Unchanged,
        Of::Refused => ResultKind::Refused,
    }
}

pub(crate) fn to_core_result_kind(kind: ResultKind) -> bulk::ResultKind {
    let is_same = |of: &bulk::ResultKind| to_api_result_kind(*of) == kind;
    bulk::ResultKind::ALL.into_iter().find(is_same).unwrap_or(bulk::ResultKind::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &impl serde::Serialize) -> String {
        serde_json::to_string(value).expect("JSON")
    }

    /// The API has its own words, and they are those of the core.
    #[test]
    fn every_word_is_the_same_on_both_sides() {
        assert_eq!(RunState::ALL.map(to_core_run_state), model::run::RunState::ALL);
        for state in RunState::ALL {
            assert_eq!(state.word(), to_core_run_state(state).word());
            assert_eq!(json(&state), format!("\"{}\"", state.word()));
        }
        assert_eq!(bulk::ResultKind::ALL.map(to_api_result_kind), ResultKind::ALL);
        for kind in bulk::ResultKind::ALL {
            assert_eq!(to_api_result_kind(kind).word(), kind.word());
            assert_eq!(json(&to_api_result_kind(kind)), json(&kind));
            assert_eq!(to_core_result_kind(to_api_result_kind(kind)), kind);
            let code = to_api_result_kind(kind).code();
            assert_eq!(json(&kind), format!("\"{code}\""));
            assert_eq!(ResultKind::of_code(code), Some(to_api_result_kind(kind)));
        }
    }
}
