//! The policies as they are shown: in the order in which they match, with what they have done and what was changed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_api::PoliciesPaused;
use unstuck_core::event::Actor;
use unstuck_core::policy::{Policies, Policy};
use unstuck_core::time::Time;
use unstuck_engine::document::policies_paused;
use unstuck_flow::policies::PolicyDocument;
use unstuck_store::contract::{AuditId, PolicyAudit, PolicyHits, Store};

use super::Unanswered;

/// So many changes are read at once, at most.
const MOST: usize = 1_000;
/// So many changes are shown with a policy.
const SHOWN_CHANGES: usize = 10;

/// A policy, and what it has done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyLine {
    /// With its priority, whoever set it, and whether it is enabled.
    #[serde(flatten)]
    pub(crate) policy: PolicyDocument,
    pub(crate) version: u32,
    /// How often it has taken an error.
    pub(crate) hits: u64,
    pub(crate) last_hit: Option<Timestamp>,
    /// How many runs have a step that it will resume.
    pub(crate) scheduled: u64,
    /// The earlier policy that takes whatever it would: it can never match.
    pub(crate) shadowed_by: Option<String>,
    /// Why it resumes nothing, where automatic resumes are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policies_paused: Option<PoliciesPaused>,
}

/// A policy, and what was changed of it last.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyPage {
    #[serde(flatten)]
    pub(crate) line: PolicyLine,
    /// Its place in the order in which they match, from 1, and how many there are.
    pub(crate) place: usize,
    pub(crate) of: usize,
    /// Newest first.
    pub(crate) changes: Vec<AuditLine>,
}

/// A change of one policy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLine {
    /// They grow; none where it is not kept yet.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    /// Who.
    pub(crate) by: String,
    /// Its name then; none where it is about all of them.
    pub(crate) policy: Option<String>,
    pub(crate) what: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) before: Option<PolicyDocument>,
    pub(crate) after: Option<PolicyDocument>,
}

/// Changes, newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditPage {
    pub(crate) changes: Vec<AuditLine>,
    /// What to give as `--before` for the next page; none where this is the last.
    pub(crate) next: Option<u64>,
}

pub(super) fn list(store: &mut dyn Store) -> Result<Vec<PolicyLine>, Unanswered> {
    let policies = in_order(store.policies()?)?;
    let hits = store.policy_hits()?;
    let (shadows, paused) = (policies.shadows(), paused(store)?);
    let lines = policies.iter().map(|policy| {
        let by =
            shadows.iter().find(|shadow| shadow.policy == policy.name).map(|shadow| shadow.by.to_string());
        let line = line(policy, hits.iter().find(|hits| hits.policy == policy.id), by);
        PolicyLine { policies_paused: paused.clone(), ..line }
    });
    Ok(lines.collect())
}

pub(super) fn show(store: &mut dyn Store, name: &str) -> Result<PolicyPage, Unanswered> {
    let mut lines = list(store)?;
    let of = lines.len();
    let by_name = lines.iter().position(|line| line.policy.name == name);
    let found = by_name.or_else(|| lines.iter().position(|line| line.policy.id.as_deref() == Some(name)));
    let place = found.ok_or_else(|| unknown(name, lines.iter().map(|line| line.policy.name.as_str())))?;
    let line = lines.swap_remove(place);
    let id = line.policy.id.clone().unwrap_or_default();
    let changes = changes_of(store, |audit| *audit.policy == *id, None, SHOWN_CHANGES)?.changes;
    Ok(PolicyPage { line, place: place + 1, of, changes })
}

/// Policies as they are kept, in the order in which they match.
pub(super) fn kept(store: &mut dyn Store, names: &[String]) -> Result<Vec<Policy>, Unanswered> {
    let all = in_order(store.policies()?)?;
    let mut wanted = Vec::new();
    for name in names {
        let found = all.named(name);
        let found = found.ok_or_else(|| unknown(name, all.iter().map(|policy| &*policy.name)))?;
        wanted.push(found.id.clone());
    }
    let is_wanted = |policy: &Policy| names.is_empty() || wanted.contains(&policy.id);
    Ok(all.iter().filter(|policy| is_wanted(policy)).map(|policy| (**policy).clone()).collect())
}

pub(super) fn audit(
    store: &mut dyn Store,
    name: Option<&str>,
    before: Option<u64>,
    limit: usize,
) -> Result<AuditPage, Unanswered> {
    let is_wanted =
        |audit: &PolicyAudit| name.is_none_or(|name| *audit.name == *name || *audit.policy == *name);
    changes_of(store, is_wanted, before, limit.clamp(1, MOST))
}

/// Why nothing resumes automatically, if so.
pub(super) fn paused(store: &mut dyn Store) -> Result<Option<PoliciesPaused>, Unanswered> {
    Ok(store.policy_switch()?.paused().map(policies_paused))
}

/// The policies, in the order in which they match.
pub(super) fn in_order(policies: Vec<Policy>) -> Result<Policies, Unanswered> {
    Policies::new(policies).map_err(|problems| {
        let said: Vec<String> = problems.into_iter().map(|(_, problem)| problem.message).collect();
        Unanswered::Refused(format!("the policies of this store conflict: {}", said.join("; ")))
    })
}

/// A policy with all that can be said of it, whether it would be so anyway or not.
pub(super) fn document(policy: &Policy) -> PolicyDocument {
    PolicyDocument {
        priority: Some(policy.priority),
        enabled: Some(policy.enabled),
        include_fatal: Some(policy.include_fatal),
        ..PolicyDocument::of(policy)
    }
}

pub(super) fn audit_line(number: u64, audit: &PolicyAudit) -> AuditLine {
    let by = match &audit.by {
        Actor::Engine => "engine".to_owned(),
        Actor::Worker => "worker".to_owned(),
        Actor::User(name) => name.to_string(),
    };
    AuditLine {
        number,
        at: audit.at.timestamp(),
        by,
        policy: Some(audit.name.to_string()).filter(|name| !name.is_empty()),
        what: audit.what.word().to_owned(),
        reason: audit.reason.as_deref().map(str::to_owned),
        before: audit.before.as_ref().map(PolicyDocument::of),
        after: audit.after.as_ref().map(PolicyDocument::of),
    }
}

fn line(policy: &Policy, hits: Option<&PolicyHits>, shadowed_by: Option<String>) -> PolicyLine {
    PolicyLine {
        policy: document(policy),
        version: policy.version,
        hits: hits.map_or(0, |hits| hits.hits),
        last_hit: hits.and_then(|hits| hits.last).map(Time::timestamp),
        scheduled: hits.map_or(0, |hits| hits.scheduled),
        shadowed_by,
        policies_paused: None,
    }
}

fn changes_of(
    store: &mut dyn Store,
    wanted: impl Fn(&PolicyAudit) -> bool,
    before: Option<u64>,
    limit: usize,
) -> Result<AuditPage, Unanswered> {
    let mut changes: Vec<AuditLine> = Vec::new();
    let mut before = before.map(AuditId);
    loop {
        let page = store.policy_audit(before, MOST)?;
        let is_last = page.len() < MOST;
        before = page.last().map(|(id, _)| *id);
        changes.extend(
            page.iter().filter(|(_, audit)| wanted(audit)).map(|(id, audit)| audit_line(id.0, audit)),
        );
        if is_last || changes.len() > limit {
            break;
        }
    }
    let next = (changes.len() > limit).then(|| changes[limit - 1].number);
    changes.truncate(limit);
    Ok(AuditPage { changes, next })
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Unanswered {
    let names: Vec<String> = names.take(8).map(|name| format!("`{name}`")).collect();
    let there = if names.is_empty() {
        "there are no policies yet; load some with `unstuck policy load FILE`".to_owned()
    } else {
        format!("known: {}; `unstuck policy list` lists all", names.join(", "))
    };
    Unanswered::Refused(format!("there is no policy `{name}`; {there}"))
}
