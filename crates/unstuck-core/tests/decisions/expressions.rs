//! Expressions at run time: conditions, inputs, outputs, and what becomes of those that fail.

use crate::flows::{StepBuilder, expression, flow, flow_with, reads_input, reads_steps, step, step_of};
use crate::support::{World, done, output, stall};
use unstuck_core::event::{Choice, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::error::Reason;
use unstuck_core::model::expression::{Expression, Reads, Template};
use unstuck_core::model::flow::{Kind, WaitFor};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;

/// The run's input.
fn input() -> Expression {
    expression(reads_input(), |scope| Ok(scope.input.clone()))
}

/// Fails for the input `bad`, and is the input otherwise.
fn picky() -> Expression {
    expression(reads_input(), |scope| match scope.input.as_str() {
        Some("bad") => Err("no such key: x".to_owned()),
        Some(_) | None => Ok(scope.input.clone()),
    })
}

fn run_of(steps: Vec<StepBuilder>, input: &str) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", steps), flow("h", vec![step("clean")])]);
    let run = world.start_with("f", None, input).expect("starts");
    (world, run)
}

#[test]
fn a_step_whose_condition_is_false_is_skipped_and_what_needs_it_goes_on() {
    let reads = expression(reads_steps(&[0]), |scope| Ok(scope.steps[0].1.clone()));
    let steps = || {
        vec![
            step("a").when(input()),
            step("b"),
            step_of("c", Kind::Set(Template::Computed(reads.clone()))).needs(&["a"]),
            step("all").for_each("[1]", 1).when(input()).needs(&[]),
        ]
    };
    let (world, run) = run_of(steps(), "false");
    assert_eq!(world.steps(run, ["a", "b", "c", "all"]), ["skipped", "ready", "completed", "skipped"]);
    let c = world.runs[&run].step(world.unit_ref(run, "c").step).output().unwrap();
    assert!(world.json(c).is_null(), "the output of a skipped step is null");
    let (world, run) = run_of(steps(), "true");
    assert_eq!(world.steps(run, ["a", "b", "c", "all[0]"]), ["ready", "pending", "pending", "ready"]);
    // A flow of nothing but skipped steps is completed.
    let (world, run) = run_of(vec![step("a").when(input())], "false");
    assert_eq!((world.state(run), world.output(run).as_str()), (RunState::Completed, "null"));
}

/// A row: the step with a failing expression, and what its error says.
fn failing() -> [(&'static str, StepBuilder, &'static str); 6] {
    let computed = || Template::Computed(picky());
    [
        ("with", step("a").with(computed()), "${ test }: no such key: x"),
        ("if", step("a").when(picky()), "if: ${ test }: no such key: x"),
        (
            "if, and no truth value",
            step("a").when(expression(Reads::default(), |_| Ok(7.into()))),
            "if: ${ test } must be true or false, but is 7",
        ),
        ("set", step_of("a", Kind::Set(computed())), "${ test }: no such key: x"),
        ("wait", step_of("a", Kind::Wait(WaitFor::Computed(picky()))), "${ test }: no such key: x"),
        (
            "forEach",
            step("a").for_each("[]", 1).change(|step| {
                step.node.for_each.as_mut().unwrap().items = Template::Computed(picky());
            }),
            "${ test }: no such key: x",
        ),
    ]
}

#[test]
fn an_expression_that_fails_is_failed_with_reason_data_under_an_engine_made_action() {
    for (name, make, cause) in failing() {
        let (world, run) = run_of(vec![make, step("b")], "\"bad\"");
        let unit = world.unit(run, "a");
        let Some(Outcome::Failed(error)) = unit.last_outcome() else { panic!("{name}: {unit:?}") };
        assert_eq!(&*error.cause, cause, "{name}");
        assert_eq!(error.found_by.as_deref(), Some("EvaluateExpressionAction"), "{name}");
        assert_eq!((error.reason, unit.attempts), (Reason::Data, 1), "{name}");
        assert_eq!(
            (world.steps(run, ["a", "b"]), world.state(run)),
            (["failed", "cancelled"], RunState::Failed)
        );
        assert!(world.dispatched().is_empty(), "{name}: no worker has seen it");
    }
}

#[test]
fn a_failing_expression_climbs_the_ladder_like_any_failure() {
    // What is changed about the step, and where that leaves it, the next one and the run.
    type Case = (&'static str, fn(StepBuilder) -> StepBuilder, ([&'static str; 2], RunState));
    let cases: [Case; 4] = [
        ("retry is skipped", |step| step.retry(Some(5), 1), (["failed", "cancelled"], RunState::Failed)),
        ("hold is not", |step| step.hold(None), (["held", "pending"], RunState::Held)),
        ("failOnError: false", StepBuilder::goes_on, (["failed", "ready"], RunState::Running)),
        ("exceptionHandler", |step| step.handler("h"), (["failed", "dropped"], RunState::Running)),
    ];
    for (name, change, leaves) in cases {
        for (kind, make, _) in failing() {
            let (world, run) = run_of(vec![change(make), step("b")], "\"bad\"");
            assert_eq!((world.steps(run, ["a", "b"]), world.state(run)), leaves, "{name}: {kind}");
        }
    }
    // A held one may be tried again; it is evaluated again.
    let (mut world, run) = run_of(vec![step("a").hold(None).with(Template::Computed(picky()))], "\"bad\"");
    world.choose(run, "a", Choice::Retry).expect("chosen");
    assert_eq!((world.step(run, "a"), world.unit(run, "a").attempts), ("held", 2));
}

#[test]
fn the_output_of_a_flow_may_fail_too() {
    for handler in [None, Some("h")] {
        let make = step("a").change(|step| step.exception_handler = handler.map(Into::into));
        let flow = flow_with("f", vec![make], |flow| flow.output = Some(Template::Computed(picky())));
        let mut world = World::new(vec![flow, crate::flows::flow("h", vec![step("clean")])]);
        let run = world.start_with("f", None, "\"bad\"").expect("starts");
        world.attempt(run, "a", done());
        let error = world.error(run);
        assert_eq!((error.unit, error.fatal), (None, true));
        assert_eq!(&*error.error.cause, "output: ${ test }: no such key: x");
        assert_eq!(error.error.found_by.as_deref(), Some("EvaluateExpressionAction"));
        let state = if handler.is_some() { RunState::Running } else { RunState::Failed };
        assert_eq!((world.step(run, "a"), world.state(run)), ("completed", state));
    }
}

#[test]
fn what_a_run_puts_out() {
    let of_input = || Some(Template::Computed(input()));
    let wide = || vec![step("a").needs(&[]), step("b").needs(&[]).goes_on()];
    let (one, large) = ("\"one\"", format!("\"{}\"", "y".repeat(300)));
    let cases: Vec<(&str, Vec<StepBuilder>, Option<Template>, String)> = vec![
        ("its last step's output", vec![step("a"), step("b")], None, large.clone()),
        ("an object of several last ones", wide(), None, format!("{{\"a\":\"one\",\"b\":{large}}}")),
        ("what the flow says", wide(), of_input(), "[7]".to_owned()),
    ];
    for (name, steps, template, expected) in cases {
        let flow = flow_with("f", steps, |flow| flow.output = template);
        let mut world = World::new(vec![flow]);
        let run = world.start_with("f", None, "[7]").expect("starts");
        world.attempt(run, "a", output(one));
        world.attempt(run, "b", output(&large));
        assert_eq!(world.output(run), expected, "{name}");
    }
}

#[test]
fn the_input_of_a_step_is_bound_once() {
    let counts = expression(reads_input(), |scope| Ok(serde_json::json!({ "given": scope.input })));
    let (mut world, run) = run_of(
        vec![step("a").with(Template::Computed(counts)).retry(None, 1)],
        &format!("\"{}\"", "x".repeat(300)),
    );
    let first = world.unit(run, "a").input.clone();
    for _ in 0..3 {
        world.attempt(run, "a", stall("x"));
        world.pass(Millis::seconds(1));
    }
    assert_eq!(world.unit(run, "a").input, first);
    let bound = |fact: &&Fact| matches!(fact, Fact::Unit { fact: UnitFact::InputBound { .. }, .. });
    let times = world.history[&run].iter().flat_map(|event| &event.facts).filter(bound).count();
    assert_eq!(times, 1);
    // A step without `with` gets the run's input, which is kept once.
    let (world, run) = run_of(vec![step("a")], "1");
    assert_eq!(world.unit(run, "a").input, None);
}

#[test]
fn a_wait_is_computed_as_a_span_or_an_instant() {
    let cases = [
        ("5", Some(5)),
        ("\"2m\"", Some(120)),
        ("\"PT1M\"", Some(60)),
        ("\"2027-01-15T08:00:30Z\"", Some(30)),
        ("\"2020-01-01T00:00:00Z\"", Some(0)),
        ("\"soon\"", None),
        ("null", None),
    ];
    for (given, waits) in cases {
        let wait = step_of("w", Kind::Wait(WaitFor::Computed(input())));
        let (mut world, run) = run_of(vec![wait, step("b")], given);
        let Some(seconds) = waits else {
            assert_eq!(world.step(run, "w"), "failed", "{given}");
            continue;
        };
        assert_eq!(world.step(run, "w"), "waiting", "{given}");
        world.pass(Millis((seconds * 1_000_u64).saturating_sub(1)));
        assert_eq!(world.step(run, "w"), if seconds == 0 { "completed" } else { "waiting" }, "{given}");
        world.pass(Millis(1));
        assert_eq!(world.steps(run, ["w", "b"]), ["completed", "ready"], "{given}");
    }
}

#[test]
fn a_signal_that_came_early_can_be_read_by_what_follows() {
    let large = format!("\"{}\"", "s".repeat(300));
    let reads = expression(reads_steps(&[1]), |scope| Ok(scope.steps[0].1.clone()));
    let steps = || {
        let copy = step_of("copy", Kind::Set(Template::Computed(reads.clone())));
        vec![step("a"), step_of("s", Kind::Signal("go".into())), copy]
    };
    let (mut world, run) = run_of(steps(), "null");
    world.signal(run, "go", &large).expect("kept");
    world.attempt(run, "a", done());
    assert_eq!(world.output(run), large);
    // Also one that came while the run was paused.
    let (mut world, run) = run_of(steps(), "null");
    world.attempt(run, "a", done());
    world.pause(run).expect("paused");
    world.signal(run, "go", &large).expect("kept");
    world.unpause(run).expect("goes on");
    assert_eq!(world.output(run), large);
}

#[test]
fn an_output_over_the_limit_is_failed_and_the_inputs_fault() {
    let (mut world, run) = run_of(vec![step("a").retry(Some(3), 1)], "null");
    let large = format!("\"{}\"", "x".repeat(unstuck_core::decide::MAX_PAYLOAD_BYTES));
    world.attempt(run, "a", output(&large));
    let error = world.error(run).error;
    assert_eq!(
        &*error.cause,
        "the output is too large (16777218 bytes, at most 16777216); return a reference"
    );
    assert_eq!((error.reason, error.found_by.as_deref()), (Reason::Data, Some("RecordOutputAction")));
    assert_eq!(world.state(run), RunState::Failed);
}
