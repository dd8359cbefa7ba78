//! The executor of emulated steps: brings about, on purpose, what recovery is made for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::emulation::{Behaviour, EmulatedAttempt, Emulation, Salt, WaitUntil};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::Kind;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};

use super::alarm::{Alarm, AlarmId};
use super::http;
use super::killed;
use super::lock;
use super::{Executor, Job, ReportSink};

/// How often an attempt that drags shows that it lives, where its step asks for no more.
const BEAT: Millis = Millis::seconds(1);

/// What an emulated attempt says, and when, counted from its start: heartbeats, then the last word, if it ever says one.
#[derive(Clone, Debug)]
pub struct Script {
    /// The next heartbeat, and the time between two.
    beat: Option<(Millis, Millis)>,
    end: Option<(Millis, ScriptLine)>,
}

/// One line of a [`Script`].
#[derive(Clone, Debug)]
pub enum ScriptLine {
    /// The attempt says this.
    Report(Report),
    /// The worker of the attempt dies.
    Lost,
}

/// What an attempt says that starts now and is emulated so: a pure function, for real and for virtual time alike.
pub fn script(emulation: &Emulation, job: &Job, now: Time) -> Script {
    script_of_attempt(&emulation.attempt(job.attempt.attempt, salt(job.attempt)), job, now)
}

/// What an attempt says that starts now and does this.
pub fn script_of_attempt(turn: &EmulatedAttempt, job: &Job, now: Time) -> Script {
    let complete = || {
        let output = turn.output.clone().unwrap_or_else(|| emulated_output(job));
        ScriptLine::Report(Report::Complete { output })
    };
    let fail = |cause: &str, fatal: bool| {
        let cause = turn.cause.clone().unwrap_or_else(|| cause.into());
        let error = Error { context: turn.context.clone(), reason: turn.reason, ..Error::new(cause) };
        ScriptLine::Report(Report::Fail { error: Box::new(error), fatal })
    };
    let once = |line: ScriptLine| Script { beat: None, end: Some((turn.after, line)) };
    match turn.behaviour {
        Behaviour::Pass => once(complete()),
        Behaviour::Stall => once(fail("emulated stall", false)),
        Behaviour::Fail => once(fail("emulated failure", true)),
        Behaviour::Crash => once(crash(turn, job)),
        Behaviour::Drag => {
            let lease = job.step().limits.heartbeat_timeout;
            let every = lease.map_or(BEAT, |lease| Millis((lease.0 / 3).clamp(1, BEAT.0)));
            once(complete()).with_heartbeats(every)
        }
        Behaviour::Stick => Script { beat: None, end: None },
        Behaviour::Choke => {
            let lacking = turn.cause.clone().unwrap_or_else(|| "emulated lack of resources".into());
            once(ScriptLine::Report(Report::Defer { asked: None, lacking: Some(lacking) }))
        }
        Behaviour::Wait { until: WaitUntil::After(span) } => {
            Script { beat: None, end: Some((span, complete())) }
        }
        Behaviour::Wait { until: WaitUntil::At(time) } => {
            Script { beat: None, end: Some((time.since(now), complete())) }
        }
    }
}

/// What an attempt puts out where nobody says: its input, or an empty response to a request.
fn emulated_output(job: &Job) -> Json {
    match job.step().kind {
        Kind::Http(_) => http::empty_response(),
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => job.input.clone(),
    }
}

/// A worker dies and is lost. A local process ends by a signal: its end is known, so nothing is stuck.
fn crash(turn: &EmulatedAttempt, job: &Job) -> ScriptLine {
    match job.step().kind {
        Kind::Process(_) => {
            // The cause that a plan gives is for errors that are reported; nobody reports this one.
            let (context, details) = (turn.context.clone(), killed::details(killed::EMULATED));
            let error = Error { context, details, ..Error::new(killed::cause(killed::EMULATED)) };
            ScriptLine::Report(Report::Fail { error: Box::new(error), fatal: false })
        }
        // Whoever answers has died.
        Kind::Http(_) => {
            let error = Error { context: turn.context.clone(), ..Error::new(http::CLOSED_EARLY) };
            ScriptLine::Report(Report::Fail { error: Box::new(error), fatal: false })
        }
        Kind::Action(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Signal(_)
        | Kind::Set(_)
        | Kind::Emulate(_) => ScriptLine::Lost,
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
    pub fn with_heartbeats(self, every: Millis) -> Script {
        let every = every.max(Millis(1));
        Script { beat: Some((every, every)), ..self }
    }

    /// How long it takes until its last word, if it ever says one.
    pub fn ends_after(&self) -> Option<Millis> {
        self.end.as_ref().map(|(after, _)| *after)
    }
}

impl Iterator for Script {
    type Item = (Millis, ScriptLine);

    fn next(&mut self) -> Option<(Millis, ScriptLine)> {
        let end = self.end.as_ref().map(|(at, _)| *at)?;
        match &mut self.beat {
            Some((next, every)) if *next < end => {
                let at = *next;
                *next = at.plus(*every);
                Some((at, ScriptLine::Report(Report::Heartbeat { progress: None })))
            }
            Some(_) | None => self.end.take(),
        }
    }
}

/// Plays the scripts of emulated steps in real time.
pub struct EmulationExecutor {
    max_load: u32,
    stage: Arc<EmulatedAttempts>,
}

struct EmulatedAttempts {
    alarm: Alarm,
    parts: Mutex<HashMap<AttemptId, RunningScript>>,
}

/// An attempt that is being played. Whoever takes it off the stage says its last word.
struct RunningScript {
    began: Instant,
    cue: Option<(Millis, ScriptLine)>,
    script: Script,
    alarm: Option<AlarmId>,
    answers: ReportSink,
}

impl EmulationExecutor {
    /// Takes so much load at once.
    pub fn new(max_load: u32) -> EmulationExecutor {
        let stage = Arc::new(EmulatedAttempts { alarm: Alarm::new(), parts: Mutex::default() });
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

    fn execute(&mut self, job: Job, answers: &ReportSink) {
        let Kind::Emulate(emulation) = &job.step().kind else {
            let error =
                Error::new(format!("step `{}` has no `emulate`: it cannot be emulated", job.step().id));
            return answers.report(job.attempt, Report::Fail { error: Box::new(error), fatal: true });
        };
        let now = Time(jiff::Timestamp::now().as_millisecond());
        let mut script = script(emulation, &job, now);
        let cue = script.next();
        let part =
            RunningScript { began: Instant::now(), cue, script, alarm: None, answers: answers.clone() };
        lock(&self.stage.parts).insert(job.attempt, part);
        self.stage.say_next_line(job.attempt);
    }

    fn catch_up(&mut self) {
        let playing: Vec<AttemptId> = lock(&self.stage.parts).keys().copied().collect();
        for attempt in playing {
            self.stage.say_next_line(attempt);
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
                part.answers.report(attempt, Report::Release);
            }
        }
    }
}

impl EmulatedAttempts {
    /// Takes an attempt off the stage, if it is still on it.
    fn take(&self, attempt: AttemptId) -> Option<RunningScript> {
        let part = lock(&self.parts).remove(&attempt)?;
        if let Some(alarm) = part.alarm {
            self.alarm.clear(alarm);
        }
        Some(part)
    }

    /// Says what is due, and comes back for what follows.
    fn say_next_line(self: &Arc<EmulatedAttempts>, attempt: AttemptId) {
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
                        stage.say_next_line(attempt);
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
                ScriptLine::Report(says) => answers.report(attempt, says),
                ScriptLine::Lost => answers.lost(attempt),
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
