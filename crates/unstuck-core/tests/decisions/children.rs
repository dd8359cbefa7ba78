//! Child runs: what becomes of the parent's step, who follows whom, and that nothing is heard twice.

use std::sync::Arc;

use crate::flows::{StepBuilder, child, expression, flow, flow_with, reads_steps, step, step_of};
use crate::support::{World, done, fatal, lacking, output, stall};
use unstuck_core::command::{Command, Notice};
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{Outcome, StuckLimit};
use unstuck_core::model::error::Reason;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{CheckInput, Deadline, Flow, Kind, WaitFor};
use unstuck_core::model::run::{Phase, RunEnd, RunOutcome, RunState};
use unstuck_core::time::Millis;

/// The flow `f` with the child step `c` and a step after it, the child's flow `inner`, and a handler.
fn family(c: StepBuilder, inner: Vec<StepBuilder>) -> (World, RunId, RunId) {
    let flows = vec![flow("f", vec![c, step("z")]), flow("inner", inner), flow("h", vec![step("clean")])];
    let mut world = World::new(flows);
    let run = world.start("f");
    let child = world.child(run);
    (world, run, child)
}

/// Lets a child that has handed over to its handler end.
fn clean(world: &mut World, child: RunId) {
    let newest = world.runs.values().rfind(|run| run.origin.parent() == Some(child));
    let handler = newest.expect("it has a handler").id;
    world.attempt(handler, "clean", done());
}

#[test]
fn how_a_child_ends_is_how_its_parents_step_ends() {
    // What the child's step says, if not its deadline or an operator end it; then the outcome for its parent.
    let late = "failed: missed its deadline (2027-01-15T09:00:00.000Z) while `x` was queued (attempt 1)";
    let cancelled = "failed: the child run was cancelled";
    let cases = [
        ("says", Some(output("5")), "completed", ("completed", RunState::Running)),
        ("says", Some(stall("reset")), "stalled: reset", ("error", RunState::Error)),
        ("says", Some(fatal("gone")), "failed: gone", ("failed", RunState::Failed)),
        ("cancelled", None, cancelled, ("failed", RunState::Failed)),
        ("late", None, late, ("failed", RunState::Failed)),
    ];
    for (how, says, outcome, leaves) in cases {
        let late = |flow: &mut Flow| flow.deadline = Some(Deadline::After(Millis::hours(1)));
        let inner = flow_with("inner", vec![step("x").handler("h")], late);
        let outer = flow("f", vec![child("c", "inner"), step("z")]);
        let mut world = World::new(vec![outer, inner, flow("h", vec![step("clean")])]);
        let run = world.start("f");
        let child = world.child(run);
        assert_eq!((world.step(run, "c"), world.state(run)), ("active", RunState::Running), "{how}");
        match says {
            Some(says) => {
                world.attempt(child, "x", says);
            }
            None if how == "late" => world.pass(Millis::hours(1)),
            None => {
                world.cancel(child).expect("cancelled");
            }
        }
        if world.state(child) == RunState::Running {
            clean(&mut world, child);
        }
        let past = &world.unit(run, "c").past[0].outcome;
        let cause = past.error().map_or(String::new(), |error| format!(": {}", error.cause));
        assert_eq!(format!("{}{cause}", past.word()), outcome);
        assert_eq!((world.step(run, "c"), world.state(run)), leaves, "{outcome}");
    }
}

#[test]
fn a_childs_error_reaches_its_parent_as_it_is() {
    let (mut world, run, child) = family(child("c", "inner"), vec![step("x")]);
    let mut error = unstuck_core::model::error::Error::new("no such customer");
    error.reason = Reason::Data;
    error.context = Some("line 4".into());
    let fail = unstuck_core::command::Report::Fail { error: Box::new(error.clone()), fatal: true };
    world.attempt(child, "x", fail);
    assert_eq!(world.error(run).error, error);
}

#[test]
fn a_retry_continues_the_same_child_as_its_next_generation() {
    let (mut world, run, child) =
        family(child("c", "inner").retry(Some(3), 5), vec![step("x"), step("y").handler("h")]);
    world.attempt(child, "x", output("1"));
    for attempt in 1..=2 {
        world.attempt(child, "y", stall("reset"));
        clean(&mut world, child);
        assert_eq!((world.state(child), world.step(run, "c")), (RunState::Failed, "waiting"), "{attempt}");
        world.pass(Millis::seconds(5));
        assert_eq!(world.runs[&child].generation, attempt + 1);
        assert_eq!(
            world.steps(child, ["x", "y"]),
            ["completed", "ready"],
            "what was completed is not run again"
        );
        assert_eq!((world.step(run, "c"), world.unit(run, "c").attempts), ("active", attempt + 1));
    }
    world.attempt(child, "y", output("2"));
    assert_eq!(world.steps(run, ["c", "z"]), ["completed", "ready"]);
    assert_eq!(
        world.runs.values().filter(|run| run.origin.parent().is_some()).count(),
        3,
        "child, two handlers"
    );
}

#[test]
fn for_its_parents_state_a_step_counts_as_its_child_does() {
    let wait = || step_of("x", Kind::Wait(WaitFor::Span(Millis::hours(1))));
    let cases = [
        (RunState::Running, step("x"), None),
        (RunState::Held, step("x").hold(None), Some(stall("x"))),
        (RunState::Error, step("x"), Some(stall("x"))),
        (RunState::Waiting, wait(), None),
        (RunState::Waiting, step("x"), Some(lacking())),
    ];
    for (state, inner, says) in cases {
        let (mut world, run, child) = family(child("c", "inner"), vec![inner, step("y")]);
        if let Some(says) = says {
            world.attempt(child, "x", says);
        }
        assert_eq!((world.step(run, "c"), world.state(run)), ("active", state));
        assert_eq!(world.state(child), state);
        world.pause(child).expect("paused");
        assert_eq!(world.state(run), RunState::Waiting, "it is not the parent that was paused");
    }
    // And it follows: what was in error runs again.
    let (mut world, run, child) = family(child("c", "inner"), vec![step("x")]);
    world.attempt(child, "x", stall("x"));
    world.resume(child, "x").expect("resumed");
    assert_eq!(world.state(run), RunState::Running);
}

/// A parent with a child and a grandchild.
fn three() -> (World, [RunId; 3]) {
    let flows = vec![
        flow("f", vec![child("c", "inner")]),
        flow("inner", vec![child("d", "innermost")]),
        flow("innermost", vec![step("x"), step("y")]),
    ];
    let mut world = World::new(flows);
    let run = world.start("f");
    let child = world.child(run);
    let grandchild = world.child(child);
    (world, [run, child, grandchild])
}

#[test]
fn pause_unpause_and_cancel_reach_children_and_their_children() {
    let (mut world, all @ [run, _, grandchild]) = three();
    let states = |world: &World| all.map(|run| world.state(run));
    let attempt = world.begin(grandchild, "x");
    world.pause(run).expect("paused");
    assert_eq!(states(&world), [RunState::Paused; 3]);
    world.say(attempt, done()).expect("it may finish");
    assert_eq!(world.step(grandchild, "y"), "pending");
    world.unpause(run).expect("goes on");
    assert_eq!(states(&world), [RunState::Running; 3]);
    let attempt = world.begin(grandchild, "y");
    world.cancel(run).expect("cancelled");
    assert_eq!(states(&world), [RunState::Cancelled; 3]);
    assert_eq!(world.interrupted(), [(attempt, "the run was cancelled".to_owned())]);
}

#[test]
fn a_child_that_an_operator_has_paused_stays_paused_when_its_parent_goes_on() {
    let (mut world, [run, child, grandchild]) = three();
    world.pause(child).expect("paused");
    world.pause(run).expect("paused");
    world.unpause(run).expect("goes on");
    assert_eq!((world.state(run), world.state(child)), (RunState::Waiting, RunState::Paused));
    assert_eq!(world.state(grandchild), RunState::Paused);
    world.unpause(child).expect("goes on");
    assert_eq!(world.state(grandchild), RunState::Running);
}

#[test]
fn a_handler_is_paused_and_cancelled_with_its_run_and_exempt_from_its_deadline() {
    let failing = || {
        let late = |flow: &mut Flow| flow.deadline = Some(Deadline::After(Millis::hours(1)));
        let flows = vec![flow_with("f", vec![step("a").handler("h")], late), flow("h", vec![step("clean")])];
        let mut world = World::new(flows);
        let run = world.start("f");
        world.attempt(run, "a", fatal("x"));
        let handler = world.child(run);
        (world, run, handler)
    };
    let (mut world, run, handler) = failing();
    world.pause(run).expect("paused");
    assert_eq!((world.state(run), world.state(handler)), (RunState::Paused, RunState::Paused));
    world.unpause(run).expect("goes on");
    assert_eq!((world.state(run), world.state(handler)), (RunState::Running, RunState::Running));
    world.pass(Millis::hours(2));
    assert_eq!((world.state(run), world.state(handler)), (RunState::Running, RunState::Running));
    world.pause(handler).expect("paused");
    assert_eq!(world.state(run), RunState::Waiting, "the run itself is not paused");
    world.cancel(run).expect("cancelled");
    assert_eq!((world.state(run), world.state(handler)), (RunState::Cancelled, RunState::Cancelled));

    // A run that fails while it is paused has its handler once it goes on.
    let flows = vec![flow("f", vec![step("a").handler("h")]), flow("h", vec![step("clean")])];
    let mut world = World::new(flows);
    let run = world.start("f");
    let attempt = world.begin(run, "a");
    world.pause(run).expect("paused");
    world.say(attempt, fatal("x")).expect("recorded");
    assert_eq!((world.runs.len(), world.state(run)), (1, RunState::Paused));
    world.unpause(run).expect("goes on");
    let handler = world.child(run);
    world.attempt(handler, "clean", done());
    assert_eq!(world.state(run), RunState::Failed);
}

#[test]
fn a_child_that_cannot_start_has_failed_and_a_later_attempt_can_start_it() {
    struct WantsText;
    impl CheckInput for WantsText {
        fn check(&self, input: &serde_json::Value) -> Result<(), Vec<String>> {
            if input.is_string() { Ok(()) } else { Err(vec![format!("input: {input} is no text")]) }
        }
    }
    let strict = flow_with("inner", vec![step("x")], |flow| flow.input = Some(Arc::new(WantsText)));
    let cases = [
        (None, "there is no such flow"),
        (Some(strict), "the input does not match the flow: input: null is no text"),
    ];
    for (inner, cause) in cases {
        let outer = flow("f", vec![child("c", "inner").hold(None), step("z")]);
        let mut world = World::new([Some(outer), inner].into_iter().flatten().collect());
        let run = world.start("f");
        let error = world.unit(run, "c").last_error().unwrap().clone();
        assert_eq!((&*error.cause, error.found_by.as_deref()), (cause, Some("StartChildAction")));
        assert!(matches!(world.unit(run, "c").last_outcome(), Some(Outcome::Failed(_))));
        assert_eq!((world.step(run, "c"), world.runs.len()), ("held", 1), "{cause}");
        // Somebody mends the flow, and tries again.
        world.flows.insert("inner".into(), Arc::new(flow("inner", vec![step("x")])));
        world.choose(run, "c", Choice::Retry).expect("chosen");
        let child = world.child(run);
        world.attempt(child, "x", output("5"));
        assert_eq!(world.steps(run, ["c", "z"]), ["completed", "ready"], "{cause}");
    }
}

#[test]
fn a_missing_handler_leaves_the_run_failed_with_both_errors() {
    let mut world = World::new(vec![flow("f", vec![step("a").handler("nowhere")])]);
    let run = world.start("f");
    world.attempt(run, "a", fatal("broken"));
    let Phase::Ended(RunEnd { how: RunOutcome::Failed { error, handler: Some((_, Some(second))) }, .. }) =
        &world.runs[&run].phase
    else {
        panic!("failed with both: {:?}", world.runs[&run].phase)
    };
    assert_eq!((&*error.error.cause, &*second.error.cause), ("broken", "there is no such flow"));
}

#[test]
fn inside_a_handler_nothing_rests_in_error_its_children_neither() {
    let flows = vec![
        flow("f", vec![step("a").handler("h")]),
        flow("h", vec![child("c", "inner")]),
        flow("inner", vec![step("x").retry(Some(2), 1)]),
    ];
    let mut world = World::new(flows);
    let run = world.start("f");
    world.attempt(run, "a", fatal("broken"));
    let handler = world.child(run);
    let child = world.child(handler);
    world.attempt(child, "x", stall("reset"));
    assert_eq!(world.state(run), RunState::Waiting, "its own retries it has");
    world.pass(Millis::seconds(1));
    world.attempt(child, "x", stall("reset"));
    assert_eq!([run, handler, child].map(|run| world.state(run)), [RunState::Failed; 3]);
}

#[test]
fn a_child_over_its_steps_timeout_is_stuck_and_continued() {
    let limited = child("c", "inner").change(|step| {
        step.limits.timeout = Some(Millis::minutes(5));
        step.limits.max_stuck = 2;
    });
    let (mut world, run, child) = family(limited, vec![step("x"), step("y")]);
    world.attempt(child, "x", done());
    let late = world.begin(child, "y");
    world.pass(Millis::minutes(5));
    assert_eq!((world.step(run, "c"), world.state(child)), ("waiting", RunState::Cancelled));
    assert_eq!(world.interrupted()[0].0, late);
    world.pass(Millis::seconds(1));
    assert_eq!((world.step(run, "c"), world.runs[&child].generation), ("active", 2));
    assert_eq!(world.steps(child, ["x", "y"]), ["completed", "ready"]);
    world.pass(Millis::minutes(5));
    assert_eq!((world.state(run), world.state(child)), (RunState::Failed, RunState::Cancelled));
    let limit = StuckLimit::Total(Millis::minutes(5));
    assert_eq!(*world.error(run).error.cause, format!("stuck: {limit}"));
}

#[test]
fn a_failing_parent_cancels_its_children_and_waits_for_them() {
    let steps = vec![child("c", "inner").needs(&[]), step("a").needs(&[])];
    let mut world = World::new(vec![flow("f", steps), flow("inner", vec![step("x")])]);
    let run = world.start("f");
    let child = world.child(run);
    let attempt = world.begin(run, "a");
    let command = Command::Report { attempt, report: fatal("broken") };
    world.decide_on(run, command, None).expect("heard");
    assert_eq!((world.state(run), world.state(child)), (RunState::Running, RunState::Running));
    world.deliver();
    assert_eq!((world.state(run), world.state(child)), (RunState::Failed, RunState::Cancelled));
    assert_eq!(&*world.error(run).error.cause, "broken");
}

#[test]
fn a_large_output_of_a_child_can_be_read_by_what_follows() {
    let large = format!("\"{}\"", "y".repeat(500));
    let copies = expression(reads_steps(&[0]), |scope| Ok(scope.steps[0].1.clone()));
    let flows = vec![
        flow("f", vec![child("c", "inner"), step_of("copy", Kind::Set(Template::Computed(copies)))]),
        flow("inner", vec![step("x")]),
    ];
    let mut world = World::new(flows);
    let run = world.start("f");
    let child = world.child(run);
    world.attempt(child, "x", output(&large));
    assert_eq!(world.output(run), large);
}

/// Asks, and delivers every notice as often as said.
fn ask(world: &mut World, run: RunId, command: Command, times: usize) -> Vec<Notice> {
    world.decide_on(run, command, None).expect("decided");
    let mut all = Vec::new();
    while let Some(notice) = world.notices.pop_front() {
        for _ in 0..times {
            world.deliver_one(notice.clone());
        }
        all.push(notice);
    }
    all
}

#[test]
fn a_notice_that_comes_twice_changes_nothing() {
    let story = |times: usize| {
        let (mut world, run, child) =
            family(child("c", "inner").retry(Some(3), 1), vec![step("x").handler("h")]);
        let mut told = Vec::new();
        let mut say = |world: &mut World, run, step: &str, says| {
            let attempt = world.begin(run, step);
            told.extend(ask(world, run, Command::Report { attempt, report: says }, times));
        };
        say(&mut world, child, "x", stall("reset"));
        let handler = world.child(child);
        say(&mut world, handler, "clean", done());
        world.now = world.now + Millis::seconds(1);
        let unit = Some(world.unit_ref(run, "c"));
        told.extend(ask(&mut world, run, Command::Due { unit, heard: None }, times));
        for command in [
            Command::Pause { by: crate::support::operator(), reason: None },
            Command::Unpause { by: crate::support::operator() },
        ] {
            told.extend(ask(&mut world, run, command, times));
        }
        let attempt = world.begin(child, "x");
        told.extend(ask(&mut world, child, Command::Report { attempt, report: output("1") }, times));
        // Long after, everything comes once more.
        let before = world.runs.clone();
        for notice in told.into_iter().filter(|_| times > 1) {
            world.deliver_one(notice);
            assert_eq!(world.runs, before);
        }
        world.runs
    };
    let once = story(1);
    assert_eq!(story(2), once);
    assert_eq!(story(3), once);
    assert_eq!(once.values().next().unwrap().state(), RunState::Running, "it has come to its last step");
}

/// The runs from the root down, by parent.
fn lineage(world: &World, root: RunId) -> Vec<RunId> {
    let mut found = vec![root];
    while let Some(child) =
        world.runs.values().find(|run| run.origin.parent() == found.last().copied()).map(|run| run.id)
    {
        found.push(child);
    }
    found
}

#[test]
fn children_are_nested_32_deep_at_most_and_the_refusal_shows_the_chain() {
    let mut world =
        World::new(vec![flow("outer", vec![child("c", "loop")]), flow("loop", vec![child("again", "loop")])]);
    let root = world.start("outer");
    let runs = lineage(&world, root);
    assert_eq!(runs.len(), 1 + 32, "the root and 32 below it");
    let last = *runs.last().unwrap();
    let error = world.error(last).error;
    assert_eq!(
        &*error.cause,
        "`loop` would be at nesting depth 33, over the limit of 32: outer > loop > loop > loop > (25 more) > \
         loop > loop > loop > loop > loop; a flow that starts itself needs a condition that ends the chain"
    );
    assert_eq!((error.found_by.as_deref(), error.reason), (Some("StartChildAction"), Reason::Data));
    assert!(matches!(world.unit(last, "again").last_outcome(), Some(Outcome::Failed(_))));
    for run in runs {
        assert_eq!(world.state(run), RunState::Failed, "it reaches the root");
        assert_eq!(world.error(run).error.cause, error.cause);
    }
}

#[test]
fn how_deep_children_may_be_nested_is_a_setting() {
    for max in [0, 1, 3, 9, 100] {
        let mut world = World::new(vec![flow("loop", vec![child("again", "loop")])]);
        world.max_nesting = max;
        let root = world.start("loop");
        assert_eq!(lineage(&world, root).len(), 1 + max as usize);
        let cause = world.error(root).error.cause;
        assert!(cause.contains(&format!("at nesting depth {}, over the limit of {max}", max + 1)), "{cause}");
        assert!(cause.len() < 250, "however deep, the chain is short: {cause}");
    }
}

#[test]
fn handlers_of_handlers_are_nested_32_deep_at_most() {
    let mut world =
        World::new(vec![flow("h", vec![step_of("x", Kind::Set(Template::Computed(broken()))).handler("h")])]);
    let root = world.start("h");
    let runs = lineage(&world, root);
    assert_eq!(runs.len(), 1 + 32);
    assert!(runs.iter().all(|run| world.state(*run) == RunState::Failed));
    let Phase::Ended(RunEnd { how: RunOutcome::Failed { handler: Some((_, Some(refused))), .. }, .. }) =
        &world.runs[runs.last().unwrap()].phase
    else {
        panic!("the last handler could not be started: {:?}", world.runs[runs.last().unwrap()].phase)
    };
    assert!(refused.error.cause.starts_with("`h` would be at nesting depth 33"), "{}", refused.error.cause);
}

/// An expression that fails.
fn broken() -> unstuck_core::model::expression::Expression {
    expression(reads_steps(&[]), |_| Err("broken".to_owned()))
}

#[test]
fn a_child_of_an_older_store_without_its_place_counts_as_one_deep() {
    let mut world =
        World::new(vec![flow("f", vec![child("c", "g")]), flow("g", vec![step("x"), child("d", "g")])]);
    let root = world.start("f");
    let old = world.child(root);
    for event in world.history.get_mut(&old).unwrap() {
        for fact in &mut event.facts {
            if let unstuck_core::event::Fact::Started(started) = fact {
                started.nesting = None;
                let text = serde_json::to_string(&**started).unwrap();
                assert!(!text.contains("nesting"), "old events read as they were written: {text}");
                assert_eq!(serde_json::from_str::<unstuck_core::event::Started>(&text).unwrap(), **started);
            }
        }
    }
    world.runs.get_mut(&old).unwrap().nesting = None;
    world.attempt(old, "x", done());
    let below = world.runs[&world.child(old)].nesting.clone().unwrap();
    assert_eq!((below.depth, below.flows.clone()), (2, vec!["f".into(), "g".into()]));
}

#[test]
fn a_parent_whose_child_is_in_error_says_where_the_error_is() {
    let (mut world, run, inner) = family(child("c", "inner"), vec![step("a")]);
    world.attempt(inner, "a", stall("reset"));
    let by = crate::support::operator();
    let resume = Command::Resume { unit: None, by, reason: None, changes: Box::default() };
    assert_eq!(
        world.ask(run, resume).expect_err("refused").to_string(),
        "the run is in error, so it cannot be resumed; the error is in a child run, which `unstuck explain` names"
    );
}
