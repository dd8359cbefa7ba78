//! Workers of the world: those beside the engine say words, those elsewhere send letters until these are answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::decide::Answer;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::Run;
use unstuck_core::offer::{Offer, WHOLE_WORKER};
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::request::{EngineError, Request};
use unstuck_store::conformance::TestStore;

use super::node::Process;
use super::{PendingRequest, World, WorldEvent};
use crate::simulate::plan::PlannedWorker;
use crate::simulate::worker_behaviour::{Delivery, Ending, WorkerBehaviour};

/// As often as this a worker gives signs of life, at first.
const BEAT: Millis = Millis::seconds(4);
/// And after so many of them, as often as this.
const MANY_BEATS: u32 = 5;
const SLOW_BEAT: Millis = Millis::seconds(20);

/// The number of a letter that says that work has begun, and of one that says the last word.
const START: u64 = 0;
const LAST: u64 = 1;

/// A worker, as it is now.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct SimulatedWorker {
    pub(super) name: Arc<str>,
    pub(super) is_local: bool,
    /// The place of the server that it is connected to.
    pub(super) node: usize,
    queues: Arc<[Arc<str>]>,
    max_load: u32,
    /// Which start of it, elsewhere; beside the engine it is the engine's.
    pub(super) incarnation: u64,
    pub(super) is_up: bool,
    /// It takes nothing more, for it is about to stop.
    is_leaving: bool,
    pub(super) is_deaf: bool,
    has: BTreeMap<AttemptId, HeldAttempt>,
    /// What earlier incarnations had when they died, while nobody has said so.
    lost: Vec<(u64, AttemptId)>,
}

/// An attempt that a worker has.
#[derive(Clone, Debug)]
struct HeldAttempt {
    load: u32,
    conduct: WorkerBehaviour,
    has_begun: bool,
    is_told: bool,
    beats: u32,
}

/// What a worker elsewhere has to say, again and again until it is answered.
#[derive(Debug)]
pub(super) struct WorkerMessage {
    worker: usize,
    incarnation: u64,
    attempt: AttemptId,
    number: u64,
    says: Report,
    tries: u64,
    has_arrived: bool,
    is_done: bool,
    /// It is sent though its worker is given up on.
    goes_on: bool,
}

/// What happens at a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorkerEvent {
    /// It sends a letter.
    Sends(usize),
    /// A letter arrives that was sent long ago.
    Arrives(usize),
    /// It gives a sign of life.
    Beats(u64, AttemptId),
    /// Its work on an attempt is over.
    Ends(u64, AttemptId),
    /// It learns that an attempt is no longer its own.
    Learns(u64, AttemptId),
    /// Somebody notices that this incarnation is dead.
    Noticed(u64),
    /// It is there again.
    Back,
    /// It is deaf no more.
    Hears,
    /// It looks for another server.
    Moves,
}

impl SimulatedWorker {
    pub(super) fn new(plan: &PlannedWorker, node: usize) -> SimulatedWorker {
        SimulatedWorker {
            name: plan.name.clone(),
            is_local: plan.local,
            node,
            queues: plan.queues.clone().into(),
            max_load: plan.max_load,
            incarnation: 1,
            is_up: true,
            is_leaving: false,
            is_deaf: false,
            has: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    pub(super) fn worker(&self) -> Worker {
        Worker { name: self.name.clone(), incarnation: self.incarnation, local: self.is_local }
    }
}

impl<S: TestStore> World<'_, S> {
    /// Something happens at a worker.
    pub(super) fn worker(&mut self, worker: usize, event: WorkerEvent) {
        match event {
            WorkerEvent::Sends(letter) => self.send(letter),
            WorkerEvent::Arrives(letter) => self.deliver(letter, false),
            WorkerEvent::Beats(incarnation, attempt) => self.beat(worker, incarnation, attempt),
            WorkerEvent::Ends(incarnation, attempt) => self.work_ends(worker, incarnation, attempt),
            WorkerEvent::Learns(incarnation, attempt) => self.learns(worker, incarnation, attempt),
            WorkerEvent::Noticed(incarnation) => self.notice(worker, incarnation),
            WorkerEvent::Back => self.back(worker),
            WorkerEvent::Hears => self.hears(worker),
            WorkerEvent::Moves => self.move_worker(worker),
        }
    }

    /// Every worker that is there offers itself to a new engine: those beside it as new ones, the others with what they have.
    pub(super) fn offer_all(&mut self) {
        for place in 0..self.workers.len() {
            if self.workers[place].node != self.here {
                continue;
            }
            if self.workers[place].is_local {
                let incarnation = self.engine().map_or(0, |engine| engine.incarnation());
                let worker = &mut self.workers[place];
                (worker.incarnation, worker.is_up) = (incarnation, true);
                worker.has.clear();
            }
            self.offer_if_there(place);
        }
    }

    /// A worker offers itself, unless it is dead or about to stop.
    pub(super) fn offer_if_there(&mut self, place: usize) {
        if self.workers[place].is_up && !self.workers[place].is_leaving {
            self.offer(place);
        }
    }

    fn offer(&mut self, place: usize) {
        let Process::Up(machine) = &mut self.nodes[self.here].process else { return };
        let engine = &mut machine.engine;
        let worker = &self.workers[place];
        let who = worker.worker();
        let (queues, max_load) = (worker.queues.clone(), worker.max_load);
        engine.register(Offer { worker: who.clone(), queues, free: max_load, max_load }, true);
        self.promises.add_worker(&who, max_load);
        let mut void = Vec::new();
        for (attempt, held) in &worker.has {
            let run = engine.store().run(attempt.run).ok().flatten();
            let unit = run.as_ref().filter(|run| run.generation == attempt.generation && !run.is_final());
            let unit = unit.and_then(|run| run.unit(attempt.unit));
            let alone = unit.is_some_and(|unit| unit.round.must_run_alone());
            engine.adopt(*attempt, &who, if alone { WHOLE_WORKER } else { held.load });
            if run.is_none_or(|run| !is_live(&run, *attempt)) {
                void.push(*attempt);
            }
        }
        for attempt in void {
            self.interrupted(&who, attempt, "it is over");
        }
    }

    /// A worker elsewhere asks about what it has: who was to tell it that something is over may have died before.
    fn ask_about_attempts(&mut self, place: usize) {
        let Process::Up(host) = &mut self.nodes[self.here].process else { return };
        let worker = &self.workers[place];
        let who = worker.worker();
        let is_over = |attempt: &AttemptId| {
            let run = host.engine.store().run(attempt.run).ok().flatten();
            run.is_none_or(|run| !is_live(&run, *attempt))
        };
        let void: Vec<AttemptId> = worker.has.keys().copied().filter(is_over).collect();
        for attempt in void.into_iter().filter(|_| !who.local) {
            self.interrupted(&who, attempt, "it is over");
        }
    }

    /// An attempt is handed out.
    pub(super) fn dispatched(&mut self, to: &Worker, job: &Job) {
        let attempt = job.attempt;
        self.say(format_args!(
            "    {} gets {} of {}, attempt {}",
            to.name,
            job.step().id,
            attempt.run,
            attempt.attempt
        ));
        let Some(place) = self.place_of(to) else { return };
        if self.workers[place].node != self.here {
            self.faults.count("handed to a worker that has gone to another server");
            return self.ask(Request::Executor(ExecutorReport::Lost(attempt)));
        }
        let conduct =
            if self.is_rough { WorkerBehaviour::of(self.plan.seed, job) } else { WorkerBehaviour::good() };
        let worker = &mut self.workers[place];
        if !worker.is_up || worker.incarnation != to.incarnation {
            worker.lost.push((to.incarnation, attempt));
            return;
        }
        let is_deaf = worker.is_deaf;
        let held = HeldAttempt { load: job.step().load, conduct, has_begun: false, is_told: false, beats: 0 };
        worker.has.insert(attempt, held);
        if is_deaf {
            self.say(format_args!("    {} does not hear it", to.name));
        } else {
            self.begin(place, attempt);
        }
    }

    fn begin(&mut self, place: usize, attempt: AttemptId) {
        let worker = &mut self.workers[place];
        let (incarnation, is_local) = (worker.incarnation, worker.is_local);
        let Some(held) = worker.has.get_mut(&attempt) else { return };
        held.has_begun = true;
        let conduct = held.conduct.clone();
        if conduct.ending == Ending::Silent {
            self.faults.count("worker silent");
        }
        let begins = if is_local { Millis::ZERO } else { conduct.begins };
        let begun = self.now + begins;
        if !is_local {
            let letter = self.write(place, attempt, START, Report::Start);
            self.agenda.put(begun, WorldEvent::Worker(place, WorkerEvent::Sends(letter)));
        }
        if conduct.beats {
            self.agenda
                .put(begun + BEAT, WorldEvent::Worker(place, WorkerEvent::Beats(incarnation, attempt)));
        }
        self.agenda
            .put(begun + conduct.works, WorldEvent::Worker(place, WorkerEvent::Ends(incarnation, attempt)));
    }

    fn write(&mut self, worker: usize, attempt: AttemptId, number: u64, says: Report) -> usize {
        let incarnation = self.workers[worker].incarnation;
        self.letters.push(WorkerMessage {
            worker,
            incarnation,
            attempt,
            number,
            says,
            tries: 0,
            has_arrived: false,
            is_done: false,
            goes_on: false,
        });
        self.letters.len() - 1
    }

    /// The work on an attempt is over.
    fn work_ends(&mut self, place: usize, incarnation: u64, attempt: AttemptId) {
        let Some(held) = self.held(place, incarnation, attempt) else { return };
        let (conduct, is_told) = (held.conduct.clone(), held.is_told);
        if conduct.ending == Ending::Gone && !self.workers[place].is_local {
            let name = self.workers[place].name.clone();
            self.say(format_args!("  {name} dies of attempt {} of {}", attempt.attempt, attempt.run));
            self.faults.count("worker dies of its work");
            return self.kill(place, Some(Millis::seconds(1)), Millis::seconds(5), false);
        }
        let last = conduct.last_report(self.plan.seed, attempt);
        if self.workers[place].is_local {
            if is_told {
                return;
            }
            let word = match (last, conduct.ending) {
                (Some(says), _) => ExecutorReport::Report(attempt, says),
                (None, Ending::Gone) => ExecutorReport::Lost(attempt),
                (None, _) => return,
            };
            if matches!(word, ExecutorReport::Lost(_)) {
                self.faults.count("process gone");
            }
            self.workers[place].has.remove(&attempt);
            self.say_here(word);
        } else if let Some(says) = last {
            let letter = self.write(place, attempt, LAST, says);
            self.send(letter);
        }
    }

    /// A letter goes on its way.
    fn send(&mut self, number: usize) {
        let letter = &mut self.letters[number];
        let worker = &self.workers[letter.worker];
        let is_there = worker.is_up && worker.incarnation == letter.incarnation;
        if letter.is_done || !(is_there || letter.goes_on) {
            return;
        }
        letter.tries += 1;
        let WorkerMessage { attempt, worker, tries, number: kind, .. } = *letter;
        let is_rough = self.is_rough;
        let mut chance = self.chance(11);
        let again = if is_rough { Millis(chance.between(2_000, 9_000)) } else { Millis::seconds(2) };
        self.agenda.put(self.now + again, WorldEvent::Worker(worker, WorkerEvent::Sends(number)));
        if !matches!(self.nodes[self.here].process, Process::Up(_)) {
            return;
        }
        let post = if is_rough { Delivery::of(self.plan.seed, attempt, kind, tries) } else { Delivery::Good };
        let later = self.now + Millis(chance.between(3_000, 90_000));
        match post {
            Delivery::Good => self.deliver(number, true),
            Delivery::Lost => self.faults.count("answer lost"),
            Delivery::ReplyLost => {
                self.faults.count("reply lost");
                self.deliver(number, false);
            }
            Delivery::Late => {
                self.faults.count("answer late");
                self.agenda.put(later, WorldEvent::Worker(worker, WorkerEvent::Arrives(number)));
            }
            Delivery::Twice => {
                self.faults.count("answer repeated");
                self.deliver(number, true);
                self.deliver(number, true);
            }
            Delivery::Again => {
                self.faults.count("answer repeated later");
                self.deliver(number, true);
                self.agenda.put(later, WorldEvent::Worker(worker, WorkerEvent::Arrives(number)));
            }
        }
    }

    /// A letter arrives at the engine; whether the reply arrives too.
    fn deliver(&mut self, number: usize, reply_arrives: bool) {
        let WorkerMessage { attempt, number: kind, .. } = self.letters[number];
        let says = self.letters[number].says.clone();
        let of_attempt = |letter: &WorkerMessage| letter.attempt == attempt && letter.number == START;
        if kind == LAST && self.letters.iter().any(|letter| of_attempt(letter) && !letter.has_arrived) {
            self.faults.count("answers reordered");
        }
        self.letters[number].has_arrived = true;
        self.say(format_args!("  {} of attempt {} of {}", word_of(&says), attempt.attempt, attempt.run));
        let ticket = self.ticket(PendingRequest::Letter(number, reply_arrives));
        let command = Command::Report { attempt, report: says };
        self.ask(Request::Command { ticket, run: attempt.run, command });
    }

    /// A letter was answered.
    pub(super) fn letter_answered(
        &mut self,
        number: usize,
        arrives: bool,
        result: &Result<Answer, EngineError>,
    ) {
        let WorkerMessage { worker, incarnation, attempt, number: kind, is_done, .. } = self.letters[number];
        match result {
            Ok(answer) => {
                self.say(format_args!("  answer {} of {} taken: {answer:?}", attempt.attempt, attempt.run));
            }
            Err(error) => self.say(format_args!("  answer refused: {error}")),
        }
        if matches!(result, Err(EngineError::Refused(Refusal::Void(_)))) {
            self.faults.count("zombie refused");
        }
        if !arrives || is_done {
            return;
        }
        let is_over = match result {
            Ok(_) => kind == LAST,
            Err(EngineError::Store(_) | EngineError::Busy | EngineError::Stopped) => return,
            Err(_) => true,
        };
        self.letters[number].is_done = true;
        if is_over {
            self.finish(worker, incarnation, attempt);
        }
    }

    /// A worker elsewhere is through with an attempt: there is room again.
    fn finish(&mut self, place: usize, incarnation: u64, attempt: AttemptId) {
        for letter in &mut self.letters {
            letter.is_done |= letter.attempt == attempt && letter.incarnation == incarnation;
        }
        if self.held(place, incarnation, attempt).is_some() {
            self.workers[place].has.remove(&attempt);
            self.tell_server_of(place, Request::Executor(ExecutorReport::Freed(attempt)));
        }
    }

    fn beat(&mut self, place: usize, incarnation: u64, attempt: AttemptId) {
        let rough = self.is_rough;
        let Some(held) = self.held(place, incarnation, attempt) else { return };
        if held.is_told {
            return;
        }
        held.beats += 1;
        let beats = held.beats;
        let is_local = self.workers[place].is_local;
        if beats == 3 {
            self.faults.count("worker drags");
        }
        let every = if beats > MANY_BEATS { SLOW_BEAT } else { BEAT };
        self.agenda
            .put(self.now + every, WorldEvent::Worker(place, WorkerEvent::Beats(incarnation, attempt)));
        let mut chance = self.chance(12);
        let progress = chance.percent(30).then(|| Json::parse(&beats.to_string()).unwrap_or_default());
        let says = Report::Heartbeat { progress };
        if is_local {
            self.say_here(ExecutorReport::Report(attempt, says));
        } else if rough && chance.percent(10) {
            self.faults.count("sign of life lost");
        } else {
            let ticket = self.ticket(PendingRequest::Beat);
            self.ask(Request::Command {
                ticket,
                run: attempt.run,
                command: Command::Report { attempt, report: says },
            });
        }
    }

    /// An executor is told that an attempt is no longer its own; one elsewhere learns it some time.
    pub(super) fn interrupted(&mut self, who: &Worker, attempt: AttemptId, why: &str) {
        self.say(format_args!(
            "    {} loses attempt {} of {}: {why}",
            who.name, attempt.attempt, attempt.run
        ));
        let Some(place) = self.place_of(who) else { return };
        let longest = if self.is_rough { 4_000 } else { 1 };
        let delay = Millis(self.chance(13).between(0, longest));
        let event = WorkerEvent::Learns(who.incarnation, attempt);
        self.agenda.put(self.now + delay, WorldEvent::Worker(place, event));
    }

    fn learns(&mut self, place: usize, incarnation: u64, attempt: AttemptId) {
        let is_rough = self.is_rough;
        let worker = &self.workers[place];
        let (is_local, is_deaf) = (worker.is_local, worker.is_deaf);
        let Some(held) = self.held(place, incarnation, attempt) else { return };
        held.is_told = true;
        let ends_by_itself = held.has_begun && held.conduct.last_report(0, attempt).is_some();
        if is_local {
            self.workers[place].has.remove(&attempt);
            self.say_here(ExecutorReport::Freed(attempt));
        } else if is_deaf {
            // It does not hear that either.
        } else if is_rough && held.conduct.is_stubborn && ends_by_itself {
            self.faults.count("zombie goes on");
        } else {
            self.finish(place, incarnation, attempt);
        }
    }

    /// A worker dies with all that it has.
    pub(super) fn kill(&mut self, place: usize, noticed: Option<Millis>, back: Millis, cut_off: bool) {
        let worker = &mut self.workers[place];
        let incarnation = worker.incarnation;
        if worker.has.len() > 1 {
            self.faults.count("several attempts lost at once");
        }
        worker.is_up = false;
        let had = std::mem::take(&mut worker.has);
        worker.lost.extend(had.keys().map(|attempt| (incarnation, *attempt)));
        if cut_off {
            self.go_on_cut_off(place, incarnation, &had);
        }
        if let Some(noticed) = noticed {
            self.agenda.put(self.now + noticed, WorldEvent::Worker(place, WorkerEvent::Noticed(incarnation)));
        }
        self.agenda.put(self.now + back, WorldEvent::Worker(place, WorkerEvent::Back));
    }

    /// Who is only cut off says what it has to say, late.
    fn go_on_cut_off(&mut self, place: usize, incarnation: u64, had: &BTreeMap<AttemptId, HeldAttempt>) {
        for letter in &mut self.letters {
            letter.goes_on |=
                letter.worker == place && letter.incarnation == incarnation && letter.number == LAST;
        }
        for (attempt, held) in had.iter().filter(|(_, held)| held.has_begun) {
            let is_written = |letter: &WorkerMessage| {
                letter.attempt == *attempt && letter.incarnation == incarnation && letter.number == LAST
            };
            if let Some(says) = held.conduct.last_report(self.plan.seed, *attempt)
                && !self.letters.iter().any(is_written)
            {
                let letter = self.write(place, *attempt, LAST, says);
                self.letters[letter].goes_on = true;
                let at = self.now + held.conduct.works;
                self.agenda.put(at, WorldEvent::Worker(place, WorkerEvent::Sends(letter)));
            }
        }
    }

    fn notice(&mut self, place: usize, incarnation: u64) {
        let worker = &mut self.workers[place];
        let who = Worker { name: worker.name.clone(), incarnation, local: false };
        let (gone, left) = worker.lost.iter().partition(|(lost, _)| *lost == incarnation);
        worker.lost = left;
        let gone: Vec<(u64, AttemptId)> = gone;
        self.say(format_args!("  {} of start {incarnation} is noticed to be dead", who.name));
        if let Some(engine) = self.engine() {
            engine.dismiss(&who);
        }
        for (_, attempt) in &gone {
            self.ask(Request::Lost { attempt: *attempt, with_others: gone.len() > 1 });
        }
    }

    /// A worker is there again, as its next incarnation.
    pub(super) fn back(&mut self, place: usize) {
        if self.workers[place].is_up && !self.workers[place].is_leaving {
            return;
        }
        let before = self.workers[place].worker();
        if let Some(engine) = self.engine() {
            engine.dismiss(&before);
        }
        let worker = &mut self.workers[place];
        let left = std::mem::take(&mut worker.has);
        worker.lost.extend(left.keys().map(|attempt| (before.incarnation, *attempt)));
        worker.incarnation += 1;
        (worker.is_up, worker.is_leaving) = (true, false);
        self.say(format_args!("  {} is there again", before.name));
        self.offer(place);
    }

    /// A worker stops in good order: it gives back what it has.
    pub(super) fn release(&mut self, place: usize, back: Millis) {
        let attempts: Vec<AttemptId> = self.workers[place].has.keys().copied().collect();
        if self.workers[place].is_local {
            for attempt in attempts {
                self.workers[place].has.remove(&attempt);
                self.say_here(ExecutorReport::Report(attempt, Report::Release));
            }
            return;
        }
        let who = self.workers[place].worker();
        self.workers[place].is_leaving = true;
        if let Some(engine) = self.engine() {
            engine.dismiss(&who);
        }
        for attempt in attempts {
            let letter = self.write(place, attempt, LAST, Report::Release);
            self.send(letter);
        }
        self.agenda.put(self.now + back + Millis(1), WorldEvent::Worker(place, WorkerEvent::Back));
    }

    fn hears(&mut self, place: usize) {
        self.workers[place].is_deaf = false;
        let incarnation = self.workers[place].incarnation;
        let waiting = self.workers[place].has.iter().filter(|(_, held)| !held.has_begun);
        let waiting: Vec<(AttemptId, bool)> =
            waiting.map(|(attempt, held)| (*attempt, held.is_told)).collect();
        for (attempt, is_told) in waiting {
            if is_told {
                self.finish(place, incarnation, attempt);
            } else {
                self.begin(place, attempt);
            }
        }
        let attempts =
            self.workers[place].has.iter().filter(|(_, held)| held.is_told).map(|(attempt, _)| *attempt);
        for attempt in attempts.collect::<Vec<_>>() {
            self.learns(place, incarnation, attempt);
        }
    }

    /// All that its executors have goes with the process.
    pub(super) fn forget_local_attempts(&mut self) {
        let here = self.here;
        for worker in self.workers.iter_mut().filter(|worker| worker.is_local && worker.node == here) {
            worker.has.clear();
        }
    }

    /// Faults have stopped: everybody is there, and hears. What was begun while they happened goes on as it was to.
    pub(super) fn everybody_is_well(&mut self) {
        for place in 0..self.workers.len() {
            self.move_worker(place);
            self.go_to(self.workers[place].node);
            if self.workers[place].is_deaf {
                self.hears(place);
            }
            self.back(place);
            let worker = &self.workers[place];
            let attempts: Vec<AttemptId> =
                worker.has.iter().filter(|(_, held)| held.is_told).map(|(attempt, _)| *attempt).collect();
            for attempt in attempts {
                self.learns(place, self.workers[place].incarnation, attempt);
            }
            self.ask_about_attempts(place);
        }
    }

    /// The places of the workers elsewhere that are there.
    pub(super) fn elsewhere(&self) -> Vec<usize> {
        let is_there = |worker: &SimulatedWorker| !worker.is_local && worker.is_up && !worker.is_leaving;
        (0..self.workers.len()).filter(|place| is_there(&self.workers[*place])).collect()
    }

    fn held(&mut self, place: usize, incarnation: u64, attempt: AttemptId) -> Option<&mut HeldAttempt> {
        let worker = &mut self.workers[place];
        if worker.incarnation != incarnation || !worker.is_up {
            return None;
        }
        worker.has.get_mut(&attempt)
    }
}

/// Whether an attempt is under way in its run.
fn is_live(run: &Run, attempt: AttemptId) -> bool {
    let live = run.unit(attempt.unit).and_then(|unit| unit.state.live());
    !run.is_final()
        && run.generation == attempt.generation
        && live.is_some_and(|live| live.attempt == attempt.attempt)
}

/// What a worker reports, in a word.
fn word_of(report: &Report) -> &'static str {
    match report {
        Report::Start => "start",
        Report::Heartbeat { .. } => "heartbeat",
        Report::Complete { .. } => "complete",
        Report::Fail { fatal: false, .. } => "fail",
        Report::Fail { fatal: true, .. } => "fail for good",
        Report::Defer { .. } => "defer",
        Report::Release => "release",
        Report::Log(_) => "log",
    }
}
