//! The outline of a flow: its name, and its steps with their ids, kinds and needs, before anything is compiled.

use std::collections::HashMap;

use crate::fields;
use crate::graph::{self, Ancestors, SortedSteps};
use crate::problem::Problems;
use crate::read::{LocatedNode, Object};
use crate::suggest;
use crate::tree::{Content, Node};

/// How many steps a flow may have.
const MAX_STEPS: usize = 1_000;

/// A flow of which only names, kinds and needs have been read.
pub(crate) struct Outline<'a> {
    /// The document.
    pub(crate) node: &'a Node,
    pub(crate) object: Object<'a>,
    pub(crate) name: Option<&'a str>,
    /// In the order of the file.
    pub(crate) steps: Vec<StepOutline<'a>>,
    pub(crate) order: SortedSteps,
    pub(crate) ancestors: Ancestors,
}

/// A step of which only id, kind and needs have been read.
pub(crate) struct StepOutline<'a> {
    pub(crate) object: Object<'a>,
    pub(crate) id: Option<&'a str>,
    /// One of [`fields::KINDS`].
    pub(crate) kind: Option<&'static str>,
    /// Places in the file.
    pub(crate) needs: Vec<usize>,
}

/// Reads the outline of one document. A document that is a policy is refused with a hint.
pub(crate) fn read_outline<'a>(node: &'a Node, problems: &mut Problems<'_>) -> Option<Outline<'a>> {
    let has = |key: &str| node.entry(key).is_some();
    if has("name") && (has("maxAttempts") || has("max-attempts")) && !has("steps") {
        problems
            .error(node.at, "", "this is a policy, not a flow")
            .hint("load policies with `unstuck policy load`");
        return None;
    }
    let object = Object::read(&LocatedNode::root(node), fields::FLOW, "a flow", problems)?;
    let name = object.spot("flow").and_then(|spot| spot.read_name("flow name", problems));
    if object.get("flow").is_none() {
        problems.error(object.at, "flow", "the flow has no name").hint("write `flow: <name>`");
    }
    let nodes = read_step_nodes(&object, problems);
    let mut steps: Vec<StepOutline<'a>> =
        nodes.iter().enumerate().filter_map(|(place, node)| read_step(node, place, problems)).collect();
    let ids = index_ids(&steps, problems);
    for place in 0..steps.len() {
        steps[place].needs = read_needs(place, &steps, &ids, problems);
    }
    let (order, ancestors) = sort_steps(&steps, problems);
    Some(Outline { node, object, name, steps, order, ancestors })
}

/// Returns the list of steps, or reports that there is none or that it is too long.
fn read_step_nodes<'a>(object: &Object<'a>, problems: &mut Problems<'_>) -> &'a [Node] {
    let Some(spot) = object.spot("steps") else {
        problems
            .error(object.at, "steps", "the flow has no steps")
            .hint("write `steps:` and a list below it");
        return &[];
    };
    let Content::List(nodes) = &spot.node.content else {
        spot.expected(problems, "a list of steps");
        return &[];
    };
    if nodes.is_empty() {
        spot.refuse(problems, "the flow has no steps").hint("add at least one step");
    }
    if nodes.len() > MAX_STEPS {
        let message = format!("the flow has {} steps; the limit is {MAX_STEPS}", nodes.len());
        spot.refuse(problems, message).hint("move some of them to a child flow, or use `forEach`");
        return &nodes[..MAX_STEPS];
    }
    nodes
}

/// Reads the id and kind of one step.
fn read_step<'a>(node: &'a Node, place: usize, problems: &mut Problems<'_>) -> Option<StepOutline<'a>> {
    let by_place = format!("steps[{place}]");
    let id = match node.entry("id") {
        Some(entry) => {
            LocatedNode { node: &entry.node, path: format!("{by_place}.id") }.read_name("step id", problems)
        }
        None => None,
    };
    let path = id.map_or(by_place, |id| format!("steps.{id}"));
    let spot = LocatedNode { node, path };
    let object = Object::read(&spot, fields::STEP, "a step", problems)?;
    if object.get("id").is_none() {
        problems
            .error(object.at, format!("{}.id", object.path), "the step has no id")
            .hint("write `id: <name>`");
    }
    let kind = read_kind(&object, problems);
    if let Some(kind) = kind {
        refuse_fields_without_meaning(&object, kind, problems);
    }
    Some(StepOutline { object, id, kind, needs: Vec::new() })
}

/// Finds the one field that says what the step does; reports none or several.
fn read_kind(object: &Object<'_>, problems: &mut Problems<'_>) -> Option<&'static str> {
    let given: Vec<&'static str> =
        fields::KINDS.iter().copied().filter(|kind| object.get(kind).is_some()).collect();
    match given.as_slice() {
        [kind] => Some(kind),
        [] => {
            problems
                .error(object.at, &object.path, "the step does not say what it does")
                .hint(format!("give it one of {}", suggest::list(fields::KINDS, "or")));
            None
        }
        [_, second, ..] => {
            let at = object.get(second).map_or(object.at, |entry| entry.at);
            problems
                .error(
                    at,
                    &object.path,
                    format!("a step can do only one thing, not {}", suggest::list(&given, "and")),
                )
                .hint("split it into several steps");
            None
        }
    }
}

/// Refuses fields that mean nothing for this kind of step.
fn refuse_fields_without_meaning(object: &Object<'_>, kind: &str, problems: &mut Problems<'_>) {
    for (name, at) in object.names() {
        if fields::has_meaning(name, kind) {
            continue;
        }
        let path = format!("{}.{name}", object.path);
        if name == "forEach" {
            problems
                .error(
                    at,
                    path,
                    "`forEach` cannot be used with `signal`: a signal belongs to the run, not to an item",
                )
                .hint(
                    "wait for the signal in a step before the `forEach`, or start a child flow for each item",
                );
            continue;
        }
        let kinds: Vec<&str> =
            fields::KINDS.iter().copied().filter(|kind| fields::has_meaning(name, kind)).collect();
        problems
            .error(at, path, format!("`{name}` does not apply to a `{kind}` step"))
            .hint(format!("it applies to {} steps", suggest::list(&kinds, "and")));
    }
}

/// Maps ids to steps, and reports ids that are used twice; the first one counts.
fn index_ids<'a>(steps: &[StepOutline<'a>], problems: &mut Problems<'_>) -> HashMap<&'a str, usize> {
    let mut ids = HashMap::new();
    for (place, step) in steps.iter().enumerate() {
        let Some(id) = step.id else { continue };
        if let Some(first) = ids.get(id) {
            let first: &StepOutline<'_> = &steps[*first];
            let line = first.object.at.line;
            let at = step.object.get("id").map_or(step.object.at, |entry| entry.node.at);
            problems
                .error(
                    at,
                    format!("{}.id", step.object.path),
                    format!("the id `{id}` is already used by the step on line {line}"),
                )
                .hint("each step of a flow needs its own id");
        } else {
            ids.insert(id, place);
        }
    }
    ids
}

/// Reads which steps a step needs; without `needs`, the one before it.
fn read_needs(
    place: usize,
    steps: &[StepOutline<'_>],
    ids: &HashMap<&str, usize>,
    problems: &mut Problems<'_>,
) -> Vec<usize> {
    let Some(spot) = steps[place].object.spot("needs") else {
        return place.checked_sub(1).into_iter().collect();
    };
    let nodes = match &spot.node.content {
        Content::Text(_) => std::slice::from_ref(spot.node),
        Content::List(nodes) => nodes,
        Content::Null | Content::Bool(_) | Content::Number(_) | Content::Map(_) => {
            spot.expected(problems, "a step id, or a list of step ids");
            return Vec::new();
        }
    };
    let mut needs = Vec::new();
    for node in nodes {
        let spot = LocatedNode { node, path: spot.path.clone() };
        let Some(id) = spot.read_text(problems) else { continue };
        match ids.get(id) {
            Some(needed) if needs.contains(needed) => {
                problems.warning(node.at, &spot.path, format!("`{id}` is listed twice"));
            }
            Some(needed) => needs.push(*needed),
            None => {
                let others = steps.iter().filter_map(|step| step.id).filter(|id| steps[place].id != Some(id));
                spot.refuse(problems, format!("there is no step `{id}`"))
                    .maybe_hint(suggest::hint(id, others));
            }
        }
    }
    needs
}

/// Sorts the steps by needs, or reports every cycle and keeps the order of the file.
fn sort_steps(steps: &[StepOutline<'_>], problems: &mut Problems<'_>) -> (SortedSteps, Ancestors) {
    let needs: Vec<Vec<usize>> = steps.iter().map(|step| step.needs.clone()).collect();
    match graph::sort_by_needs(&needs) {
        Ok(order) => {
            let sorted: Vec<_> = order
                .file_places
                .iter()
                .map(|place| needs[*place].iter().map(|needed| order.places[*needed]).collect())
                .collect();
            (order, Ancestors::new(&sorted))
        }
        Err(circles) => {
            for circle in &circles {
                report_cycle(steps, circle, problems);
            }
            (SortedSteps::as_written(steps.len()), Ancestors::unknown(steps.len()))
        }
    }
}

/// Reports a cycle at its first step in the file.
fn report_cycle(steps: &[StepOutline<'_>], circle: &[usize], problems: &mut Problems<'_>) {
    let Some(first) = circle.iter().min().copied() else { return };
    let start = circle.iter().position(|step| *step == first).unwrap_or(0);
    let id = |place: usize| steps[place].id.unwrap_or("?");
    let mut names: Vec<&str> =
        circle.iter().cycle().skip(start).take(circle.len()).map(|step| id(*step)).collect();
    names.push(id(first));
    let step = &steps[first];
    let at = step.object.get("needs").map_or(step.object.at, |entry| entry.at);
    let (message, hint) = match names.as_slice() {
        [name, _] => (format!("step `{name}` needs itself"), "remove it from its `needs`"),
        _ => (
            format!("the steps need each other in a cycle: {}", names.join(" needs ")),
            "remove one of them from the `needs` of another; without `needs`, a step needs the one before it",
        ),
    };
    problems.error(at, format!("{}.needs", step.object.path), message).hint(hint);
}
