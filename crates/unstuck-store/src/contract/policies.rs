//! Policies as a store keeps them, with who changed what.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_core::event::Actor;
use unstuck_core::policy::Policy;
use unstuck_core::time::Time;

/// A change of the policies.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChange {
    /// All of them, as they are from now on; ids and names are unique.
    pub policies: Vec<Policy>,
    /// What was changed, in order.
    pub changes: Vec<PolicyAudit>,
}

/// Names a change of one policy. They grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditId(pub u64);

/// The change of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAudit {
    /// When.
    pub at: Time,
    /// By whom.
    pub by: Actor,
    /// The id of the policy.
    pub policy: Arc<str>,
    /// Its name, after the change if it is still there.
    pub name: Arc<str>,
    /// What was done to it.
    pub what: PolicyDeed,
    /// As it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Policy>,
    /// As it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Policy>,
}

/// What is done to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyDeed {
    /// It is new.
    Added,
    /// It says something else.
    Changed,
    /// It takes part again.
    Enabled,
    /// It takes part no more.
    Disabled,
    /// It is gone.
    Deleted,
}

impl PolicyDeed {
    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            PolicyDeed::Added => "added",
            PolicyDeed::Changed => "changed",
            PolicyDeed::Enabled => "enabled",
            PolicyDeed::Disabled => "disabled",
            PolicyDeed::Deleted => "deleted",
        }
    }
}

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
