//! Policies in memory, and what was changed about them.

use unstuck_core::policy::{Policy, PolicySwitch};

use crate::contract::{AuditId, PolicyAudit, PolicyChange, StoreError};
use crate::invariants::check_policies;

/// The policies and their changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    pub(super) all: Vec<Policy>,
    pub(super) switch: PolicySwitch,
    audit: Vec<PolicyAudit>,
}

impl Policies {
    pub(super) fn put(&mut self, change: PolicyChange) -> Result<(), StoreError> {
        check_policies(&change.policies)?;
        self.all = change.policies;
        self.switch = change.switch;
        self.all.sort_by(|a, b| (a.age, &a.id).cmp(&(b.age, &b.id)));
        self.audit.extend(change.changes);
        Ok(())
    }

    /// The number of the next change.
    pub(super) fn next_audit_id(&self) -> AuditId {
        AuditId(self.audit.len() as u64 + 1)
    }

    pub(super) fn audit(&self, before: Option<AuditId>, limit: usize) -> Vec<(AuditId, PolicyAudit)> {
        let numbered = (1..).map(AuditId).zip(&self.audit);
        let mut found: Vec<(AuditId, &PolicyAudit)> =
            numbered.take_while(|(id, _)| before.is_none_or(|before| *id < before)).collect();
        found.reverse();
        found.into_iter().take(limit).map(|(id, audit)| (id, audit.clone())).collect()
    }
}
