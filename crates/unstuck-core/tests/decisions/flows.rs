//! Flows by hand, without a file: steps that workers take, with every recovery field.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use unstuck_core::id::FlowId;
use unstuck_core::json::Json;
use unstuck_core::model::expression::{Evaluate, Expression, Reads, Scope, Template};
use unstuck_core::model::flow::{Flow, ForEach, GraphNode, Kind, RunKind, Step, StepIndex};
use unstuck_core::model::recovery::{BackOff, Defer, Limits, RetryStrategy};
use unstuck_core::time::Millis;

/// A flow of these steps; each needs the one before it unless it says otherwise.
pub(crate) fn flow(name: &str, steps: Vec<StepBuilder>) -> Flow {
    flow_with(name, steps, |_| {})
}

pub(crate) fn flow_with(name: &str, steps: Vec<StepBuilder>, change: impl FnOnce(&mut Flow)) -> Flow {
    let ids: Vec<String> = steps.iter().map(|step| step.step.id.to_string()).collect();
    let mut built = Vec::new();
    for (place, builder) in steps.into_iter().enumerate() {
        let mut step = builder.step;
        step.node.needs = match builder.needs {
            None => place.checked_sub(1).map(ix).into_iter().collect(),
            Some(needs) => {
                needs.iter().map(|need| ix(ids.iter().position(|id| id == need).expect("known"))).collect()
            }
        };
        step.full_action = format!("{name}.{}", step.id).into();
        built.push(step);
    }
    let mut dependents = vec![Vec::new(); built.len()];
    for (place, step) in built.iter().enumerate() {
        for need in &step.node.needs {
            dependents[usize::from(need.0)].push(ix(place));
        }
    }
    let mut flow = Flow {
        id: FlowId(name.bytes().fold(7, |id, byte| id * 31 % 1_000_003 + u64::from(byte))),
        name: name.into(),
        version: "1".into(),
        description: None,
        input: None,
        output: None,
        deadline: None,
        concurrency: None,
        schedule: None,
        labels: BTreeMap::new(),
        steps: built,
        dependents,
        kind: RunKind::Graph,
        source: "{}".into(),
        directory: "".into(),
    };
    change(&mut flow);
    flow
}

fn ix(place: usize) -> StepIndex {
    StepIndex(u16::try_from(place).expect("few steps"))
}

/// A step for workers.
pub(crate) fn step(id: &str) -> StepBuilder {
    StepBuilder::new(id, Kind::Action(id.into()))
}

/// A step of any kind.
pub(crate) fn step_of(id: &str, kind: Kind) -> StepBuilder {
    StepBuilder::new(id, kind)
}

/// A child run of this flow.
pub(crate) fn child(id: &str, flow: &str) -> StepBuilder {
    StepBuilder::new(id, Kind::Child(flow.into())).change(|step| step.limits.timeout = None)
}

pub(crate) struct StepBuilder {
    step: Step,
    needs: Option<Vec<&'static str>>,
}

impl StepBuilder {
    fn new(id: &str, kind: Kind) -> StepBuilder {
        let queue = kind.queue();
        let step = Step {
            id: id.into(),
            kind,
            action_type: None,
            node: GraphNode::default(),
            limits: Limits::default(),
            defer: Defer::default(),
            load: 1,
            priority: 0,
            retry: RetryStrategy::None,
            fail_on_error: true,
            exception_handler: None,
            queue,
            full_action: "".into(),
        };
        StepBuilder { step, needs: None }
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Step)) -> StepBuilder {
        change(&mut self.step);
        self
    }

    pub(crate) fn needs(mut self, needs: &[&'static str]) -> StepBuilder {
        self.needs = Some(needs.to_vec());
        self
    }

    pub(crate) fn retry(self, max_attempts: Option<u32>, delay_s: u64) -> StepBuilder {
        let back_off = Some(BackOff::fixed(Millis::seconds(delay_s)));
        self.change(|step| step.retry = RetryStrategy::Retry { max_attempts, back_off })
    }

    pub(crate) fn hold(self, max_attempts: Option<u32>) -> StepBuilder {
        self.change(|step| step.retry = RetryStrategy::Hold { max_attempts })
    }

    pub(crate) fn goes_on(self) -> StepBuilder {
        self.change(|step| step.fail_on_error = false)
    }

    pub(crate) fn handler(self, flow: &str) -> StepBuilder {
        self.change(|step| step.exception_handler = Some(flow.into()))
    }

    pub(crate) fn for_each(self, list: &str, parallel: u32) -> StepBuilder {
        let items = Template::Fixed(Json::parse(list).expect("valid JSON"));
        self.change(|step| {
            step.node.for_each = Some(ForEach { items, parallel, max_items: ForEach::MAX_ITEMS });
        })
    }

    pub(crate) fn with(self, template: Template) -> StepBuilder {
        self.change(|step| step.node.with = Some(template))
    }

    pub(crate) fn when(self, condition: Expression) -> StepBuilder {
        self.change(|step| step.node.when = Some(condition))
    }
}

/// An expression made of a closure.
pub(crate) fn expression(
    reads: Reads,
    evaluate: impl Fn(&Scope) -> Result<Value, String> + Send + Sync + 'static,
) -> Expression {
    struct Closure<F>(F);
    impl<F: Fn(&Scope) -> Result<Value, String> + Send + Sync> Evaluate for Closure<F> {
        fn evaluate(&self, scope: &Scope) -> Result<Value, String> {
            (self.0)(scope)
        }
    }
    Expression { source: "${ test }".into(), reads, program: Arc::new(Closure(evaluate)) }
}

/// Reads the run's input.
pub(crate) fn reads_input() -> Reads {
    Reads { input: true, ..Reads::default() }
}

/// Reads the outputs of these places.
pub(crate) fn reads_steps(places: &[u16]) -> Reads {
    Reads { steps: places.iter().copied().map(StepIndex).collect(), ..Reads::default() }
}

/// Reads the item.
pub(crate) fn reads_item() -> Reads {
    Reads { item: true, ..Reads::default() }
}
