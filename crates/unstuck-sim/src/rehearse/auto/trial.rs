//! One rehearsal for each fault, on all cores: what is found does not depend on which core was faster.

use std::thread;

use unstuck_core::time::Millis;

use super::BadEnd;
use super::fault::{self, Fault};
use crate::rehearse::report::{EndKind, RunEnd, report_each};
use crate::rehearse::{Keep, Rehearsal, RehearsalError, execute_plan};

/// After so many events a run of one flow goes in circles.
const MOST_EVENTS: u64 = 20_000;
/// A fault is tried for so long.
const LONGEST: Millis = Millis::hours(30 * 24);

/// Faults, and how a run with them ended.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) faults: Vec<Fault>,
    pub(super) end: RunEnd,
}

impl Trial {
    pub(super) fn is_survived(&self) -> bool {
        self.end.end == EndKind::Completed
    }

    /// How bad it is that it is not survived: a single blip that fails a run is the worst.
    pub(super) fn harm(&self) -> u64 {
        let how = match self.end.end {
            EndKind::Completed => 0,
            EndKind::Failed if self.end.is_handled => 3,
            EndKind::Failed | EndKind::Cancelled => 4,
            EndKind::Error | EndKind::Queued => 3,
            EndKind::Held | EndKind::Waiting => 2,
            EndKind::GoingOn => 1,
        };
        let weight = match self.faults.as_slice() {
            [fault] if fault.always => 1,
            [_] => 1_000,
            _ => 20,
        };
        how * weight
    }

    /// For people.
    pub(super) fn bad_end(&self, signals: bool) -> BadEnd {
        BadEnd {
            fault: named(&self.faults),
            is_pair: self.faults.len() > 1,
            is_always: self.faults.iter().any(|fault| fault.always),
            end: self.end.end,
            after_ms: self.end.after_ms,
            why: self.end.why.clone(),
            plan: fault::written(&self.faults, signals),
        }
    }
}

/// `stall once`, or `stall, then crash`, or `stall once, and crash once at upload`.
pub(super) fn named(faults: &[Fault]) -> String {
    match faults {
        [first, second] if first.location == second.location => {
            format!("{}, then {}", first.kind.word(), second.kind.word())
        }
        [first, second] => format!("{first}, and {second} at `{}`", second.location),
        _ => faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// How a run ends that has these faults.
pub(super) fn rehearse(rehearsal: &Rehearsal, faults: &[Fault]) -> Result<RunEnd, RehearsalError> {
    let mut plan = rehearsal.plan.clone();
    let mut rules = fault::rules(faults);
    rules.append(&mut plan.rules);
    plan.rules = rules;
    let until = rehearsal.until.min(LONGEST);
    let alone =
        Rehearsal { plan, runs: 1, until, max_events: MOST_EVENTS, keep: Keep::None, ..rehearsal.clone() };
    let played = execute_plan(&alone)?;
    report_each(&played).into_iter().next().ok_or_else(|| RehearsalError("the run did not start".to_owned()))
}

/// Tries each of these, in order.
pub(super) fn try_all(rehearsal: &Rehearsal, all: Vec<Vec<Fault>>) -> Result<Vec<Trial>, RehearsalError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(all.len().max(1));
    let share = all.len().div_ceil(threads).max(1);
    let parts: Vec<Result<Vec<RunEnd>, RehearsalError>> = thread::scope(|scope| {
        let workers: Vec<_> = all
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(|faults| rehearse(rehearsal, faults)).collect()))
            .collect();
        let gone = || Err(RehearsalError("a rehearsal stopped unexpectedly; please report this".to_owned()));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| gone())).collect()
    });
    let mut ends = Vec::new();
    for part in parts {
        ends.extend(part?);
    }
    Ok(all.into_iter().zip(ends).map(|(faults, end)| Trial { faults, end }).collect())
}
