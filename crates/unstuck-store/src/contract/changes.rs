//! Changes of policies, as a store keeps them.

use std::sync::Arc;

use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::time::Time;

pub use unstuck_core::policy::{PolicyAudit, PolicyAuditKind};

/// A change of the policies.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChange {
    /// All of them, as they are from now on; ids and names are unique.
    pub policies: Vec<Policy>,
    /// Whether they resume anything from now on.
    pub switch: PolicySwitch,
    /// What was changed, in order.
    pub changes: Vec<PolicyAudit>,
}

/// Names a change of one policy. They grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
