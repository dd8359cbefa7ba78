//! What is counted and marked for readers: it fits the rows that it is made of.

use rusqlite::Connection;
use unstuck_core::id::RunId;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise};

use crate::error::store_error;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::tables::HARMLESS;

/// So many findings of one kind are told.
const TOLD: usize = 5;

/// Where rows are not what they should be, no count fits, and each has a finding of its own.
pub(crate) fn check(connection: &Connection, report: &mut CheckReport) -> Result<(), StoreError> {
    if !report.is_clean() {
        return Ok(());
    }
    let runs = "SELECT flow, state, sum(n) FROM (
            SELECT state, child, hour, flow, count AS n FROM run_count
            UNION ALL SELECT state, parent IS NOT NULL,
                CASE WHEN state IN ('completed', 'failed', 'cancelled', 'superseded') THEN id / (3600000 << 22) ELSE 0 END,
                flow, -1 FROM run)
        GROUP BY state, child, hour, flow HAVING sum(n) <> 0";
    each(connection, runs, |flow, state, by| {
        let what = format!("{by} more runs that are {state} are counted than there are rows");
        report.add(Finding::new(Promise::Row, format!("flow `{flow}`"), what, HARMLESS));
    })?;
    let open = "SELECT grp, kind, sum(n) FROM (
            SELECT grp, 'in error' AS kind, open AS n FROM error_open
            UNION ALL SELECT grp, 'runs', runs FROM error_open
            UNION ALL SELECT grp, 'acknowledged', acknowledged FROM error_open
            UNION ALL SELECT grp, 'for policy ' || policy, count FROM error_open_policy
            UNION ALL SELECT grp, CASE WHEN acknowledged THEN 'acknowledged' ELSE 'in error' END, -1 FROM open_error
            UNION ALL SELECT grp, 'runs', -count(DISTINCT run) FROM open_error WHERE NOT acknowledged GROUP BY grp
            UNION ALL SELECT grp, 'for policy ' || policy_name, -1 FROM open_error
                WHERE NOT acknowledged AND policy_name IS NOT NULL)
        GROUP BY grp, kind HAVING sum(n) <> 0";
    each(connection, open, |group, kind, by| {
        let what = format!("{by} more are counted than there are ({kind})");
        report.add(Finding::new(Promise::Error, format!("error group {group}"), what, HARMLESS));
    })?;
    let marks = "SELECT '', event_mark.run, event_mark.seq FROM event_mark LEFT JOIN event ON event.pos = event_mark.pos
        WHERE event.run IS NOT event_mark.run OR json_extract(event.body, '$.e.seq') IS NOT event_mark.seq";
    each(connection, marks, |_, run, seq| {
        let run = RunId(run.parse().unwrap_or_default());
        let what = format!("the mark of event {seq} leads to another one: its history would be told wrongly");
        report.add(Finding::new(Promise::History, run.to_string(), what, HARMLESS));
    })
}

fn each(connection: &Connection, sql: &str, mut each: impl FnMut(&str, &str, i64)) -> Result<(), StoreError> {
    let mut statement = connection.prepare(&format!("{sql} LIMIT {TOLD}")).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let text: String = row.get(0).map_err(store_error)?;
        let other = match row.get_ref(1).map_err(store_error)? {
            rusqlite::types::ValueRef::Integer(number) => unsigned(number).to_string(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        each(&text, &other, row.get(2).map_err(store_error)?);
    }
    Ok(())
}
