//! `unstuck store check`: every promise that can be checked from the data alone.
//!
//! It reads one snapshot of the file in one read transaction and never writes, so an engine may go on with the store
//! meanwhile. That engine's memory is ahead of the rows; but each of its commits leaves a file from which all of that
//! memory can be made again: the rows, the log after the last event that they cover, and nothing else. So that is what
//! is checked, as opening the store would read it. While it reads, the engine's write-ahead file is not made shorter.
//!
//! Runs are read one at a time, each with its own history, and beside them, in the same order, what is kept of them; what is
//! kept in memory is one bit for each event, the end of each history that the rows do not cover, the undelivered notices
//! and the flows. Several threads share the runs, while another has SQLite look at the pages. Each of them has its own
//! snapshot, so that a run is always seen as it was at one moment; where an engine has written between these moments,
//! and something does not fit, all is read again by one alone.

mod bulks;
mod by_run;
mod chain;
mod counts;
mod errors;
mod file;
mod kept_state;
mod logs;
mod payloads;
mod positions;
mod ranges;
mod requests;
mod run;
mod schedules;
mod share;
mod snapshot;
mod tables;
mod wakes;

use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use rusqlite::Connection;
use unstuck_core::clock::ClockRecord;
use unstuck_core::model::flow::Flow;
use unstuck_core::time::Time;
use unstuck_store::contract::{FlowRecord, StoreError};
pub use unstuck_store::verify::{Finding, Promise};

use crate::error::store_error;
use crate::open::{DATABASE, check_loadable};
use crate::table::meta;
use crate::verify::ranges::Ranges;
use crate::verify::run::RunChecks;
use crate::verify::share::{CheckShard, Shared, check_on_own_connection, check_ranges};
use crate::verify::snapshot::{Snapshot, compile_flows};

pub(crate) use crate::verify::file::open as open_for_reading;

/// So many findings of each promise are told; the others are counted.
pub const MAX_FINDINGS_OF_A_PROMISE: usize = 20;

/// What a check has read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How many runs there are.
    pub runs: u64,
    /// How many events they have.
    pub events: u64,
    /// How many payloads are kept.
    pub payloads: u64,
    /// How many notices are on their way.
    pub notices: u64,
    /// How many flow versions are kept.
    pub flows: u64,
    /// How the clock was set.
    pub clock: ClockRecord,
    /// When the last change was recorded.
    pub last_time: Option<Time>,
    /// What is not as promised.
    pub findings: Vec<Finding>,
    /// How many more there are of promises that are broken at very many places.
    pub more: u64,
}

impl CheckReport {
    /// Returns whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds a finding, unless there are enough of the same promise already: then they are only counted.
    pub(crate) fn add(&mut self, finding: Finding) {
        let known = self.findings.iter().filter(|known| known.promise == finding.promise).count();
        if known < MAX_FINDINGS_OF_A_PROMISE {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    fn extend(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.add(finding);
        }
    }

    /// Adds the counts and findings of another report.
    fn append(&mut self, other: CheckReport) {
        let CheckReport { runs, events, payloads, notices, flows, findings, more, .. } = other;
        self.runs += runs;
        self.events += events;
        self.payloads += payloads;
        self.notices += notices;
        self.flows += flows;
        self.more += more;
        self.extend(findings);
    }
}

/// So many threads share the runs.
const MAX_THREADS: usize = 8;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// What is being read.
    pub what: &'static str,
    /// So many of them have been read.
    pub done: u64,
    /// Of so many.
    pub of: u64,
}

/// Checks the store in this folder. `compile` makes a flow of its kept definition, or says what is wrong with it.
///
/// An error means that the check could not be made; whatever is wrong with the data is in the report.
pub fn check(
    directory: &Path,
    compile: &mut dyn FnMut(&FlowRecord) -> Result<Flow, String>,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport, StoreError> {
    let mut connection = file::open(directory)?;
    // Without SQLite's locks there is one connection.
    let path = connection.lock.is_none().then(|| directory.join(DATABASE));
    let transaction = connection.transaction().map_err(store_error)?;
    file::check_version(&transaction)?;
    let stop = AtomicBool::new(false);
    let check_pages = |connection: &Connection| {
        let found = file::check_pages(connection);
        stop.store(!found.as_ref().is_ok_and(Vec::is_empty), Ordering::Relaxed);
        found
    };
    let beside = path.as_ref().and_then(|path| file::open_beside(path, file::CACHE_OF_HELPER).ok());
    if beside.is_none() {
        let problems = check_pages(&transaction)?;
        if !problems.is_empty() {
            return Ok(file::report_damaged_pages(&problems));
        }
    }
    thread::scope(|scope| {
        let pages = beside.map(|beside| scope.spawn(move || check_pages(&beside)));
        let mut examination = Checker { connection: &transaction, path, compile, progress, stop: &stop };
        let report = examination.run_checks();
        match pages.map_or(Ok(Vec::new()), join_thread)? {
            problems if problems.is_empty() => report,
            problems => Ok(file::report_damaged_pages(&problems)),
        }
    })
}

/// Waits for a thread, and passes its panic on.
fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// The check of what is in the pages.
struct Checker<'a, 'p> {
    connection: &'a Connection,
    /// The file, where others may read it too.
    path: Option<PathBuf>,
    compile: &'p mut dyn FnMut(&FlowRecord) -> Result<Flow, String>,
    progress: &'p mut dyn FnMut(CheckProgress),
    stop: &'a AtomicBool,
}

impl Checker<'_, '_> {
    /// Checks schema and meta first, because the rest can only be read if they are right. If threads saw different
    /// moments and anything was found, all is checked again on one connection.
    fn run_checks(&mut self) -> Result<CheckReport, StoreError> {
        let moment = Snapshot::moment(self.connection)?;
        (self.progress)(CheckProgress { what: "the store", done: 0, of: 1 });
        let mut report = CheckReport::default();
        let is_readable = file::check_schema(self.connection, &mut report)?
            && file::check_meta(self.connection, &mut report)?;
        if !is_readable {
            return Ok(report);
        }
        let (compile, connection) = (&mut *self.compile, self.connection);
        let flows = compile_flows(connection, compile, &mut report)?;
        let snapshot = Snapshot::read(connection, &flows, &mut report)?;
        (report.clock, report.last_time) =
            (snapshot.clock.clone(), meta::load_number(connection, "last_time")?.map(Time));
        let is_mixed = self.check_all_runs(snapshot, &mut report, &moment)?;
        // Two moments do not always fit together.
        if is_mixed && !report.is_clean() {
            self.path = None;
            return self.run_checks();
        }
        Ok(report)
    }

    /// Checks every run on several threads, then what depends on all of them. Returns whether the threads saw
    /// different moments of the file.
    fn check_all_runs(
        &mut self,
        snapshot: Snapshot<'_>,
        report: &mut CheckReport,
        moment: &str,
    ) -> Result<bool, StoreError> {
        let tail_ids = snapshot.tail_ids.clone();
        let ranges = Ranges::new(snapshot.connection, &tail_ids)?;
        let shared = Shared { ranges: &ranges, done: AtomicU64::new(0), stop: self.stop };
        let flows = snapshot.flows;
        let mut checks = RunChecks::new(snapshot)?;
        let mut tables = CheckReport::default();
        let (progress, of) = (&mut *self.progress, ranges.runs);
        let mut tell = |done: u64| progress(CheckProgress { what: "runs", done: done.min(of), of });
        let helpers = self.path.as_ref().map_or(0, |_| thread_count() - 1);
        let path = self.path.as_deref();
        let (mut loaded, mut parts) = (Ok(()), Vec::new());
        thread::scope(|scope| {
            let start = |path| {
                let shared = &shared;
                scope.spawn(move || check_on_own_connection(path, flows, shared))
            };
            let helpers: Vec<_> = path.into_iter().flat_map(|path| vec![path; helpers]).map(start).collect();
            tables::check_tables(&checks.snapshot, &mut tables)?;
            loaded = check_loadable(checks.snapshot.connection);
            let reports = check_ranges(&mut checks, &shared, &mut tell)?;
            parts.push(CheckShard { moment: moment.to_owned(), reports, ..CheckShard::default() });
            for helper in helpers {
                parts.extend(join_thread(helper)?);
            }
            Ok::<(), StoreError>(())
        })?;
        let is_one_moment = parts.iter().all(|share| share.moment == moment);
        let mut reports = Vec::new();
        for share in parts {
            reports.extend(share.reports);
            checks.totals.add(share.totals);
            checks.snapshot.broken.extend(share.broken);
        }
        reports.sort_unstable_by_key(|(number, _)| *number);
        for (_, part) in reports {
            report.append(part);
        }
        report.append(tables);
        tables::check_totals(&mut checks.snapshot, &mut checks.totals, report)?;
        // Whatever is in the way of opening the store is a finding, also where no other looks for it.
        if report.is_clean()
            && let Err(error @ (StoreError::Broken(_) | StoreError::Damaged(_))) = loaded
        {
            report.add(run::unreadable_finding("the store", &error));
        }
        Ok(!is_one_moment)
    }
}

/// How many threads share the runs.
fn thread_count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MAX_THREADS)
}
