//! A hundred thousand targets: no batch does more for them than for a few.

use std::time::{Duration, Instant};

use unstuck_core::bulk::{BulkAction, BulkState};
use unstuck_store::contract::Store as _;
use unstuck_store::memory::MemoryStore;

use crate::support::{AT_ONCE, Bench};

/// Cancels so many runs in bulk, and gives how long each batch of it took.
fn cancel(count: usize) -> Vec<Duration> {
    let mut bench = Bench::new(MemoryStore::new());
    let mut runs = Vec::new();
    while runs.len() < count {
        runs.extend(bench.start(5_000.min(count - runs.len())));
        bench.jobs.clear();
    }
    let bulk = bench.begin(BulkAction::Cancel, &runs, AT_ONCE);
    let mut took = Vec::new();
    while bench.engine.store().bulk(bulk).expect("reads").expect("there").state != BulkState::Done {
        let begun = Instant::now();
        bench.step();
        took.push(begun.elapsed());
        assert!(bench.told <= 512, "a batch has a bound: {}", bench.told);
        assert!(took.len() <= count, "it ends");
    }
    assert_eq!(bench.counts(bulk), (count as u64, 0, 0, 0));
    took
}

#[test]
fn a_batch_does_not_cost_more_when_there_are_many() {
    let middle = |mut took: Vec<Duration>| {
        took.sort_unstable();
        took[took.len() / 2]
    };
    let (few, many) = (cancel(2_048), cancel(100_000));
    assert!(many.len() <= 100_000 / 512 + 2, "every batch is full: {}", many.len());
    let (few, many) = (middle(few), middle(many));
    // Fifty times as many targets: work that grows with them would show.
    assert!(many < few * 8, "a batch takes {many:?} with 100,000 targets, and {few:?} with 2,048");
}
