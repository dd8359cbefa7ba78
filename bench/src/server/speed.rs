//! Starts, reads, streams and memory of a server on a small store, beside an engine without a server and a server without an engine.

use std::path::Path;
use std::time::Duration;

use super::bare::PIECE;
use super::calls::{Call, Outcome, Plan, StreamOutcome, StreamPlan};
use super::process::{Failure, Served, carry_out, run_part};
use crate::aims::Aim;
use crate::flows::NOBODY;

const MIB: f64 = 1024.0 * 1024.0;
/// Runs in a request.
const BATCH: u64 = 256;
/// Starts at once: single ones, and requests of many.
const CALLERS: u32 = 64;
const BATCHES: u32 = 8;
/// Connections that read.
const READERS: u32 = 32;
/// Those who follow the stream of events.
const FOLLOWERS: u32 = 100;
/// Runs of which each is heard by all followers before the next.
const SINGLES: u32 = 200;

/// How long and how often each thing is measured.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub time: Duration,
    /// The fastest round counts: others may use the machine.
    pub rounds: u32,
}

/// What a client had of a server, and what it cost there.
pub struct Measured {
    pub outcome: Outcome,
    processor: Duration,
}

impl Measured {
    /// Lets a client carry out a plan.
    pub fn take(served: &Served, plan: &Plan) -> Result<Measured, Failure> {
        let before = served.processor();
        let outcome: Outcome = carry_out("client", plan)?;
        if let Some((count, first)) = &outcome.refused {
            return Err(
                format!("{count} of {} calls were refused, the first: {first}", outcome.count()).into()
            );
        }
        Ok(Measured { outcome, processor: served.processor().saturating_sub(before) })
    }

    /// The faster one of two.
    fn or_faster(self, other: Option<Measured>) -> Measured {
        match other {
            Some(other) if other.outcome.per_second() > self.outcome.per_second() => other,
            Some(_) | None => self,
        }
    }

    /// A line about it; a request counts as so many.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn line(&self, what: &str, each: u64) -> String {
        let (answers, all) = (&self.outcome.answers[0], (self.outcome.count() * each) as f64);
        format!(
            "  {what:<34} {:>8.0}/s  p50 {:>8.2?}  p99 {:>8.2?}  processor {:>6.1} us each",
            self.outcome.per_second() * each as f64,
            answers.median,
            answers.p99,
            self.processor.as_secs_f64() * 1e6 / all,
        )
    }
}

fn plan(served: &Served, call: Call, connections: u32, patience: Patience) -> Plan {
    Plan { address: served.address, connections, time: patience.time, pace: None, calls: vec![call] }
}

/// The memory of a server with nothing to do.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn measure_memory(place: &Path, aims: &mut Vec<Aim>) -> Result<(), Failure> {
    let served = Served::store(&place.join("idle"), &[])?;
    served.call(&Call::get("health", "/health"))?;
    let memory = served.memory() as f64 / MIB;
    println!("memory with nothing to do            {memory:>6.1} MiB");
    aims.push(Aim::new("under 60 MB with nothing to do", format!("{memory:.1} MiB"), 60e6 / MIB / memory));
    Ok(())
}

/// Starts one by one and many in a request, in turns with the engine of a process of its own.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn measure_starts(place: &Path, patience: Patience, aims: &mut Vec<Aim>) -> Result<(), Failure> {
    println!("\nstarts, each answered when it is durable");
    for (batch, at_once) in [(1, CALLERS), (BATCH, BATCHES)] {
        let call = if batch == 1 { Call::start("nobody") } else { Call::start_many("nobody", batch) };
        let (mut alone, mut best, mut memory) = (0_f64, None, 0.0_f64);
        for round in 0..patience.rounds {
            let folder = place.join(format!("alone-{batch}-{round}"));
            let args = [batch.to_string(), at_once.to_string(), patience.time.as_secs_f64().to_string()];
            let args = [folder.as_os_str(), args[0].as_ref(), args[1].as_ref(), args[2].as_ref()];
            alone = alone.max(run_part("in-process", &args)?.trim().parse()?);
            let served = Served::store(&place.join(format!("starts-{batch}-{round}")), &[])?;
            served.call(&Call::apply(NOBODY))?;
            let measured = Measured::take(&served, &plan(&served, call.clone(), at_once, patience))?;
            best = Some(measured.or_faster(best));
            memory = memory.max(served.memory() as f64 / MIB);
        }
        let Some(best) = best else { continue };
        let rate = best.outcome.per_second() * batch as f64;
        let what = if batch == 1 {
            format!("one by one, {at_once} callers")
        } else {
            format!("{batch} in a request, {at_once} at once")
        };
        let ratio = rate / alone;
        println!("{}, {memory:.0} MiB then", best.line(&what, batch));
        println!("  {:<34} {alone:>8.0}/s; the server {ratio:.2} of it", "the same, engine of one process");
        if batch > 1 {
            let aim = "starts in requests of 256 at 0.6 of the engine of one process";
            aims.push(Aim::new(aim, format!("{ratio:.2}"), ratio / 0.6));
        }
    }
    Ok(())
}

/// Reads of one run, of the server itself and of a run with a token, in turns with a bare handler that answers as many bytes.
pub fn measure_reads(place: &Path, patience: Patience, aims: &mut Vec<Aim>) -> Result<(), Failure> {
    let served =
        Served::store(&place.join("reads"), &["--rates-requests", "1000000", "--rates-burst", "1000000"])?;
    served.call(&Call::apply(NOBODY))?;
    let started = served.json(&Call::start("nobody"))?;
    let target = format!("/v1/runs/{}", started["run"].as_str().ok_or("a start names its run")?);
    let read = Call::get("run", &target);
    let bytes = served.call(&read)?.len();
    println!("\nreads on {READERS} connections, the document of a run has {bytes} bytes");
    let bare = Served::bare(bytes, 0)?;
    let mut best: [Option<Measured>; 4] = [const { None }; 4];
    let calls = [
        (&bare, Call::get("bare", "/runs/run_0s87q8xnr0000")),
        (&served, read.clone()),
        (&served, Call::get("server", "/v1/server")),
        (&served, Call::get("live", "/health/live")),
    ];
    for _ in 0..patience.rounds {
        for (best, (server, call)) in best.iter_mut().zip(&calls) {
            let measured = Measured::take(server, &plan(server, call.clone(), READERS, patience))?;
            *best = Some(measured.or_faster(best.take()));
        }
    }
    let names = ["a bare axum handler", "one run", "the server itself", "whether it lives"];
    let mut rates = Vec::new();
    for (name, best) in names.iter().zip(best.iter().flatten()) {
        let first = *rates.first().unwrap_or(&best.outcome.per_second());
        rates.push(best.outcome.per_second());
        println!("{}  {:.2} of the bare one", best.line(name, 1), best.outcome.per_second() / first);
    }
    let token =
        served.json(&Call::post("token", "/v1/tokens", r#"{"name":"bench","role":"admin"}"#.to_owned()))?;
    let read = read.with_token(token["token"].as_str());
    let mut best = None;
    for _ in 0..patience.rounds {
        best =
            Some(Measured::take(&served, &plan(&served, read.clone(), READERS, patience))?.or_faster(best));
    }
    if let Some(best) = &best {
        println!("{}", best.line("one run, with a token and a rate", 1));
    }
    aims.push(Aim::new("20,000 reads of a run a second", format!("{:.0}", rates[1]), rates[1] / 20_000.0));
    Ok(())
}

/// A stream of events with many readers, in turns with a bare handler that sends each of them as many bytes.
pub fn measure_streams(place: &Path, events: u64, patience: Patience) -> Result<(), Failure> {
    let events = events.div_ceil(PIECE) * PIECE;
    let served = Served::store(&place.join("streams"), &[])?;
    served.call(&Call::apply(NOBODY))?;
    let bare = Served::bare(0, EVENT_BYTES)?;
    let streams = |served: &Served, target: String, flow: Option<String>| -> Result<StreamOutcome, Failure> {
        let singles = if flow.is_some() { SINGLES } else { 0 };
        let address = served.address;
        carry_out(
            "streams",
            &StreamPlan { address, readers: FOLLOWERS, target, events, flow, batch: BATCH, singles },
        )
    };
    let (mut best, mut best_bare, mut processor) = (None::<StreamOutcome>, 0.0_f64, Duration::ZERO);
    for _ in 0..patience.rounds {
        let outcome = streams(&bare, format!("/stream/{}", events / PIECE), None)?;
        best_bare = best_bare.max(outcome.per_second());
        let before = served.processor();
        let outcome = streams(&served, "/v1/events?flow=nobody".to_owned(), Some("nobody".to_owned()))?;
        if best.as_ref().is_none_or(|best| best.took > outcome.took) {
            (best, processor) = (Some(outcome), served.processor().saturating_sub(before));
        }
    }
    let Some(best) = best else { return Ok(()) };
    print_streams(&best, best_bare, processor);
    Ok(())
}

/// As many as an event of a start has.
const EVENT_BYTES: usize = 420;

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn print_streams(best: &StreamOutcome, bare: f64, processor: Duration) {
    let rate = best.per_second();
    println!("\nevents to {FOLLOWERS} readers, of runs that are started {BATCH} in a request");
    println!(
        "  {:<34} {rate:>8.0}/s  processor {:.2} us each  {:.2} of a bare stream ({bare:.0}/s)",
        "delivered",
        processor.as_secs_f64() * 1e6 / best.delivered as f64,
        rate / bare
    );
    let (answered, heard) = (best.answered, best.heard);
    println!("  one start until its answer           p50 {:>8.2?}  p99 {:>8.2?}", answered.0, answered.1);
    println!("  the same until the last reader hears p50 {:>8.2?}  p99 {:>8.2?}", heard.0, heard.1);
}
