//! A page of a run's history: every event with when, who, and what became true.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use unstuck_core::event::Actor;
use unstuck_core::evolve::evolve;
use unstuck_core::model::run::Run;
use unstuck_core::reason;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::Store;

use super::{Unanswered, explain, name};

/// So many events are told at once, at most.
pub(crate) const MOST: usize = 10_000;

/// Events of a run, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryPage {
    pub(crate) run: String,
    pub(crate) events: Vec<Told>,
    /// What to give as `--after` for the next page; none where this is the last.
    pub(crate) next: Option<u64>,
}

/// An event, told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) number: u64,
    pub(crate) generation: u32,
    pub(crate) at: Timestamp,
    /// `engine`, `worker`, or `user`.
    pub(crate) by: String,
    /// The name of the user.
    pub(crate) user: Option<String>,
    /// In sentences.
    pub(crate) what: Vec<String>,
}

pub(super) fn history(
    store: &mut dyn Store,
    flows: &mut Flows,
    name: &str,
    after: u64,
    limit: usize,
) -> Result<HistoryPage, Unanswered> {
    let limit = limit.clamp(1, MOST);
    let id = name::find(store, flows, name)?;
    // What an event means can depend on all that was before it.
    let (_, all) = explain::stored(store, id)?;
    let mut run: Option<Run> = None;
    let mut events = Vec::new();
    let mut next = None;
    for event in &all {
        evolve(&mut run, event);
        if event.seq <= after {
            continue;
        }
        if events.len() == limit {
            next = Some(event.seq - 1);
            break;
        }
        let Some(run) = &run else { continue };
        let flow = flows.get(store, run.flow)?;
        let what = event.facts.iter().filter_map(|fact| reason::line(&flow, Some(run), event, fact));
        let (by, user) = match &event.by {
            Actor::Engine => ("engine", None),
            Actor::Worker => ("worker", None),
            Actor::User(name) => ("user", Some(name.to_string())),
        };
        events.push(Told {
            number: event.seq,
            generation: event.generation,
            at: event.at.timestamp(),
            by: by.to_owned(),
            user,
            what: what.filter(|line| !line.is_empty()).collect(),
        });
    }
    Ok(HistoryPage { run: id.to_string(), events, next })
}
