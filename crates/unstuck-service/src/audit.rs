//! The audit as it is shown. What a policy was and is, is read from the audit of the policies, where it is kept.

use serde_json::Value;
use unstuck_api::audit::{AuditEntriesView, AuditEntryView};
use unstuck_core::id::AuditEntryId;
use unstuck_core::json::Json;
use unstuck_core::policy::Policy;
use unstuck_flow::policies::document;
use unstuck_store::contract::{AuditChange, AuditFilter, AuditId, AuditRecord, Reader};

use crate::apply_flows::describe_actor;
use crate::list::MOST;
use crate::service::ServiceError;

/// Returns a page of the audit, newest first.
pub fn list_audit(
    reader: &dyn Reader,
    filter: &AuditFilter,
    before: Option<AuditEntryId>,
    limit: usize,
) -> Result<AuditEntriesView, ServiceError> {
    let limit = limit.clamp(1, MOST);
    let mut found = reader.audit(filter, before, limit + 1)?;
    let next = (found.len() > limit).then(|| found[limit - 1].0.to_string());
    found.truncate(limit);
    let entries = found.into_iter().map(|(id, entry)| build_entry(reader, id, entry));
    Ok(AuditEntriesView { entries: entries.collect::<Result<_, _>>()?, next })
}

fn build_entry(
    reader: &dyn Reader,
    id: AuditEntryId,
    entry: AuditRecord,
) -> Result<AuditEntryView, ServiceError> {
    let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
    let (event, before, after) = match entry.change {
        AuditChange::Event(number) => (Some(number), None, None),
        AuditChange::Values { before, after } => {
            (None, before.as_ref().map(Json::value), after.as_ref().map(Json::value))
        }
        AuditChange::Policy(change) => {
            let (before, after) = load_policy_change(reader, change)?;
            (None, before, after)
        }
    };
    Ok(AuditEntryView {
        id: id.to_string(),
        at: entry.at.timestamp(),
        by: describe_actor(&entry.by),
        user: text(entry.origin.user),
        from: text(entry.origin.from),
        what: entry.what.to_string(),
        run: entry.run.map(|run| run.to_string()),
        event,
        thing: text(entry.thing),
        reason: text(entry.reason),
        before,
        after,
        request_id: text(entry.origin.request_id),
    })
}

/// Loads what a policy was and is, from its own audit.
fn load_policy_change(
    reader: &dyn Reader,
    change: AuditId,
) -> Result<(Option<Value>, Option<Value>), ServiceError> {
    let found = reader.policy_audit(Some(AuditId(change.0.saturating_add(1))), 1)?;
    let found = found.into_iter().find(|(id, _)| *id == change).map(|(_, audit)| audit);
    let value =
        |policy: Option<Policy>| policy.and_then(|policy| serde_json::to_value(document(&policy)).ok());
    Ok(found.map_or((None, None), |audit| (value(audit.before), value(audit.after))))
}

#[cfg(test)]
mod tests {
    use unstuck_core::event::Actor;
    use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};
    use unstuck_engine::call::{AuditContext, Call};
    use unstuck_engine::engine::{Engine, Settings};
    use unstuck_engine::policies::PolicyCommand;
    use unstuck_engine::runtime::Runtime;
    use unstuck_store::contract::CallOrigin;
    use unstuck_store::memory::MemoryStore;

    use super::*;
    use crate::flows::compile_flow;

    #[test]
    fn what_a_policy_was_and_is_comes_from_its_own_audit() {
        let engine = Engine::new(MemoryStore::new(), compile_flow(), Settings::default()).expect("opens");
        let runtime = Runtime::start(engine, Vec::new(), None);
        let handle = runtime.handle();
        let by = Actor::User("ada".into());
        let draft = PolicyDraft {
            name: Some("resets".into()),
            criteria: Criteria { error_substring: Some("reset".into()), ..Criteria::default() },
            max_attempts: Some(3),
            back_off: Some(DraftBackOff { delay: Some(1_000), ..DraftBackOff::default() }),
            ..PolicyDraft::default()
        };
        let origin = CallOrigin { from: Some("127.0.0.1".into()), ..CallOrigin::default() };
        let audit = Some(AuditContext { by: by.clone(), reason: None, origin });
        let load = PolicyCommand::Load { drafts: vec![draft], replace: false, by: by.clone() };
        handle.change_policies_as(load, Call { audit, ..Call::default() }).expect("loads");
        let names = vec!["resets".into()];
        handle.change_policies(PolicyCommand::Disable { names, by }).expect("disables");
        let page = list_audit(handle.reader(), &AuditFilter::default(), None, 1).expect("lists");
        let next: AuditEntryId = page.next.expect("there is more").parse().expect("an id");
        let [disabled] = &page.entries[..] else { panic!("{:?}", page.entries) };
        assert_eq!((&*disabled.what, disabled.thing.as_deref()), ("policy.disabled", Some("resets")));
        let enabled = |value: &Option<Value>| value.as_ref().map(|value| value["enabled"].clone());
        assert_eq!(enabled(&disabled.before), Some(Value::Null), "it was on, which need not be said");
        assert_eq!(enabled(&disabled.after), Some(Value::Bool(false)));
        let page = list_audit(handle.reader(), &AuditFilter::default(), Some(next), 9).expect("lists");
        let [added] = &page.entries[..] else { panic!("{:?}", page.entries) };
        assert_eq!(
            (&*added.what, &*added.by, added.from.as_deref()),
            ("policy.added", "ada", Some("127.0.0.1"))
        );
        assert_eq!((&added.before, page.next), (&None, None));
        assert_eq!(added.after.as_ref().map(|value| value["maxAttempts"].clone()), Some(3.into()));
    }
}
