//! Error records: what is stored about each error, once, so that policies can be tried on past errors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Event, Fact, UnitFact};
use crate::fingerprint::{FINGERPRINT_VERSION, Fingerprint};
use crate::id::RunId;
use crate::model::attempt::Outcome;
use crate::model::error::{Error, Reason};
use crate::model::flow::Flow;
use crate::model::run::Run;
use crate::model::unit::{Unit, UnitRef, UnitState};
use crate::policy::{ErrorToMatch, PolicyRef};
use crate::time::{Millis, Time};

/// One error, as it was when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRecord {
    pub run: RunId,
    pub generation: u32,
    pub unit: UnitRef,
    /// Its name, as people write it.
    pub step: Arc<str>,
    pub attempt: u32,
    /// When it ended.
    pub at: Time,
    /// The flow that contains the step.
    pub flow: Arc<str>,
    /// The flow of the root run.
    pub root_flow: Arc<str>,
    /// The full name of the action.
    pub action: Arc<str>,
    /// The engine-made action that found the error; nothing where a worker reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<Arc<str>>,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<Arc<str>>,
    /// The worker's text.
    pub cause: Arc<str>,
    /// Whether it was called fatal.
    pub fatal: bool,
    /// Who is to blame. Not recorded before version 2 of the fingerprints.
    #[serde(default, skip_serializing_if = "is_processing")]
    pub reason: Reason,
    /// The rounds of the step since the last manual resume.
    pub rounds: u32,
    /// The step's minimum delay: no policy resumes it sooner after its end.
    #[serde(default)]
    pub minimum_delay: Millis,
    /// The error group: a digest of the action and the pattern.
    pub group: Arc<str>,
    /// The cause without its changing parts.
    pub pattern: Arc<str>,
    /// The version of the rules that made group and pattern.
    #[serde(default = "first_fingerprint_version", skip_serializing_if = "is_first_fingerprint_version")]
    pub fingerprint_version: u32,
    /// What the recovery ladder did about it.
    pub led_to: LedTo,
    /// The policy that scheduled a resume, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_processing(reason: &Reason) -> bool {
    *reason == Reason::Processing
}

fn first_fingerprint_version() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first_fingerprint_version(version: &u32) -> bool {
    *version == first_fingerprint_version()
}

/// The rung of the ladder that acted on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LedTo {
    /// The retry strategy tries again.
    Retry,
    /// The retry strategy holds the step.
    Hold,
    /// The flow continues without the step.
    #[serde(rename = "wentOn")]
    Ignored,
    /// A policy resumes it.
    Policy,
    /// It stays in error.
    Rest,
    /// The run fails.
    Failed,
    /// The run was failing already.
    Nothing,
    /// It was the run's deadline, which no rung but the handler takes.
    Deadline,
}

impl LedTo {
    /// Returns whether the error was matched against the policies: one that an earlier rung handled says nothing about
    /// them.
    pub fn has_reached_policies(self) -> bool {
        match self {
            LedTo::Policy | LedTo::Rest | LedTo::Failed => true,
            LedTo::Retry | LedTo::Hold | LedTo::Ignored | LedTo::Nothing | LedTo::Deadline => false,
        }
    }
}

impl ErrorRecord {
    /// Returns whether `action` is the step's action or the engine-made one that found the error.
    pub fn is_of_action(&self, action: &str) -> bool {
        *self.action == *action || self.found_by.as_deref() == Some(action)
    }

    /// Returns the fields that policies match on.
    pub fn to_match(&self) -> ErrorToMatch<'_> {
        ErrorToMatch {
            cause: &self.cause,
            root_flow: &self.root_flow,
            action: &self.action,
            found_by: self.found_by.as_deref(),
            action_type: self.action_type.as_deref(),
            fatal: self.fatal,
            rounds: self.rounds,
        }
    }
}

/// Counts the rounds of a unit since its last manual resume, the current one included.
pub fn rounds_since_manual_resume(unit: &Unit) -> u32 {
    unit.round.number.saturating_sub(unit.round.manual).saturating_add(1)
}

/// Builds the error records of an event: one for each attempt that stalled or failed, with what the ladder did about
/// it, and one for a missed deadline. `run` is the state after the event.
pub fn collect_error_records(event: &Event, run: &Run, flow: &Flow) -> Vec<ErrorRecord> {
    let mut records = Vec::new();
    for (place, fact) in event.facts.iter().enumerate() {
        let (unit, attempt, error, fatal, (led_to, policy)) =
            if let Fact::Unit { unit, fact: UnitFact::Ended { attempt, outcome } } = fact {
                let Some(error) = outcome.error() else { continue };
                let followed = find_resolution(&event.facts[place + 1..], *unit);
                (*unit, *attempt, error, matches!(outcome, Outcome::Failed(_)), followed)
            } else if let Fact::Failing { error: failed, .. } = fact {
                // A deadline ends no attempt: it is recorded for the unit that the run was waiting for.
                let Some(unit) = failed.waiting else { continue };
                let attempt = run.unit(unit).map_or(0, |unit| unit.attempts);
                (unit, attempt, &failed.error, failed.fatal, (LedTo::Deadline, None))
            } else {
                continue;
            };
        let record = build_error_record(run, flow, unit, error);
        let (generation, at) = (event.generation, event.time());
        records.push(ErrorRecord { generation, attempt, at, fatal, led_to, policy, ..record });
    }
    records
}

/// Builds a record with all that follows from the run and the error. The caller sets attempt, fatality and resolution.
fn build_error_record(run: &Run, flow: &Flow, unit: UnitRef, error: &Error) -> ErrorRecord {
    let step = flow.step(unit.step);
    let Fingerprint { group, pattern } = Fingerprint::of(&step.full_action, &error.cause);
    ErrorRecord {
        run: run.id,
        generation: run.generation,
        unit,
        step: crate::decide::unit_name(flow, unit).into(),
        attempt: 0,
        at: run.updated_at,
        flow: flow.name.clone(),
        root_flow: run.root_flow.clone(),
        action: step.full_action.clone(),
        found_by: error.found_by.clone(),
        action_type: step.action_type.clone(),
        cause: error.cause.clone(),
        fatal: false,
        reason: error.reason,
        rounds: run.unit(unit).map_or(1, rounds_since_manual_resume),
        minimum_delay: step.limits.minimum_delay,
        group,
        pattern,
        fingerprint_version: FINGERPRINT_VERSION,
        led_to: LedTo::Rest,
        policy: None,
    }
}

/// Finds what the ladder did about an error of unit `of`: the first fact about that unit after the end of its attempt
/// tells it.
fn find_resolution(facts: &[Fact], of: UnitRef) -> (LedTo, Option<PolicyRef>) {
    for fact in facts {
        let Fact::Unit { unit, fact } = fact else { continue };
        let simple = [
            (matches!(fact, UnitFact::Retry { .. }), LedTo::Retry),
            (matches!(fact, UnitFact::Held), LedTo::Hold),
            (matches!(fact, UnitFact::Ignored), LedTo::Ignored),
            (matches!(fact, UnitFact::LeftInError), LedTo::Rest),
        ];
        if *unit != of {
            continue;
        }
        if let UnitFact::Scheduled { policy, .. } = fact {
            return (LedTo::Policy, Some(policy.clone()));
        }
        if let Some((_, led_to)) = simple.into_iter().find(|(is_it, _)| *is_it) {
            return (led_to, None);
        }
    }
    // The run fails with this step, or was failing already, so that no policy was matched.
    let fails = |fact: &Fact| matches!(fact, Fact::Failing { error, .. } if error.unit == Some(of));
    (if facts.iter().any(fails) { LedTo::Failed } else { LedTo::Nothing }, None)
}

/// A step that is in error now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenError {
    /// What is known of the error itself.
    pub record: ErrorRecord,
    /// When it is resumed automatically, and by which policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<(Time, PolicyRef)>,
    /// Whether an operator has acknowledged it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledged: bool,
}

/// Lists the units whose open error may have been changed by `events`, each with its open error now (nothing once it is
/// resolved). `run` is the state after the events. Stores keep their list of open errors by this.
pub fn changed_open_errors(events: &[Event], run: &Run, flow: &Flow) -> Vec<(UnitRef, Option<OpenError>)> {
    let mut units: Vec<UnitRef> = Vec::new();
    for fact in events.iter().flat_map(|event| &event.facts) {
        if let Fact::Unit { unit, fact } = fact
            && may_change_open_error(fact)
            && !units.contains(unit)
        {
            units.push(*unit);
        }
    }
    // A clock correction moves every scheduled resume.
    if events.iter().any(|event| event.clock_shift() != 0) {
        let in_error = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
        units.extend(in_error.into_iter().filter(|unit| !units.contains(unit)).collect::<Vec<_>>());
    }
    units.into_iter().map(|unit| (unit, open_error(run, flow, unit))).collect()
}

/// Returns whether a fact can bring a unit into error, change its open error or resolve it.
fn may_change_open_error(fact: &UnitFact) -> bool {
    match fact {
        UnitFact::Scheduled { .. }
        | UnitFact::LeftInError
        | UnitFact::Acknowledged { .. }
        | UnitFact::Resumed { .. }
        | UnitFact::DoneByHand { .. }
        | UnitFact::Skipped { .. }
        | UnitFact::Closed { .. } => true,
        UnitFact::InputBound { .. }
        | UnitFact::Queued { .. }
        | UnitFact::Dequeued { .. }
        | UnitFact::Started { .. }
        | UnitFact::Progress { .. }
        | UnitFact::ReportIgnored { .. }
        | UnitFact::LimitExtended { .. }
        | UnitFact::Ended { .. }
        | UnitFact::Retry { .. }
        | UnitFact::Held
        | UnitFact::Ignored
        | UnitFact::PassedOver { .. }
        | UnitFact::Failed
        | UnitFact::Deferred { .. }
        | UnitFact::Requeued { .. }
        | UnitFact::Done { .. }
        | UnitFact::TimerSet { .. }
        | UnitFact::SignalAwaited { .. }
        | UnitFact::ChildStarted { .. }
        | UnitFact::ChildChanged { .. }
        | UnitFact::Chosen { .. } => false,
    }
}

/// Returns the error of a unit that is in error now.
pub fn open_error(run: &Run, flow: &Flow, unit: UnitRef) -> Option<OpenError> {
    let state = run.unit(unit)?;
    let UnitState::Error { resume, acknowledged, .. } = &state.state else { return None };
    let past = state.past.last()?;
    let error = past.outcome.error()?;
    let record = ErrorRecord {
        attempt: past.attempt,
        at: past.ended_at,
        fatal: matches!(past.outcome, Outcome::Failed(_)),
        led_to: if resume.is_some() { LedTo::Policy } else { LedTo::Rest },
        policy: resume.as_ref().map(|resume| resume.policy.clone()),
        ..build_error_record(run, flow, unit, error)
    };
    let resume = resume.as_ref().map(|resume| (resume.due, resume.policy.clone()));
    Some(OpenError { record, resume, acknowledged: acknowledged.is_some() })
}
