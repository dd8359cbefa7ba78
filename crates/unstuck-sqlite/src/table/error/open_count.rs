//! The tables `error_open` and `error_open_policy`: how many open errors each group has, so that nobody counts them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use unstuck_core::errors::OpenError;
use unstuck_core::id::RunId;
use unstuck_store::contract::{ErrorGroup, StoreError};
use unstuck_store::tally::most_frequent_first;

use crate::error::store_error;
use crate::pending_transaction::unit_columns;
use crate::table::error::{OpenErrorChange, Query};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;

/// By how much counts change with what is written together.
#[derive(Debug, Default)]
pub(crate) struct OpenChanges {
    groups: HashMap<Arc<str>, GroupChange>,
    policies: HashMap<(Arc<str>, Arc<str>), i64>,
}

#[derive(Debug, Default)]
struct GroupChange {
    open: i64,
    runs: i64,
    acknowledged: i64,
}

/// An open error as it is counted.
#[derive(Debug)]
pub(crate) struct CountedError {
    group: Arc<str>,
    is_acknowledged: bool,
    /// The policy that will resume it, by its name.
    policy: Option<Arc<str>>,
}

/// The open error of a unit, as far as counts depend on it.
pub(super) const COUNTED_OF_UNIT: &str =
    "SELECT grp, acknowledged, policy_name FROM open_error WHERE run = ?1 AND step = ?2 AND item = ?3";

/// Loads the open errors of a run, as far as counts depend on them.
pub(super) fn load_counted(connection: &Connection, run: RunId) -> Result<Vec<CountedError>, StoreError> {
    let sql = "SELECT grp, acknowledged, policy_name FROM open_error WHERE run = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([number(run.0)?], read_counted);
    rows.and_then(Iterator::collect).map_err(store_error)
}

/// Reads the columns `grp`, `acknowledged` and `policy_name`.
pub(super) fn read_counted(row: &Row<'_>) -> Result<CountedError, rusqlite::Error> {
    let (group, policy): (String, Option<String>) = (row.get(0)?, row.get(2)?);
    Ok(CountedError { group: group.into(), is_acknowledged: row.get(1)?, policy: policy.map(Arc::from) })
}

impl CountedError {
    fn of(error: &OpenError) -> CountedError {
        CountedError {
            group: error.record.group.clone(),
            is_acknowledged: error.acknowledged,
            policy: error.resume.as_ref().map(|(_, policy)| policy.name.clone()),
        }
    }
}

impl OpenChanges {
    /// Moves the counts from what a unit had open before the change to what it has now; the caller loads `before` before
    /// it writes.
    pub(crate) fn change_unit(
        &mut self,
        connection: &Connection,
        change: &OpenErrorChange,
        before: Option<&CountedError>,
    ) -> Result<(), StoreError> {
        let after = change.error.as_ref().map(CountedError::of);
        for (error, by) in [(before, -1), (after.as_ref(), 1)] {
            if let Some(error) = error {
                self.add(error, by);
            }
        }
        let groups: BTreeSet<&Arc<str>> =
            before.iter().copied().chain(&after).map(|error| &error.group).collect();
        for group in groups {
            let is_open = |error: &CountedError| error.group == *group && !error.is_acknowledged;
            let (was, is) = (before.is_some_and(is_open), after.as_ref().is_some_and(is_open));
            // With another step in it, the run is counted all the same.
            if was != is && (change.is_only || !has_other_open_unit(connection, change, group)?) {
                self.groups.entry(group.clone()).or_default().runs += i64::from(is) - i64::from(was);
            }
        }
        Ok(())
    }

    /// Takes all that a run has open out of the counts.
    pub(crate) fn remove_run(&mut self, open: &[CountedError]) {
        for error in open {
            self.add(error, -1);
        }
        let groups: BTreeSet<&Arc<str>> =
            open.iter().filter(|error| !error.is_acknowledged).map(|error| &error.group).collect();
        for group in groups {
            self.groups.entry(group.clone()).or_default().runs -= 1;
        }
    }

    fn add(&mut self, error: &CountedError, by: i64) {
        let change = self.groups.entry(error.group.clone()).or_default();
        if error.is_acknowledged {
            change.acknowledged += by;
            return;
        }
        change.open += by;
        if let Some(policy) = &error.policy {
            *self.policies.entry((error.group.clone(), policy.clone())).or_default() += by;
        }
    }

    pub(crate) fn write(self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let sql = "INSERT INTO error_open (grp, open, runs, acknowledged) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (grp) DO UPDATE SET open = open + excluded.open, runs = runs + excluded.runs,
            acknowledged = acknowledged + excluded.acknowledged";
        for (group, GroupChange { open, runs, acknowledged }) in self.groups {
            if (open, runs, acknowledged) != (0, 0, 0) {
                prepare(transaction, sql)?
                    .execute(params![&*group, open, runs, acknowledged])
                    .map_err(store_error)?;
            }
        }
        let sql = "INSERT INTO error_open_policy (grp, policy, count) VALUES (?1, ?2, ?3)
            ON CONFLICT (grp, policy) DO UPDATE SET count = count + excluded.count";
        for ((group, policy), by) in self.policies.into_iter().filter(|(_, by)| *by != 0) {
            prepare(transaction, sql)?.execute(params![&*group, &*policy, by]).map_err(store_error)?;
        }
        Ok(())
    }
}

/// Returns whether another unit of the run has an open, unacknowledged error of this group: the run is then counted
/// already.
fn has_other_open_unit(
    connection: &Connection,
    change: &OpenErrorChange,
    group: &str,
) -> Result<bool, StoreError> {
    let (step, item) = unit_columns(Some(change.unit));
    let sql = "SELECT 1 FROM open_error INDEXED BY open_error_group
        WHERE grp = ?1 AND run = ?2 AND NOT acknowledged AND (step, item) <> (?3, ?4) LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.exists(params![group, number(change.run.0)?, step, item]).map_err(store_error)
}

/// What is open of a group.
pub(super) fn read(connection: &Connection, group: &mut ErrorGroup) -> Result<(), StoreError> {
    let sql = "SELECT open, runs, acknowledged FROM error_open WHERE grp = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let counts = statement.query_row([&*group.group], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (open, runs, acknowledged) = counts.optional().map_err(store_error)?.unwrap_or((0, 0, 0));
    (group.open, group.runs, group.acknowledged) = (unsigned(open), unsigned(runs), unsigned(acknowledged));
    let mut query = Query::new("SELECT policy, count FROM error_open_policy WHERE count > 0 AND grp = ?");
    query.add("", [group.group.to_string().into()]);
    let scheduled = query.rows(connection, |row| {
        let policy: String = row.get(0).map_err(store_error)?;
        Ok((Arc::from(policy), unsigned(row.get(1).map_err(store_error)?)))
    })?;
    group.scheduled = most_frequent_first(scheduled);
    Ok(())
}
