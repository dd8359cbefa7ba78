//! `unstuck store check`: every promise that can be checked from the data alone.
//!
//! It reads one snapshot of the file in one read transaction and never writes, so an engine may go on with the store
//! meanwhile. That engine's memory is ahead of the rows; but each of its commits leaves a file from which all of that
//! memory can be made again: the rows, the log after the last event that they cover, and nothing else. So that is what
//! is checked, as opening the store would read it. While it reads, the engine's write-ahead file is not made shorter.
//!
//! Runs are read one at a time, each with its own history; what is kept besides is one bit for each event, the end of
//! each history that the rows do not cover, the undelivered notices and the flows.

mod bulks;
mod chain;
mod errors;
mod file;
mod positions;
mod run;
mod snapshot;
mod tables;
mod wakes;

use std::path::Path;

use unstuck_core::model::flow::Flow;
pub use unstuck_store::audit::{Finding, Promise};
use unstuck_store::contract::{FlowRecord, StoreError};

use crate::check::run::RunChecks;
use crate::check::snapshot::Snapshot;
use crate::open::load;

pub(crate) use crate::check::file::open as open_for_reading;

/// So many findings of each promise are told; the others are counted.
pub const MAX_FINDINGS_OF_A_PROMISE: usize = 20;

/// What a check has read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
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
    /// What is not as promised.
    pub findings: Vec<Finding>,
    /// How many more there are of promises that are broken at very many places.
    pub more: u64,
}

impl Report {
    /// Whether all is as promised.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds a finding, unless there are enough of its sort.
    pub(crate) fn add(&mut self, finding: Finding) {
        let known = self.findings.iter().filter(|known| known.promise == finding.promise).count();
        if known < MAX_FINDINGS_OF_A_PROMISE {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
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
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, StoreError> {
    let mut connection = file::open(directory)?;
    let transaction = connection.transaction().map_err(crate::error::store_error)?;
    let mut report = Report::default();
    file::check_version(&transaction)?;
    progress(Progress { what: "pages", done: 0, of: 1 });
    let is_readable = file::check_integrity(&transaction, &mut report)?
        && file::check_schema(&transaction, &mut report)?
        && file::check_meta(&transaction, &mut report)?;
    if !is_readable {
        return Ok(report);
    }
    let snapshot = Snapshot::read(&transaction, compile, &mut report)?;
    let mut checks = RunChecks::new(snapshot, progress);
    checks.all_runs(&mut report)?;
    tables::check(checks, &mut report)?;
    // Whatever is in the way of opening the store is a finding, also where no other looks for it.
    if report.is_clean()
        && let Err(error @ (StoreError::Broken(_) | StoreError::Damaged(_))) = load(&transaction)
    {
        report.add(run::unreadable("the store", &error));
    }
    Ok(report)
}
