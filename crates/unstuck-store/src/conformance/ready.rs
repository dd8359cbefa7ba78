//! What may be handed out: in which order, to whom, and how often.

use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Step, StepIndex};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::driver::{Ask, Driver, offer, user, worker};
use crate::conformance::flows::{action, action_of, each, graph, sequence};
use crate::conformance::steps::BatchSteps;
use crate::conformance::transactions::pause;
use crate::contract::{Candidate, Wants};

/// Higher priorities first, whatever their age; the step's is added to the run's.
pub fn higher_priorities_come_first<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let plain = driver.keep(sequence("plain", vec![action("q")]));
    let urgent = driver.keep(sequence("urgent", vec![Step { priority: 3, ..action("q") }]));
    let low = start(&mut driver, &plain, -1);
    let normal = start(&mut driver, &plain, 0);
    let raised = start(&mut driver, &urgent, 2);
    let high = start(&mut driver, &plain, 4);
    let highest = start(&mut driver, &plain, i32::MAX);
    let saturated = start(&mut driver, &urgent, i32::MAX);
    let found = pick(&mut driver, &[offer(["q"], 10)], 10);
    assert_eq!(runs(&found), [highest, saturated, raised, high, normal, low]);
}

/// Flows take turns within a priority, also when one entry is asked for at a time.
pub fn flows_take_turns<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flows: Vec<Arc<Flow>> =
        ["f", "g", "h"].iter().map(|name| driver.keep(sequence(name, vec![action("q")]))).collect();
    for (flow, waiting) in flows.iter().zip([5, 2, 1]) {
        for _ in 0..waiting {
            driver.start(flow);
        }
    }
    let found = pick(&mut driver, &[offer(["q"], 10)], 10);
    assert_eq!(flow_names(&driver, &found), ["f", "g", "h", "f", "g", "f", "f", "f"]);
    let mut taken = Vec::new();
    for _ in 0..8 {
        let next = pick(&mut driver, &[offer(["q"], 10)], 1);
        taken.extend(flow_names(&driver, &next));
        driver.claim(next[0].ready.run, 0);
    }
    for flow in ["f", "g", "h"] {
        assert!(
            taken[..3].contains(&flow.to_owned()),
            "each of three flows is among the first three: {taken:?}"
        );
    }
    assert_eq!(taken[5..], ["f", "f", "f"], "{taken:?}");
}

/// A flow whose entries come one at a time does not starve one that has many waiting.
pub fn nobody_starves<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let few = driver.keep(sequence("few", vec![action("q")]));
    let many = driver.keep(sequence("many", vec![action("q")]));
    for _ in 0..10 {
        driver.start(&many);
    }
    let mut taken = Vec::new();
    for _ in 0..10 {
        driver.start(&few);
        let next = pick(&mut driver, &[offer(["q"], 10)], 1);
        taken.extend(flow_names(&driver, &next));
        driver.claim(next[0].ready.run, 0);
    }
    let of_many = taken.iter().filter(|flow| *flow == "many").count();
    assert!((4..=6).contains(&of_many), "they take turns: {taken:?}");
}

/// Within a flow, what was given back comes first, the oldest of it first; then the rest by age.
pub fn the_front_comes_first_then_age<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let started: Vec<RunId> = (0..4)
        .map(|_| {
            driver.pass(Millis(10));
            driver.start(&flow)
        })
        .collect();
    for run in [started[3], started[2]] {
        driver.pass(Millis(10));
        driver.work(run, 0);
        driver.say(run, 0, Report::Release);
    }
    let found = pick(&mut driver, &[offer(["q"], 10)], 10);
    assert_eq!(runs(&found), [started[3], started[2], started[0], started[1]]);
    assert!(found[0].ready.front && !found[2].ready.front);
}

/// Of the same age, the older run and the earlier item come first.
pub fn ties_go_by_run_and_unit<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![each("q", 3), action("q")]));
    let (first, second) = (driver.start_of(&flow, |_| {}), driver.start_of(&flow, |_| {}));
    let (one, two) = (first.run, second.run);
    driver.all(vec![second, first]);
    let found = pick(&mut driver, &[offer(["q"], 10)], 10);
    let item = |item| UnitRef::item(StepIndex(0), item);
    let units = [item(0), item(1), item(2), UnitRef::step(StepIndex(1))];
    let expected: Vec<(RunId, UnitRef)> =
        [one, two].into_iter().flat_map(|run| units.map(|unit| (run, unit))).collect();
    let found: Vec<(RunId, UnitRef)> =
        found.iter().map(|found| (found.ready.run, found.ready.unit)).collect();
    assert_eq!(found, expected);
}

/// Nobody is given more than there is room for, nor anything of a queue that is not theirs.
pub fn offers_are_filled_and_no_more<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![action("a"), action("b"), Step { load: 2, ..action("c") }]));
    let all: Vec<RunId> = (0..3).map(|_| driver.start(&flow)).collect();
    let cases: [(&[&str], u32, usize, usize); 7] = [
        (&["a"], 2, 10, 2),
        (&["a"], 10, 10, 3),
        (&["a"], 10, 2, 2),
        (&["a"], 10, 0, 0),
        (&["a", "b"], 10, 10, 6),
        (&["c"], 5, 10, 2),
        (&["nobody's"], 10, 10, 0),
    ];
    for (queues, room, limit, given) in cases {
        let found = pick(&mut driver, &[offer(queues.iter().copied(), room)], limit);
        assert_eq!(found.len(), given, "{queues:?} with room for {room}, at most {limit}");
        assert!(found.iter().all(|found| queues.contains(&&*found.ready.queue)));
    }
    assert!(pick(&mut driver, &[], 10).is_empty());
    let full = Offer { free: 0, ..offer(["a"], 4) };
    assert!(pick(&mut driver, &[full], 10).is_empty());
    assert_eq!(all.len(), 3);
}

/// Several offers share what waits: each entry once, the best first, dealt in turn to those that take it.
pub fn several_offers_share<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let other = driver.keep(sequence("g", vec![action("b")]));
    let (low, high) = (start(&mut driver, &flow, 0), start(&mut driver, &other, 5));
    let middle: Vec<RunId> = (0..3).map(|_| start(&mut driver, &flow, 1)).collect();
    let offers = [offer(["a"], 2), offer(["b", "a"], 2), offer(["a", "b"], 2)];
    let found = pick(&mut driver, &offers, 10);
    let given: Vec<(RunId, usize)> = found.iter().map(|found| (found.ready.run, found.offer)).collect();
    assert_eq!(given, [(high, 1), (middle[0], 0), (middle[1], 2), (middle[2], 1), (low, 0)]);
}

/// What an offer has no room for keeps its place, and lets others by.
pub fn what_does_not_fit_keeps_its_place<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let heavy = driver.keep(sequence("heavy", vec![Step { load: 3, ..action("q") }]));
    let light = driver.keep(sequence("light", vec![action("q")]));
    let first = driver.start(&heavy);
    driver.pass(Millis(5));
    let second = driver.start(&light);
    let tight = Offer { free: 2, ..offer(["q"], 4) };
    assert_eq!(runs(&pick(&mut driver, std::slice::from_ref(&tight), 10)), [second]);
    assert_eq!(runs(&pick(&mut driver, &[tight, offer(["q"], 4)], 10)).len(), 2);
    let found = pick(&mut driver, &[offer(["q"], 4)], 10);
    assert!(runs(&found).contains(&first) && runs(&found).contains(&second));
    let urgent = start(&mut driver, &heavy, 1);
    let found = pick(&mut driver, &[offer(["q"], 4)], 10);
    assert_eq!(found[0].ready.run, urgent);
    assert_eq!(runs(&found)[1..], [second], "one heavy one fills the worker; the light one still fits");
}

/// A load that is larger than a worker takes the whole of it.
pub fn a_load_over_the_maximum_takes_a_whole_worker<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![Step { load: 50, ..action("q") }]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    assert!(pick(&mut driver, &[Offer { free: 3, ..offer(["q"], 4) }], 10).is_empty());
    assert_eq!(runs(&pick(&mut driver, &[offer(["q"], 4)], 10)), [first]);
    assert_eq!(runs(&pick(&mut driver, &[offer(["q"], 4), offer(["q"], 1)], 10)), [first, second]);
}

/// What has cost a worker before is given only to one that runs nothing else, and nothing is given with it.
pub fn what_must_be_alone_gets_an_idle_worker<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    for _ in 0..2 {
        driver.work(run, 0);
        let attempt = driver.attempt(run, UnitRef::step(StepIndex(0)));
        driver.act(run, Command::Lost { attempt, with_others: true });
        driver.pass(Millis(1_000));
        driver.act(run, Command::Due { unit: Some(attempt.unit), heard: None });
    }
    let other = driver.start(&flow);
    let busy = Offer { free: 3, ..offer(["q"], 4) };
    assert_eq!(runs(&pick(&mut driver, std::slice::from_ref(&busy), 10)), [other]);
    let found = pick(&mut driver, &[offer(["q"], 4)], 10);
    assert_eq!(runs(&found), [run], "it is at the front, and is not given company");
    assert!(found[0].ready.alone);
    let found = pick(&mut driver, &[busy, offer(["q"], 4)], 10);
    let given: Vec<(RunId, usize)> = found.iter().map(|found| (found.ready.run, found.offer)).collect();
    assert_eq!(given, [(run, 1), (other, 0)]);
}

/// An entry is given once in a batch, and again in the next one, until its claim is staged.
pub fn an_entry_is_given_until_it_is_claimed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q"), action("q")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    let all = |room, claims| Wants {
        offers: vec![offer(["q"], room)],
        claims,
        queues: vec!["q".into()],
        ..Wants::default()
    };
    for (limit, waiting) in [(1, Some(0)), (2, None)] {
        let loaded = driver.load(&all(2, limit)).expect("loads");
        assert_eq!(runs(&loaded.candidates), [first, second][..limit]);
        let still = loaded.waiting.first().map(|(_, priority)| *priority);
        assert_eq!(still, waiting, "what was given no longer waits");
        driver.rollback();
    }
    assert_eq!(driver.store.highest_waiting_priority(&["q".into()]), Ok(Some(0)));

    let found = driver.load(&all(2, 10)).expect("loads").candidates;
    assert_eq!(runs(&found), [first, second]);
    let claim = Command::Claim { unit: found[0].ready.unit, worker: worker("w") };
    let batch = driver.decide(vec![Ask { run: first, command: claim, flow: None }]).expect("decides");
    driver.stage(batch.stage).expect("stages");
    assert_eq!(driver.store.highest_waiting_priority(&["q".into()]), Ok(Some(0)));
    assert_eq!(runs(&pick(&mut driver, &[offer(["q"], 9)], 9)), [second], "what was not claimed waits again");

    driver.pass(Millis(1));
    driver.say(first, 0, Report::Complete { output: Json::NULL });
    let found = pick(&mut driver, &[offer(["q"], 9)], 9);
    assert_eq!(
        found.iter().map(|found| (found.ready.run, found.ready.unit.step.0)).collect::<Vec<_>>(),
        [(second, 0), (first, 1)]
    );
}

/// A run that is paused or ends leaves the queues; one that goes on waits again, as long as before.
pub fn what_stops_leaves_the_queue<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![action("q"), action("q")]));
    let run = driver.start(&flow);
    driver.pass(Millis(50));
    let other = driver.start(&flow);
    let waiting = |driver: &mut Driver<S>| runs(&pick(driver, &[offer(["q"], 9)], 9));
    assert_eq!(waiting(&mut driver), [run, run, other, other]);
    driver.act(run, pause());
    assert_eq!(waiting(&mut driver), [other, other]);
    driver.act(run, Command::Unpause { by: user() });
    assert_eq!(waiting(&mut driver), [run, run, other, other]);
    driver.act(other, Command::Cancel { by: user(), reason: None });
    assert_eq!(waiting(&mut driver), [run, run]);
}

/// The highest priority is that of all the queues together.
pub fn the_highest_priority_that_waits_is_known<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph(
        "f",
        vec![
            action_of("x", "a"),
            Step { priority: -4, ..action_of("y", "b") },
            Step { priority: 2, ..action_of("z", "c") },
        ],
    ));
    let highest = |driver: &mut Driver<S>, queues: &[&str]| {
        let queues: Vec<Arc<str>> = queues.iter().map(|queue| Arc::from(*queue)).collect();
        driver.store.highest_waiting_priority(&queues).expect("reads")
    };
    assert_eq!(highest(&mut driver, &["a", "b", "c"]), None);
    let run = driver.start(&flow);
    let cases: [(&[&str], Option<i32>); 5] = [
        (&["a"], Some(0)),
        (&["b"], Some(-4)),
        (&["b", "a"], Some(0)),
        (&["a", "c", "b"], Some(2)),
        (&["d"], None),
    ];
    for (queues, expected) in cases {
        assert_eq!(highest(&mut driver, queues), expected, "{queues:?}");
    }
    driver.claim(run, 2);
    assert_eq!(highest(&mut driver, &["c"]), None);
    assert_eq!(highest(&mut driver, &["a", "b", "c"]), Some(0));
}

/// What the store gives to these offers, in a transaction that changes nothing.
pub(crate) fn pick<S: TestStore>(driver: &mut Driver<S>, offers: &[Offer], limit: usize) -> Vec<Candidate> {
    driver.store.candidates(offers, limit).expect("reads")
}

fn start<S: TestStore>(driver: &mut Driver<S>, flow: &Arc<Flow>, priority: i32) -> RunId {
    driver.pass(Millis(1));
    driver.start_with(flow, |start| start.priority = priority)
}

fn runs(found: &[Candidate]) -> Vec<RunId> {
    found.iter().map(|found| found.ready.run).collect()
}

pub(crate) fn flow_names<S: TestStore>(driver: &Driver<S>, found: &[Candidate]) -> Vec<String> {
    found.iter().map(|found| driver.flows[&found.ready.flow].name.to_string()).collect()
}
