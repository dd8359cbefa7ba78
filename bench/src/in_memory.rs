//! Three-step flows of no-ops through the core and the engine, on the store in memory. A transition is one event, and each
//! run has four.

use std::collections::HashMap;

use unstuck_core::command::{Command, OnDuplicate, Report, Start, StartInput};
use unstuck_core::decide::{Context, Effect, decide};
use unstuck_core::event::Actor;
use unstuck_core::home::Homes;
use unstuck_core::id::{Ids, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::nesting::MAX_NESTING;
use unstuck_core::model::run::Origin;
use unstuck_core::offer::Offers;
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::time::Time;
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{Output, Request};
use unstuck_store::memory::MemoryStore;

use crate::flows::{BARE, FULL, flow, kibibyte, offer, start};

const NOW: Time = Time(1_800_000_000_000);

/// Runs every benchmark whose name contains the second argument, with as many runs as the first says, and has `measure`
/// print a line for it.
pub fn each(measure: &dyn Fn(&str, &dyn Fn() -> u64)) {
    let runs: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(200_000);
    let only = std::env::args().nth(2).unwrap_or_default();
    let show = |name: &str, work: &dyn Fn() -> u64| {
        if name.contains(&only) {
            measure(name, work);
        }
    };
    show("core alone, decisions", &|| decide_runs(&flow(BARE), runs));
    for in_flight in [1, 16, 256, 4_096] {
        let name = format!("engine, bare, {in_flight} in flight, transitions");
        show(&name, &|| engine_runs(BARE, &Json::NULL, in_flight, runs, false));
    }
    show("engine, keys, 1 KiB, expressions, 4096", &|| engine_runs(FULL, &kibibyte(), 4_096, runs, true));
}

/// Starts and completes runs with nothing but the core.
fn decide_runs(flow: &Flow, runs: u32) -> u64 {
    let (mut ids, mut random, mut offers) = (Ids::new(0, 0), Random::new(0), Offers::default());
    offers.put(offer(1));
    let (payloads, policies, homes) = (HashMap::new(), Policies::default(), Homes::default());
    let mut decisions = 0;
    for _ in 0..runs {
        let id = RunId(ids.next(NOW));
        let mut run = None;
        let mut next = Some(Command::Start(Box::new(Start {
            run: id,
            key: None,
            input: StartInput::New(Json::NULL),
            labels: None,
            priority: 0,
            deadline: None,
            origin: Origin::Root,
            root_flow: None,
            nesting: None,
            home: None,
            on_duplicate: OnDuplicate::Return,
            by: Actor::Engine,
        })));
        while let Some(command) = next.take() {
            let mut context = Context {
                now: NOW,
                run: id,
                flow,
                next_flow: None,
                payloads: &payloads,
                ids: &mut ids,
                random: &mut random,
                offers: &mut offers,
                downtimes: &[],
                clock: 0,
                policies: &policies,
                turns: &mut ResumePacer::default(),
                max_nesting: MAX_NESTING,
                homes: &homes,
            };
            let decision = decide(&mut run, command, &mut context).expect("decided");
            decisions += 1;
            for effect in decision.effects {
                if let Effect::Dispatch { attempt, worker, load } = effect {
                    offers.release_room(&worker, load);
                    next = Some(Command::Report { attempt, report: Report::Complete { output: Json::NULL } });
                }
            }
        }
        assert!(run.is_some_and(|run| run.is_final()));
    }
    decisions
}

/// Starts and completes runs through the whole engine, with so many in flight.
fn engine_runs(text: &str, input: &Json, in_flight: u32, runs: u32, keys: bool) -> u64 {
    let compile = Box::new(|_: &_| Err("every flow is at hand".to_owned()));
    let mut engine =
        Engine::new(MemoryStore::without_history(), compile, Settings::default()).expect("opens");
    let flow = engine.put_flow(flow(text)).expect("kept").name.clone();
    engine.register(offer(in_flight), false);
    engine.watch(false);
    let last_step = StepIndex(2);
    let (mut started, mut transitions, mut open) = (0, 0, 0);
    while open > 0 || engine.backlog() > 0 || started < u64::from(runs) {
        while open < in_flight && started < u64::from(runs) {
            let key = keys.then(|| format!("key-{started}").into());
            engine.submit(start(started, &flow, key, input));
            started += 1;
            open += 1;
        }
        for output in engine.step(NOW) {
            match output {
                Output::Dispatch { job, .. } => {
                    transitions += 1;
                    open -= u32::from(job.attempt.unit.step == last_step);
                    engine.submit(Request::Executor(ExecutorReport::Report(
                        job.attempt,
                        Report::Complete { output: job.input },
                    )));
                }
                Output::Reply { result, .. } => {
                    assert!(result.is_ok(), "{result:?}");
                    transitions += 1;
                }
                Output::Interrupt { .. }
                | Output::Happened { .. }
                | Output::Forgotten { .. }
                | Output::CleanUp { .. } => {}
            }
        }
    }
    // A start hands its first step over, and so on: the reply and the three dispatches of a run are its four events.
    assert_eq!(transitions, u64::from(runs) * 4);
    transitions
}
