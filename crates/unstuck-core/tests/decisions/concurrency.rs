//! Concurrency: how many runs of a flow go on at once, who gives a slot back, and who takes it again.

use crate::flows::{StepBuilder, child, expression, flow, flow_with, reads_input, step, step_of};
use crate::support::{World, done, fatal, lacking, stall};
use unstuck_core::command::{Command, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Concurrency, Deadline, Kind};
use unstuck_core::model::run::RunState;
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::time::Millis;

fn world(limit: u32, strict: bool, steps: Vec<StepBuilder>) -> World {
    let change = |flow: &mut unstuck_core::model::flow::Flow| {
        flow.concurrency = Some(Concurrency { limit, key: None, strict });
    };
    World::new(vec![flow_with("f", steps, change)])
}

/// Starts a run and gives out slots.
fn start(world: &mut World, input: &str) -> RunId {
    let run = world.start_with("f", None, input).expect("starts");
    world.admit();
    world.pass(Millis(1));
    run
}

fn has(world: &World, run: RunId) -> &'static str {
    match slot_claim(&world.runs[&run], &world.flows["f"]) {
        SlotClaim::None => "none",
        SlotClaim::Wants { .. } => "wants",
        SlotClaim::Has { .. } => "has",
    }
}

#[test]
fn no_more_than_the_limit_go_on_and_the_others_wait_in_order() {
    let mut world = world(2, false, vec![step("a")]);
    let runs = [(); 4].map(|()| start(&mut world, "null"));
    let states = |world: &World| runs.map(|run| world.state(run).word());
    assert_eq!(states(&world), ["running", "running", "queued", "queued"]);
    assert_eq!(runs.map(|run| has(&world, run)), ["has", "has", "wants", "wants"]);
    // Nothing of a queued run is handed out, and nothing has begun.
    assert_eq!(world.step(runs[2], "a"), "pending");
    world.attempt(runs[1], "a", done());
    world.admit();
    assert_eq!(states(&world), ["running", "completed", "running", "queued"]);
    world.cancel(runs[0]).expect("cancelled");
    world.admit();
    assert_eq!(states(&world), ["cancelled", "completed", "running", "running"]);
    assert_eq!(has(&world, runs[0]), "none");
}

#[test]
fn the_limit_is_per_value_of_its_key() {
    let key = expression(reads_input(), |scope| Ok(scope.input["tenant"].clone()));
    let change = |flow: &mut unstuck_core::model::flow::Flow| {
        flow.concurrency = Some(Concurrency { limit: 1, key: Some(key), strict: false });
    };
    let mut world = World::new(vec![flow_with("f", vec![step("a")], change)]);
    let inputs = [r#"{"tenant": "x"}"#, r#"{"tenant": "y"}"#, r#"{"tenant": "x"}"#, r#"{"tenant": 7}"#];
    let runs = inputs.map(|input| start(&mut world, input));
    assert_eq!(runs.map(|run| world.state(run).word()), ["running", "running", "queued", "running"]);
    let names = runs.map(|run| match slot_claim(&world.runs[&run], &world.flows["f"]) {
        SlotClaim::Has { limit } | SlotClaim::Wants { limit, .. } => limit.name.to_string(),
        SlotClaim::None => String::new(),
    });
    assert_eq!(names, ["f/x", "f/y", "f/x", "f/7"]);
}

#[test]
fn who_waits_says_with_which_priority() {
    let mut world = world(0, false, vec![step("a")]);
    let Ok(Answer::Started(run)) = world.try_start("f", |start| start.priority = 7) else { panic!("starts") };
    let wants = slot_claim(&world.runs[&run], &world.flows["f"]);
    assert!(matches!(&wants, SlotClaim::Wants { limit, priority: 7 } if limit.max == 0), "{wants:?}");
    assert_eq!(world.ask(run, Command::Admit), Ok(Answer::Done));
    assert_eq!(world.ask(run, Command::Admit), Ok(Answer::Already), "it has one");
}

#[test]
fn a_slot_is_given_back_in_error_held_and_paused_and_taken_again_unless_it_is_strict() {
    type Act = fn(&mut World, RunId);
    let cases: [(&str, Act, Act); 3] = [
        (
            "error",
            |world, run| {
                world.attempt(run, "a", done());
                world.attempt(run, "b", stall("x"));
            },
            |world, run| {
                world.resume(run, "b").expect("done");
            },
        ),
        (
            "held",
            |world, run| {
                world.attempt(run, "a", stall("x"));
            },
            |world, run| {
                world.choose(run, "a", Choice::Retry).expect("done");
            },
        ),
        (
            "paused",
            |world, run| {
                world.pause(run).expect("done");
            },
            |world, run| {
                world.unpause(run).expect("done");
            },
        ),
    ];
    for (state, rest, go_on) in cases {
        for strict in [false, true] {
            let mut world = world(1, strict, vec![step("a").hold(None), step("b")]);
            let [first, second] = [(); 2].map(|()| start(&mut world, "null"));
            rest(&mut world, first);
            assert_eq!(world.state(first).word(), state);
            world.admit();
            let (mine, other) = if strict { ("has", "queued") } else { ("none", "running") };
            assert_eq!((has(&world, first), world.state(second).word()), (mine, other), "{state} {strict}");

            go_on(&mut world, first);
            world.admit();
            let after = if strict { ("running", "queued") } else { ("queued", "running") };
            assert_eq!((world.state(first).word(), world.state(second).word()), after, "{state} {strict}");
            world.cancel(second).expect("cancelled");
            world.admit();
            assert_eq!((has(&world, first), world.state(first)), ("has", RunState::Running), "{state}");
            let ready = world.unit_ref(first, if state == "error" { "b" } else { "a" });
            let names = ["a", "b"].map(|step| world.wakeup(first, step).ready.is_some());
            assert!(names[usize::from(ready.step.0)], "{state}: it goes on where it was");
        }
    }
}

#[test]
fn a_run_that_only_waits_keeps_its_slot() {
    let mut world = world(1, false, vec![step("a")]);
    let [first, second] = [(); 2].map(|()| start(&mut world, "null"));
    world.attempt(first, "a", lacking());
    world.admit();
    assert_eq!((world.state(first).word(), has(&world, first)), ("waiting", "has"));
    assert_eq!(world.state(second), RunState::Queued);
}

#[test]
fn branches_beside_an_error_ask_for_a_slot_when_their_time_has_come() {
    let steps = || {
        vec![
            step("e").needs(&[]),
            step("r").needs(&[]).retry(Some(2), 60),
            step_of("s", Kind::Signal("go".into())).needs(&[]).change(|step| step.limits.timeout = None),
            step("after"),
        ]
    };
    let mut world = world(1, false, steps());
    let run = start(&mut world, "null");
    world.attempt(run, "r", stall("x"));
    world.attempt(run, "e", stall("x"));
    assert_eq!((world.state(run), has(&world, run)), (RunState::Error, "none"));
    world.signal(run, "go", "1").expect("kept");
    assert_eq!(has(&world, run), "wants");
    world.admit();
    assert_eq!(world.steps(run, ["s", "after"]), ["completed", "ready"]);
    world.attempt(run, "after", done());
    assert_eq!((world.state(run), has(&world, run)), (RunState::Error, "none"), "given back once more");
    world.pass(Millis::seconds(60));
    assert_eq!((world.step(run, "r"), has(&world, run)), ("ready", "has"));
}

#[test]
fn a_run_that_would_do_nothing_with_a_slot_does_not_ask_for_one() {
    let mut world = world(1, false, vec![step("a").for_each("[0,1,2]", 3)]);
    let run = start(&mut world, "null");
    world.attempt(run, "a[1]", done());
    world.attempt(run, "a[2]", done());
    world.attempt(run, "a[0]", fatal("gone"));
    world.rerun(run, Rerun::Continue).expect("reran");
    world.admit();
    world.attempt(run, "a[0]", stall("x"));
    assert_eq!((world.state(run), has(&world, run)), (RunState::Error, "none"));
    world.resume(run, "a[0]").expect("resumed");
    assert_eq!(has(&world, run), "wants");
}

#[test]
fn a_queued_run_can_be_paused_cancelled_signalled_and_late() {
    let limited = |limit| {
        flow_with("f", vec![step_of("s", Kind::Signal("go".into()))], |flow| {
            flow.concurrency = Some(Concurrency { limit, key: None, strict: false });
            flow.deadline = Some(Deadline::After(Millis::hours(1)));
        })
    };
    let mut world = World::new(vec![limited(0)]);
    let [paused, cancelled, signalled, late] = [(); 4].map(|()| start(&mut world, "null"));
    world.pause(paused).expect("paused");
    assert_eq!(has(&world, paused), "none");
    world.cancel(cancelled).expect("cancelled");
    assert_eq!(has(&world, cancelled), "none");
    world.signal(signalled, "go", "5").expect("kept");
    assert_eq!((world.state(signalled), has(&world, signalled)), (RunState::Queued, "wants"));
    world.ask(signalled, Command::Admit).expect("admitted");
    assert_eq!(world.output(signalled), "5");
    world.pass(Millis::hours(1));
    assert_eq!((world.state(late), world.state(paused)), (RunState::Failed, RunState::Failed));
}

#[test]
fn a_parents_slot_follows_its_child() {
    let outer = flow_with("f", vec![crate::flows::child("c", "inner")], |flow| {
        flow.concurrency = Some(Concurrency { limit: 1, key: None, strict: false });
    });
    let mut world = World::new(vec![outer, flow("inner", vec![step("x")])]);
    let [first, second] = [(); 2].map(|()| start(&mut world, "null"));
    let child = world.child(first);
    world.attempt(child, "x", stall("x"));
    world.admit();
    assert_eq!((has(&world, first), has(&world, second)), ("none", "has"));
    world.resume(child, "x").expect("resumed");
    assert_eq!(has(&world, first), "wants");
    // The child has no limit of its own and goes on; its parent takes up the result when it has a slot again.
    world.attempt(child, "x", done());
    assert_eq!((world.step(first, "c"), world.state(first)), ("completed", RunState::Queued));
    world.cancel(second).expect("cancelled");
    world.admit();
    assert_eq!(world.state(first), RunState::Completed);
}

#[test]
fn a_parent_whose_children_all_wait_for_a_slot_is_queued_and_not_running() {
    let one = |flow: &mut unstuck_core::model::flow::Flow| {
        flow.concurrency = Some(Concurrency { limit: 1, key: None, strict: true });
    };
    let inner = flow_with("inner", vec![step("x").hold(None)], one);
    let each = child("c", "inner").for_each("[1,2]", 2);
    let mut world = World::new(vec![flow("outer", vec![each]), inner]);
    let holder = world.start("inner");
    world.admit();
    world.attempt(holder, "x", stall("a person must look"));
    assert_eq!(world.state(holder), RunState::Held);
    let parent = world.start("outer");
    world.admit();
    world.pass(Millis(1));
    assert_eq!((world.state(parent), world.step(parent, "c[0]")), (RunState::Queued, "active"));
    // Once somebody has freed the slot, one of them goes on, and so does the parent.
    world.cancel(holder).expect("cancelled");
    world.admit();
    world.pass(Millis(1));
    assert_eq!(world.state(parent), RunState::Running);
}
