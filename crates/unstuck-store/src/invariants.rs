//! The invariants that a change must keep, looked at a second time before anything is changed.

use std::collections::{HashMap, HashSet};

use unstuck_core::bulk::{Bulk, BulkRef, Target};
use unstuck_core::event::{Event, Fact};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::policy::Policy;
use unstuck_core::thing::ThingBody;

use crate::contract::{IdempotencyKey, IdempotencyRecord, RunChange, Stage, StoreError};

/// What is remembered of a run while it is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPosition {
    /// The number of its last event.
    pub seq: u64,
    pub generation: u32,
    /// Whether that is over.
    pub is_final: bool,
}

/// The mark of a run that is not there yet.
pub const NOT_YET: RunPosition = RunPosition { seq: 0, generation: 0, is_final: false };

/// Refuses events that do not continue the history: numbers without gaps, only a rerun after the end, and a state of
/// the run that matches its last event.
pub fn check_events(before: RunPosition, change: &RunChange) -> Result<(), StoreError> {
    let run = &change.run;
    let mut seq = before.seq;
    let mut is_final = before.is_final;
    for event in &change.events {
        seq += 1;
        if event.seq != seq {
            return Err(sequence_gap(run.id, seq, event));
        }
        if is_final && !matches!(event.facts.first(), Some(Fact::Reran { .. })) {
            let id = run.id;
            return Err(StoreError::Conflict(format!(
                "event {seq} would change {id}, which is final: only a rerun can follow"
            )));
        }
        for fact in &event.facts {
            is_final = is_final_after(is_final, fact);
        }
    }
    let generation_moved = run.generation != before.generation;
    if run.seq != seq || run.is_final() != is_final || (change.events.is_empty() && generation_moved) {
        let id = run.id;
        return Err(StoreError::Conflict(format!("the state of {id} does not match its events up to {seq}")));
    }
    Ok(())
}

/// Refuses idempotency keys that stand for a request, in the store or twice in the same change.
pub fn check_keys(
    records: &[IdempotencyRecord],
    find: impl Fn(&str, &str) -> Result<Option<IdempotencyRecord>, StoreError>,
) -> Result<(), StoreError> {
    let mut seen = HashSet::new();
    for record in records {
        let IdempotencyKey { scope, key, .. } = &record.key;
        let known = find(scope, key)?.is_some_and(|known| !known.is_expired(record.at));
        if known || !seen.insert((scope, key)) {
            return Err(StoreError::Conflict(format!("idempotency key `{key}` of {scope} was used before")));
        }
    }
    Ok(())
}

/// Refuses an error of a run that the stage does not change.
pub fn check_errors(stage: &Stage) -> Result<(), StoreError> {
    if stage.errors.is_empty() {
        return Ok(());
    }
    let changed: HashSet<RunId> = stage.runs.iter().map(|change| change.run.id).collect();
    match stage.errors.iter().find(|error| !changed.contains(&error.run)) {
        None => Ok(()),
        Some(error) => {
            let id = error.run;
            Err(StoreError::Conflict(format!("an error of {id} without a change of {id}")))
        }
    }
}

/// Refuses a log of a run that does not come back with the stage.
pub fn check_logs(stage: &Stage) -> Result<(), StoreError> {
    let returns = |id: RunId| {
        stage.runs.iter().any(|change| change.run.id == id) || stage.unchanged.iter().any(|run| run.id == id)
    };
    match stage.logs.iter().map(|record| record.attempt.run).find(|run| !returns(*run)) {
        None => Ok(()),
        Some(id) => Err(StoreError::Conflict(format!("a log of {id} without a change of {id}"))),
    }
}

/// Refuses policies of which two have the same id or name.
pub fn check_policies(policies: &[Policy]) -> Result<(), StoreError> {
    let mut seen = HashSet::new();
    for policy in policies {
        for (what, text) in [("id", &policy.id), ("name", &policy.name)] {
            if !seen.insert((what, text)) {
                return Err(StoreError::Conflict(format!("two policies have the {what} `{text}`")));
            }
        }
    }
    Ok(())
}

/// Refuses bulk actions whose number of targets changed, and results of targets that do not exist. `total` returns
/// how many targets a bulk action has; `None` if it does not exist.
pub fn check_results(
    stage: &Stage,
    mut total: impl FnMut(BulkId) -> Result<Option<u64>, StoreError>,
) -> Result<(), StoreError> {
    let mut totals = HashMap::new();
    for thing in &stage.things {
        let ThingBody::Bulk(bulk) = &thing.body else { continue };
        let Bulk { id, total: said, .. } = &**bulk;
        let Some(total) = total(*id)? else {
            return Err(StoreError::Conflict(format!(
                "{id} does not exist: it must be stored before it changes"
            )));
        };
        if total != *said {
            return Err(StoreError::Conflict(format!("{id} has {total} targets, not {said}")));
        }
        totals.insert(*id, total);
    }
    for (BulkRef { bulk, place }, _) in &stage.results {
        match totals.get(bulk) {
            None => {
                return Err(StoreError::Conflict(format!(
                    "{bulk} has a result but is not part of the commit"
                )));
            }
            Some(total) if place >= total => {
                return Err(StoreError::Conflict(format!("{bulk} has no target at place {place}")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Refuses targets that do not follow the `known` ones put before.
pub fn check_targets(bulk: BulkId, known: u64, targets: &[Target]) -> Result<(), StoreError> {
    match targets.iter().zip(known..).find(|(target, place)| target.place != *place) {
        None => Ok(()),
        Some((target, place)) => Err(StoreError::Conflict(format!(
            "the next target of {bulk} has place {place}, not {}",
            target.place
        ))),
    }
}

/// Refuses a bulk action that does not have as many targets as were put before.
pub fn check_bulk(bulk: &Bulk, known: u64) -> Result<(), StoreError> {
    if bulk.total == known {
        return Ok(());
    }
    let Bulk { id, total, .. } = bulk;
    Err(StoreError::Conflict(format!("{id} claims {total} targets, but {known} were stored")))
}

pub fn duplicate_bulk(bulk: BulkId) -> StoreError {
    StoreError::Conflict(format!("{bulk} already exists: a bulk action is stored once"))
}

fn sequence_gap(run: RunId, wanted: u64, event: &Event) -> StoreError {
    let found = event.seq;
    StoreError::Conflict(format!(
        "the next event of {run} has number {wanted}, not {found}: it was decided on an outdated state"
    ))
}

/// Returns whether the generation is final after a fact, if it was `before`.
pub(crate) fn is_final_after(before: bool, fact: &Fact) -> bool {
    match fact {
        Fact::Completed { .. } | Fact::RunFailed { .. } | Fact::RunCancelled { .. } => true,
        Fact::Started(_) | Fact::Reran { .. } => false,
        Fact::Admitted
        | Fact::Paused { .. }
        | Fact::Unpaused
        | Fact::Amended(_)
        | Fact::Migrated(_)
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::Failing { .. }
        | Fact::HandlerStarted { .. }
        | Fact::HandlerChanged { .. }
        | Fact::ItemsKnown { .. }
        | Fact::ItemsCompleted { .. }
        | Fact::ItemsEnded { .. }
        | Fact::Unit { .. } => before,
    }
}

/// Refuses a change that was made on an older version than the newest: somebody else has changed it since.
pub fn check_version(made_on: u64, newest: u64) -> Result<(), StoreError> {
    if made_on == newest {
        return Ok(());
    }
    Err(StoreError::Conflict(format!("it was made of version {made_on}, and version {newest} is there now")))
}
