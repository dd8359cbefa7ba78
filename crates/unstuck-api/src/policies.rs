//! Resume policies: as they are written and shown, what was changed of them, and what came of an order about them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::PoliciesPaused;

/// A policy as it is written, with nothing that would be so anyway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDocument {
    /// Its id; absent where it is to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub name: String,
    /// Somewhere in the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_substring: Option<String>,
    /// The flow of the root run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The full name of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The label of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<String>,
    /// A step is resumed while its rounds are below this.
    pub max_attempts: u32,
    /// Where somebody set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    pub back_off: BackOffDocument,
    /// False, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// True, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_fatal: Option<bool>,
}

/// When a policy resumes, as it is written. Durations are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOffDocument {
    /// The base.
    pub delay: Value,
    /// The cap, and the upper end of `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Value>,
    /// `delay * multiplier * rounds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<Value>,
    /// True, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<bool>,
}

/// A policy as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptPolicyView {
    #[serde(flatten)]
    pub policy: PolicyDocument,
    pub version: u32,
}

/// All policies, in the order in which they match.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoliciesView {
    pub policies: Vec<PolicyView>,
    /// The number of their last change; 0 where there was none.
    #[serde(default)]
    pub version: u64,
    /// None: these are all.
    pub next: Option<String>,
}

/// A policy, and what it has done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// With its priority, whoever set it, and whether it is enabled.
    #[serde(flatten)]
    pub policy: PolicyDocument,
    pub version: u32,
    /// How often it has taken an error.
    pub hits: u64,
    #[serde(default, with = "crate::json_form::optional_time")]
    pub last_hit: Option<Timestamp>,
    /// How many runs have a step that it will resume.
    pub scheduled: u64,
    /// The earlier policy that takes whatever it would: it can never match.
    pub shadowed_by: Option<String>,
    /// Why it resumes nothing, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
}

/// A policy, and what was changed of it last.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDetails {
    #[serde(flatten)]
    pub line: PolicyView,
    /// Its place in the order in which they match, from 1, and how many there are.
    pub place: usize,
    pub of: usize,
    /// Newest first.
    pub changes: Vec<AuditEntry>,
}

/// A change of one policy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// They grow; none where it is not kept yet.
    pub number: u64,
    #[serde(with = "crate::json_form::time")]
    pub at: Timestamp,
    pub by: String,
    /// Its name then; none where it is about all of them.
    pub policy: Option<String>,
    pub what: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub before: Option<PolicyDocument>,
    pub after: Option<PolicyDocument>,
}

/// Changes, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    pub changes: Vec<AuditEntry>,
    /// What to give as `--before` for the next page; none where this is the last.
    pub next: Option<u64>,
}

/// What came of an order about policies.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChangesView {
    /// Whether nothing was changed, and this is what would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    pub changes: Vec<PolicyChangeView>,
    /// The names of those that were so already.
    pub unchanged: Vec<String>,
    /// What was changed can never match, because an earlier one takes whatever it would.
    pub shadowed: Vec<ShadowedView>,
    /// Policies that were to take the place of others, and are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_replaced: Vec<NotReplaced>,
    /// What is wrong with what was to be loaded: then nothing was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedDraft>,
}

/// A policy that was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChangeView {
    pub policy: String,
    /// None where it would get one.
    pub id: Option<String>,
    pub what: String,
    /// As it is now; none where it is gone.
    pub version: Option<u32>,
}

/// A policy that was to take the place of another, and is new.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReplaced {
    pub policy: String,
    /// The id that was given, and that no policy had.
    pub id: Option<String>,
}

/// A policy that can never match.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowedView {
    pub policy: String,
    pub by: String,
}

/// What is wrong with one of the policies that were to be loaded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedDraft {
    /// Its place among them, from 0.
    pub place: usize,
    pub field: String,
    pub message: String,
    pub hint: String,
}

/// What came of applying policies to what is in error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedView {
    /// Whether nothing was changed, and this is what would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The bulk action that did it; none where nothing was to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
    /// Steps that a policy will resume now, or at another time than before.
    pub moved: u64,
    /// Steps that no policy takes any more.
    pub unscheduled: u64,
    pub unchanged: u64,
    /// Steps that a policy which was named would take if another did not come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outranked: Vec<PassedView>,
    /// Steps that a policy which was named would take if it were not used up on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<PassedView>,
    /// Steps that a policy which was named would take if it were enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<PassedView>,
    /// Why nothing resumes automatically, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
}

/// Steps that a policy is about and does not take.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedView {
    pub policy: String,
    /// The policy that comes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub steps: u64,
}

/// What came of pausing or unpausing automatic resumes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchView {
    /// Whether it had been so before.
    pub already: bool,
    /// As it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies_paused: Option<PoliciesPaused>,
    /// As it was before an unpause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<PoliciesPaused>,
    /// How many steps are due at an unpause.
    #[serde(default)]
    pub due: u64,
}
