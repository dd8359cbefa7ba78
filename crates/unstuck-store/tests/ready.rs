//! Ready queues against a model that looks at everything each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::eligible::{Snapshot, check_eligible};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::Worker;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::random::Random;
use unstuck_core::time::Time;
use unstuck_core::wakeup::ReadyAttempt;
use unstuck_store::contract::Candidate;
use unstuck_store::ready::ReadyQueues;

/// Flows take turns for each of these.
type Lane = (Arc<str>, i32, FlowId);

/// A parked run takes no part in the model: what is promised of it does not change.
#[derive(Default)]
struct Model {
    entries: BTreeMap<(RunId, UnitRef), (ReadyAttempt, bool)>,
    turns: BTreeMap<Lane, u64>,
    turn: u64,
    parked: BTreeSet<RunId>,
}

impl Model {
    fn set(&mut self, ready: ReadyAttempt) {
        let key = (ready.run, ready.unit);
        if self.entries.get(&key).is_some_and(|(old, _)| *old == ready) {
            return;
        }
        self.remove(key);
        self.turns.entry(lane(&ready)).or_insert(self.turn);
        self.entries.insert(key, (ready, false));
    }

    fn remove(&mut self, key: (RunId, UnitRef)) {
        self.entries.remove(&key);
        self.forget_empty_lanes();
    }

    fn pick(&mut self, offers: &[Offer], limit: usize) -> Vec<Candidate> {
        let mut offers = offers.to_vec();
        let mut turns = vec![0; offers.len()];
        let mut found = Vec::new();
        while found.len() < limit {
            let takers = self.entries.values().filter(|(_, picked)| !picked).filter_map(|(ready, _)| {
                let takes = |place: &usize| {
                    check_eligible(&ready.entry(), &offers[*place], Snapshot::default()).is_ok()
                };
                let next = (0..offers.len()).filter(takes).min_by_key(|place| turns[*place])?;
                Some((ready, next))
            });
            let Some((ready, offer)) = takers.min_by_key(|(ready, _)| self.place(ready)) else { break };
            let ready = ready.clone();
            self.turn += 1;
            self.turns.insert(lane(&ready), self.turn);
            self.entries.insert((ready.run, ready.unit), (ready.clone(), true));
            self.forget_empty_lanes();
            let Offer { free, max_load, .. } = &mut offers[offer];
            *free = if ready.alone { 0 } else { free.saturating_sub(ready.load.min(*max_load)) };
            found.push(Candidate { offer, ready });
            turns[offer] = found.len();
        }
        found
    }

    fn put_back(&mut self) {
        for (ready, picked) in self.entries.values_mut().filter(|(_, picked)| *picked) {
            *picked = false;
            self.turns.entry(lane(ready)).or_insert(self.turn);
        }
    }

    fn highest_waiting(&self, queues: &[Arc<str>]) -> Option<i32> {
        let waiting =
            self.entries.values().filter(|(ready, picked)| !picked && queues.contains(&ready.queue));
        waiting.map(|(ready, _)| ready.priority).max()
    }

    fn place(&self, ready: &ReadyAttempt) -> (Reverse<i32>, u64, FlowId, bool, Time, RunId, UnitRef) {
        let turn = self.turns[&lane(ready)];
        (Reverse(ready.priority), turn, ready.flow, !ready.front, ready.since, ready.run, ready.unit)
    }

    fn forget_empty_lanes(&mut self) {
        let entries = &self.entries;
        self.turns
            .retain(|known, _| entries.values().any(|(ready, picked)| !picked && lane(ready) == *known));
    }
}

fn lane(ready: &ReadyAttempt) -> Lane {
    (ready.queue.clone(), ready.priority, ready.flow)
}

#[test]
fn queues_are_as_simple_as_their_model() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut queues = ReadyQueues::default();
        let mut model = Model::default();
        for _ in 0..200 {
            step(&mut random, &mut queues, &mut model, seed);
        }
    }
}

fn step(random: &mut Random, queues: &mut ReadyQueues, model: &mut Model, seed: u64) {
    let run = RunId(random.between(1, 12));
    let what = random.between(0, 12);
    if what < 6 || what == 10 {
        unpark(queues, model, run);
    }
    match what {
        0..4 => {
            let ready = some_ready(random, run);
            queues.set(run, ready.unit, Some(&ready));
            model.set(ready);
        }
        4 => {
            let unit = some_unit(random);
            queues.set(run, unit, None);
            model.remove((run, unit));
        }
        5 => {
            let mut entries: Vec<ReadyAttempt> =
                (0..random.between(0, 4)).map(|_| some_ready(random, run)).collect();
            entries.sort_by_key(|ready| ready.unit);
            entries.dedup_by_key(|ready| ready.unit);
            queues.set_all(run, entries.iter());
            let listed: Vec<UnitRef> = entries.iter().map(|ready| ready.unit).collect();
            for ready in entries {
                model.set(ready);
            }
            let all: Vec<_> = model.entries.keys().copied().collect();
            let others = all.into_iter().filter(|(of, unit)| *of == run && !listed.contains(unit));
            for key in others {
                model.remove(key);
            }
        }
        6 | 7 => {
            let offers: Vec<Offer> = (0..random.between(0, 3)).map(|_| some_offer(random)).collect();
            let limit = usize::try_from(random.between(0, 8)).unwrap();
            assert_eq!(queues.pick(&offers, limit), model.pick(&offers, limit), "seed {seed}: {offers:?}");
        }
        8 => {
            queues.put_back();
            model.put_back();
        }
        10 => {
            queues.park(run);
            model.parked.insert(run);
        }
        11 => add_parked(random, queues, model, run),
        12 => {
            queues.forget_turns();
            model.put_back();
            model.turn = 0;
            model.turns.values_mut().for_each(|turn| *turn = 0);
        }
        _ => {
            let names: Vec<Arc<str>> = (0..random.between(0, 3)).map(|_| some_queue(random)).collect();
            assert_eq!(queues.highest_waiting(&names), model.highest_waiting(&names), "seed {seed}");
        }
    }
}

/// What a store does before something happens to a parked run.
fn unpark(queues: &mut ReadyQueues, model: &mut Model, run: RunId) {
    if model.parked.remove(&run) {
        model
            .entries
            .values()
            .filter(|(ready, _)| ready.run == run)
            .for_each(|(ready, _)| queues.unpark(ready));
    }
}

/// What a store does with a parked run when it is opened.
fn add_parked(random: &mut Random, queues: &mut ReadyQueues, model: &mut Model, run: RunId) {
    if !model.entries.keys().any(|(of, _)| *of == run) {
        let ready = some_ready(random, run);
        queues.add_parked(&ready);
        model.set(ready);
        model.parked.insert(run);
    }
}

fn some_ready(random: &mut Random, run: RunId) -> ReadyAttempt {
    ReadyAttempt {
        run,
        unit: some_unit(random),
        flow: FlowId(random.between(1, 3)),
        queue: some_queue(random),
        priority: i32::try_from(random.between(0, 7)).unwrap(),
        front: random.between(0, 4) == 0,
        since: Time(i64::try_from(random.between(0, 3)).unwrap()),
        load: u32::try_from(random.between(0, 6)).unwrap(),
        alone: random.between(0, 5) == 0,
    }
}

fn some_unit(random: &mut Random) -> UnitRef {
    let item = u32::try_from(random.between(0, 2)).unwrap();
    UnitRef { step: StepIndex(0), item: (item > 0).then_some(item) }
}

fn some_queue(random: &mut Random) -> Arc<str> {
    ["a", "b", "c"][usize::try_from(random.between(0, 2)).unwrap()].into()
}

fn some_offer(random: &mut Random) -> Offer {
    let worker = Worker { name: "w".into(), incarnation: 1, local: false };
    let queues: Vec<Arc<str>> = (0..random.between(0, 3)).map(|_| some_queue(random)).collect();
    let max_load = u32::try_from(random.between(0, 6)).unwrap();
    let free = u32::try_from(random.between(0, u64::from(max_load))).unwrap();
    Offer { worker, queues: queues.into(), free, max_load }
}

/// Whoever has no room for the many finds the one without looking at them: this takes for ever if each is looked at.
#[test]
fn what_does_not_fit_costs_nothing() {
    let mut queues = ReadyQueues::default();
    let heavy = |run: u64, flow: u64, load: u32| ReadyAttempt {
        run: RunId(run),
        unit: UnitRef::step(StepIndex(0)),
        flow: FlowId(flow),
        queue: "q".into(),
        priority: 0,
        front: false,
        since: Time(0),
        load,
        alone: false,
    };
    for run in 0..50_000 {
        let ready = heavy(run, run % 1_000, 8);
        queues.set(ready.run, ready.unit, Some(&ready));
    }
    let worker = Worker { name: "w".into(), incarnation: 1, local: false };
    let offer = Offer { worker, queues: ["q".into()].into(), free: 7, max_load: 8 };
    for run in 50_000..60_000 {
        assert!(queues.pick(std::slice::from_ref(&offer), 5).is_empty());
        let ready = heavy(run, 1_000, 1);
        queues.set(ready.run, ready.unit, Some(&ready));
        let found = queues.pick(std::slice::from_ref(&offer), 5);
        assert_eq!(found.len(), 1);
        queues.remove(RunId(run), ready.unit);
    }
}
