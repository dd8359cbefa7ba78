//! Tells changes of flows, policies, schedules and bulk actions, most of them from the audit, for a stream of all that happens.

use serde_json::Value;
use unstuck_api::history::{StreamChangeView, StreamEventView};
use unstuck_core::event::Actor;
use unstuck_core::json::Json;
use unstuck_store::contract::{AuditChange, AuditEntry};

use crate::event_teller::ToldEvent;

/// A kind of what a stream tells. There may be more one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    Run,
    Flow,
    Schedule,
    Policy,
    Bulk,
}

impl EventClass {
    /// The words for all of them.
    pub const WORDS: &[&str] = &["run", "flow", "schedule", "policy", "bulk"];

    pub fn word(self) -> &'static str {
        match self {
            EventClass::Run => "run",
            EventClass::Flow => "flow",
            EventClass::Schedule => "schedule",
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
    let (class, fact, sentence) = describe(&entry.what, &thing, &entry.change)?;
    view.facts.push(fact.to_owned());
    view.what.push(sentence);
    match (class, fact) {
        (EventClass::Flow, _) => (view.flow, view.version) = (Some(thing), version_of(&entry.change)),
        (EventClass::Schedule, _) => {
            (view.flow, view.run) = (Some(thing), entry.run.map(|run| run.to_string()));
        }
        (EventClass::Bulk, _) | (_, "policy.applied") => view.bulk = Some(thing),
        (EventClass::Policy | EventClass::Run, _) => {
            view.policy = Some(thing).filter(|name| !name.is_empty());
        }
    }
    Some((class, view))
}

/// Tells that the clock has started a run, from the first event of that run: there is no entry of it in the audit.
pub fn tell_firing(event: &ToldEvent) -> Option<StreamChangeView> {
    let at = event.fired_for.as_deref()?;
    let StreamEventView { run, flow, .. } = &event.view;
    Some(StreamChangeView {
        id: run.clone(),
        at: event.view.at,
        by: event.view.by.clone(),
        flow: Some(flow.clone()),
        run: Some(run.clone()),
        facts: vec!["schedule.fired".to_owned()],
        what: vec![format!("the schedule of flow `{flow}` started {run} for {at}")],
        ..StreamChangeView::default()
    })
}

/// Returns the class, the fact and the sentence of an entry.
fn describe(what: &str, thing: &str, change: &AuditChange) -> Option<(EventClass, &'static str, String)> {
    Some(match what {
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
        _ => return describe_bulk(what, thing, change).or_else(|| describe_schedule(what, thing, change)),
    })
}

fn describe_bulk(
    what: &str,
    thing: &str,
    change: &AuditChange,
) -> Option<(EventClass, &'static str, String)> {
    let after = after_of(change);
    let (fact, sentence) = match what {
        "bulk.begin" => ("bulk.begun", format!("bulk action {thing} began")),
        "bulk.pause" => ("bulk.paused", format!("bulk action {thing} was paused")),
        "bulk.unpause" => ("bulk.unpaused", format!("bulk action {thing} was unpaused")),
        "bulk.cancel" => ("bulk.stopped", format!("bulk action {thing} was cancelled")),
        "bulk.wave" => ("bulk.wave", format!("wave {} of bulk action {thing} began", after["wave"])),
        "bulk.stopped" => {
            let why = after["why"].as_str().unwrap_or("a wave did not pass");
            ("bulk.stopped", format!("bulk action {thing} stopped: {why}"))
        }
        "bulk.done" => {
            let count = |name: &str| after["counts"][name].as_u64().unwrap_or_default();
            let (passed, failed, refused) = (count("passed"), count("failed"), count("refused"));
            let counts = format!("{passed} passed, {failed} failed again, {refused} refused");
            ("bulk.done", format!("bulk action {thing} is done: {counts}"))
        }
        _ => return None,
    };
    Some((EventClass::Bulk, fact, sentence))
}

fn describe_schedule(
    what: &str,
    thing: &str,
    change: &AuditChange,
) -> Option<(EventClass, &'static str, String)> {
    let left_out = |word: &str, why: &str| {
        let (before, after) = (before_of(change), after_of(change));
        let count = |counts: &Value| counts[word].as_u64().unwrap_or_default();
        let count = count(&after).saturating_sub(count(&before));
        let times = if count == 1 { "time" } else { "times" };
        let last = after["last"].as_str().map(|last| format!(", the last for {last}")).unwrap_or_default();
        let why = after["why"].as_str().unwrap_or(why);
        format!("the schedule of flow `{thing}` {word} {count} {times}{last}: {why}")
    };
    let (fact, sentence) = match what {
        "schedule.pause" => ("schedule.paused", format!("the schedule of flow `{thing}` was paused")),
        "schedule.unpause" => ("schedule.unpaused", format!("the schedule of flow `{thing}` was unpaused")),
        "schedule.fire" => ("schedule.fired", format!("the schedule of flow `{thing}` was fired by hand")),
        "schedule.missed" => ("schedule.missed", left_out("missed", "no server was there in time")),
        "schedule.skipped" => ("schedule.skipped", left_out("skipped", "an earlier run had not ended")),
        _ => return None,
    };
    Some((EventClass::Schedule, fact, sentence))
}

fn before_of(change: &AuditChange) -> Value {
    let AuditChange::Values { before, .. } = change else { return Value::Null };
    before.as_ref().map(Json::value).unwrap_or_default()
}

fn after_of(change: &AuditChange) -> Value {
    let AuditChange::Values { after, .. } = change else { return Value::Null };
    after.as_ref().map(Json::value).unwrap_or_default()
}

/// Returns the version of the flow that was changed.
fn version_of(change: &AuditChange) -> Option<String> {
    let AuditChange::Values { before, after } = change else { return None };
    let value = after.as_ref().or(before.as_ref())?.value();
    value["version"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unstuck_core::id::{AuditEntryId, RunId};
    use unstuck_core::time::Time;
    use unstuck_store::contract::{AuditRecord, CallOrigin};

    use super::*;

    fn entry(what: &str, thing: &str, run: Option<RunId>, change: AuditChange) -> AuditEntry {
        let entry = AuditRecord {
            at: Time(0),
            by: Actor::User("ada".into()),
            origin: CallOrigin::default(),
            what: what.into(),
            run,
            thing: Some(thing.into()).filter(|thing: &std::sync::Arc<str>| !thing.is_empty()),
            reason: None,
            change,
        };
        (AuditEntryId(1), entry)
    }

    fn tell(what: &str, thing: &str, run: Option<RunId>) -> Option<(&'static str, String, String)> {
        let (class, view) = tell_change(&entry(what, thing, run, AuditChange::Event(1)))?;
        let name = view.flow.or(view.policy).or(view.bulk).unwrap_or_default();
        Some((class.word(), view.facts.concat(), name))
    }

    #[test]
    fn every_change_of_flows_policies_schedules_and_bulk_actions_has_a_class_and_a_fact() {
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
            ("bulk.wave", "bulk_1", "bulk", "bulk.wave"),
            ("bulk.stopped", "bulk_1", "bulk", "bulk.stopped"),
            ("bulk.done", "bulk_1", "bulk", "bulk.done"),
            ("schedule.pause", "nightly", "schedule", "schedule.paused"),
            ("schedule.unpause", "nightly", "schedule", "schedule.unpaused"),
            ("schedule.fire", "nightly", "schedule", "schedule.fired"),
            ("schedule.missed", "nightly", "schedule", "schedule.missed"),
            ("schedule.skipped", "nightly", "schedule", "schedule.skipped"),
        ];
        for (what, thing, class, fact) in cases {
            assert_eq!(tell(what, thing, None), Some((class, fact.to_owned(), thing.to_owned())), "{what}");
            assert!(EventClass::WORDS.contains(&class));
        }
        assert_eq!(tell("run.cancel", "", Some(RunId(1))), None, "the run has an event of it");
        assert_eq!(tell("token.created", "root", None), None, "only administrators read of tokens");
    }

    #[test]
    fn what_they_do_by_themselves_is_told_with_its_numbers() {
        let cases = [
            (
                "schedule.missed",
                json!({"missed": 4}),
                json!({"missed": 5, "last": "2026-11-16T03:00:00.000Z", "why": null}),
                "the schedule of flow `x` missed 1 time, the last for 2026-11-16T03:00:00.000Z: no server was there in time",
            ),
            (
                "schedule.skipped",
                json!({"skipped": 0}),
                json!({"skipped": 2, "last": null}),
                "the schedule of flow `x` skipped 2 times: an earlier run had not ended",
            ),
            ("bulk.wave", json!({"wave": 1}), json!({"wave": 2, "of": 9}), "wave 2 of bulk action x began"),
            (
                "bulk.done",
                json!({"state": "running"}),
                json!({"state": "done", "counts": {"passed": 7, "failed": 1, "refused": 0}}),
                "bulk action x is done: 7 passed, 1 failed again, 0 refused",
            ),
        ];
        for (what, before, after, wanted) in cases {
            let change =
                AuditChange::Values { before: Some(Json::of(&before)), after: Some(Json::of(&after)) };
            let (_, view) = tell_change(&entry(what, "x", None, change)).expect("it is told");
            assert_eq!(view.what, [wanted]);
        }
    }
}
