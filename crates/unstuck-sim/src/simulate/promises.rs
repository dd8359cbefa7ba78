//! Watches every promise: what goes into the engine, what comes out of it, and what its store shows.
//!
//! What comes out is durable. It is written into the book of each run, with oracles beside the engine: budgets are counted
//! again, the ladder is climbed again, policies are chosen by a plain walk, leases are measured by our own clock. What the
//! store shows is compared with the books after every step, for the runs that something has happened to; and for all of
//! them now and then, after a crash, and at the end.

mod asked;
mod book;
mod budgets;
pub(crate) mod bulks;
mod chosen;
mod claims;
mod family;
mod hands;
mod leases;
mod ledger;
mod matching;
mod model;
mod promise;
mod recount;
mod rest;
mod settled;
mod shown;
mod stopped;
mod sweep;
#[cfg(test)]
mod tests;
mod told;
mod unheard;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, Target};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::policy::Policies;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, Next};
use unstuck_engine::executor::{Job, Word};
use unstuck_engine::flows::Flows;
use unstuck_engine::request::{EngineError, Output, Request, Ticket};
use unstuck_store::contract::{Store, StoreError};

use book::Book;
use budgets::Climb;
use bulks::Bulks;
use chosen::InForce;
use family::Family;
use hands::Hands;
use leases::Leases;
use ledger::{Ledger, Meaning};
pub use promise::{Broken, Promise};
use shown::Notices;

/// So many looks, and everything is looked at.
const LOOKS_PER_SWEEP: u32 = 64;
/// Explaining takes a while: one look of so many at a run.
const LOOKS_PER_EXPLANATION: u32 = 8;

/// Within this time a batch that was refused is tried again.
const STORE_RETRY: Millis = Millis(200);
/// What is looked at with every event.
const OF_EVENTS: [Promise; 10] = [
    Promise::Once,
    Promise::Final,
    Promise::Fenced,
    Promise::Budgets,
    Promise::Stopped,
    Promise::Limits,
    Promise::Values,
    Promise::Deadlines,
    Promise::Reruns,
    Promise::Queues,
];

/// What has been promised so far, and what each check needs to know.
#[derive(Debug)]
pub struct Promises {
    books: BTreeMap<RunId, Book>,
    ledger: Ledger,
    hands: Hands,
    leases: Leases,
    family: Family,
    in_force: InForce,
    bulks: Bulks,
    /// Runs that somebody has forgotten.
    forgotten: BTreeSet<RunId>,
    /// What was heard and not looked at yet.
    heard: Vec<Heard>,
    /// The latest time that an engine can know of, and the time that it must know of.
    clock: Time,
    stepped: Time,
    /// The time of the last event that became durable.
    last_event: Time,
    looks: u32,
    checked: BTreeMap<Promise, u64>,
}

/// What was heard, as far as it matters.
#[derive(Debug)]
enum Heard {
    Reply(Ticket, Result<unstuck_core::decide::Answer, EngineError>),
    Event(RunId, Event),
    Dispatch(Worker, Box<Job>),
    Interrupt(Worker, AttemptId),
}

/// Either a broken promise, or a store that cannot be asked now, which is no promise's fault.
enum Trouble {
    Broken(Broken),
    Store,
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Trouble {
        Trouble::Broken(broken)
    }
}

impl From<StoreError> for Trouble {
    fn from(_: StoreError) -> Trouble {
        Trouble::Store
    }
}

impl Default for Promises {
    fn default() -> Promises {
        Promises::new()
    }
}

impl Promises {
    /// Nothing has been promised yet.
    pub fn new() -> Promises {
        Promises {
            books: BTreeMap::new(),
            ledger: Ledger::default(),
            hands: Hands::default(),
            leases: Leases::default(),
            family: Family::default(),
            in_force: InForce::default(),
            bulks: Bulks::default(),
            forgotten: BTreeSet::new(),
            heard: Vec::new(),
            clock: Time(i64::MIN),
            stepped: Time(i64::MIN),
            last_event: Time(i64::MIN),
            looks: 0,
            checked: BTreeMap::new(),
        }
    }

    /// A worker takes so much at once.
    pub fn hired(&mut self, worker: &Worker, max_load: u32) {
        self.hands.hired(worker, max_load);
    }

    /// Somebody asks: before it is submitted.
    pub fn asked(&mut self, request: &Request, now: Time) {
        self.clock = self.clock.max(now);
        match request {
            Request::Word(word) => {
                if let Some(attempt) = word.ends() {
                    self.hands.let_go(attempt);
                }
                match word {
                    Word::Says(attempt, says) => self.leases.said(*attempt, says),
                    Word::Lost(attempt) => self.leases.lost(*attempt),
                    Word::Freed(_) => {}
                }
            }
            Request::Lost { attempt, .. } => self.leases.lost(*attempt),
            Request::Command { command: unstuck_core::command::Command::Lost { attempt, .. }, .. } => {
                self.leases.lost(*attempt);
            }
            Request::Command {
                command: unstuck_core::command::Command::Answer { attempt, says }, ..
            } => {
                self.leases.said(*attempt, says);
            }
            Request::Start { .. }
            | Request::Command { .. }
            | Request::Forget { .. }
            | Request::Bulk { .. } => {}
        }
        self.ledger.asked(request);
    }

    /// The engine wants something done: everything in it is durable.
    pub fn heard(&mut self, output: &Output, now: Time) -> Result<(), Broken> {
        self.clock = self.clock.max(now);
        let heard = match output {
            Output::Reply { ticket, result } => Heard::Reply(*ticket, result.clone()),
            Output::Dispatch { worker, job } => Heard::Dispatch(worker.clone(), Box::new(job.clone())),
            Output::Interrupt { worker, attempt, .. } => Heard::Interrupt(worker.clone(), *attempt),
            Output::Happened { run, event } => {
                self.check_time(*run, event)?;
                Heard::Event(*run, event.clone())
            }
        };
        self.heard.push(heard);
        Ok(())
    }

    /// A bulk action has begun, and that was acknowledged.
    pub fn bulk_begun(&mut self, bulk: &Bulk, targets: &[Target]) {
        self.bulks.begun(bulk, targets);
    }

    /// Policies were changed and that was acknowledged.
    pub fn policies(&mut self, policies: &Policies) {
        self.in_force.change(policies, self.stepped);
    }

    /// After every step: looks at the runs that something has happened to (their state may not be durable yet).
    pub fn look<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        self.time_is(now);
        self.leases.stepped(self.stepped);
        self.looks += 1;
        if engine.is_stopped() {
            return Ok(());
        }
        let is_quiet = is_quiet(engine);
        // A batch that the store has refused is tried again in a moment.
        let is_at_rest = is_quiet && !matches!(engine.what_next(), Next::At(at) if at <= now + STORE_RETRY);
        let (store, flows) = engine.reader();
        let result = self.look_at(store, flows);
        if is_quiet {
            self.leases.all_known(self.stepped);
        }
        if is_at_rest && result.is_ok() {
            unless_away(self.check_at_rest(store, flows))?;
        }
        if result.is_ok() && self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            return unless_away(self.sweep(store, flows, is_quiet));
        }
        unless_away(result)
    }

    /// The process died and another one has opened the store: before it does anything.
    pub fn after_crash<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        let (store, flows) = engine.reader();
        let result = self.take_heard(store, flows).map(drop);
        unless_away(result)?;
        let last = store.last_time().ok().flatten().unwrap_or(Time(i64::MIN));
        // The store may know that it was alive a little longer, before its clock was set back.
        let seen = store.last_seen().ok().flatten().unwrap_or(last);
        self.leases.was_away(self.clock.max(seen), last.max(now));
        // An engine knows no time but that of its store, which may have been alive after its last stage, and its clock.
        self.clock = seen.max(last).max(now);
        self.stepped = last;
        self.ledger.crashed();
        for (bulk, deed) in self.ledger.unknown_deeds() {
            self.bulks.may_have_changed(bulk, deed);
        }
        self.hands.crashed();
        let result = self.find_unheard(store, flows);
        unless_away(result)?;
        self.in_force.restart();
        self.ledger.give_up_unknown();
        self.hands.crashed();
        self.lose_workers();
        let result = self.sweep(store, flows, false);
        unless_away(result)
    }

    /// It is this time, and the engine is told so or could have been: when it dies, or when it is ordered something.
    pub fn time_is(&mut self, now: Time) {
        self.clock = self.clock.max(now);
        self.stepped = self.stepped.max(now);
    }

    /// Faults have stopped, workers do their work, people answer: everything must have come to its end.
    pub fn settled<S: Store>(&mut self, engine: &mut Engine<S>, now: Time) -> Result<(), Broken> {
        self.time_is(now);
        self.leases.stepped(self.stepped);
        let is_quiet = is_quiet(engine);
        let (store, flows) = engine.reader();
        let result = self.look_at(store, flows);
        unless_away(result)?;
        let result = self.sweep(store, flows, is_quiet);
        unless_away(result)?;
        self.count(Promise::Moved);
        let result = settled::check(store, flows, &self.books, self.clock);
        unless_away(result)
    }

    /// How often each promise was checked.
    pub fn checked(&self) -> &BTreeMap<Promise, u64> {
        &self.checked
    }

    fn count(&mut self, promise: Promise) {
        *self.checked.entry(promise).or_default() += 1;
    }

    /// Over all events in the order in which they became durable.
    fn check_time(&mut self, run: RunId, event: &Event) -> Result<(), Broken> {
        self.count(Promise::Time);
        if event.at < self.last_event {
            let what = format!(
                "event {} is of {}, and {} was recorded before it",
                event.seq, event.at, self.last_event
            );
            return Err(Broken::of(Promise::Time, run, what));
        }
        if event.at > self.clock {
            let what = format!(
                "event {} is of {}, and no clock has been later than {}",
                event.seq, event.at, self.clock
            );
            return Err(Broken::of(Promise::Time, run, what));
        }
        self.last_event = event.at;
        Ok(())
    }

    fn look_at(&mut self, store: &mut dyn Store, flows: &mut Flows) -> Result<(), Trouble> {
        let touched = self.take_heard(store, flows)?;
        self.hands.check_done()?;
        self.ledger.check_owed()?;
        self.check_claims(store)?;
        if touched.is_empty() {
            return Ok(());
        }
        let notices = Notices::read(store)?;
        for id in touched {
            self.look_at_run(store, flows, id, &notices)?;
        }
        Ok(())
    }

    /// Writes down what was heard, in order. Gives the runs that something has happened to.
    fn take_heard(&mut self, store: &mut dyn Store, flows: &mut Flows) -> Result<BTreeSet<RunId>, Trouble> {
        let mut touched = BTreeSet::new();
        for heard in std::mem::take(&mut self.heard) {
            match heard {
                Heard::Reply(ticket, result) => {
                    self.count(if result.is_ok() { Promise::Kept } else { Promise::Refused });
                    match self.ledger.replied(ticket, &result)? {
                        Meaning::Nothing => {}
                        Meaning::Alive(attempt) => {
                            self.check_token(attempt)?;
                            self.leases.acknowledged(attempt);
                        }
                        Meaning::Bulk(bulk, deed) => self.bulks.changed(bulk, deed),
                        Meaning::Unheard(attempt) => self.leases.refused(attempt),
                        Meaning::Forgotten(runs) => runs.into_iter().for_each(|run| self.forget(run)),
                    }
                }
                Heard::Event(run, event) => {
                    self.write(store, flows, run, event)?;
                    touched.insert(run);
                }
                Heard::Dispatch(worker, job) => {
                    self.count(Promise::Once);
                    self.hands.dispatch(&worker, job.attempt)?;
                    self.check_job(store, &job)?;
                }
                Heard::Interrupt(worker, attempt) => self.hands.interrupt(&worker, attempt)?,
            }
        }
        touched.retain(|run| self.books.contains_key(run));
        Ok(touched)
    }

    fn forget(&mut self, run: RunId) {
        self.forgotten.insert(run);
        self.books.remove(&run);
        self.family.forget(run);
    }

    /// Something durable has happened to a run.
    fn write(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        id: RunId,
        event: Event,
    ) -> Result<(), Trouble> {
        for promise in OF_EVENTS {
            self.count(promise);
        }
        let book = self.books.entry(id).or_insert_with(|| Book::new(id));
        let Some(flow) = flow_of(store, flows, &event, book.run().map(|run| run.flow))? else {
            return Err(Broken::of(
                Promise::Replayed,
                id,
                format!("event {} does not start the run", event.seq),
            )
            .into());
        };
        let request = self.ledger.attribute(id, &event, book.run())?;
        asked::check(request.as_ref(), &event, &flow, book.run(), &book.model)?;
        if let Some(before) = book.run() {
            stopped::check(before, &event)?;
        }
        // Before the first event the run is as that makes it.
        let first = if book.run().is_none() { unstuck_core::evolve::replay([&event]) } else { None };
        let mut generation = book.run().map_or(event.generation, |run| run.generation);
        for (place, fact) in event.facts.iter().enumerate() {
            if let Fact::Reran { generation: next, .. } = fact {
                generation = *next;
                book.units.clear();
            }
            let Fact::Unit { unit, fact } = fact else { continue };
            let recount = book.units.entry(*unit).or_default();
            let before = book.history.run().or(first.as_ref());
            let attempt = attempt_of(fact, book.history.run(), &event, *unit);
            let attempt = AttemptId { run: id, generation, unit: *unit, attempt };
            if let Some(before) = before {
                let climb = Climb { before, flow: &flow, event: &event, in_force: &self.in_force };
                climb.check(place, *unit, fact, recount)?;
                if let UnitFact::Ended { outcome, .. } = fact {
                    let step = flow.step(unit.step);
                    self.leases.check_end(attempt, before, step, &event, outcome, recount)?;
                }
            }
            self.hands.fact(book.history.run(), &flow, &event, *unit, fact, attempt);
            recount.count(fact, event.at);
        }
        book.model.follow(id, &flow, &event, &mut |payload| told::value(store, payload))?;
        let before = book.run().cloned();
        let book_event = event.clone();
        book.write(event)?;
        if let Some(after) = book.run() {
            self.family.follow(&book_event, &flow, after)?;
            let reran = book_event.facts.iter().any(|fact| matches!(fact, Fact::Reran { .. }));
            rest::check_slot(&flow, before.as_ref(), after, reran)?;
        }
        self.bulks.follow(id, &book_event, !self.family.is_unordered())?;
        self.check_family_values(store, id, &book_event, before.as_ref())?;
        Ok(())
    }

    /// A sign of life was taken: its attempt was under way in all that is durable before.
    fn check_token(&self, id: AttemptId) -> Result<(), Broken> {
        let Some(run) = self.books.get(&id.run).and_then(Book::run) else { return Ok(()) };
        let live = run.unit(id.unit).and_then(|unit| unit.state.live());
        let is_live = live.is_some_and(|live| live.attempt == id.attempt);
        if is_live && run.generation == id.generation {
            return Ok(());
        }
        let what = format!("attempt {} is over, and a sign of life of it is taken", id.attempt);
        Err(Broken::of(Promise::Fenced, id.run, what))
    }

    fn look_at_run(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        id: RunId,
        notices: &Notices,
    ) -> Result<(), Trouble> {
        for promise in [Promise::Replayed, Promise::Moved, Promise::Kept, Promise::Children] {
            self.count(promise);
        }
        let Some(book) = self.books.get_mut(&id) else { return Ok(()) };
        let Some(shown) = shown::read(store, id, book)?? else {
            if self.ledger.may_be_forgotten(id) {
                return Ok(());
            }
            return Err(Broken::of(Promise::Kept, id, "it was acknowledged, and is not there").into());
        };
        let flow = flow(store, flows, shown.run.flow)?;
        shown::check_moved(store, &shown, book, &flow, notices)??;
        shown::check_next_due(&shown.run, &flow, store.next_due()?)?;
        book.looks += 1;
        if book.looks % LOOKS_PER_EXPLANATION == 1 {
            let mut history = book.events.clone();
            history.extend(shown.tail);
            shown::check_explained(&shown.run, &flow, &history, self.clock)?;
            self.count(Promise::Explained);
        }
        Ok(())
    }
}

/// A store that is full, away or broken cannot be asked, and promises nothing meanwhile.
fn unless_away(result: Result<(), Trouble>) -> Result<(), Broken> {
    match result {
        Ok(()) | Err(Trouble::Store) => Ok(()),
        Err(Trouble::Broken(broken)) => Err(broken),
    }
}

/// Whether the engine has nothing to do at its own time, and everything is durable.
fn is_quiet<S: Store>(engine: &mut Engine<S>) -> bool {
    engine.trouble().is_none() && matches!(engine.what_next(), Next::At(_) | Next::Idle)
}

fn flow(store: &mut dyn Store, flows: &mut Flows, id: FlowId) -> Result<Arc<Flow>, Trouble> {
    flows.get(store, id).map_err(|_| Trouble::Store)
}

/// The flow version that the facts of an event speak of.
fn flow_of(
    store: &mut dyn Store,
    flows: &mut Flows,
    event: &Event,
    before: Option<FlowId>,
) -> Result<Option<Arc<Flow>>, Trouble> {
    let named = event.facts.iter().find_map(|fact| match fact {
        Fact::Started(started) => Some(started.flow),
        Fact::Reran { flow, .. } => Some(*flow),
        _ => None,
    });
    named.or(before).map(|id| flow(store, flows, id)).transpose()
}

/// The attempt that a fact is about: the one that it names, or that was queued last.
fn attempt_of(
    fact: &UnitFact,
    before: Option<&unstuck_core::model::run::Run>,
    event: &Event,
    unit: unstuck_core::model::unit::UnitRef,
) -> u32 {
    if let UnitFact::Ended { attempt, .. }
    | UnitFact::Queued { attempt, .. }
    | UnitFact::ChildStarted { attempt, .. } = fact
    {
        return *attempt;
    }
    let queued = event.facts.iter().rev().find_map(|fact| match fact {
        Fact::Unit { unit: of, fact: UnitFact::Queued { attempt, .. } } if *of == unit => Some(*attempt),
        _ => None,
    });
    queued.or_else(|| before.and_then(|run| run.unit(unit)).map(|unit| unit.attempts)).unwrap_or(0)
}
