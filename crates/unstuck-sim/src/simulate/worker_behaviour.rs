//! What a worker does with an attempt: it follows from the seed and the attempt alone, so that leaving something else out of
//! a plan does not change it.

use std::sync::{Arc, OnceLock};

use unstuck_core::command::Report;
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::emulation::{Behaviour, Salt};
use unstuck_core::model::error::{Error, Reason};
use unstuck_core::model::flow::Kind;
use unstuck_core::time::Millis;
use unstuck_engine::executor::Job;

use crate::simulate::chance::Chance;
use crate::simulate::plan::policies::CAUSES;

/// What a worker does with one attempt.
#[derive(Clone, Debug)]
pub(crate) struct WorkerBehaviour {
    /// How long it takes to begin.
    pub(crate) begins: Millis,
    /// How long it works.
    pub(crate) works: Millis,
    /// What comes of it.
    pub(crate) ending: Ending,
    /// Whether it gives signs of life.
    pub(crate) beats: bool,
    /// Whether it goes on when it is told to stop, and answers all the same.
    pub(crate) is_stubborn: bool,
}

/// What comes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It completes.
    Pass,
    /// It completes with more than is allowed.
    TooLarge,
    /// An error that may pass.
    Stall,
    /// A fatal one.
    Fail,
    /// Resources are lacking.
    Defer,
    /// It is given back.
    Release,
    /// What carries it out dies.
    Gone,
    /// Nothing, ever.
    Silent,
}

impl WorkerBehaviour {
    /// What a worker does while faults happen.
    pub(crate) fn of(seed: u64, job: &Job) -> WorkerBehaviour {
        let mut chance = chance(seed, job.attempt, 1);
        let works = match chance.between(0, 9) {
            0..=2 => 0,
            3..=6 => chance.between(1, 2_000),
            7..=8 => chance.between(2_000, 20_000),
            _ => chance.between(20_000, 70_000),
        };
        let ending = match &job.step().kind {
            Kind::Emulate(emulation) => {
                let luck = job.attempt.run.0 ^ seed;
                emulated(emulation.behaviour(job.attempt.attempt, Salt { unit: luck, run: luck }))
            }
            _ => chance.weighed(&[
                (2_600, Ending::Pass),
                (900, Ending::Stall),
                (350, Ending::Fail),
                (350, Ending::Defer),
                (100, Ending::Release),
                (250, Ending::Gone),
                (400, Ending::Silent),
                (10, Ending::TooLarge),
            ]),
        };
        WorkerBehaviour {
            begins: Millis(if chance.percent(70) {
                chance.between(0, 50)
            } else {
                chance.between(50, 6_000)
            }),
            works: Millis(works),
            ending,
            beats: ending != Ending::Silent && chance.percent(90),
            is_stubborn: chance.percent(30),
        }
    }

    /// What a worker does once faults have stopped.
    pub(crate) fn good() -> WorkerBehaviour {
        let (begins, works) = (Millis(1), Millis(10));
        WorkerBehaviour { begins, works, ending: Ending::Pass, beats: true, is_stubborn: false }
    }

    /// The last thing that it says, if it says anything.
    pub(crate) fn last_report(&self, seed: u64, attempt: AttemptId) -> Option<Report> {
        let mut chance = chance(seed, attempt, 2);
        let error = |chance: &mut Chance| {
            let reason = if chance.percent(25) { Reason::Data } else { Reason::Processing };
            let context = chance.percent(20).then(|| Arc::from("it began well. ".repeat(20)));
            Box::new(Error { reason, context, ..Error::new(*chance.one(&CAUSES)) })
        };
        match self.ending {
            Ending::Pass => Some(Report::Complete { output: output(&mut chance) }),
            Ending::TooLarge => Some(Report::Complete { output: too_large() }),
            Ending::Stall => Some(Report::Fail { error: error(&mut chance), fatal: false }),
            Ending::Fail => Some(Report::Fail { error: error(&mut chance), fatal: true }),
            Ending::Defer => {
                let asked = chance.percent(50).then(|| Millis(chance.between(0, 30_000)));
                Some(Report::Defer { asked, lacking: chance.percent(50).then(|| "licences".into()) })
            }
            Ending::Release => Some(Report::Release),
            Ending::Gone | Ending::Silent => None,
        }
    }
}

/// What a network does to one letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It arrives, and so does the reply.
    Good,
    /// It is lost.
    Lost,
    /// It arrives, and the reply is lost.
    ReplyLost,
    /// It arrives much later.
    Late,
    /// It arrives twice.
    Twice,
    /// It arrives, and once more long after.
    Again,
}

impl Delivery {
    /// What happens to the letter of this number about an attempt, at this try.
    pub(crate) fn of(seed: u64, attempt: AttemptId, letter: u64, tries: u64) -> Delivery {
        chance(seed, attempt, 100 + letter * 1_000 + tries).weighed(&[
            (70, Delivery::Good),
            (8, Delivery::Lost),
            (7, Delivery::ReplyLost),
            (6, Delivery::Late),
            (5, Delivery::Twice),
            (4, Delivery::Again),
        ])
    }
}

/// What is too large for anything.
pub(crate) fn too_large() -> Json {
    static TEXT: OnceLock<Json> = OnceLock::new();
    let text = || Json::parse(&format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES))).unwrap_or_default();
    TEXT.get_or_init(text).clone()
}

/// The input of a run or step, of a few.
pub(crate) fn input(which: u64) -> Json {
    let text = match which {
        0 => r#"{"n":2,"go":true,"items":[1,2,3]}"#.to_owned(),
        1 => r#"{"n":1,"go":false,"items":[]}"#.to_owned(),
        2 => format!(r#"{{"n":3,"go":true,"items":["a"],"more":"{}"}}"#, "long ".repeat(60)),
        _ => r#"{"n":"three"}"#.to_owned(),
    };
    Json::parse(&text).unwrap_or_default()
}

fn output(chance: &mut Chance) -> Json {
    let text = match chance.between(0, 4) {
        0 => "null".to_owned(),
        1 => format!(r#"{{"text":"{}"}}"#, "long ".repeat(40)),
        2 => "[1,2]".to_owned(),
        _ => format!(r#"{{"n":{}}}"#, chance.between(0, 9)),
    };
    Json::parse(&text).unwrap_or_default()
}

fn chance(seed: u64, attempt: AttemptId, about: u64) -> Chance {
    let AttemptId { run, generation, unit, attempt } = attempt;
    let item = unit.item.map_or(0, |item| u64::from(item) + 1);
    let name = [about, run.0, u64::from(generation), u64::from(unit.step.0), item, u64::from(attempt)];
    Chance::of(seed, &name)
}

fn emulated(behaviour: Behaviour) -> Ending {
    match behaviour {
        Behaviour::Pass | Behaviour::Drag | Behaviour::Wait { .. } => Ending::Pass,
        Behaviour::Stall => Ending::Stall,
        Behaviour::Fail => Ending::Fail,
        Behaviour::Crash => Ending::Gone,
        Behaviour::Stick => Ending::Silent,
        Behaviour::Choke => Ending::Defer,
    }
}
