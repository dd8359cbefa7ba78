//! What a request may bring about besides what it is: which steps a rerun keeps, from when a deadline counts, what
//! applying policies may touch.

use std::collections::BTreeSet;

use unstuck_core::command::{Command, Rerun};
use unstuck_core::digest::digest;
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::model::flow::{Deadline, Flow, StepIndex};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::time::Time;
use unstuck_engine::request::Request;

use super::model::RunModel;
use super::{Broken, Promise};

/// Looks at an event beside the request that it comes from, where that is known for sure.
pub(super) fn check(
    request: Option<&Request>,
    event: &Event,
    flow: &Flow,
    before: Option<&Run>,
    model: &RunModel,
) -> Result<(), Broken> {
    let broken = |promise, what: String| {
        Err(Broken { promise, run: before.map(|run| run.id), what: format!("event {}: {what}", event.seq) })
    };
    for fact in &event.facts {
        match fact {
            Fact::Started(started) => {
                let given = match request {
                    Some(Request::Start { start, .. }) => start.deadline,
                    // Which of several starts it was is not known.
                    None if event.by != Actor::Engine => continue,
                    _ => None,
                };
                let wanted = given.or_else(|| first_deadline(flow, event.time()));
                if started.deadline != wanted {
                    let what = format!("its deadline is {:?}, and should be {wanted:?}", started.deadline);
                    return broken(Promise::Deadlines, what);
                }
            }
            Fact::Reran { deadline, keep, .. } => {
                let given = match request {
                    Some(Request::Start { start, .. }) => start.deadline,
                    None if event.by != Actor::Engine => continue,
                    _ => None,
                };
                let wanted = given.or_else(|| next_deadline(flow, event.time()));
                if *deadline != wanted {
                    let what = format!("its next deadline is {deadline:?}, and should be {wanted:?}");
                    return broken(Promise::Deadlines, what);
                }
                if let Some(what) = wrong_keep(request, flow, model, keep) {
                    return broken(Promise::Reruns, what);
                }
                if let Some(what) = wrong_input(request, event, before) {
                    return broken(Promise::Keys, what);
                }
            }
            _ => {}
        }
    }
    if let (Some(Request::Command { command, .. }), Some(before)) = (request, before)
        && let Some(what) = wrong_application(command, event, before)
    {
        return broken(Promise::Policies, what);
    }
    Ok(())
}

fn first_deadline(flow: &Flow, at: Time) -> Option<Time> {
    match flow.deadline? {
        Deadline::After(span) => Some(at + span),
        Deadline::At(time) => Some(time),
    }
}

/// A relative deadline starts again, an absolute one must be given again.
fn next_deadline(flow: &Flow, at: Time) -> Option<Time> {
    match flow.deadline? {
        Deadline::After(span) => Some(at + span),
        Deadline::At(_) => None,
    }
}

/// What is wrong with the steps that the next generation keeps.
fn wrong_keep(
    request: Option<&Request>,
    flow: &Flow,
    model: &RunModel,
    keep: &[StepIndex],
) -> Option<String> {
    let again: BTreeSet<StepIndex> = match request {
        Some(Request::Start { .. }) => flow.step_indices().collect(),
        Some(Request::Command { command: Command::Rerun { what, .. }, .. }) => match what {
            Rerun::All => flow.step_indices().collect(),
            Rerun::Continue => BTreeSet::new(),
            Rerun::Steps(steps) => with_dependents(flow, steps),
        },
        // A parent continues its child.
        None => BTreeSet::new(),
        Some(_) => return None,
    };
    for place in flow.step_indices() {
        let wanted = !again.contains(&place) && (model.is_done(place) || model.has_list(place));
        let is = keep.contains(&place);
        if wanted != is {
            let (id, word) = (&flow.step(place).id, if is { "kept" } else { "run again" });
            return Some(format!("step `{id}` is {word} in the next generation, and should not be"));
        }
    }
    None
}

/// A start of a key whose run is final starts it with the input that it gives.
fn wrong_input(request: Option<&Request>, event: &Event, before: Option<&Run>) -> Option<String> {
    let Some(Request::Start { start, .. }) = request else { return None };
    let given = digest(&start.input.value());
    let changed = event.facts.iter().find_map(|fact| match fact {
        Fact::InputChanged { digest, .. } => Some(digest.as_ref()),
        _ => None,
    });
    let is = changed.unwrap_or_else(|| before.and_then(|run| run.input_digest.as_ref()));
    (is != Some(&given)).then(|| format!("it starts again with {is:?}, and {given} was given"))
}

/// These steps, and every step that needs one of them, however far.
fn with_dependents(flow: &Flow, steps: &[StepIndex]) -> BTreeSet<StepIndex> {
    let mut all: BTreeSet<StepIndex> = steps.iter().copied().collect();
    loop {
        let more: Vec<StepIndex> = flow
            .step_indices()
            .filter(|place| {
                !all.contains(place) && flow.step(*place).node.needs.iter().any(|need| all.contains(need))
            })
            .collect();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// Applying policies touches the one step that it names, which is in error and not acknowledged; its delay counts from
/// the end of the attempt, and what would be due already waits as long as was asked for.
fn wrong_application(command: &Command, event: &Event, before: &Run) -> Option<String> {
    let Command::ApplyPolicies { unit, only, after, .. } = command else { return None };
    let state = before.unit(*unit)?;
    let UnitState::Error { acknowledged: None, .. } = &state.state else {
        return Some(format!("policies are applied to step {}, which is not open in error", unit.step.0));
    };
    let is_beside = |fact: &&Fact| {
        matches!(fact, Fact::ClockCorrected { .. } | Fact::Unit { fact: UnitFact::PassedOver { .. }, .. })
    };
    let mut facts = event.facts.iter().filter(|fact| !is_beside(fact));
    let (Some(Fact::Unit { unit: of, fact }), None) = (facts.next(), facts.next()) else {
        return Some(format!("applying policies does more than that: {:?}", event.facts));
    };
    if of != unit {
        return Some(format!("policies are applied to step {}, and were to step {}", of.step.0, unit.step.0));
    }
    let stopped = state.past.last()?.ended_at.shifted(event.clock_shift());
    match fact {
        UnitFact::Scheduled { due, delay, policy, .. } => {
            if only.as_ref().is_some_and(|only| !only.contains(&policy.name)) {
                return Some(format!("`{}` is applied, and was not asked for", policy.name));
            }
            let planned = stopped + *delay;
            let now = event.time();
            let wanted = if planned > now { planned } else { now + *after };
            (*due != wanted)
                .then(|| format!("applied for {due}, and it stopped at {stopped}: that is {wanted}"))
        }
        UnitFact::LeftInError if only.is_some() => {
            Some("a schedule is taken away by applying other policies".to_owned())
        }
        UnitFact::LeftInError => None,
        other => Some(format!("applying policies does {other:?}")),
    }
}

/// The steps that could be entered now: not done, and all that they need is.
pub(super) fn can_enter(flow: &Flow, model: &RunModel, run: &Run) -> bool {
    flow.step_indices().any(|place| {
        let is_pending =
            run.unit(UnitRef::step(place)).is_some_and(|unit| matches!(unit.state, UnitState::Pending));
        is_pending && flow.step(place).node.needs.iter().all(|need| model.is_done(*need))
    })
}
