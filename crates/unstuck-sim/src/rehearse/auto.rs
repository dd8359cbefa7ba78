//! Every fault at every step, each in a rehearsal of its own: what does not end well are the weak points of a flow.

mod advice;
mod fault;
mod survive;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use unstuck_core::model::flow::{Kind, Step};
use unstuck_core::time::Millis;
use unstuck_flow::plan::{SignalPlan, is_executed};

use super::examples::{self, ExampleFrom, Missing};
use super::report::{EndKind, RunEnd};
use super::{Rehearsal, RehearsalError};

pub use fault::{Fault, FaultKind, StepLocation};
pub use survive::{Demand, NotSurvived};
use trial::{Trial, try_all};

/// So many pairs are tried where nobody says.
pub const MOST_PAIRS: usize = 2_000;

/// What was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    pub flow: String,
    /// Where chance started.
    #[serde(serialize_with = "unstuck_api::json_form::text")]
    pub seed: u64,
    /// Where the examples of outputs were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ExampleFrom>,
    /// How a run ends without any fault.
    pub without_fault: RunEnd,
    /// Which examples of outputs are missing, where a run ends badly without any fault for the lack of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// How many steps have had faults.
    pub steps: usize,
    /// One fault, at one attempt.
    pub once: Tried,
    /// One fault, at every attempt.
    pub always: Tried,
    /// Two faults that a run survives alone.
    pub pairs: Tried,
    /// What does not end well, by step, the most harmful first.
    pub weak_points: Vec<WeakPoint>,
    /// What had to be survived and was not.
    pub not_survived: Vec<NotSurvived>,
    /// What somebody should look at.
    pub warnings: Vec<String>,
}

/// How many were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// How many.
    pub tried: usize,
    /// So many of them ended well.
    pub survived: usize,
    /// So many were not tried.
    pub left_out: usize,
}

/// A step whose faults do not end well.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WeakPoint {
    pub step: String,
    /// What does not end well there: single faults, then pairs.
    pub faults: Vec<BadEnd>,
    /// What would help.
    pub helps: Vec<String>,
}

/// A fault that does not end well.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BadEnd {
    /// Which: `stall once`.
    pub fault: String,
    /// Whether it is a pair of faults.
    #[serde(rename = "pair")]
    pub is_pair: bool,
    /// Whether it is at every attempt.
    #[serde(rename = "always")]
    pub is_always: bool,
    /// How the run ends.
    pub end: EndKind,
    /// After how long.
    #[serde(rename = "after", serialize_with = "unstuck_api::json_form::seconds")]
    pub after_ms: Millis,
    /// Where and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The plan that brings it about.
    pub plan: String,
}

/// Tries every fault at every step, then pairs of those that are survived alone.
pub fn find_weak_points(
    rehearsal: &Rehearsal,
    demands: &[Demand],
    max_pairs: usize,
) -> Result<Findings, RehearsalError> {
    let steps = executed_steps(rehearsal);
    let without_fault = trial::rehearse(rehearsal, &[])?;
    let single = |always: bool| -> Vec<Vec<Fault>> {
        let faults = steps.iter().flat_map(|location| {
            FaultKind::ALL.map(|kind| Fault { location: location.clone(), kind, always })
        });
        faults.map(|fault| vec![fault]).collect()
    };
    // What ends badly without a fault says nothing about faults.
    let is_sound = without_fault.end == EndKind::Completed;
    let missing = if is_sound { None } else { examples::missing(rehearsal)? };
    let pick = |faults: Vec<Vec<Fault>>| if is_sound { faults } else { Vec::new() };
    let once = try_all(rehearsal, pick(single(false)))?;
    let always = try_all(rehearsal, pick(single(true)))?;
    let mut candidates = pairs(&once);
    let left_out = candidates.len().saturating_sub(max_pairs);
    candidates.truncate(max_pairs);
    let both = try_all(rehearsal, candidates)?;
    let trials: Vec<&Trial> = once.iter().chain(&both).chain(&always).collect();
    Ok(Findings {
        flow: rehearsal.flow.to_string(),
        seed: rehearsal.seed,
        outputs: examples::given(&rehearsal.plan),
        missing,
        steps: steps.len(),
        once: tried(&once, 0),
        always: tried(&always, 0),
        pairs: tried(&both, left_out),
        weak_points: weak_points(rehearsal, &trials),
        not_survived: survive::not_survived(demands, &trials, &without_fault),
        warnings: super::doubts(rehearsal),
        without_fault,
    })
}

/// The steps of the flow that is run and of its children that somebody executes. Handlers run after a failure only.
fn executed_steps(rehearsal: &Rehearsal) -> Vec<StepLocation> {
    let mut steps = Vec::new();
    let mut names = vec![rehearsal.flow.clone()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        let Some(flow) = rehearsal.flows.iter().find(|flow| flow.name == name) else { continue };
        for step in &flow.steps {
            if is_executed(step) {
                let of = (next > 1).then(|| flow.name.clone());
                steps.push(StepLocation { flow: of, step: step.id.clone() });
            }
            if let Kind::Child(child) = &step.kind
                && !names.contains(child)
            {
                names.push(child.clone());
            }
        }
    }
    steps
}

/// Every pair of faults that are survived alone: two in a row at one step first, then at two steps.
fn pairs(once: &[Trial]) -> Vec<Vec<Fault>> {
    let survived: Vec<&Fault> =
        once.iter().filter(|trial| trial.is_survived()).filter_map(|trial| trial.faults.first()).collect();
    let mut same = Vec::new();
    let mut other = Vec::new();
    for (place, first) in survived.iter().enumerate() {
        for (later, second) in survived.iter().enumerate() {
            let pair = || vec![(*first).clone(), (*second).clone()];
            if first.location == second.location {
                same.push(pair());
            } else if place < later {
                other.push(pair());
            }
        }
    }
    same.extend(other);
    same
}

fn tried(trials: &[Trial], left_out: usize) -> Tried {
    let survived = trials.iter().filter(|trial| trial.is_survived()).count();
    Tried { tried: trials.len(), survived, left_out }
}

fn weak_points(rehearsal: &Rehearsal, trials: &[&Trial]) -> Vec<WeakPoint> {
    let mut by_step: BTreeMap<StepLocation, (u64, Vec<&Trial>)> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| !trial.is_survived()) {
        let Some(first) = trial.faults.first() else { continue };
        let (harm, found) = by_step.entry(first.location.clone()).or_default();
        *harm += trial.harm();
        found.push(trial);
    }
    let order = executed_steps(rehearsal);
    let place = |location: &StepLocation| order.iter().position(|known| known == location);
    let mut found: Vec<(u64, StepLocation, Vec<&Trial>)> =
        by_step.into_iter().map(|(location, (harm, trials))| (harm, location, trials)).collect();
    found.sort_by_key(|(harm, location, _)| (std::cmp::Reverse(*harm), place(location)));
    let signals = signals_are_awaited(rehearsal);
    let point = |(_, location, trials): (u64, StepLocation, Vec<&Trial>)| WeakPoint {
        step: location.to_string(),
        helps: helps(rehearsal, &location, &trials),
        faults: trials.iter().map(|trial| trial.bad_end(signals)).collect(),
    };
    found.into_iter().map(point).collect()
}

fn signals_are_awaited(rehearsal: &Rehearsal) -> bool {
    let mut steps = rehearsal.flows.iter().flat_map(|flow| &flow.steps);
    rehearsal.plan.signals == SignalPlan::AsAwaited && steps.any(|step| matches!(step.kind, Kind::Signal(_)))
}

fn helps(rehearsal: &Rehearsal, location: &StepLocation, trials: &[&Trial]) -> Vec<String> {
    let Some(step) = step_of(rehearsal, location) else { return Vec::new() };
    let mut helps: Vec<String> = Vec::new();
    for trial in trials {
        let Some(last) = trial.faults.last() else { continue };
        let advice = advice::advice(step, last, trial.end.end);
        if !helps.contains(&advice) {
            helps.push(advice);
        }
    }
    helps
}

fn step_of<'a>(rehearsal: &'a Rehearsal, location: &StepLocation) -> Option<&'a Step> {
    let name: &Arc<str> = location.flow.as_ref().unwrap_or(&rehearsal.flow);
    let flow = rehearsal.flows.iter().find(|flow| flow.name == *name)?;
    flow.steps.iter().find(|step| step.id == location.step)
}
