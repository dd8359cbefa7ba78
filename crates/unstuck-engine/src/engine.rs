//! The steppable loop: it takes requests, a clock and a store, and does no IO of its own.

mod busy;
mod clock;
pub(crate) mod isolation;
mod keep_session;
mod requests;
pub(crate) mod set_aside;
pub(crate) mod settling;
pub(crate) mod telemetry;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::clock::ClockCorrection;
use unstuck_core::command::{Command, Report};
use unstuck_core::decide::{Effect, Withheld};
use unstuck_core::home::Homes;
use unstuck_core::id::{Ids, RunId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::{Error, Reason};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::nesting::MAX_NESTING;
use unstuck_core::offer::{Offer, Offers};
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::time::Time;
use unstuck_store::contract::{
    Interrupt, NewSession, NoticeId, PutFlowError, Stage, Store, StoreError, Versions,
};

use self::busy::BusyRequests;
use self::clock::{EngineClock, SLACK};
use self::isolation::{BatchFailure, Isolation, Suspect, WorkKind, panic_message};
use self::set_aside::SetAsideRuns;
pub use self::set_aside::flow_unusable;
use self::settling::OutstandingBatch;
pub(crate) use self::settling::STORE_RETRY;
use crate::backfill::backfill_open_errors;
use crate::batch::{Batch, BatchContext, Undecided, dispatches};
use crate::bulk::Families;
use crate::document;
use crate::executor::{ExecutorReport, Job};
use crate::flows::{Compile, Flows};
use crate::policies;
use crate::request::{EngineError, Output, Request};
use crate::session::{self, EngineSession};

/// How much an engine does at once.
///
/// There is no `autoResumeCheckFrequency` to be set: what is due is found by the one order of time that all timers are in,
/// and the engine sleeps until the first of it. A resume is as late as the batch before it takes, far below the second
/// that is promised, and nothing is looked for while nothing is due.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine that its executors work on.
    pub host: Arc<str>,
    /// Requests, due timers, claims and notices in one batch, each.
    pub max_batch: usize,
    /// Batches that are staged and not durable yet.
    pub max_outstanding: usize,
    /// Where its chance starts.
    pub seed: u64,
    /// What tokens are signed with, if the store has no key yet.
    pub token_key: [u8; 32],
    /// Whose local steps its executors carry out: those of runs with this home, or of all that have none.
    pub home: Option<Arc<str>>,
    /// How deep children and handlers may be nested.
    pub max_nesting: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            host: "localhost".into(),
            max_batch: 512,
            max_outstanding: 16,
            seed: 0,
            token_key: [0; 32],
            home: None,
            max_nesting: MAX_NESTING,
        }
    }
}

pub struct Engine<S> {
    pub(crate) store: S,
    flows: Flows,
    settings: Settings,
    /// The homes that it drives.
    homes: Homes,
    pub(crate) session: EngineSession,
    pub(crate) ids: Ids,
    random: Random,
    offers: Offers,
    /// Executors that want the whole product with a job.
    want_product: FxHashSet<Arc<str>>,
    /// The attempts that executors of this process have, with the room that they take.
    handed_out: FxHashMap<AttemptId, (Worker, u32)>,
    /// The versions of what it knows of what all servers share.
    pub(crate) known: Versions,
    /// The resume policies in force, and whether they resume anything.
    pub(crate) policies: Policies,
    /// The turns of resumes that have waited while policies were paused, and whether any waits.
    turns: ResumePacer,
    has_waiting: bool,
    /// What belongs to the runs that bulk actions forget next.
    pub(crate) families: Families,
    inbox: VecDeque<Request>,
    outstanding: VecDeque<OutstandingBatch>,
    /// The time of the last batch, by the clock as it is now.
    pub(crate) last: Time,
    /// What the clock said at the last step: it may be a little behind the last batch, and only it goes on all the time.
    now: Time,
    /// How the clock was set.
    pub(crate) clock: EngineClock,
    /// A batch went wrong: only one thing at a time until it is known which.
    isolation: Option<Isolation>,
    /// Runs that are set aside.
    aside: SetAsideRuns,
    /// Stored notices that begin a child and go wrong: the parent is told why.
    condemned: FxHashMap<NoticeId, String>,
    /// Whether anybody wants to know what happens.
    is_watched: bool,
    /// How much of each kind is in a batch for now: less while batches conflict with those of other servers.
    batch_limit: usize,
    /// What another server has locked, to be tried again.
    busy: BusyRequests,
    /// The last batch changed something or made room: there may be more to hand out, to deliver or to admit.
    more: bool,
    /// The store is full or away: nothing is tried before the clock says this.
    retry_at: Option<Time>,
    /// What is wrong with the store, until something is durable again.
    trouble: Option<StoreError>,
    pub(crate) stopped: Option<StoreError>,
}

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// There is more to do.
    Now,
    /// Batches are on their way to the disk: wait for them, or for requests.
    Settling,
    /// Nothing until then, or until there are requests.
    At(Time),
    /// Nothing until there are requests.
    Idle,
}

impl<S: Store> Engine<S> {
    /// An engine on a store.
    pub fn new(mut store: S, compile: Compile, settings: Settings) -> Result<Engine<S>, StoreError> {
        let clock = EngineClock::open(&mut store)?;
        let new = NewSession { token_key: settings.token_key, host: settings.host.clone() };
        let session = EngineSession::begin(&mut store, new, clock.last)?;
        let ids = Ids::new(session.node, store.last_id()?);
        let mut flows = Flows::new(compile);
        flows.backfill_step_orders(&mut store)?;
        backfill_open_errors(&mut store, &mut flows)?;
        let known = store.versions()?;
        let policies = policies::load_policies(&mut store)?;
        let random = Random::new(settings.seed);
        let last = clock.last.unwrap_or(Time(i64::MIN));
        let homes = Homes::of(settings.home.clone());
        let max_batch = settings.max_batch;
        tracing::info!(incarnation = session.incarnation, "engine started");
        Ok(Engine {
            store,
            flows,
            settings,
            homes,
            ids,
            random,
            offers: Offers::default(),
            want_product: FxHashSet::default(),
            handed_out: FxHashMap::default(),
            known,
            policies,
            turns: ResumePacer::default(),
            has_waiting: false,
            families: Families::default(),
            inbox: session.first_losses(),
            session,
            outstanding: VecDeque::new(),
            last,
            now: last,
            clock,
            isolation: None,
            aside: SetAsideRuns::default(),
            condemned: FxHashMap::default(),
            is_watched: true,
            batch_limit: max_batch,
            busy: BusyRequests::default(),
            more: false,
            retry_at: None,
            trouble: None,
            stopped: None,
        })
    }

    /// Reads again what other servers have changed of what all share.
    pub(crate) fn refresh_shared(&mut self) -> Result<(), StoreError> {
        let mut newest = self.store.versions()?;
        if newest == self.known {
            return Ok(());
        }
        if self.clock.unrecorded().is_some() {
            // They are told by the clock as it was before it was set, until the store knows of that.
            newest.downtimes = self.known.downtimes;
        }
        if newest.policies != self.known.policies {
            self.policies = policies::load_policies(&mut self.store)?;
        }
        if newest.flows != self.known.flows {
            self.flows.forget_newest();
        }
        if newest.downtimes != self.known.downtimes {
            self.session.downtimes = self.store.downtimes()?;
        }
        self.known = newest;
        Ok(())
    }

    /// Another server has changed something: there may be something to do.
    pub fn look_again(&mut self) {
        self.more = true;
    }

    /// Keeps a flow.
    pub fn put_flow(&mut self, flow: Flow) -> Result<Arc<Flow>, PutFlowError> {
        self.refresh_shared()?;
        let flow = self.flows.put(&mut self.store, flow)?;
        self.known.flows = self.store.versions()?.flows;
        self.release_flow(flow.id);
        Ok(flow)
    }

    /// An executor of this process waits for work.
    pub fn register(&mut self, offer: Offer, wants_product: bool) {
        if wants_product {
            self.want_product.insert(offer.worker.name.clone());
        }
        self.offers.put(offer);
        self.more = true;
    }

    /// A worker that was there before this engine has this attempt still, and says so when it registers again.
    pub fn adopt(&mut self, attempt: AttemptId, worker: &Worker, load: u32) {
        if self.handed_out.insert(attempt, (worker.clone(), load)).is_none() {
            self.offers.take_load(worker, load);
        }
    }

    /// This worker is gone: nothing more is handed to it. What it has is another matter, see [`Request::Lost`].
    pub fn dismiss(&mut self, worker: &Worker) {
        self.handed_out.retain(|_, (holder, _)| holder != worker);
        self.offers.remove(worker);
    }

    /// Whether [`Output::Happened`] is wanted; it is, unless somebody says otherwise.
    pub fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    /// The executors of this process are gone: nothing more is handed out.
    pub fn dismiss_executors(&mut self) {
        self.offers = Offers::default();
    }

    /// What is wrong with the store, if anything is: it is full, away or broken.
    pub fn trouble(&self) -> Option<&StoreError> {
        self.stopped.as_ref().or(self.trouble.as_ref())
    }

    /// Whether the store has stopped, and the engine with it.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Which start of an engine on this store it is.
    pub fn incarnation(&self) -> u64 {
        self.session.incarnation
    }

    /// The home whose local steps its executors carry out.
    pub fn home(&self) -> Option<&Arc<str>> {
        self.settings.home.as_ref()
    }

    /// Nothing is due before `now`, and answers are taken all the same.
    pub fn record_alive(&mut self, now: Time) {
        let takes_answers = self.retry_at.is_none() && self.stopped.is_none() && !self.session.is_down();
        if self.outstanding.is_empty() && takes_answers {
            self.store.record_alive(now.max(self.last));
        }
    }

    /// Whether somebody works for it, whose signs of life it must not miss.
    pub fn has_live_workers(&self) -> bool {
        !self.handed_out.is_empty()
    }

    /// Nobody has taken answers since then, though somebody should have: the process was stopped, or had to wait for its
    /// disk.
    pub fn record_stop(&mut self, from: Time) {
        self.session.begin_downtime(from);
    }

    /// Puts a request in line.
    pub fn submit(&mut self, request: Request) {
        if let Some(request) = self.busy.keep_in_order(request) {
            self.inbox.push_back(request);
        }
    }

    /// How many requests are in line.
    pub fn backlog(&self) -> usize {
        self.inbox.len() + self.busy.len()
    }

    /// Whether another server has a run that something is to be done about: that is tried again in a moment.
    pub fn waits_for_locks(&self) -> bool {
        self.busy.retry_at().is_some()
    }

    /// How many batches are decided and not known to be durable.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Attempts of executors of this process that have not been recorded as ended.
    pub fn unrecorded_attempts(&self) -> Vec<AttemptId> {
        let mut attempts: Vec<AttemptId> = self.handed_out.keys().copied().collect();
        attempts.extend(self.inbox.iter().chain(self.busy.iter()).filter_map(|request| match request {
            Request::Executor(word) => word.ended_attempt(),
            Request::Start { .. }
            | Request::Command { .. }
            | Request::Bulk { .. }
            | Request::Forget { .. }
            | Request::Lost { .. } => None,
        }));
        attempts.sort_unstable();
        attempts.dedup();
        attempts
    }

    /// For reading.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// The store, without an engine.
    pub fn into_store(self) -> S {
        self.store
    }

    /// For reading: the store and the compiled flows.
    pub fn reader(&mut self) -> (&mut S, &mut Flows) {
        (&mut self.store, &mut self.flows)
    }

    /// Decides what is there at `now`, and gives what has become durable. A clock that is a little behind the last batch
    /// is waited for; one that is further behind has been set.
    pub fn step(&mut self, now: Time) -> Vec<Output> {
        if now + SLACK < self.last {
            self.record_correction(ClockCorrection { from: self.last, to: now });
        }
        self.last = self.last.max(now);
        self.now = now;
        self.retry_aside();
        self.busy.take_due(now, &mut self.inbox);
        let mut outputs = self.settle(false);
        self.keep_session(&mut outputs);
        if let Some(error) = self.stopped.clone() {
            self.refuse_all(&error, &mut outputs);
            return outputs;
        }
        if self.retry_at.is_some_and(|at| at <= now || now + STORE_RETRY < at) {
            self.retry_at = None;
        }
        if self.retry_at.is_none() && self.outstanding.len() < self.settings.max_outstanding {
            let mut done = OutstandingBatch::default();
            let watch = telemetry::Stopwatch::start();
            match self.decide_batch_contained(&mut done) {
                Ok(()) => {
                    telemetry::staged(&done, &watch);
                    self.staged(done);
                }
                Err(failure) => {
                    self.store.rollback();
                    self.session.restore_downtime(done.downtime);
                    self.clock.undo_work(&done.clock);
                    self.restore_offers(&done);
                    self.failed(failure, &done, &mut outputs);
                }
            }
            outputs.extend(self.settle(false));
        }
        outputs
    }

    /// Waits until a batch is durable, and gives what comes of it.
    pub fn wait(&mut self) -> Vec<Output> {
        self.settle(true)
    }

    /// What to do next.
    pub fn next_step(&mut self) -> NextStep {
        if self.stopped.is_some() {
            return NextStep::Idle;
        }
        if self.outstanding.len() >= self.settings.max_outstanding {
            return NextStep::Settling;
        }
        if let Some(at) = self.retry_at {
            return if self.outstanding.is_empty() { NextStep::At(at) } else { NextStep::Settling };
        }
        if !self.inbox.is_empty() || self.more || self.isolation.is_some() || self.clock.has_work() {
            return NextStep::Now;
        }
        let own = [self.aside.next_retry(), self.next_paced_resume(), self.session.next_renewal()];
        let own = own.into_iter().flatten().min();
        let busy = self.busy.retry_at();
        let own = own.into_iter().chain(busy).min();
        match self.store.next_due() {
            // What is due is busy, or something else is that was to be done now.
            Ok(Some(due)) if due <= self.last && busy.is_some_and(|busy| busy > self.now) => {
                own.map_or(NextStep::Idle, NextStep::At)
            }
            _ if own.is_some_and(|due| due <= self.last) => NextStep::Now,
            Ok(Some(due)) if due <= self.last => NextStep::Now,
            _ if !self.outstanding.is_empty() => NextStep::Settling,
            Ok(Some(due)) => NextStep::At(own.into_iter().fold(due, Time::min)),
            Ok(None) => own.map_or(NextStep::Idle, NextStep::At),
            Err(_) => NextStep::Idle,
        }
    }

    /// One batch. A panic in it is a defect of ours, and takes nothing but this batch with it: whatever was changed in
    /// memory is read again from the store. The store itself is another matter, so that its stage is not within.
    fn decide_batch_contained(&mut self, done: &mut OutstandingBatch) -> Result<(), BatchFailure> {
        let decided = catch_unwind(AssertUnwindSafe(|| self.decide_batch(done)));
        let stage = decided
            .map_err(|panic| BatchFailure::Panic(panic_message(&*panic)))?
            .map_err(BatchFailure::Store)?;
        if let Some(stage) = stage {
            done.stage = Some(self.store.stage(stage).map_err(BatchFailure::Store)?);
        }
        for (due, until) in done.withheld.drain(..) {
            self.store.withhold(&due, until);
            self.has_waiting |= until == Withheld::ForTurn;
        }
        Ok(())
    }

    /// One batch: what waits for executors, who may be admitted, what runs have to tell each other, what was asked and
    /// said, what is due (after what was said: who has ended in time has ended), and what bulk actions do next. Or one
    /// thing of one of these kinds.
    fn decide_batch(&mut self, done: &mut OutstandingBatch) -> Result<Option<Stage>, StoreError> {
        self.refresh_shared()?;
        self.release_paced_resumes();
        let alone = self.isolation.as_ref().map(Isolation::current_kind);
        let max_batch = if alone.is_some() { 1 } else { self.batch_limit };
        let limit = |work| if alone.is_none_or(|alone| alone == work) { max_batch } else { 0 };
        self.find_families(limit(WorkKind::Bulk))?;
        self.store.begin()?;
        let taken = if self.session.lease.is_some() { self.store.last_seen()? } else { None };
        done.downtime = self.session.end_downtime(self.last, taken);
        let mut batch = Batch::new(self.is_watched);
        self.dispatch_and_admit(&mut batch, done, limit)?;
        self.deliver_notices(&mut batch, done, limit(WorkKind::Notice))?;
        batch.stores_notices |= alone.is_some();
        batch.deliver_all(&mut self.batch_context())?;
        self.decide_requests(&mut batch, done, limit(WorkKind::Request))?;
        self.fire_due(&mut batch, done, limit(WorkKind::Due))?;
        if alone.is_none() {
            self.sweep_clock(&mut batch, done, max_batch)?;
        }
        self.advance_bulks(&mut batch, done, limit(WorkKind::Bulk))?;
        for (run, flow, error) in std::mem::take(&mut batch.unusable) {
            match error {
                _ if batch.has_ended(run) => {}
                EngineError::Damaged(what) => self.set_aside(run, None, &what),
                error => self.set_aside(run, Some(flow), &flow_unusable(&error.to_string())),
            }
        }
        self.finish_batch(batch, done)
    }

    /// What has waited while policies were paused comes back, as many as have a turn now.
    fn release_paced_resumes(&mut self) {
        let Some(rate) = self.policies.switch().rate().filter(|_| self.has_waiting) else { return };
        let ready = self.turns.ready(self.last, rate) as usize;
        if ready > 0 {
            self.has_waiting = self.store.release_withheld(ready) == ready;
        }
    }

    /// When the next resume that has waited has its turn.
    fn next_paced_resume(&mut self) -> Option<Time> {
        let rate = self.policies.switch().rate().filter(|_| self.has_waiting)?;
        Some(self.turns.next(self.last, rate))
    }

    /// What waits for executors, and who may be admitted. A command that is refused is stale: nobody's loss.
    fn dispatch_and_admit(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: impl Fn(WorkKind) -> usize,
    ) -> Result<(), StoreError> {
        let mut work = self.find_claims(limit(WorkKind::Claim))?;
        let claims = work.len();
        let admitted = self.store.admissible_runs(limit(WorkKind::Admission))?;
        done.counts.add(WorkKind::Claim, claims);
        done.counts.add(WorkKind::Admission, admitted.len());
        work.extend(admitted.into_iter().map(|run| (run, Command::Admit)));
        done.suspect = work.first().map(|(run, _)| Suspect::Run(*run));
        let mut tools = self.batch_context();
        batch.lock(&mut tools, work.iter().map(|(run, _)| *run).collect())?;
        for (place, (run, command)) in work.into_iter().enumerate() {
            match batch.decide(&mut tools, run, command, None) {
                Ok(_) => {}
                Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
                Err(Undecided::Busy | Undecided::Aside | Undecided::Error(_)) => {
                    done.is_claim_void |= place < claims;
                }
            }
        }
        Ok(())
    }

    /// Notices that were stored. When there may be more than these, what is new waits behind them.
    fn deliver_notices(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: usize,
    ) -> Result<(), StoreError> {
        let notices = if limit == 0 { Vec::new() } else { self.store.due_notices(self.last, limit)? };
        batch.waiting_receivers = self.store.postponed_receivers()?;
        done.counts.add(WorkKind::Notice, notices.len());
        if let Some((id, notice)) = notices.first() {
            done.suspect = Some(Suspect::notice(*id, notice));
        }
        batch.stores_notices = limit > 0 && notices.len() == limit;
        for (id, notice) in notices {
            match self.condemned.get(&id) {
                Some(why) => batch.refuse_stored(id, &notice, why),
                None => batch.deliver_stored(&mut self.batch_context(), id, notice)?,
            }
        }
        Ok(())
    }

    /// Attempts that wait, for executors that have room.
    fn find_claims(&mut self, limit: usize) -> Result<Vec<(RunId, Command)>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let open: Vec<Offer> = self.offers.open().cloned().collect();
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let mut claims = Vec::new();
        for candidate in self.store.candidates(&open, limit)? {
            let worker = open[candidate.offer].worker.clone();
            self.offers.take_from(&worker, &candidate.ready.entry());
            claims.push((candidate.ready.run, Command::Claim { unit: candidate.ready.unit, worker }));
        }
        Ok(claims)
    }

    /// What is due, but for runs about which somebody has said something that is still in line: that comes first.
    fn fire_due(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: usize,
    ) -> Result<(), StoreError> {
        let mut due = if limit == 0 { Vec::new() } else { self.store.due(self.last, limit)? };
        if !due.is_empty() && self.inbox.len() + self.busy.len() > done.requests {
            let in_line = self.inbox.iter().skip(done.requests).chain(self.busy.iter());
            let said: FxHashSet<RunId> = in_line.filter_map(reported_run).collect();
            due.retain(|due| !said.contains(&due.run));
        }
        done.counts.add(WorkKind::Due, due.len());
        if let Some(first) = due.first() {
            done.suspect = Some(Suspect::Run(first.run));
        }
        let mut tools = self.batch_context();
        batch.lock(&mut tools, due.iter().map(|due| due.run).collect())?;
        for due in due {
            let command = Command::Due { unit: due.unit, heard: due.heard };
            if let Err(Undecided::Error(EngineError::Store(error))) =
                batch.decide(&mut tools, due.run, command, None)
            {
                return Err(error);
            }
            if let Some(until) = batch.withheld.take() {
                done.withheld.push((due, until));
            }
        }
        batch.deliver_all(&mut tools)
    }

    /// The transaction of the batch, if there is anything to make durable; its outputs wait until it is.
    fn finish_batch(
        &mut self,
        mut batch: Batch,
        done: &mut OutstandingBatch,
    ) -> Result<Option<Stage>, StoreError> {
        for (run, event) in std::mem::take(&mut batch.happened) {
            done.outputs.push(Output::Happened { run, event });
        }
        for (target, runs) in std::mem::take(&mut batch.gone) {
            done.outputs.push(Output::Forgotten { runs, target });
        }
        let effects = std::mem::take(&mut batch.effects);
        let mut interrupts = Vec::new();
        for (attempt, worker, load) in dispatches(&effects) {
            self.handed_out.insert(attempt, (worker.clone(), load));
            done.handed_out.push((attempt, worker.clone(), load));
        }
        if done.is_claim_void {
            // The room that it was to take is free.
            self.offers.reset_room(self.handed_out.values().map(|(worker, load)| (worker, *load)));
        }
        for effect in effects {
            match effect {
                Effect::Dispatch { attempt, worker, .. } => match self.job_for(&batch, attempt, &worker) {
                    Ok(Some(job)) => done.outputs.push(Output::Dispatch { worker, job }),
                    Ok(None) => {}
                    // Nobody can work on it: it has failed, and is told as its worker would.
                    Err(StoreError::Damaged(what)) => {
                        self.inbox.push_back(report_unreadable_input(attempt, what));
                    }
                    Err(error) => return Err(error),
                },
                Effect::Interrupt { attempt, worker, why } if self.is_elsewhere(&worker) => {
                    interrupts.push(Interrupt { worker, attempt, why });
                }
                Effect::Interrupt { attempt, worker, why } => {
                    done.outputs.push(Output::Interrupt { worker, attempt, why });
                }
            }
        }
        done.met_busy = batch.has_busy_runs();
        done.released.append(&mut batch.released);
        // A run that is set aside can end: the store offers its notices again.
        done.released.extend(batch.runs_told_to_end().filter(|run| self.is_set_aside(*run)));
        let downtime = done.downtime.filter(session::is_worth_recording);
        // A store that was in trouble is over it when it has taken something, if only nothing at all.
        let is_probe = self.trouble.is_some() && self.outstanding.is_empty();
        let clock = self.clock.unrecorded();
        done.clock.is_recorded = clock.is_some();
        if batch.has_changes() || downtime.is_some() || is_probe || clock.is_some() {
            let stage = batch.into_stage(self.last, self.ids.last());
            return Ok(Some(Stage { downtime, clock, interrupts, ..stage }));
        }
        self.store.abandon(batch.into_runs());
        Ok(None)
    }

    fn job_for(
        &mut self,
        batch: &Batch,
        attempt: AttemptId,
        worker: &Worker,
    ) -> Result<Option<Job>, StoreError> {
        let Some((run, flow)) = batch.run(attempt.run) else { return Ok(None) };
        let Some(unit) = run.unit(attempt.unit) else { return Ok(None) };
        let store = &mut self.store;
        let input = batch.payload_json(store, unit.input.as_ref().unwrap_or(&run.input))?;
        let product = if self.want_product.contains(&worker.name) {
            let mut failed = None;
            let token = self.session.signer.sign(attempt);
            let product = document::product(run, flow, attempt, worker, token, &input, &mut |payload| {
                batch.payload_json(store, payload).unwrap_or_else(|error| {
                    failed = Some(error);
                    unstuck_core::json::Json::NULL
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            Some(Box::new(product))
        } else {
            None
        };
        Ok(Some(Job { attempt, flow: flow.clone(), input, deadline: run.deadline, product }))
    }

    pub(crate) fn batch_context(&mut self) -> BatchContext<'_> {
        BatchContext {
            store: &mut self.store,
            flows: &mut self.flows,
            ids: &mut self.ids,
            random: &mut self.random,
            offers: &mut self.offers,
            downtimes: &self.session.downtimes,
            clock: self.clock.record.shift,
            policies: &self.policies,
            turns: &mut self.turns,
            aside: &self.aside.runs,
            max_nesting: self.settings.max_nesting,
            homes: &self.homes,
            now: self.last,
        }
    }
}

/// The run about which a worker says something.
fn reported_run(request: &Request) -> Option<RunId> {
    match request {
        Request::Executor(
            ExecutorReport::Report(attempt, _)
            | ExecutorReport::Lost(attempt)
            | ExecutorReport::Freed(attempt),
        )
        | Request::Lost { attempt, .. }
        | Request::Command { command: Command::Report { attempt, .. }, .. } => Some(attempt.run),
        Request::Start { .. } | Request::Command { .. } | Request::Forget { .. } | Request::Bulk { .. } => {
            None
        }
    }
}

/// What is said of an attempt whose input is damaged.
fn report_unreadable_input(attempt: AttemptId, what: String) -> Request {
    let error = Error { reason: Reason::Data, ..Error::new(what) };
    Request::Executor(ExecutorReport::Report(attempt, Report::Fail { error: Box::new(error), fatal: true }))
}
