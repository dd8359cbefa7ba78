//! Emulated executors: workers that start, show signs of life, die and come back, and the executors beside the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::Report;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::emulation::{EmulatedAttempt, Salt};
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::recovery::Limits;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::Engine;
use unstuck_engine::executor::emulation::{self, Script, ScriptLine};
use unstuck_engine::executor::{ExecutorReport, Job};
use unstuck_engine::request::Request;
use unstuck_flow::plan::Plan;
use unstuck_store::contract::Store;

/// Local processes and emulated steps take nothing but a timer.
const LOCAL_LOAD: u32 = 1_000_000;

/// Everybody who executes attempts.
pub(super) struct EmulatedWorkers {
    plan: Arc<Plan>,
    seed: u64,
    workers: Vec<EmulatedWorker>,
    queues: Arc<[Arc<str>]>,
    /// The attempts that are being played.
    parts: BTreeMap<AttemptId, RunningScript>,
    /// How many attempts each unit has had, over all generations of its run.
    tries: BTreeMap<(RunId, UnitRef), u32>,
}

struct EmulatedWorker {
    worker: Worker,
    is_alive: bool,
    /// What it had when it died.
    lost: Vec<AttemptId>,
}

/// An attempt that is being played.
struct RunningScript {
    /// The worker that has it; an executor beside the engine if none.
    worker: Option<usize>,
    began: Time,
    next: Option<(Millis, ScriptLine)>,
    script: Script,
}

/// What comes of a line.
pub(super) enum EmulatedReport {
    /// Somebody says something to the engine.
    Word(ExecutorReport),
    /// A worker dies.
    Dies(usize),
    /// Nothing: the attempt is over already.
    Nothing,
}

impl EmulatedWorkers {
    pub(super) fn new(plan: Arc<Plan>, flows: &[Flow], workers: u32, seed: u64) -> EmulatedWorkers {
        let steps = flows.iter().flat_map(|flow| &flow.steps);
        let mut queues: Vec<Arc<str>> = steps
            .filter(|step| matches!(step.kind, Kind::Action(_)))
            .map(|step| step.queue.clone())
            .collect();
        queues.sort();
        queues.dedup();
        let worker = |number: u32| EmulatedWorker {
            worker: Worker { name: format!("worker-{number}").into(), incarnation: 1, local: false },
            is_alive: true,
            lost: Vec::new(),
        };
        EmulatedWorkers {
            plan,
            seed,
            workers: (1..=workers).map(worker).collect(),
            queues: queues.into(),
            parts: BTreeMap::new(),
            tries: BTreeMap::new(),
        }
    }

    /// Everybody waits for work.
    pub(super) fn register_all<S: Store>(&self, engine: &mut Engine<S>) {
        for (name, queue) in [
            ("processes", Kind::PROCESS_QUEUE),
            ("requests", Kind::HTTP_QUEUE),
            ("emulation", Kind::EMULATION_QUEUE),
        ] {
            let worker = Worker { name: name.into(), incarnation: engine.incarnation(), local: true };
            let queues = Arc::new([queue.into()]);
            engine.register(Offer { worker, queues, free: LOCAL_LOAD, max_load: LOCAL_LOAD }, false);
        }
        for emulated in &self.workers {
            engine.register(self.offer(&emulated.worker), false);
        }
    }

    fn offer(&self, worker: &Worker) -> Offer {
        let max_load = self.plan.workers.max_load;
        Offer { worker: worker.clone(), queues: self.queues.clone(), free: max_load, max_load }
    }

    /// Somebody is given an attempt: when its first line is due, and what is said at once.
    pub(super) fn begin(
        &mut self,
        worker: &Worker,
        job: &Job,
        now: Time,
    ) -> (Option<Time>, Option<ExecutorReport>) {
        let tries = self.tries.entry((job.attempt.run, job.attempt.unit)).or_default();
        *tries += 1;
        let turn = turn(&self.plan, self.seed, job, *tries, now);
        let mut script = emulation::script_of_attempt(&turn, job, now);
        let lease = job.step().limits.heartbeat_timeout;
        let lease = if worker.local { lease } else { lease.or(Some(Limits::HEARTBEAT_TIMEOUT)) };
        // As seldom as the lease allows: each sign of life takes its time to rehearse.
        script = script.with_heartbeats(lease.map_or(Millis(u64::MAX), |lease| Millis(lease.0 * 2 / 3)));
        let next = script.next();
        let due = next.as_ref().map(|(after, _)| now + *after);
        let place = self.workers.iter().position(|emulated| emulated.worker == *worker);
        self.parts.insert(job.attempt, RunningScript { worker: place, began: now, next, script });
        (due, (!worker.local).then_some(ExecutorReport::Report(job.attempt, Report::Start)))
    }

    /// The next line of an attempt is due: what comes of it, and when the one after that is.
    pub(super) fn go_on(&mut self, attempt: AttemptId) -> (EmulatedReport, Option<Time>) {
        let Some(part) = self.parts.get_mut(&attempt) else { return (EmulatedReport::Nothing, None) };
        let Some((_, line)) = part.next.take() else { return (EmulatedReport::Nothing, None) };
        part.next = part.script.next();
        let (began, worker) = (part.began, part.worker);
        let due = part.next.as_ref().map(|(after, _)| began + *after);
        if due.is_none() && !matches!((&line, worker), (ScriptLine::Lost, Some(_))) {
            self.parts.remove(&attempt);
        }
        let said = match (line, worker) {
            (ScriptLine::Report(says), _) => EmulatedReport::Word(ExecutorReport::Report(attempt, says)),
            (ScriptLine::Lost, None) => EmulatedReport::Word(ExecutorReport::Lost(attempt)),
            (ScriptLine::Lost, Some(worker)) => EmulatedReport::Dies(worker),
        };
        (said, due)
    }

    /// The attempt is nobody's any more.
    pub(super) fn interrupt(&mut self, attempt: AttemptId) -> Option<ExecutorReport> {
        self.parts.remove(&attempt).map(|_| ExecutorReport::Freed(attempt))
    }

    /// A worker dies with all that it has. Gives its name and how much that was, unless it is dead already.
    pub(super) fn die<S: Store>(
        &mut self,
        place: usize,
        engine: &mut Engine<S>,
    ) -> Option<(Arc<str>, usize)> {
        let emulated = self.workers.get_mut(place).filter(|emulated| emulated.is_alive)?;
        emulated.is_alive = false;
        engine.dismiss(&emulated.worker);
        let had: Vec<AttemptId> = self
            .parts
            .iter()
            .filter(|(_, part)| part.worker == Some(place))
            .map(|(attempt, _)| *attempt)
            .collect();
        for attempt in &had {
            self.parts.remove(attempt);
        }
        emulated.lost.clone_from(&had);
        Some((emulated.worker.name.clone(), had.len()))
    }

    /// A worker is back, as its next incarnation, and what the old one had is lost.
    pub(super) fn restart<S: Store>(&mut self, place: usize, engine: &mut Engine<S>) -> Option<Arc<str>> {
        let emulated = self.workers.get_mut(place).filter(|emulated| !emulated.is_alive)?;
        let lost = std::mem::take(&mut emulated.lost);
        let with_others = lost.len() > 1;
        for attempt in lost {
            engine.submit(Request::Lost { attempt, with_others });
        }
        emulated.is_alive = true;
        emulated.worker.incarnation += 1;
        let worker = emulated.worker.clone();
        engine.register(self.offer(&worker), false);
        Some(worker.name)
    }

    /// One of the workers that live, by chance.
    pub(super) fn any_alive(&self, random: &mut Random) -> Option<usize> {
        let alive: Vec<usize> =
            (0..self.workers.len()).filter(|place| self.workers[*place].is_alive).collect();
        let last = u64::try_from(alive.len().checked_sub(1)?).ok()?;
        alive.get(usize::try_from(random.between(0, last)).ok()?).copied()
    }
}

/// What an attempt does that starts now: as the plan says, else as its step says, else it passes; unless something is down.
fn turn(plan: &Plan, seed: u64, job: &Job, tries: u32, now: Time) -> EmulatedAttempt {
    let (step, item) = (job.step(), job.attempt.unit.item);
    // Runs of a rehearsal do not share their luck, which is the same every time all the same.
    let luck = emulation::salt(job.attempt).run ^ seed.rotate_left(17);
    let mut random = Random::new(luck ^ u64::from(tries).rotate_left(32));
    let planned = match (plan.rule(&job.flow.name, step, item), &step.kind) {
        (Some(rule), _) => rule.to_attempt(tries, &mut random),
        (None, Kind::Emulate(emulation)) => {
            emulation.attempt(job.attempt.attempt, Salt { unit: luck, run: luck })
        }
        (None, _) => EmulatedAttempt::of(unstuck_core::model::emulation::Behaviour::Pass),
    };
    let ends = emulation::script_of_attempt(&planned, job, now).ends_after().map(|after| now + after);
    let struck = plan
        .outages
        .iter()
        .filter(|outage| outage.strikes(&job.flow.name, step, item))
        .filter_map(|outage| Some((outage.window(plan.start, now)?, outage)))
        .filter(|(window, _)| window.from <= now || ends.is_none_or(|ends| window.from < ends))
        .min_by_key(|(window, _)| window.from);
    let turn = match struck {
        None => planned,
        Some((window, outage)) => {
            let turn = outage.to_attempt(&mut random);
            EmulatedAttempt { after: turn.after.plus(window.from.since(now)), ..turn }
        }
    };
    let example = || plan.example(&job.flow.name, step, item).map(|example| example.output.clone());
    EmulatedAttempt { output: turn.output.clone().or_else(example), ..turn }
}
