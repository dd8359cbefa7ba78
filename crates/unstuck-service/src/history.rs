//! A page of a run's history: every event with when, who, and what became true.

use unstuck_api::history::{HistoryEntry, HistoryView};
use unstuck_core::event::Actor;
use unstuck_core::evolve::evolve;
use unstuck_core::model::run::Run;
use unstuck_core::reason;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::Reader;

use crate::facts::FactTeller;
use crate::service::ServiceError;
use crate::{explain, run_name};

/// So many events are told at once, at most.
pub const MOST: usize = 10_000;

/// Returns a page of a run's history. Reads it from the first event on, because sentences depend on the state before.
pub(crate) fn load_history_page(
    reader: &dyn Reader,
    flows: &ReadFlows,
    name: &str,
    after: u64,
    limit: usize,
) -> Result<HistoryView, ServiceError> {
    let limit = limit.clamp(1, MOST);
    let id = run_name::find_run(reader, flows, name)?;
    // What an event means can depend on all that was before it.
    let (_, all) = explain::load_run_with_history(reader, id)?;
    let mut run: Option<Run> = None;
    let mut events = Vec::new();
    let mut next = None;
    let mut teller = FactTeller::default();
    for event in &all {
        evolve(&mut run, event);
        if event.seq <= after {
            teller.follow(&event.facts);
            continue;
        }
        if events.len() == limit {
            next = Some(event.seq - 1);
            break;
        }
        let Some(run) = &run else { continue };
        let flow = flows.get(reader, run.flow)?;
        let what = event.facts.iter().filter_map(|fact| reason::fact_line(&flow, Some(run), event, fact));
        let (by, user) = match &event.by {
            Actor::Engine => ("engine", None),
            Actor::Worker => ("worker", None),
            Actor::User(name) => ("user", Some(name.to_string())),
        };
        events.push(HistoryEntry {
            number: event.seq,
            generation: event.generation,
            at: event.at.timestamp(),
            by: by.to_owned(),
            user,
            what: what.filter(|line| !line.is_empty()).collect(),
            facts: teller.convert_facts(&flow, &event.facts),
        });
    }
    Ok(HistoryView { run: id.to_string(), events, next })
}
