//! Policies in the file, and what was changed about them.

use rusqlite::{Connection, OptionalExtension as _, params};
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_store::contract::{AuditId, PolicyAudit, PolicyChange, StoreError};
use unstuck_store::invariants::check_policies;
use unstuck_store::verify::RESTORE;

use crate::checksum;
use crate::error::{broken_store, store_error};
use crate::log_entry::{from_text, to_text};
use crate::table::number;
use crate::table::unsigned;
use crate::table::write_ledger;
use crate::writer_claim::WriterClaim;

/// Every policy, the oldest first.
pub(crate) fn list_policies(connection: &Connection) -> Result<Vec<Policy>, StoreError> {
    let sql = "SELECT body, sum, id FROM policy ORDER BY age, id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, String>(2)?)))
        .map_err(store_error)?;
    rows.map(|row| {
        let (body, kept, id) = row.map_err(store_error)?;
        if !checksum::is_sum_valid(kept, checksum::sum_row(&[], &[&id, &body])) {
            return Err(broken_store(format!("policy {id} is damaged: {}; {RESTORE}", checksum::WRONG_SUM)));
        }
        from_text(&body, "a policy")
    })
    .collect()
}

/// Loads whether automatic resumes are paused; a store from before that could be has them on.
pub(crate) fn load_switch(connection: &Connection) -> Result<PolicySwitch, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'policy_switch'";
    let kept: Option<String> =
        connection.query_row(sql, [], |row| row.get(0)).optional().map_err(store_error)?;
    kept.map_or_else(|| Ok(PolicySwitch::default()), |kept| from_text(&kept, "the switch of the policies"))
}

/// Replaces all policies, and appends the changes to the audit, in one transaction.
pub(crate) fn put_policies(
    connection: &mut Connection,
    claim: &WriterClaim,
    change: &PolicyChange,
) -> Result<(), StoreError> {
    check_policies(&change.policies)?;
    let transaction = claim.begin(connection)?;
    transaction.execute("DELETE FROM policy", []).map_err(store_error)?;
    let insert = "INSERT INTO policy (id, name, age, body, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
    for policy in &change.policies {
        let Policy { id, name, age, .. } = policy;
        let body = to_text(policy)?;
        let sum = checksum::sum_row(&[], &[id, &body]);
        transaction
            .execute(insert, params![&**id, &**name, number(*age)?, body, sum])
            .map_err(store_error)?;
    }
    let put = "INSERT INTO meta (name, value) VALUES ('policy_switch', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    transaction.execute(put, [to_text(&change.switch)?]).map_err(store_error)?;
    let last = "SELECT coalesce(max(id), 0) FROM policy_audit";
    let last: i64 = transaction.query_row(last, [], |row| row.get(0)).map_err(store_error)?;
    for (id, audit) in (last + 1..).zip(&change.changes) {
        transaction
            .execute("INSERT INTO policy_audit (id, body) VALUES (?1, ?2)", params![id, to_text(audit)?])
            .map_err(store_error)?;
    }
    write_ledger(&transaction, &change.ledger(AuditId(unsigned(last + 1))))?;
    transaction.commit().map_err(store_error)
}

/// The number of the last change of policies.
pub(crate) fn count_changes(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(id), 0) FROM policy_audit";
    connection.query_row(sql, [], |row| row.get(0)).map(unsigned).map_err(store_error)
}

/// Changes of policies, newest first.
pub(crate) fn list_audit(
    connection: &Connection,
    before: Option<AuditId>,
    limit: usize,
) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
    let sql = "SELECT id, body FROM policy_audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let before = before.map_or(Ok(i64::MAX), |before| number(before.0))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map([before, limit], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .map_err(store_error)?;
    rows.map(|row| {
        let (id, body) = row.map_err(store_error)?;
        Ok((AuditId(unsigned(id)), from_text(&body, "a change of a policy")?))
    })
    .collect()
}
