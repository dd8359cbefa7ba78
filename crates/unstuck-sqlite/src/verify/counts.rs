//! What is counted and marked for readers: it fits the rows that it is made of.

use std::collections::HashMap;

use rusqlite::Connection;
use unstuck_core::id::RunId;
use unstuck_core::model::run::RunState;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise};

use crate::error::store_error;
use crate::info;
use crate::table::run_count;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::tables::HARMLESS;

/// So many findings of one kind are told.
const TOLD: usize = 5;

/// How many rows there are of each kind (state, whether they are children, hour), by flow: what `run_count` should say.
#[derive(Default)]
pub(crate) struct RowCounts(HashMap<(RunState, bool, u64), HashMap<String, i64>>);

impl RowCounts {
    /// Counts a row. An unknown state is a finding elsewhere.
    pub(crate) fn add_row(&mut self, id: RunId, state: &str, is_child: bool, flow: &str) {
        let Ok(state) = info::parse_run_state(state) else { return };
        self.add((state, is_child, run_count::hour_of(id, state)), flow, 1);
    }

    pub(crate) fn append(&mut self, other: RowCounts) {
        for (kind, flows) in other.0 {
            for (flow, count) in flows {
                self.add(kind, &flow, count);
            }
        }
    }

    fn add(&mut self, kind: (RunState, bool, u64), flow: &str, by: i64) {
        let flows = self.0.entry(kind).or_default();
        match flows.get_mut(flow) {
            Some(count) => *count += by,
            None => drop(flows.insert(flow.to_owned(), by)),
        }
    }
}

/// Compares stored counts with rows. Skipped if anything else was found: no count matches damaged rows.
pub(crate) fn check_counts(
    connection: &Connection,
    mut rows: RowCounts,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    if !report.is_clean() {
        return Ok(());
    }
    run_count::for_each_count(connection, |kind, flow, count| rows.add(kind, &flow, -count))?;
    let differ = rows.0.into_iter().flat_map(|(kind, flows)| {
        flows.into_iter().filter(|(_, by)| *by != 0).map(move |(flow, by)| (flow, kind.0, -by))
    });
    let mut differ: Vec<(String, RunState, i64)> = differ.collect();
    differ.sort_unstable();
    for (flow, state, by) in differ.into_iter().take(TOLD) {
        let what = format!("{by} more runs that are {} are counted than there are rows", state.word());
        report.add(Finding::new(Promise::Row, format!("flow `{flow}`"), what, HARMLESS));
    }
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
    for_each_mismatch(connection, open, |group, kind, by| {
        let what = format!("{by} more are counted than there are ({kind})");
        report.add(Finding::new(Promise::Error, format!("error group {group}"), what, HARMLESS));
    })?;
    let marks = "SELECT '', event_mark.run, event_mark.seq FROM event_mark LEFT JOIN event ON event.pos = event_mark.pos
        WHERE event.run IS NOT event_mark.run OR json_extract(event.body, '$.e.seq') IS NOT event_mark.seq";
    for_each_mismatch(connection, marks, |_, run, seq| {
        let run = RunId(run.parse().unwrap_or_default());
        let what = format!("the mark of event {seq} leads to another one: its history would be told wrongly");
        report.add(Finding::new(Promise::History, run.to_string(), what, HARMLESS));
    })
}

/// Calls `each` with every row of a query that selects only what differs.
fn for_each_mismatch(
    connection: &Connection,
    sql: &str,
    mut each: impl FnMut(&str, &str, i64),
) -> Result<(), StoreError> {
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
