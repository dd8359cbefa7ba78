//! Changes of policies, as a store keeps them.

use std::sync::Arc;

use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::time::Time;

pub use unstuck_core::policy::{PolicyAudit, PolicyAuditKind};

use super::{AuditRecord, CallOrigin, CallOutcome, IdempotencyKey, IdempotencyRecord, Ledger};

/// A change of the policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyChange {
    /// All of them, as they are from now on; ids and names are unique.
    pub policies: Vec<Policy>,
    /// Whether they resume anything from now on.
    pub switch: PolicySwitch,
    /// What was changed, in order. Each has an entry in the general audit too.
    pub changes: Vec<PolicyAudit>,
    /// Where that was asked from.
    pub origin: CallOrigin,
    /// The key that it was asked under, with the names of what stays as it was: the store adds the numbers of the changes.
    pub idempotency: Option<(IdempotencyKey, Vec<Arc<str>>)>,
}

impl PolicyChange {
    /// What is recorded of it, where its changes have the numbers from `first` on.
    pub fn ledger(&self, first: AuditId) -> Ledger {
        let ids: Vec<AuditId> = (first.0..).map(AuditId).take(self.changes.len()).collect();
        let entries = self.changes.iter().zip(&ids);
        let audit: Vec<AuditRecord> =
            entries.map(|(change, id)| AuditRecord::of_policy_change(change, *id, &self.origin)).collect();
        let at = self.changes.first().map(|change| change.at);
        let idempotency = self.idempotency.clone().zip(at).map(|((key, unchanged), at)| {
            let outcome = CallOutcome::PoliciesChanged { changes: ids, unchanged };
            IdempotencyRecord { key, at, outcome }
        });
        Ledger { idempotency, audit }
    }
}

/// Names a change of one policy. They grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AuditId(pub u64);

/// What a policy has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyHits {
    /// The id of the policy.
    pub policy: Arc<str>,
    /// How often it has taken an error.
    pub hits: u64,
    /// When it last did.
    pub last: Option<Time>,
    /// How many runs have a step that it will resume.
    pub scheduled: u64,
}
