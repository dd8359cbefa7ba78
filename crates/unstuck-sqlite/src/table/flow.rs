//! The table `flow`: every version of every flow, with the order of its steps.

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::to_text;
use crate::table::number;
use crate::table::unsigned;
use crate::writer_claim::WriterClaim;
use rusqlite::{Connection, params};
use std::sync::Arc;
use unstuck_core::id::FlowId;
use unstuck_store::contract::{FlowRecord, StoreError};
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
    let damaged = |(flow, why): (FlowRecord, Option<String>)| match why {
        None => Ok(flow),
        Some(why) => {
            let FlowRecord { name, version, .. } = flow;
            Err(broken_store(format!("version {version} of flow `{name}` is damaged: {why}; {RESTORE}")))
        }
    };
    list_flow_rows(connection, after, limit)?.into_iter().map(damaged).collect()
}

/// As [`list_flows`], but returns damage with its row instead of failing.
pub(crate) fn list_flow_rows(
    connection: &Connection,
    after: FlowId,
    limit: usize,
) -> Result<Vec<(FlowRecord, Option<String>)>, StoreError> {
    let sql = "SELECT id, name, version, source, directory, steps, sum FROM flow WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query([number(after.0)?, limit]).map_err(store_error)?;
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
        let flow = FlowRecord { id, name, version, source, directory, steps };
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

/// Writes a flow version, or updates the folder and the order of steps of one that exists.
pub(crate) fn put_flow(
    connection: &mut Connection,
    claim: &WriterClaim,
    flow: &FlowRecord,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO flow (id, name, version, source, directory, steps, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (id) DO UPDATE SET directory = excluded.directory, steps = excluded.steps, sum = excluded.sum";
    let FlowRecord { id, name, version, source, directory, steps } = flow;
    let steps = steps.as_ref().map(to_text).transpose()?;
    let sum = sum_flow(flow, steps.as_deref());
    let transaction = claim.begin(connection)?;
    transaction
        .execute(sql, params![number(id.0)?, &**name, &**version, &**source, &**directory, steps, sum])
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)
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
