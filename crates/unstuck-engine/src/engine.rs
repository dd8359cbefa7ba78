//! The steppable loop: it takes requests, a clock and a store, and does no IO of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::bulk::Bulk;
use unstuck_core::command::{Command, Start, StartInput};
use unstuck_core::decide::{Answer, Effect};
use unstuck_core::downtime::Downtime;
use unstuck_core::id::{Ids, RunId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Origin;
use unstuck_core::offer::{Offer, Offers, WHOLE_WORKER};
use unstuck_core::policy::Policies;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::Ready;
use unstuck_store::contract::{PutFlowError, Stage, StageId, Store, StoreError};

use crate::batch::{Batch, Tools, Undecided, dispatches};
use crate::bulk::Bulks;
use crate::document;
use crate::examine::examine;
use crate::executor::{Job, Word};
use crate::flows::{Compile, Flows};
use crate::life::{self, Lifetime};
use crate::policies;
use crate::request::{EngineError, Output, Request, StartRun, Ticket};

/// How much an engine does at once.
///
/// There is no `autoResumeCheckFrequency` to be set: what is due is found by the one order of time that all timers are in,
/// and the engine sleeps until the first of it. A resume is as late as the batch before it takes, far below the second
/// that is promised, and nothing is looked for while nothing is due.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node bits of its ids.
    pub node: u16,
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
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { node: 0, max_batch: 512, max_outstanding: 16, seed: 0, token_key: [0; 32], home: None }
    }
}

/// The engine.
pub struct Engine<S> {
    pub(crate) store: S,
    flows: Flows,
    settings: Settings,
    pub(crate) life: Lifetime,
    pub(crate) ids: Ids,
    random: Random,
    offers: Offers,
    /// Executors that want the whole product with a job.
    want_product: Vec<Arc<str>>,
    /// The attempts that executors of this process have, with the room that they take.
    handed_out: FxHashMap<AttemptId, (Worker, u32)>,
    /// The resume policies in force.
    pub(crate) policies: Policies,
    /// The bulk actions that are not over.
    pub(crate) bulks: Bulks,
    inbox: VecDeque<Request>,
    outstanding: VecDeque<Outstanding>,
    pub(crate) last: Time,
    /// What the clock said at the last step: it may be behind what was committed, and only it goes on all the time.
    clock: Time,
    /// The store could not take a batch: only one request at a time until it can.
    one_by_one: usize,
    /// Whether anybody wants to know what happens.
    is_watched: bool,
    /// The last batch changed something or made room: there may be more to hand out, to deliver or to admit.
    more: bool,
    /// The store is full or away: nothing is tried before the clock says this.
    retry_at: Option<Time>,
    /// What is wrong with the store, until something is durable again.
    trouble: Option<StoreError>,
    /// Something is due in a run whose flow cannot be used: it is looked at again then, rather than all the time.
    unusable_until: Time,
    pub(crate) stopped: Option<StoreError>,
}

/// How long to wait before asking a store again that is full or away.
const STORE_RETRY: Millis = Millis(200);
/// How long to wait before looking again at what is due in runs whose flow cannot be used.
const UNUSABLE_RETRY: Millis = Millis::seconds(10);

/// A batch that is decided, and not yet known to be durable.
#[derive(Default)]
struct Outstanding {
    /// `None`: it changed nothing, but what it saw may not be durable yet.
    stage: Option<StageId>,
    outputs: Vec<Output>,
    /// Words of executors, to be heard again if the batch fails.
    words: Vec<Word>,
    /// Losses of the engine before, likewise.
    losses: Vec<(AttemptId, bool)>,
    /// Attempts that it hands out.
    handed_out: Vec<(AttemptId, Worker, u32)>,
    /// Attempts whose last word it has heard.
    ended: Vec<(AttemptId, Worker, u32)>,
    /// A time without answers that ends with it.
    downtime: Option<Downtime>,
    /// Bulk actions as it leaves them.
    bulks: Vec<Bulk>,
    /// How many requests it has taken from the line, and the places of those that must wait for the next batch.
    requests: usize,
    busy: Vec<usize>,
}

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
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
        let last = store.last_time()?.unwrap_or(Time(i64::MIN));
        let ids = Ids::new(settings.node, store.last_id()?);
        let life = Lifetime::begin(&mut store, settings.token_key)?;
        let mut flows = Flows::new(compile);
        examine(&mut store, &mut flows)?;
        let policies = policies::kept(&mut store)?;
        let bulks = Bulks::kept(&mut store)?;
        let random = Random::new(settings.seed);
        Ok(Engine {
            store,
            flows,
            settings,
            ids,
            random,
            offers: Offers::default(),
            want_product: Vec::new(),
            handed_out: FxHashMap::default(),
            policies,
            bulks,
            inbox: life.losses(),
            life,
            outstanding: VecDeque::new(),
            last,
            clock: last,
            one_by_one: 0,
            is_watched: true,
            more: false,
            retry_at: None,
            trouble: None,
            unusable_until: last,
            stopped: None,
        })
    }

    /// Keeps a flow.
    pub fn put_flow(&mut self, flow: Flow) -> Result<Arc<Flow>, PutFlowError> {
        self.flows.put(&mut self.store, flow)
    }

    /// An executor of this process waits for work.
    pub fn register(&mut self, offer: Offer, wants_product: bool) {
        if wants_product {
            self.want_product.push(offer.worker.name.clone());
        }
        self.offers.put(offer);
        self.more = true;
    }

    /// A worker that was there before this engine has this attempt still, and says so when it registers again.
    pub fn adopt(&mut self, attempt: AttemptId, worker: &Worker, load: u32) {
        if self.handed_out.insert(attempt, (worker.clone(), load)).is_none() {
            self.offers.use_up(worker, load);
        }
    }

    /// This worker is gone: nothing more is handed to it. What it has is another matter, see [`Request::Lost`].
    pub fn dismiss(&mut self, worker: &Worker) {
        self.handed_out.retain(|_, (holder, _)| holder != worker);
        self.offers.put(Offer { worker: worker.clone(), queues: Arc::new([]), free: 0, max_load: 0 });
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
        self.life.incarnation
    }

    /// The home whose local steps its executors carry out.
    pub fn home(&self) -> Option<&Arc<str>> {
        self.settings.home.as_ref()
    }

    /// Nothing is due before `now`, and answers are taken all the same.
    pub fn alive(&mut self, now: Time) {
        let takes_answers = self.retry_at.is_none() && self.stopped.is_none() && !self.life.is_down();
        if self.outstanding.is_empty() && takes_answers {
            self.store.alive(now.max(self.last));
        }
    }

    /// Nobody has stepped it between these times, though somebody should have: the process was stopped.
    pub fn was_stopped(&mut self, from: Time) {
        self.life.goes_down(from);
    }

    /// Puts a request in line.
    pub fn submit(&mut self, request: Request) {
        self.inbox.push_back(request);
    }

    /// How many requests are in line.
    pub fn backlog(&self) -> usize {
        self.inbox.len()
    }

    /// How many batches are decided and not known to be durable.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
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

    /// Decides what is there at `now`, and gives what has become durable. Time never goes back: it is the later
    /// of the clock and the last batch.
    pub fn step(&mut self, now: Time) -> Vec<Output> {
        self.last = self.last.max(now);
        self.clock = now;
        let mut outputs = self.settle(false);
        if let Some(error) = self.stopped.clone() {
            self.refuse_all(&error, &mut outputs);
            return outputs;
        }
        if self.retry_at.is_some_and(|at| at <= now || now + STORE_RETRY < at) {
            self.retry_at = None;
        }
        if self.retry_at.is_none() && self.outstanding.len() < self.settings.max_outstanding {
            let mut done = Outstanding::default();
            match self.batch(&mut done) {
                Ok(()) => self.staged(done),
                Err(error) => {
                    self.store.rollback();
                    self.life.still_down(done.downtime);
                    self.take_back(&done);
                    self.store_failed(error, &mut outputs);
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
    pub fn what_next(&mut self) -> Next {
        if self.stopped.is_some() {
            return Next::Idle;
        }
        if self.outstanding.len() >= self.settings.max_outstanding {
            return Next::Settling;
        }
        if let Some(at) = self.retry_at {
            return if self.outstanding.is_empty() { Next::At(at) } else { Next::Settling };
        }
        if !self.inbox.is_empty() || self.more {
            return Next::Now;
        }
        let bulk = self.bulks.due();
        match self.store.next_due() {
            _ if bulk.is_some_and(|due| due <= self.last) => Next::Now,
            Ok(Some(due)) if due <= self.last && self.unusable_until <= self.last => Next::Now,
            _ if !self.outstanding.is_empty() => Next::Settling,
            Ok(Some(due)) => Next::At(bulk.into_iter().fold(due.max(self.unusable_until), Time::min)),
            Ok(None) => bulk.map_or(Next::Idle, Next::At),
            Err(_) => Next::Idle,
        }
    }

    /// One batch: what waits for executors, what is due, what runs have to tell each other, who may be admitted,
    /// what was asked, and what bulk actions do next.
    fn batch(&mut self, done: &mut Outstanding) -> Result<(), StoreError> {
        self.bulks.follow(&mut self.store)?;
        self.store.begin()?;
        done.downtime = self.life.comes_back(self.last);
        let mut batch = Batch::new(self.is_watched);
        let limit = if self.one_by_one > 0 { 1 } else { self.settings.max_batch };
        let mut work = self.claims(limit)?;
        work.extend(self.due_commands(limit)?);
        let mut tools = self.tools();
        work.extend(tools.store.admissible(limit)?.into_iter().map(|run| (run, Command::Admit)));
        batch.lock(&mut tools, work.iter().map(|(run, _)| *run).collect())?;
        let mut is_unusable = false;
        for (run, command) in work {
            is_unusable |= undecided(batch.decide(&mut tools, run, command, None))?;
        }
        for (id, notice) in tools.store.notices(limit)? {
            batch.deliver_stored(&mut tools, id, notice)?;
        }
        batch.deliver_all(&mut tools)?;
        if is_unusable {
            self.unusable_until = self.last + UNUSABLE_RETRY;
        }
        self.requests(&mut batch, done, limit)?;
        self.go_on_with_bulks(&mut batch, limit)?;
        self.finish(batch, done)
    }

    /// Attempts that wait, for executors that have room.
    fn claims(&mut self, limit: usize) -> Result<Vec<(RunId, Command)>, StoreError> {
        let open: Vec<Offer> = self.offers.open().cloned().collect();
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let mut claims = Vec::new();
        for candidate in self.store.candidates(&open, limit)? {
            let worker = open[candidate.offer].worker.clone();
            let Ready { load, alone, .. } = candidate.ready;
            self.offers.use_up(&worker, if alone { WHOLE_WORKER } else { load });
            claims.push((candidate.ready.run, Command::Claim { unit: candidate.ready.unit, worker }));
        }
        Ok(claims)
    }

    fn due_commands(&mut self, limit: usize) -> Result<Vec<(RunId, Command)>, StoreError> {
        let due = self.store.due(self.last, limit)?;
        Ok(due.into_iter().map(|due| (due.run, Command::Due { unit: due.unit, heard: due.heard })).collect())
    }

    /// What was asked, in order. It stays in line until the batch is staged.
    fn requests(
        &mut self,
        batch: &mut Batch,
        done: &mut Outstanding,
        limit: usize,
    ) -> Result<(), StoreError> {
        done.requests = self.inbox.len().min(limit);
        let requests: Vec<Request> = self.inbox.iter().take(done.requests).cloned().collect();
        let runs = requests.iter().filter_map(|request| match request {
            Request::Start { .. } | Request::Forget { .. } | Request::Bulk { .. } => None,
            Request::Command { run, .. } => Some(*run),
            Request::Lost { attempt, .. } => Some(attempt.run),
            Request::Word(Word::Says(attempt, _) | Word::Lost(attempt) | Word::Freed(attempt)) => {
                Some(attempt.run)
            }
        });
        let runs = runs.collect();
        batch.lock(&mut self.tools(), runs)?;
        for (place, request) in requests.into_iter().enumerate() {
            self.request(batch, done, request, place)?;
            batch.deliver_all(&mut self.tools())?;
        }
        Ok(())
    }

    fn request(
        &mut self,
        batch: &mut Batch,
        done: &mut Outstanding,
        request: Request,
        place: usize,
    ) -> Result<(), StoreError> {
        let (ticket, result) = match request {
            Request::Start { ticket, start } => (Some(ticket), self.start(batch, start)),
            Request::Command { ticket, run, command } => {
                (Some(ticket), batch.decide(&mut self.tools(), run, command, None))
            }
            Request::Forget { ticket, runs } => (Some(ticket), batch.forget(&mut self.tools(), &runs)),
            Request::Bulk { ticket, bulk, deed } => (Some(ticket), self.change_bulk(batch, bulk, deed)),
            Request::Lost { attempt, with_others } => {
                done.losses.push((attempt, with_others));
                let command = Command::Lost { attempt, with_others };
                (None, batch.decide(&mut self.tools(), attempt.run, command, None))
            }
            Request::Word(word) => {
                done.words.push(word.clone());
                (None, self.word(batch, done, word)?)
            }
        };
        let result = match result {
            Err(Undecided::Busy) => {
                done.busy.push(place);
                return Ok(());
            }
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Error(error)) => Err(error),
            Ok(answer) => Ok(answer),
        };
        if let Some(ticket) = ticket {
            done.outputs.push(Output::Reply { ticket, result });
        }
        Ok(())
    }

    fn start(&mut self, batch: &mut Batch, start: StartRun) -> Result<Answer, Undecided> {
        let flow = self.flows.newest(&mut self.store, &start.flow).map_err(Undecided::Error)?;
        let known = match &start.key {
            Some(key) => batch.run_of_key(&mut self.tools(), &flow.name, key)?,
            None => None,
        };
        let run = known.unwrap_or_else(|| RunId(self.ids.next(self.last)));
        if known.is_none() {
            batch.expect_new(run);
        }
        let command = Command::Start(Box::new(Start {
            run,
            key: start.key.clone(),
            input: StartInput::New(start.input),
            priority: start.priority,
            deadline: start.deadline,
            origin: Origin::Root,
            root_flow: None,
            home: start.home,
            on_duplicate: start.on_duplicate,
            by: start.by,
        }));
        let name = flow.name.clone();
        let answer = batch.decide(&mut self.tools(), run, command, Some(flow))?;
        if let Some(key) = &start.key {
            batch.take_key(&name, key, run);
        }
        Ok(answer)
    }

    /// What an executor of this process says. Its last word gives its room back, whether it is believed or not.
    fn word(
        &mut self,
        batch: &mut Batch,
        done: &mut Outstanding,
        word: Word,
    ) -> Result<Result<Answer, Undecided>, StoreError> {
        if let Some(attempt) = word.ends()
            && let Some((worker, load)) = self.handed_out.remove(&attempt)
        {
            self.offers.give_back(&worker, load);
            let queues = self.offers.of(&worker).map(|offer| offer.queues.clone());
            let waiting = match queues {
                Some(queues) => self.store.highest_waiting(&queues)?,
                None => None,
            };
            self.offers.set_answering(Some((&worker, waiting)));
            done.ended.push((attempt, worker, load));
        }
        let result = match word {
            Word::Says(attempt, says) => {
                batch.decide(&mut self.tools(), attempt.run, Command::Answer { attempt, says }, None)
            }
            Word::Lost(attempt) => {
                let command = Command::Lost { attempt, with_others: false };
                batch.decide(&mut self.tools(), attempt.run, command, None)
            }
            Word::Freed(_) => Ok(Answer::Done),
        };
        self.offers.set_answering(None);
        Ok(result)
    }

    /// Stages the batch; its outputs wait until it is durable.
    fn finish(&mut self, mut batch: Batch, done: &mut Outstanding) -> Result<(), StoreError> {
        for (run, event) in std::mem::take(&mut batch.happened) {
            done.outputs.push(Output::Happened { run, event });
        }
        let effects = std::mem::take(&mut batch.effects);
        for (attempt, worker, load) in dispatches(&effects) {
            self.handed_out.insert(attempt, (worker.clone(), load));
            done.handed_out.push((attempt, worker.clone(), load));
        }
        for effect in effects {
            match effect {
                Effect::Dispatch { attempt, worker, .. } => {
                    if let Some(job) = self.job(&batch, attempt, &worker)? {
                        done.outputs.push(Output::Dispatch { worker, job });
                    }
                }
                Effect::Interrupt { attempt, worker, why } => {
                    done.outputs.push(Output::Interrupt { worker, attempt, why });
                }
            }
        }
        done.bulks = batch.bulks.values().map(|change| change.bulk.clone()).collect();
        let downtime = done.downtime.filter(life::is_noticed);
        // A store that was in trouble is over it when it has taken something, if only nothing at all.
        let is_probe = self.trouble.is_some() && self.outstanding.is_empty();
        if batch.has_changes() || downtime.is_some() || is_probe {
            let stage = Stage { downtime, ..batch.into_stage(self.last, self.ids.last()) };
            done.stage = Some(self.store.stage(stage)?);
        } else {
            self.store.abandon(batch.into_runs());
        }
        Ok(())
    }

    /// A batch is staged: its requests leave the line.
    fn staged(&mut self, mut done: Outstanding) {
        self.bulks.take_over(std::mem::take(&mut done.bulks));
        let taken: Vec<Request> = self.inbox.drain(..done.requests).collect();
        self.one_by_one = self.one_by_one.saturating_sub(done.requests);
        for (_, request) in taken.into_iter().enumerate().rev().filter(|(place, _)| done.busy.contains(place))
        {
            self.inbox.push_front(request);
        }
        self.more = done.stage.is_some() || !done.ended.is_empty();
        if done.stage.is_some() || !done.outputs.is_empty() {
            self.outstanding.push_back(done);
        }
    }

    /// A batch was not staged: who has room is as it was before.
    fn take_back(&mut self, done: &Outstanding) {
        for (attempt, _, _) in &done.handed_out {
            self.handed_out.remove(attempt);
        }
        for (attempt, worker, load) in &done.ended {
            self.handed_out.insert(*attempt, (worker.clone(), *load));
        }
        self.offers.set_answering(None);
        self.offers.reset_room(self.handed_out.values().map(|(worker, load)| (worker, *load)));
    }

    fn job(&mut self, batch: &Batch, attempt: AttemptId, worker: &Worker) -> Result<Option<Job>, StoreError> {
        let Some((run, flow)) = batch.run(attempt.run) else { return Ok(None) };
        let Some(unit) = run.unit(attempt.unit) else { return Ok(None) };
        let store = &mut self.store;
        let input = batch.json(store, unit.input.as_ref().unwrap_or(&run.input))?;
        let product = if self.want_product.contains(&worker.name) {
            let mut failed = None;
            let token = self.life.signer.sign(attempt);
            let product = document::product(run, flow, attempt, worker, token, &input, &mut |payload| {
                batch.json(store, payload).unwrap_or_else(|error| {
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

    /// Takes in what the store says of staged batches, in order.
    fn settle(&mut self, wait: bool) -> Vec<Output> {
        let (mut outputs, mut again) = (Vec::new(), Vec::new());
        for settled in self.store.settle(wait) {
            while let Some(front) = self.outstanding.front() {
                let is_this = front.stage == Some(settled.stage);
                if !is_this && front.stage.is_some() {
                    break;
                }
                let Some(mut done) = self.outstanding.pop_front() else { break };
                match &settled.result {
                    Ok(()) => outputs.append(&mut done.outputs),
                    Err(error) => again.extend(self.undo(done, error, &mut outputs)),
                }
                if is_this {
                    break;
                }
            }
            if let Err(error) = &settled.result {
                again.extend(self.undo_unstaged(error, &mut outputs));
            }
            match settled.result {
                Ok(()) => self.trouble = None,
                Err(error) if error.may_pass() => {
                    self.life.goes_down(self.last);
                    self.retry_at = Some(self.clock + STORE_RETRY);
                    self.trouble = Some(error);
                }
                Err(error) => self.stopped = Some(error),
            }
        }
        // Before all that came since, in the order in which it was heard first.
        for request in again.into_iter().rev() {
            self.inbox.push_front(request);
        }
        while self.outstanding.front().is_some_and(|front| front.stage.is_none()) {
            if let Some(mut done) = self.outstanding.pop_front() {
                outputs.append(&mut done.outputs);
            }
        }
        outputs
    }

    /// What stood on a batch that is gone, and changed nothing, was seen on what never was.
    fn undo_unstaged(&mut self, error: &StoreError, outputs: &mut Vec<Output>) -> Vec<Request> {
        let mut again = Vec::new();
        while self.outstanding.front().is_some_and(|front| front.stage.is_none()) {
            if let Some(done) = self.outstanding.pop_front() {
                again.extend(self.undo(done, error, outputs));
            }
        }
        again
    }

    /// A batch is gone: its callers are told, its hand-outs taken back. Gives what is to be heard again: the losses and
    /// its executors' words.
    fn undo(&mut self, done: Outstanding, error: &StoreError, outputs: &mut Vec<Output>) -> Vec<Request> {
        for (attempt, worker, load) in done.handed_out {
            if self.handed_out.remove(&attempt).is_some() {
                self.offers.give_back(&worker, load);
            }
        }
        self.life.still_down(done.downtime);
        self.bulks.lose();
        for output in done.outputs {
            if let Output::Reply { ticket, .. } = output {
                outputs.push(refusal(ticket, error));
            }
        }
        let loss = |(attempt, with_others)| Request::Lost { attempt, with_others };
        let losses = done.losses.into_iter().map(loss);
        losses.chain(done.words.into_iter().map(Request::Word)).collect()
    }

    /// A batch could not be staged. A collision is tried again one by one; everything else is told.
    fn store_failed(&mut self, error: StoreError, outputs: &mut Vec<Output>) {
        match error {
            StoreError::Conflict(_) => self.one_by_one = self.inbox.len().max(1),
            StoreError::Full(_) | StoreError::Away(_) => {
                self.refuse_commands(&error, outputs);
                self.life.goes_down(self.last);
                self.retry_at = Some(self.clock + STORE_RETRY);
                self.trouble = Some(error);
            }
            StoreError::Broken(_) => {
                self.refuse_all(&error, outputs);
                self.stopped = Some(error);
            }
        }
    }

    fn refuse_all(&mut self, error: &StoreError, outputs: &mut Vec<Output>) {
        self.refuse_commands(error, outputs);
        self.inbox.clear();
    }

    /// Callers are told; what executors say stays in line.
    fn refuse_commands(&mut self, error: &StoreError, outputs: &mut Vec<Output>) {
        self.inbox.retain(|request| match request {
            Request::Start { ticket, .. }
            | Request::Command { ticket, .. }
            | Request::Bulk { ticket, .. }
            | Request::Forget { ticket, .. } => {
                outputs.push(refusal(*ticket, error));
                false
            }
            Request::Word(_) | Request::Lost { .. } => true,
        });
    }

    pub(crate) fn tools(&mut self) -> Tools<'_> {
        Tools {
            store: &mut self.store,
            flows: &mut self.flows,
            ids: &mut self.ids,
            random: &mut self.random,
            offers: &mut self.offers,
            downtimes: &self.life.downtimes,
            policies: &self.policies,
            now: self.last,
        }
    }
}

fn refusal(ticket: Ticket, error: &StoreError) -> Output {
    Output::Reply { ticket, result: Err(EngineError::Store(error.clone())) }
}

/// A command of the engine's own that was refused is stale: nobody's loss. Gives whether the flow of its run cannot be
/// used, so that it will come again.
fn undecided(result: Result<Answer, Undecided>) -> Result<bool, StoreError> {
    match result {
        Err(Undecided::Error(EngineError::Store(error))) => Err(error),
        Err(Undecided::Error(EngineError::BadFlow(_) | EngineError::UnknownFlow(_))) => Ok(true),
        Ok(_) | Err(Undecided::Busy | Undecided::Error(_)) => Ok(false),
    }
}
