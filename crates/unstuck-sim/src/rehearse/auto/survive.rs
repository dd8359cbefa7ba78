//! What a flow must survive: the check for somebody's CI.

use serde::Serialize;

use super::fault::{FaultKind, StepLocation};
use super::trial::{Trial, named};
use crate::rehearse::report::{EndKind, RunEnd};

/// Something that a run must survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// One fault.
    Single {
        /// Of this kind.
        kind: FaultKind,
        /// At every attempt, and not at the first only.
        always: bool,
        /// At this step; at every step if none.
        location: Option<StepLocation>,
    },
    /// Every pair of faults that is survived one by one.
    Pairs,
}

impl Demand {
    fn is_about(&self, trial: &Trial) -> bool {
        match (self, trial.faults.as_slice()) {
            (Demand::Single { kind, always, location }, [fault]) => {
                fault.kind == *kind
                    && fault.always == *always
                    && location.as_ref().is_none_or(|location| fault.location == *location)
            }
            (Demand::Pairs, [_, _]) => true,
            (Demand::Single { .. } | Demand::Pairs, _) => false,
        }
    }
}

/// Something that had to be survived and was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotSurvived {
    /// The step; none where a run ends badly without any fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// In a sentence.
    pub what: String,
}

pub(super) fn not_survived(
    demands: &[Demand],
    trials: &[&Trial],
    without_fault: &RunEnd,
) -> Vec<NotSurvived> {
    if demands.is_empty() {
        return Vec::new();
    }
    if without_fault.end != EndKind::Completed {
        let what = format!("without any fault the run is {}", ended(without_fault));
        return vec![NotSurvived { step: None, what }];
    }
    let wanted = trials.iter().filter(|trial| demands.iter().any(|demand| demand.is_about(trial)));
    let lost = wanted.filter(|trial| !trial.is_survived());
    lost.map(|trial| {
        let step = trial.faults.first().map(|fault| fault.location.to_string());
        let what = format!(
            "`{}` does not survive {}: the run is {}",
            step.as_deref().unwrap_or_default(),
            named(&trial.faults),
            ended(&trial.end)
        );
        NotSurvived { step, what }
    })
    .collect()
}

fn ended(end: &RunEnd) -> String {
    match &end.why {
        None => end.end.word().to_owned(),
        Some(why) => format!("{} ({why})", end.end.word()),
    }
}
