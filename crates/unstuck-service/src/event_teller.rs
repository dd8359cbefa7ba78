//! Tells events of many runs as they come, each in sentences and with its facts: what a stream of all that happens shows.

use std::collections::HashMap;
use std::sync::Arc;

use unstuck_api::history::StreamEventView;
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Actor, Event, Fact};
use unstuck_core::evolve::evolve;
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::reason;
use unstuck_core::schedule::FIRING_PREFIX;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::Reader;

use crate::facts::FactTeller;
use crate::service::ServiceError;

/// So many runs are followed at once; one that was left out is made again from its history.
const MAX_FOLLOWED: usize = 4_096;
/// Children are nested less deep than this.
const MAX_DEPTH: usize = 64;

/// Follows runs through their events, because what an event means depends on what was before it.
#[derive(Default)]
pub struct EventTeller {
    followed: HashMap<RunId, FollowedRun>,
    /// Grows with every event.
    turn: u64,
}

/// An event, told, and the runs above its run.
#[derive(Clone, Debug)]
pub struct ToldEvent {
    pub view: StreamEventView,
    /// The run itself, its parent, and so on up to the root.
    pub line: Vec<RunId>,
    /// The full names of the actions of the steps that it is about.
    pub actions: Vec<Arc<str>>,
    /// The time for which the clock has started the run, where the event is that it has.
    pub fired_for: Option<String>,
}

/// A run as the last event that was told has left it.
struct FollowedRun {
    run: Option<Run>,
    facts: FactTeller,
    line: Vec<RunId>,
    path: Vec<String>,
    last_turn: u64,
}

impl EventTeller {
    /// Tells the next event of a run. Nothing is told of a run that is gone, or whose flow cannot be compiled any more.
    pub fn tell(
        &mut self,
        reader: &dyn Reader,
        flows: &ReadFlows,
        id: RunId,
        event: &Event,
    ) -> Result<Option<ToldEvent>, ServiceError> {
        self.turn += 1;
        let is_next =
            |followed: &FollowedRun| followed.run.as_ref().map_or(0, |run| run.seq) + 1 == event.seq;
        let mut followed = match self.followed.remove(&id).filter(is_next) {
            Some(followed) => followed,
            None => load_followed(reader, id, event.seq - 1)?,
        };
        evolve(&mut followed.run, event);
        let Some(run) = &followed.run else { return Ok(None) };
        if followed.line.is_empty() {
            (followed.line, followed.path) = list_line(reader, flows, run)?;
        }
        let Ok(flow) = flows.get(reader, run.flow) else { return Ok(None) };
        let what = event.facts.iter().filter_map(|fact| reason::fact_line(&flow, Some(run), event, fact));
        let what = what.filter(|line| !line.is_empty()).collect();
        let facts = followed.facts.convert_facts(&flow, &event.facts);
        let about = facts.iter().find(|fact| fact.step.is_some());
        let (by, user) = match &event.by {
            Actor::Engine => ("engine", None),
            Actor::Worker => ("worker", None),
            Actor::User(name) => ("user", Some(name.to_string())),
        };
        let view = StreamEventView {
            run: id.to_string(),
            flow: flow.name.to_string(),
            path: followed.path.clone(),
            generation: event.generation,
            number: event.seq,
            at: event.at.timestamp(),
            by: by.to_owned(),
            user,
            state: run.state().word().to_owned(),
            step: about.and_then(|fact| fact.step.clone()),
            attempt: about.and_then(|fact| fact.attempt),
            facts: facts.into_iter().map(|fact| fact.kind).collect(),
            what,
        };
        let mut actions: Vec<Arc<str>> = Vec::new();
        for fact in &event.facts {
            if let Fact::Unit { unit, .. } = fact {
                actions.push(flow.step(unit.step).full_action.clone());
            }
        }
        actions.dedup();
        let line = followed.line.clone();
        let fired_for = find_fired(run, event);
        if !run.is_final() {
            followed.last_turn = self.turn;
            self.followed.insert(id, followed);
            self.forget_oldest();
        }
        Ok(Some(ToldEvent { view, line, actions, fired_for }))
    }

    /// Forgets the half of the runs that nothing has happened to for longest, once there are too many.
    fn forget_oldest(&mut self) {
        if self.followed.len() <= MAX_FOLLOWED {
            return;
        }
        let mut turns: Vec<u64> = self.followed.values().map(|followed| followed.last_turn).collect();
        let (_, middle, _) = turns.select_nth_unstable(MAX_FOLLOWED / 2);
        let middle = *middle;
        self.followed.retain(|_, followed| followed.last_turn > middle);
    }
}

/// Returns the time of a schedule that has started a run by itself with this event, its first.
fn find_fired(run: &Run, event: &Event) -> Option<String> {
    let is_fired = event.seq == 1 && event.by == Actor::Engine && matches!(run.origin, Origin::Root);
    let at = run.key.as_deref().filter(|_| is_fired)?.strip_prefix(FIRING_PREFIX)?;
    Some(at.to_owned())
}

/// Makes a run as its event of this number has left it.
fn load_followed(reader: &dyn Reader, id: RunId, last: u64) -> Result<FollowedRun, ServiceError> {
    let (mut run, mut facts) = (None, FactTeller::default());
    let count = usize::try_from(last).unwrap_or(usize::MAX);
    if count > 0 {
        for event in reader.history(id, 0, count)? {
            evolve(&mut run, &event);
            facts.follow(&event.facts);
        }
    }
    Ok(FollowedRun { run, facts, line: Vec::new(), path: Vec::new(), last_turn: 0 })
}

/// Lists a run and those above it, and the steps that lead to it from the root.
fn list_line(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &Run,
) -> Result<(Vec<RunId>, Vec<String>), ServiceError> {
    let name_of = |flow| flows.get(reader, flow).ok();
    let (mut line, mut path) = (vec![run.id], Vec::new());
    let (mut origin, mut flow) = (run.origin.clone(), run.flow);
    while let Some(id) = origin.parent().filter(|_| line.len() < MAX_DEPTH) {
        line.push(id);
        let Some(parent) = reader.run(id)? else { break };
        path.extend(match &origin {
            Origin::Child { unit, .. } => name_of(parent.flow).map(|flow| unit_name(&flow, *unit)),
            Origin::Handler { .. } => name_of(flow).map(|flow| flow.name.to_string()),
            Origin::Root => None,
        });
        (origin, flow) = (parent.origin.clone(), parent.flow);
    }
    path.reverse();
    Ok((line, path))
}
