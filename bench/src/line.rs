//! One line of the table: runs of one load, with so many in flight and so many in the store, and the limits beside it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::durable::{Bench, Load};
use crate::figures::{ProcessorTime, peak_memory, percentile, written};
use crate::limits::{append_and_sync, bare_rows};

/// What to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What the runs carry.
    pub load: Load,
    /// How many wait in the store.
    pub stored: u64,
    /// How many go on at once.
    pub in_flight: u64,
    /// How many are started and completed.
    pub runs: u64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What it is about.
    pub plan: Plan,
    /// From the opening of the store until its first batch is durable.
    pub ready: Duration,
    /// Events.
    pub transitions: u64,
    /// How long they took.
    pub took: Duration,
    /// How many transactions they were, each synced once.
    pub transactions: u64,
    /// Their processor time.
    pub processor: ProcessorTime,
    /// From stage to settled, of 50 in 100.
    pub p50: Duration,
    /// The same of 99 in 100.
    pub p99: Duration,
    /// The bytes that went to write calls.
    pub written: u64,
    /// The most memory at once, opening included.
    pub peak: u64,
    /// How long the same bytes took, appended to a file and synced in the same batches.
    pub file: Duration,
    /// How long the same rows took in SQLite, in the same transactions.
    pub rows: Duration,
}

/// Measures a line on the store in this folder; limits are measured in another one.
pub fn measure(plan: Plan, directory: &Path, scratch: &Path) -> Line {
    let begin = Instant::now();
    let mut bench = Bench::open(directory);
    bench.drive(Load::Bare, 1, 1);
    let ready = begin.elapsed();
    bench.store().watch();
    let before = written();
    let driven = bench.drive(plan.load, plan.in_flight, plan.runs);
    let written = written() - before;
    let mut stats = bench.store().stats();
    drop(bench);
    let peak = peak_memory();
    let transactions = &stats.transactions;
    Line {
        plan,
        ready,
        transitions: driven.transitions,
        took: driven.took,
        processor: driven.processor,
        transactions: transactions.len() as u64,
        p50: percentile(&mut stats.commits, 50),
        p99: percentile(&mut stats.commits, 99),
        written,
        peak,
        file: append_and_sync(&scratch.join("file"), transactions),
        rows: bare_rows(&scratch.join("rows"), transactions),
    }
}

/// What the columns of a [row](Line::row) are.
pub const HEADING: &str = "\
              in  transitions     steps    commit ms     bytes each  peak  syncs   of the  of bare  processor each
load   stored flight       /s        /s    p50    p99  transition   MiB   /run     file     rows  engine, others";

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Line {
    /// Events in a second.
    pub fn transitions_per_second(&self) -> f64 {
        self.transitions as f64 / self.took.as_secs_f64()
    }

    /// Steps in a second: three of the four events of a run end one.
    pub fn steps_per_second(&self) -> f64 {
        self.plan.runs as f64 * 3.0 / self.took.as_secs_f64()
    }

    /// The speed as a part of that of the file.
    pub fn of_file(&self) -> f64 {
        self.file.as_secs_f64() / self.took.as_secs_f64()
    }

    /// The speed as a part of that of the bare rows.
    pub fn of_rows(&self) -> f64 {
        self.rows.as_secs_f64() / self.took.as_secs_f64()
    }

    /// The faster one of two; the peak is that of both.
    #[must_use]
    pub fn or_faster(self, other: Option<Line>) -> Line {
        let Some(other) = other else { return self };
        let peak = self.peak.max(other.peak);
        let faster = if self.took < other.took { self } else { other };
        Line { peak, ..faster }
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let Plan { load, stored, in_flight, runs } = self.plan;
        format!(
            "{:<5} {stored:>7} {in_flight:>6} {:>8.0} {:>9.0} {:>6.2} {:>6.2} {:>11.0} {:>5.0} {:>6.3} {:>8.2} {:>8.2}  {}",
            load.name(),
            self.transitions_per_second(),
            self.steps_per_second(),
            self.p50.as_secs_f64() * 1_000.0,
            self.p99.as_secs_f64() * 1_000.0,
            self.written as f64 / self.transitions as f64,
            self.peak as f64 / (1024.0 * 1024.0),
            self.transactions as f64 / runs as f64,
            self.of_file(),
            self.of_rows(),
            self.processor.of_each(self.transitions),
        )
    }
}
