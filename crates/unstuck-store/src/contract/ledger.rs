//! What is recorded of requests, in the transaction of their effect: that a key was used, and who changed what.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unstuck_core::event::Actor;
use unstuck_core::id::{AuditEntryId, BulkId, FlowId, RunId, TokenId};
use unstuck_core::json::Json;
use unstuck_core::time::{Millis, Time};

use super::{AuditId, FlowChangeKind, PolicyAudit};

/// So long a key stands for its request, by the clock of the store.
pub const IDEMPOTENCY_RETENTION: Millis = Millis(24 * 3_600_000);

/// At most so many keys that stand for nothing any more are removed with each that is recorded: more than come, so that
/// they do not pile up, and few, so that no commit is long.
pub const MAX_SWEPT_KEYS: usize = 4;

/// The name of a request that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Whose key it is: keys of different tokens have nothing to do with each other.
    pub scope: Arc<str>,
    pub key: Arc<str>,
    /// Of all that the request says: the same key with another digest is another request.
    pub digest: [u8; 32],
}

/// A request that was carried out under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct IdempotencyRecord {
    pub key: IdempotencyKey,
    pub at: Time,
    pub outcome: CallOutcome,
}

impl IdempotencyRecord {
    /// Whether it stands for its request no more.
    pub fn is_expired(&self, now: Time) -> bool {
        is_expired(self.at, now)
    }
}

/// Whether a key that was recorded at `at` stands for its request no more.
pub fn is_expired(at: Time, now: Time) -> bool {
    at + IDEMPOTENCY_RETENTION <= now
}

/// What a request came to, as far as it is needed to answer its repeat from the present state: what was made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CallOutcome {
    /// A run was started, or `already` there under its key.
    Started {
        run: RunId,
        already: bool,
    },
    /// Something was done to a run, or had been done to it `already`.
    Changed {
        run: RunId,
        already: bool,
    },
    Forgotten {
        runs: Vec<RunId>,
    },
    /// A bulk action began; none where nothing was selected.
    BulkBegun {
        bulk: Option<BulkId>,
        left_out: u64,
    },
    BulkChanged {
        bulk: BulkId,
        already: bool,
    },
    /// The schedule of a flow was paused or goes on, or that was so `already`.
    ScheduleChanged {
        flow: Arc<str>,
        already: bool,
    },
    /// Flows were applied: each version, and what became of it.
    FlowsApplied {
        flows: Vec<(FlowId, FlowChangeKind)>,
    },
    FlowsDeleted {
        flows: Vec<FlowId>,
    },
    /// Policies were changed: the numbers of the changes, and the names of those that stayed as they were.
    PoliciesChanged {
        changes: Vec<AuditId>,
        unchanged: Vec<Arc<str>>,
    },
    /// A token was made or changed. Its secret is not kept, so that a repeat cannot show it again.
    Token {
        token: TokenId,
    },
}

/// Where a request came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallOrigin {
    /// The person behind a shared token, as it claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
}

/// Who changed what, why, and from where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    pub at: Time,
    pub by: Actor,
    #[serde(flatten)]
    pub origin: CallOrigin,
    /// What was done, such as `run.cancel`, `policy.changed` or `token.created`.
    pub what: Arc<str>,
    /// The run that it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What else: the name of a flow, policy or token, the id of a bulk action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thing: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    pub change: AuditChange,
}

/// What was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AuditChange {
    /// A run, whose history says what: in the event of this number.
    Event(u64),
    /// What it was and what it is, for what has no history of its own.
    Values {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Json>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Json>,
    },
    /// Policies: the change of this number in their own audit says what it was and what it is.
    Policy(AuditId),
}

impl AuditRecord {
    /// The entry for a change of policies. What was changed is kept once, with the policies.
    pub fn of_policy_change(change: &PolicyAudit, id: AuditId, origin: &CallOrigin) -> AuditRecord {
        AuditRecord {
            at: change.at,
            by: change.by.clone(),
            origin: origin.clone(),
            what: format!("policy.{}", change.what.word()).into(),
            run: None,
            thing: Some(change.name.clone()).filter(|name| !name.is_empty()),
            reason: change.reason.clone(),
            change: AuditChange::Policy(id),
        }
    }
}

/// Which entries of the audit to list. What is not given does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// By this actor.
    pub by: Option<Actor>,
    /// What was done; with a dot at its end, all that begins so.
    pub what: Option<Arc<str>>,
    pub run: Option<RunId>,
    /// At this time or later.
    pub since: Option<Time>,
}

impl AuditFilter {
    pub fn accepts(&self, entry: &AuditRecord) -> bool {
        let is_such = |what: &Arc<str>| match what.strip_suffix('.') {
            Some(_) => entry.what.starts_with(&**what),
            None => entry.what == *what,
        };
        self.by.as_ref().is_none_or(|by| entry.by == *by)
            && self.what.as_ref().is_none_or(is_such)
            && self.run.is_none_or(|run| entry.run == Some(run))
            && self.since.is_none_or(|since| entry.at >= since)
    }
}

/// An entry of the audit, by its number. They grow.
pub type AuditEntry = (AuditEntryId, AuditRecord);

/// What is recorded with a change that is made between batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub idempotency: Option<IdempotencyRecord>,
    pub audit: Vec<AuditRecord>,
}
