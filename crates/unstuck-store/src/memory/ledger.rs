//! What is recorded of requests, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::id::AuditEntryId;
use unstuck_core::time::Time;

use crate::contract::{
    AuditEntry, AuditFilter, AuditRecord, IdempotencyRecord, Ledger, MAX_SWEPT_KEYS, StoreError, is_expired,
};
use crate::invariants::check_keys;

type Name = (Arc<str>, Arc<str>);

/// Keys that were used, and the audit.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestLedger {
    /// By scope and key.
    keys: BTreeMap<Name, IdempotencyRecord>,
    by_time: BTreeSet<(Time, Name)>,
    audit: Vec<AuditRecord>,
}

impl RequestLedger {
    /// Refuses keys that stand for something.
    pub(super) fn check(&self, records: &[IdempotencyRecord]) -> Result<(), StoreError> {
        check_keys(records, |scope, key| Ok(self.find(scope, key)))
    }

    pub(super) fn find(&self, scope: &str, key: &str) -> Option<IdempotencyRecord> {
        self.keys.get(&(Arc::from(scope), Arc::from(key))).cloned()
    }

    /// Records keys and entries, and removes some keys that stand for nothing any more.
    pub(super) fn add(&mut self, records: Vec<IdempotencyRecord>, entries: Vec<AuditRecord>) {
        self.audit.extend(entries);
        let (count, newest) = (records.len(), records.iter().map(|record| record.at).max());
        for record in records {
            let name = (record.key.scope.clone(), record.key.key.clone());
            self.by_time.insert((record.at, name.clone()));
            if let Some(replaced) = self.keys.insert(name.clone(), record) {
                self.by_time.remove(&(replaced.at, name));
            }
        }
        for _ in 0..count * MAX_SWEPT_KEYS {
            let first = self.by_time.first().cloned();
            let Some((at, name)) = first.filter(|(at, _)| newest.is_some_and(|now| is_expired(*at, now)))
            else {
                return;
            };
            self.keys.remove(&name);
            self.by_time.remove(&(at, name));
        }
    }

    /// Records what comes with a change that is made between batches.
    pub(super) fn add_ledger(&mut self, ledger: Ledger) {
        self.add(ledger.idempotency.into_iter().collect(), ledger.audit);
    }

    /// Lists entries that fit, newest first, before this one, at most `limit`.
    pub(super) fn list_after(&self, after: AuditEntryId, limit: usize) -> Vec<AuditEntry> {
        let numbered = (1..).map(AuditEntryId).zip(&self.audit);
        let found = numbered.skip_while(|(id, _)| *id <= after).take(limit);
        found.map(|(id, entry)| (id, entry.clone())).collect()
    }

    pub(super) fn list(
        &self,
        filter: &AuditFilter,
        before: Option<AuditEntryId>,
        limit: usize,
    ) -> Vec<AuditEntry> {
        let numbered = (1..).map(AuditEntryId).zip(&self.audit);
        let mut found: Vec<(AuditEntryId, &AuditRecord)> =
            numbered.take_while(|(id, _)| before.is_none_or(|before| *id < before)).collect();
        found.reverse();
        let fitting = found.into_iter().filter(|(_, entry)| filter.accepts(entry));
        fitting.take(limit).map(|(id, entry)| (id, entry.clone())).collect()
    }
}
