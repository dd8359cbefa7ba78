//! The ranges of runs, shared among threads. Each reads its own snapshot of the file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustc_hash::FxHashSet;
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::verify::ranges::Ranges;
use crate::verify::run::{RunChecks, Totals};
use crate::verify::snapshot::{Snapshot, Versions};
use crate::verify::tables::report_unreadable;
use crate::verify::{CheckReport, file, payloads};

/// What all threads see.
pub(crate) struct Shared<'a> {
    pub(crate) ranges: &'a Ranges<'a>,
    /// So many runs have been looked at.
    pub(crate) done: AtomicU64,
    /// There is no use in going on.
    pub(crate) stop: &'a AtomicBool,
}

/// What one thread has found.
#[derive(Default)]
pub(crate) struct CheckShard {
    /// Which moment it has seen.
    pub(crate) moment: String,
    /// For each range its number and what was found in it.
    pub(crate) reports: Vec<(usize, CheckReport)>,
    pub(crate) totals: Totals,
    pub(crate) broken: FxHashSet<RunId>,
}

/// Opens a connection and checks ranges until none is left. `None` if it cannot be opened: other threads take the
/// ranges.
pub(crate) fn check_on_own_connection(
    path: &Path,
    flows: &Versions,
    shared: &Shared<'_>,
) -> Result<Option<CheckShard>, StoreError> {
    let Ok(mut connection) = file::open_beside(path, file::CACHE_OF_HELPER) else { return Ok(None) };
    let transaction = connection.transaction().map_err(store_error)?;
    let moment = Snapshot::moment(&transaction)?;
    let snapshot = Snapshot::read(&transaction, flows, &mut CheckReport::default())?;
    let mut checks = RunChecks::new(snapshot)?;
    let reports = check_ranges(&mut checks, shared, &mut |_| {})?;
    Ok(Some(CheckShard { moment, reports, totals: checks.totals, broken: checks.snapshot.broken }))
}

/// Checks ranges until none is left or the check is stopped.
pub(crate) fn check_ranges(
    checks: &mut RunChecks<'_>,
    shared: &Shared<'_>,
    tell: &mut dyn FnMut(u64),
) -> Result<Vec<(usize, CheckReport)>, StoreError> {
    let mut reports = Vec::new();
    while !shared.stop.load(Ordering::Relaxed)
        && let Some((number, range)) = shared.ranges.take(checks.snapshot.connection)?
    {
        let mut report = CheckReport::default();
        let mut ids = Vec::new();
        let found = checks.snapshot.ids_in(range).map(|found| ids = found);
        report_unreadable("the runs", found, &mut report)?;
        let payloads = payloads::check_payloads(&checks.snapshot, range, &ids, &mut report);
        let known = payloads.map(|known| checks.payloads = known);
        report_unreadable("the payloads", known, &mut report)?;
        report_unreadable("the runs", checks.check_runs(range, &ids, &mut report), &mut report)?;
        let before = shared.done.fetch_add(report.runs, Ordering::Relaxed);
        tell(before + report.runs);
        reports.push((number, report));
    }
    Ok(reports)
}
