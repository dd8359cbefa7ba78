//! What came of a rehearsal: how runs ended, attempts, recovery, policies, and what was never reached.

use std::collections::BTreeMap;

use serde::Serialize;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::{Phase, Run, RunOutcome, RunState};
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::policy::{Policies, Policy};
use unstuck_core::time::Millis;

use super::examples::{self, ExampleFrom};
use super::execution::ExecutedPlan;
use super::{Rehearsal, lints, rungs};

/// What came of a rehearsal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The flow that was run.
    pub flow: String,
    /// Where chance started.
    #[serde(serialize_with = "unstuck_api::json_form::text")]
    pub seed: u64,
    /// How many runs there were.
    pub runs: u32,
    /// How many workers.
    pub workers: u32,
    /// When the clock started.
    pub start: String,
    /// The virtual time that passed.
    #[serde(rename = "took", serialize_with = "unstuck_api::json_form::seconds")]
    pub took_ms: Millis,
    /// Where the examples of outputs were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ExampleFrom>,
    /// Why it was broken off, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// How runs ended, the most frequent end first.
    pub ends: Vec<EndOf>,
    /// How long completed runs took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Spread>,
    /// How attempts ended.
    pub attempts: Attempts,
    /// From a step's first error to its completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Spread>,
    /// How often a worker died.
    pub worker_deaths: u64,
    /// What each policy did, in the order in which they match.
    pub policies: Vec<PolicyUse>,
    /// What decided what followed, and how often, by step.
    pub rungs: Vec<rungs::RungUse>,
    /// What the flow says about recovery, and nothing came to.
    pub never_reached: Vec<String>,
    /// What somebody should look at.
    pub warnings: Vec<String>,
    /// How each run ended, in the order in which they started.
    pub each: Vec<RunEnd>,
}

/// Why a rehearsal was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Broken {
    /// So much time had passed.
    Until(#[serde(serialize_with = "unstuck_api::json_form::seconds")] Millis),
    /// So many events had happened.
    Events(u64),
}

/// How a run ends in a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EndKind {
    /// Every step is done.
    Completed,
    /// It failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// It rests in error until somebody looks.
    Error,
    /// It is held for an operator.
    Held,
    /// It waits for a signal, or for something else that does not come by itself.
    Waiting,
    /// Nobody takes its work.
    Queued,
    /// It was going on when the rehearsal was broken off.
    GoingOn,
}

impl EndKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            EndKind::Completed => "completed",
            EndKind::Failed => "failed",
            EndKind::Cancelled => "cancelled",
            EndKind::Error => "in error",
            EndKind::Held => "held",
            EndKind::Waiting => "waiting",
            EndKind::Queued => "queued",
            EndKind::GoingOn => "still running",
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEnd {
    /// Its number, from 1.
    pub number: u32,
    #[serde(serialize_with = "unstuck_api::json_form::text")]
    pub run: RunId,
    pub end: EndKind,
    /// How long after its start.
    #[serde(rename = "after", serialize_with = "unstuck_api::json_form::seconds")]
    pub after_ms: Millis,
    /// Where and why, unless it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether its exception handler ran, and did not fail.
    #[serde(rename = "handled")]
    pub is_handled: bool,
}

/// Runs that ended in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndOf {
    pub end: EndKind,
    /// How many.
    pub runs: u32,
    /// The first of them, by its number.
    pub first: u32,
    /// Where and why, as the first of them tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How attempts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempts {
    /// All of them.
    pub total: u64,
    /// With an output.
    pub completed: u64,
    /// With an error that may pass.
    pub stalled: u64,
    /// With a fatal error.
    pub failed: u64,
    /// For lack of resources.
    pub deferred: u64,
    /// Unresponsive.
    pub stuck: u64,
    /// With their run, or given back.
    pub cancelled: u64,
}

impl Attempts {
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.total += 1;
        let place = match outcome {
            Outcome::Completed(_) => &mut self.completed,
            Outcome::Stalled(_) => &mut self.stalled,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Deferred { .. } => &mut self.deferred,
            Outcome::Stuck(_) => &mut self.stuck,
            Outcome::Cancelled(_) => &mut self.cancelled,
        };
        *place += 1;
    }
}

/// Lengths of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Half of them took at most so long.
    #[serde(rename = "p50", serialize_with = "unstuck_api::json_form::seconds")]
    pub p50_ms: Millis,
    /// 99 of 100 took at most so long.
    #[serde(rename = "p99", serialize_with = "unstuck_api::json_form::seconds")]
    pub p99_ms: Millis,
    /// The longest.
    #[serde(rename = "max", serialize_with = "unstuck_api::json_form::seconds")]
    pub max_ms: Millis,
}

impl Spread {
    /// Of these times, if there are any.
    pub fn of(mut times: Vec<Millis>) -> Option<Spread> {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let max_ms = *times.last()?;
        let count = u64::try_from(times.len()).unwrap_or(u64::MAX);
        Some(Spread { count, p50_ms: at(50), p99_ms: at(99), max_ms })
    }
}

/// What a policy did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyUse {
    pub policy: String,
    /// Whether it takes part.
    pub enabled: bool,
    /// How often it took an error.
    pub used: u64,
    /// How many steps had all the rounds that it gives, and failed again.
    pub spent: u64,
    /// In how many runs it took an error.
    pub runs: u64,
    /// How many of these were completed.
    pub completed: u64,
}

/// How each run ended, in the order in which they were started.
pub(super) fn report_each(played: &ExecutedPlan) -> Vec<RunEnd> {
    (1..).zip(&played.runs).map(|(number, run)| how_it_ended(number, run, played)).collect()
}

/// Makes the report of a rehearsal.
pub fn report(rehearsal: &Rehearsal, played: &ExecutedPlan) -> Report {
    let each = report_each(played);
    let completed = each.iter().filter(|end| end.end == EndKind::Completed).map(|end| end.after_ms).collect();
    let policies = Policies::new(rehearsal.policies.clone()).unwrap_or_default();
    let ends_by_run: BTreeMap<RunId, EndKind> = each.iter().map(|end| (end.run, end.end)).collect();
    let uses = policies.iter().map(|policy| policy_use(policy, played, &ends_by_run)).collect();
    let mut warnings = lints::doubts(rehearsal);
    warnings.extend(lints::of_waiting(played, rehearsal.workers, rehearsal.plan.workers.max_load));
    Report {
        flow: rehearsal.flow.to_string(),
        seed: rehearsal.seed,
        runs: rehearsal.runs,
        workers: rehearsal.workers,
        start: played.start.to_string(),
        took_ms: played.took,
        outputs: examples::given(&rehearsal.plan),
        broken: played.broken,
        ends: counted(&each),
        completion: Spread::of(completed),
        attempts: played.ledger.attempts,
        recovery: Spread::of(played.ledger.recovered.clone()),
        worker_deaths: played.ledger.deaths,
        policies: uses,
        rungs: rungs::used(played),
        never_reached: rungs::never_reached(rehearsal, played),
        warnings,
        each,
    }
}

fn policy_use(policy: &Policy, played: &ExecutedPlan, ends: &BTreeMap<RunId, EndKind>) -> PolicyUse {
    let tally = played.ledger.policies.get(&policy.name).cloned().unwrap_or_default();
    let completed = tally.runs.iter().filter(|run| ends.get(run) == Some(&EndKind::Completed)).count();
    PolicyUse {
        policy: policy.name.to_string(),
        enabled: policy.enabled,
        used: tally.used,
        spent: tally.spent,
        runs: tally.runs.len() as u64,
        completed: completed as u64,
    }
}

fn counted(each: &[RunEnd]) -> Vec<EndOf> {
    let mut ends: Vec<EndOf> = Vec::new();
    for RunEnd { number, end, why, .. } in each {
        match ends.iter_mut().find(|known| known.end == *end) {
            Some(known) => known.runs += 1,
            None => ends.push(EndOf { end: *end, runs: 1, first: *number, why: why.clone() }),
        }
    }
    ends.sort_by_key(|end| (std::cmp::Reverse(end.runs), end.first));
    ends
}

fn how_it_ended(number: u32, run: &Run, played: &ExecutedPlan) -> RunEnd {
    let flow = played.flows.get(&run.flow).map(|flow| &**flow);
    let (end, after, why) = match &run.phase {
        Phase::Ended(ended) => {
            let after = ended.at.since(run.created_at);
            match &ended.how {
                RunOutcome::Completed { .. } => (EndKind::Completed, after, None),
                RunOutcome::Failed { error, handler } => {
                    let cause = &error.error.cause;
                    let why = match error.unit {
                        Some(unit) => format!("`{}`: {cause}", unit_name(flow, unit)),
                        None => cause.to_string(),
                    };
                    let why = match handler {
                        None => why,
                        Some((_, None)) => format!("{why}; the exception handler ran"),
                        Some((_, Some(_))) => format!("{why}; the exception handler failed too"),
                    };
                    (EndKind::Failed, after, Some(why))
                }
                RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => {
                    (EndKind::Cancelled, after, None)
                }
            }
        }
        Phase::Going | Phase::Failing(_) => {
            let (end, why) = where_it_rests(run, flow, played.broken.is_some());
            (end, run.updated_at.since(run.created_at), why)
        }
    };
    RunEnd { number, run: run.id, end, after_ms: after, why, is_handled: is_handled(run) }
}

fn is_handled(run: &Run) -> bool {
    let Phase::Ended(ended) = &run.phase else { return false };
    matches!(ended.how, RunOutcome::Failed { handler: Some((_, None)), .. })
}

fn where_it_rests(run: &Run, flow: Option<&Flow>, is_broken: bool) -> (EndKind, Option<String>) {
    let scheduled = run.units_where(|unit| matches!(unit.state, UnitState::Error { resume: Some(_), .. }));
    let end = match run.state() {
        RunState::Held => EndKind::Held,
        RunState::Error if scheduled.is_empty() => EndKind::Error,
        _ if is_broken => EndKind::GoingOn,
        RunState::Queued | RunState::Running => EndKind::Queued,
        _ => EndKind::Waiting,
    };
    let mut places = Vec::new();
    run.each_unit(|unit, state| {
        let name = || unit_name(flow, unit);
        match &state.state {
            UnitState::Held { .. } => places.push(format!("`{}` is held", name())),
            UnitState::Error { .. } => {
                let cause = state.past.last().and_then(|past| past.outcome.error());
                let cause = cause.map_or(String::new(), |error| format!(": {}", error.cause));
                places.push(format!("`{}` is in error{cause}", name()));
            }
            UnitState::Active(live) => {
                let state = match &live.doing {
                    unstuck_core::model::unit::AttemptPhase::Child { state, .. } => state.word(),
                    _ => "active",
                };
                places.push(format!("`{}` is {state}", name()));
            }
            UnitState::Waiting(_) => {
                let awaited = flow.map(|flow| &flow.step(unit.step).kind);
                match awaited {
                    Some(Kind::Signal(signal)) => {
                        places.push(format!("`{}` waits for signal `{signal}`", name()));
                    }
                    _ => places.push(format!("`{}` is waiting", name())),
                }
            }
            UnitState::Ready(_) => places.push(format!("`{}` is queued", name())),
            _ => {}
        }
    });
    (end, (!places.is_empty()).then(|| shortened(places)))
}

fn shortened(mut places: Vec<String>) -> String {
    let more = places.len().saturating_sub(3);
    places.truncate(3);
    let text = places.join(", ");
    if more > 0 { format!("{text}, and {more} more") } else { text }
}

/// `fetch`, or `fetch[3]`.
pub(super) fn unit_name(flow: Option<&Flow>, unit: UnitRef) -> String {
    let id = flow.map_or_else(|| unit.step.0.to_string(), |flow| flow.step(unit.step).id.to_string());
    match unit.item {
        None => id,
        Some(item) => format!("{id}[{item}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_the_middle_and_the_worst() {
        let none: Vec<u64> = Vec::new();
        let cases = [
            (none, None),
            (vec![7], Some((7, 7, 7))),
            (vec![3, 1], Some((1, 3, 3))),
            (vec![5, 1, 3], Some((3, 5, 5))),
            ((1..=200).collect(), Some((100, 198, 200))),
        ];
        for (times, wanted) in cases {
            let spread = Spread::of(times.iter().copied().map(Millis).collect());
            let found = spread.map(|spread| (spread.p50_ms.0, spread.p99_ms.0, spread.max_ms.0));
            assert_eq!(found, wanted, "{times:?}");
        }
    }
}
