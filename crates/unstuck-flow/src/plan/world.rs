//! What a plan says beside steps: workers and their deaths, signals, an operator.

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

/// More emulated workers than this say nothing more.
const MAX_WORKERS: u32 = 10_000;

pub(super) fn workers(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Workers> {
    let usual = Workers::default();
    if matches!(spot.node.content, Content::Number(_)) {
        return Some(Workers { count: Some(count(spot, problems)?), ..usual });
    }
    let object = Object::read(spot, fields::WORKERS, "`workers`", problems)?;
    let many = object.spot("count").map(|spot| count(&spot, problems));
    let load = object.spot("maxLoad");
    let load =
        load.map_or(Some(usual.max_load), |spot| spot.whole(1, "a whole number of at least 1", problems));
    let restart = object.spot("restartAfter");
    let restart = restart.map_or(Some(usual.restart_after), |spot| spot.duration(problems));
    let deaths = object.spot("deaths");
    let deaths = deaths.map_or(Some(Vec::new()), |spot| list(&spot, problems, death))?;
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

fn count(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<u32> {
    let count: u32 = spot.whole(1, "a whole number of at least 1", problems)?;
    if count > MAX_WORKERS {
        spot.refuse(problems, format!("at most {MAX_WORKERS} workers can be emulated"));
        return None;
    }
    Some(count)
}

fn death(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Death> {
    let object = Object::read(spot, fields::DEATH, "a death", problems)?;
    let times = match (object.spot("at"), object.spot("every")) {
        (Some(at), None) => Times::At(planned_time::read(&at, problems)?),
        (None, Some(every)) => Times::Every(every.some_duration(problems)?),
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
        Some(spot) => Some(spot.whole(1, "the number of a worker, from 1", problems)?),
    };
    let restart_after = match object.spot("restartAfter") {
        None => None,
        Some(spot) => Some(spot.duration(problems)?),
    };
    Some(Death { when: times, worker, restart_after })
}

pub(super) fn signals(
    spot: &LocatedNode<'_>,
    flows: &[Flow],
    problems: &mut Problems<'_>,
) -> Option<SignalPlan> {
    if let Content::Text(_) = spot.node.content {
        return spot.one_of(&[("asAwaited", ())], problems).map(|()| SignalPlan::AsAwaited);
    }
    list(spot, problems, |spot, problems| signal(spot, flows, problems)).map(SignalPlan::Sent)
}

fn signal(spot: &LocatedNode<'_>, flows: &[Flow], problems: &mut Problems<'_>) -> Option<SentSignal> {
    let object = Object::read(spot, fields::PLAN_SIGNAL, "a signal", problems)?;
    let Some(name_spot) = object.spot("name") else {
        spot.refuse(problems, "the signal has no name").hint("write `{name: approved, after: 1h}`");
        return None;
    };
    let name = name_spot.text(problems)?;
    let steps = flows.iter().flat_map(|flow| &flow.steps);
    let awaited: Vec<&str> = steps
        .filter_map(|step| match &step.kind {
            Kind::Signal(name) => Some(&**name),
            Kind::Action(_)
            | Kind::Process(_)
            | Kind::Child(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Emulate(_) => None,
        })
        .collect();
    if !awaited.contains(&name) {
        let hint = suggest::hint(name, awaited.iter().copied());
        name_spot
            .refuse(problems, format!("no step waits for signal `{name}`"))
            .maybe_hint(hint.or_else(|| Some("no step of the flow waits for a signal".to_owned())));
        return None;
    }
    let after = object.spot("after").map_or(Some(Millis::ZERO), |spot| spot.duration(problems));
    let payload = object.spot("payload").map_or(Json::NULL, |spot| Json::of(&spot.node.value()));
    Some(SentSignal { name: name.into(), after: after?, payload })
}

const CHOICES: [(&str, Choice); 2] = [("retry", Choice::Retry), ("none", Choice::None)];
/// How long it takes until somebody looks, where a plan does not say.
const SOMEBODY_LOOKS: Millis = Millis::hours(1);

pub(super) fn operator(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Operator> {
    let object = Object::read(spot, fields::OPERATOR, "`operator`", problems)?;
    let after = object.spot("after").map_or(Some(SOMEBODY_LOOKS), |spot| spot.duration(problems));
    let choose = match object.spot("choose") {
        None => None,
        Some(spot) => Some(spot.one_of(&CHOICES, problems)?),
    };
    let resume = object.spot("resume").map_or(Some(false), |spot| spot.boolean(problems));
    let times = match object.spot("times") {
        None => None,
        Some(spot) => Some(spot.whole(1, "a whole number of at least 1", problems)?),
    };
    let operator = Operator { after: after?, choose, resume: resume?, times };
    if operator.choose.is_none() && !operator.resume {
        spot.refuse(problems, "does not say what the operator does")
            .hint("write `choose: retry` for held steps, or `resume: true` for steps in error");
        return None;
    }
    Some(operator)
}

/// Every entry of a list; one alone may stand for a list of one.
pub(super) fn list<T>(
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
