//! Runs through the whole engine and the embedded store, with an executor of this process that does nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use unstuck_core::command::Report;
use unstuck_core::event::Fact;
use unstuck_core::json::Json;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{Output, Request};
use unstuck_sqlite::SqliteStore;

use crate::figures::ProcessorTime;
use crate::flows::{BARE, FULL, LATER, NOBODY, flow, kibibyte, offer, start};

/// Starts of runs that only wait, in line at once.
const FILLING: u64 = 4_096;

/// What the runs of a measurement carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// Nothing.
    Bare,
    /// A key and 1 KiB of input; each step has an expression over the input, and puts 1 KiB out.
    Full,
}

impl Load {
    pub fn name(self) -> &'static str {
        match self {
            Load::Bare => "bare",
            Load::Full => "full",
        }
    }

    fn flow(self) -> &'static str {
        match self {
            Load::Bare => BARE,
            Load::Full => FULL,
        }
    }
}

/// An engine on the store in a folder.
pub struct Bench {
    pub(crate) engine: Engine<SqliteStore>,
    /// Its clock is so much ahead.
    pub(crate) skew: Millis,
}

/// What came of driving runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Driven {
    /// Events that became durable.
    pub transitions: u64,
    /// How long it took.
    pub took: Duration,
    /// The processor time of it: the engine's thread, and all others.
    pub processor: ProcessorTime,
}

impl Bench {
    /// Opens the store in a folder, and an engine on it.
    pub fn open(directory: &Path) -> Bench {
        let store = SqliteStore::open(directory).expect("the store opens");
        let compile = Box::new(|_: &_| Err("every flow is at hand".to_owned()));
        let engine = Engine::new(store, compile, Settings::default()).expect("the engine opens");
        Bench { engine, skew: Millis::ZERO }
    }

    /// The store, for its statistics.
    pub fn store(&mut self) -> &mut SqliteStore {
        self.engine.store()
    }

    /// Starts so many runs that only wait: half of them on timers, half for an action that nobody offers.
    pub fn fill(&mut self, runs: u64) {
        let flows = [LATER, NOBODY].map(|text| self.engine.put_flow(flow(text)).expect("kept").name.clone());
        self.engine.watch(false);
        let (mut started, mut answered) = (0, 0);
        while answered < runs {
            while started < runs && started - answered < FILLING {
                let flow = &flows[usize::from(started % 2 == 1)];
                self.engine.submit(start(started, flow, None, &Json::NULL));
                started += 1;
            }
            answered += self.next().iter().filter(|output| is_reply(output)).count() as u64;
        }
    }

    /// Starts and completes so many runs, with so many in flight: from the line until they are durable.
    pub fn drive(&mut self, load: Load, in_flight: u64, runs: u64) -> Driven {
        let flow = self.engine.put_flow(flow(load.flow())).expect("kept").name.clone();
        let (input, output) = match load {
            Load::Bare => (Json::NULL, Json::NULL),
            Load::Full => (kibibyte(), kibibyte()),
        };
        let room = u32::try_from(in_flight).expect("it is small");
        self.engine.register(offer(room), false);
        self.engine.watch(true);
        // Unique among all that were ever measured on this store.
        let batch = now().0;
        let (begin, before) = (Instant::now(), ProcessorTime::now());
        let (mut started, mut ended, mut transitions) = (0, 0, 0);
        while ended < runs {
            while started < runs && started - ended < in_flight {
                let key = matches!(load, Load::Full).then(|| Arc::from(format!("key-{batch}-{started}")));
                self.engine.submit(start(started, &flow, key, &input));
                started += 1;
            }
            for happened in self.next() {
                match happened {
                    Output::Dispatch { job, .. } => {
                        let says = Report::Complete { output: output.clone() };
                        self.engine.submit(Request::Executor(ExecutorReport::Report(job.attempt, says)));
                    }
                    Output::Reply { result, .. } => assert!(result.is_ok(), "{result:?}"),
                    Output::Happened { event, .. } => {
                        transitions += 1;
                        let is_end = event.facts.iter().any(|fact| matches!(fact, Fact::Completed { .. }));
                        ended += u64::from(is_end);
                    }
                    Output::Interrupt { why, .. } => panic!("nothing is interrupted: {why}"),
                    Output::Forgotten { .. } | Output::CleanUp { .. } => {}
                }
            }
        }
        let (took, processor) = (begin.elapsed(), ProcessorTime::now().since(before));
        self.engine.dismiss_executors();
        Driven { transitions, took, processor }
    }

    /// What has become durable next.
    pub(crate) fn next(&mut self) -> Vec<Output> {
        let mut outputs = self.engine.step(now() + self.skew);
        match self.engine.next_step() {
            NextStep::Now => {}
            NextStep::Settling => outputs.extend(self.engine.wait()),
            NextStep::At(_) | NextStep::Idle => {
                assert!(!outputs.is_empty(), "nothing would ever happen again");
            }
        }
        outputs
    }
}

fn is_reply(output: &Output) -> bool {
    match output {
        Output::Reply { result, .. } => {
            assert!(result.is_ok(), "{result:?}");
            true
        }
        Output::Dispatch { .. }
        | Output::Interrupt { .. }
        | Output::Happened { .. }
        | Output::Forgotten { .. }
        | Output::CleanUp { .. } => false,
    }
}

/// What the clock says.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    Time(i64::try_from(since.as_millis()).expect("the clock is right"))
}
