//! Tells changes of flows, policies and bulk actions from the audit, for a stream of all that happens.

use unstuck_api::history::StreamChangeView;
use unstuck_core::event::Actor;
use unstuck_store::contract::{AuditChange, AuditEntry};

/// A kind of what a stream tells. There may be more one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    Run,
    Flow,
    Policy,
    Bulk,
}

impl EventClass {
    /// The words for all of them.
    pub const WORDS: &[&str] = &["run", "flow", "policy", "bulk"];

    pub fn word(self) -> &'static str {
        match self {
            EventClass::Run => "run",
            EventClass::Flow => "flow",
            EventClass::Policy => "policy",
            EventClass::Bulk => "bulk",
        }
    }
}

/// Tells an entry of the audit; nothing where a run has an event of it, or where it is nobody's but an administrator's.
pub fn tell_change((id, entry): &AuditEntry) -> Option<(EventClass, StreamChangeView)> {
    let thing = entry.thing.as_deref().unwrap_or_default().to_owned();
    let mut view = StreamChangeView {
        id: id.to_string(),
        at: entry.at.timestamp(),
        reason: entry.reason.as_deref().map(str::to_owned),
        ..StreamChangeView::default()
    };
    (view.by, view.user) = match &entry.by {
        Actor::Engine => ("engine".to_owned(), None),
        Actor::Worker => ("worker".to_owned(), None),
        Actor::User(name) => ("user".to_owned(), Some(name.to_string())),
    };
    let (class, fact, sentence) = match &*entry.what {
        "flow.added" | "flow.changed" => {
            (EventClass::Flow, "flow.applied", format!("flow `{thing}` was applied"))
        }
        "flow.deleted" => (EventClass::Flow, "flow.deleted", format!("flow `{thing}` was deleted")),
        "policy.added" => (EventClass::Policy, "policy.added", format!("policy `{thing}` was added")),
        "policy.changed" => (EventClass::Policy, "policy.changed", format!("policy `{thing}` was changed")),
        "policy.deleted" => (EventClass::Policy, "policy.deleted", format!("policy `{thing}` was deleted")),
        "policy.enabled" => (EventClass::Policy, "policy.enabled", format!("policy `{thing}` was enabled")),
        "policy.disabled" => {
            (EventClass::Policy, "policy.disabled", format!("policy `{thing}` was disabled"))
        }
        "policy.applied" => (EventClass::Policy, "policy.applied", "policies were applied".to_owned()),
        "policy.paused" => (EventClass::Policy, "policy.paused", "automatic resumes were paused".to_owned()),
        "policy.unpaused" => {
            (EventClass::Policy, "policy.unpaused", "automatic resumes were unpaused".to_owned())
        }
        "bulk.begin" => (EventClass::Bulk, "bulk.begun", format!("bulk action {thing} began")),
        "bulk.pause" => (EventClass::Bulk, "bulk.paused", format!("bulk action {thing} was paused")),
        "bulk.unpause" => (EventClass::Bulk, "bulk.unpaused", format!("bulk action {thing} was unpaused")),
        "bulk.cancel" => (EventClass::Bulk, "bulk.stopped", format!("bulk action {thing} was cancelled")),
        _ => return None,
    };
    view.facts.push(fact.to_owned());
    view.what.push(sentence);
    match (class, fact) {
        (EventClass::Flow, _) => (view.flow, view.version) = (Some(thing), version_of(&entry.change)),
        (EventClass::Bulk, _) | (_, "policy.applied") => view.bulk = Some(thing),
        (EventClass::Policy | EventClass::Run, _) => {
            view.policy = Some(thing).filter(|name| !name.is_empty());
        }
    }
    Some((class, view))
}

/// Returns the version of the flow that was changed.
fn version_of(change: &AuditChange) -> Option<String> {
    let AuditChange::Values { before, after } = change else { return None };
    let value = after.as_ref().or(before.as_ref())?.value();
    value["version"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use unstuck_core::id::{AuditEntryId, RunId};
    use unstuck_core::time::Time;
    use unstuck_store::contract::{AuditRecord, CallOrigin};

    use super::*;

    fn tell(what: &str, thing: &str, run: Option<RunId>) -> Option<(&'static str, String, String)> {
        let entry = AuditRecord {
            at: Time(0),
            by: Actor::User("ada".into()),
            origin: CallOrigin::default(),
            what: what.into(),
            run,
            thing: Some(thing.into()).filter(|thing: &std::sync::Arc<str>| !thing.is_empty()),
            reason: None,
            change: AuditChange::Event(1),
        };
        let (class, view) = tell_change(&(AuditEntryId(1), entry))?;
        let name = view.flow.or(view.policy).or(view.bulk).unwrap_or_default();
        Some((class.word(), view.facts.concat(), name))
    }

    #[test]
    fn every_change_of_flows_policies_and_bulk_actions_has_a_class_and_a_fact() {
        let cases = [
            ("flow.added", "nightly", "flow", "flow.applied"),
            ("flow.changed", "nightly", "flow", "flow.applied"),
            ("flow.deleted", "nightly", "flow", "flow.deleted"),
            ("policy.added", "later", "policy", "policy.added"),
            ("policy.disabled", "later", "policy", "policy.disabled"),
            ("policy.applied", "bulk_1", "policy", "policy.applied"),
            ("policy.paused", "", "policy", "policy.paused"),
            ("bulk.begin", "bulk_1", "bulk", "bulk.begun"),
            ("bulk.cancel", "bulk_1", "bulk", "bulk.stopped"),
        ];
        for (what, thing, class, fact) in cases {
            assert_eq!(tell(what, thing, None), Some((class, fact.to_owned(), thing.to_owned())), "{what}");
            assert!(EventClass::WORDS.contains(&class));
        }
        assert_eq!(tell("run.cancel", "", Some(RunId(1))), None, "the run has an event of it");
        assert_eq!(tell("token.created", "root", None), None, "only administrators read of tokens");
    }
}
