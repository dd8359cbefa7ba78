//! Errors and policies: each error is recorded once, what is open is what the states say, and what is counted fits.

use std::collections::BTreeMap;
use std::fmt::Display;

use rusqlite::{Connection, Row};
use unstuck_core::errors::{ErrorRecord, LedTo, OpenError, open_error};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::policy::{Policies, Policy};
use unstuck_store::contract::{PolicyAudit, StoreError};
use unstuck_store::verify::{Finding, Promise, RESTORE};

use crate::checksum;
use crate::error::store_error;
use crate::table::error;
use crate::table::meta;
use crate::table::unsigned;
use crate::table::wake::unit_from_columns;
use crate::verify::CheckReport;
use crate::verify::snapshot::Snapshot;
use crate::verify::tables::{HARMLESS, for_each_run};

/// The attempts of a run that ended in error, or that its deadline met, and whether each must be recorded: those from
/// before errors were kept need not be.
#[derive(Debug, Default)]
pub(crate) struct EndedInError(BTreeMap<(u32, UnitRef, u32, bool), bool>);

impl EndedInError {
    /// Notes the errors that an event must have recorded; `run` is the run after it.
    pub(crate) fn follow(&mut self, event: &Event, run: Option<&Run>, is_recorded: bool) {
        for fact in &event.facts {
            if let Fact::Unit { unit, fact: UnitFact::Ended { attempt, outcome } } = fact
                && matches!(outcome, Outcome::Stalled(_) | Outcome::Failed(_))
            {
                self.0.insert((event.generation, *unit, *attempt, false), is_recorded);
            }
            if let Fact::Failing { error, .. } = fact
                && let Some(unit) = error.waiting
            {
                let attempt = run.and_then(|run| run.unit(unit)).map_or(0, |unit| unit.attempts);
                self.0.insert((event.generation, unit, attempt, true), is_recorded);
            }
        }
    }

    /// Compares what the events must have recorded with the rows of errors of the run.
    pub(crate) fn compare(mut self, run: RunId, kept: Vec<StoredError>, findings: &mut Vec<Finding>) {
        let mut add =
            |what: String| findings.push(Finding::new(Promise::Error, run.to_string(), what, HARMLESS));
        for StoredError { id, record, is_found } in kept {
            let error = match record {
                Ok(error) => error,
                Err(problem) => {
                    add(format!("its error {id} cannot be read ({problem})"));
                    return;
                }
            };
            if !is_found {
                add(format!("its error {id} has search columns that do not match it"));
            }
            let is_deadline = error.led_to == LedTo::Deadline;
            if self.0.remove(&(error.generation, error.unit, error.attempt, is_deadline)).is_none() {
                let ErrorRecord { step, attempt, .. } = error;
                add(format!(
                    "error {id} names attempt {attempt} of step `{step}`, which ended differently, or it is recorded twice"
                ));
            }
        }
        for ((_, unit, attempt, _), _) in self.0.into_iter().filter(|(_, must)| *must) {
            let step = unit.step.0;
            add(format!(
                "attempt {attempt} of its step number {step} ended in error, which is not recorded: a backtest would not see it"
            ));
        }
    }
}

/// A recorded error of a run.
pub(crate) struct StoredError {
    id: i64,
    record: Result<ErrorRecord, String>,
    /// Whether its columns say what it says.
    is_found: bool,
}

impl StoredError {
    pub(crate) const COLUMNS: &str = "run, body, id, at, grp, flow, action";

    pub(crate) fn read(row: &Row<'_>) -> Result<StoredError, StoreError> {
        let (run, id) = (row.get(0).map_err(store_error)?, row.get(2).map_err(store_error)?);
        let record: Result<ErrorRecord, String> = parse_body(row, 1);
        let is_found = record.as_ref().is_ok_and(|error| {
            has_texts(row, 4, [&error.group, &error.root_flow, &error.action])
                && row.get(3) == Ok(error.at.0)
                && error.run == RunId(unsigned(run))
        });
        Ok(StoredError { id, record, is_found })
    }
}

/// What is kept of a step that is in error.
pub(crate) struct StoredOpenError {
    unit: Option<UnitRef>,
    error: Result<OpenError, String>,
    /// Whether its columns say what it says.
    is_found: bool,
}

impl StoredOpenError {
    pub(crate) const COLUMNS: &str =
        "run, body, step, item, acknowledged, grp, flow, action, policy, policy_name";

    pub(crate) fn read(row: &Row<'_>) -> Result<StoredOpenError, StoreError> {
        let unit = unit_from_columns(row.get(2).map_err(store_error)?, row.get(3).map_err(store_error)?);
        let error: Result<OpenError, String> = parse_body(row, 1);
        let is_found = error.as_ref().is_ok_and(|OpenError { record, resume, acknowledged }| {
            let policy = resume.as_ref().map(|(_, policy)| policy);
            let (id, name) = (policy.map(|policy| &*policy.id), policy.map(|policy| &*policy.name));
            row.get(4) == Ok(*acknowledged)
                && has_texts(row, 5, [&record.group, &record.root_flow, &record.action])
                && row.get(8) == Ok(id.map(str::to_owned))
                && row.get(9) == Ok(name.map(str::to_owned))
        });
        Ok(StoredOpenError { unit, error, is_found })
    }
}

/// Compares the rows of open errors with the units that are in error.
pub(crate) fn compare_open(
    connection: &Connection,
    run: &Run,
    flow: &Flow,
    kept: Vec<StoredOpenError>,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let in_error = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
    let mut wanted: BTreeMap<UnitRef, Option<OpenError>> =
        in_error.into_iter().map(|unit| (unit, open_error(run, flow, unit))).collect();
    let mut add =
        |what: String| findings.push(Finding::new(Promise::Error, run.id.to_string(), what, HARMLESS));
    let is_any = !kept.is_empty();
    for StoredOpenError { unit, error, is_found } in kept {
        match (unit.and_then(|place| wanted.remove(&place)).flatten(), error) {
            (_, Err(problem)) => add(format!("one of its open errors cannot be read ({problem})")),
            (None, Ok(kept)) => {
                add(format!("step `{}` is stored as in error, but is not", kept.record.step));
            }
            (Some(mut wanted), Ok(kept)) => {
                if kept.record.fingerprint_version != wanted.record.fingerprint_version {
                    let ErrorRecord { group, pattern, reason, fingerprint_version, .. } = kept.record.clone();
                    wanted.record =
                        ErrorRecord { group, pattern, reason, fingerprint_version, ..wanted.record };
                }
                // Those who recorded before knew an error that the engine found by the engine's name alone.
                if kept.record.found_by.is_none() && wanted.record.found_by.is_some() {
                    let ErrorRecord { group, action, .. } = kept.record.clone();
                    wanted.record = ErrorRecord { group, action, found_by: None, ..wanted.record };
                }
                if kept != wanted || !is_found {
                    let step = &kept.record.step;
                    add(format!("the stored error of step `{step}` does not match the run"));
                }
            }
        }
    }
    // What is older than open errors are has yet to be looked at.
    let is_examined = is_any || wanted.is_empty() || error::is_backfilled(connection, run.id)?;
    for unit in wanted.into_keys().filter(|_| is_examined) {
        let step = unstuck_core::decide::unit_name(flow, unit);
        add(format!("step `{step}` is in error, but is not stored as such and would not be shown"));
    }
    Ok(())
}

/// Checks that ids of errors are below the counter and grow with time, and that groups count at least what is
/// recorded.
pub(crate) fn check_errors(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    let last = meta::load_number(connection, "last_error")?.unwrap_or(0);
    let mut wrong = vec![(
        "SELECT id FROM error WHERE id > ?1",
        "it is above the last number of the store, so numbers would be used twice",
    )];
    if !snapshot.was_set_back() {
        wrong.push((
            "SELECT id FROM (SELECT id, at, lag(at) OVER (ORDER BY id) AS before FROM error) WHERE at < before AND ?1 >= 0",
            "it is older than the error before it and would not be found by its time",
        ));
    }
    for (sql, what) in wrong {
        let mut statement = connection.prepare(sql).map_err(store_error)?;
        let mut rows = statement.query([last]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let id: i64 = row.get(0).map_err(store_error)?;
            report.add(Finding::new(Promise::Error, format!("error {id}"), what, HARMLESS));
        }
    }
    check_groups(connection, report)
}

/// Finds rows of errors whose run does not exist.
pub(crate) fn check_stray_errors(
    snapshot: &Snapshot<'_>,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    for table in ["error", "open_error"] {
        let sql = format!("SELECT DISTINCT run FROM {table} WHERE run NOT IN (SELECT id FROM run)");
        for_each_run(snapshot.connection, &sql, |run| {
            if !snapshot.exists(run)? {
                let what = "it has errors, but the run does not exist";
                report.add(Finding::new(Promise::Error, run.to_string(), what, HARMLESS));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Checks that no group counts fewer errors than are recorded; more is right, as forgotten runs stay counted.
fn check_groups(connection: &Connection, report: &mut CheckReport) -> Result<(), StoreError> {
    let sql = "SELECT e.grp, count(*) FROM error e LEFT JOIN error_group g ON g.id = e.grp GROUP BY e.grp
            HAVING g.id IS NULL OR count(*) > g.count OR max(e.at) > g.last OR min(e.at) < g.first
        UNION ALL
        SELECT g.id, g.count FROM error_group g
            WHERE g.count != (SELECT coalesce(sum(count), 0) FROM error_group_flow f WHERE f.grp = g.id)";
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let group: String = row.get(0).map_err(store_error)?;
        let what = "its counts are too low, or do not match the counts by flow";
        report.add(Finding::new(Promise::Error, format!("group {group}"), what, HARMLESS));
    }
    Ok(())
}

/// Checks that every policy can be read and that all of them are valid together.
pub(crate) fn check_policies(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    let mut add =
        |place: String, what: String| report.add(Finding::new(Promise::Policy, place, what, RESTORE));
    let mut statement = connection.prepare("SELECT body, id, name, sum FROM policy").map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut all: Vec<Policy> = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let place = format!("policy {}", row.get::<_, String>(1).unwrap_or_default());
        match parse_body::<Policy>(row, 0) {
            Ok(_) if !is_policy_sum_valid(row) => {
                add(place, format!("it is damaged: {}, so no engine starts", checksum::WRONG_SUM));
            }
            Err(problem) => add(place, format!("it cannot be read ({problem}), so no engine starts")),
            Ok(policy) if !has_texts(row, 1, [&policy.id, &policy.name]) => {
                add(place, format!("it is stored under another id or name than its own, `{}`", policy.name));
            }
            Ok(policy) => all.push(policy),
        }
    }
    for (_, problem) in Policies::new(all).err().unwrap_or_default() {
        add("the policies".to_owned(), format!("they conflict with each other: {}", problem.message));
    }
    let mut statement = connection.prepare("SELECT body, id FROM policy_audit").map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        if let Err(problem) = parse_body::<PolicyAudit>(row, 0) {
            let id: i64 = row.get(1).map_err(store_error)?;
            add(format!("change {id} of the policies"), format!("it cannot be read ({problem})"));
        }
    }
    Ok(())
}

/// Whether the checksum of a policy fits its body and its id.
fn is_policy_sum_valid(row: &Row<'_>) -> bool {
    let fits = |row: &Row<'_>| -> Result<bool, rusqlite::Error> {
        let (body, id): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(checksum::is_sum_valid(row.get(3)?, checksum::sum_row(&[], &[&id, &body])))
    };
    fits(row).unwrap_or(false)
}

/// Parses the JSON of a column; the error is part of a finding.
fn parse_body<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, String> {
    let say = |error: &dyn Display| error.to_string();
    let text = row.get_ref(column).map_err(|error| say(&error))?;
    serde_json::from_str(text.as_str().map_err(|error| say(&error))?).map_err(|error| say(&error))
}

/// Whether the columns from this one on are these texts.
fn has_texts<const N: usize>(row: &Row<'_>, first: usize, texts: [&str; N]) -> bool {
    texts.into_iter().enumerate().all(|(place, text)| {
        row.get_ref(first + place).is_ok_and(|found| found.as_str().is_ok_and(|found| found == text))
    })
}

/// Loads the position after which errors are recorded: events from before that have no rows.
pub(crate) fn load_recorded_after(connection: &Connection) -> Result<u64, StoreError> {
    Ok(meta::load_number(connection, "errors_from")?.map_or(0, unsigned))
}
