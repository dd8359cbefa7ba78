//! What is looked at once all runs are known: events, wakeups, keys, payloads and notices that belong to nobody.

use rusqlite::Connection;
use unstuck_core::command::{ChildEnd, NoticeBody};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::Origin;
use unstuck_store::audit::{FORGET, Finding, Promise, RESTORE};
use unstuck_store::contract::StoreError;

use crate::check::bulks;
use crate::check::chain::Chain;
use crate::check::errors;
use crate::check::run::{RunChecks, unreadable};
use crate::check::{Progress, Report};
use crate::error::store_error;
use crate::rows::{self, unsigned};
use crate::sums;
use crate::whose;

/// What to do about something that is only in the way.
pub(crate) const HARMLESS: &str = "no run is harmed by it; if nobody has changed the file by hand, keep a copy of the store and report this as a defect";

/// Looks at the tables as wholes.
pub(crate) fn check(mut checks: RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let passes: [(&str, Pass); 8] = [
        ("the log", orphaned_events),
        ("the wakeups", orphaned_wakeups),
        ("the keys", orphaned_keys),
        ("the payloads", payloads),
        ("the notices", notices),
        ("the errors", errors::check),
        ("the policies", errors::policies),
        ("the bulk actions", bulks::check),
    ];
    for (what, pass) in passes {
        match pass(&mut checks, report) {
            Err(error) if !error.may_pass() => report.add(unreadable(what, &error)),
            result => result?,
        }
    }
    Ok(())
}

type Pass = fn(&mut RunChecks<'_, '_>, &mut Report) -> Result<(), StoreError>;

/// Every event is in the history of a run: opening the store would not find it otherwise.
fn orphaned_events(checks: &mut RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let connection = checks.snapshot.connection;
    let of = report.events;
    let mut done = 0;
    let mut statement = connection.prepare("SELECT pos, run FROM event ORDER BY pos").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        let pos = unsigned(row.get(0).map_err(store_error)?);
        let run = RunId(unsigned(row.get(1).map_err(store_error)?));
        done += 1;
        if done % 100_000 == 0 {
            (checks.progress)(Progress { what: "events", done, of });
        }
        if checks.visited.contains(pos) {
            continue;
        }
        if checks.snapshot.broken.insert(run) {
            let what =
                format!("no history leads to it: what it and what follows it tell of {run} has been lost");
            report.add(Finding::new(Promise::History, format!("event row {pos}"), what, RESTORE));
        }
    }
    Ok(())
}

/// Every timer, queue entry and lease is that of a run.
fn orphaned_wakeups(checks: &mut RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let connection = checks.snapshot.connection;
    // Only a run with a row has wakeups in rows.
    each_run(connection, "SELECT DISTINCT run FROM wake WHERE run NOT IN (SELECT id FROM run)", |run| {
        let what = "something would wake it, and there is no row of it";
        report.add(Finding::new(Promise::Wakeup, run.to_string(), what, RESTORE));
        Ok(())
    })?;
    each_run(connection, "SELECT DISTINCT run FROM lease WHERE run NOT IN (SELECT id FROM run)", |run| {
        if !checks.snapshot.tail.contains_key(&run) {
            let what = "a lease is kept of it, and there is no such run";
            report.add(Finding::new(Promise::Wakeup, run.to_string(), what, HARMLESS));
        }
        Ok(())
    })
}

pub(crate) fn each_run(
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

/// Every key is that of the run that it leads to. Each run with a key was found by it; so only where there are more
/// keys than such runs, somebody has to look which.
fn orphaned_keys(checks: &mut RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let connection = checks.snapshot.connection;
    let count: i64 =
        connection.query_row("SELECT count(*) FROM run_key", [], |row| row.get(0)).map_err(store_error)?;
    if unsigned(count) == checks.keys {
        return Ok(());
    }
    let mut statement = connection.prepare("SELECT flow, key, run FROM run_key").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        let (flow, key): (String, String) =
            (row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?);
        let run = RunId(unsigned(row.get(2).map_err(store_error)?));
        let Some(has) = key_of(checks, run)? else { continue };
        let what = match has {
            KeyOf::Nobody => {
                format!("it leads to {run}, which is not there: its flow cannot be started with it")
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

/// Who has a key.
enum KeyOf {
    Nobody,
    /// A run of this flow, with this key of its own.
    Run(String, Option<String>),
}

/// The flow and key of a run, from its start; `None` where that cannot be read.
fn key_of(checks: &RunChecks<'_, '_>, run: RunId) -> Result<Option<KeyOf>, StoreError> {
    if checks.snapshot.broken.contains(&run) {
        return Ok(None);
    }
    let Some(head) = checks.snapshot.head(run)? else { return Ok(Some(KeyOf::Nobody)) };
    let chain = Chain::read(checks.snapshot.connection, run, head, None)?;
    let first = chain.links.first().and_then(|link| link.record.as_ref().ok());
    let Some(unstuck_core::event::Fact::Started(started)) = first.and_then(|first| first.event.facts.first())
    else {
        return Ok(None);
    };
    let flow = checks.snapshot.flows.get(&started.flow).map(|version| version.name.to_string());
    Ok(flow.map(|flow| KeyOf::Run(flow, started.key.as_ref().map(ToString::to_string))))
}

/// Every payload can be read, and belongs to a run.
fn payloads(checks: &mut RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let connection = checks.snapshot.connection;
    let of: i64 =
        connection.query_row("SELECT count(*) FROM payload", [], |row| row.get(0)).map_err(store_error)?;
    let mut statement =
        connection.prepare("SELECT id, run, body, sum FROM payload ORDER BY id").map_err(store_error)?;
    let mut found = statement.query([]).map_err(store_error)?;
    while let Some(row) = found.next().map_err(store_error)? {
        report.payloads += 1;
        if report.payloads.is_multiple_of(10_000) {
            (checks.progress)(Progress { what: "payloads", done: report.payloads, of: unsigned(of) });
        }
        let id = unstuck_core::id::PayloadId(unsigned(row.get(0).map_err(store_error)?));
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
            Ok(body) if Json::parse(body).is_ok() => {}
            Ok(_) | Err(_) => {
                add(Promise::Payload, format!("it cannot be read: {run} cannot use it"), RESTORE);
            }
        }
        if id.0 > checks.snapshot.last_id {
            let what = "it is above the last id that the store remembers: ids would be given out again";
            add(Promise::Id, what.to_owned(), RESTORE);
        }
        if !checks.snapshot.exists(run)? {
            add(Promise::Payload, format!("it belongs to {run}, which is not there"), HARMLESS);
        }
    }
    Ok(())
}

/// Every notice has somebody to go to, and carries what is there.
fn notices(checks: &mut RunChecks<'_, '_>, report: &mut Report) -> Result<(), StoreError> {
    let snapshot = &checks.snapshot;
    let mut found: Vec<(RunId, &NoticeBody)> = snapshot.notices().collect();
    found.sort_unstable_by_key(|(to, _)| *to);
    for (to, body) in found {
        let mut add = |promise: Promise, what: String| {
            report.add(Finding::new(promise, format!("a notice to {to}"), what, RESTORE));
        };
        if to.0 > snapshot.last_id {
            let what = "that is above the last id that the store remembers: ids would be given out again";
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
            | NoticeBody::UnpauseChild => continue,
        };
        if let Some(Payload::Stored(id)) = payload
            && !rows::has_payload(snapshot.connection, *id)?
        {
            add(Promise::Payload, format!("{id} is missing, which it carries"));
        }
        if let Some(what) = wrong_address(checks, to, body, origin)? {
            add(Promise::Notice, what);
        }
    }
    Ok(())
}

/// What is wrong with whom a notice between a parent and a child is for.
fn wrong_address(
    checks: &RunChecks<'_, '_>,
    to: RunId,
    body: &NoticeBody,
    origin: &Origin,
) -> Result<Option<String>, StoreError> {
    let Some(parent) = origin.parent() else { return Ok(Some("it says nothing of a parent".to_owned())) };
    let snapshot = &checks.snapshot;
    let child = match body {
        NoticeBody::StartChild(_) => {
            let is_there = snapshot.exists(parent)?;
            return Ok((!is_there).then(|| format!("it starts a child of {parent}, which is not there")));
        }
        NoticeBody::ChildEnded { child, .. } | NoticeBody::ChildChanged { child, .. } => child.run,
        NoticeBody::ContinueChild { .. }
        | NoticeBody::CancelChild { .. }
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild => return Ok(None),
    };
    if to != parent {
        return Ok(Some(format!("it is from a child of {parent}, which would wait for it for ever")));
    }
    // Both may have been forgotten while it was on its way.
    let is_lost = !snapshot.exists(to)? && snapshot.exists(child)?;
    Ok(is_lost.then(|| format!("it is from {child}, and {to} is not there")))
}
