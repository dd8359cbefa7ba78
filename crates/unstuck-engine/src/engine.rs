//! The steppable loop: it takes requests, a clock and a store, and does no IO of its own.

mod busy;
mod clock;
mod decide_batch;
mod finish_batch;
pub(crate) mod isolation;
mod keep_session;
mod requests;
pub(crate) mod schedules;
pub(crate) mod set_aside;
pub(crate) mod settling;
pub(crate) mod telemetry;
mod under_way;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::clock::{CLOCK_SLACK, ClockCorrection};
use unstuck_core::home::Homes;
use unstuck_core::id::{Ids, TokenId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::nesting::MAX_NESTING;
use unstuck_core::offer::{Offer, Offers};
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::time::Time;
use unstuck_store::contract::{NewSession, NoticeId, PutFlowError, Store, StoreError, Versions};

use self::busy::BusyRequests;
use self::clock::EngineClock;
use self::isolation::Isolation;
use self::set_aside::SetAsideRuns;
pub use self::set_aside::flow_unusable;
use self::settling::OutstandingBatch;
pub(crate) use self::settling::STORE_RETRY;
use self::under_way::UnderWay;
use crate::backfill::backfill_open_errors;
use crate::batch::BatchContext;
use crate::bulk::Families;
use crate::call::Call;
use crate::document::MAX_HISTORY;
use crate::engine::schedules::EngineSchedules;
use crate::flows::{Compile, Flows};
use crate::metrics::EngineMetrics;
use crate::policies;
use crate::request::{Output, Request, Ticket};
use crate::session::EngineSession;
use crate::worker_calls::Caller;

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
    /// Whether it starts runs by the schedules of flows: a server does, and who executes one run does not.
    pub fires_schedules: bool,
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
            fires_schedules: false,
        }
    }
}

pub struct Engine<S> {
    pub(crate) store: S,
    pub(crate) flows: Flows,
    settings: Settings,
    /// The homes that it drives.
    homes: Homes,
    pub(crate) session: EngineSession,
    pub(crate) ids: Ids,
    random: Random,
    offers: Offers,
    /// Workers that want what a product is made from with each job, and how many past attempts with it.
    want_details: FxHashMap<(Arc<str>, u64), usize>,
    /// The attempts that executors of this process have, with the room that they take.
    handed_out: FxHashMap<AttemptId, (Worker, u32)>,
    /// The versions of what it knows of what all servers share.
    pub(crate) known: Versions,
    /// By the clock of the store, when it last read any of that or changed it.
    known_at: Time,
    /// The resume policies in force, and whether they resume anything.
    pub(crate) policies: Policies,
    /// The turns of resumes that have waited while policies were paused, and whether any waits.
    turns: ResumePacer,
    has_waiting: bool,
    /// What belongs to the runs that bulk actions forget next.
    pub(crate) families: Families,
    pub(crate) schedules: EngineSchedules,
    inbox: VecDeque<Request>,
    /// What comes with some of the requests that are not answered yet.
    pub(crate) calls: FxHashMap<Ticket, Arc<Call>>,
    /// Tokens that were used, to be recorded with the next stage.
    pub(crate) token_uses: FxHashMap<TokenId, Time>,
    /// Batches that were asked for, and are not decided yet.
    under_way: Vec<UnderWay>,
    outstanding: VecDeque<OutstandingBatch>,
    /// The time of the last batch, by the clock as it is now.
    pub(crate) last: Time,
    /// The time of the batch that is being decided, by the clock of the store, where that has one.
    decided_at: Option<Time>,
    /// How far the clock of the store is ahead of this one, in milliseconds, once that is known: decisions go by the store's.
    ahead: Option<i64>,
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
    /// What was counted, for whoever wants to read it.
    pub(crate) metrics: Arc<EngineMetrics>,
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
        // Where servers share a store, the last batch may have been another's, by another clock.
        let is_own = session.lease.is_none() && session.store_time.is_none();
        let last = clock.last.filter(|_| is_own).unwrap_or(Time(i64::MIN));
        let homes = Homes::of(settings.home.clone());
        let max_batch = settings.max_batch;
        let fires_schedules = settings.fires_schedules;
        if fires_schedules {
            store.fire_schedules();
        }
        let ahead = if session.store_time.is_some() { None } else { Some(0) };
        tracing::info!(incarnation = session.incarnation, "engine started");
        Ok(Engine {
            store,
            flows,
            settings,
            homes,
            ids,
            random,
            offers: Offers::default(),
            want_details: FxHashMap::default(),
            handed_out: FxHashMap::default(),
            known,
            known_at: Time(i64::MIN),
            policies,
            turns: ResumePacer::default(),
            has_waiting: false,
            families: Families::default(),
            schedules: EngineSchedules::default(),
            inbox: session.first_losses(),
            calls: FxHashMap::default(),
            token_uses: FxHashMap::default(),
            session,
            under_way: Vec::new(),
            outstanding: VecDeque::new(),
            last,
            decided_at: None,
            ahead,
            now: last,
            clock,
            isolation: None,
            aside: SetAsideRuns::default(),
            condemned: FxHashMap::default(),
            is_watched: true,
            metrics: Arc::default(),
            batch_limit: max_batch,
            busy: BusyRequests::default(),
            more: fires_schedules,
            retry_at: None,
            trouble: None,
            stopped: None,
        })
    }

    /// Reads again what other servers have changed, if what a batch has loaded is newer than what is known. A batch that was
    /// asked for before others may be given what it wants after them: what that says is old.
    pub(crate) fn refresh_for_batch(&mut self, loaded: Versions) -> Result<(), StoreError> {
        if loaded.has_newer_than(self.known) {
            // What is read now may be newer still.
            let newest = self.store.versions()?;
            self.refresh_shared(newest)?;
        }
        Ok(())
    }

    /// Reads again what other servers have changed of what all share, whose versions are these.
    pub(crate) fn refresh_shared(&mut self, mut newest: Versions) -> Result<(), StoreError> {
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
            self.flows_changed();
        }
        if newest.downtimes != self.known.downtimes {
            self.session.downtimes = self.store.downtimes()?;
        }
        self.known = newest;
        self.known_at = self.current_store_time();
        Ok(())
    }

    /// This server has changed something that all share.
    pub(crate) fn record_shared_change(&mut self) {
        self.known_at = self.current_store_time();
    }

    /// Another server has changed something: there may be something to do.
    pub fn look_again(&mut self) {
        self.more = true;
    }

    /// Keeps a flow.
    pub fn put_flow(&mut self, flow: Flow) -> Result<Arc<Flow>, PutFlowError> {
        let newest = self.store.versions()?;
        self.refresh_shared(newest)?;
        let flow = self.flows.put(&mut self.store, flow)?;
        self.known.flows = self.store.versions()?.flows;
        self.record_shared_change();
        self.release_flow(flow.id);
        self.flows_changed();
        Ok(flow)
    }

    /// An executor of this process waits for work.
    pub fn register(&mut self, offer: Offer, wants_product: bool) {
        if wants_product {
            self.want_details.insert(key_of(&offer.worker), MAX_HISTORY);
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
        self.want_details.remove(&key_of(worker));
    }

    /// A worker calls and offers this much room more, for jobs with at most `history` past attempts.
    pub(crate) fn add_room(&mut self, caller: &Caller, room: u32, history: usize) {
        self.want_details.insert(key_of(&caller.worker), history);
        self.offers.add_room(&caller.worker, &caller.queues, caller.max_load, room);
        self.more = true;
    }

    /// A worker that calls takes back room that it has offered.
    pub(crate) fn withdraw_room(&mut self, worker: &Worker, room: u32) {
        self.offers.withdraw_room(worker, room);
    }

    /// The load that an attempt of this worker takes, if it was handed it here: the whole worker at most.
    pub(crate) fn load_of(&self, attempt: AttemptId, worker: &Worker) -> Option<u32> {
        let (holder, load) = self.handed_out.get(&attempt)?;
        let offer = self.offers.of(holder).filter(|_| holder == worker)?;
        Some(offer.max_load.min(*load))
    }

    /// A worker that calls has this attempt no longer. Gives the load that it had.
    pub(crate) fn forget_attempt(&mut self, attempt: AttemptId, worker: &Worker) -> Option<u32> {
        let load = self.load_of(attempt, worker)?;
        self.handed_out.remove(&attempt);
        self.offers.release_room(worker, load);
        Some(load)
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
            self.store.record_alive(self.to_store_time(now.max(self.last)));
        }
    }

    /// Whether somebody works for it, whose signs of life it must not miss.
    pub fn has_live_workers(&self) -> bool {
        !self.handed_out.is_empty()
    }

    /// Nobody has taken answers since then, though somebody should have: the process was stopped, or had to wait for its
    /// disk.
    pub fn record_stop(&mut self, from: Time) {
        // Before that is known, the session has only begun: since when nobody took answers, it has found in the store.
        if self.ahead.is_some() {
            self.session.begin_downtime(self.to_store_time(from));
        }
    }

    /// Puts a request in line.
    pub fn submit(&mut self, request: Request) {
        if let Some(request) = self.busy.keep_in_order(request) {
            self.inbox.push_back(request);
        }
    }

    /// How many requests are in line.
    pub fn backlog(&self) -> usize {
        let under_way: usize = self.under_way.iter().map(|batch| batch.plan.requests.len()).sum();
        self.inbox.len() + self.busy.len() + under_way
    }

    /// Whether another server has a run that something is to be done about: that is tried again in a moment.
    pub fn waits_for_locks(&self) -> bool {
        self.busy.retry_at().is_some()
    }

    /// How many batches were asked for and are not decided yet.
    pub fn batches_under_way(&self) -> usize {
        self.under_way.len()
    }

    /// How many batches are decided and not known to be durable.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Attempts of executors of this process that have not been recorded as ended.
    pub fn unrecorded_attempts(&self) -> Vec<AttemptId> {
        let local = self.handed_out.iter().filter(|(_, (worker, _))| worker.local);
        let mut attempts: Vec<AttemptId> = local.map(|(attempt, _)| *attempt).collect();
        let under_way = self.under_way.iter().flat_map(|batch| &batch.plan.requests);
        let in_line = self.inbox.iter().chain(self.busy.iter()).chain(under_way);
        attempts.extend(in_line.filter_map(|request| match request {
            Request::Executor(word) => word.ended_attempt(),
            Request::Start { .. }
            | Request::Command { .. }
            | Request::Bulk { .. }
            | Request::Schedule { .. }
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
        if now + CLOCK_SLACK < self.last {
            self.record_correction(ClockCorrection { from: self.last, to: now });
        }
        self.take_time(now);
        self.now = now;
        self.retry_aside();
        self.busy.take_due(now, &mut self.inbox);
        let mut outputs = self.settle(false);
        self.keep_session(&mut outputs);
        if let Some(error) = self.stopped.clone() {
            self.refuse_all(&error, &mut outputs);
            self.forget_calls(&outputs);
            return outputs;
        }
        if self.retry_at.is_some_and(|at| at <= now || now + STORE_RETRY < at) {
            self.retry_at = None;
        }
        if self.retry_at.is_none() {
            if self.outstanding.len() < self.settings.max_outstanding {
                self.ask_for_batch(&mut outputs);
            }
            // Whatever is outstanding: what a batch has loaded is locked until it is decided.
            self.decide_loaded(&mut outputs);
            outputs.extend(self.settle(false));
        }
        self.forget_calls(&outputs);
        outputs
    }

    /// What came with requests that are answered is not needed any more.
    fn forget_calls(&mut self, outputs: &[Output]) {
        if self.calls.is_empty() {
            return;
        }
        for output in outputs {
            if let Output::Reply { ticket, .. } = output {
                self.calls.remove(ticket);
            }
        }
    }

    /// Waits until a batch is durable, but no longer than [`MAX_WAIT`](unstuck_store::contract::MAX_WAIT), and gives what
    /// comes of it.
    pub fn wait(&mut self) -> Vec<Output> {
        let outputs = self.settle(true);
        self.forget_calls(&outputs);
        outputs
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
        let is_idle = self.under_way.is_empty();
        let has_work = self.more || self.isolation.is_some() || self.clock.has_work();
        if is_idle && (has_work || !self.inbox.is_empty()) || self.can_ask_for_more() {
            return NextStep::Now;
        }
        let ahead = self.ahead.unwrap_or(0);
        let here = |time: Time| time.shifted(ahead.saturating_neg());
        let own = [self.aside.next_retry(), self.session.next_renewal()];
        // Whoever looks around brings it back.
        let paced = if self.is_looking_around() { None } else { self.next_paced_resume() };
        let own = own.into_iter().chain([paced.map(here)]).flatten().min();
        let busy = self.busy.retry_at();
        let own = own.into_iter().chain(busy).min();
        match self.store.next_due().map(|due| due.map(here)) {
            // What is due is busy, or something else is that was to be done now.
            Ok(Some(due)) if due <= self.last && busy.is_some_and(|busy| busy > self.now) => {
                own.map_or(NextStep::Idle, NextStep::At)
            }
            _ if own.is_some_and(|due| due <= self.last) => NextStep::Now,
            Ok(Some(due)) if due <= self.last && self.under_way.is_empty() => NextStep::Now,
            _ if !self.outstanding.is_empty() || !self.under_way.is_empty() => NextStep::Settling,
            Ok(Some(due)) => NextStep::At(own.into_iter().fold(due, Time::min)),
            Ok(None) => own.map_or(NextStep::Idle, NextStep::At),
            Err(_) => NextStep::Idle,
        }
    }

    /// What has waited while policies were paused comes back, as many as have a turn now.
    fn release_paced_resumes(&mut self) {
        let Some(rate) = self.policies.switch().rate().filter(|_| self.has_waiting) else { return };
        let ready = self.turns.ready(self.store_time(), rate) as usize;
        if ready > 0 {
            self.has_waiting = self.store.release_withheld(ready) == ready;
        }
    }

    /// When the next resume that has waited has its turn.
    fn next_paced_resume(&mut self) -> Option<Time> {
        let rate = self.policies.switch().rate().filter(|_| self.has_waiting)?;
        self.turns.next(self.store_time(), rate)
    }

    pub(crate) fn batch_context(&mut self) -> BatchContext<'_> {
        let (now, latest) = (self.store_time(), self.current_store_time());
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
            now,
            latest,
        }
    }

    /// It is `now` by the clock of this server.
    pub(crate) fn take_time(&mut self, now: Time) {
        if let (None, Some(store_time)) = (self.ahead, self.session.store_time) {
            // Until something is loaded: it cannot be long since the session began.
            self.ahead = Some(store_time.0.saturating_sub(now.0));
        }
        self.last = self.last.max(now);
    }

    /// What time it is by the clock of the store, which all who share it go by: while a batch is decided, the time that it
    /// has come with.
    pub(crate) fn store_time(&self) -> Time {
        self.decided_at.unwrap_or_else(|| self.current_store_time())
    }

    /// What time it is by the clock of the store now, however long ago a batch was loaded.
    pub(crate) fn current_store_time(&self) -> Time {
        self.to_store_time(self.last)
    }

    /// What the clock of the store says when that of this server says this.
    pub fn to_store_time(&self, here: Time) -> Time {
        here.shifted(self.ahead.unwrap_or(0))
    }

    /// What the clock of this server says when that of the store says this.
    pub fn to_own_time(&self, of_store: Time) -> Time {
        of_store.shifted(self.ahead.unwrap_or(0).saturating_neg())
    }
}

fn key_of(worker: &Worker) -> (Arc<str>, u64) {
    (worker.name.clone(), worker.incarnation)
}
