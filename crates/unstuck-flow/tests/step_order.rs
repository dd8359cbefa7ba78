//! A flow whose definition gives another order of its steps than is kept is the same flow in the order that is kept.

use std::sync::Arc;

use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Flow, Kind, StepIndex};

const FLOW: &str = "
flow: f
steps:
  - {id: a, needs: [], set: 1}
  - {id: b, needs: [], set: 2}
  - {id: c, needs: [b], if: '${ steps.b.output > 1 }', set: '${ steps.b.output }'}
  - {id: d, needs: [a, c], set: '${ steps.a.output + steps.c.output }'}
output: '${ steps.c.output }'
";

fn flow() -> Flow {
    unstuck_flow::load(FLOW, "f.yaml", "/", &|_| true).expect("loads").flows.remove(0)
}

fn ids(ids: &[&str]) -> Vec<Arc<str>> {
    ids.iter().map(|id| Arc::from(*id)).collect()
}

/// What each step needs, who needs it, and what its expressions read, all by id.
fn shape(flow: &Flow) -> Vec<(String, [Vec<String>; 3])> {
    let id = |step: &StepIndex| flow.step(*step).id.to_string();
    let sorted = |steps: &mut dyn Iterator<Item = &StepIndex>| {
        let mut names: Vec<String> = steps.map(id).collect();
        names.sort();
        names
    };
    let mut shape: Vec<_> = flow
        .steps
        .iter()
        .zip(&flow.dependents)
        .map(|(step, dependents)| {
            let value = match &step.kind {
                Kind::Set(Template::Computed(value)) => Some(&value.reads.steps),
                _ => None,
            };
            let when = step.node.when.as_ref().map(|when| &when.reads.steps);
            let reads = sorted(&mut value.into_iter().chain(when).flatten());
            (
                step.id.to_string(),
                [sorted(&mut step.node.needs.iter()), sorted(&mut dependents.iter()), reads],
            )
        })
        .collect();
    shape.sort();
    shape
}

#[test]
fn the_kept_order_is_given_back_and_everything_in_it_follows() {
    for order in [["a", "b", "c", "d"], ["b", "a", "c", "d"], ["b", "c", "a", "d"]] {
        let ordered = flow().in_order_of(&ids(&order)).expect("it is the same flow");
        assert_eq!(ordered.step_ids()[..], ids(&order)[..]);
        assert_eq!(shape(&ordered), shape(&flow()), "{order:?}");
        let reads = ordered.output.as_ref().and_then(|output| output.reads()).expect("it reads");
        assert_eq!(reads.steps.iter().map(|step| &*ordered.step(*step).id).collect::<Vec<_>>(), ["c"]);
    }
}

#[test]
fn other_steps_or_an_impossible_order_are_refused() {
    let cases: [&[&str]; 5] = [
        &["a", "b", "c"],
        &["a", "b", "c", "d", "e"],
        &["a", "b", "c", "x"],
        &["a", "a", "c", "d"],
        &["d", "c", "b", "a"],
    ];
    for order in cases {
        let told = flow().in_order_of(&ids(order)).expect_err("it is another flow");
        assert!(told.contains("its runs would continue with the wrong steps"), "{order:?}: {told}");
        assert!(told.contains("`a`, `b`, `c`, `d`"), "{told}");
    }
}
