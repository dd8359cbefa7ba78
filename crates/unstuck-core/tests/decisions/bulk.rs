//! What a bulk action is about, and what it is told of what it has set going: once, and only when it is certain.

use crate::flows::{StepBuilder, child, flow, step, step_of};
use crate::support::{World, done, fatal, lacking, operator, stall};
use unstuck_core::bulk::{
    BulkAction, BulkRef, BulkRerun, TargetFilter, TargetResult, TargetScope, target_scope,
};
use unstuck_core::command::{Changes, Command, Rerun};
use unstuck_core::decide::unit_name;
use unstuck_core::event::Choice;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::flow::Kind;
use unstuck_core::model::run::RunState;
use unstuck_core::step_name::find_units;
use unstuck_core::time::Millis;

const TARGET: BulkRef = BulkRef { bulk: BulkId(9), place: 4 };

/// A run whose step `a` is in error and was resumed by a bulk action.
fn resumed(make: StepBuilder) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![make, step("b")])]);
    let run = world.start("f");
    while world.step(run, "a") != "error" {
        world.attempt(run, "a", stall("first"));
        world.pass(Millis::seconds(1));
    }
    let changes = Changes { bulk: Some(TARGET), ..Changes::default() };
    let resume = Command::Resume { unit: None, by: operator(), reason: None, changes: Box::new(changes) };
    world.ask(run, resume).expect("resumed");
    assert_eq!(world.outcomes, []);
    (world, run)
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("is JSON")
}

fn failed(cause: &str) -> Vec<(BulkRef, TargetResult)> {
    vec![(TARGET, TargetResult::FailedAgain { cause: cause.into() })]
}

fn passed() -> Vec<(BulkRef, TargetResult)> {
    vec![(TARGET, TargetResult::Passed)]
}

#[test]
fn it_is_told_how_the_step_came_out() {
    let cases = [
        ("completed", step("a"), done(), passed()),
        ("stalled", step("a"), stall("again"), failed("again")),
        ("fatal", step("a"), fatal("gone"), failed("gone")),
        // Its own strategy tries again first, and what lacks resources waits.
        ("retried", step("a").retry(Some(2), 1), stall("again"), vec![]),
        ("deferred", step("a"), lacking(), vec![]),
    ];
    for (name, make, says, wanted) in cases {
        let (mut world, run) = resumed(make);
        world.attempt(run, "a", says);
        assert_eq!(world.outcomes, wanted, "{name}");
    }
}

#[test]
fn it_is_told_once() {
    let (mut world, run) = resumed(step("a").retry(Some(2), 1));
    world.attempt(run, "a", stall("again"));
    world.pass(Millis::seconds(1));
    world.attempt(run, "a", done());
    world.attempt(run, "b", done());
    assert_eq!(world.outcomes, passed());
}

#[test]
fn a_later_round_is_not_its_own() {
    let (mut world, run) = resumed(step("a"));
    world.attempt(run, "a", stall("again"));
    world.resume(run, "a").expect("resumed");
    world.attempt(run, "a", done());
    assert_eq!(world.outcomes, failed("again"));
}

#[test]
fn what_ends_under_it_has_not_passed() {
    let (mut world, run) = resumed(step("a"));
    world.cancel(run).expect("cancelled");
    assert_eq!(world.outcomes, failed("first"));
}

#[test]
fn what_somebody_else_does_by_hand_has_passed() {
    let (mut world, run) = resumed(step("a"));
    let unit = world.unit_ref(run, "a");
    world.ask(run, Command::Skip { unit, by: operator(), reason: None }).expect("skipped");
    assert_eq!(world.outcomes, passed());
}

/// A run that has ended and that a bulk action has started again.
fn rerun(steps: Vec<StepBuilder>) -> (World, RunId) {
    let child = flow("part", vec![step("x")]);
    let mut world = World::new(vec![flow("f", steps), child]);
    let run = world.start("f");
    world.attempt(run, "a", fatal("first"));
    if !world.state(run).is_final() {
        world.cancel(run).expect("cancelled");
    }
    let changes = Changes { bulk: Some(TARGET), ..Changes::default() };
    let rerun = Command::Rerun { what: Rerun::Continue, changes: Box::new(changes), by: operator() };
    world.ask(run, rerun).expect("started again");
    assert_eq!(world.outcomes, []);
    (world, run)
}

#[test]
fn it_is_told_how_a_run_came_out_that_it_has_started_again() {
    let cases = [
        ("a step stalls", step("a"), stall("again"), failed("again")),
        ("a step fails", step("a"), fatal("gone"), failed("gone")),
        ("a step is held", step("a").hold(None), stall("again"), failed("again")),
        // Not before the run has come to something.
        ("a step of it is completed", step("a"), done(), vec![]),
        ("its own strategy tries again", step("a").retry(Some(2), 1), stall("again"), vec![]),
    ];
    for (name, make, says, wanted) in cases {
        let (mut world, run) = rerun(vec![make, step("b")]);
        world.attempt(run, "a", says);
        assert_eq!(world.outcomes, wanted, "{name}");
    }
    // A step that its flow goes on without.
    let (mut world, run) = rerun(vec![step("a"), step("b").goes_on()]);
    world.attempt(run, "a", done());
    world.attempt(run, "b", fatal("no matter"));
    assert_eq!(world.outcomes, passed());
    let (mut world, run) = rerun(vec![step("a"), step("b")]);
    world.attempt(run, "a", done());
    world.attempt(run, "b", done());
    assert_eq!((world.state(run), world.outcomes.clone()), (RunState::Completed, passed()));
    assert_eq!(world.runs[&run].bulk, None, "and once");
}

#[test]
fn a_run_that_is_cancelled_or_whose_child_is_in_error_has_not_passed() {
    let (mut world, run) = rerun(vec![step("a"), step("b")]);
    world.cancel(run).expect("cancelled");
    assert_eq!(world.outcomes, failed("it was cancelled"));
    let (mut world, run) = rerun(vec![step("a"), child("b", "part")]);
    world.attempt(run, "a", done());
    let part = world.child(run);
    world.attempt(part, "x", stall("deep"));
    assert_eq!(world.outcomes, failed(&format!("its child {part} is in error")));
}

#[test]
fn it_is_told_how_a_held_step_came_out_that_it_has_chosen_for() {
    let held = || {
        let mut world = World::new(vec![flow("f", vec![step("a").hold(None), step("b")])]);
        let run = world.start("f");
        world.attempt(run, "a", stall("first"));
        (world, run)
    };
    let choose = |world: &mut World, run, choice| {
        let unit = world.unit_ref(run, "a");
        let choose = Command::Choose { unit, choice, by: operator(), bulk: Some(TARGET) };
        world.ask(run, choose).expect("chosen");
    };
    for (says, wanted) in [(done(), passed()), (stall("again"), failed("again"))] {
        let (mut world, run) = held();
        choose(&mut world, run, Choice::Retry);
        assert_eq!(world.outcomes, [], "it is under way");
        world.attempt(run, "a", says);
        assert_eq!(world.outcomes, wanted);
    }
    let (mut world, run) = held();
    choose(&mut world, run, Choice::None);
    assert_eq!((world.state(run), world.outcomes.clone()), (RunState::Failed, vec![]), "nothing is to come");
}

/// What of a run is acted on, in short.
fn reached(world: &World, run: RunId, action: &BulkAction, which: TargetFilter, by_state: bool) -> String {
    let run = &world.runs[&run];
    let flow = world.flow_of(run);
    match target_scope(action, run, Some(&flow), which, by_state) {
        TargetScope::Run => "run".to_owned(),
        TargetScope::Units(units) => {
            units.into_iter().map(|unit| unit_name(&flow, unit)).collect::<Vec<_>>().join(" ")
        }
        TargetScope::LeftOut => "left out".to_owned(),
        TargetScope::NotMeant => "-".to_owned(),
    }
}

#[test]
fn what_has_something_in_common_is_acted_on_where_that_makes_sense() {
    let steps = || {
        vec![step("a").hold(None), step("b").needs(&[]), step_of("s", Kind::Signal("go".into())).needs(&[])]
    };
    let mut world = World::new(vec![flow("f", steps())]);
    // Held, in error and waiting for a signal; the same with the error acknowledged; failed; completed; just begun.
    let rest = |world: &mut World| {
        let run = world.start("f");
        world.attempt(run, "a", stall("x"));
        world.attempt(run, "b", stall("x"));
        run
    };
    let (open, known, failed, done_by_now, new) =
        (rest(&mut world), rest(&mut world), world.start("f"), world.start("f"), world.start("f"));
    let unit = Some(world.unit_ref(known, "b"));
    world.ask(known, Command::Acknowledge { unit, by: operator(), reason: None }).expect("acknowledged");
    world.attempt(failed, "b", fatal("x"));
    world.attempt(done_by_now, "a", done());
    world.attempt(done_by_now, "b", done());
    world.signal(done_by_now, "go", "1").expect("it comes");
    let runs = [open, known, failed, done_by_now, new];
    let rerun = |again| BulkAction::Rerun { again, input: None, step_input: None };
    let skip = |step: &str| BulkAction::Skip { step: step.into() };
    let signal = |name: &str| BulkAction::Signal { name: name.into(), payload: json("1") };
    let choose =
        |step: Option<&str>| BulkAction::Choose { choice: Choice::Retry, step: step.map(Into::into) };
    let all = TargetFilter::default();
    let needed = TargetFilter { needs_person: true, ..all };
    let and_known = TargetFilter { acknowledged: true, ..all };
    let cases = [
        (BulkAction::Cancel, all, false, ["run", "run", "-", "-", "run"]),
        (BulkAction::Cancel, needed, false, ["run", "run", "-", "-", "-"]),
        (BulkAction::Forget, all, false, ["left out", "left out", "run", "run", "left out"]),
        (rerun(BulkRerun::Continue), all, false, ["-", "-", "run", "-", "-"]),
        (rerun(BulkRerun::All), all, true, ["left out", "left out", "run", "run", "left out"]),
        (choose(None), all, false, ["a", "a", "-", "-", "-"]),
        (choose(Some("b")), all, false, ["-"; 5]),
        (signal("go"), all, false, ["run", "run", "-", "-", "run"]),
        (signal("other"), all, false, ["left out", "left out", "-", "-", "left out"]),
        (skip("a"), needed, false, ["a", "a", "-", "-", "-"]),
        (skip("a"), all, false, ["a", "a", "-", "-", "a"]),
        (skip("b"), all, false, ["b", "left out", "-", "-", "b"]),
        (skip("b"), and_known, false, ["b", "b", "-", "-", "b"]),
        (skip("b"), needed, false, ["b", "-", "-", "-", "-"]),
        (skip("nope"), all, false, ["-"; 5]),
    ];
    for (action, which, by_state, wanted) in cases {
        let found = runs.map(|run| reached(&world, run, &action, which, by_state));
        assert_eq!(found, wanted, "{action:?}, {which:?}, by state: {by_state}");
    }
}

#[test]
fn a_step_is_known_by_its_name_also_when_it_has_items() {
    let list = flow("f", vec![step("a").for_each("[1,2,3]", 3), step("b")]);
    let mut world = World::new(vec![list]);
    let run = world.start("f");
    world.attempt(run, "a[0]", stall("x"));
    world.attempt(run, "a[2]", stall("x"));
    let named = |name: &str| {
        let run = &world.runs[&run];
        let flow = world.flow_of(run);
        find_units(run, &flow, name)
            .map_err(|wrong| wrong.to_string())
            .map(|units| units.into_iter().map(|unit| unit_name(&flow, unit)).collect::<Vec<_>>().join(" "))
    };
    let cases = [
        ("a", Ok("a[0] a[2]")),
        ("a[1]", Ok("a[1]")),
        ("b", Ok("b")),
        ("a[7]", Err("step `a` has 3 items, the last of which is `a[2]`")),
        ("b[1]", Err("step `b` has no items; name it without the brackets")),
        ("a[x]", Err("`a[x]` is not an item: the number in brackets starts at 0")),
        ("c", Err("flow `f` has no step `c`; it has `a`, `b`")),
    ];
    for (name, wanted) in cases {
        assert_eq!(named(name), wanted.map(str::to_owned).map_err(str::to_owned), "{name}");
    }
}
