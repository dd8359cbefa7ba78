//! Schedules in an engine: runs are started by the clock, each time once, over crashes, several servers and wrong clocks.

use std::collections::HashMap;

use unstuck_core::clock::ClockCorrection;
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::model::run::Run;
use unstuck_core::schedule::{Schedule, ScheduleCommand};
use unstuck_core::thing::Thing;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::apply_flows::{DeleteFlow, FlowCommand};
use unstuck_engine::call::Call;
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::request::{EngineError, Output, Request};
use unstuck_store::contract::{FlowRecord, RunFilter, Store};
use unstuck_store::memory::MemoryStore;

/// A full minute.
const BEGIN: Time = Time(1_800_000_000_000);
const FLOW: &str = "flow: f\nschedule: {every: 1m}\nsteps: [{id: only, set: 1}]\n";
/// Its runs do not end by themselves.
const SLOW: &str = "flow: f\nschedule: {every: 1m}\nsteps: [{id: only, signal: go}]\n";

struct Bench {
    engine: Engine<MemoryStore>,
    now: Time,
    replies: HashMap<u64, Result<Answer, EngineError>>,
    tickets: u64,
}

impl Bench {
    fn on(store: MemoryStore, now: Time, fires_schedules: bool) -> Bench {
        let compile = |record: &FlowRecord| {
            let loaded = unstuck_flow::load(&record.source, "test.yaml", "", &|_| false);
            let loaded = loaded.map_err(|problems| format!("{problems:?}"))?;
            loaded.flows.into_iter().next().ok_or_else(|| "no flow".to_owned())
        };
        let settings = Settings { fires_schedules, ..Settings::default() };
        let engine = Engine::new(store, Box::new(compile), settings).expect("opens");
        let mut bench = Bench { engine, now, replies: HashMap::new(), tickets: 0 };
        bench.run();
        bench
    }

    fn new(flow: &str) -> Bench {
        let mut bench = Bench::on(MemoryStore::new(), BEGIN, true);
        bench.put(flow);
        bench
    }

    fn put(&mut self, flow: &str) {
        for flow in unstuck_flow::load(flow, "test.yaml", "", &|_| false).expect("a good file").flows {
            self.engine.put_flow(flow).expect("kept");
        }
        self.run();
    }

    fn die_and_start(self) -> Bench {
        Bench::on(self.engine.into_store().crash(), self.now, true)
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            for output in self.engine.step(self.now) {
                if let Output::Reply { ticket, result } = output {
                    self.replies.insert(ticket, result);
                }
            }
            self.engine.store().make_durable(100);
            match self.engine.next_step() {
                NextStep::Now | NextStep::Settling => {}
                NextStep::At(_) | NextStep::Idle => return,
            }
        }
        panic!("the engine never rests");
    }

    fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
        self.run();
    }

    /// Somebody sets the clock.
    fn set_clock(&mut self, to: Time) {
        let from = std::mem::replace(&mut self.now, to);
        self.engine.record_correction(ClockCorrection { from, to });
        self.run();
    }

    fn change(&mut self, command: ScheduleCommand) -> Result<Answer, EngineError> {
        self.change_of("f", command)
    }

    fn change_of(&mut self, flow: &str, command: ScheduleCommand) -> Result<Answer, EngineError> {
        self.tickets += 1;
        let ticket = self.tickets;
        self.engine.submit(Request::Schedule { ticket, flow: flow.into(), command });
        self.run();
        self.replies.remove(&ticket).expect("it is answered")
    }

    fn runs(&mut self) -> Vec<Run> {
        let mut runs = self.engine.store().list(&RunFilter::default(), None, 1_000).expect("lists");
        runs.reverse();
        runs
    }

    fn keys(&mut self) -> Vec<String> {
        let key = |run: &Run| run.key.as_ref().map_or_else(String::new, ToString::to_string);
        self.runs().iter().map(key).collect()
    }

    fn schedule(&mut self) -> Option<Schedule> {
        let things = self.engine.store().things().expect("reads");
        things.iter().find_map(Thing::schedule).cloned()
    }
}

fn key(minutes: u64) -> String {
    format!("schedule:{}", (BEGIN + Millis::minutes(minutes)).timestamp())
}

fn ada() -> Actor {
    Actor::User("ada".into())
}

#[test]
fn a_server_starts_a_run_for_each_time() {
    let mut bench = Bench::new(FLOW);
    assert_eq!(bench.schedule().and_then(|schedule| schedule.next), Some(BEGIN + Millis::minutes(1)));
    assert_eq!(bench.engine.next_step(), NextStep::At(BEGIN + Millis::minutes(1)), "it sleeps until then");
    bench.pass(Millis::seconds(59));
    assert!(bench.keys().is_empty());
    bench.pass(Millis::seconds(1));
    assert_eq!(bench.keys(), [key(1)]);
    bench.pass(Millis::seconds(30));
    assert_eq!(bench.keys(), [key(1)], "once");
    bench.pass(Millis::seconds(30));
    assert_eq!(bench.keys(), [key(1), key(2)]);
}

#[test]
fn who_is_no_server_starts_nothing_and_rests() {
    let mut bench = Bench::new(FLOW);
    bench.pass(Millis::seconds(1));
    let store = bench.engine.into_store();
    let mut other = Bench::on(store.crash(), BEGIN + Millis::hours(1), false);
    assert!(other.keys().is_empty());
    assert_eq!(other.engine.next_step(), NextStep::Idle, "what is due is not its business");
    let mut server = Bench::on(other.engine.into_store().crash(), BEGIN + Millis::hours(1), true);
    assert_eq!(server.keys(), [key(60)], "the latest is made up for");
    let counts = server.schedule().expect("it is there").counts;
    assert_eq!((counts.fired, counts.missed), (1, 59));
}

#[test]
fn each_time_is_fired_once_whenever_the_server_dies() {
    // What is staged and not durable is gone; what is durable is not done again.
    for durable in 0..6 {
        let mut bench = Bench::on(MemoryStore::deferred(), BEGIN, true);
        bench.put(FLOW);
        bench.now = BEGIN + Millis::minutes(1);
        for _ in 0..6 {
            bench.engine.step(bench.now);
        }
        bench.engine.store().make_durable(durable);
        let mut bench = bench.die_and_start();
        assert_eq!(bench.keys(), [key(1)], "{durable} stages were durable");
        bench.pass(Millis::minutes(1));
        assert_eq!(bench.keys(), [key(1), key(2)]);
    }
}

#[test]
fn an_earlier_run_that_has_not_ended_keeps_the_next_one_back() {
    let mut bench = Bench::new(SLOW);
    bench.pass(Millis::minutes(1));
    bench.pass(Millis::minutes(1));
    let counts = bench.schedule().expect("it is there").counts;
    assert_eq!((bench.keys(), counts.skipped), (vec![key(1)], 1));
    let mut bench = Bench::new(&SLOW.replace("every: 1m", "every: 1m, overlap: allow"));
    bench.pass(Millis::minutes(1));
    bench.pass(Millis::minutes(1));
    assert_eq!(bench.keys(), [key(1), key(2)]);
}

#[test]
fn a_queued_time_starts_when_the_earlier_run_has_ended() {
    let mut bench = Bench::new(&SLOW.replace("every: 1m", "every: 1m, overlap: queue"));
    bench.pass(Millis::minutes(1));
    bench.pass(Millis::minutes(1));
    assert_eq!(bench.keys(), [key(1)]);
    let run = bench.runs()[0].id;
    let cancel = unstuck_core::command::Command::Cancel { by: ada(), reason: None };
    bench.engine.submit(Request::Command { ticket: 999, run, command: cancel });
    bench.run();
    bench.pass(Millis::seconds(2));
    assert_eq!(bench.keys(), [key(1), key(2)]);
}

#[test]
fn a_schedule_is_paused_and_fired_by_hand() {
    let mut bench = Bench::new(FLOW);
    let pause = || ScheduleCommand::Pause { by: ada(), reason: Some("moving".into()) };
    assert_eq!(bench.change(pause()), Ok(Answer::Done));
    assert_eq!(bench.change(pause()), Ok(Answer::Already));
    bench.pass(Millis::minutes(5));
    assert!(bench.keys().is_empty());
    let fired = bench.change(ScheduleCommand::Fire { by: ada() });
    assert!(matches!(fired, Ok(Answer::Started(_))), "{fired:?}");
    assert_eq!(bench.keys(), [key(5)]);
    bench.pass(Millis::seconds(1));
    assert_eq!(bench.change(ScheduleCommand::Unpause), Ok(Answer::Done));
    bench.pass(Millis::seconds(59));
    assert_eq!(bench.keys(), [key(5), key(6)], "what passed in the pause is not made up for");
}

#[test]
fn a_schedule_follows_the_versions_of_its_flow() {
    let mut bench = Bench::new(FLOW);
    bench.put(&FLOW.replace("every: 1m", "every: 1h"));
    bench.pass(Millis::minutes(30));
    assert!(bench.keys().is_empty());
    bench.pass(Millis::minutes(30));
    assert_eq!(bench.keys(), [key(60)]);
    bench.put("flow: f\nsteps: [{id: only, set: 1}]\n");
    assert_eq!(bench.schedule(), None, "it is gone with `schedule:`");
    let refused = bench.change(ScheduleCommand::Fire { by: ada() });
    assert_eq!(refused, Err(EngineError::NoSchedule("f".into())));
    bench.put(FLOW);
    bench.pass(Millis::minutes(1));
    assert_eq!(bench.keys(), [key(60), key(61)], "and back with it");
    let delete = DeleteFlow { flow: "f".into(), version: None, by: ada(), reason: None };
    bench.engine.change_flows(FlowCommand::Delete(delete), &Call::default(), bench.now).expect("deleted");
    bench.pass(Millis::minutes(5));
    assert_eq!((bench.keys().len(), bench.schedule()), (2, None));
}

#[test]
fn a_flow_that_is_not_there_has_no_schedule() {
    let mut bench = Bench::new(FLOW);
    let unknown = bench.change_of("gone", ScheduleCommand::Unpause);
    assert_eq!(unknown, Err(EngineError::UnknownFlow("gone".into())));
}

#[test]
fn a_clock_that_is_set_neither_fires_twice_nor_freezes() {
    let mut bench = Bench::new(FLOW);
    bench.pass(Millis::minutes(1));
    // Ten years ahead, and right again.
    bench.set_clock(bench.now + Millis::hours(24 * 3_650));
    let ahead = bench.keys().len();
    assert!(ahead <= 2, "one run for the latest time at most");
    bench.set_clock(BEGIN + Millis::minutes(2));
    bench.pass(Millis::minutes(1));
    assert_eq!(bench.keys().last(), Some(&key(3)), "{:?}", bench.keys());
    // Back by two minutes: those times have their runs already.
    let before = bench.keys();
    bench.set_clock(BEGIN + Millis::minutes(1) + Millis::seconds(1));
    bench.pass(Millis::minutes(1));
    bench.pass(Millis::minutes(1));
    let mut keys = bench.keys();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), bench.keys().len(), "no time has two runs");
    assert!(bench.keys().len() <= before.len() + 1, "{:?}", bench.keys());
}
