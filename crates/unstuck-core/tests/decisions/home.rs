//! A home: a run that has one is executed by whoever serves that home, and by nobody else.

use crate::flows::{child, flow, step, step_of};
use crate::support::{World, fatal, local};
use unstuck_core::model::flow::{Command, Kind};
use unstuck_core::offer::Offer;
use unstuck_core::wakeup::wakeups;

/// The queues that a run's attempts wait in.
fn queues(world: &World) -> Vec<String> {
    let of_run = |run| wakeups(run, &world.flow_of(run)).into_iter().filter_map(|(_, wakeup)| wakeup.ready);
    world.runs.values().flat_map(of_run).map(|ready| ready.queue.to_string()).collect()
}

fn process(id: &str) -> crate::flows::StepBuilder {
    step_of(id, Kind::Process(Command::Shell("true".to_owned())))
}

#[test]
fn local_steps_wait_in_the_queues_of_the_home_and_actions_where_they_always_do() {
    let cases = [
        (process("p"), None, "@process"),
        (process("p"), Some("desk"), "@process@desk"),
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
