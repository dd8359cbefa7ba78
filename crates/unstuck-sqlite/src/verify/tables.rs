//! The tables as wholes: events, wakeups, keys and notices that belong to nobody.

use rusqlite::Connection;
use unstuck_core::command::{ChildEnd, NoticeBody};
use unstuck_core::event::{Fact, Started};
use unstuck_core::id::RunId;
use unstuck_core::json::Payload;
use unstuck_core::model::labels::Labels;
use unstuck_core::model::run::Origin;
use unstuck_core::thing::ThingRef;
use unstuck_store::contract::StoreError;
use unstuck_store::verify::{Finding, Promise, REPORT, RESTORE};

use crate::error::store_error;
use crate::table::bulk;
use crate::table::event;
use crate::table::flow_status;
use crate::table::payload;
use crate::table::run_label;
use crate::table::unsigned;
use crate::verify::CheckReport;
use crate::verify::bulks;
use crate::verify::chain::Chain;
use crate::verify::counts;
use crate::verify::errors;
use crate::verify::logs;
use crate::verify::requests;
use crate::verify::run::{Totals, unreadable_finding};
use crate::verify::schedules;
use crate::verify::snapshot::Snapshot;

/// What to do about something that is only in the way.
pub(crate) const HARMLESS: &str = "no run is affected; unless the file was changed by hand, keep a copy of the store and report this as a bug";

/// Checks tables that can be checked without replaying runs.
pub(crate) fn check_tables(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    report_unreadable("who applied flows", report_orphaned_statuses(snapshot.connection, report), report)?;
    report_unreadable("the requests", requests::check_requests(snapshot.connection, report), report)?;
    report_unreadable("the errors", errors::check_errors(snapshot, report), report)?;
    report_unreadable("the logs", logs::check_logs(snapshot, report), report)?;
    report_unreadable("the policies", errors::check_policies(snapshot, report), report)
}

/// Reports that flow versions were applied or deleted that do not exist. Those that do are checked with their flows.
fn report_orphaned_statuses(connection: &Connection, report: &mut CheckReport) -> Result<(), StoreError> {
    for flow in flow_status::list_orphans(connection)? {
        let what = "who applied it is known, but the flow version does not exist";
        report.add(Finding::new(Promise::Flow, flow.to_string(), what, HARMLESS));
    }
    Ok(())
}

/// Checks what can only be known once all runs were replayed, such as rows that belong to no run.
pub(crate) fn check_totals(
    snapshot: &mut Snapshot<'_>,
    totals: &mut Totals,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    for (name, (taken, max)) in &totals.slots {
        if taken > max {
            let what = format!("{taken} runs have a slot, but at most {max} may: too many run at once");
            report.add(Finding::new(Promise::Slot, format!("limit `{name}`"), what, REPORT));
        }
    }
    if has_orphaned_events(snapshot.connection, totals)? {
        report_unreadable("the log", report_orphaned_events(snapshot, totals, report), report)?;
    }
    if totals.has_stray_wakes {
        report_unreadable("the wakeups", report_orphaned_wakeups(snapshot, report), report)?;
    }
    if totals.has_stray_errors {
        report_unreadable("the errors", errors::check_stray_errors(snapshot, report), report)?;
    }
    if totals.has_stray_snapshots {
        report_unreadable("the stored states", report_orphaned_snapshots(snapshot, report), report)?;
    }
    report_unreadable("the notices", check_notices(snapshot, report), report)?;
    report_unreadable("the keys", report_orphaned_keys(snapshot, totals, report), report)?;
    report_unreadable("the labels", report_orphaned_labels(snapshot, totals, report), report)?;
    report_unreadable("the bulk actions", bulks::check_bulks(snapshot, totals, report), report)?;
    report_unreadable("the schedules", schedules::check_schedules(snapshot, report), report)?;
    report_unreadable(
        "the counts",
        counts::check_counts(snapshot.connection, std::mem::take(&mut totals.rows), report),
        report,
    )
}

/// Turns an error that would come again into a finding, so that the rest is still checked; a transient one ends the
/// check.
pub(crate) fn report_unreadable(
    what: &str,
    result: Result<(), StoreError>,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    match result {
        Err(error) if !error.is_transient() => {
            report.add(unreadable_finding(what, &error));
            Ok(())
        }
        result => result,
    }
}

pub(crate) fn count_rows(connection: &Connection, table: &str) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).map(unsigned).map_err(store_error)
}

/// Whether there are more events than are in the history of a run: what is in a history is in the table. Where nothing was
/// ever forgotten, every position from the first, which is 1, to the last is in a history, and nobody has to count.
fn has_orphaned_events(connection: &Connection, totals: &Totals) -> Result<bool, StoreError> {
    let visited = totals.visited.len();
    Ok(visited != event::load_last_position(connection)? && visited != count_rows(connection, "event")?)
}

/// Reports events that are in the history of no run.
fn report_orphaned_events(
    snapshot: &mut Snapshot<'_>,
    totals: &Totals,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    let mut statement = connection.prepare("SELECT pos, run FROM event ORDER BY pos").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        let pos = unsigned(row.get(0).map_err(store_error)?);
        let run = RunId(unsigned(row.get(1).map_err(store_error)?));
        if !totals.visited.contains(pos) && snapshot.broken.insert(run) {
            let what = format!("no history leads to it: this part of the history of {run} is lost");
            report.add(Finding::new(Promise::History, format!("event row {pos}"), what, RESTORE));
        }
    }
    Ok(())
}

/// Reports timers, queue entries and leases of runs that do not exist.
fn report_orphaned_wakeups(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    // Only a run with a row has wakeups in rows.
    for_each_run(connection, "SELECT DISTINCT run FROM wake WHERE run NOT IN (SELECT id FROM run)", |run| {
        let what = "it has a timer or queue entry, but no row";
        report.add(Finding::new(Promise::Wakeup, run.to_string(), what, RESTORE));
        Ok(())
    })?;
    for_each_run(connection, "SELECT DISTINCT run FROM lease WHERE run NOT IN (SELECT id FROM run)", |run| {
        if !snapshot.tail.contains_key(&run) {
            let what = "it has a lease, but the run does not exist";
            report.add(Finding::new(Promise::Wakeup, run.to_string(), what, HARMLESS));
        }
        Ok(())
    })
}

/// Reports snapshots of runs without a row.
fn report_orphaned_snapshots(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let sql = "SELECT run FROM run_snapshot WHERE run NOT IN (SELECT id FROM run)";
    for_each_run(snapshot.connection, sql, |run| {
        let what = "its state is stored, but it has no row";
        report.add(Finding::new(Promise::Snapshot, run.to_string(), what, HARMLESS));
        Ok(())
    })
}

pub(crate) fn for_each_run(
    connection: &Connection,
    sql: &str,
    mut each: impl FnMut(RunId) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        each(RunId(unsigned(row.get(0).map_err(store_error)?)))?;
    }
    Ok(())
}

/// Reports keys that lead to a run which does not have them. Every run with a key was found by it, so rows are only
/// searched if there are more keys than such runs.
fn report_orphaned_keys(
    snapshot: &Snapshot<'_>,
    totals: &Totals,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    if count_rows(connection, "run_key")? == totals.keys {
        return Ok(());
    }
    let mut statement = connection.prepare("SELECT flow, key, run FROM run_key").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        let (flow, key): (String, String) =
            (row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
        let run = RunId(unsigned(row.get(2).map_err(store_error)?));
        let Some(has) = load_key(snapshot, run)? else { continue };
        let what = match has {
            KeyOf::Nobody => {
                format!("it leads to {run}, which does not exist: its flow cannot be started with it")
            }
            KeyOf::Run(name, own) if (&name, own.as_ref()) != (&flow, Some(&key)) => {
                format!("it leads to {run}, which does not have it")
            }
            KeyOf::Run(..) => continue,
        };
        report.add(Finding::new(Promise::Key, format!("key `{key}` of flow `{flow}`"), what, RESTORE));
    }
    Ok(())
}

/// Reports labels that lead to a run which does not have them. Every label of a run was looked up, so rows are only
/// searched if there are more.
fn report_orphaned_labels(
    snapshot: &Snapshot<'_>,
    totals: &Totals,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let connection = snapshot.connection;
    if count_rows(connection, "run_label")? == totals.labels {
        return Ok(());
    }
    let mut statement = connection.prepare("SELECT name, value, run FROM run_label").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        let (name, value): (String, String) =
            (row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
        let run = RunId(unsigned(row.get(2).map_err(store_error)?));
        let what = match load_labels(snapshot, run)? {
            LabelsOf::Unreadable => continue,
            LabelsOf::Nobody => format!("it leads to {run}, which does not exist"),
            LabelsOf::Run(labels) if labels.get(&name) == Some(&value) => continue,
            LabelsOf::Run(_) => {
                format!("it leads to {run}, which does not have it: lists by label would show it")
            }
        };
        report.add(Finding::new(Promise::Row, format!("label `{name}={value}`"), what, RESTORE));
    }
    Ok(())
}

/// Who has a key.
enum KeyOf {
    Nobody,
    /// A run of this flow, with this key of its own.
    Run(String, Option<String>),
}

/// The labels that a run has of its own.
enum LabelsOf {
    Unreadable,
    Nobody,
    Run(Labels),
}

/// Computes the labels of a run from its history.
fn load_labels(snapshot: &Snapshot<'_>, run: RunId) -> Result<LabelsOf, StoreError> {
    if snapshot.broken.contains(&run) {
        return Ok(LabelsOf::Unreadable);
    }
    let Some(head) = snapshot.head(run)? else { return Ok(LabelsOf::Nobody) };
    let mut statement = Chain::statement(snapshot.connection)?;
    let chain = Chain::read(&mut statement, run, head, head, None)?;
    if chain.links.iter().any(|link| link.record.is_err()) {
        return Ok(LabelsOf::Unreadable);
    }
    let events = chain.links.iter().filter_map(|link| link.record.as_ref().ok()).map(|record| &record.event);
    Ok(LabelsOf::Run(run_label::fold_labels(run, events)))
}

/// How a run was started.
enum StartOf {
    Unreadable,
    Nobody,
    Run(Box<Started>),
}

/// Loads the start of a run from its history.
fn load_start(snapshot: &Snapshot<'_>, run: RunId) -> Result<StartOf, StoreError> {
    if snapshot.broken.contains(&run) {
        return Ok(StartOf::Unreadable);
    }
    let Some(head) = snapshot.head(run)? else { return Ok(StartOf::Nobody) };
    let mut statement = Chain::statement(snapshot.connection)?;
    let chain = Chain::read(&mut statement, run, head, head, None)?;
    let first = chain.links.first().and_then(|link| link.record.as_ref().ok());
    match first.and_then(|first| first.event.facts.first()) {
        Some(Fact::Started(started)) => Ok(StartOf::Run(started.clone())),
        Some(_) | None => Ok(StartOf::Unreadable),
    }
}

/// The flow and key of a run, from its start; `None` where that cannot be read.
fn load_key(snapshot: &Snapshot<'_>, run: RunId) -> Result<Option<KeyOf>, StoreError> {
    let started = match load_start(snapshot, run)? {
        StartOf::Unreadable => return Ok(None),
        StartOf::Nobody => return Ok(Some(KeyOf::Nobody)),
        StartOf::Run(started) => started,
    };
    let flow = snapshot.flows.get(&started.flow).map(|version| version.name.to_string());
    Ok(flow.map(|flow| KeyOf::Run(flow, started.key.as_ref().map(ToString::to_string))))
}

/// Checks that the receiver of every notice exists, and that what the notice names does.
fn check_notices(snapshot: &Snapshot<'_>, report: &mut CheckReport) -> Result<(), StoreError> {
    let mut found: Vec<(ThingRef, &NoticeBody)> = snapshot.notices().collect();
    found.sort_unstable_by_key(|(to, _)| *to);
    for (to, body) in found {
        let mut add = |promise: Promise, what: String| {
            report.add(Finding::new(promise, format!("a notice to {to}"), what, RESTORE));
        };
        if to.number() > snapshot.last_id {
            let what = "that is above the last id of the store, so ids would be used twice";
            add(Promise::Id, what.to_owned());
        }
        let (origin, payload) = match body {
            NoticeBody::StartChild(start) => (&start.origin, Some(&start.input)),
            NoticeBody::ChildEnded { child, how: ChildEnd::Completed(output) } => {
                (&child.origin, Some(output))
            }
            NoticeBody::ChildEnded { child, .. } | NoticeBody::ChildChanged { child, .. } => {
                (&child.origin, None)
            }
            // Those that are for a child which could not be started find nobody, and that is as it must be.
            NoticeBody::ContinueChild { .. }
            | NoticeBody::CancelChild { .. }
            | NoticeBody::PauseChild
            | NoticeBody::UnpauseChild
            | NoticeBody::AmendChild { .. } => continue,
            NoticeBody::TargetEnded { place, .. } => {
                let ThingRef::Bulk(id) = to else {
                    add(Promise::Notice, "it tells how a target came out, but a run has none".to_owned());
                    continue;
                };
                if bulk::find_total(snapshot.connection, id)?.is_none_or(|total| *place >= total) {
                    add(Promise::Notice, format!("there is no target {place} of it to tell about"));
                }
                continue;
            }
        };
        let Some(to) = to.run() else {
            add(Promise::Notice, format!("it is between runs, but that is none: {to}"));
            continue;
        };
        if let Some(Payload::Stored(id)) = payload
            && !payload::has_payload(snapshot.connection, *id)?
        {
            add(Promise::Payload, format!("its payload {id} is missing"));
        }
        if let Some(what) = find_wrong_address(snapshot, to, body, origin)? {
            add(Promise::Notice, what);
        }
    }
    Ok(())
}

/// Returns what is wrong if a notice between parent and child is not for the run that it should be for.
fn find_wrong_address(
    snapshot: &Snapshot<'_>,
    to: RunId,
    body: &NoticeBody,
    origin: &Origin,
) -> Result<Option<String>, StoreError> {
    let Some(parent) = origin.parent() else { return Ok(Some("it names no parent".to_owned())) };
    let child = match body {
        NoticeBody::StartChild(_) => {
            let is_there = snapshot.exists(parent)?;
            return Ok((!is_there).then(|| format!("it starts a child of {parent}, which does not exist")));
        }
        NoticeBody::ChildEnded { child, .. } | NoticeBody::ChildChanged { child, .. } => child.run,
        NoticeBody::ContinueChild { .. }
        | NoticeBody::CancelChild { .. }
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild
        | NoticeBody::AmendChild { .. }
        | NoticeBody::TargetEnded { .. } => return Ok(None),
    };
    if to != parent {
        return Ok(Some(format!("it is from a child of {parent}, which would wait for it forever")));
    }
    // Both may have been forgotten while it was on its way.
    let is_lost = !snapshot.exists(to)? && snapshot.exists(child)?;
    Ok(is_lost.then(|| format!("it is from {child}, but {to} does not exist")))
}
