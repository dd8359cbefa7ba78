//! Many seeds at once, over the cores, and what they add up to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::simulate::promises::Promise;
use crate::simulate::shrink::shrink;
use crate::simulate::tally::Tally;
use crate::simulate::{Failure, Plan, Report, run_in_memory, run_plan_in_memory};

/// So many seeds are taken at once.
const PORTION: u64 = 16;
/// Nobody reads more failures than this.
const MAX_FAILURES: usize = 10;

/// What many seeds add up to.
#[derive(Clone, Debug, Default)]
pub struct SweepResult {
    /// How many were simulated.
    pub seeds: u64,
    /// The faults that fired, by kind.
    pub faults: Tally,
    /// The acts that were done, by kind.
    pub acts: Tally,
    /// How often each promise was checked.
    pub checked: BTreeMap<Promise, u64>,
    /// What went wrong, by seed.
    pub failures: BTreeMap<u64, Failure>,
}

impl SweepResult {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.faults.add(&report.faults);
        self.acts.add(&report.acts);
        for (promise, count) in report.checked {
            *self.checked.entry(promise).or_default() += count;
        }
        if let Some(failure) = report.broken {
            self.failures.insert(report.seed, failure);
        }
    }

    fn merge(&mut self, other: SweepResult) {
        self.seeds += other.seeds;
        self.faults.add(&other.faults);
        self.acts.add(&other.acts);
        for (promise, count) in other.checked {
            *self.checked.entry(promise).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

/// Simulates these seeds on stores in memory, over all cores; stops early when much goes wrong.
pub fn sweep(seeds: Range<u64>) -> SweepResult {
    let _quiet = QuietPanics::begin();
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(SweepResult::default());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(PORTION, Ordering::Relaxed);
                    let is_enough = |sum: &SweepResult| sum.failures.len() >= MAX_FAILURES;
                    if from >= seeds.end || is_enough(&sum.lock().unwrap_or_else(PoisonError::into_inner)) {
                        return;
                    }
                    let mut portion = SweepResult::default();
                    for seed in from..seeds.end.min(from + PORTION) {
                        portion.add(run_in_memory(seed));
                    }
                    sum.lock().unwrap_or_else(PoisonError::into_inner).merge(portion);
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What went wrong with a seed, the smallest plan that shows it, its trace, and how to see it again.
pub fn explain(seed: u64) -> Option<String> {
    let _quiet = QuietPanics::begin();
    let plan = Plan::of(seed);
    let failure = run_plan_in_memory(&plan, false).broken?;
    let small = shrink(&plan, &failure);
    let report = run_plan_in_memory(&small, true);
    let mut text =
        format!("seed {seed}: {failure}\n\nthe smallest plan that shows it:\n{small}\nwhat happens:\n");
    for line in &report.trace {
        text.push_str(line);
        text.push('\n');
    }
    let after = report.broken.map_or_else(String::new, |failure| failure.to_string());
    // Nothing can go wrong when a text grows.
    let _ = write!(text, "{after}\n\nto see it again: cargo xtask simulate --seed {seed}\n");
    Some(text)
}

/// While this lives nothing is printed of a panic: it is a result here, and its place is told with its words. Whoever
/// panics afterwards, a test that fails, is heard.
struct QuietPanics;

impl QuietPanics {
    fn begin() -> QuietPanics {
        panic::set_hook(Box::new(|_| {}));
        QuietPanics
    }
}

impl Drop for QuietPanics {
    fn drop(&mut self) {
        drop(panic::take_hook());
    }
}
