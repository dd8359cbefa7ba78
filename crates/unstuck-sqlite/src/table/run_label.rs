//! The table `run_label`: which runs have a label of their own. Written with the start of a run, and where its labels are changed.

use rusqlite::{Connection, Transaction, params};
use unstuck_core::event::{Event, Fact};
use unstuck_core::id::RunId;
use unstuck_core::model::labels::Labels;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::stats::Written;
use crate::table::number;
use crate::table::prepare;

/// What an event does to the labels of its run.
#[derive(Clone, Debug)]
pub(crate) struct LabelChange {
    run: RunId,
    /// Labels that it has no more, with the values that they had.
    removed: Labels,
    /// Labels that it has now.
    set: Labels,
}

/// Lists what an event does to the labels of its run, in order.
pub(crate) fn label_changes(run: RunId, event: &Event) -> impl Iterator<Item = LabelChange> + '_ {
    event.facts.iter().filter_map(move |fact| match fact {
        Fact::Started(started) => {
            let set = started.labels.as_deref().cloned()?;
            Some(LabelChange { run, removed: Labels::new(), set })
        }
        Fact::Amended(amended) if amended.labels_removed.is_empty() && amended.labels_set.is_empty() => None,
        Fact::Amended(amended) => {
            let (removed, set) = (amended.labels_removed.clone(), amended.labels_set.clone());
            Some(LabelChange { run, removed, set })
        }
        Fact::Admitted
        | Fact::Paused { .. }
        | Fact::Unpaused
        | Fact::ClockCorrected { .. }
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::Failing { .. }
        | Fact::HandlerStarted { .. }
        | Fact::HandlerChanged { .. }
        | Fact::Completed { .. }
        | Fact::RunFailed { .. }
        | Fact::RunCancelled { .. }
        | Fact::Reran { .. }
        | Fact::Migrated(_)
        | Fact::ItemsKnown { .. }
        | Fact::ItemsCompleted { .. }
        | Fact::ItemsEnded { .. }
        | Fact::Unit { .. } => None,
    })
}

/// Writes the labels that a stage has changed.
pub(crate) fn write_labels(
    transaction: &Transaction<'_>,
    changes: &[LabelChange],
    written: &mut Written,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO run_label (name, value, run) VALUES (?1, ?2, ?3)";
    for LabelChange { run, removed, set } in changes {
        delete_labels(transaction, *run, removed)?;
        for (name, value) in set {
            written.keys.add(name.len() + value.len());
            prepare(transaction, sql)?.execute(params![name, value, number(run.0)?]).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Removes the labels that a run has got with this event, where it is forgotten.
pub(crate) fn forget_labels(
    transaction: &Transaction<'_>,
    run: RunId,
    event: &Event,
) -> Result<(), StoreError> {
    label_changes(run, event).try_for_each(|change| delete_labels(transaction, run, &change.set))
}

/// Computes the labels that these events of a run leave it with.
pub(crate) fn fold_labels<'a>(run: RunId, events: impl Iterator<Item = &'a Event>) -> Labels {
    let mut labels = Labels::new();
    for LabelChange { removed, set, .. } in events.flat_map(|event| label_changes(run, event)) {
        labels.retain(|name, _| !removed.contains_key(name));
        labels.extend(set);
    }
    labels
}

fn delete_labels(transaction: &Transaction<'_>, run: RunId, labels: &Labels) -> Result<(), StoreError> {
    let sql = "DELETE FROM run_label WHERE name = ?1 AND value = ?2 AND run = ?3";
    for (name, value) in labels {
        prepare(transaction, sql)?.execute(params![name, value, number(run.0)?]).map_err(store_error)?;
    }
    Ok(())
}

/// Returns whether a run is found by this label.
pub(crate) fn has_label(
    connection: &Connection,
    run: RunId,
    name: &str,
    value: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM run_label WHERE name = ?1 AND value = ?2 AND run = ?3";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.exists(params![name, value, number(run.0)?]).map_err(store_error)
}
