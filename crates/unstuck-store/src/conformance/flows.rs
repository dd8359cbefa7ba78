//! Small flows without expressions, made by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::FlowId;
use unstuck_core::json::Json;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Concurrency, Flow, ForEach, GraphNode, Kind, RunKind, Step, StepIndex};
use unstuck_core::model::recovery::{Defer, Limits, RetryStrategy};

/// Steps one after the other.
pub fn sequence(name: &str, mut steps: Vec<Step>) -> Flow {
    for (place, step) in steps.iter_mut().enumerate().skip(1) {
        step.node.needs = vec![ix(place - 1)];
    }
    graph(name, steps)
}

/// Steps with the needs that they have: none, unless somebody has given them some.
pub fn graph(name: &str, mut steps: Vec<Step>) -> Flow {
    let mut dependents = vec![Vec::new(); steps.len()];
    for (place, step) in steps.iter_mut().enumerate() {
        step.full_action = format!("{name}.{}", step.id).into();
        for needed in &step.node.needs {
            dependents[usize::from(needed.0)].push(ix(place));
        }
    }
    Flow {
        id: FlowId(0),
        name: name.into(),
        version: "".into(),
        description: None,
        input: None,
        output: None,
        deadline: None,
        concurrency: None,
        schedule: None,
        labels: BTreeMap::new(),
        source: format!("{name}: {steps:?}").into(),
        steps,
        dependents,
        kind: RunKind::Graph,
        directory: "/".into(),
    }
}

/// At most `limit` runs of the flow at once.
#[must_use]
pub fn limited(mut flow: Flow, limit: u32) -> Flow {
    flow.concurrency = Some(Concurrency { limit, key: None, strict: false });
    flow.source = format!("{}, at most {limit}", flow.source).into();
    flow
}

/// A step for a worker that offers the action of the same name as the step.
pub fn action(id: &str) -> Step {
    step(id, Kind::Action(id.into()))
}

/// A step for a worker that takes from this queue.
pub fn action_of(id: &str, queue: &str) -> Step {
    step(id, Kind::Action(queue.into()))
}

/// A step for each of `items` numbers, all at once.
pub fn each(id: &str, items: u32) -> Step {
    let numbers: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    let list = Json::parse(&format!("[{}]", numbers.join(","))).unwrap_or_default();
    let for_each = ForEach { items: Template::Fixed(list), parallel: items.max(1), max_items: items };
    Step { node: GraphNode { for_each: Some(for_each), ..GraphNode::default() }, ..action(id) }
}

/// A step of this kind, with nothing else set.
pub fn step(id: &str, kind: Kind) -> Step {
    let is_timed = matches!(kind, Kind::Action(_) | Kind::Process(_) | Kind::Http(_) | Kind::Emulate(_));
    let limits = Limits::default();
    Step {
        id: id.into(),
        queue: kind.queue(),
        full_action: "".into(),
        kind,
        action_type: None,
        node: GraphNode::default(),
        limits: Limits { timeout: limits.timeout.filter(|_| is_timed), ..limits },
        defer: Defer::default(),
        load: 1,
        priority: 0,
        retry: RetryStrategy::None,
        fail_on_error: true,
        exception_handler: None,
    }
}

/// The queues of all steps.
pub fn queues(flow: &Flow) -> impl Iterator<Item = Arc<str>> {
    flow.steps.iter().map(|step| step.queue.clone()).filter(|queue| !queue.is_empty())
}

fn ix(place: usize) -> StepIndex {
    StepIndex(u16::try_from(place).unwrap_or(u16::MAX))
}
