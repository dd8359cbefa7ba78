//! The simulator's histories: an engine under faults on a disk whose power goes, beside the store in memory, with every
//! promise watched.

use std::sync::atomic::{AtomicU64, Ordering};

use unstuck_core::model::flow::Flow;
use unstuck_core::random::Random;
use unstuck_sim::simulate::{self, Failure, Plan, Report};
use unstuck_store::contract::FlowRecord;
use unstuck_store::differential::twin::Twin;
use unstuck_store::memory::MemoryStore;

use crate::support::faults::Lies;
use crate::support::fixture::Fixture;
use crate::support::power::{Power, Tally};
use crate::support::{seeds, small_limits};

/// So many histories.
const HISTORIES: u64 = 500;
/// The power goes within so many writes and syncs: now and then in the middle of a commit, mostly when the simulator says so.
const LONGEST: u64 = 700;

#[test]
fn simulated_histories_are_the_same_on_a_disk_that_crashes_and_in_memory() {
    let tally = Tally::default();
    // `cargo xtask mutants` hunts with this test: it says which seed shows the mutant first.
    if let Some(count) = std::env::var("UNSTUCK_HUNT").ok().and_then(|count| count.parse().ok()) {
        return hunt(count);
    }
    let seeds = seeds(HISTORIES);
    let failures = on_every_core(&seeds, |seed| {
        let report = simulate_on_both(seed, Lies::None, &tally);
        if seeds.len() == 1 {
            println!("{}", report.trace.join("\n"));
        }
        failure(&report)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let counts = tally.counts();
    let crashes: usize = counts.values().sum();
    let torn: usize = counts.iter().filter(|(place, _)| place.is_some()).map(|(_, count)| count).sum();
    println!("{} histories, {crashes} crashes, {torn} of them at a write or a sync", seeds.len());
    assert!(seeds.len() == 1 || (crashes > 1_000 && torn > 500), "only {crashes} crashes, {torn} at a write");
}

#[test]
fn a_disk_that_lies_about_syncs_is_caught() {
    let caught = (0..60).find(|seed| simulate_on_both(*seed, Lies::All, &Tally::default()).broken.is_some());
    assert!(caught.is_some(), "stages were lost, and nobody noticed");
}

/// Seeds until one of them shows that something is wrong, which is said in a line as the hunter in memory does.
fn hunt(count: u64) {
    std::panic::set_hook(Box::new(|_| {}));
    for seed in 0..count {
        let report = std::panic::catch_unwind(|| simulate_on_both(seed, Lies::None, &Tally::default()));
        let (promise, what) = match report.map(|report| report.broken) {
            Ok(None) => continue,
            Ok(Some(Failure::Broken(broken))) => (broken.promise.word(), broken.to_string()),
            Ok(Some(Failure::Panicked(words))) => ("panic", words),
            Err(_) => ("panic", "the stores differ, or one of them has given up".to_owned()),
        };
        println!("{}\t{promise}\t{}", seed + 1, what.lines().next().unwrap_or_default());
        std::process::exit(1);
    }
}

/// One history, on a store on such a disk with the store in memory beside it.
fn simulate_on_both(seed: u64, lies: Lies, tally: &Tally) -> Report {
    let make_store = || {
        let options = small_limits(&mut Random::new(seed));
        let store = Fixture::on_a_disk(options, Power::failing(seed, LONGEST, tally).lying(lies));
        Twin::new(MemoryStore::deferred, store).for_an_engine(compile)
    };
    simulate::run_plan(&Plan::of(seed), make_store, std::env::var_os("UNSTUCK_SEED").is_some())
}

fn compile(record: &FlowRecord) -> Flow {
    let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
    loaded.expect("what is kept of a flow loads").flows.remove(0)
}

fn failure(report: &Report) -> Option<String> {
    let broken = report.broken.as_ref()?;
    Some(format!("seed {}: {broken}; run it again with UNSTUCK_SEED={}", report.seed, report.seed))
}

/// What this finds, with the seeds shared out.
fn on_every_core(seeds: &[u64], find: impl Fn(u64) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = places.map_while(|place| seeds.get(usize::try_from(place).ok()?).copied());
        mine.filter_map(&find).collect::<Vec<String>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}
