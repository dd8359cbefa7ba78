//! The audit: who changed what, when, why and from where.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A page of the audit, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntriesView {
    pub entries: Vec<AuditEntryView>,
    /// The id before which the next page begins; none where this is the last.
    pub next: Option<String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryView {
    pub id: String,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    /// Who did it.
    pub by: String,
    /// The person behind a shared token, as it claims.
    pub user: Option<String>,
    /// The address that it came from.
    pub from: Option<String>,
    /// What was done, such as `run.cancel`, `policy.changed` or `token.created`.
    pub what: String,
    pub run: Option<String>,
    /// The number of the event of the run, whose history says what happened.
    pub event: Option<u64>,
    /// The flow, policy, token or bulk action.
    pub thing: Option<String>,
    pub reason: Option<String>,
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub request_id: Option<String>,
}
