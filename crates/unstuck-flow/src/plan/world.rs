//! Reads the parts of a plan that are not about steps: workers and their deaths, signals, an operator.

use unstuck_core::event::Choice;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::time::Millis;

use super::{Death, Operator, SentSignal, SignalPlan, Times, Workers, planned_time};
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::suggest;
use crate::tree::Content;

/// The highest number of emulated workers.
const MAX_WORKERS: u32 = 10_000;

/// Reads the emulated workers: their number, or an object.
pub(super) fn read_workers(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Workers> {
    let usual = Workers::default();
    if matches!(spot.node.content, Content::Number(_)) {
        return Some(Workers { count: Some(read_worker_count(spot, problems)?), ..usual });
    }
    let object = Object::read(spot, fields::WORKERS, "`workers`", problems)?;
    let many = object.spot("count").map(|spot| read_worker_count(&spot, problems));
    let load = object.spot("maxLoad");
    let load = load
        .map_or(Some(usual.max_load), |spot| spot.read_whole(1, "a whole number of at least 1", problems));
    let restart = object.spot("restartAfter");
    let restart = restart.map_or(Some(usual.restart_after), |spot| spot.read_duration(problems));
    let deaths = object.spot("deaths");
    let deaths = deaths.map_or(Some(Vec::new()), |spot| read_list(&spot, problems, read_death))?;
    let count = match many {
        None => None,
        Some(count) => Some(count?),
    };
    if let Some((place, _)) =
        deaths.iter().enumerate().find(|(_, death)| death.worker > count && count.is_some())
    {
        let path = format!("{}.deaths[{place}].worker", spot.path);
        problems.error(spot.node.at, path, format!("there are only {} workers", count.unwrap_or_default()));
        return None;
    }
    Some(Workers { count, max_load: load?, restart_after: restart?, deaths })
}

/// Reads a number of workers.
fn read_worker_count(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<u32> {
    let count: u32 = spot.read_whole(1, "a whole number of at least 1", problems)?;
    if count > MAX_WORKERS {
        spot.refuse(problems, format!("at most {MAX_WORKERS} workers can be emulated"));
        return None;
    }
    Some(count)
}

/// Reads when a worker dies, and which.
fn read_death(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Death> {
    let object = Object::read(spot, fields::DEATH, "a death", problems)?;
    let times = match (object.spot("at"), object.spot("every")) {
        (Some(at), None) => Times::At(planned_time::read_planned_time(&at, problems)?),
        (None, Some(every)) => Times::Every(every.read_positive_duration(problems)?),
        (None, None) => {
            spot.refuse(problems, "does not say when a worker dies").hint("write `at: 02:30` or `every: 6h`");
            return None;
        }
        (Some(_), Some(every)) => {
            every.refuse(problems, "give either `at` or `every`, not both");
            return None;
        }
    };
    let worker = match object.spot("worker") {
        None => None,
        Some(spot) => Some(spot.read_whole(1, "the number of a worker, from 1", problems)?),
    };
    let restart_after = match object.spot("restartAfter") {
        None => None,
        Some(spot) => Some(spot.read_duration(problems)?),
    };
    Some(Death { when: times, worker, restart_after })
}

/// Reads the signals: a list, or `asAwaited`.
pub(super) fn read_signals(
    spot: &LocatedNode<'_>,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<SignalPlan> {
    if let Content::Text(_) = spot.node.content {
        return spot.read_word(&[("asAwaited", ())], problems).map(|()| SignalPlan::AsAwaited);
    }
    read_list(spot, problems, |spot, problems| read_signal(spot, flows, problems)).map(SignalPlan::Sent)
}

/// Reads a signal; warns if no flow waits for its name.
fn read_signal(spot: &LocatedNode<'_>, flows: &[Flow], problems: &mut Problems<'_>) -> Option<SentSignal> {
    let object = Object::read(spot, fields::PLAN_SIGNAL, "a signal", problems)?;
    let Some(name_spot) = object.spot("name") else {
        spot.refuse(problems, "the signal has no name").hint("write `{name: approved, after: 1h}`");
        return None;
    };
    let name = name_spot.read_text(problems)?;
    let steps = flows.iter().flat_map(|flow| &flow.steps);
    let awaited: Vec<&str> = steps
        .filter_map(|step| match &step.kind {
            Kind::Signal(name) => Some(&**name),
            Kind::Action(_)
            | Kind::Process(_)
            | Kind::Http(_)
            | Kind::Child(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Emulate(_) => None,
        })
        .collect();
    if !awaited.contains(&name) {
        let hint = suggest::hint_for_word(name, awaited.iter().copied());
        name_spot
            .refuse(problems, format!("no step waits for signal `{name}`"))
            .maybe_hint(hint.or_else(|| Some("no step of the flow waits for a signal".to_owned())));
        return None;
    }
    let after = object.spot("after").map_or(Some(Millis::ZERO), |spot| spot.read_duration(problems));
    let payload = object.spot("payload").map_or(Json::NULL, |spot| Json::of(&spot.node.value()));
    Some(SentSignal { name: name.into(), after: after?, payload })
}

const CHOICES: [(&str, Choice); 2] = [("retry", Choice::Retry), ("none", Choice::None)];
/// The default time until the operator reacts.
const OPERATOR_REACTS_AFTER: Millis = Millis::hours(1);

/// Reads what the operator does with held steps and errors.
pub(super) fn read_operator(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Operator> {
    let object = Object::read(spot, fields::OPERATOR, "`operator`", problems)?;
    let after = object.spot("after").map_or(Some(OPERATOR_REACTS_AFTER), |spot| spot.read_duration(problems));
    let choose = match object.spot("choose") {
        None => None,
        Some(spot) => Some(spot.read_word(&CHOICES, problems)?),
    };
    let resume = object.spot("resume").map_or(Some(false), |spot| spot.read_boolean(problems));
    let times = match object.spot("times") {
        None => None,
        Some(spot) => Some(spot.read_whole(1, "a whole number of at least 1", problems)?),
    };
    let operator = Operator { after: after?, choose, resume: resume?, times };
    if operator.choose.is_none() && !operator.resume {
        spot.refuse(problems, "does not say what the operator does")
            .hint("write `choose: retry` for held steps, or `resume: true` for steps in error");
        return None;
    }
    Some(operator)
}

/// Reads a list of entries; a single entry counts as a list of one.
pub(super) fn read_list<T>(
    spot: &LocatedNode<'_>,
    problems: &mut Problems<'_>,
    mut read: impl FnMut(&LocatedNode<'_>, &mut Problems<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Content::List(nodes) = &spot.node.content else {
        return read(spot, problems).map(|one| vec![one]);
    };
    let entries: Vec<Option<T>> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| read(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems))
        .collect();
    entries.into_iter().collect()
}
