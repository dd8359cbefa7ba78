//! The executor of emulated steps: brings about, on purpose, what recovery is made for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unstuck_core::command::Says;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::emulation::{Behaviour, Emulation, Salt, Turn, WaitUntil};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Kind;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};

use super::alarm::{Alarm, AlarmId};
use super::killed;
use super::lock::lock;
use super::{Answers, Executor, Job};

/// How often an attempt that drags shows that it lives, where its step asks for no more.
const BEAT: Millis = Millis::seconds(1);

/// What an emulated attempt says, and when, counted from its start: heartbeats, then the last word, if it ever says one.
#[derive(Clone, Debug)]
pub struct Script {
    /// The next heartbeat, and the time between two.
    beat: Option<(Millis, Millis)>,
    end: Option<(Millis, Line)>,
}

/// One line of a [`Script`].
#[derive(Clone, Debug)]
pub enum Line {
    /// The attempt says this.
    Says(Says),
    /// The worker of the attempt dies.
    Lost,
}

/// What an attempt says that starts now and is emulated so: a pure function, for real and for virtual time alike.
pub fn script(emulation: &Emulation, job: &Job, now: Time) -> Script {
    play(&emulation.turn(job.attempt.attempt, salt(job.attempt)), job, now)
}

/// What an attempt says that starts now and does this.
pub fn play(turn: &Turn, job: &Job, now: Time) -> Script {
    let complete = || {
        let output = turn.output.clone().unwrap_or_else(|| job.input.clone());
        Line::Says(Says::Complete { output })
    };
    let fail = |cause: &str, fatal: bool| {
        let cause = turn.cause.clone().unwrap_or_else(|| cause.into());
        let error = Error { context: turn.context.clone(), reason: turn.reason, ..Error::new(cause) };
        Line::Says(Says::Fail { error: Box::new(error), fatal })
    };
    let once = |line: Line| Script { beat: None, end: Some((turn.after, line)) };
    match turn.behaviour {
        Behaviour::Pass => once(complete()),
        Behaviour::Stall => once(fail("emulated stall", false)),
        Behaviour::Fail => once(fail("emulated failure", true)),
        Behaviour::Crash => once(crash(turn, job)),
        Behaviour::Drag => {
            let lease = job.step().limits.heartbeat_timeout;
            let every = lease.map_or(BEAT, |lease| Millis((lease.0 / 3).clamp(1, BEAT.0)));
            once(complete()).beating(every)
        }
        Behaviour::Stick => Script { beat: None, end: None },
        Behaviour::Choke => {
            let lacking = turn.cause.clone().unwrap_or_else(|| "emulated lack of resources".into());
            once(Line::Says(Says::Defer { asked: None, lacking: Some(lacking) }))
        }
        Behaviour::Wait { until: WaitUntil::After(span) } => {
            Script { beat: None, end: Some((span, complete())) }
        }
        Behaviour::Wait { until: WaitUntil::At(time) } => {
            Script { beat: None, end: Some((time.since(now), complete())) }
        }
    }
}

/// A worker dies and is lost. A local process ends by a signal: its end is known, so nothing is stuck.
fn crash(turn: &Turn, job: &Job) -> Line {
    match job.step().kind {
        Kind::Process(_) => {
            // The cause that a plan gives is for errors that are reported; nobody reports this one.
            let (context, details) = (turn.context.clone(), killed::details(killed::EMULATED));
            let error = Error { context, details, ..Error::new(killed::cause(killed::EMULATED)) };
            Line::Says(Says::Fail { error: Box::new(error), fatal: false })
        }
        Kind::Action(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => Line::Lost,
    }
}

/// Tells units apart, the same for every attempt of one.
pub fn salt(attempt: AttemptId) -> Salt {
    let item = attempt.unit.item.map_or(0, |item| u64::from(item) + 1);
    let unit = (u64::from(attempt.unit.step.0) << 32) | item;
    let unit = Random::new(unit ^ (u64::from(attempt.generation.saturating_sub(1)) << 48)).draw();
    Salt { unit, run: Random::new(attempt.run.0 ^ unit).draw() }
}

impl Script {
    /// The same, with a sign of life every so often until the last word. What is silent stays so.
    #[must_use]
    pub fn beating(self, every: Millis) -> Script {
        let every = every.max(Millis(1));
        Script { beat: Some((every, every)), ..self }
    }

    /// How long it takes until its last word, if it ever says one.
    pub fn ends_after(&self) -> Option<Millis> {
        self.end.as_ref().map(|(after, _)| *after)
    }
}

impl Iterator for Script {
    type Item = (Millis, Line);

    fn next(&mut self) -> Option<(Millis, Line)> {
        let end = self.end.as_ref().map(|(at, _)| *at)?;
        match &mut self.beat {
            Some((next, every)) if *next < end => {
                let at = *next;
                *next = at.plus(*every);
                Some((at, Line::Says(Says::Heartbeat { progress: None })))
            }
            Some(_) | None => self.end.take(),
        }
    }
}

/// Plays the scripts of emulated steps in real time.
pub struct EmulationExecutor {
    max_load: u32,
    stage: Arc<Stage>,
}

struct Stage {
    alarm: Alarm,
    parts: Mutex<HashMap<AttemptId, Part>>,
}

/// An attempt that is being played. Whoever takes it off the stage says its last word.
struct Part {
    began: Instant,
    cue: Option<(Millis, Line)>,
    script: Script,
    alarm: Option<AlarmId>,
    answers: Answers,
}

impl EmulationExecutor {
    /// Takes so much load at once.
    pub fn new(max_load: u32) -> EmulationExecutor {
        let stage = Arc::new(Stage { alarm: Alarm::new(), parts: Mutex::default() });
        EmulationExecutor { max_load, stage }
    }
}

impl Executor for EmulationExecutor {
    fn name(&self) -> Arc<str> {
        "emulation".into()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        vec![Kind::EMULATION_QUEUE.into()]
    }

    fn max_load(&self) -> u32 {
        self.max_load
    }

    fn execute(&mut self, job: Job, answers: &Answers) {
        let Kind::Emulate(emulation) = &job.step().kind else {
            let error =
                Error::new(format!("step `{}` has no `emulate`: it cannot be emulated", job.step().id));
            return answers.say(job.attempt, Says::Fail { error: Box::new(error), fatal: true });
        };
        let now = Time(jiff::Timestamp::now().as_millisecond());
        let mut script = script(emulation, &job, now);
        let cue = script.next();
        let part = Part { began: Instant::now(), cue, script, alarm: None, answers: answers.clone() };
        lock(&self.stage.parts).insert(job.attempt, part);
        self.stage.go_on(job.attempt);
    }

    fn catch_up(&mut self) {
        let playing: Vec<AttemptId> = lock(&self.stage.parts).keys().copied().collect();
        for attempt in playing {
            self.stage.go_on(attempt);
        }
    }

    fn interrupt(&mut self, attempt: AttemptId, _why: &str) {
        if let Some(part) = self.stage.take(attempt) {
            part.answers.freed(attempt);
        }
    }

    fn stop(&mut self) {
        let playing: Vec<AttemptId> = lock(&self.stage.parts).keys().copied().collect();
        for attempt in playing {
            if let Some(part) = self.stage.take(attempt) {
                part.answers.say(attempt, Says::Release);
            }
        }
    }
}

impl Stage {
    /// Takes an attempt off the stage, if it is still on it.
    fn take(&self, attempt: AttemptId) -> Option<Part> {
        let part = lock(&self.parts).remove(&attempt)?;
        if let Some(alarm) = part.alarm {
            self.alarm.clear(alarm);
        }
        Some(part)
    }

    /// Says what is due, and comes back for what follows.
    fn go_on(self: &Arc<Stage>, attempt: AttemptId) {
        loop {
            let mut parts = lock(&self.parts);
            let Some(part) = parts.get_mut(&attempt) else { return };
            let Some((after, line)) = part.cue.take() else { return };
            let due = due_at(part.began, after);
            if due > Instant::now() {
                part.cue = Some((after, line));
                if let Some(alarm) = part.alarm.take() {
                    self.alarm.clear(alarm);
                }
                let stage = Arc::downgrade(self);
                part.alarm = Some(self.alarm.set(due, move || {
                    if let Some(stage) = stage.upgrade() {
                        stage.go_on(attempt);
                    }
                }));
                return;
            }
            part.cue = part.script.next();
            let answers = part.answers.clone();
            if part.cue.is_none() {
                parts.remove(&attempt);
            }
            // Said before anybody else can look whether there is more to say.
            match line {
                Line::Says(says) => answers.say(attempt, says),
                Line::Lost => answers.lost(attempt),
            }
            drop(parts);
        }
    }
}

/// An instant farther away than the clock can tell is as good as a century.
fn due_at(began: Instant, after: Millis) -> Instant {
    const CENTURY: Duration = Duration::from_hours(100 * 365 * 24);
    began + after.duration().min(CENTURY)
}
