//! What operators do to steps that do not get on: done by hand, skipped, resumed with another input.

use crate::flows::{expression, flow, flow_with, reads_input, step};
use crate::support::{World, done, operator, stall};
use unstuck_core::command::{Changes, Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::json::Json;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::CheckInput;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitState;
use unstuck_core::refusal::Refusal;

fn json(text: &str) -> Json {
    Json::parse(text).expect("valid JSON")
}

#[test]
fn a_step_that_nobody_works_on_can_be_done_by_hand_or_skipped() {
    for by_hand in [true, false] {
        let cases =
            [("error", step("a")), ("held", step("a").hold(None)), ("waiting", step("a").retry(None, 60))];
        for (state, make) in cases {
            let mut world = World::new(vec![flow("f", vec![make, step("b")])]);
            let run = world.start("f");
            world.attempt(run, "a", stall("x"));
            assert_eq!(world.step(run, "a"), state);
            let (unit, by) = (world.unit_ref(run, "a"), operator());
            let command = || {
                if by_hand {
                    Command::Complete { unit, output: json("7"), by: by.clone(), reason: Some("seen".into()) }
                } else {
                    Command::Skip { unit, by: by.clone(), reason: None }
                }
            };
            assert_eq!(world.ask(run, command()), Ok(Answer::Done), "{state}");
            assert_eq!(world.ask(run, command()), Ok(Answer::Already), "{state}");
            assert_eq!(world.step(run, "a"), if by_hand { "completed" } else { "skipped" });
            let is_marked = matches!(world.unit(run, "a").state, UnitState::Completed { by_hand: true, .. });
            assert_eq!(is_marked, by_hand);
            world.attempt(run, "b", done());
            assert_eq!(world.state(run), RunState::Completed, "{state}");
        }
    }
}

#[test]
fn nobody_takes_a_step_out_of_a_workers_hands() {
    let mut world = World::new(vec![flow("f", vec![step("a"), step("b")])]);
    let run = world.start("f");
    let unit = world.unit_ref(run, "a");
    let complete = |unit| Command::Complete { unit, output: Json::NULL, by: operator(), reason: None };
    let skip = |unit| Command::Skip { unit, by: operator(), reason: None };
    let told = |refused: Result<Answer, Refusal>| refused.expect_err("refused").to_string();
    let later = world.unit_ref(run, "b");
    let not_reached =
        "step `b` is pending, not in error, held, waiting or queued; the run has not reached it yet";
    assert_eq!(told(world.ask(run, complete(later))), not_reached);
    let attempt = world.begin(run, "a");
    let under_way = "step `a` is active, not in error, held, waiting or queued; an attempt is running: wait until it \
                     ends, or pause the run first";
    assert_eq!(told(world.ask(run, complete(unit))), under_way);
    assert_eq!(told(world.ask(run, skip(unit))), under_way);
    world.say(attempt, done()).expect("completed");
    let is_done = "step `a` is completed, not in error, held, waiting or queued; it has already ended";
    assert_eq!(told(world.ask(run, complete(unit))), is_done, "an attempt completed it");
    world.attempt(run, "b", done());
    let last = "the run is completed and final; a rerun starts its next generation";
    assert_eq!(told(world.ask(run, skip(unit))), last);
}

#[test]
fn a_late_worker_does_not_undo_what_was_done_by_hand() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(None, 60), step("b")])]);
    let run = world.start("f");
    let late = world.attempt(run, "a", stall("x"));
    let unit = world.unit_ref(run, "a");
    world
        .ask(run, Command::Complete { unit, output: json("7"), by: operator(), reason: None })
        .expect("done");
    let refused = world.say(late, Report::Complete { output: json("8") });
    assert!(matches!(refused, Err(Refusal::Void(_))), "{refused:?}");
    let UnitState::Completed { output, .. } = &world.unit(run, "a").state else { panic!("completed") };
    assert_eq!(format!("{output:?}"), format!("{:?}", unstuck_core::json::Payload::Inline(json("7"))));
}

#[test]
fn a_resume_may_change_the_input_of_the_run_or_of_the_step() {
    let reads = || Template::Computed(expression(reads_input(), |scope| Ok(scope.input.clone())));
    // The step's template, the changes, what the attempt gets.
    let cases = [
        (None, Some("2"), None, "2"),
        (Some(reads()), Some("2"), None, "2"),
        (Some(reads()), None, Some("3"), "3"),
        (Some(reads()), Some("2"), Some("3"), "3"),
        (Some(reads()), None, None, "1"),
    ];
    for (template, input, step_input, wanted) in cases {
        let make = template.map_or(step("a"), |template| step("a").with(template));
        let mut world = World::new(vec![flow("f", vec![make])]);
        let run = world.start_with("f", None, "1").expect("starts");
        world.attempt(run, "a", stall("x"));
        let changes =
            Changes { input: input.map(json), step_input: step_input.map(json), ..Changes::default() };
        let resume = Command::Resume { unit: None, by: operator(), reason: None, changes: Box::new(changes) };
        world.ask(run, resume).expect("resumed");
        let unit = world.unit(run, "a");
        let got = unit.input.clone().unwrap_or_else(|| world.runs[&run].input.clone());
        assert_eq!(got, unstuck_core::json::Payload::Inline(json(wanted)));
        world.attempt(run, "a", done());
        assert_eq!(world.state(run), RunState::Completed);
    }
}

#[test]
fn a_changed_input_must_fit_and_must_be_clear() {
    struct Number;
    impl CheckInput for Number {
        fn check(&self, input: &serde_json::Value) -> Result<(), Vec<String>> {
            if input.is_number() { Ok(()) } else { Err(vec!["it is no number".to_owned()]) }
        }
    }
    let steps = vec![step("a").needs(&[]), step("b").needs(&[])];
    let mut world = World::new(vec![flow_with("f", steps, |flow| {
        flow.input = Some(std::sync::Arc::new(Number));
    })]);
    let run = world.start_with("f", None, "1").expect("starts");
    world.attempt(run, "a", stall("x"));
    world.attempt(run, "b", stall("x"));
    let cases = [
        (Some("\"no\""), None, "the input does not match the flow: it is no number"),
        (
            None,
            Some("1"),
            "the input does not match the flow: 2 steps would be resumed, but an input for one step was given: name \
             the step",
        ),
    ];
    for (input, step_input, wanted) in cases {
        let changes =
            Changes { input: input.map(json), step_input: step_input.map(json), ..Changes::default() };
        let resume = Command::Resume { unit: None, by: operator(), reason: None, changes: Box::new(changes) };
        assert_eq!(world.ask(run, resume).expect_err("refused").to_string(), wanted);
    }
}
