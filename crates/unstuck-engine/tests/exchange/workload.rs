//! Workers at random: they call, several times at once, report, go away in the middle of a call, and lose what is cancelled.
//! None is ever handed more than it has room for, nothing comes twice, and all work is done in the end.

use std::collections::{BTreeMap, BTreeSet};

use unstuck_core::command::{Command, Report};
use unstuck_core::event::Actor;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::random::Random;
use unstuck_core::time::Millis;
use unstuck_engine::request::Ticket;
use unstuck_store::contract::StoreError;
use unstuck_store::memory::MemoryStore;

use crate::support::{Bench, call, done};

const MAX_LOAD: u32 = 3;

/// A worker as it sees itself.
#[derive(Default)]
struct Worker {
    holds: BTreeSet<AttemptId>,
    /// The room that its open calls offer, and the attempts that each reports as ended.
    open: BTreeMap<Ticket, (u32, Vec<AttemptId>)>,
}

impl Worker {
    fn room(&self) -> u32 {
        let offered: u32 = self.open.values().map(|(room, _)| *room).sum();
        let held = u32::try_from(self.holds.len()).expect("it is small");
        MAX_LOAD.saturating_sub(offered + held)
    }
}

struct World {
    bench: Bench,
    random: Random,
    workers: Vec<Worker>,
    seen: BTreeSet<AttemptId>,
}

impl World {
    fn below(&mut self, end: usize) -> usize {
        let last = u64::try_from(end - 1).expect("it is small");
        usize::try_from(self.random.between(0, last)).expect("it is small")
    }

    fn act(&mut self, seed: u64) {
        let place = self.below(self.workers.len());
        match self.below(10) {
            0 => drop(self.bench.submit_start("chain", 0)),
            1..=4 => self.begin_call(place),
            5 => {
                if let Some(ticket) = self.workers[place].open.keys().next().copied() {
                    self.bench.calls.withdraw(&mut self.bench.engine, ticket, self.bench.uptime);
                }
            }
            6 => {
                let runs = self.bench.runs();
                if !runs.is_empty() {
                    let run = runs[self.below(runs.len())];
                    self.bench.command(run, Command::Cancel { by: Actor::Engine, reason: None });
                }
            }
            7 => {
                let by = Millis(self.random.between(0, 9_000));
                self.bench.pass(by);
            }
            8 => drop(self.bench.engine.store().fail_next(&StoreError::Away("the network".into()))),
            _ => self.bench.step(),
        }
        if self.below(3) == 0 {
            self.bench.go();
        }
        self.take_answers(seed);
    }

    fn begin_call(&mut self, place: usize) {
        let most = self.below(4);
        let reported: Vec<AttemptId> =
            self.workers[place].open.values().flat_map(|(_, ended)| ended.clone()).collect();
        let worker = &self.workers[place];
        let free = worker.holds.iter().filter(|attempt| !reported.contains(attempt));
        let ends: Vec<AttemptId> = free.take(most).copied().collect();
        // What it ends with this call is room for what the call brings.
        let ending = u32::try_from(ends.len()).expect("it is small");
        let room = worker.room() + ending;
        let mut builder = call(&format!("w{place}"), room).max_load(MAX_LOAD).wait(Millis::seconds(5));
        for attempt in &ends {
            let report = if self.below(5) == 0 { Report::Release } else { done() };
            builder = builder.report(*attempt, report);
        }
        let ticket = self.bench.begin(builder);
        self.workers[place].open.insert(ticket, (room - ending.min(room), ends));
    }

    fn take_answers(&mut self, seed: u64) {
        for (ticket, answer) in std::mem::take(&mut self.bench.answered) {
            let worker = self.workers.iter_mut().find(|worker| worker.open.contains_key(&ticket));
            let worker = worker.expect("it is its call");
            let (_, ended) = worker.open.remove(&ticket).expect("it is open");
            assert_eq!(answer.answers.len(), ended.len(), "seed {seed}");
            for (attempt, answer) in ended.iter().zip(&answer.answers) {
                // Refused for good, or taken in: it has ended. Else it is reported again.
                if !matches!(answer, Err(unstuck_engine::request::EngineError::Store(_))) {
                    worker.holds.remove(attempt);
                }
            }
            for lost in answer.lost {
                worker.holds.remove(&lost.attempt);
            }
            for job in answer.jobs {
                assert!(self.seen.insert(job.attempt), "seed {seed}: {:?} came twice", job.attempt);
                worker.holds.insert(job.attempt);
            }
            let held = worker.holds.len();
            assert!(held <= MAX_LOAD as usize, "seed {seed}: {held} attempts at once");
        }
    }

    /// Workers report all that they have and ask for more until there is nothing left.
    fn finish(&mut self, seed: u64) {
        self.bench.pass(Millis::seconds(61));
        self.take_answers(seed);
        for _ in 0..500 {
            for place in 0..self.workers.len() {
                assert!(self.workers[place].open.is_empty(), "seed {seed}: every wait has ended");
                let worker = &self.workers[place];
                let mut builder = call(&format!("w{place}"), MAX_LOAD).max_load(MAX_LOAD).wait(Millis(0));
                for attempt in &worker.holds {
                    builder = builder.report(*attempt, done());
                }
                let ends = worker.holds.iter().copied().collect();
                let ticket = self.bench.begin(builder);
                self.workers[place].open.insert(ticket, (0, ends));
                self.bench.pass(Millis(300));
                self.take_answers(seed);
            }
            if self.bench.runs().into_iter().all(|run| self.bench.state(run).is_final()) {
                return;
            }
        }
        panic!("seed {seed}: something is never done");
    }
}

#[test]
fn no_worker_is_given_more_than_its_room_and_all_work_is_done() {
    let only = std::env::var("UNSTUCK_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in only.map_or(0..300, |seed| seed..seed + 1) {
        let store = if seed % 2 == 0 { MemoryStore::new() } else { MemoryStore::deferred() };
        let workers = (0..3).map(|_| Worker::default()).collect();
        let random = Random::new(seed);
        let mut world = World { bench: Bench::new(store), random, workers, seen: BTreeSet::new() };
        for _ in 0..120 {
            world.act(seed);
        }
        world.finish(seed);
    }
}
