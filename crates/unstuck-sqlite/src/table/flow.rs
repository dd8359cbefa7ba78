//! The table `flow`: every version of every flow, with the order of its steps.

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::to_text;
use crate::table::flow_status::{self, JOIN, STATUS_COLUMNS};
use crate::table::number;
use crate::table::prepare;
use crate::table::unsigned;
use crate::table::write_ledger;
use crate::writer_claim::WriterClaim;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::sync::Arc;
use unstuck_core::id::FlowId;
use unstuck_store::contract::{FlowRecord, Ledger, StoreError};
use unstuck_store::verify::RESTORE;

pub(crate) fn list_all_flows(connection: &Connection) -> Result<Vec<FlowRecord>, StoreError> {
    list_flows(connection, FlowId(0), usize::MAX)
}

/// Lists flow versions after this one in order of ids, at most `limit`; a damaged one is an error.
pub(crate) fn list_flows(
    connection: &Connection,
    after: FlowId,
    limit: usize,
) -> Result<Vec<FlowRecord>, StoreError> {
    list_flow_rows(connection, after, limit)?.into_iter().map(refuse_damage).collect()
}

fn refuse_damage((flow, why): (FlowRecord, Option<String>)) -> Result<FlowRecord, StoreError> {
    match why {
        None => Ok(flow),
        Some(why) => {
            let FlowRecord { name, version, .. } = flow;
            Err(broken_store(format!("version {version} of flow `{name}` is damaged: {why}; {RESTORE}")))
        }
    }
}

/// As [`list_flows`], but returns damage with its row instead of failing.
pub(crate) fn list_flow_rows(
    connection: &Connection,
    after: FlowId,
    limit: usize,
) -> Result<Vec<(FlowRecord, Option<String>)>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    query_rows(connection, "f.id > ?1 ORDER BY f.id LIMIT ?2", params![number(after.0)?, limit])
}

/// Lists versions of a flow before this one, the newest first, at most `limit`; a damaged one is an error.
pub(crate) fn list_versions_before(
    connection: &Connection,
    name: &str,
    before: Option<FlowId>,
    limit: usize,
) -> Result<Vec<FlowRecord>, StoreError> {
    let before = before.map_or(Ok(i64::MAX), |before| number(before.0))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let condition = "f.name = ?1 AND f.id < ?2 ORDER BY f.id DESC LIMIT ?3";
    query_rows(connection, condition, params![name, before, limit])?.into_iter().map(refuse_damage).collect()
}

/// Lists the flows that can be started in order of their names, after this one: their newest versions, and how many of
/// them can be started.
pub(crate) fn list_startable(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(FlowRecord, u64)>, StoreError> {
    let sql = format!(
        "SELECT max(f.id), count(*) FROM {JOIN} WHERE f.name > ?1 AND coalesce(s.deleted, 0) = 0
         GROUP BY f.name ORDER BY f.name LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = statement
        .query_map(params![after.unwrap_or_default(), limit], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(store_error)?;
    let found: Vec<(i64, i64)> = found.collect::<Result<_, _>>().map_err(store_error)?;
    let mut listed = Vec::with_capacity(found.len());
    for (newest, versions) in found {
        let record = query_rows(connection, "f.id = ?1", params![newest])?.pop().map(refuse_damage);
        listed.extend(record.transpose()?.map(|record| (record, unsigned(versions))));
    }
    Ok(listed)
}

/// Reads rows of flows with their status.
fn query_rows(
    connection: &Connection,
    condition: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(FlowRecord, Option<String>)>, StoreError> {
    let sql = format!(
        "SELECT f.id, f.name, f.version, f.source, f.directory, f.steps, f.sum, {STATUS_COLUMNS}
         FROM {JOIN} WHERE {condition}"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement.query(values).map_err(store_error)?;
    let mut flows = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let id = FlowId(unsigned(row.get(0).map_err(store_error)?));
        let text = |column: usize| row.get::<_, String>(column).map(Arc::<str>::from).map_err(store_error);
        let kept: Option<String> = row.get(5).map_err(store_error)?;
        let (steps, mut why) = match kept.as_deref().map(serde_json::from_str).transpose() {
            Ok(steps) => (steps, None),
            Err(error) => (None, Some(format!("the order of its steps cannot be read: {error}"))),
        };
        let (name, version, source, directory) = (text(1)?, text(2)?, text(3)?, text(4)?);
        let (applied, is_deleted) = match flow_status::read_status(row, id, 7)? {
            Ok(status) => status,
            Err(damage) => {
                why = Some(format!("who applied it is damaged: {damage}"));
                (None, false)
            }
        };
        let flow = FlowRecord { id, name, version, source, directory, steps, applied, is_deleted };
        if !checksum::is_sum_valid(row.get(6).map_err(store_error)?, sum_flow(&flow, kept.as_deref())) {
            why = Some(checksum::WRONG_SUM.to_owned());
        }
        flows.push((flow, why));
    }
    Ok(flows)
}

/// Steps of a version from before they were stored count as an empty text.
pub(crate) fn sum_flow(flow: &FlowRecord, steps: Option<&str>) -> i32 {
    let FlowRecord { id, name, version, source, directory, .. } = flow;
    checksum::sum_row(&[id.0], &[name, version, source, directory, steps.unwrap_or_default()])
}

/// Writes flow versions, or updates the folder, the order of steps and the status of those that exist.
pub(crate) fn put_flows(
    connection: &mut Connection,
    claim: &WriterClaim,
    flows: &[FlowRecord],
    ledger: &Ledger,
) -> Result<(), StoreError> {
    let transaction = claim.begin(connection)?;
    for flow in flows {
        write_flow(&transaction, flow)?;
    }
    write_ledger(&transaction, ledger)?;
    transaction.commit().map_err(store_error)
}

fn write_flow(transaction: &Transaction<'_>, flow: &FlowRecord) -> Result<(), StoreError> {
    let sql = "INSERT INTO flow (id, name, version, source, directory, steps, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (id) DO UPDATE SET directory = excluded.directory, steps = excluded.steps, sum = excluded.sum";
    let FlowRecord { id, name, version, source, directory, steps, .. } = flow;
    let steps = steps.as_ref().map(to_text).transpose()?;
    let sum = sum_flow(flow, steps.as_deref());
    prepare(transaction, sql)?
        .execute(params![number(id.0)?, &**name, &**version, &**source, &**directory, steps, sum])
        .map_err(store_error)?;
    flow_status::write_status(transaction, flow)
}

/// The names of all flows.
pub(crate) fn list_flow_names(connection: &Connection) -> Result<Vec<Arc<str>>, StoreError> {
    let sql = "SELECT DISTINCT name FROM flow ORDER BY name";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0)).map_err(store_error)?;
    names.map(|name| name.map(Arc::from)).collect::<Result<_, _>>().map_err(store_error)
}

/// The versions of the flow of this name, or of all, each with its name.
pub(crate) fn list_versions(
    connection: &Connection,
    name: Option<&str>,
) -> Result<Vec<(FlowId, String)>, StoreError> {
    let sql = "SELECT id, name FROM flow WHERE ?1 IS NULL OR name = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([name], |row| Ok((FlowId(unsigned(row.get(0)?)), row.get(1)?)));
    rows.map_err(store_error)?.collect::<Result<_, _>>().map_err(store_error)
}

/// The name of the flow of this version.
pub(crate) fn find_name(connection: &Connection, id: FlowId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT name FROM flow WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row([number(id.0)?], |row| row.get(0)).optional().map_err(store_error)
}
