//! Warnings about flows that are valid but suspicious.

use unstuck_core::model::emulation::{Behaviour, EmulationPlan};
use unstuck_core::model::flow::{Deadline, Kind, Step};
use unstuck_core::time::Millis;

use crate::outline::Outline;
use crate::problem::Problems;
use crate::suggest;

/// A timeout from which on a hanging attempt is noticed late.
const LATE: Millis = Millis::hours(1);
/// How many steps are named in one warning.
const NAMED: usize = 8;

/// Warns about steps whose attempts may hang for hours before that is noticed, once for the flow. A remote worker is
/// missed after its lease; a local process has a lease for as long as it lives.
pub(crate) fn warn_about_late_stuck_detection(
    outline: &Outline<'_>,
    steps: &[Step],
    deadline: Option<Deadline>,
    problems: &mut Problems<'_>,
) {
    if matches!(deadline, Some(Deadline::After(span)) if span < LATE) {
        return;
    }
    let silent: Vec<&Step> = steps.iter().filter(|step| may_hang(step)).collect();
    let longest = silent.iter().filter_map(|step| step.limits.timeout).max();
    let (Some(first), Some(longest)) = (silent.first(), longest) else { return };
    let written = outline.steps.iter().find(|step| step.id == Some(&*first.id));
    let Some(written) = written else { return };
    let mut names: Vec<&str> = silent.iter().map(|step| &*step.id).take(NAMED).collect();
    let more = format!("{} more", silent.len().saturating_sub(NAMED));
    if silent.len() > NAMED {
        names.push(&more);
    }
    let message =
        format!("a hanging attempt is noticed only after {longest}: {}", suggest::join_words(&names, "and"));
    problems
        .warning(written.object.at, &written.object.path, message)
        .hint("set a shorter `timeout`, here or in `defaults`, or a `heartbeatTimeout` if the step reports progress");
}

/// Returns whether attempts of a step may hang unnoticed until their timeout.
fn may_hang(step: &Step) -> bool {
    let hangs = match &step.kind {
        Kind::Process(_) | Kind::Http(_) => true,
        Kind::Emulate(emulation) => match &emulation.plan {
            EmulationPlan::Sequence(sequence) => sequence.contains(&Behaviour::Stick),
            EmulationPlan::Odds { odds, .. } => {
                odds.iter().any(|(behaviour, _)| *behaviour == Behaviour::Stick)
            }
        },
        Kind::Action(_) | Kind::Child(_) | Kind::Wait(_) | Kind::Signal(_) | Kind::Set(_) => false,
    };
    hangs
        && step.limits.heartbeat_timeout.is_none()
        && step.limits.timeout.is_some_and(|timeout| timeout >= LATE)
}
