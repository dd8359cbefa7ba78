//! What bulk actions and schedules do by themselves, as entries of the audit: whoever follows what happens is told of it from there.

use std::sync::Arc;

use serde_json::{Value, json};
use unstuck_core::bulk::{Bulk, BulkProgress};
use unstuck_core::event::Actor;
use unstuck_core::schedule::{LeftOut, Schedule};
use unstuck_core::thing::{Thing, ThingBody};
use unstuck_core::time::Time;
use unstuck_store::contract::{AuditRecord, CallOrigin};

use super::things::BatchThings;
use crate::call::values;

impl BatchThings {
    /// The entries of all things that have changed in this batch.
    pub(super) fn list_progress(&self, at: Time) -> Vec<AuditRecord> {
        let changed = self.here.values().flatten().filter(|(before, now)| before.body != now.body);
        changed.flat_map(|(before, now)| list_entries(before, now, at)).collect()
    }
}

fn list_entries(before: &Thing, now: &Thing, at: Time) -> Vec<AuditRecord> {
    match (&before.body, &now.body) {
        (ThingBody::Bulk(before), ThingBody::Bulk(now)) => {
            now.progress_since(before).iter().map(|progress| bulk_entry(before, now, progress, at)).collect()
        }
        (ThingBody::Schedule(before), ThingBody::Schedule(now)) => {
            now.left_out_since(before).iter().map(|left_out| schedule_entry(now, *left_out, at)).collect()
        }
        (ThingBody::Bulk(_), ThingBody::Schedule(_)) | (ThingBody::Schedule(_), ThingBody::Bulk(_)) => {
            Vec::new()
        }
    }
}

fn bulk_entry(before: &Bulk, now: &Bulk, progress: &BulkProgress, at: Time) -> AuditRecord {
    let state = |bulk: &Bulk| json!({ "state": bulk.state.word() });
    let (what, was, is) = match progress {
        BulkProgress::Wave { number } => {
            ("bulk.wave", json!({ "wave": number - 1 }), json!({ "wave": number, "of": now.total }))
        }
        BulkProgress::Stopped { why } => {
            ("bulk.stopped", state(before), json!({ "state": now.state.word(), "why": why }))
        }
        BulkProgress::Done => {
            let counts = serde_json::to_value(now.counts).unwrap_or_default();
            ("bulk.done", state(before), json!({ "state": now.state.word(), "counts": counts }))
        }
    };
    entry(what, now.id.to_string().into(), (&was, &is), at)
}

fn schedule_entry(now: &Schedule, left_out: LeftOut, at: Time) -> AuditRecord {
    let (what, total, count, last) = match left_out {
        LeftOut::Missed { count, last } => ("missed", now.counts.missed, count, last),
        LeftOut::Skipped { count, last } => ("skipped", now.counts.skipped, count, last),
    };
    let why = now.problem.as_deref().filter(|_| what == "missed");
    let last = last.map(|last| format!("{:.3}", last.timestamp()));
    let is = json!({ what: total, "last": last, "why": why });
    entry(&format!("schedule.{what}"), now.flow.clone(), (&json!({ what: total - count }), &is), at)
}

fn entry(what: &str, thing: Arc<str>, (was, is): (&Value, &Value), at: Time) -> AuditRecord {
    AuditRecord {
        at,
        by: Actor::Engine,
        origin: CallOrigin::default(),
        what: what.into(),
        run: None,
        thing: Some(thing),
        reason: None,
        change: values(Some(was), Some(is)),
    }
}
