//! What the writer has written and how long it took, for benchmarks that compare it with what the disk can do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use crate::open::PRAGMAS;

/// What one transaction wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many stages it was made of.
    pub stages: u64,
    /// Rows of the log.
    pub events: Rows,
    pub payloads: Rows,
    pub keys: Rows,
    /// Rows of runs that have parked or ended.
    pub runs: Rows,
    /// What will wake those that have parked.
    pub wakes: Rows,
    /// States of runs with long histories.
    pub snapshots: Rows,
}

/// How many rows, and the bytes of their texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// How many.
    pub count: u64,
    /// The bytes of their texts.
    pub bytes: u64,
}

/// What was written while somebody watched.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Each transaction, in order.
    pub transactions: Vec<Written>,
    /// How long each stage took until it was known to be durable, in order.
    pub commits: Vec<Duration>,
}

/// Numbers in a row take up to 8 bytes each, and most rows have three or four.
const NUMBERS: u64 = 24;

impl Written {
    /// Estimates the bytes of all rows: texts are counted, numbers are taken as 24 bytes a row.
    pub fn bytes(&self) -> u64 {
        let Written { stages: _, events, payloads, keys, runs, wakes, snapshots } = self;
        [events, payloads, keys, runs, wakes, snapshots]
            .iter()
            .map(|rows| rows.bytes + rows.count * NUMBERS)
            .sum()
    }
}

impl Rows {
    /// Counts a row of so many bytes.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }
}

/// Where the writer tells what it has written, if anybody watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteObserver(Arc<Mutex<Option<Vec<Written>>>>);

impl WriteObserver {
    /// Collects what is written from now on.
    pub(crate) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Returns what was written since, one entry for each transaction, and stops collecting.
    pub(crate) fn end(&self) -> Vec<Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Notes a transaction, if anybody collects.
    pub(crate) fn tell(&self, written: Written) {
        if let Some(transactions) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            transactions.push(written);
        }
    }
}

/// How long stages take.
#[derive(Debug)]
pub(crate) struct StageTimer {
    /// When each outstanding stage came; `None` for those that came before.
    begins: VecDeque<Option<Instant>>,
    took: Vec<Duration>,
}

impl StageTimer {
    /// So many stages are outstanding.
    pub(crate) fn new(outstanding: usize) -> StageTimer {
        StageTimer { begins: vec![None; outstanding].into(), took: Vec::new() }
    }

    /// A stage has come.
    pub(crate) fn begin(&mut self) {
        self.begins.push_back(Some(Instant::now()));
    }

    /// The oldest has settled.
    pub(crate) fn end(&mut self) {
        self.took.extend(self.begins.pop_front().flatten().map(|begin| begin.elapsed()));
    }

    pub(crate) fn took(self) -> Vec<Duration> {
        self.took
    }
}
