//! A home: a run that has one is executed by whoever serves that home, and by nobody else.

use crate::flows::{child, flow, step, step_of};
use crate::support::{World, done, fatal, local, stall};
use unstuck_core::command::Command as Asked;
use unstuck_core::decide::Answer;
use unstuck_core::home::{Homes, is_idle};
use unstuck_core::id::RunId;
use unstuck_core::model::flow::{Kind, ProcessCommand, WaitFor};
use unstuck_core::model::http::StatusRules;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::offer::Offer;
use unstuck_core::policy::{Criteria, Policies, Policy};
use unstuck_core::time::Millis;
use unstuck_core::wakeup::wakeups;

/// The queues that a run's attempts wait in.
fn queues(world: &World) -> Vec<String> {
    let of_run = |run| wakeups(run, &world.flow_of(run)).into_iter().filter_map(|(_, wakeup)| wakeup.ready);
    world.runs.values().flat_map(of_run).map(|ready| ready.queue.to_string()).collect()
}

fn process(id: &str) -> crate::flows::StepBuilder {
    step_of(id, Kind::Process(ProcessCommand::Shell("true".to_owned())))
}

fn request(id: &str) -> crate::flows::StepBuilder {
    step_of(id, Kind::Http(StatusRules::default()))
}

#[test]
fn local_steps_wait_in_the_queues_of_the_home_and_actions_where_they_always_do() {
    let cases = [
        (process("p"), None, "@process"),
        (process("p"), Some("desk"), "@process@desk"),
        (request("h"), None, "@http"),
        (request("h"), Some("desk"), "@http@desk"),
        (step("a"), None, "a"),
        (step("a"), Some("desk"), "a"),
    ];
    for (step, home, wanted) in cases {
        let mut world = World::new(vec![flow("f", vec![step])]);
        world.try_start("f", |start| start.home = home.map(Into::into)).expect("starts");
        assert_eq!(queues(&world), [wanted], "{home:?}");
    }
}

#[test]
fn children_and_handlers_are_at_home_where_their_parent_is() {
    let flows = vec![
        flow("f", vec![child("c", "inner").handler("h")]),
        flow("inner", vec![step("a"), process("p")]),
        flow("h", vec![process("clean")]),
    ];
    let mut world = World::new(flows);
    world.try_start("f", |start| start.home = Some("desk".into())).expect("starts");
    let inner = *world.runs.keys().last().expect("a child");
    world.attempt(inner, "a", fatal("gone"));
    assert_eq!(queues(&world), ["@process@desk"], "the handler");
    assert!(world.runs.values().all(|run| run.home.as_deref() == Some("desk")));
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn only_an_executor_of_the_home_is_handed_the_work() {
    for (queue, handed_out) in [("@process", 0), ("@process@desk", 1), ("@process@other", 0)] {
        let mut world = World::new(vec![flow("f", vec![process("p")])]);
        world.offers.put(Offer { worker: local("w"), queues: [queue.into()].into(), free: 9, max_load: 9 });
        world.try_start("f", |start| start.home = Some("desk".into())).expect("starts");
        assert_eq!(world.dispatched().len(), handed_out, "{queue}");
    }
}

/// Resumes everything of flow `f` a minute later.
fn policy() -> Policy {
    Policy {
        id: "id-p".into(),
        name: "p".into(),
        criteria: Criteria { flow: Some("f".into()), ..Criteria::default() },
        max_attempts: 9,
        priority: 50,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(60)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age: 0,
    }
}

/// A run of this home in error, which a policy resumes in a minute.
fn scheduled(home: Option<&str>) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    world.policies = Policies::new(vec![policy()]).expect("one policy");
    world.try_start("f", |start| start.home = home.map(Into::into)).expect("starts");
    let run = *world.runs.keys().next().expect("a run");
    world.attempt(run, "a", stall("reset"));
    (world, run)
}

#[test]
fn a_due_resume_waits_in_error_until_the_home_of_its_run_is_driven() {
    let cases = [
        (None, None, "ready"),
        (None, Some("desk"), "ready"),
        (Some("desk"), Some("desk"), "ready"),
        (Some("desk"), None, "error"),
        (Some("desk"), Some("other"), "error"),
    ];
    for (home, driven, wanted) in cases {
        let (mut world, run) = scheduled(home);
        world.homes = Homes::of(driven.map(Into::into));
        world.now = world.now + Millis::minutes(2);
        let due = Asked::Due { unit: Some(world.unit_ref(run, "a")), heard: None };
        let answer = world.ask(run, due.clone());
        assert_eq!(world.step(run, "a"), wanted, "{home:?} at {driven:?}");
        if wanted == "error" {
            assert_eq!(answer, Ok(Answer::Already));
            assert!(is_idle(&world.runs[&run], &world.homes));
            // Its command goes on, and what was due is done.
            world.homes = Homes::of(home.map(Into::into));
            assert_eq!(world.ask(run, due), Ok(Answer::Done));
            assert_eq!(world.step(run, "a"), "ready");
        }
    }
}

#[test]
fn what_has_something_to_do_and_nobody_drives_is_idle() {
    type Happens = fn(&mut World, RunId);
    let waits = || step_of("w", Kind::Wait(WaitFor::Span(Millis::seconds(9))));
    let cases: [(crate::flows::StepBuilder, Happens, bool, &str); 8] = [
        (process("a"), |_, _| {}, true, "a step is ready"),
        (waits(), |_, _| {}, true, "a timer"),
        (step("a"), |world, run| _ = world.begin(run, "a"), true, "an attempt that its engine died with"),
        (step("a"), |world, run| _ = world.attempt(run, "a", done()), false, "it is over"),
        (step("a"), |world, run| _ = world.attempt(run, "a", stall("no")), false, "a person resumes it"),
        (step("a"), |world, run| drop(world.pause(run)), false, "a person unpauses it"),
        (child("c", "inner"), |_, _| {}, true, "its child has something to do"),
        (
            child("c", "inner"),
            |world, run| {
                let inner = world.child(run);
                world.attempt(inner, "a", stall("no"));
            },
            false,
            "a person resumes its child",
        ),
    ];
    for (first, happens, wanted, why) in cases {
        let mut world = World::new(vec![flow("f", vec![first]), flow("inner", vec![step("a")])]);
        world.try_start("f", |start| start.home = Some("desk".into())).expect("starts");
        let run = *world.runs.keys().next().expect("a run");
        happens(&mut world, run);
        assert_eq!(is_idle(&world.runs[&run], &Homes::default()), wanted, "{why}");
        assert!(!is_idle(&world.runs[&run], &Homes::of(Some("desk".into()))), "{why}");
    }
}
