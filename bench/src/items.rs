//! One run with many open items beside ordinary ones: what it costs the others, on the embedded store.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unstuck_core::command::Report;
use unstuck_core::event::Fact;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::offer::Offer;
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::{Output, Request};

use crate::durable::Bench;
use crate::flows::{BARE, flow, offer, start};

/// So many ordinary runs are in flight.
const IN_FLIGHT: u64 = 1_000;
/// One attempt that somebody has at hand for a while.
const ONE: &str = "flow: one\nsteps:\n  - {id: a, action: held}\n";

/// What has the attempts that are at hand while ordinary runs are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A run for each.
    Runs,
    /// One run, as its items.
    Items,
}

/// How long so many ordinary runs take while as many other attempts are open, of which one completes with each run.
pub fn beside(directory: &Path, beside: Beside, open: u64) -> Duration {
    let mut bench = Bench::open(directory);
    let mut held = hold(&mut bench, beside, open);
    let others: HashSet<RunId> = held.iter().map(|attempt| attempt.run).collect();
    let flow = bench.engine.put_flow(flow(BARE)).expect("kept").name.clone();
    bench.engine.register(offer(u32::try_from(IN_FLIGHT).expect("small")), false);
    bench.engine.watch(true);
    let begin = Instant::now();
    let (mut started, mut ended) = (0, 0);
    while ended < open {
        while started < open && started - ended < IN_FLIGHT {
            bench.engine.submit(start(started, &flow, None, &Json::NULL));
            started += 1;
        }
        for output in bench.next() {
            match output {
                Output::Dispatch { job, .. } => complete(&mut bench, job.attempt),
                Output::Happened { run, event } => {
                    let is_end = event.facts.iter().any(|fact| matches!(fact, Fact::Completed { .. }));
                    if is_end && !others.contains(&run) {
                        ended += 1;
                        complete(&mut bench, held.pop().expect("one for each run"));
                    }
                }
                Output::Reply { result, .. } => assert!(result.is_ok(), "{result:?}"),
                Output::Interrupt { .. } | Output::Forgotten { .. } | Output::CleanUp { .. } => {}
            }
        }
    }
    begin.elapsed()
}

fn complete(bench: &mut Bench, attempt: AttemptId) {
    let says = Report::Complete { output: Json::NULL };
    bench.engine.submit(Request::Executor(ExecutorReport::Report(attempt, says)));
}

/// So many attempts that somebody has at hand.
fn hold(bench: &mut Bench, beside: Beside, open: u64) -> Vec<AttemptId> {
    let many = format!(
        "flow: many\nsteps:\n  - {{id: a, action: held, forEach: {{items: '${{ input }}', parallel: {open}, maxItems: {open}}}}}\n"
    );
    let (text, runs, input) = match beside {
        Beside::Runs => (ONE, open, Json::NULL),
        Beside::Items => (many.as_str(), 1, Json::of(&(0..open).collect::<Vec<u64>>().into())),
    };
    let flow = bench.engine.put_flow(flow(text)).expect("kept").name.clone();
    let room = u32::try_from(open).expect("small");
    let queues: Arc<[Arc<str>]> = [Arc::from("held")].into();
    let worker = Worker { name: "holder".into(), incarnation: 1, local: true };
    bench.engine.register(Offer { worker, queues, free: room, max_load: room }, false);
    bench.engine.watch(false);
    for ticket in 0..runs {
        bench.engine.submit(start(ticket, &flow, None, &input));
    }
    let mut held = Vec::new();
    while (held.len() as u64) < open {
        held.extend(bench.next().into_iter().filter_map(|output| match output {
            Output::Dispatch { job, .. } => Some(job.attempt),
            Output::Reply { .. }
            | Output::Happened { .. }
            | Output::Interrupt { .. }
            | Output::Forgotten { .. }
            | Output::CleanUp { .. } => None,
        }));
    }
    held.reverse();
    held
}
