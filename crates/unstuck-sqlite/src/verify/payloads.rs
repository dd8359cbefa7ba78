//! Payloads: each is what was written, and belongs to a run.

use rustc_hash::FxHashSet;
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{FORGET, Finding, Promise, RESTORE};

use crate::checksum;
use crate::error::store_error;
use crate::payload_owner;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::ranges::Range;
use crate::verify::snapshot::Snapshot;
use crate::verify::tables::HARMLESS;

/// So many payloads of a range are remembered.
const MAX_KNOWN: usize = 100_000;
/// So many runs of other ranges are remembered.
const MAX_OTHERS: usize = 10_000;

/// The payloads of a range, so that nobody has to ask for each of them.
#[derive(Debug, Default)]
pub(crate) struct KnownPayloads {
    /// In order.
    ids: Vec<i64>,
    /// From which id to which all of them are known.
    within: Option<Range>,
}

impl KnownPayloads {
    /// Returns whether a payload exists; `None` if its id is outside of what was read.
    pub(crate) fn has(&self, id: PayloadId) -> Option<bool> {
        let id = id.0.cast_signed();
        self.within.filter(|within| within.first <= id && id <= within.last)?;
        Some(self.ids.binary_search(&id).is_ok())
    }
}

/// Which runs there are, for who asks about many.
struct KnownRuns<'s, 'c> {
    snapshot: &'s Snapshot<'c>,
    /// Those of the range, in order.
    own: &'s [RunId],
    /// Some of the others.
    others: FxHashSet<RunId>,
}

impl KnownRuns<'_, '_> {
    /// Returns whether a run exists: mostly it is one of the range, so that the file need not be asked.
    fn exists(&mut self, run: RunId) -> Result<bool, StoreError> {
        let is_own = self.own.binary_search_by_key(&run.0.cast_signed(), |own| own.0.cast_signed()).is_ok();
        if is_own || self.others.contains(&run) {
            return Ok(true);
        }
        let exists = self.snapshot.exists(run)?;
        if exists {
            if self.others.len() >= MAX_OTHERS {
                self.others.clear();
            }
            self.others.insert(run);
        }
        Ok(exists)
    }
}

/// Checks that every payload of a range can be read and belongs to an existing run. Returns which ones exist, for the
/// runs that name them.
pub(crate) fn check_payloads(
    snapshot: &Snapshot<'_>,
    range: Range,
    runs: &[RunId],
    report: &mut CheckReport,
) -> Result<KnownPayloads, StoreError> {
    let connection = snapshot.connection;
    let mut known = KnownPayloads { ids: Vec::new(), within: Some(range) };
    let mut runs = KnownRuns { snapshot, own: runs, others: FxHashSet::default() };
    let sql = "SELECT id, run, body, sum FROM payload WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut found = statement.query(range.ends()).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        report.payloads += 1;
        let id: i64 = row.get(0).map_err(store_error)?;
        if known.ids.len() < MAX_KNOWN {
            known.ids.push(id);
        } else if let Some(within) = &mut known.within {
            within.last = within.last.min(id.saturating_sub(1));
        }
        let id = PayloadId(unsigned(id));
        let run = RunId(unsigned(row.get(1).map_err(store_error)?));
        let body = row.get_ref(2).map_err(store_error)?;
        let kept: Option<i64> = row.get(3).map_err(store_error)?;
        let mut add = |promise: Promise, what: String, hint: &'static str| {
            report.add(Finding::new(promise, id.to_string(), what, hint));
        };
        match body.as_str() {
            Ok(body) if !checksum::is_sum_valid(kept, checksum::sum_payload(id, run, body)) => {
                let of = payload_owner::describe_payload(connection, run, id)
                    .map(|what| format!("{what} of {run}"));
                let of = of.unwrap_or_else(|| format!("which belongs to {run}"));
                add(Promise::Payload, format!("it is damaged, {of}: {}", checksum::WRONG_SUM), FORGET);
            }
            // What was written could be read, and is what was written.
            Ok(_) if kept.is_some() => {}
            Ok(body) if Json::parse(body).is_ok() => {}
            Ok(_) | Err(_) => {
                add(Promise::Payload, format!("it cannot be read, so {run} cannot use it"), RESTORE);
            }
        }
        if id.0 > snapshot.last_id {
            let what = "it is above the last id of the store, so ids would be used twice";
            add(Promise::Id, what.to_owned(), RESTORE);
        }
        if !runs.exists(run)? {
            add(Promise::Payload, format!("it belongs to {run}, which does not exist"), HARMLESS);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_asked_for() {
        let known = KnownPayloads { ids: vec![-3, 5, 8], within: Some(Range { first: -10, last: 9 }) };
        let cases = [(5, Some(true)), (8, Some(true)), (6, Some(false)), (9, Some(false)), (10, None)];
        for (id, wanted) in cases {
            assert_eq!(known.has(PayloadId(id)), wanted, "{id}");
        }
        assert_eq!(known.has(PayloadId((-3i64).cast_unsigned())), Some(true));
        assert_eq!(KnownPayloads::default().has(PayloadId(5)), None);
    }
}
