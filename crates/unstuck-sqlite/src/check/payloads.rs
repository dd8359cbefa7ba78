//! Payloads: each is what was written, and belongs to a run.

use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_store::audit::{FORGET, Finding, Promise, RESTORE};
use unstuck_store::contract::StoreError;

use crate::check::Report;
use crate::check::ranges::Range;
use crate::check::snapshot::Snapshot;
use crate::check::tables::HARMLESS;
use crate::error::store_error;
use crate::rows::unsigned;
use crate::sums;
use crate::whose;

/// Every payload can be read, and belongs to a run.
pub(crate) fn check(snapshot: &Snapshot<'_>, range: Range, report: &mut Report) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    let sql = "SELECT id, run, body, sum FROM payload WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut found = statement.query(range.ends()).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        report.payloads += 1;
        let id = PayloadId(unsigned(row.get(0).map_err(store_error)?));
        let run = RunId(unsigned(row.get(1).map_err(store_error)?));
        let body = row.get_ref(2).map_err(store_error)?;
        let kept: Option<i64> = row.get(3).map_err(store_error)?;
        let mut add = |promise: Promise, what: String, hint: &'static str| {
            report.add(Finding::new(promise, id.to_string(), what, hint));
        };
        match body.as_str() {
            Ok(body) if !sums::fits(kept, sums::of_payload(id, run, body)) => {
                let of = whose::payload(connection, run, id).map(|what| format!("{what} of {run}"));
                let of = of.unwrap_or_else(|| format!("which belongs to {run}"));
                add(Promise::Payload, format!("it is damaged, {of}: {}", sums::WRONG_SUM), FORGET);
            }
            // What was written could be read, and is what was written.
            Ok(_) if kept.is_some() => {}
            Ok(body) if Json::parse(body).is_ok() => {}
            Ok(_) | Err(_) => {
                add(Promise::Payload, format!("it cannot be read: {run} cannot use it"), RESTORE);
            }
        }
        if id.0 > snapshot.last_id {
            let what = "it is above the last id that the store remembers: ids would be given out again";
            add(Promise::Id, what.to_owned(), RESTORE);
        }
        if !snapshot.exists(run)? {
            add(Promise::Payload, format!("it belongs to {run}, which is not there"), HARMLESS);
        }
    }
    Ok(())
}
