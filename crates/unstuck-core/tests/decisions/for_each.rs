//! Fan-out: every item climbs the ladder alone, the others go on, and the outputs come in order.

use crate::flows::{StepBuilder, child, expression, flow, reads_item, reads_steps, step, step_of};
use crate::support::{World, done, fatal, lacking, output, stall};
use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::event::{Choice, Fact};
use unstuck_core::id::RunId;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;

fn fan(make: StepBuilder) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![make, step("z")]), flow("h", vec![step("clean")])]);
    let run = world.start("f");
    (world, run)
}

/// The words for the first items of `a`.
fn items<const N: usize>(world: &World, run: RunId) -> [&'static str; N] {
    std::array::from_fn(|item| world.step(run, &format!("a[{item}]")))
}

/// The fan-out `a` as a whole.
fn whole(world: &World, run: RunId) -> &'static str {
    world.runs[&run].step(world.unit_ref(run, "a").step).word()
}

/// What the fan-out has put out.
fn outputs(world: &World, run: RunId) -> String {
    let place = world.unit_ref(run, "a").step;
    let output = world.runs[&run].step(place).output().expect("the fan-out is completed");
    world.json(output).text().to_owned()
}

#[test]
fn outputs_come_in_the_order_of_the_list_whatever_the_order_of_their_ends() {
    let (mut world, run) = fan(step("a").for_each("[10, 20, 30]", 3));
    for (item, says) in [("a[2]", "\"c\""), ("a[0]", "\"a\""), ("a[1]", "\"b\"")] {
        assert_eq!(world.step(run, "z"), "pending");
        world.attempt(run, item, output(says));
    }
    assert_eq!((outputs(&world, run).as_str(), world.step(run, "z")), ("[\"a\",\"b\",\"c\"]", "ready"));
}

#[test]
fn outputs_that_could_not_be_read_again_fail_the_run() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (levels, state) in [(119, RunState::Running), (120, RunState::Failed), (127, RunState::Failed)] {
        let (mut world, run) = fan(step("a").for_each("[1]", 1));
        world.attempt(run, "a[0]", output(&nested(levels)));
        assert_eq!(world.state(run), state, "{levels} levels");
        if state == RunState::Failed {
            let wanted = format!("nested too deep ({} levels, at most 120)", levels + 1);
            let cause = world.error(run).error.cause;
            assert!(cause.contains(&wanted), "{cause}");
        }
    }
}

#[test]
fn no_more_than_parallel_items_go_on_at_once() {
    let (mut world, run) = fan(step("a").for_each("[0,1,2,3]", 2).retry(Some(2), 5));
    assert_eq!(items(&world, run), ["ready", "ready", "none", "none"]);
    world.attempt(run, "a[0]", lacking());
    world.attempt(run, "a[1]", stall("x"));
    assert_eq!(items(&world, run), ["waiting", "waiting", "none", "none"], "what waits for a timer counts");
    world.pass(Millis::seconds(5));
    world.attempt(run, "a[1]", done());
    assert_eq!(items(&world, run), ["waiting", "completed", "ready", "none"]);
    world.attempt(run, "a[2]", done());
    assert_eq!(items(&world, run), ["waiting", "completed", "completed", "ready"]);
}

#[test]
fn an_item_in_error_or_held_lets_the_others_go_on() {
    let cases: [(&str, StepBuilder, RunState); 2] =
        [("error", step("a"), RunState::Error), ("held", step("a").hold(None), RunState::Held)];
    for (word, make, state) in cases {
        let (mut world, run) = fan(make.for_each("[0,1,2]", 1));
        world.attempt(run, "a[0]", stall("x"));
        assert_eq!(items(&world, run), [word, "ready", "none"]);
        world.attempt(run, "a[1]", output("1"));
        world.attempt(run, "a[2]", output("2"));
        assert_eq!((items(&world, run), world.state(run)), ([word, "completed", "completed"], state));
        assert_eq!((whole(&world, run), world.step(run, "z")), (word, "pending"));
        if word == "held" {
            world.choose(run, "a[0]", Choice::Retry).expect("chosen");
        } else {
            world.resume(run, "a[0]").expect("resumed");
        }
        world.attempt(run, "a[0]", output("0"));
        assert_eq!((outputs(&world, run).as_str(), world.step(run, "z")), ("[0,1,2]", "ready"));
    }
}

#[test]
fn a_failed_item_with_fail_on_error_false_leaves_null_in_its_place() {
    let (mut world, run) = fan(step("a").goes_on().for_each("[0,1,2]", 1));
    world.attempt(run, "a[0]", output("0"));
    world.attempt(run, "a[1]", fatal("gone"));
    world.attempt(run, "a[2]", stall("reset"));
    assert_eq!((outputs(&world, run).as_str(), world.step(run, "z")), ("[0,null,null]", "ready"));
}

#[test]
fn an_item_at_rung_four_or_a_failing_rung_five_stops_launches_and_acts_once() {
    let cases: [(&str, StepBuilder, Report, &str); 3] = [
        ("rung 5", step("a"), fatal("gone"), "cancelled"),
        ("rung 4", step("a").handler("h"), fatal("gone"), "dropped"),
        ("rung 4 after a stall", step("a").handler("h"), stall("reset"), "dropped"),
    ];
    for (name, make, says, left) in cases {
        let (mut world, run) = fan(make.for_each("[0,1,2,3,4]", 3));
        let (in_flight, other) = (world.begin(run, "a[1]"), world.begin(run, "a[2]"));
        world.attempt(run, "a[0]", says.clone());
        assert_eq!(items(&world, run), ["failed", "active", "active", "none", "none"], "{name}");
        assert_eq!(world.state(run), RunState::Running, "{name}: those in flight end first");
        world.say(in_flight, output("1")).expect("recorded");
        world.say(other, says).expect("recorded");
        assert_eq!(items(&world, run), ["failed", "completed", "failed", "none", "none"], "{name}");
        assert_eq!((whole(&world, run), world.step(run, "z")), ("failed", left), "{name}");
        let failing = |fact: &&Fact| matches!(fact, Fact::Failing { .. });
        let acted = world.history[&run].iter().flat_map(|event| &event.facts).filter(failing).count();
        assert_eq!(acted, 1, "{name}");
        let error = world.error(run);
        assert_eq!(error.unit, Some(world.unit_ref(run, "a[0]")), "{name}: the first one is the run's");
        if left == "dropped" {
            let handler = world.child(run);
            world.attempt(handler, "clean", done());
        }
        assert_eq!(world.state(run), RunState::Failed, "{name}");
    }
}

#[test]
fn a_list_may_be_empty_and_must_be_a_list_that_is_not_too_long() {
    let (world, run) = fan(step("a").for_each("[]", 4));
    assert_eq!((outputs(&world, run).as_str(), world.step(run, "z")), ("[]", "ready"));
    let long = format!("[{}0]", "0,".repeat(99));
    let most = |step: StepBuilder| step.change(|step| step.node.for_each.as_mut().unwrap().max_items = 99);
    let cases = [
        (step("a").for_each("{\"x\":1}", 4), "forEach needs a list but got {\"x\":1}"),
        (step("a").for_each("null", 4), "forEach needs a list but got null"),
        (most(step("a").for_each(&long, 4)), "forEach got 100 items, at most 99 are allowed: raise maxItems"),
    ];
    for (make, cause) in cases {
        let (world, run) = fan(make);
        let error = world.error(run).error;
        assert_eq!((&*error.cause, error.found_by.as_deref()), (cause, Some("EvaluateExpressionAction")));
        assert_eq!((world.step(run, "a"), world.state(run)), ("failed", RunState::Failed));
    }
}

#[test]
fn the_input_of_an_item_is_the_item_unless_the_step_says_otherwise() {
    let both = || {
        expression(reads_item(), |scope| {
            let (item, index) = scope.item.clone().expect("inside a fan-out");
            Ok(serde_json::json!({ "item": item, "index": index }))
        })
    };
    let list = r#"["x", {"y": 1}]"#;
    let cases = [
        (step("a").for_each(list, 2), [r#""x""#, r#"{"y":1}"#]),
        (
            step("a").for_each(list, 2).with(Template::Computed(both())),
            [r#"{"index":0,"item":"x"}"#, r#"{"index":1,"item":{"y":1}}"#],
        ),
    ];
    for (make, inputs) in cases {
        let (world, run) = fan(make);
        let bound = ["a[0]", "a[1]"].map(|item| {
            let input = world.unit(run, item).input.clone().expect("bound");
            world.json(&input).text().to_owned()
        });
        assert_eq!(bound, inputs);
    }
}

#[test]
fn every_item_has_budgets_of_its_own() {
    let (mut world, run) = fan(step("a").for_each("[0,1]", 2).retry(Some(2), 1));
    world.attempt(run, "a[0]", stall("x"));
    world.pass(Millis::seconds(1));
    world.attempt(run, "a[0]", stall("x"));
    world.attempt(run, "a[1]", stall("x"));
    assert_eq!(items(&world, run), ["error", "waiting"]);
    world.resume(run, "a[0]").expect("resumed");
    let rounds = ["a[0]", "a[1]"].map(|item| world.unit(run, item).round.number);
    assert_eq!((items(&world, run), rounds), (["ready", "waiting"], [2, 1]));
}

#[test]
fn thousands_of_items_may_fail_as_they_are_launched() {
    let list = format!("[{}0]", "0,".repeat(9_999));
    let fails = expression(reads_item(), |_| Err("no good".to_owned()));
    let (world, run) = fan(step("a").goes_on().for_each(&list, 16).with(Template::Computed(fails)));
    assert_eq!((whole(&world, run), world.step(run, "z")), ("completed", "ready"));
    assert!(outputs(&world, run).starts_with("[null,null,"));
}

#[test]
fn a_cancelled_run_ends_its_items_and_launches_no_more() {
    let (mut world, run) = fan(step("a").for_each("[0,1,2]", 2));
    let active = world.begin(run, "a[0]");
    world.cancel(run).expect("cancelled");
    assert_eq!((items(&world, run), whole(&world, run)), (["cancelled", "cancelled", "none"], "cancelled"));
    assert_eq!(world.interrupted()[0].0, active);
}

#[test]
fn a_rerun_takes_failed_and_unlaunched_items_and_never_a_completed_one() {
    let large = format!("\"{}\"", "y".repeat(200));
    for parallel in [1, 3] {
        let (mut world, run) = fan(step("a").for_each("[0,1,2,3]", parallel));
        // Some are done, one fails, one was never launched.
        if parallel == 3 {
            world.attempt(run, "a[2]", output(&large));
        }
        world.attempt(run, "a[0]", output(&large));
        world.attempt(run, "a[1]", fatal("gone"));
        assert_eq!(world.state(run), RunState::Failed);
        world.rerun(run, Rerun::Continue).expect("reran");
        let left = if parallel == 3 { ["completed", "ready"] } else { ["none", "none"] };
        assert_eq!(items(&world, run), ["completed", "ready", left[0], left[1]]);
        for item in ["a[1]", "a[2]", "a[3]"] {
            if world.step(run, item) == "ready" {
                world.attempt(run, item, output("1"));
            }
        }
        let two = if parallel == 3 { large.as_str() } else { "1" };
        assert_eq!(outputs(&world, run), format!("[{large},1,{two},1]"));
        assert_eq!(world.step(run, "z"), "ready");
    }
    // Also where nothing is left to launch after it.
    let (mut world, run) = fan(step("a").for_each("[0,1]", 2));
    world.attempt(run, "a[1]", output(&large));
    world.attempt(run, "a[0]", fatal("gone"));
    world.rerun(run, Rerun::Continue).expect("reran");
    world.attempt(run, "a[0]", output("0"));
    assert_eq!(outputs(&world, run), format!("[0,{large}]"));
}

#[test]
fn every_item_of_a_child_step_has_its_own_child() {
    let flows =
        vec![flow("f", vec![child("a", "inner").for_each("[0,1]", 2)]), flow("inner", vec![step("x")])];
    let mut world = World::new(flows);
    let run = world.start("f");
    let children: Vec<RunId> = world.runs.keys().copied().filter(|other| *other != run).collect();
    let large = format!("\"{}\"", "y".repeat(200));
    world.attempt(children[1], "x", output(&large));
    world.attempt(children[0], "x", output("0"));
    assert_eq!(world.output(run), format!("[0,{large}]"));
}

#[test]
fn items_that_need_no_worker_are_done_as_they_are_launched() {
    let squares = expression(reads_item(), |scope| {
        let number = scope.item.as_ref().and_then(|(item, _)| item.as_i64()).ok_or("no number")?;
        Ok((number * number).into())
    });
    let set = step_of("a", Kind::Set(Template::Computed(squares))).for_each("[1,2,3]", 1);
    let (world, run) = fan(set);
    assert_eq!(outputs(&world, run), "[1,4,9]");

    // Signals that came before are taken all at once.
    let waits = |flow: Vec<StepBuilder>| -> Flow { crate::flows::flow("f", flow) };
    let signal = step_of("s", Kind::Signal("go".into())).for_each("[0,1,2]", 3);
    let reads = expression(reads_steps(&[1]), |scope| Ok(scope.steps[0].1.clone()));
    let copy = step_of("copy", Kind::Set(Template::Computed(reads)));
    let mut world = World::new(vec![waits(vec![step("a"), signal, copy])]);
    let run = world.start("f");
    let payload = |n: u32| format!("\"{n}{}\"", "y".repeat(200));
    for n in 0..3 {
        world.signal(run, "go", &payload(n)).expect("kept");
    }
    world.attempt(run, "a", done());
    assert_eq!(world.output(run), format!("[{},{},{}]", payload(0), payload(1), payload(2)));
}

#[test]
fn items_have_timers_and_deadlines_like_any_step() {
    let (mut world, run) = fan(step("a").for_each("[0,1]", 2).change(|step| {
        step.limits.queue_timeout = Some(Millis::seconds(10));
    }));
    world.begin(run, "a[0]");
    world.pass(Millis::seconds(10));
    assert_eq!(items(&world, run), ["active", "error"]);
    let unit = Some(world.unit_ref(run, "a[7]"));
    let stale = world.ask(run, Command::Due { unit, heard: None });
    assert!(stale.is_ok(), "a timer of an item that is not there changes nothing: {stale:?}");
}
