//! Whether an event is what a request asked for, and whether what was given with it is kept as it was.

use unstuck_core::command::{Command, Report};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::attempt::{Cancelled, Outcome, ResumedBy};
use unstuck_core::model::run::PausedBy;
use unstuck_core::model::unit::{SkippedBy, UnitRef};
use unstuck_engine::request::Request;

/// A payload that must be kept as it was given.
#[derive(Debug)]
pub(super) struct StoredPolicies {
    pub(super) run: RunId,
    pub(super) payload: Payload,
    pub(super) given: Json,
}

impl StoredPolicies {
    /// What came with a request, and the payload that its event has of it.
    pub(super) fn of(request: &Request, event: &Event) -> Option<StoredPolicies> {
        let kept = |run: RunId, payload: &Payload, given: &Json| StoredPolicies {
            run,
            payload: payload.clone(),
            given: given.clone(),
        };
        match request {
            Request::Start { start, .. } => match event.facts.first()? {
                Fact::Started(started) => Some(kept(started.run, &started.input, &start.input)),
                _ => None,
            },
            Request::Command { run, command: Command::Report { report: says, .. }, .. } => {
                StoredPolicies::of_says(*run, says, event)
            }
            Request::Command { run, command: Command::Complete { unit, output, .. }, .. } => {
                event.facts.iter().find_map(|fact| match fact {
                    Fact::Unit { unit: of, fact: UnitFact::DoneByHand { output: has, .. } } if of == unit => {
                        Some(kept(*run, has, output))
                    }
                    _ => None,
                })
            }
            Request::Command { run, command: Command::Signal { name, payload, .. }, .. } => {
                event.facts.iter().find_map(|fact| match fact {
                    Fact::SignalKept { name: of, payload: has } if of == name => {
                        Some(kept(*run, has, payload))
                    }
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// The output that a worker gave.
    pub(super) fn of_says(run: RunId, says: &Report, event: &Event) -> Option<StoredPolicies> {
        let Report::Complete { output } = says else { return None };
        event.facts.iter().find_map(|fact| match fact {
            Fact::Unit { fact: UnitFact::Ended { outcome: Outcome::Completed(has), .. }, .. } => {
                Some(StoredPolicies { run, payload: has.clone(), given: output.clone() })
            }
            _ => None,
        })
    }
}

/// Whether an event is what this command does.
pub(super) fn matches_command(command: &Command, event: &Event) -> bool {
    let of_unit = |unit: Option<UnitRef>, is: &dyn Fn(&UnitFact) -> bool| {
        event.facts.iter().any(|fact| match fact {
            Fact::Unit { unit: of, fact } => unit.is_none_or(|unit| unit == *of) && is(fact),
            _ => false,
        })
    };
    let of_run = |is: &dyn Fn(&Fact) -> bool| event.facts.iter().any(is);
    match command {
        Command::Choose { unit, choice, .. } => of_unit(
            Some(*unit),
            &|fact| matches!(fact, UnitFact::Chosen { choice: chosen, .. } if chosen == choice),
        ),
        Command::Resume { unit, .. } => {
            of_unit(*unit, &|fact| matches!(fact, UnitFact::Resumed { by: ResumedBy::Operator, .. }))
        }
        Command::Acknowledge { unit, .. } => {
            of_unit(*unit, &|fact| matches!(fact, UnitFact::Acknowledged { .. }))
        }
        Command::Complete { unit, .. } => {
            of_unit(Some(*unit), &|fact| matches!(fact, UnitFact::DoneByHand { .. }))
        }
        Command::Skip { unit, .. } => {
            of_unit(Some(*unit), &|fact| matches!(fact, UnitFact::Skipped { why: SkippedBy::Operator, .. }))
        }
        Command::ApplyPolicies { unit, .. } => {
            of_unit(Some(*unit), &|fact| matches!(fact, UnitFact::Scheduled { .. } | UnitFact::LeftInError))
        }
        Command::Pause { .. } => of_run(&|fact| matches!(fact, Fact::Paused { by: PausedBy::Operator, .. })),
        Command::Unpause { .. } => of_run(&|fact| matches!(fact, Fact::Unpaused)),
        Command::Cancel { .. } => of_run(&|fact| matches!(fact, Fact::RunCancelled { .. })),
        Command::Migrate { .. } => of_run(&|fact| matches!(fact, Fact::Migrated(_))),
        Command::Amend { .. } => of_run(&|fact| matches!(fact, Fact::Amended(_))),
        Command::Signal { name, .. } => {
            of_run(&|fact| matches!(fact, Fact::SignalKept { name: kept, .. } if kept == name))
        }
        Command::Rerun { .. } => of_run(&|fact| matches!(fact, Fact::Reran { .. })),
        Command::Start(_)
        | Command::Admit
        | Command::Claim { .. }
        | Command::Report { .. }
        | Command::Lost { .. }
        | Command::Due { .. }
        | Command::Notice(_) => false,
    }
}

/// What a worker's event says about its attempt.
pub(super) fn worker_fact(event: &Event) -> Option<(UnitRef, &UnitFact)> {
    let mut last = None;
    for fact in &event.facts {
        let Fact::Unit { unit, fact } = fact else { break };
        match fact {
            UnitFact::Started { .. } if last.is_none() => last = Some((*unit, fact)),
            UnitFact::Progress { .. } | UnitFact::ReportIgnored { .. } | UnitFact::LimitExtended { .. } => {
                return Some((*unit, fact));
            }
            UnitFact::Ended { .. } => return Some((*unit, fact)),
            _ => break,
        }
    }
    last
}

/// Whether a worker that says this makes this true.
pub(super) fn matches_says(says: &Report, fact: &UnitFact) -> bool {
    match (says, fact) {
        (Report::Start | Report::Heartbeat { progress: None }, UnitFact::Started { .. })
        | (Report::Heartbeat { progress: None }, UnitFact::LimitExtended { .. })
        | (Report::Heartbeat { progress: Some(_) }, UnitFact::Progress { .. })
        | (Report::Log(_), UnitFact::ReportIgnored { .. }) => true,
        (_, UnitFact::Ended { outcome, .. }) => is_outcome(says, outcome),
        _ => false,
    }
}

/// Whether a worker that says this ends its attempt so.
pub(super) fn is_outcome(says: &Report, outcome: &Outcome) -> bool {
    match (says, outcome) {
        (Report::Complete { output }, Outcome::Completed(Payload::Inline(has))) => output == has,
        // Whether a stored one is the same is looked up later.
        (Report::Complete { .. }, Outcome::Completed(Payload::Stored(_))) => true,
        (Report::Complete { .. }, Outcome::Failed(error)) => error.found_by.is_some(),
        (Report::Fail { error, fatal: false }, Outcome::Stalled(has))
        | (Report::Fail { error, fatal: true }, Outcome::Failed(has)) => error == has,
        (Report::Defer { asked, lacking }, Outcome::Deferred { asked: has, lacking: lacks }) => {
            asked == has && lacking == lacks
        }
        (Report::Defer { .. }, Outcome::Stalled(error)) => error.found_by.is_some(),
        (Report::Release, Outcome::Cancelled(Cancelled::Released)) => true,
        _ => false,
    }
}

/// Whether an answer says again what was recorded before, as far as an engine must recognise it.
pub(super) fn says_the_same(says: &Report, outcome: &Outcome) -> bool {
    matches!(
        (says, outcome),
        (Report::Complete { .. }, Outcome::Completed(_))
            | (Report::Fail { fatal: true, .. }, Outcome::Failed(_))
            | (Report::Fail { fatal: false, .. }, Outcome::Stalled(_))
            | (Report::Defer { .. }, Outcome::Deferred { .. })
            | (Report::Release, Outcome::Cancelled(Cancelled::Released))
    )
}
