//! Errors in the file: reading what was recorded, what is open, the groups, and what policies have done.

mod open_count;
mod write;

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    ErrorFilter, ErrorGroup, ErrorId, GroupFilter, GroupPlace, MAX_EXAMPLES, OpenErrorFilter, PolicyHits,
    RunFilter, StoreError,
};
use unstuck_store::tally::{HitTally, most_frequent_first};

use crate::error::{broken_store, store_error};
use crate::log_entry::from_text;
use crate::pending_transaction::unit_columns;
use crate::table::number;
use crate::table::unsigned;

pub(crate) use open_count::OpenChanges;
pub(crate) use write::{ErrorChanges, OpenErrorChange, count_recorded, delete_errors, write_errors};

/// A query that is put together: only what is asked for stands in it, so that the right index is used.
pub(crate) struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    pub(crate) fn new(sql: &str) -> Query {
        Query { sql: sql.to_owned(), values: Vec::new() }
    }

    /// Appends a clause with its values. All values are bound, so no text of a user becomes SQL.
    pub(crate) fn add(&mut self, clause: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(clause);
        self.values.extend(values);
    }

    /// Appends a clause if there is a text to compare with.
    pub(crate) fn text(&mut self, clause: &str, text: Option<&Arc<str>>) {
        if let Some(text) = text {
            self.add(clause, [Value::from(text.to_string())]);
        }
    }

    /// Narrows to an action: the step's, or the engine-made one that found the error, which only the body names.
    fn action(&mut self, action: Option<&Arc<str>>) {
        let Some(action) = action else { return };
        if is_engine_made(action) {
            self.add(
                " AND (action = ? OR instr(body, ?) > 0)",
                [Value::from(action.to_string()), found_by_pattern(action)],
            );
        } else {
            self.text(" AND action = ?", Some(action));
        }
    }

    pub(crate) fn limit(&mut self, clause: &str, limit: usize) {
        self.add(clause, [Value::from(i64::try_from(limit).unwrap_or(i64::MAX))]);
    }

    /// Runs the query, and converts each row by `each`.
    pub(crate) fn rows<T>(
        self,
        connection: &Connection,
        mut each: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = connection.prepare_cached(&self.sql).map_err(store_error)?;
        let mut rows = statement.query(params_from_iter(self.values)).map_err(store_error)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            found.push(each(row)?);
        }
        Ok(found)
    }
}

/// Returns whether the engine made up this action: actions of flows have a dot in their name.
fn is_engine_made(action: &str) -> bool {
    !action.contains('.')
}

/// Returns the JSON text that a body contains if this engine-made action found the error. Quotes within strings are
/// escaped, so that nothing else matches.
fn found_by_pattern(action: &str) -> Value {
    format!("\"foundBy\":{}", serde_json::Value::from(action)).into()
}

/// Lists recorded errors, oldest first.
pub(crate) fn list_errors(
    connection: &Connection,
    filter: &ErrorFilter,
    after: Option<ErrorId>,
    limit: usize,
) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
    let next = after.map_or(Ok(0), |after| number(after.0 + 1))?;
    let mut query = build_error_query(connection, filter, next, i64::MAX)?;
    query.limit(" ORDER BY id LIMIT ?", limit);
    query.rows(connection, read_error)
}

/// Lists recorded errors, newest first.
pub(crate) fn list_errors_before(
    connection: &Connection,
    filter: &ErrorFilter,
    before: Option<ErrorId>,
    limit: usize,
) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
    let end = before.map_or(Ok(i64::MAX), |before| number(before.0))?;
    let mut query = build_error_query(connection, filter, 0, end)?;
    query.limit(" ORDER BY id DESC LIMIT ?", limit);
    query.rows(connection, read_error)
}

/// Builds the query of errors that fit, with an id from `first` on and below `end`.
fn build_error_query(
    connection: &Connection,
    filter: &ErrorFilter,
    first: i64,
    end: i64,
) -> Result<Query, StoreError> {
    let ErrorFilter { since, until, group, flow, action } = filter;
    // Ids grow with time, so a span of time is a span of ids, and nothing outside of it is read.
    let since = since.map_or(Ok(0), |since| find_first_error_at(connection, since))?;
    let until = until.map_or(Ok(i64::MAX), |until| find_first_error_at(connection, until))?;
    let mut query = Query::new("SELECT id, body FROM error WHERE id >= ? AND id < ?");
    query.values.extend([first.max(since).into(), end.min(until).into()]);
    query.text(" AND grp = ?", group.as_ref());
    query.text(" AND flow = ?", flow.as_ref());
    query.action(action.as_ref());
    Ok(query)
}

fn read_error(row: &rusqlite::Row<'_>) -> Result<(ErrorId, ErrorRecord), StoreError> {
    let id = ErrorId(unsigned(row.get(0).map_err(store_error)?));
    Ok((id, read_body(row, 1, "an error")?))
}

/// Finds the first error at this time or later by the index of times; beyond all if there is none.
fn find_first_error_at(connection: &Connection, time: Time) -> Result<i64, StoreError> {
    let sql = "SELECT id FROM error WHERE at >= ?1 ORDER BY at, id LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let found = statement.query_row([time.0], |row| row.get(0)).optional().map_err(store_error)?;
    Ok(found.unwrap_or(i64::MAX))
}

/// Lists units that are in error now, by run and unit.
pub(crate) fn list_open_errors(
    connection: &Connection,
    filter: &OpenErrorFilter,
    after: Option<(RunId, UnitRef)>,
    limit: usize,
) -> Result<Vec<OpenError>, StoreError> {
    let OpenErrorFilter { group, flow, action, policy, run } = filter;
    let mut query = Query::new("SELECT body FROM open_error WHERE true");
    if let Some((run, unit)) = after {
        let (step, item) = unit_columns(Some(unit));
        query.add(" AND (run, step, item) > (?, ?, ?)", [number(run.0)?.into(), step.into(), item.into()]);
    }
    if let Some(run) = run {
        query.add(" AND run = ?", [number(run.0)?.into()]);
    }
    query.text(" AND grp = ?", group.as_ref());
    query.text(" AND flow = ?", flow.as_ref());
    query.action(action.as_ref());
    query.text(" AND policy = ?", policy.as_ref());
    query.limit(" ORDER BY run, step, item LIMIT ?", limit);
    query.rows(connection, |row| read_body(row, 0, "an open error"))
}

/// Lists groups of errors, those seen last first, each with its counts by flow, open errors and examples.
pub(crate) fn list_groups(
    connection: &Connection,
    filter: &GroupFilter,
    after: Option<&GroupPlace>,
    limit: usize,
) -> Result<Vec<ErrorGroup>, StoreError> {
    let GroupFilter { group, flow, action, since } = filter;
    let mut query = Query::new("SELECT id, action, pattern, first, last, count FROM error_group WHERE true");
    query.text(" AND id = ?", group.as_ref());
    match action.as_ref().filter(|action| is_engine_made(action)) {
        None => query.text(" AND action = ?", action.as_ref()),
        Some(action) => query.add(
            " AND (action = ? OR id IN (SELECT grp FROM error WHERE instr(body, ?) > 0))",
            [Value::from(action.to_string()), found_by_pattern(action)],
        ),
    }
    query.text(" AND id IN (SELECT grp FROM error_group_flow WHERE flow = ?)", flow.as_ref());
    if let Some(since) = since {
        query.add(" AND last >= ?", [since.0.into()]);
    }
    if let Some(GroupPlace { last, group }) = after {
        query.add(
            " AND last <= ? AND (last < ? OR id > ?)",
            [last.0.into(), last.0.into(), group.to_string().into()],
        );
    }
    query.limit(" ORDER BY last DESC, id LIMIT ?", limit);
    let mut groups = query.rows(connection, |row| read_group(row).map_err(store_error))?;
    for group in &mut groups {
        open_count::read(connection, group)?;
        let mut flows = Query::new("SELECT flow, count FROM error_group_flow WHERE grp = ?");
        flows.values.push(group.group.to_string().into());
        let counts = flows.rows(connection, |row| {
            let flow: String = row.get(0).map_err(store_error)?;
            Ok((Arc::from(flow), unsigned(row.get(1).map_err(store_error)?)))
        })?;
        group.flows = most_frequent_first(counts);
        let mut examples = Query::new("SELECT body FROM error WHERE grp = ?");
        examples.values.push(group.group.to_string().into());
        examples.limit(" ORDER BY id DESC LIMIT ?", MAX_EXAMPLES);
        group.examples = examples.rows(connection, |row| read_body(row, 0, "an error"))?;
    }
    Ok(groups)
}

fn read_group(row: &Row<'_>) -> Result<ErrorGroup, rusqlite::Error> {
    let texts: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
    let [group, action, pattern] = texts.map(Into::into);
    Ok(ErrorGroup {
        group,
        action,
        pattern,
        first: Time(row.get(3)?),
        last: Time(row.get(4)?),
        count: unsigned(row.get(5)?),
        flows: Vec::new(),
        open: 0,
        runs: 0,
        acknowledged: 0,
        scheduled: Vec::new(),
        examples: Vec::new(),
    })
}

/// Counts, per policy, the errors that it has taken and the runs that it will resume.
pub(crate) fn list_policy_hits(connection: &Connection) -> Result<Vec<PolicyHits>, StoreError> {
    let mut tally = HitTally::default();
    Query::new("SELECT policy, hits, last FROM policy_hit").rows(connection, |row| {
        let policy: String = row.get(0).map_err(store_error)?;
        let hits = unsigned(row.get(1).map_err(store_error)?);
        tally.add_hits(policy.into(), hits, Time(row.get(2).map_err(store_error)?));
        Ok(())
    })?;
    let sql = "SELECT policy, run FROM open_error INDEXED BY open_error_group
        WHERE policy IS NOT NULL AND NOT acknowledged";
    Query::new(sql).rows(connection, |row| {
        let policy = row.get_ref(0).map_err(store_error)?;
        let policy = policy.as_str().map_err(|error| broken_store(error.to_string()))?;
        tally.add_scheduled(policy, RunId(unsigned(row.get(1).map_err(store_error)?)));
        Ok(())
    })?;
    Ok(tally.into_hits())
}

/// Lists runs from before open errors were stored whose errors nobody has collected since.
pub(crate) fn list_runs_to_backfill(
    connection: &Connection,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunId>, StoreError> {
    let mut query = Query::new("SELECT run FROM unexamined WHERE run > ?");
    query.values.push(after.map_or(Ok(0), |after| number(after.0))?.into());
    query.limit(" ORDER BY run LIMIT ?", limit);
    query.rows(connection, |row| Ok(RunId(unsigned(row.get(0).map_err(store_error)?))))
}

fn read_body<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &str,
) -> Result<T, StoreError> {
    let text = row.get_ref(column).map_err(store_error)?;
    from_text(text.as_str().map_err(|error| broken_store(format!("{what} is damaged: {error}")))?, what)
}

/// Returns whether the open errors of a run are stored: runs from before they were have none until they are
/// backfilled.
pub(crate) fn is_backfilled(connection: &Connection, run: RunId) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM unexamined WHERE run = ?1").map_err(store_error)?;
    statement.exists([number(run.0)?]).map(|is_unexamined| !is_unexamined).map_err(store_error)
}

/// Returns whether a run has had an error that the filter asks for; true if it asks for none.
pub(crate) fn has_error(connection: &Connection, filter: &RunFilter, run: RunId) -> Result<bool, StoreError> {
    if !filter.has_error_criteria() {
        return Ok(true);
    }
    let mut query = Query::new("SELECT 1 FROM error WHERE run = ?");
    query.add("", [number(run.0)?.into()]);
    query.text(" AND grp = ?", filter.group.as_ref());
    query.text(" AND instr(json_extract(body, '$.cause'), ?) > 0", filter.cause.as_ref());
    query.limit(" LIMIT ?", 1);
    Ok(!query.rows(connection, |_| Ok(()))?.is_empty())
}
