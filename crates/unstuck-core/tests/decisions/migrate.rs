//! Runs are moved to another version of their flow: which can be, what goes on there, and what stays as it was.

use std::sync::Arc;

use crate::flows::{StepBuilder, child, expression, flow_with, reads_input, step, step_of};
use crate::support::{World, done, local, operator, output, remote, stall};
use unstuck_core::command::{Command, Rerun};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::evolve::replay;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::Refusal;
use unstuck_core::wakeup::wakeups;

/// A later version of the flow `f`.
fn version(number: u64, steps: Vec<StepBuilder>) -> Flow {
    flow_with("f", steps, |flow| {
        flow.id = FlowId(9_000_000 + number);
        flow.version = number.to_string().into();
    })
}

/// A world with a run of the first version, and another version to move it to.
fn world(first: Vec<StepBuilder>, second: Vec<StepBuilder>) -> (World, RunId, FlowId) {
    let mut world = World::new(vec![version(1, first), flow_with("inner", vec![step("x")], |_| {})]);
    let second = version(2, second);
    let to = second.id;
    world.versions.push(Arc::new(second));
    let run = world.start("f");
    (world, run, to)
}

fn migrate(world: &mut World, run: RunId, to: FlowId) -> Result<Answer, Refusal> {
    let answer = world.ask(run, Command::Migrate { to, by: operator(), reason: Some("mended".into()) });
    let history = &world.history[&run];
    assert_eq!(replay(history).as_ref(), Some(&world.runs[&run]), "what is replayed is what was decided");
    answer
}

fn set(id: &'static str) -> StepBuilder {
    step_of(id, Kind::Set(Template::Fixed(Json::NULL)))
}

#[test]
fn a_run_goes_on_as_the_other_version_says() {
    let second = vec![step("a"), step("b"), set("new"), step("c")];
    let (mut world, run, to) = world(vec![step("a"), step("b"), step("c")], second);
    world.attempt(run, "a", output("1"));
    assert_eq!(migrate(&mut world, run, to), Ok(Answer::Done));
    assert_eq!(migrate(&mut world, run, to), Ok(Answer::Already));
    assert_eq!((world.runs[&run].flow, world.runs[&run].steps.len()), (to, 4));
    assert_eq!(world.steps(run, ["a", "b", "new", "c"]), ["completed", "ready", "pending", "pending"]);
    world.attempt(run, "b", done());
    assert_eq!(world.steps(run, ["new", "c"]), ["completed", "ready"]);
    world.attempt(run, "c", done());
    assert_eq!(world.state(run), RunState::Completed);
}

#[test]
fn what_is_out_with_a_worker_stays_its_own() {
    let (mut world, run, to) = world(vec![step("a"), step("b")], vec![step("a"), step("b"), step("c")]);
    let attempt = world.claim(run, "a", &remote("w")).expect("it is handed out");
    assert_eq!(migrate(&mut world, run, to), Ok(Answer::Done));
    assert_eq!(world.say(attempt, done()), Ok(Answer::Done), "its token is as good as before");
    assert_eq!(world.steps(run, ["a", "b", "c"]), ["completed", "ready", "pending"]);
}

#[test]
fn a_step_that_is_in_error_is_tried_again_as_it_is_defined_now() {
    let reads = || Template::Computed(expression(reads_input(), |_| Ok("mended".into())));
    for state in ["error", "held", "waiting"] {
        let first = match state {
            "error" => step("a"),
            "held" => step("a").hold(None),
            _ => step("a").retry(Some(3), 60),
        };
        let (mut world, run, to) = world(
            vec![first.with(Template::Fixed(Json::parse("\"broken\"").expect("JSON"))), step("b")],
            vec![step_of("a", Kind::Action("mended".into())).with(reads()), step("b")],
        );
        world.attempt(run, "a", stall("it is broken"));
        assert_eq!(world.step(run, "a"), state);
        assert_eq!(migrate(&mut world, run, to), Ok(Answer::Done), "{state}");
        assert_eq!(world.step(run, "a"), state, "it stays where it is");
        match state {
            "held" => world.choose(run, "a", unstuck_core::event::Choice::Retry),
            _ => world.resume(run, "a"),
        }
        .expect("it is tried again");
        let queued = world.wakeup(run, "a").ready.expect("it is queued");
        assert_eq!(&*queued.queue, "mended", "{state}");
        let input = world.unit(run, "a").input.clone().expect("it is computed");
        assert_eq!(world.json(&input).text(), "\"mended\"", "{state}");
    }
}

#[test]
fn what_has_begun_must_be_the_same_and_at_the_same_place() {
    let first = || vec![step("a"), step("b").needs(&["a"]), step("c").needs(&["b"])];
    let cases = [
        ("a later step is changed", vec![step("a"), step("b"), step("c").retry(Some(9), 1)], None),
        ("a later step is removed", vec![step("a"), step("b")], None),
        ("a later step is put in", vec![step("a"), step("b"), step("x"), step("c")], None),
        ("it is the same", first(), None),
        (
            "a completed step is changed",
            vec![step("a").retry(Some(9), 1), step("b"), step("c")],
            Some(("a", "is completed, and is defined in another way there")),
        ),
        (
            "an active step is changed",
            vec![step("a"), step("b").goes_on(), step("c")],
            Some(("b", "is active, and is defined in another way there")),
        ),
        (
            "a completed step is removed",
            vec![step("b").needs(&[]), step("c")],
            Some(("a", "has begun, and is not in that version")),
        ),
        (
            "a step is put in before those that have begun",
            vec![step("x"), step("a").needs(&[]), step("b"), step("c")],
            Some((
                "a",
                "has begun, and has another place in that version: add steps after those that have begun, and remove none before them",
            )),
        ),
    ];
    for (what, second, wanted) in cases {
        let (mut world, run, to) = world(first(), second);
        world.attempt(run, "a", done());
        world.claim(run, "b", &local("w")).expect("it is handed out");
        let before = world.runs[&run].clone();
        match (migrate(&mut world, run, to), wanted) {
            (Ok(answer), None) => assert_eq!(answer, Answer::Done, "{what}"),
            (Err(Refusal::CannotMigrate(cannot)), Some((step, why))) => {
                assert_eq!((cannot.step.as_deref(), cannot.why.as_str()), (Some(step), why), "{what}");
                assert_eq!(world.runs[&run], before, "{what}: what is refused changes nothing");
            }
            (answer, _) => panic!("{what}: {answer:?}"),
        }
    }
}

#[test]
fn an_identical_version_changes_nothing_that_decides() {
    let steps = || {
        vec![
            step("a").needs(&[]).for_each("[1,2,3]", 2),
            step("r").needs(&[]).retry(Some(2), 5),
            child("c", "inner").needs(&[]),
            step_of("s", Kind::Signal("go".into())).needs(&[]),
            step("z").needs(&["a", "r", "c", "s"]),
        ]
    };
    let (mut world, run, to) = world(steps(), steps());
    world.attempt(run, "a[0]", done());
    world.attempt(run, "r", stall("x"));
    let before = world.runs[&run].clone();
    let woken = wakeups(&before, &world.flow_of(&before));
    assert_eq!(migrate(&mut world, run, to), Ok(Answer::Done));
    let after = world.runs[&run].clone();
    let facts = &world.history[&run].last().expect("it happened").facts;
    assert!(matches!(facts[..], [Fact::Migrated(_)]), "{facts:?}");
    assert_eq!((&before.steps, before.state()), (&after.steps, after.state()));
    let mut now = wakeups(&after, &world.flow_of(&after));
    for ready in now.iter_mut().filter_map(|(_, wakeup)| wakeup.ready.as_mut()) {
        ready.flow = before.flow;
    }
    assert_eq!(now, woken);
    let child = world.child(run);
    world.attempt(child, "x", done());
    assert_eq!(world.step(run, "c"), "completed", "its child is its own");
}

#[test]
fn what_begins_by_itself_begins_with_the_move() {
    let (mut world, run, to) = world(
        vec![step_of("s", Kind::Signal("go".into()))],
        vec![step_of("s", Kind::Signal("go".into())), step("more").needs(&[])],
    );
    migrate(&mut world, run, to).expect("moved");
    assert_eq!(world.steps(run, ["s", "more"]), ["waiting", "ready"]);
    let facts = &world.history[&run].last().expect("it happened").facts;
    assert!(matches!(facts[1], Fact::Unit { fact: UnitFact::Queued { .. }, .. }), "{facts:?}");
}

#[test]
fn a_run_that_has_ended_or_is_of_another_flow_is_not_moved() {
    let (mut world, run, to) = world(vec![step("a")], vec![step("a"), step("b")]);
    let inner = world.flows["inner"].id;
    let refused = migrate(&mut world, run, inner).expect_err("that is another flow");
    let wanted = "the run cannot be moved to version `1`: that is a version of flow `inner`, and the run is one of `f`";
    assert_eq!(refused.to_string(), wanted);
    assert!(matches!(migrate(&mut world, run, FlowId(5)), Err(Refusal::CannotMigrate(_))));
    world.attempt(run, "a", done());
    assert_eq!(migrate(&mut world, run, to), Err(Refusal::Final(RunState::Completed)));
}

#[test]
fn steps_of_earlier_generations_keep_their_places() {
    // Its history names them by their places.
    let (mut world, run, to) = world(vec![step("a"), step("b")], vec![step("a"), step("x"), step("b")]);
    world.attempt(run, "a", done());
    world.attempt(run, "b", done());
    world.rerun(run, Rerun::All).expect("rerun");
    let Err(Refusal::CannotMigrate(cannot)) = migrate(&mut world, run, to) else { panic!("it is moved") };
    assert_eq!(cannot.step.as_deref(), Some("b"));
}
