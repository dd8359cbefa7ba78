//! Watches every promise: what goes into the engine, what comes out of it, and what its store shows.
//!
//! What comes out is durable. It is written into the book of each run, with oracles beside the engine: budgets are counted
//! again, the ladder is climbed again, policies are chosen by a plain walk, leases are measured by our own clock. What the
//! store shows is compared with the books after every step, for the runs that something has happened to; and for all of
//! them now and then, after a crash, and at the end.

mod after_crash;
mod assignments;
mod budgets;
pub(crate) mod bulks;
mod claims;
mod dues;
mod early_events;
mod family;
mod leases;
mod ledger;
mod matching;
mod model;
mod passed_values;
mod policy_choice;
mod promise;
mod recount;
mod requests;
mod rest;
mod run_record;
mod servers;
mod settled;
mod shown;
mod stopped;
mod store_view;
mod sweep;
mod switch;
#[cfg(test)]
mod tests;
mod timeline;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkRef, Target};
use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::policy::Policies;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::{Engine, NextStep};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::flows::Flows;
use unstuck_engine::request::{EngineError, Output, Request, Ticket};
use unstuck_store::contract::{Store, StoreError};
use unstuck_store::memory::DurableStage;

use assignments::Assignments;
use budgets::Climb;
use bulks::Bulks;
use family::Family;
use leases::Leases;
use ledger::{Ledger, Meaning};
use policy_choice::PolicyHistory;
pub use promise::{Broken, Promise};
use run_record::RunRecord;
use servers::Servers;
use store_view::Notices;
use switch::Switch;
pub use timeline::Moment;
use timeline::{Timeline, clock_after};

/// So many looks, and everything is looked at.
const LOOKS_PER_SWEEP: u32 = 64;
/// Explaining takes a while: one look of so many at a run.
const LOOKS_PER_EXPLANATION: u32 = 8;

/// Within this time a batch that was refused is tried again.
const STORE_RETRY: Millis = Millis(200);
/// What is looked at with every event.
const OF_EVENTS: [Promise; 11] = [
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
    Promise::PausedPolicies,
];

/// What has been promised so far, and what each check needs to know.
#[derive(Debug)]
pub struct Promises {
    books: BTreeMap<RunId, RunRecord>,
    ledger: Ledger,
    hands: Assignments,
    leases: Leases,
    family: Family,
    in_force: PolicyHistory,
    switch: Switch,
    bulks: Bulks,
    /// Runs that somebody has forgotten.
    forgotten: BTreeSet<RunId>,
    /// The last event of each run that a reader was shown, since the last crash.
    shown: BTreeMap<RunId, u64>,
    /// The servers that share the store, the one that this is about, and the session of what is written down.
    servers: Servers,
    here: usize,
    writer: u64,
    /// What has become durable and was not looked at yet.
    durable: Vec<DurableStage>,
    /// What was heard and not looked at yet, with the server and the session that told it.
    heard: Vec<(usize, u64, Observation)>,
    timeline: Timeline,
    /// The uptime at which the process died, until the next one is there.
    died_at: Option<Millis>,
    /// Since when there was no engine, until the next one looks at its clocks.
    away_since: Option<Time>,
    looks: u32,
    checked: BTreeMap<Promise, u64>,
}

/// What was heard, as far as it matters.
#[derive(Debug)]
enum Observation {
    Reply(Ticket, Result<unstuck_core::decide::Answer, EngineError>),
    Event(RunId, Event),
    Dispatch(Worker, Box<Job>),
    Interrupt(Worker, AttemptId),
    Forgotten(Vec<RunId>, Option<BulkRef>),
    /// What is left of these attempts is ended.
    CleanUp(Vec<AttemptId>),
    /// The server is dead.
    Died,
}

/// Either a broken promise, or a store that cannot be asked now, which is no promise's fault.
enum CheckError {
    Broken(Broken),
    Store,
}

impl From<Broken> for CheckError {
    fn from(broken: Broken) -> CheckError {
        CheckError::Broken(broken)
    }
}

impl From<StoreError> for CheckError {
    fn from(_: StoreError) -> CheckError {
        CheckError::Store
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
            hands: Assignments::default(),
            leases: Leases::default(),
            family: Family::default(),
            in_force: PolicyHistory::default(),
            switch: Switch::default(),
            bulks: Bulks::default(),
            forgotten: BTreeSet::new(),
            shown: BTreeMap::new(),
            servers: Servers::default(),
            here: 0,
            writer: 0,
            durable: Vec::new(),
            heard: Vec::new(),
            timeline: Timeline::new(),
            died_at: None,
            away_since: None,
            looks: 0,
            checked: BTreeMap::new(),
        }
    }

    /// A worker takes so much at once.
    pub fn add_worker(&mut self, worker: &Worker, max_load: u32) {
        self.hands.hired(worker, max_load);
        if self.servers.are_several() {
            self.hands.moved(worker, self.session_here());
        }
    }

    /// Somebody asks: before it is submitted.
    pub fn record_request(&mut self, request: &Request, at: impl Into<Moment>) {
        let at = self.timeline.paced_at(at.into().uptime);
        let session = self.session_here();
        self.servers.wake(self.here);
        self.servers.record_beat(request, at);
        match request {
            Request::Executor(word) => {
                if let Some(attempt) = word.ended_attempt() {
                    self.hands.let_go(attempt);
                }
                match word {
                    ExecutorReport::Report(attempt, says) => self.leases.said(session, *attempt, says, at),
                    ExecutorReport::Lost(attempt) => self.leases.lost(session, *attempt),
                    ExecutorReport::Freed(_) => {}
                }
            }
            Request::Lost { attempt, .. } => self.leases.lost(session, *attempt),
            Request::Command { command: unstuck_core::command::Command::Lost { attempt, .. }, .. } => {
                self.leases.lost(session, *attempt);
            }
            Request::Command {
                command: unstuck_core::command::Command::Report { attempt, report: says },
                ..
            } => {
                self.leases.said(session, *attempt, says, at);
            }
            Request::Start { .. }
            | Request::Command { .. }
            | Request::Forget { .. }
            | Request::Bulk { .. }
            | Request::Schedule { .. } => {}
        }
        self.ledger.asked(session, request);
    }

    /// The engine wants something done: everything in it is durable.
    pub fn check_output(&mut self, output: &Output, now: impl Into<Moment>) -> Result<(), Broken> {
        self.record_wake(now);
        let heard = match output {
            Output::Reply { ticket, result } => Observation::Reply(*ticket, result.clone()),
            Output::Dispatch { worker, job } => Observation::Dispatch(worker.clone(), Box::new(job.clone())),
            Output::Interrupt { worker, attempt, .. } => Observation::Interrupt(worker.clone(), *attempt),
            Output::Happened { run, event } => Observation::Event(*run, event.clone()),
            Output::Forgotten { runs, target } => Observation::Forgotten(runs.clone(), *target),
            Output::CleanUp { left, .. } => {
                Observation::CleanUp(left.iter().map(|left| left.attempt).collect())
            }
        };
        self.heard.push((self.here, self.session_here(), heard));
        Ok(())
    }

    /// A bulk action has begun, and that was acknowledged.
    pub fn record_bulk(&mut self, bulk: &Bulk, targets: &[Target]) {
        self.bulks.begun(bulk, targets);
    }

    /// Policies were changed and that was acknowledged.
    pub fn record_policies(&mut self, policies: &Policies) {
        self.in_force.change(policies, self.timeline.paced());
        self.switch.change(policies.switch(), self.timeline.paced());
    }

    /// After every step: looks at the runs that something has happened to (their state may not be durable yet).
    pub fn check_after_step<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        now: impl Into<Moment>,
    ) -> Result<(), Broken> {
        if self.servers.are_several() {
            return self.check_shared_step(engine, now.into());
        }
        self.record_wake(now);
        self.leases.stepped(0, self.timeline.paced());
        self.looks += 1;
        if engine.is_stopped() {
            return Ok(());
        }
        let is_quiet = is_quiet(engine);
        // A batch that the store has refused is tried again in a moment.
        let soon = self.timeline.clock() + STORE_RETRY;
        let next = engine.next_step();
        let is_at_rest = is_quiet && !matches!(next, NextStep::At(at) if at <= soon);
        let (store, flows) = engine.reader();
        let result = self.look_at(store, flows);
        if is_quiet {
            self.leases.all_known(self.timeline.paced());
        }
        if is_at_rest && result.is_ok() {
            self.timeline.all_durable();
            self.check_sleep(next)?;
            unless_away(self.check_at_rest(store, flows))?;
        }
        if result.is_ok() && self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            return unless_away(self.sweep(store, flows, is_quiet));
        }
        unless_away(result)
    }

    /// Something has become durable while the engine waited for it: it has decided nothing since.
    pub fn settled_meanwhile<S: Store>(&mut self, engine: &mut Engine<S>) -> Result<(), Broken> {
        let (store, flows) = engine.reader();
        if self.servers.are_several() {
            return unless_away(self.look_at_shared(store, flows, None));
        }
        unless_away(self.look_at(store, flows))
    }

    /// The process died and another one has opened the store: before it does anything.
    pub fn after_crash<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        now: impl Into<Moment>,
    ) -> Result<(), Broken> {
        let now = now.into();
        if self.servers.are_several() {
            return self.joined(engine, now);
        }
        let (store, flows) = engine.reader();
        let result = self.take_heard(store, flows).map(drop);
        unless_away(result)?;
        self.ledger.crashed();
        for (bulk, command) in self.ledger.unknown_bulk_commands() {
            self.bulks.may_have_changed(bulk, command);
        }
        self.hands.crashed();
        let result = self.find_unheard(store, flows).and_then(|()| self.check_shown_is_kept(store));
        unless_away(result)?;
        self.reopen(store, now)?;
        self.in_force.restart();
        self.switch.restart();
        self.ledger.give_up_unknown();
        self.hands.crashed();
        self.lose_workers();
        let result = self.sweep(store, flows, false);
        unless_away(result)
    }

    /// The engine wakes up, or is told the time.
    pub fn record_wake(&mut self, now: impl Into<Moment>) {
        self.timeline.wake(now.into());
        if let Some(died) = self.away_since.take() {
            self.leases.was_away(died, self.timeline.paced());
        }
    }

    /// Nobody has taken answers between these two, and the engine has to know.
    pub fn stopped(&mut self, from: Millis, to: Millis) {
        let (from, to) = (self.timeline.paced_at(from), self.timeline.paced_at(to));
        self.leases.was_stopped(from, to);
    }

    /// The process of an attempt had ended by then, and the engine has to ask before it looks at a limit.
    pub fn had_ended(&mut self, attempt: AttemptId, at: Millis) {
        self.leases.had_ended(self.session_here(), attempt, self.timeline.paced_at(at));
    }

    /// The dead engine's time goes over into that of the next.
    fn reopen(&mut self, store: &mut dyn Store, now: Moment) -> Result<(), Broken> {
        let (Ok(clock), Ok(seen), Ok(last)) = (store.clock(), store.last_seen(), store.last_time()) else {
            return Ok(());
        };
        let died = self.died_at.take().map_or(self.timeline.paced(), |died| self.timeline.paced_at(died));
        // What may have been told by a clock before it was set back is no sign of life.
        let is_old = |seen: Time| clock.corrections.iter().any(|set| set.to < seen && seen <= set.from);
        let seen = seen.filter(|seen| Some(*seen) == last || !is_old(*seen)).or(last);
        self.leases.crashed(died);
        self.away_since = Some(died);
        self.timeline.reopen(died, clock.shift, seen, now)
    }

    /// The process dies.
    pub fn died(&mut self, now: impl Into<Moment>) {
        if self.servers.are_several() {
            self.heard.push((self.here, self.session_here(), Observation::Died));
            return self.servers.leave(self.here);
        }
        self.died_at = Some(now.into().uptime);
    }

    /// An engine that sleeps wakes up for the first thing that anybody waits for.
    fn check_sleep(&mut self, next: NextStep) -> Result<(), Broken> {
        self.count(Promise::Time);
        let shift = self.timeline.shift();
        let now = self.timeline.paced();
        let latest = |due| self.switch.latest(due, now);
        let dues =
            self.books.iter().filter_map(|(id, book)| Some((dues::first_due(book, shift, &latest)?, *id)));
        let Some((due, run)) = dues.min() else { return Ok(()) };
        if matches!(next, NextStep::At(at) if at <= due) {
            return Ok(());
        }
        let what = format!("something is due {due} by the clock of the engine, which sleeps: {next:?}");
        Err(Broken::of(Promise::Time, run, what))
    }

    /// Faults have stopped, workers do their work, people answer: everything must have come to its end.
    pub fn settled<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        now: impl Into<Moment>,
    ) -> Result<(), Broken> {
        self.record_wake(now);
        self.leases.stepped(self.session_here(), self.timeline.paced());
        let is_quiet = is_quiet(engine);
        let (store, flows) = engine.reader();
        let result = if self.servers.are_several() {
            self.look_at_shared(store, flows, Some((self.session_here(), true)))
        } else {
            self.look_at(store, flows)
        };
        unless_away(result)?;
        let result = self.sweep(store, flows, is_quiet);
        unless_away(result)?;
        self.count(Promise::Moved);
        let result = settled::check(store, flows, &self.books, self.timeline.clock());
        unless_away(result)
    }

    /// How often each promise was checked.
    pub fn checked(&self) -> &BTreeMap<Promise, u64> {
        &self.checked
    }

    fn count(&mut self, promise: Promise) {
        *self.checked.entry(promise).or_default() += 1;
    }

    fn look_at(&mut self, store: &mut dyn Store, flows: &mut Flows) -> Result<(), CheckError> {
        let touched = self.take_heard(store, flows)?;
        self.hands.check_done()?;
        self.look_at_touched(store, flows, &touched)
    }

    /// Looks at the runs that something has happened to.
    fn look_at_touched(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        touched: &BTreeSet<RunId>,
    ) -> Result<(), CheckError> {
        self.ledger.check_owed()?;
        self.check_claims(store)?;
        if touched.is_empty() {
            return Ok(());
        }
        let notices = Notices::read(store)?;
        self.check_shown(store, touched)?;
        for id in touched {
            self.look_at_run(store, flows, *id, &notices)?;
        }
        Ok(())
    }

    /// Writes down what was heard, in order. Gives the runs that something has happened to.
    fn take_heard(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
    ) -> Result<BTreeSet<RunId>, CheckError> {
        let mut touched = BTreeSet::new();
        for (place, session, heard) in std::mem::take(&mut self.heard) {
            match heard {
                Observation::Reply(ticket, result) => {
                    self.count(if result.is_ok() { Promise::Kept } else { Promise::Refused });
                    self.servers.check_answer(result.as_ref().ok().copied())?;
                    match self.ledger.replied(ticket, &result)? {
                        Meaning::Nothing => {}
                        Meaning::Alive(attempt) => {
                            let asked = self.servers.take_beat(ticket);
                            self.check_token(attempt, asked)?;
                            self.leases.acknowledged(session, attempt);
                        }
                        Meaning::Bulk(bulk, command) => self.bulks.changed(bulk, command),
                        Meaning::Unheard(attempt) => self.leases.refused(session, attempt),
                        Meaning::UnheardEnd(attempt) => self.leases.end_refused(attempt),
                        Meaning::Forgotten(runs) => runs.into_iter().for_each(|run| self.forget(run)),
                    }
                }
                Observation::Event(run, event) if self.servers.are_several() => {
                    self.told(place, session, run, &event)?;
                }
                Observation::Event(run, event) => {
                    self.write(store, flows, run, event, true)?;
                    touched.insert(run);
                }
                Observation::Dispatch(worker, job) => {
                    self.count(Promise::Once);
                    let seq = self.books.get(&job.attempt.run).map_or(0, RunRecord::seq);
                    let is_last = self.hands.is_of_event(job.attempt, seq);
                    self.hands.dispatch(&worker, job.attempt, session)?;
                    // What another server has done to the run since is not told.
                    if is_last || !self.servers.are_several() {
                        self.check_job(store, &job)?;
                    }
                }
                Observation::CleanUp(attempts) => self.cleaned_up(session, &attempts)?,
                Observation::Died => self.server_died(session),
                Observation::Interrupt(worker, attempt) => self.hands.interrupt(&worker, attempt)?,
                // Whoever asked for it is answered.
                Observation::Forgotten(_, None) => {}
                Observation::Forgotten(runs, Some(target)) => self.forgotten_by(target, &runs)?,
            }
        }
        touched.retain(|run| self.books.contains_key(run));
        Ok(touched)
    }

    /// A bulk action has removed a run with all that belonged to it.
    fn forgotten_by(&mut self, target: BulkRef, runs: &[RunId]) -> Result<(), Broken> {
        if self.servers.are_several() {
            return self.told_forgotten(target, runs);
        }
        for run in runs {
            let book = self.books.get(run).and_then(RunRecord::run);
            if book.is_none_or(|run| !run.is_final()) {
                return Err(Broken::of(Promise::Final, *run, "it is forgotten, and is not final"));
            }
        }
        if let Some(run) = runs.first() {
            self.bulks.forgot(target, *run, self.timeline.paced())?;
        }
        for run in runs {
            self.forget(*run);
        }
        Ok(())
    }

    /// Whether somebody has asked to forget this run, or a bulk action may have, and nobody was told.
    fn may_be_forgotten(&self, run: RunId) -> bool {
        self.ledger.may_be_forgotten(run) || self.bulks.may_forget(self.root_of(run))
    }

    /// The run that this one belongs to, as far as that is known.
    fn root_of(&self, run: RunId) -> RunId {
        let parent = |run: RunId| self.books.get(&run)?.run()?.origin.parent();
        let mut root = run;
        while let Some(up) = parent(root) {
            root = up;
        }
        root
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
        is_ordered: bool,
    ) -> Result<(), CheckError> {
        for promise in OF_EVENTS {
            self.count(promise);
        }
        let book = self.books.entry(id).or_insert_with(|| RunRecord::new(id));
        let clock = clock_after(book.clock, &event);
        let at = self.timeline.place(id, &event, clock, is_ordered)?;
        book.clock = clock;
        let Some(flow) = flow_of(store, flows, &event, book.run().map(|run| run.flow))? else {
            let what = format!("event {} does not start the run", event.seq);
            return Err(Broken::of(Promise::Replayed, id, what).into());
        };
        self.check_of_server(id, &event, &flow, at)?;
        let Some(book) = self.books.get_mut(&id) else { return Ok(()) };
        let request = self.ledger.attribute(self.writer, id, &uncorrected(&event), book.run())?;
        requests::check(request.as_ref(), &event, &flow, book.run(), &book.model)?;
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
                let climb = Climb { before, flow: &flow, event: &event, at, clock, in_force: &self.in_force };
                climb.check(place, *unit, fact, recount)?;
                if let UnitFact::Ended { outcome, .. } = fact {
                    let step = flow.step(unit.step);
                    let by = self.writer;
                    self.leases.check_end(attempt, before, step, (&event, at), outcome, recount, by)?;
                }
            }
            self.switch.check(id, recount.waits, fact, at)?;
            dues::check_wait(id, recount.waits, &event, (*unit, fact), at)?;
            self.hands.fact(book.history.run(), &flow, &event, *unit, fact, (attempt, self.writer));
            recount.count(fact, at);
            recount.waits = dues::waits_after(recount.waits, fact, clock);
        }
        dues::check_deadline(book, &event, &flow, at)?;
        book.model.follow(id, &flow, (&event, at), &mut |payload| passed_values::value(store, payload))?;
        let before = book.run().cloned();
        let book_event = event.clone();
        book.write(event)?;
        if let Some(after) = book.run() {
            self.family.follow(&book_event, &flow, after)?;
            let reran = book_event.facts.iter().any(|fact| matches!(fact, Fact::Reran { .. }));
            rest::check_slot(&flow, before.as_ref(), after, reran)?;
        }
        self.bulks.follow(id, (&book_event, at), !self.family.is_unordered())?;
        self.check_family_values(store, id, &book_event, before.as_ref())?;
        Ok(())
    }

    /// A sign of life was taken: its attempt was under way in all that is durable before. What other servers have done to
    /// it since it was `asked` is durable too, where they share the store.
    fn check_token(&self, id: AttemptId, asked: Option<Time>) -> Result<(), Broken> {
        let Some(book) = self.books.get(&id.run) else { return Ok(()) };
        if book.run().is_none_or(|run| is_under_way(run, id))
            || asked.is_some_and(|asked| book.ended_at(id).is_some_and(|ended| ended >= asked))
        {
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
    ) -> Result<(), CheckError> {
        for promise in [Promise::Replayed, Promise::Moved, Promise::Kept, Promise::Children] {
            self.count(promise);
        }
        let may_be_forgotten = self.may_be_forgotten(id);
        let Some(book) = self.books.get_mut(&id) else { return Ok(()) };
        let Some(shown) = store_view::read(store, id, book)?? else {
            if may_be_forgotten {
                return Ok(());
            }
            return Err(Broken::of(Promise::Kept, id, "it was acknowledged, and is not there").into());
        };
        let flow = flow(store, flows, shown.run.flow)?;
        store_view::check_moved(store, &shown, book, &flow, notices)??;
        let first = store.timers(None, 1)?.first().map(|timer| timer.due);
        store_view::check_next_due(&shown.run, &flow, first)?;
        book.looks += 1;
        if book.looks % LOOKS_PER_EXPLANATION == 1 {
            let mut history = book.events.clone();
            history.extend(shown.tail);
            store_view::check_explained(&shown.run, &flow, &history, self.timeline.clock())?;
            self.count(Promise::Explained);
        }
        Ok(())
    }
}

/// Whether an attempt is under way in a run.
fn is_under_way(run: &unstuck_core::model::run::Run, id: AttemptId) -> bool {
    let live = run.unit(id.unit).and_then(|unit| unit.state.live());
    run.generation == id.generation && live.is_some_and(|live| live.attempt == id.attempt)
}

/// An event without what it says about the clock: nobody has asked for that.
fn uncorrected(event: &Event) -> Cow<'_, Event> {
    let is_clock = |fact: &Fact| matches!(fact, Fact::ClockCorrected { .. });
    let mut event = Cow::Borrowed(event);
    if event.facts.iter().any(is_clock) {
        event.to_mut().facts.retain(|fact| !is_clock(fact));
    }
    event
}

/// A store that is full, away or broken cannot be asked, and promises nothing meanwhile.
fn unless_away(result: Result<(), CheckError>) -> Result<(), Broken> {
    match result {
        Ok(()) | Err(CheckError::Store) => Ok(()),
        Err(CheckError::Broken(broken)) => Err(broken),
    }
}

/// Whether the engine has nothing to do at its own time, and everything is durable.
fn is_quiet<S: Store>(engine: &mut Engine<S>) -> bool {
    engine.trouble().is_none()
        && engine.backlog() == 0
        && !engine.waits_for_locks()
        && matches!(engine.next_step(), NextStep::At(_) | NextStep::Idle)
}

fn flow(store: &mut dyn Store, flows: &mut Flows, id: FlowId) -> Result<Arc<Flow>, CheckError> {
    flows.get(store, id).map_err(|_| CheckError::Store)
}

/// The flow version that the facts of an event speak of.
fn flow_of(
    store: &mut dyn Store,
    flows: &mut Flows,
    event: &Event,
    before: Option<FlowId>,
) -> Result<Option<Arc<Flow>>, CheckError> {
    let named = event.facts.iter().find_map(|fact| match fact {
        Fact::Started(started) => Some(started.flow),
        Fact::Reran { flow, .. } => Some(*flow),
        Fact::Migrated(migrated) => Some(migrated.flow),
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
