//! Hand-over: what is ready goes to an executor that waits for it in the same event that made it ready.

use crate::flows::{StepBuilder, flow, step};
use crate::support::{World, done, local, remote, stall};
use unstuck_core::command::{Command, Report};
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{ResumedBy, Worker};
use unstuck_core::model::unit::{AttemptPhase, UnitState};
use unstuck_core::offer::Offer;
use unstuck_core::time::Millis;

fn offer(worker: Worker, queues: &[&str], free: u32, max_load: u32) -> Offer {
    Offer { worker, queues: queues.iter().map(|queue| (*queue).into()).collect(), free, max_load }
}

fn world(steps: Vec<StepBuilder>, offers: Vec<Offer>) -> World {
    let mut world = World::new(vec![flow("f", steps)]);
    for offer in offers {
        world.offers.put(offer);
    }
    world
}

/// The steps that were handed out, with the workers' names.
fn handed(world: &World) -> Vec<(u16, String)> {
    world
        .dispatched()
        .iter()
        .map(|(attempt, worker)| (attempt.unit.step.0, worker.name.to_string()))
        .collect()
}

/// The facts of the last event, as far as they are about attempts.
fn last_facts(world: &World, run: RunId) -> Vec<&'static str> {
    let facts = &world.history[&run].last().expect("something happened").facts;
    let words = facts.iter().filter_map(|fact| match fact {
        Fact::Unit { fact: UnitFact::Ended { .. }, .. } => Some("ended"),
        Fact::Unit { fact: UnitFact::Queued { .. }, .. } => Some("queued"),
        Fact::Unit { fact: UnitFact::Started { .. }, .. } => Some("started"),
        Fact::Unit { fact: UnitFact::Dequeued { .. }, .. } => Some("dequeued"),
        _ => None,
    });
    words.collect()
}

#[test]
fn a_completion_and_the_next_hand_over_are_one_event() {
    let mut world = world(vec![step("a"), step("b")], vec![offer(local("w"), &["a", "b"], 1, 1)]);
    let run = world.start("f");
    assert_eq!(
        (handed(&world), last_facts(&world, run)),
        (vec![(0, "w".to_owned())], vec!["queued", "started"])
    );
    let attempt = world.dispatched()[0].0;
    let events = world.history[&run].len();
    // As the engine does it: the answer gives the room back, and its executor waits for more.
    world.offers.release_room(&local("w"), 1);
    world.offers.set_answering(Some((&local("w"), None)));
    world.say(attempt, done()).expect("completed");
    assert_eq!(world.history[&run].len(), events + 1);
    assert_eq!(last_facts(&world, run), ["ended", "queued", "started"]);
    assert_eq!(handed(&world), [(0, "w".to_owned()), (1, "w".to_owned())]);
}

#[test]
fn who_answers_goes_on_unless_something_of_higher_priority_waits_for_it() {
    // The highest priority that waits for it, the priority of the next step, and who gets that.
    let cases = [
        (None, 0, Some("w")),
        (Some(0), 0, Some("w")),
        (Some(4), 5, Some("w")),
        (Some(5), 5, Some("w")),
        (Some(6), 5, None),
        (Some(-1), -2, None),
    ];
    for (waiting, priority, expected) in cases {
        let next = step("b").change(|step| step.priority = priority);
        let mut world = world(vec![step("a"), next], vec![offer(local("w"), &["b"], 1, 1)]);
        let run = world.start("f");
        let attempt = world.begin(run, "a");
        world.offers.set_answering(Some((&local("w"), waiting)));
        world.say(attempt, done()).expect("completed");
        let got = handed(&world).into_iter().find(|(step, _)| *step == 1).map(|(_, name)| name);
        assert_eq!(got.as_deref(), expected, "{waiting:?} {priority}");
        assert_eq!(world.step(run, "b"), if expected.is_some() { "active" } else { "ready" });
    }
}

#[test]
fn another_executor_that_waits_takes_what_the_one_who_answers_cannot() {
    let offers = vec![offer(local("w"), &["a"], 1, 1), offer(local("other"), &["b"], 1, 1)];
    let mut world = world(vec![step("a"), step("b")], offers);
    world.start("f");
    let attempt = world.dispatched()[0].0;
    world.offers.release_room(&local("w"), 1);
    world.offers.set_answering(Some((&local("w"), None)));
    world.say(attempt, done()).expect("completed");
    assert_eq!(handed(&world), [(0, "w".to_owned()), (1, "other".to_owned())]);
}

#[test]
fn work_is_dealt_in_turn() {
    let steps = ["a", "b", "c", "d", "e"]
        .map(|id| step(id).needs(&[]).change(|step| step.queue = "work".into()))
        .into();
    let offers = vec![
        offer(local("x"), &["work"], 2, 2),
        offer(local("y"), &["work"], 1, 1),
        offer(local("z"), &["work"], 3, 3),
    ];
    let mut world = world(steps, offers);
    world.start("f");
    let got: Vec<String> = handed(&world).into_iter().map(|(_, name)| name).collect();
    assert_eq!(got, ["x", "y", "z", "x", "z"]);
    let open: Vec<&str> = world.offers.open().map(|offer| &*offer.worker.name).collect();
    assert_eq!(open, ["z"], "the others are full");
    world.offers.release_room(&local("y"), 1);
    world.offers.remove(&local("z"));
    world.start("f");
    let got: Vec<String> = handed(&world).into_iter().skip(5).map(|(_, name)| name).collect();
    assert_eq!(got, ["y"], "who is gone is given nothing");
}

#[test]
fn a_remote_worker_is_handed_an_attempt_and_has_yet_to_start_it() {
    let mut world = world(vec![step("a")], vec![offer(remote("r"), &["a"], 1, 1)]);
    let run = world.start("f");
    assert_eq!(last_facts(&world, run), ["queued", "dequeued"]);
    let UnitState::Active(live) = &world.unit(run, "a").state else { panic!("active") };
    assert!(matches!(&live.doing, AttemptPhase::Dequeued { worker, .. } if *worker == remote("r")));
    let attempt = world.dispatched()[0].0;
    world.say(attempt, Report::Start).expect("started");
    world.say(attempt, done()).expect("completed");
}

#[test]
fn nobody_is_given_more_than_its_load_or_what_it_does_not_offer() {
    let heavy = |load| move |step: &mut unstuck_core::model::flow::Step| step.load = load;
    // The offer, the loads of three steps that are ready at once, and which of them it gets.
    let cases: [(Offer, [u32; 3], &[u16]); 7] = [
        (offer(local("w"), &["a", "b", "c"], 3, 3), [1, 1, 1], &[0, 1, 2]),
        (offer(local("w"), &["a", "b", "c"], 2, 3), [1, 1, 1], &[0, 1]),
        (offer(local("w"), &["a", "b", "c"], 3, 3), [2, 2, 1], &[0, 2]),
        (offer(local("w"), &["a", "c"], 3, 3), [1, 1, 1], &[0, 2]),
        (offer(local("w"), &["x"], 3, 3), [1, 1, 1], &[]),
        (offer(local("w"), &["a", "b", "c"], 0, 3), [1, 1, 1], &[]),
        // What is more than a whole worker takes a whole worker.
        (offer(local("w"), &["a", "b", "c"], 3, 3), [9, 1, 1], &[0]),
    ];
    for (offer, [a, b, c], expected) in cases {
        let steps = vec![
            step("a").needs(&[]).change(heavy(a)),
            step("b").needs(&[]).change(heavy(b)),
            step("c").needs(&[]).change(heavy(c)),
        ];
        let name = format!("{offer:?} {a} {b} {c}");
        let mut world = world(steps, vec![offer]);
        world.start("f");
        let got: Vec<u16> = handed(&world).into_iter().map(|(step, _)| step).collect();
        assert_eq!(got, expected, "{name}");
    }
}

#[test]
fn what_must_run_alone_goes_to_an_executor_that_runs_nothing_else() {
    for (free, taken) in [(1, false), (2, true)] {
        let mut world = world(vec![step("a")], vec![]);
        let run = world.start("f");
        let attempt = world.begin(run, "a");
        world.lose(attempt, true);
        world.pass(Millis::seconds(1));
        let attempt = world.begin(run, "a");
        world.lose(attempt, true);
        let before = world.dispatched().len();
        world.offers.put(offer(local("w"), &["a"], free, 2));
        world.pass(Millis::seconds(1));
        assert_eq!(world.dispatched().len() > before, taken, "free {free} of 2");
    }
}

#[test]
fn retries_resumes_and_admissions_are_handed_over_too() {
    let mut world = world(vec![step("a").retry(Some(2), 5)], vec![]);
    let run = world.start("f");
    world.attempt(run, "a", stall("x"));
    world.offers.put(offer(local("w"), &["a"], 1, 1));
    world.pass(Millis::seconds(5));
    assert_eq!(world.step(run, "a"), "active", "a retry that came due");
    let attempt = world.dispatched().last().unwrap().0;
    world.say(attempt, stall("x")).expect("stalled");
    assert_eq!(world.step(run, "a"), "error");
    world.offers.release_room(&local("w"), 1);
    world.resume(run, "a").expect("resumed");
    assert_eq!(world.step(run, "a"), "active", "a resume");
    // A paused run hands nothing over, and does so once it goes on.
    let attempt = world.dispatched().last().unwrap().0;
    world.pause(run).expect("paused");
    world.offers.release_room(&local("w"), 1);
    world.say(attempt, Report::Release).expect("released");
    assert_eq!(world.step(run, "a"), "ready");
    world.unpause(run).expect("goes on");
    assert!(world.wakeup(run, "a").ready.is_some(), "whoever claims it next gets it");
}

/// `resumedBy` is `release` where a worker gave its attempt back, and `reclaim` where it was stuck.
#[test]
fn an_attempt_that_was_given_back_is_repeated_because_of_a_release() {
    let mut world = world(vec![step("a")], vec![]);
    let run = world.start("f");
    let unit = world.unit_ref(run, "a");
    world.decide_on(run, Command::Claim { unit, worker: local("w") }, None).expect("claimed");
    let attempt = world.dispatched().last().unwrap().0;
    world.say(attempt, Report::Release).expect("released");
    let facts = &world.history[&run].last().expect("an event").facts;
    let repeated = facts.iter().find_map(|fact| match fact {
        Fact::Unit { fact: UnitFact::Queued { resumed_by, .. }, .. } => Some(*resumed_by),
        _ => None,
    });
    assert_eq!(repeated, Some(Some(ResumedBy::Release)), "{facts:?}");
    // Histories that are older than the word say `reclaim`, and are read as before.
    let old: ResumedBy = serde_json::from_str("\"reclaim\"").expect("it is read");
    assert_eq!((old, ResumedBy::Release.word()), (ResumedBy::Reclaim, "release"));
}

#[test]
fn a_claim_says_who_gets_what_and_how_much_room_it_takes() {
    let mut world = world(vec![step("a").change(|step| step.load = 3)], vec![]);
    let run = world.start("f");
    let unit = world.unit_ref(run, "a");
    let decision = world.decide_on(run, Command::Claim { unit, worker: local("w") }, None).expect("claimed");
    assert_eq!(decision.event.expect("an event").facts.len(), 1);
    let load = world.effects.iter().find_map(|effect| match effect {
        unstuck_core::decide::Effect::Dispatch { load, .. } => Some(*load),
        unstuck_core::decide::Effect::Interrupt { .. } => None,
    });
    assert_eq!(load, Some(3));
}
