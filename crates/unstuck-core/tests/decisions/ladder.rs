//! The recovery ladder, rung by rung: what follows a stalled and a failed attempt.

use crate::flows::{StepBuilder, expression, flow, flow_with, reads_input, step};
use crate::support::{World, done, fatal, operator, stall};
use unstuck_core::command::{Command, Report};
use unstuck_core::event::Choice;
use unstuck_core::json::{Json, MAX_DEPTH};
use unstuck_core::model::error::Error;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::Deadline;
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;

/// A row: the step, what its attempts say, and where that leaves the step and the run.
struct Case {
    name: &'static str,
    step: fn() -> StepBuilder,
    says: Vec<Report>,
    leaves: (&'static str, RunState),
}

fn case(
    name: &'static str,
    step: fn() -> StepBuilder,
    says: Vec<Report>,
    leaves: (&'static str, RunState),
) -> Case {
    Case { name, step, says, leaves }
}

#[test]
fn what_follows_an_attempt() {
    use RunState::{Error, Failed, Held, Running, Waiting};
    let s = || stall("reset");
    let f = || fatal("gone");
    let cases = [
        case("completed", || step("a"), vec![done()], ("completed", Running)),
        // Rung 1: retry.
        case("none: a stall rests", || step("a"), vec![s()], ("error", Error)),
        case("none: a failure fails the run", || step("a"), vec![f()], ("failed", Failed)),
        case("retry waits", || step("a").retry(Some(2), 2), vec![s()], ("waiting", Waiting)),
        case("retry passes", || step("a").retry(Some(2), 2), vec![s(), done()], ("completed", Running)),
        case("retries spent", || step("a").retry(Some(2), 2), vec![s(), s()], ("error", Error)),
        case("a failure skips retry", || step("a").retry(Some(5), 2), vec![f()], ("failed", Failed)),
        case("unlimited", || step("a").retry(None, 1), (0..30).map(|_| s()).collect(), ("waiting", Waiting)),
        // Rung 1: hold.
        case("hold", || step("a").hold(None), vec![s()], ("held", Held)),
        case("a failure does not skip hold", || step("a").hold(None), vec![f()], ("held", Held)),
        case("hold bounded by maxAttempts", || step("a").hold(Some(1)), vec![s()], ("error", Error)),
        // Rung 2.
        case("goes on", || step("a").goes_on(), vec![s()], ("failed", Running)),
        case("goes on after a failure", || step("a").goes_on(), vec![f()], ("failed", Running)),
        case("retries first", || step("a").retry(Some(2), 2).goes_on(), vec![s()], ("waiting", Waiting)),
        case("then goes on", || step("a").retry(Some(2), 2).goes_on(), vec![s(), s()], ("failed", Running)),
        // Rung 4.
        case("handler after a stall", || step("a").handler("h"), vec![s()], ("failed", Running)),
        case("handler after a failure", || step("a").handler("h"), vec![f()], ("failed", Running)),
    ];
    for Case { name, step: make, says, leaves } in cases {
        let mut world = World::new(vec![flow("f", vec![make(), step("b")]), flow("h", vec![step("clean")])]);
        let run = world.start("f");
        for says in says {
            world.pass(Millis::seconds(10));
            world.attempt(run, "a", says);
        }
        assert_eq!((world.step(run, "a"), world.state(run)), leaves, "{name}");
    }
}

#[test]
fn a_retry_waits_for_its_back_off_and_never_less_than_the_minimum_delay() {
    for (back_off_s, waits) in [(0, Millis::seconds(1)), (7, Millis::seconds(7))] {
        let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(3), back_off_s)])]);
        let run = world.start("f");
        world.attempt(run, "a", stall("x"));
        world.pass(Millis(waits.0 - 1));
        assert_eq!(world.step(run, "a"), "waiting");
        world.pass(Millis(1));
        assert_eq!(world.step(run, "a"), "ready");
    }
}

#[test]
fn an_operator_chooses_for_a_held_step() {
    let held = |make: fn() -> StepBuilder| {
        let mut world = World::new(vec![flow("f", vec![make(), step("b")]), flow("h", vec![step("clean")])]);
        let run = world.start("f");
        world.attempt(run, "a", stall("x"));
        assert_eq!(world.state(run), RunState::Held);
        (world, run)
    };
    let choose = |world: &mut World, run, choice| {
        let unit = world.unit_ref(run, "a");
        world.ask(run, Command::Choose { unit, choice, by: operator(), bulk: None })
    };

    // Retry: one more attempt in the same round, at once; if that fails too it is held again.
    let (mut world, run) = held(|| step("a").hold(None));
    choose(&mut world, run, Choice::Retry).expect("chosen");
    assert_eq!(world.step(run, "a"), "ready");
    world.attempt(run, "a", fatal("y"));
    assert_eq!(
        (world.step(run, "a"), world.runs[&run].unit(world.unit_ref(run, "a")).unwrap().round.number),
        ("held", 1)
    );

    // None: rung 2, then rung 4, then failed.
    let (mut world, run) = held(|| step("a").hold(None).goes_on());
    choose(&mut world, run, Choice::None).expect("chosen");
    assert_eq!((world.step(run, "a"), world.step(run, "b")), ("failed", "ready"));
    let (mut world, run) = held(|| step("a").hold(None).handler("h"));
    choose(&mut world, run, Choice::None).expect("chosen");
    assert_eq!((world.step(run, "b"), world.state(run)), ("dropped", RunState::Running));
    let (mut world, run) = held(|| step("a").hold(None));
    choose(&mut world, run, Choice::None).expect("chosen");
    assert_eq!(
        (world.step(run, "a"), world.step(run, "b"), world.state(run)),
        ("failed", "cancelled", RunState::Failed)
    );

    // A step that is not held has no choice.
    let refusal = choose(&mut world, run, Choice::Retry).expect_err("refused");
    assert_eq!(refusal.to_string(), "the run is failed and final; a rerun starts its next generation");
}

#[test]
fn a_manual_resume_starts_a_round_with_its_budgets() {
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(2), 1)])]);
    let run = world.start("f");
    for round in 1..=3 {
        for _ in 0..2 {
            world.pass(Millis::seconds(1));
            world.attempt(run, "a", stall("x"));
        }
        let unit = world.runs[&run].unit(world.unit_ref(run, "a")).unwrap();
        assert_eq!((unit.round.number, unit.attempts, world.step(run, "a")), (round, round * 2, "error"));
        world
            .ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() })
            .expect("resumed");
    }
    world.attempt(run, "a", done());
    assert_eq!(world.state(run), RunState::Completed);
    let refusal = world
        .ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() })
        .expect_err("final");
    assert_eq!(refusal.code(), "final");
}

#[test]
fn a_failing_run_waits_for_what_is_active_then_runs_its_handler_then_is_final() {
    let steps = vec![step("a").handler("h"), step("b").needs(&[]), step("c").needs(&[]), step("d")];
    let mut world = World::new(vec![flow("f", steps), flow("h", vec![step("clean")])]);
    let run = world.start("f");
    let b = world.begin(run, "b");
    world.attempt(run, "a", fatal("broken"));
    assert_eq!(
        (world.step(run, "b"), world.step(run, "c"), world.step(run, "d")),
        ("active", "dropped", "dropped")
    );
    assert!(world.claim(run, "c", &crate::support::local("w")).is_err(), "nothing more is dispatched");
    world.say(b, done()).expect("recorded");
    assert_eq!((world.step(run, "b"), world.state(run)), ("completed", RunState::Running));
    let handler = world.child(run);
    let input = world.json(&world.runs[&handler].input.clone()).value();
    assert_eq!((&input["step"], &input["error"]["cause"]), (&"a".into(), &"broken".into()));
    // Inside a handler nothing rests in error, and a handler that fails leaves both errors.
    world.attempt(handler, "clean", stall("no luck"));
    assert_eq!((world.state(handler), world.state(run)), (RunState::Failed, RunState::Failed));
    let text = format!("{:?}", world.runs[&run].phase);
    assert!(text.contains("broken") && text.contains("no luck"), "{text}");
}

#[test]
fn a_thousand_steps_that_fail_at_once_and_go_on_need_no_deep_stack() {
    let fails = || Template::Computed(expression(reads_input(), |_| Err("no good".into())));
    let steps = (0..1_000).map(|place| step(&format!("s{place}")).with(fails()).goes_on()).collect();
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    assert_eq!(world.state(run), RunState::Completed);
}

#[test]
fn a_handler_can_read_its_input_however_deep_the_details_are() {
    // How deep the details are, and whether they are told as they are or as a text.
    for (levels, is_text) in [(1, false), (MAX_DEPTH, false), (MAX_DEPTH + 1, true), (127, true)] {
        let mut world =
            World::new(vec![flow("f", vec![step("a").handler("h")]), flow("h", vec![step("clean")])]);
        let run = world.start("f");
        let details = Json::parse(&format!("{}{}", "[".repeat(levels), "]".repeat(levels))).expect("JSON");
        let error = Box::new(Error { details: details.clone(), ..Error::new("broken") });
        world.attempt(run, "a", Report::Fail { error, fatal: true });
        let handler = world.child(run);
        let input = world.json(&world.runs[&handler].input.clone());
        let read = Json::parse(input.text()).expect("it can be read again").value();
        let wanted = if is_text { details.text().into() } else { details.value() };
        assert_eq!(read["error"]["details"], wanted, "{levels} levels");
    }
}

#[test]
fn a_deadline_ends_what_a_failing_run_still_waits_for() {
    let steps = vec![step("a").handler("h"), step("b").needs(&[])];
    let main = flow_with("f", steps, |flow| flow.deadline = Some(Deadline::After(Millis::minutes(5))));
    let mut world = World::new(vec![main, flow("h", vec![step("clean")])]);
    let run = world.start("f");
    world.begin(run, "b");
    world.attempt(run, "a", fatal("broken"));
    world.pass(Millis::minutes(5));
    assert_eq!((world.step(run, "b"), world.state(run)), ("dropped", RunState::Running));
    let handler = world.child(run);
    world.pass(Millis::hours(1));
    world.attempt(handler, "clean", done());
    assert_eq!(world.state(run), RunState::Failed);
}
