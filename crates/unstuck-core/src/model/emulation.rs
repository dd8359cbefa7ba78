//! Emulated steps: every condition that recovery is made for, brought about on purpose.

use std::sync::Arc;

use crate::json::Json;
use crate::model::error::Reason;
use crate::time::{Millis, Time};

/// What an emulated attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Completes.
    Pass,
    /// Reports an error that may pass.
    Stall,
    /// Reports a fatal error.
    Fail,
    /// The worker dies; a local process ends by a signal.
    Crash,
    /// Slow, but alive.
    Drag,
    /// Silent.
    Stick,
    /// Deferred: no resources.
    Choke,
    /// Blocks until the given time, then passes.
    Wait {
        /// When it passes.
        until: WaitUntil,
    },
}

/// The end of an emulated wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// So long after the start of the attempt.
    After(Millis),
    /// At this instant.
    At(Time),
}

impl Behaviour {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Behaviour::Pass => "pass",
            Behaviour::Stall => "stall",
            Behaviour::Fail => "fail",
            Behaviour::Crash => "crash",
            Behaviour::Drag => "drag",
            Behaviour::Stick => "stick",
            Behaviour::Choke => "choke",
            Behaviour::Wait { .. } => "wait",
        }
    }
}

/// What one emulated attempt does and reports.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedAttempt {
    /// What it does.
    pub behaviour: Behaviour,
    /// How long it takes before that shows.
    pub after: Millis,
    /// The cause of `stall` and `fail`, and what is lacking for `choke`; by default a text that says that it is emulated.
    pub cause: Option<Arc<str>>,
    /// The long text of an error.
    pub context: Option<Arc<str>>,
    /// Who is to blame for an error.
    pub reason: Reason,
    /// What `pass`, `drag` and `wait` put out; by default the step's input.
    pub output: Option<Json>,
}

impl EmulatedAttempt {
    /// Builds an attempt that behaves like this at once, with default texts.
    pub fn of(behaviour: Behaviour) -> EmulatedAttempt {
        EmulatedAttempt {
            behaviour,
            after: Millis::ZERO,
            cause: None,
            context: None,
            reason: Reason::default(),
            output: None,
        }
    }
}

/// How an emulated step behaves over its attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulation {
    /// Which behaviour comes when.
    pub plan: EmulationPlan,
    /// How long an attempt takes before its outcome shows.
    pub duration: Millis,
    /// How long one takes that drags.
    pub drag: Millis,
    /// The cause that `stall` and `fail` report.
    pub cause: Option<String>,
    /// What `pass`, `drag` and `wait` put out; by default the step's input.
    pub output: Option<Json>,
}

/// The order of behaviours.
#[derive(Clone, Debug, PartialEq)]
pub enum EmulationPlan {
    /// One per attempt, the last one repeating. Never empty.
    Sequence(Vec<Behaviour>),
    /// At random, with these weights. Never empty, and the sum is above zero.
    Odds {
        /// The weight of each.
        odds: Vec<(Behaviour, f64)>,
        /// Where chance starts: the same seed, the same outcomes in every run. Without one, each run has its own luck.
        seed: Option<u64>,
    },
}

/// Numbers that make the random behaviour of units differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt {
    /// The generation, the step and the item: the same in every run.
    pub unit: u64,
    /// That, and the run.
    pub run: u64,
}

impl Emulation {
    /// Returns what the given attempt does and reports.
    pub fn attempt(&self, attempt: u32, salt: Salt) -> EmulatedAttempt {
        let behaviour = self.behaviour(attempt, salt);
        let (after, cause) = match behaviour {
            Behaviour::Drag => (self.drag, None),
            Behaviour::Stall | Behaviour::Fail => (self.duration, self.cause.as_deref().map(Into::into)),
            Behaviour::Pass
            | Behaviour::Crash
            | Behaviour::Stick
            | Behaviour::Choke
            | Behaviour::Wait { .. } => (self.duration, None),
        };
        EmulatedAttempt { after, cause, output: self.output.clone(), ..EmulatedAttempt::of(behaviour) }
    }

    /// Returns the behaviour of the given attempt: the next of the sequence, or drawn by the odds. The draw depends
    /// only on the seed, the unit and the attempt, so that a replay draws the same.
    pub fn behaviour(&self, attempt: u32, salt: Salt) -> Behaviour {
        match &self.plan {
            EmulationPlan::Sequence(sequence) => {
                let place = (attempt.max(1) as usize - 1).min(sequence.len().saturating_sub(1));
                sequence.get(place).copied().unwrap_or(Behaviour::Pass)
            }
            EmulationPlan::Odds { odds, seed } => {
                let luck = seed.map_or(salt.run, |seed| seed ^ salt.unit);
                let mut random = crate::random::Random::new(luck ^ u64::from(attempt).rotate_left(32));
                let sum: f64 = odds.iter().map(|(_, weight)| weight).sum();
                let mut draw = random.unit() * sum;
                for (behaviour, weight) in odds {
                    if draw < *weight {
                        return *behaviour;
                    }
                    draw -= weight;
                }
                odds.last().map_or(Behaviour::Pass, |(behaviour, _)| *behaviour)
            }
        }
    }
}
