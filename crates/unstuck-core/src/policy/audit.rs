//! Who changed what about a policy.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Actor;
use crate::policy::Policy;
use crate::time::Time;

/// The change of one policy, or of the switch for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAudit {
    pub at: Time,
    pub by: Actor,
    /// The id of the policy; empty where it is about all of them.
    pub policy: Arc<str>,
    /// Its name, after the change if it is still there.
    pub name: Arc<str>,
    /// What was done to it.
    pub what: PolicyAuditKind,
    /// The reason that the actor gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
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
pub enum PolicyAuditKind {
    /// It is new.
    Added,
    /// Its contents changed.
    Changed,
    /// It takes part again.
    Enabled,
    /// It takes part no more.
    Disabled,
    /// It is gone.
    Deleted,
    /// No policy resumes anything.
    Paused,
    /// Policies resume again.
    Unpaused,
}

impl PolicyAuditKind {
    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            PolicyAuditKind::Added => "added",
            PolicyAuditKind::Changed => "changed",
            PolicyAuditKind::Enabled => "enabled",
            PolicyAuditKind::Disabled => "disabled",
            PolicyAuditKind::Deleted => "deleted",
            PolicyAuditKind::Paused => "paused",
            PolicyAuditKind::Unpaused => "unpaused",
        }
    }
}
