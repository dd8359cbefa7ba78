//! Several servers on one store: who has a session, who tells what has happened, whose ids are whose, and when all of them rest.
//!
//! What is durable is taken from the store in its order, whoever did it and whether that lives to tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::bulk::BulkRef;
use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::{AttemptId, Outcome, StuckLimit, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::model::unit::UnitState;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep};
use unstuck_engine::flows::Flows;
use unstuck_engine::request::{Request, Ticket};
use unstuck_store::contract::Store;
use unstuck_store::memory::DurableStage;

use super::leases::{stuck_by, worker_of};
use super::run_record::RunRecord;
use super::timeline::Moment;
use super::{Broken, CheckError, Promise, Promises, is_quiet, unless_away};

/// A server that was stepped less than this ago lives: its session lasts 30 seconds, and is renewed every three.
const LIVES: Millis = Millis::seconds(26);
/// And one that was not for so long is known to be over.
const KNOWN_TO_BE_OVER: Millis = Millis::seconds(40);
/// Where the bits of a server begin in an id, and how many there are.
const NODE_SHIFT: u32 = 12;
const NODE_MASK: u64 = 1_023;

/// What is known of the servers.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// The session of each server that is there.
    current: Vec<Option<u64>>,
    /// Every session that ever was, with when its server was stepped last; nothing where it has ended in good order.
    stepped: BTreeMap<u64, Option<Time>>,
    /// Sessions whose attempts others have called lost.
    taken_for_dead: BTreeSet<u64>,
    /// Whose ids have these bits, and the ids that were given out.
    bits: BTreeMap<u64, u64>,
    ids: BTreeSet<RunId>,
    /// Events that are durable, and that the server of this session has not told.
    untold: BTreeMap<(RunId, u64), u64>,
    /// Those of which it does not know that they are durable: it tells them when that is looked up, and not before.
    unknown: BTreeSet<(RunId, u64)>,
    /// The processes that dead servers left and others have ended.
    cleaned_up: BTreeMap<AttemptId, u64>,
    /// The versions of flows, with when each was kept.
    flows: BTreeMap<Arc<str>, Vec<(Time, FlowId)>>,
    /// What each has to do next, if nothing has changed since it rests.
    resting: Vec<Option<(NextStep, u64)>>,
    /// Whether the one that was stepped has more to take in: what it has done may have made somebody speak.
    is_asked: bool,
    /// How many stages are durable.
    durable: u64,
    /// How many were when all was last looked at.
    looked_at: u64,
    /// What dead or stopped servers have staged may be on its way.
    has_orphans: bool,
    /// When signs of life were told that nobody has answered.
    beats: BTreeMap<Ticket, Time>,
}

impl Servers {
    pub(super) fn new(count: usize) -> Servers {
        Servers { current: vec![None; count], resting: vec![None; count], ..Servers::default() }
    }

    /// Whether several share the store.
    pub(super) fn are_several(&self) -> bool {
        self.current.len() > 1
    }

    /// The session of the server of this place; where there is one server, it is the same for ever.
    pub(super) fn session_at(&self, place: usize) -> u64 {
        self.current.get(place).copied().flatten().unwrap_or(0)
    }

    /// The server of this place is not there any more.
    pub(super) fn leave(&mut self, place: usize) {
        self.current[place] = None;
        self.has_orphans = true;
    }

    /// Something is asked of the server of this place: it does not rest.
    pub(super) fn wake(&mut self, place: usize) {
        if let Some(resting) = self.resting.get_mut(place) {
            *resting = None;
        }
    }

    /// A worker asks at this time to be taken for alive.
    pub(super) fn record_beat(&mut self, request: &Request, at: Time) {
        if let Request::Command {
            ticket,
            command: Command::Report { report: Report::Heartbeat { .. }, .. },
            ..
        } = request
            && self.are_several()
        {
            self.beats.insert(*ticket, at);
        }
    }

    /// When a sign of life that is answered was told, where several servers share the store.
    pub(super) fn take_beat(&mut self, ticket: Ticket) -> Option<Time> {
        self.beats.remove(&ticket)
    }

    /// Whether a session may have ended by then.
    fn may_be_over(&self, session: u64, at: Time) -> bool {
        self.stepped.get(&session).is_none_or(|last| last.is_none_or(|last| at.since(last) > LIVES))
    }

    /// Whether the oldest session is of a server that is there: every older one is known to have ended.
    fn is_led(&self, now: Time) -> bool {
        let is_over = |last: &Option<Time>| last.is_none_or(|last| now.since(last) > KNOWN_TO_BE_OVER);
        let oldest = self.stepped.iter().find(|(_, last)| !is_over(last)).map(|(session, _)| *session);
        oldest.is_some_and(|oldest| self.is_there(oldest))
    }

    fn is_there(&self, session: u64) -> bool {
        self.current.contains(&Some(session))
    }

    /// An id that a session has given out: nobody else who lives has its bits.
    fn check_id(&mut self, id: RunId, session: u64, at: Time) -> Result<(), Broken> {
        // A child that runs again has the id that it was given first.
        if !self.ids.insert(id) {
            return Ok(());
        }
        let bits = (id.0 >> NODE_SHIFT) & NODE_MASK;
        match self.bits.insert(bits, session) {
            Some(other) if other != session && !self.may_be_over(other, at) => {
                let what = format!("sessions {other} and {session} give out ids with the same bits, {bits}");
                Err(Broken::of(Promise::Keys, id, what))
            }
            _ => Ok(()),
        }
    }

    /// A run starts with a version of its flow that is not older than what was kept before.
    fn check_flow(&self, run: RunId, event: &Event, flow: &Flow, at: Time) -> Result<(), Broken> {
        let is_root = |fact: &Fact| matches!(fact, Fact::Started(started) if started.origin == Origin::Root);
        if !event.facts.iter().any(is_root) || !matches!(event.by, Actor::User(_)) {
            return Ok(());
        }
        let versions = self.flows.get(&flow.name).map_or(&[][..], Vec::as_slice);
        let newest = versions.iter().rposition(|(since, _)| *since < at);
        let Some(newest) = newest.filter(|newest| versions[*newest..].iter().all(|(_, id)| *id != flow.id))
        else {
            return Ok(());
        };
        let (since, _) = versions[newest];
        let what = format!("it starts at {at} with a version of `{}` from before {since}", flow.name);
        Err(Broken::of(Promise::Shared, run, what))
    }

    /// The server of a session tells what has happened: what it did itself, once.
    fn check_told(&mut self, run: RunId, seq: u64, session: u64) -> Result<(), Broken> {
        if self.unknown.contains(&(run, seq)) {
            let what = format!("session {session} tells event {seq}, and nobody knows that it is durable");
            return Err(Broken::of(Promise::Sessions, run, what));
        }
        match self.untold.remove(&(run, seq)) {
            Some(by) if by == session => Ok(()),
            by => {
                let what = format!("session {session} tells event {seq}, which {by:?} has to tell");
                Err(Broken::of(Promise::Sessions, run, what))
            }
        }
    }

    /// Somebody is answered: whoever started a run only once it is known to be durable.
    pub(super) fn check_answer(&self, answer: Option<Answer>) -> Result<(), Broken> {
        match answer {
            Some(Answer::Started(run)) if self.unknown.contains(&(run, 1)) => {
                let what = "its start is answered, and nobody knows that it is durable";
                Err(Broken::of(Promise::Sessions, run, what))
            }
            _ => Ok(()),
        }
    }

    /// It has told all that it did.
    fn check_all_told(&self, session: u64) -> Result<(), Broken> {
        let is_known = |event: &(RunId, u64)| !self.unknown.contains(event);
        let mut untold = self.untold.iter().filter(|(event, by)| **by == session && is_known(event));
        let Some(((run, seq), _)) = untold.next() else { return Ok(()) };
        let what = format!("session {session} did event {seq}, and does not tell it");
        Err(Broken::of(Promise::Sessions, *run, what))
    }

    /// What each server has to do next, where all of them rest.
    fn all_resting(&self) -> Option<Vec<NextStep>> {
        if self.has_orphans {
            return None;
        }
        let there = self.current.iter().zip(&self.resting).filter(|(session, _)| session.is_some());
        let next = |(_, resting): (_, &Option<(NextStep, u64)>)| {
            resting.filter(|(_, durable)| *durable == self.durable).map(|(next, _)| next)
        };
        there.map(next).collect()
    }
}

/// Parents before the children that they begin: the order within a batch is not known, and the ids of two servers do not tell it.
fn sort_parents_first(events: &mut [(RunId, Event)]) {
    let mut parents = BTreeMap::new();
    for (run, event) in &*events {
        for fact in &event.facts {
            if let Fact::Unit { fact: UnitFact::ChildStarted { run: child, .. }, .. }
            | Fact::HandlerStarted { run: child } = fact
            {
                parents.insert(*child, *run);
            }
        }
    }
    let depth = |run: RunId| std::iter::successors(parents.get(&run), |run| parents.get(run)).count();
    events.sort_by_cached_key(|(run, event)| (depth(*run), *run, event.seq));
}

impl Promises {
    /// Whether something waits to be taken in by the server that was stepped.
    pub fn set_asked(&mut self, is_asked: bool) {
        self.servers.is_asked = is_asked;
    }

    /// So many servers share the store.
    pub fn of_nodes(count: usize) -> Promises {
        let mut promises = Promises { servers: Servers::new(count), ..Promises::new() };
        if count > 1 {
            promises.ledger.early.begin();
        }
        promises
    }

    /// What follows is about the server of this place.
    pub fn go_to(&mut self, place: usize) {
        self.here = place;
    }

    /// This has become durable, in this order.
    pub fn record_durable(&mut self, stages: Vec<DurableStage>) {
        self.servers.durable += stages.len() as u64;
        self.durable.extend(stages);
    }

    /// Servers that died or were stopped may have left stages on their way, or have not.
    pub fn record_orphans(&mut self, are_there: bool) {
        self.servers.has_orphans = are_there;
    }

    /// It is looked up what became of all that nobody knew of.
    pub fn record_look_up(&mut self) {
        self.servers.unknown.clear();
        self.durable.iter_mut().for_each(|stage| stage.is_unknown = false);
    }

    /// The server here has ended its session in good order.
    pub fn record_session_end(&mut self) {
        let session = self.session_here();
        self.servers.stepped.insert(session, None);
    }

    /// Nothing but this has happened for a while: every server that is there has renewed its session.
    pub fn record_renewals(&mut self, now: impl Into<Moment>) {
        self.record_wake(now);
        let now = self.timeline.paced();
        for session in self.servers.current.iter().flatten() {
            self.servers.stepped.insert(*session, Some(now));
        }
    }

    /// A version of a flow is kept.
    pub fn record_flow(&mut self, flow: &Flow) {
        let at = self.timeline.paced();
        let versions = self.servers.flows.entry(flow.name.clone()).or_default();
        if versions.iter().any(|(_, known)| *known == flow.id) {
            // One that was there before is no new version.
            return;
        }
        versions.push((at, flow.id));
    }

    /// The session of the server that this is about.
    pub(super) fn session_here(&self) -> u64 {
        self.servers.session_at(self.here)
    }

    /// A server has opened the store that others have open too.
    pub(super) fn joined<S: Store>(&mut self, engine: &mut Engine<S>, now: Moment) -> Result<(), Broken> {
        self.record_wake(now);
        let session = engine.incarnation();
        self.count(Promise::Sessions);
        if self.servers.stepped.contains_key(&session) {
            let what = format!("session {session} is given to two servers");
            return Err(Broken { promise: Promise::Sessions, run: None, what });
        }
        self.servers.current[self.here] = Some(session);
        self.servers.stepped.insert(session, Some(self.timeline.paced()));
        let (store, flows) = engine.reader();
        let result = self.look_at_shared(store, flows, None);
        unless_away(result)
    }

    /// The server of this session is dead.
    pub(super) fn server_died(&mut self, session: u64) {
        self.ledger.died(session);
        self.leases.died(session, self.timeline.paced());
        self.hands.died(session);
        self.servers.untold.retain(|_, by| *by != session);
    }

    /// After a step of a server: all that it did and that is durable has been told, and others are watched by what it left.
    pub(super) fn check_shared_step<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        now: Moment,
    ) -> Result<(), Broken> {
        self.record_wake(now);
        let session = self.session_here();
        self.servers.stepped.insert(session, Some(self.timeline.paced()));
        self.leases.stepped(session, self.timeline.paced());
        self.looks += 1;
        if engine.is_stopped() {
            return Ok(());
        }
        let is_quiet = is_quiet(engine) && !self.servers.is_asked;
        // By the clock of the store, which all of them go by.
        let next = match engine.next_step() {
            NextStep::At(at) => NextStep::At(engine.to_store_time(at)),
            next => next,
        };
        let (store, flows) = engine.reader();
        unless_away(self.look_at_shared(store, flows, Some((session, is_quiet))))?;
        self.servers.resting[self.here] = is_quiet.then_some((next, self.servers.durable));
        let resting = self.servers.all_resting().filter(|_| self.heard.is_empty());
        if let Some(next) = &resting {
            self.leases.all_known(self.timeline.paced());
            self.timeline.all_durable();
            self.ledger.all_durable();
            self.check_rest_of_all(store, flows, next)?;
        }
        if self.looks.is_multiple_of(super::LOOKS_PER_SWEEP) {
            return unless_away(self.sweep(store, flows, resting.is_some()));
        }
        Ok(())
    }

    /// What must hold when all servers rest, if anything has happened since it was last looked at.
    fn check_rest_of_all(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        next: &[NextStep],
    ) -> Result<(), Broken> {
        let time = |next: &NextStep| if let NextStep::At(at) = next { Some(*at) } else { None };
        let first = next.iter().filter_map(time).min();
        if std::mem::replace(&mut self.servers.looked_at, self.servers.durable) == self.servers.durable {
            return Ok(());
        }
        self.switch.set_orphaned(!self.servers.is_led(self.timeline.paced()));
        self.check_sleep(first.map_or(NextStep::Idle, NextStep::At))?;
        unless_away(self.check_at_rest(store, flows))
    }

    /// Takes in what has become durable and what was told, in this order, and looks at the runs that it is about.
    pub(super) fn look_at_shared(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        stepped: Option<(u64, bool)>,
    ) -> Result<(), CheckError> {
        let mut touched = self.take_durable(store, flows)?;
        touched.extend(self.take_heard(store, flows)?);
        if let Some((session, is_quiet)) = stepped {
            self.hands.check_done_by(session, is_quiet, &self.servers.unknown)?;
            self.servers.check_all_told(session)?;
        }
        self.look_at_touched(store, flows, &touched)
    }

    fn take_durable(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
    ) -> Result<BTreeSet<RunId>, CheckError> {
        let mut touched = BTreeSet::new();
        for DurableStage { session, mut events, forgotten, is_unknown } in std::mem::take(&mut self.durable) {
            self.writer = session.unwrap_or(0);
            self.check_fence()?;
            sort_parents_first(&mut events);
            self.family.begin_unordered();
            for (run, event) in events {
                if self.servers.is_there(self.writer) {
                    self.servers.untold.insert((run, event.seq), self.writer);
                    if is_unknown {
                        self.servers.unknown.insert((run, event.seq));
                    }
                }
                self.write(store, flows, run, event, false)?;
                touched.insert(run);
            }
            self.family.end_unordered()?;
            self.forget_durably(store, &forgotten)?;
            touched.retain(|run| !forgotten.contains(run));
        }
        Ok(touched)
    }

    /// Who was taken for dead changes nothing.
    fn check_fence(&mut self) -> Result<(), Broken> {
        self.count(Promise::Sessions);
        if self.servers.taken_for_dead.contains(&self.writer) {
            let what = format!("session {} was taken for dead, and has changed something since", self.writer);
            return Err(Broken { promise: Promise::Sessions, run: None, what });
        }
        Ok(())
    }

    /// These runs are gone, whoever lives to tell: those that belong to one another together.
    fn forget_durably(&mut self, store: &mut dyn Store, runs: &[RunId]) -> Result<(), CheckError> {
        for run in runs {
            let is_final = self.books.get(run).and_then(|book| book.run()).is_some_and(Run::is_final);
            if !is_final || !self.may_be_forgotten(*run) {
                let what = "it is forgotten, and nobody has asked for it";
                return Err(Broken::of(Promise::Final, *run, what).into());
            }
        }
        if !runs.is_empty() {
            self.bulks.find_forgotten(store, runs, self.timeline.paced())?;
        }
        for run in runs {
            self.servers.untold.retain(|(of, _), _| of != run);
            self.forget(*run);
        }
        Ok(())
    }

    /// A server tells that a bulk action has removed these runs: that is durable by then, and was looked at.
    pub(super) fn told_forgotten(&self, target: BulkRef, runs: &[RunId]) -> Result<(), Broken> {
        if let Some(run) = runs.iter().find(|run| !self.forgotten.contains(run)) {
            return Err(Broken::of(Promise::Final, *run, "it is told that it is forgotten, and it is not"));
        }
        match runs.first() {
            Some(run) if !self.bulks.has_result(target) => {
                let what = format!("{} tells that it has forgotten it, and keeps nothing of it", target.bulk);
                Err(Broken::of(Promise::Bulks, *run, what))
            }
            _ => Ok(()),
        }
    }

    /// A server tells what has happened.
    pub(super) fn told(
        &mut self,
        place: usize,
        session: u64,
        run: RunId,
        event: &Event,
    ) -> Result<(), Broken> {
        if self.servers.session_at(place) != session || self.forgotten.contains(&run) {
            return Ok(());
        }
        self.servers.check_told(run, event.seq, session)
    }

    /// What is left of the processes of a dead server is ended by one server, once.
    pub(super) fn cleaned_up(&mut self, session: u64, attempts: &[AttemptId]) -> Result<(), Broken> {
        for attempt in attempts {
            // Who dies over it leaves it to another.
            let before = self.servers.cleaned_up.insert(*attempt, session);
            if before.is_some_and(|before| self.servers.is_there(before)) {
                let what = format!("what is left of attempt {} is ended twice", attempt.attempt);
                return Err(Broken::of(Promise::Sessions, attempt.run, what));
            }
        }
        Ok(())
    }

    /// Looks at an event before it is written down: at ids, at versions of flows, and at losses.
    pub(super) fn check_of_server(
        &mut self,
        run: RunId,
        event: &Event,
        flow: &Flow,
        at: Time,
    ) -> Result<(), Broken> {
        if !self.servers.are_several() {
            return Ok(());
        }
        let before = self.books.get(&run).and_then(RunRecord::run).cloned();
        self.count(Promise::Shared);
        self.servers.check_flow(run, event, flow, at)?;
        for fact in &event.facts {
            match fact {
                Fact::Started(started) if started.origin == Origin::Root => {
                    self.servers.check_id(run, self.writer, at)?;
                }
                Fact::Unit { fact: UnitFact::ChildStarted { run, .. }, .. }
                | Fact::HandlerStarted { run } => {
                    self.servers.check_id(*run, self.writer, at)?;
                }
                Fact::Unit { unit, fact: UnitFact::Ended { attempt, outcome } } => {
                    let Some(state) = before.as_ref().and_then(|run| run.unit(*unit)).map(|unit| &unit.state)
                    else {
                        continue;
                    };
                    let generation = event.generation;
                    let id = AttemptId { run, generation, unit: *unit, attempt: *attempt };
                    self.check_loss(id, event, flow, (state, outcome), at)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An attempt of an executor is lost with the session of its server, and never before that.
    fn check_loss(
        &mut self,
        id: AttemptId,
        event: &Event,
        flow: &Flow,
        (state, outcome): (&UnitState, &Outcome),
        at: Time,
    ) -> Result<(), Broken> {
        let UnitState::Active(live) = state else { return Ok(()) };
        let Some(Worker { local: true, incarnation, .. }) = worker_of(&live.doing) else { return Ok(()) };
        let limit = stuck_by(outcome, flow.step(id.unit.step), &live.doing, &event.by);
        if limit != Some(StuckLimit::Gone) || self.leases.is_lost(id) {
            return Ok(());
        }
        if !self.servers.may_be_over(*incarnation, at) {
            let what = format!("attempt {} is lost, and session {incarnation} lives", id.attempt);
            return Err(Broken::of(Promise::Sessions, id.run, what));
        }
        self.servers.taken_for_dead.insert(*incarnation);
        self.leases.lost_with_session(id);
        Ok(())
    }
}
