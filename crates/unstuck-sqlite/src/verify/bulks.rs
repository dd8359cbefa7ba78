//! Bulk actions: what they have counted is what their targets say, and what is under way will come out.

use rusqlite::params;
use unstuck_core::bulk::{Bulk, BulkCounts, BulkRef, CountedAs, ResultKind};
use unstuck_core::id::BulkId;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::error::store_error;
use crate::table::bulk::read_target;
use crate::table::number;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::run::Totals;
use crate::verify::snapshot::Snapshot;

/// Checks every bulk action: it can be read, and its counts match the results of its targets.
pub(crate) fn check_bulks(
    snapshot: &Snapshot<'_>,
    totals: &mut Totals,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    let mut statement =
        connection.prepare("SELECT id, total, open, body, version FROM bulk").map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = BulkId(unsigned(row.get(0).map_err(store_error)?));
        // One that was being put is nobody's yet.
        let Some(body) = row.get::<_, Option<String>>(3).map_err(store_error)? else { continue };
        let mut add = |what: String| report.add(Finding::new(Promise::Bulk, id.to_string(), what, RESTORE));
        let bulk: Bulk = match serde_json::from_str(&body) {
            Ok(bulk) => bulk,
            Err(problem) => {
                add(format!("it cannot be read ({problem}), so it cannot continue"));
                continue;
            }
        };
        let total: Option<i64> = row.get(1).map_err(store_error)?;
        let is_open: bool = row.get(2).map_err(store_error)?;
        if bulk.id != id || total.map(unsigned) != Some(bulk.total) || is_open == bulk.is_settled() {
            add("its row does not match its content, so it would be listed wrongly".to_owned());
        }
        if row.get::<_, i64>(4).map_err(store_error)? < 1 {
            add("it has no version, so two servers could change it at once".to_owned());
        }
        check_targets(snapshot, totals, &bulk, &mut add)?;
    }
    let orphans = "SELECT DISTINCT bulk FROM bulk_target WHERE bulk NOT IN (SELECT id FROM bulk)";
    let mut statement = connection.prepare(orphans).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = BulkId(unsigned(row.get(0).map_err(store_error)?));
        let what = "it has targets but does not exist, so nothing continues it";
        report.add(Finding::new(Promise::Bulk, id.to_string(), what, RESTORE));
    }
    for (BulkRef { bulk, place }, run) in &totals.resumed {
        let what = format!("its step was resumed as target {place} of {bulk}, which does not wait for it");
        report.add(Finding::new(Promise::Bulk, run.to_string(), what, RESTORE));
    }
    Ok(())
}

/// Compares the targets of a bulk action with its counts. Those under way are removed from `totals`, in which runs
/// have left what they remember of them.
fn check_targets(
    snapshot: &Snapshot<'_>,
    totals: &mut Totals,
    bulk: &Bulk,
    add: &mut dyn FnMut(String),
) -> Result<(), StoreError> {
    let sql = "SELECT place, run, step, item, result, why FROM bulk_target WHERE bulk = ?1 ORDER BY place";
    let mut statement = snapshot.connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![number(bulk.id.0)?]).map_err(store_error)?;
    let (mut counts, mut expected) = (BulkCounts::default(), 0);
    while let Some(row) = rows.next().map_err(store_error)? {
        let target = read_target(row)?;
        let place = target.place;
        if place != expected {
            add(format!("target {expected} is missing"));
        }
        expected = place + 1;
        let kind = target.result.kind();
        if (kind == ResultKind::Pending) != (place >= bulk.next) {
            let (word, next) = (kind.word(), bulk.next);
            add(format!("target {place} is {word}, but the next target to act on is {next}"));
        }
        match kind.counts_as() {
            None => {}
            Some(CountedAs::UnderWay) => {
                counts.under_way += 1;
                let known = totals.resumed.remove(&BulkRef { bulk: bulk.id, place });
                let is_told = snapshot.is_told(BulkRef { bulk: bulk.id, place });
                if known != Some(target.run) && !is_told && !snapshot.broken.contains(&target.run) {
                    let run = target.run;
                    add(format!("target {place} is under way, but {run} would not report its result"));
                }
            }
            Some(CountedAs::Passed) => counts.passed += 1,
            Some(CountedAs::Failed) => counts.failed += 1,
            Some(CountedAs::Refused) => counts.refused += 1,
            Some(CountedAs::Unscheduled) => counts.unscheduled += 1,
            Some(CountedAs::Unchanged) => counts.unchanged += 1,
        }
    }
    if expected != bulk.total {
        add(format!("it has {} targets, but {expected} are stored", bulk.total));
    }
    if counts != bulk.counts {
        add(format!("it counted {:?}, but its targets add up to {counts:?}", bulk.counts));
    }
    Ok(())
}
