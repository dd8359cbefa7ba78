//! What a flow says about when its runs are started: the times, what is done when they overlap, and what is made up for.

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::json::Json;
use crate::model::cron::{Cron, CronTimes};
use crate::time::{Millis, Time};

/// Intervals are no shorter.
pub const SHORTEST_INTERVAL: Millis = Millis::seconds(1);
/// At most so many missed times are made up for.
pub const MAX_CATCH_UP: u32 = 100;

/// The schedule of a flow, compiled with it.
#[derive(Clone, Debug)]
pub struct ScheduleSpec {
    pub timing: Timing,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// The input of the runs.
    pub input: Json,
}

/// When runs are started.
#[derive(Clone, Debug)]
pub enum Timing {
    Cron {
        cron: Cron,
        /// The zone, as it was written.
        zone: Arc<str>,
        /// What the clocks there do.
        rules: TimeZone,
    },
    /// At every multiple of this since 1970, so that all servers agree and a restart changes nothing.
    Every(Millis),
}

/// What is done at a time when a run of an earlier time has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// No run is started for this time. The default: a slow run never piles up others behind it.
    #[default]
    Skip,
    /// The run is started when the others have ended.
    Queue,
    /// The run is started.
    Allow,
}

impl Overlap {
    /// The word for it in files and documents.
    pub fn word(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::Allow => "allow",
        }
    }
}

/// Which of the times that passed without a run are made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// So many at most: the latest ones.
    pub limit: u32,
    /// Only those that passed no longer ago than this.
    pub within: Option<Millis>,
}

impl Default for CatchUp {
    fn default() -> CatchUp {
        CatchUp { limit: 1, within: None }
    }
}

impl ScheduleSpec {
    /// Lists the times after `after`, in order.
    pub fn times(&self, after: Time) -> ScheduleTimes {
        match &self.timing {
            Timing::Cron { cron, rules, .. } => ScheduleTimes::Cron(cron.times(after, rules)),
            Timing::Every(every) => ScheduleTimes::Every { last: after, every: *every },
        }
    }

    /// Returns the first time after `after`. None at the end of the calendar.
    pub fn next(&self, after: Time) -> Option<Time> {
        self.times(after).next()
    }
}

/// As people read it: `0 3 * * * Europe/Berlin`, or `every 15m`. Two with the same text have the same times.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timing::Cron { cron, zone, .. } => write!(f, "{cron} {zone}"),
            Timing::Every(every) => {
                // All of it, where a length of time for people has two units only.
                let seconds = every.0 / 1_000;
                match seconds {
                    _ if !every.0.is_multiple_of(1_000) => write!(f, "every {}ms", every.0),
                    _ if seconds.is_multiple_of(86_400) => write!(f, "every {}d", seconds / 86_400),
                    _ if seconds.is_multiple_of(3_600) => write!(f, "every {}h", seconds / 3_600),
                    _ if seconds.is_multiple_of(60) => write!(f, "every {}m", seconds / 60),
                    _ => write!(f, "every {seconds}s"),
                }
            }
        }
    }
}

/// The times of a schedule, in order.
#[derive(Clone, Debug)]
pub enum ScheduleTimes {
    Cron(CronTimes),
    Every { last: Time, every: Millis },
}

impl Iterator for ScheduleTimes {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        match self {
            ScheduleTimes::Cron(times) => times.next(),
            ScheduleTimes::Every { last, every } => {
                let every = i64::try_from(every.0).ok().filter(|every| *every > 0)?;
                let next = last.0.div_euclid(every).checked_add(1)?.checked_mul(every)?;
                *last = Time(next);
                Some(Time(next))
            }
        }
    }
}
