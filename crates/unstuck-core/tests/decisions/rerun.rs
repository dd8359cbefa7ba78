//! The next generation of a final run: from the point of failure, all of it, or chosen steps.

use crate::flows::{
    StepBuilder, child, expression, flow, flow_with, reads_input, reads_steps, step, step_of,
};
use crate::support::{BEGIN, World, done, fatal, lacking, operator, output, stall};
use unstuck_core::command::{Changes, Command, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::Fact;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::ResumedBy;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{CheckInput, Concurrency, Deadline, Kind, StepIndex};
use unstuck_core::model::run::{ParentAttempt, RunState};
use unstuck_core::model::unit::UnitState;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;
use unstuck_core::wakeup::wakeups;

/// `a -> b -> c`, and `d` beside them, whose `b` has failed.
fn failed(b: StepBuilder) -> (World, RunId) {
    let steps = vec![step("a"), b, step("c"), step("d").needs(&[])];
    let mut world = World::new(vec![flow("f", steps), flow("h", vec![step("clean")])]);
    let run = world.start("f");
    world.attempt(run, "d", output("4"));
    world.attempt(run, "a", output("1"));
    world.attempt(run, "b", fatal("broken"));
    (world, run)
}

const ALL: [&str; 4] = ["a", "b", "c", "d"];

#[test]
fn a_rerun_takes_what_it_is_asked_for_and_what_depends_on_that() {
    let steps = |places: &[u16]| Rerun::Steps(places.iter().copied().map(StepIndex).collect());
    let cases = [
        ("continue", Rerun::Continue, ["completed", "ready", "pending", "completed"]),
        ("all", Rerun::All, ["ready", "pending", "pending", "ready"]),
        ("a", steps(&[0]), ["ready", "pending", "pending", "completed"]),
        ("d", steps(&[3]), ["completed", "ready", "pending", "ready"]),
        ("c, which was never reached", steps(&[2]), ["completed", "ready", "pending", "completed"]),
        ("none", steps(&[]), ["completed", "ready", "pending", "completed"]),
    ];
    for (name, what, expected) in cases {
        let (mut world, run) = failed(step("b"));
        assert_eq!(
            (world.steps(run, ALL), world.state(run)),
            (["completed", "failed", "cancelled", "completed"], RunState::Failed)
        );
        assert_eq!(world.rerun(run, what), Ok(Answer::Started(run)), "{name}");
        assert_eq!((world.steps(run, ALL), world.runs[&run].generation), (expected, 2), "{name}");
        assert_eq!(world.state(run), RunState::Running);
    }
}

#[test]
fn the_next_generation_counts_from_one_and_says_that_it_is_a_rerun() {
    let (mut world, run) = failed(step("b"));
    world.rerun(run, Rerun::Continue).expect("reran");
    let unit = world.unit(run, "b");
    let UnitState::Ready(queued) = &unit.state else { panic!("{unit:?}") };
    assert_eq!((queued.attempt, queued.resumed_by), (1, Some(ResumedBy::Rerun)));
    assert_eq!((unit.round.number, unit.round.stalled, unit.past.len()), (1, 0, 0));
    // The old one is kept in the history, and its events are its own.
    let generations: Vec<u32> = world.history[&run].iter().map(|event| event.generation).collect();
    assert!(generations.is_sorted() && generations.first() == Some(&1) && generations.last() == Some(&2));
    world.attempt(run, "b", output("2"));
    world.attempt(run, "c", output("3"));
    assert_eq!(world.output(run), r#"{"c":3,"d":4}"#, "outputs of the first generation are reused");
}

#[test]
fn continue_keeps_what_lets_others_go_on() {
    let no = expression(reads_input(), |_| Ok(false.into()));
    let large = format!("\"{}\"", "y".repeat(300));
    let reads = expression(reads_steps(&[0]), |scope| Ok(scope.steps[0].1.clone()));
    let steps = vec![
        step("done"),
        step("skipped").when(no),
        step("went").goes_on(),
        step("list").for_each("[1,2]", 2),
        step("broken"),
        step_of("copy", Kind::Set(Template::Computed(reads))),
    ];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "done", output(&large));
    world.attempt(run, "went", fatal("x"));
    world.attempt(run, "list[0]", done());
    world.attempt(run, "list[1]", done());
    world.attempt(run, "broken", fatal("x"));
    world.rerun(run, Rerun::Continue).expect("reran");
    let kept = ["done", "skipped", "went", "list[0]", "list[1]", "broken"];
    assert_eq!(world.steps(run, kept), ["completed", "skipped", "failed", "completed", "completed", "ready"]);
    world.attempt(run, "broken", done());
    assert_eq!(world.output(run), large);
}

#[test]
fn what_has_not_completed_can_be_continued_once_it_is_final() {
    let (cancels, pauses) =
        (|world: &mut World, run| world.cancel(run), |world: &mut World, run| world.pause(run));
    // What its step says, or an operator does; then its state, and what comes of a rerun.
    let rows = [
        (Ok(fatal("x")), "failed", Ok("running")),
        (
            Ok(output("7")),
            "completed",
            Err(
                "the run is completed, so it cannot continue; there is no point of failure; rerun it with --all or --steps",
            ),
        ),
        (Err(cancels as fn(&mut World, RunId) -> _), "cancelled", Ok("running")),
        (Ok(stall("x")), "error", Err("the run is in error, so it cannot be rerun; cancel it first")),
        (Ok(lacking()), "waiting", Err("the run is waiting, so it cannot be rerun; cancel it first")),
        (Err(pauses), "paused", Err("the run is paused, so it cannot be rerun; cancel it first")),
    ];
    for (act, state, expected) in rows {
        let mut world = World::new(vec![flow("f", vec![step("a")])]);
        let run = world.start("f");
        match act {
            Ok(says) => assert_eq!(world.attempt(run, "a", says).attempt, 1),
            Err(operator) => assert_eq!(operator(&mut world, run), Ok(Answer::Done)),
        }
        assert_eq!(world.state(run).word(), state);
        let result = world.rerun(run, Rerun::Continue);
        match expected {
            Ok(after) => assert_eq!((result, world.state(run).word()), (Ok(Answer::Started(run)), after)),
            Err(says) => assert_eq!(result.expect_err(state).to_string(), says),
        }
    }
}

#[test]
fn a_relative_deadline_starts_anew_and_an_absolute_one_must_be_given_anew() {
    let at = BEGIN + Millis::hours(1);
    let cases = [
        (Some(Deadline::After(Millis::hours(1))), Some(BEGIN + Millis::minutes(90))),
        (Some(Deadline::At(at)), None),
        (None, None),
    ];
    for (deadline, expected) in cases {
        let mut world = World::new(vec![flow_with("f", vec![step("a")], |flow| flow.deadline = deadline)]);
        let run = world.start("f");
        world.cancel(run).expect("cancelled");
        world.pass(Millis::minutes(30));
        world.rerun(run, Rerun::Continue).expect("reran");
        assert_eq!(world.runs[&run].deadline, expected, "{deadline:?}");
    }
}

#[test]
fn a_rerun_asks_for_a_slot_and_forgets_pauses_and_signals() {
    let limited = flow_with("f", vec![step("a"), step_of("s", Kind::Signal("go".into()))], |flow| {
        flow.concurrency = Some(Concurrency { limit: 1, key: None, strict: false });
    });
    let mut world = World::new(vec![limited]);
    let [first, second] = [(); 2].map(|()| world.start("f"));
    world.admit();
    world.signal(first, "go", "1").expect("kept");
    world.pause(first).expect("paused");
    world.cancel(first).expect("cancelled");
    world.admit();
    world.rerun(first, Rerun::All).expect("reran");
    world.admit();
    assert_eq!((world.state(first), world.state(second)), (RunState::Queued, RunState::Running));
    world.cancel(second).expect("cancelled");
    world.admit();
    world.attempt(first, "a", done());
    assert_eq!(world.step(first, "s"), "waiting", "the signal was for the first generation");
}

#[test]
fn continue_goes_on_with_the_same_child_and_all_starts_another() {
    for (what, same) in [(Rerun::Continue, true), (Rerun::All, false)] {
        let flows =
            vec![flow("f", vec![child("c", "inner"), step("z")]), flow("inner", vec![step("x"), step("y")])];
        let mut world = World::new(flows);
        let run = world.start("f");
        let first = world.child(run);
        world.attempt(first, "x", done());
        world.attempt(first, "y", fatal("broken"));
        assert_eq!(world.state(run), RunState::Failed);
        world.rerun(run, what).expect("reran");
        let child = world.unit(run, "c").child.expect("it has a child");
        assert_eq!(child == first, same);
        assert_eq!(world.runs[&child].origin.serves(), Some(ParentAttempt { generation: 2, attempt: 1 }));
        if same {
            assert_eq!(
                (world.runs[&child].generation, world.steps(child, ["x", "y"])),
                (2, ["completed", "ready"])
            );
        } else {
            assert_eq!(
                (world.state(first), world.steps(child, ["x", "y"])),
                (RunState::Failed, ["ready", "pending"])
            );
            world.attempt(child, "x", done());
        }
        world.attempt(child, "y", done());
        assert_eq!(world.steps(run, ["c", "z"]), ["completed", "ready"]);
    }
}

#[test]
fn a_child_that_never_started_is_started_by_a_rerun() {
    let mut world = World::new(vec![flow("f", vec![child("c", "inner")])]);
    let run = world.start("f");
    assert_eq!(&*world.error(run).error.cause, "there is no such flow");
    world.flows.insert("inner".into(), std::sync::Arc::new(flow("inner", vec![step("x")])));
    world.rerun(run, Rerun::Continue).expect("reran");
    let child = world.child(run);
    world.attempt(child, "x", output("1"));
    assert_eq!(world.output(run), "1");
}

#[test]
fn a_child_is_rerun_by_its_parent_alone() {
    let flows = vec![flow("f", vec![child("c", "inner")]), flow("inner", vec![step("x")])];
    let mut world = World::new(flows);
    let run = world.start("f");
    let child = world.child(run);
    world.attempt(child, "x", fatal("broken"));
    let before = world.runs.clone();
    for what in [Rerun::Continue, Rerun::All] {
        let refused = world.rerun(child, what).expect_err("refused");
        assert_eq!(refused, Refusal::RerunOfChild { run: child, parent: run });
    }
    assert_eq!(world.runs, before);
    world.rerun(run, Rerun::Continue).expect("reran");
    assert_eq!((world.runs[&child].generation, world.state(child).word()), (2, "running"));
}

#[test]
fn a_handler_runs_in_every_generation_that_fails() {
    let (mut world, run) = failed(step("b").handler("h"));
    for generation in 1..=2 {
        let newest = world.runs.values().rfind(|other| other.origin.parent() == Some(run));
        let handler = newest.expect("a handler").id;
        assert_eq!(world.runs[&handler].origin.serves(), Some(ParentAttempt { generation, attempt: 0 }));
        world.attempt(handler, "clean", done());
        assert_eq!(world.state(run), RunState::Failed);
        assert!(wakeups(&world.runs[&run], &world.flows["f"]).is_empty());
        world.rerun(run, Rerun::Continue).expect("reran");
        world.attempt(run, "b", fatal("broken"));
    }
}

type Bring = fn(&mut World, RunId);

/// What depends on the chosen step, in every state that it can be left in.
#[test]
fn a_rerun_of_a_chosen_step_runs_what_depends_on_it_whatever_its_state() {
    let no = || expression(reads_input(), |_| Ok(false.into()));
    let complete: Bring = |world, run| {
        world.attempt(run, "b", done());
    };
    let fail: Bring = |world, run| {
        world.attempt(run, "b", fatal("x"));
    };
    let skip: Bring = |world, run| {
        let unit = world.unit_ref(run, "b");
        world.ask(run, Command::Skip { unit, by: operator(), reason: None }).expect("skipped");
    };
    let by_hand: Bring = |world, run| {
        let (unit, output) = (world.unit_ref(run, "b"), unstuck_core::json::Json::NULL);
        world.ask(run, Command::Complete { unit, output, by: operator(), reason: None }).expect("done");
    };
    let items: Bring = |world, run| {
        world.attempt(run, "b[0]", done());
        world.attempt(run, "b[1]", fatal("x"));
    };
    let cancel: Bring = |world, run| {
        world.cancel(run).expect("cancelled");
    };
    let cases: [(&str, StepBuilder, Bring, &str); 8] = [
        ("completed", step("b"), complete, "completed"),
        ("failed, and the flow went on", step("b").goes_on(), fail, "failed"),
        ("failed", step("b"), fail, "failed"),
        ("dropped", step("b").handler("h"), fail, "failed"),
        ("skipped by an operator", step("b"), skip, "skipped"),
        ("done by hand", step("b"), by_hand, "completed"),
        ("items", step("b").for_each("[1,2]", 2), items, "failed"),
        ("cancelled", step("b"), cancel, "cancelled"),
    ];
    for (name, b, bring, state) in cases {
        let steps = vec![step("a"), b, step("c").when(no())];
        let mut world = World::new(vec![flow("f", steps), flow("h", vec![step("clean")])]);
        let run = world.start("f");
        world.attempt(run, "a", done());
        bring(&mut world, run);
        if name == "dropped" {
            let handler = world.child(run);
            world.attempt(handler, "clean", done());
        }
        assert!(world.runs[&run].is_final(), "{name}: {:?}", world.state(run));
        assert_eq!(world.runs[&run].step(StepIndex(1)).word(), state, "{name}");
        world.rerun(run, Rerun::Steps(vec![StepIndex(0)])).expect("reran");
        assert_eq!(world.steps(run, ["a", "b", "c"]), ["ready", "pending", "pending"], "{name}");
        world.attempt(run, "a", done());
        let again = if name == "items" { world.step(run, "b[0]") } else { world.step(run, "b") };
        assert_eq!(again, "ready", "{name}");
    }
}

#[test]
fn a_rerun_may_correct_the_input_of_the_run_or_of_the_step_that_failed() {
    let reads = || Template::Computed(expression(reads_input(), |scope| Ok(scope.input.clone())));
    let json = |text: &str| unstuck_core::json::Json::parse(text).expect("valid");
    let steps = |steps: &[u16]| Rerun::Steps(steps.iter().copied().map(StepIndex).collect());
    // What runs again, the changes; what `b` gets then.
    let cases = [
        (Rerun::Continue, Some("2"), None, "2"),
        (Rerun::All, Some("2"), None, "2"),
        (Rerun::Continue, None, Some("3"), "3"),
        (steps(&[1]), None, Some("3"), "3"),
        (Rerun::Continue, None, None, "1"),
    ];
    for (what, input, step_input, wanted) in cases {
        let mut world = World::new(vec![flow("f", vec![step("a"), step("b").with(reads())])]);
        let run = world.start_with("f", None, "1").expect("starts");
        world.attempt(run, "a", done());
        world.attempt(run, "b", fatal("bad data"));
        let changes =
            Changes { input: input.map(json), step_input: step_input.map(json), ..Changes::default() };
        let rerun = Command::Rerun { what: what.clone(), changes: Box::new(changes), by: operator() };
        assert_eq!(world.ask(run, rerun), Ok(Answer::Started(run)), "{what:?}");
        if what == Rerun::All {
            world.attempt(run, "a", done());
        }
        let got = world.unit(run, "b").input.clone();
        assert_eq!(got, Some(unstuck_core::json::Payload::Inline(json(wanted))), "{what:?}");
        let facts = &world.history[&run].iter().flat_map(|event| &event.facts).collect::<Vec<_>>();
        let is_change = |fact: &&&Fact| matches!(fact, Fact::InputChanged { .. });
        assert_eq!(facts.iter().filter(is_change).count(), usize::from(input.is_some()), "it is recorded");
        world.attempt(run, "b", done());
        assert_eq!(world.state(run), RunState::Completed);
    }
}

#[test]
fn an_input_for_a_rerun_must_fit_and_it_must_be_clear_whose_it_is() {
    struct Number;
    impl CheckInput for Number {
        fn check(&self, input: &serde_json::Value) -> Result<(), Vec<String>> {
            if input.is_number() { Ok(()) } else { Err(vec!["it is no number".to_owned()]) }
        }
    }
    let json = |text: &str| unstuck_core::json::Json::parse(text).expect("valid");
    let steps = vec![step("a"), step("b").for_each("[1]", 1)];
    let mut world = World::new(vec![flow_with("f", steps, |flow| {
        flow.input = Some(std::sync::Arc::new(Number));
    })]);
    let run = world.start_with("f", None, "1").expect("starts");
    world.attempt(run, "a", done());
    world.attempt(run, "b[0]", fatal("x"));
    let unclear = "the input does not match the flow: an input for a step was given, but it is not clear for which \
                   step; choose one step without `forEach`, or change the input of the run";
    let both = Rerun::Steps(vec![StepIndex(0), StepIndex(1)]);
    let cases = [
        (Rerun::Continue, Some("\"no\""), None, "the input does not match the flow: it is no number"),
        (Rerun::Continue, None, Some("1"), unclear),
        (Rerun::All, None, Some("1"), unclear),
        (both, None, Some("1"), unclear),
        (Rerun::Steps(vec![StepIndex(1)]), None, Some("1"), unclear),
        (Rerun::Steps(vec![StepIndex(9)]), None, Some("1"), "the run has no step `#9`"),
    ];
    for (what, input, step_input, wanted) in cases {
        let changes =
            Changes { input: input.map(json), step_input: step_input.map(json), ..Changes::default() };
        let rerun = Command::Rerun { what: what.clone(), changes: Box::new(changes), by: operator() };
        assert_eq!(world.ask(run, rerun).expect_err("refused").to_string(), wanted, "{what:?}");
    }
}

#[test]
fn a_handler_that_failed_is_rerun_by_itself_and_its_run_stays_failed() {
    let (mut world, run) = failed(step("b").handler("h"));
    let handler = world.child(run);
    world.attempt(handler, "clean", fatal("no room"));
    assert_eq!((world.state(run), world.state(handler)), (RunState::Failed, RunState::Failed));
    let before = world.runs[&run].clone();
    assert_eq!(world.rerun(handler, Rerun::Continue), Ok(Answer::Started(handler)));
    world.attempt(handler, "clean", done());
    assert_eq!(world.state(handler), RunState::Completed);
    assert_eq!(world.runs[&run], before, "a final generation never changes");
}
