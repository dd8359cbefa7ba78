//! Tokens of the API, as they are shown: never with what would let somebody in, but once.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// All tokens, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokensView {
    pub tokens: Vec<TokenView>,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    pub id: String,
    pub name: String,
    /// `viewer`, `client`, `worker`, `operator`, `admin` or `peer`.
    pub role: String,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    /// The actions that a worker may take; all if none.
    pub actions: Vec<String>,
    /// The flows that a client may start; all if none.
    pub flows: Vec<String>,
    /// The name of the server that a peer is.
    pub origin: Option<String>,
    /// Whether it may read payloads.
    pub payloads: bool,
    #[serde(with = "crate::json_form::time")]
    pub created_at: Timestamp,
    pub by: String,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub revoked_at: Option<Timestamp>,
    /// Until when the secret before the last rotation is good, if it still is.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub old_secret_until: Option<Timestamp>,
    /// To a minute or so; none if it was never used.
    #[serde(default, with = "crate::json_form::optional_time")]
    pub last_used_at: Option<Timestamp>,
}

/// What was done to a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenChangedView {
    /// `created`, `rotated`, `revoked` or `unchanged`.
    pub what: String,
    /// The token itself, where it is new: it is shown here and never again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(flatten)]
    pub view: TokenView,
}
