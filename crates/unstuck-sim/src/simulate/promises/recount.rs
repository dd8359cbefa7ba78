//! What a unit has used up and when it was heard of, counted from the events alone: an oracle beside the engine's own.

use unstuck_core::event::UnitFact;
use unstuck_core::model::attempt::{Outcome, ResumedBy, StuckLimit};
use unstuck_core::model::unit::Round;
use unstuck_core::time::{Millis, Time};

use super::dues::Due;

/// What the events of this generation say about one unit. Times are paced.
#[derive(Clone, Debug)]
pub(super) struct Recount {
    /// The round, from 1.
    pub(super) round: u32,
    /// The round that the last manual resume began.
    pub(super) manual: u32,
    /// Attempts of the round that ended with an error.
    pub(super) erred: u32,
    /// Attempts of the round that were stuck, the free ones apart.
    pub(super) stuck: u32,
    /// How often its worker was lost in the round.
    pub(super) losses: u32,
    /// How often it was deferred in the round, and for how long.
    pub(super) deferrals: u32,
    pub(super) deferred: Millis,
    /// The last attempt that ended: when and how.
    pub(super) ended: Option<(Time, Outcome)>,
    /// Since when the attempt is queued.
    pub(super) queued_at: Time,
    /// When it was handed out, or began.
    pub(super) dequeued_at: Time,
    pub(super) started_at: Time,
    /// The last sign of life that is in the history.
    pub(super) heard_at: Time,
    /// What it waits for.
    pub(super) waits: Option<Due>,
}

impl Default for Recount {
    fn default() -> Recount {
        let never = Time(i64::MIN);
        Recount {
            round: 1,
            manual: 1,
            erred: 0,
            stuck: 0,
            losses: 0,
            deferrals: 0,
            deferred: Millis::ZERO,
            ended: None,
            queued_at: never,
            dequeued_at: never,
            started_at: never,
            heard_at: never,
            waits: None,
        }
    }
}

impl Recount {
    /// The rounds since the last manual resume, this one included.
    pub(super) fn rounds(&self) -> u32 {
        self.round - self.manual + 1
    }

    /// Counts one fact.
    pub(super) fn count(&mut self, fact: &UnitFact, at: Time) {
        match fact {
            UnitFact::Queued { .. } => self.queued_at = at,
            UnitFact::Dequeued { .. } => self.dequeued_at = at,
            UnitFact::Started { .. } | UnitFact::ChildStarted { .. } => {
                self.started_at = at;
                self.heard_at = at;
            }
            UnitFact::Progress { .. } => self.heard_at = at,
            UnitFact::Ended { outcome, .. } => self.end(outcome, at),
            UnitFact::Deferred { delay, .. } => {
                self.deferrals += 1;
                self.deferred = self.deferred.plus(*delay);
            }
            UnitFact::Resumed { by, .. } => {
                let round = self.round + 1;
                let manual = if *by == ResumedBy::Operator { round } else { self.manual };
                let ended = self.ended.take();
                *self = Recount { round, manual, ended, ..Recount::default() };
            }
            _ => {}
        }
    }

    fn end(&mut self, outcome: &Outcome, at: Time) {
        match outcome {
            Outcome::Stalled(_) | Outcome::Failed(_) => self.erred += 1,
            Outcome::Stuck(stuck) => {
                self.stuck += u32::from(!stuck.free);
                self.losses += u32::from(stuck.limit == StuckLimit::Gone);
            }
            Outcome::Completed(_) | Outcome::Deferred { .. } | Outcome::Cancelled(_) => {}
        }
        self.ended = Some((at, outcome.clone()));
    }

    /// Where the engine has counted otherwise.
    pub(super) fn differs(&self, round: &Round) -> Option<String> {
        let pairs = [
            ("round", u64::from(self.round), u64::from(round.number)),
            ("last manual round", u64::from(self.manual), u64::from(round.manual)),
            ("errors", u64::from(self.erred), u64::from(round.stalled)),
            ("times stuck", u64::from(self.stuck), u64::from(round.stuck)),
            ("losses", u64::from(self.losses), u64::from(round.losses)),
            ("deferrals", u64::from(self.deferrals), u64::from(round.deferrals)),
            ("time of deferral", self.deferred.0, round.deferred.0),
        ];
        let (what, ours, theirs) = pairs.into_iter().find(|(_, ours, theirs)| ours != theirs)?;
        Some(format!("{what}: the history gives {ours}, and the state says {theirs}"))
    }
}
