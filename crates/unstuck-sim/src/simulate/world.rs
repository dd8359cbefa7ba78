//! The world of a plan: servers on virtual clocks, workers here and elsewhere, callers, operators and what breaks.
//!
//! Where several servers share the store, one of them is *here*: the one that something happens to, or that is asked.

mod contention;
mod ending;
mod faults;
mod host;
mod late_loads;
mod lost_answers;
mod node;
mod operators;
mod servers;
mod workers;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::policy::Policies;
use unstuck_core::reason;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::clock::Wake;
use unstuck_engine::drive::{Drive, Rest};
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::flows::Compile;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{EngineError, Output, Request, Ticket};
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::{FlowRecord, StoreError};

use crate::event_queue::EventQueue;
use crate::simulate::chance::Chance;
use crate::simulate::plan::{LostAnswer, Plan, PlannedFlow, StoreFault};
use crate::simulate::promises::{Broken, Moment, Promise, Promises};
use crate::simulate::tally::Tally;
use crate::simulate::trace::{BEGIN, Trace};

use self::host::Host;
use self::node::{Node, Process};
use self::workers::{SimulatedWorker, WorkerMessage};

/// So long after the last act faults stop.
const TAIL: Millis = Millis::seconds(20);
/// More steps at one moment than this are an engine that never comes to rest.
const MAX_STEPS: usize = 3_000;
/// More happenings than this are a world that never comes to rest.
const MAX_HAPPENINGS: u64 = 20_000;

/// Everything that a plan is carried out on.
pub(crate) struct World<'a, S> {
    plan: &'a Plan,
    nodes: Vec<Node<S>>,
    /// The place of the one that this is about now.
    here: usize,
    /// A handle of nobody's, where several servers share the store.
    watch: Option<S>,
    /// Since when no server takes answers.
    unanswered_since: Option<Time>,
    /// What is to come, by the time of the world, which never goes back.
    agenda: EventQueue<WorldEvent>,
    now: Time,
    /// Until when the disk takes its time.
    slow_until: Time,
    /// No stage is taken.
    outage: Option<StoreFault>,
    /// The stage of the batch that hears the next word fails.
    fails_hearing: Option<StoreFault>,
    /// Whether faults happen.
    is_rough: bool,
    /// Whether whatever batches ask for is given at once.
    is_prompt: bool,
    happenings: u64,
    disk_is_planned: bool,
    workers: Vec<SimulatedWorker>,
    letters: Vec<WorkerMessage>,
    /// Who has asked which server.
    tickets: BTreeMap<Ticket, (usize, PendingRequest)>,
    next_ticket: Ticket,
    runs: Vec<RunId>,
    bulks: Vec<BulkId>,
    flows: Arc<Compiled>,
    pub(crate) promises: Promises,
    pub(crate) trace: Trace,
    pub(crate) faults: Tally,
    pub(crate) acts: Tally,
}

/// Something that comes by itself.
#[derive(Clone, Debug)]
enum WorldEvent {
    /// The act of this place in the plan.
    Act(usize),
    /// The disk has done something.
    Disk,
    /// The engine of this server is stepped.
    Step(usize),
    /// The process is there again; the number of times that it dies again.
    Open(usize, u64),
    /// The process goes on after it was stopped.
    Thaw(usize),
    /// The store takes stages again.
    OutageEnds,
    /// A batch of this server is given what it has asked for.
    Load(usize),
    /// It is looked up what became of a commit whose answer was lost.
    LookUp(LostAnswer),
    /// The process that does not know what became of a commit dies.
    DiesUnknowing(usize),
    /// Something about a worker.
    Worker(usize, workers::WorkerEvent),
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
enum PendingRequest {
    /// Somebody, for the sake of this.
    Act(&'static str),
    /// A worker, with this letter; whether the reply arrives.
    Letter(usize, bool),
    /// A worker, whose sign of life needs no reply.
    Beat,
}

/// Compiled flows, so that another engine need not compile them again.
type Compiled = Mutex<HashMap<Arc<str>, Flow>>;

impl<'a, S: TestStore> World<'a, S> {
    /// A world before anything has happened.
    pub(crate) fn new(plan: &'a Plan, store: S, keeps_lines: bool) -> World<'a, S> {
        let mut agenda = EventQueue::default();
        for (place, timed) in plan.acts.iter().enumerate() {
            agenda.put(BEGIN + timed.at, WorldEvent::Act(place));
        }
        let (nodes, watch) = servers::of_plan(plan, store);
        let count = nodes.len();
        World {
            plan,
            nodes,
            here: 0,
            watch,
            unanswered_since: None,
            agenda,
            now: BEGIN,
            slow_until: BEGIN,
            outage: None,
            fails_hearing: None,
            is_rough: true,
            is_prompt: plan.lanes == 1,
            happenings: 0,
            disk_is_planned: false,
            workers: servers::workers_of(plan, count),
            letters: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            runs: Vec::new(),
            bulks: Vec::new(),
            flows: Arc::default(),
            promises: Promises::of_nodes(count),
            trace: Trace::new(keeps_lines),
            faults: Tally::default(),
            acts: Tally::default(),
        }
    }

    /// Carries the plan out, then lets everything come to its end.
    pub(crate) fn run_plan(&mut self) -> Result<(), Broken> {
        for place in (0..self.nodes.len()).rev() {
            self.go_to(place);
            self.open(0)?;
        }
        for flow in &self.plan.flows {
            self.put_flow(flow);
        }
        if !self.plan.policies.is_empty() {
            let by = operators::operator();
            let drafts = self.plan.policies.clone();
            self.order(PolicyCommand::Load { drafts, replace: false, by });
        }
        self.step()?;
        let last = self.plan.acts.last().map_or(BEGIN, |timed| BEGIN + timed.at);
        while let Some(at) = self.next_moment().filter(|at| *at <= last + TAIL) {
            self.advance(at)?;
            self.handle_next_event()?;
        }
        self.finish_world()
    }

    /// When something comes next, by the time of the world.
    fn next_moment(&mut self) -> Option<Time> {
        let now = self.now;
        let due = self.nodes.iter_mut().filter_map(|node| node.due(now)).min();
        due.into_iter().chain(self.agenda.next_at()).min()
    }

    /// Time passes, and an engine that sleeps wakes up now and then.
    fn advance(&mut self, to: Time) -> Result<(), Broken> {
        loop {
            // What it does then may bring something that comes before.
            let to = self.agenda.next_at().map_or(to, |next| next.min(to));
            let sleepers = self.nodes.iter().enumerate();
            let first = sleepers.filter_map(|(place, node)| Some((node.wakes_at()?, place))).min();
            let Some((at, place)) = first.filter(|(at, _)| *at < to) else {
                self.set_time(to);
                return Ok(());
            };
            self.set_time(at);
            self.go_to(place);
            self.wake_by_itself()?;
            self.pass_news();
        }
    }

    fn set_time(&mut self, to: Time) {
        self.now = self.now.max(to);
        for node in &self.nodes {
            node.clocks.set(moment(self.now, node.skew));
        }
        if let Some(watch) = &mut self.watch {
            watch.set_time(self.now);
        }
    }

    /// What the clocks say that the engine goes by: of its machine, or of the store where several share it.
    fn moment(&self) -> Moment {
        moment(self.now, if self.is_shared() { 0 } else { self.nodes[self.here].skew })
    }

    /// The process, if there is one.
    fn running_host(&mut self) -> Option<&mut Host<S>> {
        self.nodes[self.here].running_host()
    }

    /// Whether there is a process that does something.
    fn is_up(&self) -> bool {
        self.nodes[self.here].is_up()
    }

    /// The engine wakes up though nothing has come; most of the time there is nothing to do.
    fn wake_by_itself(&mut self) -> Result<(), Broken> {
        let (now, moment) = (self.now, self.moment());
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(()) };
        self.promises.record_wake(moment);
        let wake = host.timer().wake();
        if host.go_back_to_sleep(wake, now) {
            return Ok(());
        }
        if self.step_once(Some(wake))? {
            return self.step();
        }
        self.plan_disk();
        Ok(())
    }

    /// The next thing that comes at this moment.
    fn handle_next_event(&mut self) -> Result<(), Broken> {
        self.happenings += 1;
        if self.happenings > MAX_HAPPENINGS {
            return Err(never_rests("things happen for ever"));
        }
        match self.agenda.pop(self.now) {
            None => return self.step_due(),
            Some(WorldEvent::Act(place)) => {
                let act = &self.plan.acts[place].act;
                self.go_to_asked(self.plan.acts[place].node, act.is_fault());
                if act.needs_the_time() {
                    self.step()?;
                }
                self.perform_act(act)?;
                // Nobody tells the engine that its clock is set.
                if act.sets_the_clock() {
                    return Ok(());
                }
            }
            Some(WorldEvent::Disk) => {
                self.disk()?;
                return self.step_all_sometime();
            }
            Some(WorldEvent::Step(place)) => {
                self.go_to(place);
                self.nodes[place].step_is_planned = false;
                self.step()?;
                self.pass_news();
                return Ok(());
            }
            Some(WorldEvent::Open(place, again)) => {
                self.go_to(place);
                self.open(again)?;
            }
            Some(WorldEvent::Thaw(place)) => {
                self.go_to(place);
                self.thaw();
                if self.nodes[place].lags_until > self.now {
                    self.step()?;
                    self.fall_behind();
                }
            }
            Some(WorldEvent::OutageEnds) => self.outage = None,
            Some(WorldEvent::Load(place)) => {
                self.go_to(place);
                self.give_load();
            }
            Some(WorldEvent::LookUp(lost)) => {
                self.look_up_outcomes(lost)?;
                return self.step_all_sometime();
            }
            Some(WorldEvent::DiesUnknowing(place)) => {
                self.go_to(place);
                self.die_unknowing();
            }
            Some(WorldEvent::Worker(worker, event)) => {
                self.go_to(self.workers[worker].node);
                self.worker(worker, event);
            }
        }
        self.step_sometime()?;
        self.pass_news();
        Ok(())
    }

    /// Steps the engine now, or lets more come in before.
    fn step_sometime(&mut self) -> Result<(), Broken> {
        let mut chance = self.chance(7);
        if self.nodes[self.here].step_is_planned {
            return Ok(());
        }
        if self.is_rough && chance.percent(30) {
            self.nodes[self.here].step_is_planned = true;
            self.agenda.put(self.now + Millis(chance.between(0, 30)), WorldEvent::Step(self.here));
            return Ok(());
        }
        self.step()
    }

    /// Steps the engine until it rests, and watches every step.
    fn step(&mut self) -> Result<(), Broken> {
        for _ in 0..MAX_STEPS {
            if !self.is_up() || !self.step_once(None)? {
                self.plan_disk();
                return Ok(());
            }
        }
        Err(never_rests("the engine has more to do at this moment, however often it is stepped"))
    }

    /// One turn, of an engine that wakes up now or is awake already; gives whether there is more to do at once.
    fn step_once(&mut self, awake: Option<Wake>) -> Result<bool, Broken> {
        let (outage, moment, now) = (self.outage, self.moment(), self.now);
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(false) };
        if let Some(trouble) = outage {
            host.engine.store().refuse_stage(faults::error(trouble));
        }
        self.before_step();
        self.lose_answer();
        self.hold_loads();
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(false) };
        self.promises.record_wake(moment);
        let outputs = match awake {
            Some(wake) => host.run_turn_after(wake),
            None => host.run_turn(),
        };
        self.record_passed_on();
        self.plan_load();
        self.plan_look_up();
        self.after_step();
        self.hear(outputs.unwrap_or_default())?;
        if self.has_died() {
            return Ok(false);
        }
        self.collect_durable();
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(false) };
        self.promises.set_asked(!host.mailbox.is_empty());
        self.promises.check_after_step(&mut host.engine, moment)?;
        self.record_answers();
        self.count_busy();
        // Who was not asked speaks up by itself.
        if let Some(host) = self.running_host() {
            host.deliver_local_reports();
        }
        self.record_passed_on();
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(false) };
        let rest = host.go_to_sleep(now);
        self.waits_for_disk(rest == Rest::Settle);
        Ok(rest == Rest::Again)
    }

    /// Who watches is told what workers beside the engine have said meanwhile.
    fn record_passed_on(&mut self) {
        let moment = self.moment();
        let words = self.running_host().map(|host| std::mem::take(&mut host.passed_on)).unwrap_or_default();
        for word in words {
            self.promises.record_request(&Request::Executor(word), moment);
        }
    }

    /// Whether the process has gone down with its store.
    fn has_died(&mut self) -> bool {
        let Process::Up(host) = &mut self.nodes[self.here].process else { return true };
        let (has_crashed, has_stopped) = (host.engine.store().has_crashed(), host.engine.is_stopped());
        let trouble = host.engine.trouble().cloned();
        if matches!(trouble, Some(StoreError::SessionEnded)) {
            self.faults.count("a server was taken for dead, and lives");
        }
        if has_crashed {
            self.say(format_args!("the power has gone"));
            self.crash(Millis::seconds(2), 0);
        } else if has_stopped {
            self.say(format_args!("the engine has stopped with its store: {trouble:?}"));
            self.crash(Millis(500), 0);
        }
        has_crashed || has_stopped
    }

    /// What the engine wants done is done.
    fn hear(&mut self, outputs: Vec<Output>) -> Result<(), Broken> {
        let now = self.moment();
        for output in outputs {
            self.promises.check_output(&output, now)?;
            match output {
                Output::Reply { ticket, result } => self.reply(ticket, &result),
                Output::Dispatch { worker, job } => self.dispatched(&worker, &job),
                Output::Interrupt { worker, attempt, why } => self.interrupted(&worker, attempt, &why),
                Output::Happened { run, event } => self.happened(run, &event),
                Output::Forgotten { runs, target } => {
                    let by = if target.is_some() { " by a bulk action" } else { "" };
                    self.say(format_args!("    gone{by}: {runs:?}"));
                }
                Output::CleanUp { left, .. } => {
                    self.faults.count("a server's processes are ended by another");
                    self.say(format_args!("    ends what is left of {} attempts", left.len()));
                }
            }
        }
        Ok(())
    }

    fn happened(&mut self, run: RunId, event: &unstuck_core::event::Event) {
        if !self.runs.contains(&run) {
            self.runs.push(run);
        }
        let Process::Up(machine) = &mut self.nodes[self.here].process else { return };
        let (store, flows) = machine.engine.reader();
        let Ok(Some(known)) = store.run(run) else { return };
        let Ok(flow) = flows.get(store, known.flow) else { return };
        for fact in &event.facts {
            if let Some(line) = reason::fact_line(&flow, None, event, fact) {
                self.say(format_args!("    {run} {line}"));
            }
        }
    }

    fn reply(&mut self, ticket: Ticket, result: &Result<unstuck_core::decide::Answer, EngineError>) {
        match self.tickets.remove(&ticket).map(|(_, request)| request) {
            Some(PendingRequest::Act(words)) => match result {
                Ok(answer) => {
                    self.acts.count(words);
                    self.say(format_args!("  answered ({words}): {answer:?}"));
                }
                Err(error) => self.say(format_args!("  refused ({words}): {error}")),
            },
            Some(PendingRequest::Letter(letter, arrives)) => self.letter_answered(letter, arrives, result),
            Some(PendingRequest::Beat) | None => {}
        }
    }

    /// Asks something of the engine. Without one, nobody answers.
    fn ask(&mut self, request: Request) {
        let now = self.moment();
        let node = &mut self.nodes[self.here];
        if let Process::Up(host) = &mut node.process {
            node.is_word_in_line |= contention::is_word(&request);
            self.promises.record_request(&request, now);
            host.mailbox.push_back(request);
        }
    }

    /// A worker beside the engine has something to say: while the process is stopped, nobody passes it on.
    fn say_here(&mut self, word: unstuck_engine::executor::ExecutorReport) {
        let now = self.now;
        if self.nodes[self.here].frozen.is_none() {
            self.ask(Request::Executor(word));
        } else if let Some(host) = self.running_host() {
            host.unsaid.push((now, word));
        }
    }

    fn ticket(&mut self, request: PendingRequest) -> Ticket {
        self.next_ticket += 1;
        self.tickets.insert(self.next_ticket, (self.here, request));
        self.next_ticket
    }

    fn put_flow(&mut self, flow: &PlannedFlow) {
        let names: Vec<&str> = self.plan.flows.iter().map(|flow| &*flow.name).collect();
        let Process::Up(machine) = &mut self.nodes[self.here].process else { return };
        match flow.load(&names).map(|flow| machine.engine.put_flow(flow)) {
            Ok(Ok(kept)) => {
                let mut known = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(kept.source.clone(), (*kept).clone());
                drop(known);
                self.promises.record_flow(&kept);
                self.say(format_args!("flow {} has version {}", kept.name, kept.version));
            }
            Ok(Err(error)) => self.say(format_args!("flow {} was not kept: {error}", flow.name)),
            Err(problems) => self.say(format_args!("flow {} does not load: {problems}", flow.name)),
        }
    }

    /// Orders something about policies. Gives whether that was done.
    fn order(&mut self, order: PolicyCommand) -> bool {
        if !self.is_up() {
            return false;
        }
        let Process::Up(machine) = &mut self.nodes[self.here].process else { return false };
        let now = machine.timer().now();
        match machine.engine.change_policies(order, now) {
            Ok(outcome) => {
                self.promises.record_policies(machine.engine.policies());
                self.say(format_args!("  policies changed: {}", outcome.changes.len()));
                true
            }
            Err(error) => {
                // Whoever dies while they are written does not know whether they are kept.
                self.nodes[self.here].is_unsure_of_policies |= machine.engine.store().has_crashed();
                self.say(format_args!("  policies refused: {error}"));
                false
            }
        }
    }

    /// Makes flows of what the store keeps of them, each once.
    fn compile(&self) -> Compile {
        let known = self.flows.clone();
        Box::new(move |record: &FlowRecord| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(flow) = known.get(&record.source) {
                return Ok(flow.clone());
            }
            let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
            let flow = loaded.ok().and_then(|loaded| loaded.flows.into_iter().next());
            let flow = flow.ok_or_else(|| format!("what is kept of `{}` does not load", record.name))?;
            known.insert(record.source.clone(), flow.clone());
            Ok(flow)
        })
    }

    fn settings(&self) -> Settings {
        let mut chance = Chance::of(self.plan.seed, &[6]);
        let max_batch = if chance.percent(30) { 2 } else { 64 };
        let max_outstanding = usize::try_from(chance.between(1, 6)).unwrap_or(1);
        let seed = self.plan.seed.wrapping_add(self.here as u64);
        let host = self.nodes[self.here].host.clone();
        Settings { host, max_batch, max_outstanding, seed, ..Settings::default() }
    }

    fn engine(&mut self) -> Option<&mut Engine<S>> {
        match &mut self.nodes[self.here].process {
            Process::Up(host) => Some(&mut host.engine),
            Process::Down(_) | Process::Changing => None,
        }
    }

    /// Chance at this moment.
    fn chance(&self, about: u64) -> Chance {
        Chance::of(self.plan.seed, &[about + 1_000 * self.here as u64, self.now.0.cast_unsigned()])
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        if self.nodes.len() > 1 {
            self.trace.say(self.now, format_args!("{}: {what}", self.here));
        } else {
            self.trace.say(self.now, what);
        }
    }

    /// The policies in force, told to who watches.
    fn tell_policies(&mut self) {
        let policies: Option<Policies> = self.engine().map(|engine| engine.policies().clone());
        if let Some(policies) = policies {
            self.promises.record_policies(&policies);
        }
    }
}

/// What the clocks of a machine say whose wall is so far off.
fn moment(now: Time, skew: i64) -> Moment {
    Moment { wall: now.shifted(skew), uptime: now.since(BEGIN) }
}

/// Nothing will come of what goes on.
fn never_rests(what: &str) -> Broken {
    Broken { promise: Promise::Moved, run: None, what: what.to_owned() }
}
