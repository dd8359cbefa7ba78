//! The thread that drives an engine: a clock, requests from other threads, executors and whoever watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use unstuck_core::api_token::TokenChange;
use unstuck_core::command::Command;
use unstuck_core::decide::Answer;
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, RunId, TokenId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Kind;
use unstuck_core::offer::Offer;
use unstuck_core::policy::Policies;
use unstuck_core::schedule::ScheduleCommand;
use unstuck_core::time::{Millis, Time};
use unstuck_store::contract::{Reader, Store, StoreError};

use crate::apply_flows::{FlowCommand, FlowsOutcome};
use crate::bulk::{BulkCommand, BulkPart};
use crate::call::Call;
use crate::clock::{EngineTimer, SystemTime, TimeSource};
use crate::drive::{Drive, Rest};
use crate::engine::{Engine, NextStep, STORE_RETRY, telemetry};
use crate::executor::{Executor, ExecutorReport, ReportSink};
use crate::family::durable_family;
use crate::flows::Flows;
use crate::metrics::EngineMetrics;
use crate::policies::{PolicyCommand, PolicyOutcome};
use crate::reply::ReplyTo;
use crate::request::{EngineError, Output, Request, StartRun, Ticket};
use crate::tokens::TokenOrder;
use crate::waiters::Waiters;
use crate::wake_time::WakeTime;
use crate::worker_calls::{Exchange, Exchanged, WorkerCalls};

/// So many requests may wait to be decided; more are turned away.
const MAX_WAITING: usize = 100_000;

/// What an observer is told, in order, once it is durable.
pub type Observer = Box<dyn FnMut(RunId, &Event) + Send>;

/// What a caller gets.
pub type Reply = Result<Answer, EngineError>;
type Read = Box<dyn FnOnce(&mut dyn Store, &mut Flows) + Send>;

enum Message {
    Start(StartRun, Option<Box<Call>>, ReplyTo<Answer>),
    StartMany(Vec<(StartRun, Option<Call>)>, ReplyTo<Vec<Reply>>),
    ChangeFlows(FlowCommand, Call, ReplyTo<FlowsOutcome>),
    ChangeTokens(TokenOrder, ReplyTo<TokenChange>),
    TokenUsed(TokenId),
    Command(RunId, Command, Option<Box<Call>>, ReplyTo<Answer>),
    Forget(Vec<(RunId, u64)>, Option<Box<Call>>, ReplyTo<Answer>),
    ChangeBulk(BulkId, BulkCommand, Option<Box<Call>>, ReplyTo<Answer>),
    ChangeSchedule(Arc<str>, ScheduleCommand, Option<Box<Call>>, ReplyTo<Answer>),
    Exchange(Ticket, Box<Exchange>, ReplyTo<Exchanged>),
    WithdrawCall(Ticket),
    PutBulk(BulkPart),
    Word(ExecutorReport),
    Read(Read),
    ChangePolicies(PolicyCommand, Call, SyncSender<Result<PolicyOutcome, EngineError>>),
    Policies(SyncSender<(Policies, Time)>),
    Stop,
}

/// So many times in a row a store may refuse to take what executors said last, before stopping gives up: about five
/// seconds for one that is full.
const MAX_STOP_TRIES: u32 = 25;

/// So long nothing is asked of a store that does not know what became of a batch, unless something comes.
const SETTLE_RETRY: Duration = Duration::from_millis(3);

/// A running engine.
pub struct Runtime {
    handle: Handle,
    thread: Option<JoinHandle<Stopped>>,
}

/// What an engine leaves behind when it stops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Attempts that have ended and whose end the store has not taken. The next engine finds them lost, and tries them
    /// again.
    pub unrecorded: Vec<AttemptId>,
    /// What is wrong with the store.
    pub trouble: Option<StoreError>,
}

/// Talks to a running engine, from any thread.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    reader: Arc<dyn Reader>,
    waiting: Arc<AtomicUsize>,
    /// The last ticket that was given out.
    tickets: Arc<AtomicU64>,
    tokens_version: Arc<AtomicU64>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    /// Its thread has the other end, until it ends.
    is_running: Weak<()>,
    /// When its thread is to be at work again.
    wakes: Arc<WakeTime>,
    metrics: Arc<EngineMetrics>,
}

impl Runtime {
    /// Starts a thread that drives `engine` with these executors.
    pub fn start<S: Store + Send + 'static>(
        engine: Engine<S>,
        executors: Vec<Box<dyn Executor>>,
        observer: Option<Observer>,
    ) -> Runtime {
        Runtime::start_with(engine, executors, observer, SystemTime)
    }

    /// The same, with clocks of the caller's choice.
    pub fn start_with<S: Store + Send + 'static>(
        mut engine: Engine<S>,
        executors: Vec<Box<dyn Executor>>,
        observer: Option<Observer>,
        clocks: impl TimeSource + 'static,
    ) -> Runtime {
        let (sender, receiver) = channel();
        let reader = engine.store().reader();
        let (waiting, tickets, trouble) = <(Arc<AtomicUsize>, Arc<AtomicU64>, Arc<Mutex<_>>)>::default();
        let running = Arc::new(());
        let tokens_version = Arc::new(AtomicU64::new(engine.known.tokens));
        let handle = Handle {
            sender,
            reader,
            waiting: waiting.clone(),
            tickets: tickets.clone(),
            tokens_version: tokens_version.clone(),
            trouble: trouble.clone(),
            is_running: Arc::downgrade(&running),
            wakes: Arc::new(WakeTime::new()),
            metrics: engine.metrics.clone(),
        };
        let wakes = handle.wakes.clone();
        let words = handle.clone();
        let answers = ReportSink::new(move |word| words.send(Message::Word(word)));
        let incarnation = engine.incarnation();
        let mut executors: HashMap<Arc<str>, Box<dyn Executor>> =
            executors.into_iter().map(|executor| (executor.name(), executor)).collect();
        for (name, executor) in &mut executors {
            executor.clean_up(&engine.session.left_over(name));
            let worker = Worker { name: name.clone(), incarnation, local: true };
            let max_load = executor.max_load();
            let queues = executor.queues();
            let queues = queues.iter().map(|queue| Kind::queue_at(queue, engine.home())).collect();
            let offer = Offer { worker, queues, free: max_load, max_load };
            engine.register(offer, executor.wants_product());
        }
        engine.watch(observer.is_some());
        let thread = std::thread::spawn(move || {
            let keeper = EngineTimer::new(clocks);
            let mut driver = Driver {
                engine,
                executors,
                answers,
                observer,
                waiters: Waiters::default(),
                calls: WorkerCalls::default(),
                callers: HashMap::new(),
                waiting,
                tickets,
                tokens_version,
                trouble,
                is_troubled: false,
                keeper,
                receiver,
                first: None,
                wakes,
            };
            driver.drive();
            let stopped = driver.stopped();
            drop(running);
            stopped
        });
        Runtime { handle, thread: Some(thread) }
    }

    /// For talking to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops the executors and the thread, and says what could not be recorded.
    pub fn stop(mut self) -> Stopped {
        self.end()
    }

    fn end(&mut self) -> Stopped {
        self.handle.send(Message::Stop);
        let thread = self.thread.take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Runtime {
    /// Stops the executors and the thread.
    fn drop(&mut self) {
        self.end();
    }
}

impl Handle {
    /// What is wrong with the store, if anything is: it is full, away or broken. An engine that has one of the first two
    /// goes on by itself.
    pub fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads what is durable, without a visit to the engine's thread: whoever was answered reads what was done.
    pub fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// How long the engine's thread has been late for what is due: nothing while it keeps up.
    pub fn lateness(&self) -> Millis {
        self.wakes.lateness()
    }

    /// What the engine has counted since it started.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }

    /// How many requests wait to be decided, and how many may.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::Relaxed), MAX_WAITING)
    }

    /// Whether its thread has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_running.strong_count() == 0
    }

    /// Starts a run, and waits until that is durable.
    pub fn start(&self, start: StartRun) -> Result<Answer, EngineError> {
        self.ask(|reply| Message::Start(start, None, reply))
    }

    /// Starts runs, each decided by itself, in order; in one commit where that can be. `reply` is called once, on the engine's
    /// thread, with a result for each, in the same order, when all of them are durable, and must not block.
    pub fn start_many(
        &self,
        starts: Vec<StartRun>,
        reply: impl FnOnce(Result<Vec<Reply>, EngineError>) + Send + 'static,
    ) {
        self.start_many_as(starts.into_iter().map(|start| (start, None)).collect(), reply);
    }

    /// The same, each with what comes with it.
    pub fn start_many_as(
        &self,
        starts: Vec<(StartRun, Option<Call>)>,
        reply: impl FnOnce(Result<Vec<Reply>, EngineError>) + Send + 'static,
    ) {
        let (reply, count) = (ReplyTo::new(reply), starts.len());
        if self.waiting.fetch_add(count, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
            return reply.send(Err(EngineError::Busy));
        }
        self.send(Message::StartMany(starts, reply));
    }

    /// Applies or deletes flows, as a whole or not at all; `reply` is called on the engine's thread once that is durable, and
    /// must not block.
    pub fn change_flows_then(
        &self,
        command: FlowCommand,
        call: Call,
        reply: impl FnOnce(Result<FlowsOutcome, EngineError>) + Send + 'static,
    ) {
        self.send(Message::ChangeFlows(command, call, ReplyTo::new(reply)));
    }

    /// Applies or deletes flows, as a whole or not at all; it is durable on return.
    pub fn change_flows(&self, command: FlowCommand) -> Result<FlowsOutcome, EngineError> {
        self.change_flows_as(command, Call::default())
    }

    /// The same, with what comes with the request.
    pub fn change_flows_as(&self, command: FlowCommand, call: Call) -> Result<FlowsOutcome, EngineError> {
        let (reply, receiver) = ReplyTo::channel();
        self.send(Message::ChangeFlows(command, call, reply));
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }

    /// Carries out an order about tokens; it is durable on return.
    pub fn change_tokens(&self, order: TokenOrder) -> Result<TokenChange, EngineError> {
        let (reply, receiver) = ReplyTo::channel();
        self.send(Message::ChangeTokens(order, reply));
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }

    /// The version of the tokens, as this engine knows it: whoever has read another one reads them again. Whoever was
    /// answered about a change sees it here.
    pub fn tokens_version(&self) -> u64 {
        self.tokens_version.load(Ordering::Acquire)
    }

    /// A token was used: that is recorded with what is made durable next.
    pub fn record_token_use(&self, token: TokenId) {
        self.send(Message::TokenUsed(token));
    }

    /// Asks something of a run, and waits until what comes of it is durable.
    pub fn command(&self, run: RunId, command: Command) -> Result<Answer, EngineError> {
        self.ask(|reply| Message::Command(run, command, None, reply))
    }

    /// Asks something of a run, with what comes with the request, and waits until what comes of it is durable.
    pub fn command_call(&self, run: RunId, command: Command, call: Call) -> Reply {
        let call = Some(Box::new(call));
        self.ask(|reply| Message::Command(run, command, call, reply))
    }

    /// Starts a run, with what comes with the request, and waits until that is durable.
    pub fn start_call(&self, start: StartRun, call: Call) -> Reply {
        let call = Some(Box::new(call));
        self.ask(|reply| Message::Start(start, call, reply))
    }

    /// Starts a run; `reply` is called on the engine's thread once that is durable, and must not block.
    pub fn start_then(&self, start: StartRun, reply: impl FnOnce(Reply) + Send + 'static) {
        self.ask_then(ReplyTo::new(reply), |reply| Message::Start(start, None, reply));
    }

    /// The same, with what comes with the request.
    pub fn start_as(&self, start: StartRun, call: Call, reply: impl FnOnce(Reply) + Send + 'static) {
        let call = Some(Box::new(call));
        self.ask_then(ReplyTo::new(reply), |reply| Message::Start(start, call, reply));
    }

    /// Asks something of a run; `reply` is called on the engine's thread once what comes of it is durable, and must not block.
    pub fn command_then(&self, run: RunId, command: Command, reply: impl FnOnce(Reply) + Send + 'static) {
        self.ask_then(ReplyTo::new(reply), |reply| Message::Command(run, command, None, reply));
    }

    /// The same, with what comes with the request.
    pub fn command_as(
        &self,
        run: RunId,
        command: Command,
        call: Call,
        reply: impl FnOnce(Reply) + Send + 'static,
    ) {
        let call = Some(Box::new(call));
        self.ask_then(ReplyTo::new(reply), |reply| Message::Command(run, command, call, reply));
    }

    /// A worker calls: what it reports is decided, and it is handed work, in one commit where that can be. `reply` is called
    /// on the engine's thread when all of it is durable, or when it has waited long enough, and must not block.
    pub fn exchange(
        &self,
        exchange: Exchange,
        reply: impl FnOnce(Result<Exchanged, EngineError>) + Send + 'static,
    ) -> Ticket {
        let (reply, reports) = (ReplyTo::new(reply), exchange.reports.len());
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        if self.waiting.fetch_add(reports, Ordering::Relaxed) >= MAX_WAITING && reports > 0 {
            self.waiting.fetch_sub(reports, Ordering::Relaxed);
            reply.send(Err(EngineError::Busy));
        } else {
            self.send(Message::Exchange(ticket, Box::new(exchange), reply));
        }
        ticket
    }

    /// Whoever made this call has gone away. What it was handed and did not get is kept a moment for the worker's next call.
    pub fn withdraw_call(&self, call: Ticket) {
        self.send(Message::WithdrawCall(call));
    }

    /// Removes a final run for good, with its children and handlers, which are given back with it.
    pub fn forget(&self, run: RunId) -> Result<Vec<RunId>, EngineError> {
        self.forget_as(run, None)
    }

    /// The same, with what comes with the request.
    pub fn forget_as(&self, run: RunId, call: Option<&Call>) -> Result<Vec<RunId>, EngineError> {
        if let Some(call) = call
            && let Some(key) = &call.idempotency
        {
            // Whoever asks again does not find the run.
            let known = self.reader().idempotency(&key.scope, &key.key)?;
            let now = self.reader().last_time()?.unwrap_or_default();
            call.check_replay(known.as_ref(), now)?;
        }
        loop {
            let family = durable_family(self.reader(), run)?;
            let runs = family.clone();
            let call = call.cloned().map(Box::new);
            match self.ask(|reply| Message::Forget(runs, call, reply)) {
                Ok(_) => return Ok(family.into_iter().map(|(run, _)| run).collect()),
                // Something has happened between the look and the change: look again.
                Err(EngineError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// On a full disk, gives back what room is kept for forgetting runs; whether there was any.
    pub fn release_reserve(&self) -> Result<bool, EngineError> {
        self.read(|store, _| store.release_reserve())
    }

    /// Reads, between two batches.
    pub fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Store, &mut Flows) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (sender, receiver) = sync_channel(1);
        self.send(Message::Read(Box::new(move |store, flows| {
            let _ = sender.send(read(store, flows));
        })));
        receiver.recv().map_err(|_| EngineError::Stopped)
    }

    /// Carries out an order about policies, as a whole or not at all; it is durable on return.
    pub fn change_policies(&self, order: PolicyCommand) -> Result<PolicyOutcome, EngineError> {
        self.change_policies_as(order, Call::default())
    }

    /// The same, with what comes with the request.
    pub fn change_policies_as(&self, order: PolicyCommand, call: Call) -> Result<PolicyOutcome, EngineError> {
        let (sender, receiver) = sync_channel(1);
        self.send(Message::ChangePolicies(order, call, sender));
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }

    /// The policies, enabled or not, in the order in which they match.
    pub fn policies(&self) -> Result<Policies, EngineError> {
        self.policies_now().map(|(policies, _)| policies)
    }

    /// The policies, and the time.
    pub(crate) fn policies_now(&self) -> Result<(Policies, Time), EngineError> {
        let (sender, receiver) = sync_channel(1);
        self.send(Message::Policies(sender));
        receiver.recv().map_err(|_| EngineError::Stopped)
    }

    /// Changes how a bulk action goes on, and waits until that is durable.
    pub(crate) fn ask_bulk(&self, bulk: BulkId, command: BulkCommand, call: Option<Call>) -> Reply {
        let call = call.map(Box::new);
        self.ask(|reply| Message::ChangeBulk(bulk, command, call, reply))
    }

    /// Somebody pauses the schedule of a flow, lets it go on, or starts a run of it now, and waits until that is durable.
    pub fn change_schedule(&self, flow: Arc<str>, command: ScheduleCommand, call: Call) -> Reply {
        let call = Some(Box::new(call));
        self.ask(|reply| Message::ChangeSchedule(flow, command, call, reply))
    }

    /// Puts a part of a bulk action.
    pub(crate) fn put_bulk(&self, put: BulkPart) {
        self.send(Message::PutBulk(put));
    }

    fn ask(&self, message: impl FnOnce(ReplyTo<Answer>) -> Message) -> Reply {
        let (reply, receiver) = ReplyTo::channel();
        self.ask_then(reply, message);
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }

    fn ask_then(&self, reply: ReplyTo<Answer>, message: impl FnOnce(ReplyTo<Answer>) -> Message) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return reply.send(Err(EngineError::Busy));
        }
        self.send(message(reply));
    }

    fn send(&self, message: Message) {
        // A stopped engine answers by hanging up.
        let _ = self.sender.send(message);
    }
}

struct Driver<S, T> {
    engine: Engine<S>,
    executors: HashMap<Arc<str>, Box<dyn Executor>>,
    answers: ReportSink,
    observer: Option<Observer>,
    waiters: Waiters,
    /// The open calls of workers outside of this process, and where their answers go.
    calls: WorkerCalls,
    callers: HashMap<Ticket, ReplyTo<Exchanged>>,
    waiting: Arc<AtomicUsize>,
    tickets: Arc<AtomicU64>,
    tokens_version: Arc<AtomicU64>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    is_troubled: bool,
    keeper: EngineTimer<T>,
    receiver: Receiver<Message>,
    /// The message that has woken it up.
    first: Option<Message>,
    wakes: Arc<WakeTime>,
}

impl<S: Store, T: TimeSource> Drive for Driver<S, T> {
    type Store = S;
    type Clocks = T;

    fn engine(&mut self) -> &mut Engine<S> {
        &mut self.engine
    }

    fn timer(&mut self) -> &mut EngineTimer<T> {
        &mut self.keeper
    }

    fn collect_ended(&mut self) {
        for executor in self.executors.values_mut() {
            executor.catch_up();
        }
    }

    fn time_to_own_work(&mut self) -> Option<Millis> {
        let due = self.calls.next_due()?;
        Some(Millis(due.0.saturating_sub(self.keeper.uptime().0)))
    }

    fn take_messages(&mut self, most: usize) -> bool {
        let mut next = self.first.take();
        for _ in 0..=most {
            let Some(message) = next.take().or_else(|| self.receiver.try_recv().ok()) else { return true };
            if !self.take(message) {
                return false;
            }
        }
        true
    }
}

impl<S: Store, T: TimeSource> Driver<S, T> {
    fn drive(&mut self) {
        loop {
            self.wakes.set(Some(Millis::ZERO));
            let Some(outputs) = self.run_turn() else { return self.stop() };
            self.perform_outputs(outputs);
            let message = match self.next_rest() {
                Rest::Again => continue,
                Rest::Settle => {
                    let before = self.engine.outstanding();
                    let outputs = self.engine.wait();
                    self.perform_outputs(outputs);
                    if self.engine.outstanding() < before {
                        continue;
                    }
                    // The store does not know yet: somebody may ask something else meanwhile.
                    self.receiver.recv_timeout(SETTLE_RETRY)
                }
                Rest::Sleep(Some(patience)) => {
                    self.wakes.set(Some(patience));
                    self.receiver.recv_timeout(patience.duration())
                }
                Rest::Sleep(None) => {
                    self.wakes.set(None);
                    self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
                }
            };
            match message {
                Ok(message) => self.first = Some(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes a message in; false when it is time to stop.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Start(start, call, reply) => {
                let ticket = self.ticket(reply);
                self.submit(Request::Start { ticket, start }, call.map(|call| *call));
            }
            Message::StartMany(starts, reply) => {
                let tickets = starts.iter().map(|_| self.next_ticket()).collect();
                let tickets = self.waiters.wait_for_all(tickets, reply);
                for (ticket, (start, call)) in tickets.into_iter().zip(starts) {
                    self.submit(Request::Start { ticket, start }, call);
                }
            }
            Message::ChangeFlows(command, call, reply) => {
                reply.send(self.engine.change_flows(command, &call, self.keeper.now()));
            }
            Message::ChangeTokens(order, reply) => {
                let changed = self.engine.change_tokens(order, self.keeper.now());
                self.publish_versions();
                reply.send(changed);
            }
            Message::TokenUsed(token) => self.engine.record_token_use(token, self.keeper.now()),
            Message::Command(run, command, call, reply) => {
                let ticket = self.ticket(reply);
                self.submit(Request::Command { ticket, run, command }, call.map(|call| *call));
            }
            Message::Forget(runs, call, reply) => {
                let ticket = self.ticket(reply);
                self.submit(Request::Forget { ticket, runs }, call.map(|call| *call));
            }
            Message::ChangeBulk(bulk, command, call, reply) => {
                let ticket = self.ticket(reply);
                self.submit(Request::Bulk { ticket, bulk, command }, call.map(|call| *call));
            }
            Message::ChangeSchedule(flow, command, call, reply) => {
                let ticket = self.ticket(reply);
                self.submit(Request::Schedule { ticket, flow, command }, call.map(|call| *call));
            }
            Message::Exchange(ticket, exchange, reply) => {
                self.callers.insert(ticket, reply);
                let tickets = &self.tickets;
                let next_ticket = || tickets.fetch_add(1, Ordering::Relaxed) + 1;
                self.calls.begin(&mut self.engine, ticket, *exchange, self.keeper.uptime(), next_ticket);
            }
            Message::WithdrawCall(ticket) => {
                self.calls.withdraw(&mut self.engine, ticket, self.keeper.uptime());
            }
            Message::PutBulk(put) => self.engine.put_bulk(put, self.keeper.now()),
            Message::Word(word) => self.engine.submit(Request::Executor(word)),
            Message::Read(read) => {
                let (store, flows) = self.engine.reader();
                read(store, flows);
            }
            Message::ChangePolicies(order, call, reply) => {
                let _ = reply.send(self.engine.change_policies_as(order, &call, self.keeper.now()));
            }
            Message::Policies(reply) => {
                let _ = reply.send((
                    self.engine.policies().clone(),
                    self.engine.to_store_time(self.engine.last.max(self.keeper.now())),
                ));
            }
            Message::Stop => return false,
        }
        true
    }

    /// Stops the executors, and records their last words: what they had done, and what they give back.
    fn stop(&mut self) {
        for executor in self.executors.values_mut() {
            executor.stop();
        }
        // Nobody is there any more to take work.
        self.engine.dismiss_executors();
        self.calls.end_waits(self.keeper.uptime());
        self.answer_calls(&mut Vec::new());
        for message in self.receiver.try_iter() {
            if let Message::Word(word) = message {
                self.engine.submit(Request::Executor(word));
            }
        }
        self.record_last_reports();
        self.engine.end_session();
    }

    /// Steps until the store has taken what executors said. One that takes nothing is tried a few times and then left:
    /// the next engine finds those attempts lost, which is safe.
    fn record_last_reports(&mut self) {
        let (mut left, mut tries) = (usize::MAX, 0);
        while !self.engine.is_stopped() {
            let backlog = self.engine.backlog();
            if backlog == 0 && self.engine.outstanding() == 0 {
                return;
            }
            if backlog > 0 {
                tries = if backlog < left { 0 } else { tries + 1 };
                left = left.min(backlog);
                // What is lost already is found lost again without being recorded.
                if tries > MAX_STOP_TRIES || (tries > 0 && self.engine.unrecorded_attempts().is_empty()) {
                    return;
                }
                let outputs = self.engine.step(self.keeper.now());
                self.perform_outputs(outputs);
                if let NextStep::At(time) = self.engine.next_step() {
                    std::thread::sleep(time.since(self.keeper.now()).min(STORE_RETRY).duration());
                    continue;
                }
            }
            let outputs = self.engine.wait();
            self.perform_outputs(outputs);
        }
    }

    fn stopped(&self) -> Stopped {
        tracing::info!("engine stopped");
        Stopped { unrecorded: self.engine.unrecorded_attempts(), trouble: self.engine.trouble().cloned() }
    }

    fn ticket(&mut self, waiter: ReplyTo<Answer>) -> Ticket {
        let ticket = self.next_ticket();
        self.waiters.wait(ticket, waiter);
        ticket
    }

    fn submit(&mut self, request: Request, call: Option<Call>) {
        match call {
            Some(call) => self.engine.submit_call(request, call),
            None => self.engine.submit(request),
        }
    }

    fn next_ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Workers that call are told what is for them; what is left is for others.
    fn answer_calls(&mut self, outputs: &mut Vec<Output>) {
        let answered = self.calls.take_outputs(&mut self.engine, outputs, self.keeper.uptime());
        for (ticket, exchanged) in answered {
            self.waiting.fetch_sub(exchanged.answers.len(), Ordering::Relaxed);
            if let Some(reply) = self.callers.remove(&ticket) {
                reply.send(Ok(exchanged));
            }
        }
    }

    /// Whoever keeps what is shared sees when to read it again.
    fn publish_versions(&self) {
        self.tokens_version.store(self.engine.known.tokens, Ordering::Release);
    }

    /// Whoever asks is told what is wrong with the store.
    fn publish_trouble(&mut self) {
        let trouble = self.engine.trouble();
        if trouble.is_some() || self.is_troubled {
            self.is_troubled = trouble.is_some();
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble.cloned();
        }
    }

    fn perform_outputs(&mut self, mut outputs: Vec<Output>) {
        self.publish_trouble();
        self.publish_versions();
        self.answer_calls(&mut outputs);
        for output in outputs {
            match output {
                Output::Reply { ticket, result } => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.waiters.answer(ticket, result);
                }
                Output::Dispatch { worker, job } => {
                    if let Some(executor) = self.executors.get_mut(&worker.name) {
                        executor.execute(job, &self.answers);
                    }
                }
                Output::Interrupt { worker, attempt, why } => {
                    telemetry::interrupted(attempt, &worker, &why);
                    if let Some(executor) = self.executors.get_mut(&worker.name) {
                        executor.interrupt(attempt, &why);
                    }
                }
                Output::CleanUp { worker, left } => {
                    if let Some(executor) = self.executors.get_mut(&worker) {
                        executor.clean_up(&left);
                    }
                }
                Output::Happened { run, event } => {
                    if let Some(observer) = &mut self.observer {
                        observer(run, &event);
                    }
                }
                Output::Forgotten { .. } => {}
            }
        }
    }
}
