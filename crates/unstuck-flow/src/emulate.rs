//! The `emulate` kind: which behaviour each attempt shows.

use unstuck_core::json::Json;
use unstuck_core::model::emulation::{Behaviour, Emulation, EmulationPlan, WaitUntil};
use unstuck_core::time::Millis;

use crate::computed;
use crate::fields;
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::time_value::{self, TimeValue};
use crate::tree::Content;

/// The default duration of an attempt that drags: longer than a worker's lease, so that its heartbeats matter.
pub(crate) const DRAG: Millis = Millis::seconds(45);
/// How many attempts a sequence may list.
pub(crate) const MAX_SEQUENCE: usize = 1_000;

pub(crate) const WORDS: [(&str, Behaviour); 7] = [
    ("pass", Behaviour::Pass),
    ("stall", Behaviour::Stall),
    ("fail", Behaviour::Fail),
    ("crash", Behaviour::Crash),
    ("drag", Behaviour::Drag),
    ("stick", Behaviour::Stick),
    ("choke", Behaviour::Choke),
];

/// Reads a single behaviour, or an object with a plan of them.
pub(crate) fn read_emulation(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Emulation> {
    let once = |behaviour| Emulation {
        plan: EmulationPlan::Sequence(vec![behaviour]),
        duration: Millis::ZERO,
        drag: DRAG,
        cause: None,
        output: None,
    };
    if !matches!(spot.node.content, Content::Map(_)) {
        return read_behaviour(spot, problems).map(once);
    }
    let object = Object::read(spot, fields::EMULATE, "`emulate`", problems)?;
    let duration = object.spot("duration").and_then(|spot| spot.read_duration(problems));
    let drag = object.spot("drag").and_then(|spot| spot.read_duration(problems));
    let cause = object.spot("cause").filter(|spot| computed::refuse_expressions(spot, problems));
    let cause = cause.and_then(|spot| spot.read_text(problems));
    let output = object.spot("output").filter(|spot| computed::refuse_expressions(spot, problems));
    Some(Emulation {
        plan: read_plan(&object, problems)?,
        duration: duration.unwrap_or(Millis::ZERO),
        drag: drag.unwrap_or(DRAG),
        cause: cause.map(str::to_owned),
        output: output.map(|spot| Json::of(&spot.node.value())),
    })
}

/// Reads which behaviour comes when: exactly one of `sequence`, `odds` and `wait`.
fn read_plan(object: &Object<'_>, problems: &mut Problems<'_>) -> Option<EmulationPlan> {
    let seed = object.spot("seed");
    if let Some(spot) = seed.as_ref().filter(|_| object.get("odds").is_none()) {
        spot.refuse(problems, "`seed` works only with `odds`").hint("remove it: nothing here is random");
    }
    match (object.spot("sequence"), object.spot("odds"), object.spot("wait")) {
        (Some(spot), None, None) => read_sequence(&spot, problems).map(EmulationPlan::Sequence),
        (None, Some(spot), None) => {
            let seed = match seed {
                Some(spot) => Some(spot.read_whole(0, "a whole number of at least 0", problems)?),
                None => None,
            };
            Some(EmulationPlan::Odds { odds: read_odds(&spot, problems)?, seed })
        }
        (None, None, Some(spot)) => {
            read_wait(&spot, problems).map(|wait| EmulationPlan::Sequence(vec![wait]))
        }
        (None, None, None) => {
            problems
                .error(object.at, &object.path, "the emulation has no behaviour")
                .hint("give it a `sequence`, for example `{sequence: [stall, pass]}`, or `odds`");
            None
        }
        _ => {
            problems
                .error(object.at, &object.path, "give only one of `sequence`, `odds` and `wait`")
                .hint("a `sequence` can contain `{wait: 5s}`");
            None
        }
    }
}

/// Reads a list of behaviours, one per attempt.
fn read_sequence(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Vec<Behaviour>> {
    let Content::List(nodes) = &spot.node.content else {
        spot.expected(problems, "a list such as `[stall, pass]`");
        return None;
    };
    if nodes.is_empty() || nodes.len() > MAX_SEQUENCE {
        spot.refuse(problems, format!("a sequence has 1 to {MAX_SEQUENCE} behaviours, not {}", nodes.len()))
            .hint("the last one repeats");
        return None;
    }
    let behaviours: Vec<Option<Behaviour>> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| {
            read_behaviour(&LocatedNode { node, path: format!("{}[{place}]", spot.path) }, problems)
        })
        .collect();
    behaviours.into_iter().collect()
}

/// Reads one behaviour: a word, or `{wait: 5s}`.
fn read_behaviour(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Behaviour> {
    if let Content::Map(_) = spot.node.content {
        let wait_only: Vec<_> =
            fields::EMULATE.iter().copied().filter(|field| field.name == "wait").collect();
        let object = Object::read(spot, &wait_only, "a behaviour", problems)?;
        let Some(until) = object.spot("wait") else {
            spot.expected(problems, "a behaviour such as `pass` or `{wait: 5s}`");
            return None;
        };
        return read_wait(&until, problems);
    }
    if spot.node.text() == Some("wait") {
        spot.refuse(problems, "`wait` needs a duration").hint("write `{wait: 5s}`");
        return None;
    }
    spot.read_word(&WORDS, problems)
}

/// Reads how long a `wait` blocks: a duration or an instant.
pub(crate) fn read_wait(spot: &LocatedNode<'_>, problems: &mut Problems<'_>) -> Option<Behaviour> {
    let until = match time_value::read_time_value(spot, problems)? {
        TimeValue::After(span) => WaitUntil::After(span),
        TimeValue::At(time) => WaitUntil::At(time),
    };
    Some(Behaviour::Wait { until })
}

/// Reads the weights of behaviours, of which at least one must be above zero.
pub(crate) fn read_odds(
    spot: &LocatedNode<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<(Behaviour, f64)>> {
    let Content::Map(entries) = &spot.node.content else {
        spot.expected(problems, "a map such as `{stall: 0.1, pass: 0.9}`");
        return None;
    };
    let mut weights = [None; WORDS.len()];
    let mut right = true;
    for entry in entries {
        let path = format!("{}.{}", spot.path, entry.key);
        let Some(place) = WORDS.iter().position(|(word, _)| *word == entry.key) else {
            let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
            let message = format!("expected {}, not `{}`", crate::suggest::list(&words, "or"), entry.key);
            let nearest = crate::suggest::nearest(&entry.key, words.iter().copied());
            problems
                .error(entry.at, path, message)
                .maybe_hint(nearest.map(|word| format!("did you mean `{word}`?")));
            right = false;
            continue;
        };
        weights[place] = LocatedNode { node: &entry.node, path }.read_number(0.0, problems);
        right &= weights[place].is_some();
    }
    if !right {
        return None;
    }
    let sum: f64 = weights.iter().flatten().sum();
    if sum <= 0.0 || !sum.is_finite() {
        spot.refuse(problems, "the odds must add up to more than zero")
            .hint("for example `{stall: 1, pass: 9}`");
        return None;
    }
    // In the order of the table, not of the file: the same odds and seed give the same luck however written.
    Some(
        WORDS
            .iter()
            .zip(weights)
            .filter_map(|((_, behaviour), weight)| Some((*behaviour, weight?)))
            .collect(),
    )
}
