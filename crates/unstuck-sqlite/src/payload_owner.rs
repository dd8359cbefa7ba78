//! What a payload is to its run, for the sentence about one that is damaged.

use rusqlite::{Connection, OptionalExtension};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::Payload;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::unit::UnitRef;
use unstuck_store::contract::StoreError;

use crate::error::store_error;
use crate::table::event;
use crate::table::flow;
use crate::table::meta;
use crate::table::number;
use crate::table::run;
use crate::table::unsigned;

/// Describes a payload as in "the output of step `a`", for messages about damage; `None` if the history cannot tell.
pub(crate) fn describe_payload(connection: &Connection, run: RunId, id: PayloadId) -> Option<String> {
    let head = find_head(connection, run).ok()??;
    let history = event::load_history(connection, head, 0).ok()?;
    let Some(Fact::Started(started)) = history.first()?.facts.first() else { return None };
    let flow = flow::list_all_flows(connection).ok()?.into_iter().find(|flow| flow.id == started.flow);
    let step = |unit: UnitRef| {
        let place = usize::from(unit.step.0);
        let known = flow.as_ref().and_then(|flow| flow.steps.as_ref()?.get(place).cloned());
        let name = known.map_or_else(|| format!("#{place}"), |name| name.to_string());
        unit.item.map_or_else(|| format!("`{name}`"), |item| format!("`{name}[{item}]`"))
    };
    let (what, unit) = history.iter().find_map(|event| find_payload_in_event(event, id))?;
    Some(unit.map_or_else(|| format!("the {what}"), |unit| format!("the {what} of step {}", step(unit))))
}

/// Finds the last event of a run: in the log after what rows cover, else by its row.
fn find_head(connection: &Connection, run: RunId) -> Result<Option<u64>, StoreError> {
    let flushed = meta::load_number(connection, "flushed")?.unwrap_or(0);
    let sql = "SELECT max(pos) FROM event WHERE pos > ?1 AND run = ?2";
    let last: Option<Option<i64>> = connection
        .query_row(sql, [flushed, number(run.0)?], |row| row.get(0))
        .optional()
        .map_err(store_error)?;
    match last.flatten() {
        Some(last) => Ok(Some(unsigned(last))),
        None => Ok(run::load_run_row(connection, run)?.map(|row| row.head)),
    }
}

/// Returns what an event uses a payload for, and the unit that it belongs to.
fn find_payload_in_event(event: &Event, id: PayloadId) -> Option<(&'static str, Option<UnitRef>)> {
    let is_it = |payload: &Payload| *payload == Payload::Stored(id);
    event.facts.iter().find_map(|fact| match fact {
        Fact::Started(started) if is_it(&started.input) => Some(("input", None)),
        Fact::InputChanged { input, .. } if is_it(input) => Some(("input", None)),
        Fact::SignalKept { payload, .. } if is_it(payload) => Some(("signal", None)),
        Fact::Completed { output } if is_it(output) => Some(("output", None)),
        Fact::ItemsCompleted { step, output } if is_it(output) => {
            Some(("output", Some(UnitRef::step(*step))))
        }
        Fact::ItemsKnown { step, values, .. } if values.iter().any(is_it) => {
            Some(("list of items", Some(UnitRef::step(*step))))
        }
        Fact::Unit { unit, fact } => match fact {
            UnitFact::InputBound { input } if is_it(input) => Some(("input", Some(*unit))),
            UnitFact::Progress { value } if is_it(value) => Some(("progress", Some(*unit))),
            UnitFact::Done { output }
            | UnitFact::DoneByHand { output, .. }
            | UnitFact::Ended { outcome: Outcome::Completed(output), .. }
                if is_it(output) =>
            {
                Some(("output", Some(*unit)))
            }
            _ => None,
        },
        _ => None,
    })
}
