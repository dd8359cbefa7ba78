//! Policies as they are shown: in matching order, with what they have done and how they were changed.

use unstuck_api::policies::{
    AuditEntry, AuditView, KeptPolicyView, PoliciesView, PolicyDetails, PolicyDocument, PolicyView,
};
use unstuck_api::{PoliciesPaused, ProblemDocument, ProblemType};
use unstuck_core::event::Actor;
use unstuck_core::policy::{Policies, Policy, PolicyDraft};
use unstuck_core::time::Time;
use unstuck_engine::document::policies_paused;
use unstuck_flow::policies::document;
use unstuck_store::contract::{AuditId, PolicyAudit, PolicyHits, Reader};

use crate::problem::flow_part;
use crate::service::ServiceError;

/// So many changes are read at once, at most.
const MOST: usize = 1_000;
/// So many changes are shown with a policy.
const SHOWN_CHANGES: usize = 10;

/// Lists all policies on one page: there are few.
pub(crate) fn list_policies(reader: &dyn Reader) -> Result<PoliciesView, ServiceError> {
    // Before they are read: what changes meanwhile makes the number too old, which is only too careful.
    let version = load_set_version(reader)?;
    Ok(PoliciesView { policies: build_policy_views(reader)?, version, next: None })
}

/// Returns the number of the last change of policies; 0 where there was none.
pub fn load_set_version(reader: &dyn Reader) -> Result<u64, ServiceError> {
    Ok(reader.policy_audit(None, 1)?.first().map_or(0, |(id, _)| id.0))
}

/// Builds the views of all policies, in matching order.
fn build_policy_views(reader: &dyn Reader) -> Result<Vec<PolicyView>, ServiceError> {
    let policies = order_for_matching(reader.policies()?.0)?;
    let hits = reader.policy_hits()?;
    let (shadows, paused) = (policies.shadows(), load_pause(reader)?);
    let lines = policies.iter().map(|policy| {
        let by =
            shadows.iter().find(|shadow| shadow.policy == policy.name).map(|shadow| shadow.by.to_string());
        let line = build_policy_view(policy, hits.iter().find(|hits| hits.policy == policy.id), by);
        PolicyView { policies_paused: paused.clone(), ..line }
    });
    Ok(lines.collect())
}

/// Shows one policy with its position and its last changes.
pub(crate) fn show_policy(reader: &dyn Reader, name: &str) -> Result<PolicyDetails, ServiceError> {
    let mut lines = build_policy_views(reader)?;
    let of = lines.len();
    let by_name = lines.iter().position(|line| line.policy.name == name);
    let found = by_name.or_else(|| lines.iter().position(|line| line.policy.id.as_deref() == Some(name)));
    let place =
        found.ok_or_else(|| unknown_policy(name, lines.iter().map(|line| line.policy.name.as_str())))?;
    let line = lines.swap_remove(place);
    let id = line.policy.id.clone().unwrap_or_default();
    let changes = read_audit_page(reader, |audit| *audit.policy == *id, None, SHOWN_CHANGES)?.changes;
    Ok(PolicyDetails { line, place: place + 1, of, changes })
}

/// Returns policies as they are stored, in matching order; all, or the named ones.
pub(crate) fn list_stored_policies(
    reader: &dyn Reader,
    names: &[String],
) -> Result<Vec<KeptPolicyView>, ServiceError> {
    let all = order_for_matching(reader.policies()?.0)?;
    let mut wanted = Vec::new();
    for name in names {
        let found = all.by_name_or_id(name);
        let found = found.ok_or_else(|| unknown_policy(name, all.iter().map(|policy| &*policy.name)))?;
        wanted.push(found.id.clone());
    }
    let is_wanted = |policy: &Policy| names.is_empty() || wanted.contains(&policy.id);
    let kept = |policy: &Policy| KeptPolicyView { policy: document(policy), version: policy.version };
    Ok(all.iter().filter(|policy| is_wanted(policy)).map(|policy| kept(policy)).collect())
}

/// Returns a page of policy changes, newest first.
pub(crate) fn list_audit(
    reader: &dyn Reader,
    name: Option<&str>,
    before: Option<u64>,
    limit: usize,
) -> Result<AuditView, ServiceError> {
    let is_wanted =
        |audit: &PolicyAudit| name.is_none_or(|name| *audit.name == *name || *audit.policy == *name);
    read_audit_page(reader, is_wanted, before, limit.clamp(1, MOST))
}

/// Returns why automatic resumes are paused, if they are.
pub(crate) fn load_pause(reader: &dyn Reader) -> Result<Option<PoliciesPaused>, ServiceError> {
    Ok(reader.policies()?.1.paused().map(policies_paused))
}

/// Sorts policies into the order in which they are matched with an error: the first that fits decides.
pub(crate) fn order_for_matching(policies: Vec<Policy>) -> Result<Policies, ServiceError> {
    Policies::new(policies).map_err(|problems| {
        let said: Vec<String> = problems.into_iter().map(|(_, problem)| problem.message).collect();
        ServiceError::internal(format!("the policies of this store conflict: {}", said.join("; ")))
    })
}

/// Converts a policy to its wire form with all defaults written out.
pub(crate) fn to_full_document(policy: &Policy) -> PolicyDocument {
    PolicyDocument {
        priority: Some(policy.priority),
        enabled: Some(policy.enabled),
        include_fatal: Some(policy.include_fatal),
        ..document(policy)
    }
}

/// Builds the view of a change; `number` is its place in the audit list.
pub(crate) fn build_audit_entry(number: u64, audit: &PolicyAudit) -> AuditEntry {
    let by = match &audit.by {
        Actor::Engine => "engine".to_owned(),
        Actor::Worker => "worker".to_owned(),
        Actor::User(name) => name.to_string(),
    };
    AuditEntry {
        number,
        at: audit.at.timestamp(),
        by,
        policy: Some(audit.name.to_string()).filter(|name| !name.is_empty()),
        what: audit.what.word().to_owned(),
        reason: audit.reason.as_deref().map(str::to_owned),
        before: audit.before.as_ref().map(document),
        after: audit.after.as_ref().map(document),
    }
}

/// Builds the view of a policy, with its hits and the policy that shadows it.
fn build_policy_view(policy: &Policy, hits: Option<&PolicyHits>, shadowed_by: Option<String>) -> PolicyView {
    PolicyView {
        policy: to_full_document(policy),
        version: policy.version,
        hits: hits.map_or(0, |hits| hits.hits),
        last_hit: hits.and_then(|hits| hits.last).map(Time::timestamp),
        scheduled: hits.map_or(0, |hits| hits.scheduled),
        shadowed_by,
        policies_paused: None,
    }
}

/// Reads pages of the audit until enough changes are wanted ones: the store cannot filter them by policy.
fn read_audit_page(
    reader: &dyn Reader,
    wanted: impl Fn(&PolicyAudit) -> bool,
    before: Option<u64>,
    limit: usize,
) -> Result<AuditView, ServiceError> {
    let mut changes: Vec<AuditEntry> = Vec::new();
    let mut before = before.map(AuditId);
    loop {
        let page = reader.policy_audit(before, MOST)?;
        let is_last = page.len() < MOST;
        before = page.last().map(|(id, _)| *id);
        changes.extend(
            page.iter().filter(|(_, audit)| wanted(audit)).map(|(id, audit)| build_audit_entry(id.0, audit)),
        );
        if is_last || changes.len() > limit {
            break;
        }
    }
    let next = (changes.len() > limit).then(|| changes[limit - 1].number);
    changes.truncate(limit);
    Ok(AuditView { changes, next })
}

/// Builds the error of an unknown policy, with the names of some.
fn unknown_policy<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> ServiceError {
    let all: Vec<&str> = names.collect();
    let names: Vec<String> = all.iter().take(8).map(|name| format!("`{name}`")).collect();
    let there = if names.is_empty() {
        "there are no policies yet; load some with `unstuck policy load FILE`".to_owned()
    } else {
        format!("known: {}; `unstuck policy list` lists all", names.join(", "))
    };
    let error = ServiceError::not_found(format!("there is no policy `{name}`; {there}"));
    error.named("policy", name).similar_to(name, all.iter().copied())
}

/// Reads a file of policies, YAML or JSON, or returns every problem with it.
pub fn read_policy_file(text: &str) -> Result<Vec<PolicyDocument>, ServiceError> {
    let loaded = unstuck_flow::policies::load(text, "body").map_err(|problems| {
        let sentence = match problems.as_slice() {
            [only] => only.to_string(),
            several => format!("the policies are refused: {} problems. Nothing was changed", several.len()),
        };
        let mut document = ProblemDocument::new(ProblemType::Invalid, sentence);
        document.about.problems = problems.into_iter().map(flow_part).collect();
        ServiceError::Refused(Box::new(document))
    })?;
    loaded.policies.iter().map(|policy| to_wire(&policy.draft)).collect()
}

/// Converts a draft to its wire form.
pub(crate) fn to_wire(draft: &PolicyDraft) -> Result<PolicyDocument, ServiceError> {
    unstuck_flow::policies::document_of_draft(draft).map_err(|problems| {
        let sentences: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        ServiceError::refused(sentences.join("; "))
    })
}

/// Writes policies as a file: all, or those of these names.
pub fn write_policy_file(reader: &dyn Reader, names: &[String]) -> Result<String, ServiceError> {
    let kept = list_stored_policies(reader, names)?;
    let policies: Vec<PolicyDocument> = kept.into_iter().map(|kept| kept.policy).collect();
    Ok(unstuck_flow::policies::export_yaml(&policies))
}
