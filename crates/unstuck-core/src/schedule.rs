//! Schedules: what is kept of each flow that is started by the clock, and what is decided about it. Its times are those of
//! the newest version of its flow, which is given to each decision.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::Answer;
use crate::event::Actor;
use crate::id::{RunId, ScheduleId};
use crate::model::schedule::{Overlap, ScheduleSpec};
use crate::time::{Millis, Time};

/// A time that passed less than this ago was not missed, whatever is made up for.
pub const GRACE: Millis = Millis::minutes(1);
/// Runs that a queued time waits for are looked at again after this.
pub const RECHECK: Millis = Millis::seconds(2);
/// A flow that cannot be used, or a run that cannot be started, is tried again after this.
pub const RETRY: Millis = Millis::minutes(1);
/// So many runs that have not ended are remembered.
const MAX_ACTIVE: usize = 100;
/// Times that passed longer ago are not counted one by one: the clock may have stood years ahead.
const COUNTED: Millis = Millis::hours(24 * 400);

/// The schedule of one flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Made of the id of the first version of its flow, so that every server knows it without asking.
    pub id: ScheduleId,
    /// The name of the flow.
    pub flow: Arc<str>,
    /// Its timing as text: what the next time was computed from.
    pub timing: Arc<str>,
    /// The first time that has not been dealt with; none at the end of the calendar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Time>,
    /// Not looked at before this, although the next time has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<SchedulePause>,
    /// The last run that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Firing>,
    /// The runs that had not ended when last looked at, unless overlap is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<RunId>,
    #[serde(default)]
    pub counts: ScheduleCounts,
    /// Why the last time came to nothing, where that was no intention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Arc<str>>,
    /// Whether its flow is gone, or is started by the clock no more: then so is this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
}

/// Who has paused a schedule, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePause {
    pub by: Actor,
    pub at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// One run of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Firing {
    /// The time that it was for.
    pub at: Time,
    pub run: RunId,
}

/// What has become of the times of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduleCounts {
    pub fired: u64,
    /// Passed while no server was there, and not made up for.
    pub missed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_missed: Option<Time>,
    /// Left out because an earlier run had not ended.
    pub skipped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_skipped: Option<Time>,
}

/// Times of a schedule that have come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// So many passed while no server was there, or their run could not be started.
    Missed { count: u64, last: Option<Time> },
    /// So many came while an earlier run had not ended.
    Skipped { count: u64, last: Option<Time> },
}

/// What somebody does to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleCommand {
    Pause {
        by: Actor,
        reason: Option<Arc<str>>,
    },
    /// It goes on with the next time from now: what passed meanwhile is not made up for.
    Unpause,
    /// Starts a run now, also while it is paused and whatever has not ended.
    Fire {
        by: Actor,
    },
}

/// What the key of a run begins with that the clock has started.
pub const FIRING_PREFIX: &str = "schedule:";

/// The key of the run for one time, which is why there is only one.
pub fn firing_key(at: Time) -> Arc<str> {
    format!("{FIRING_PREFIX}{}", at.timestamp()).into()
}

impl Schedule {
    /// A schedule that begins at `now`.
    pub fn new(id: ScheduleId, flow: Arc<str>, spec: &ScheduleSpec, now: Time) -> Schedule {
        Schedule {
            id,
            flow,
            timing: spec.timing.to_string().into(),
            next: spec.next(now),
            wait: None,
            paused: None,
            last: None,
            active: Vec::new(),
            counts: ScheduleCounts::default(),
            problem: None,
            is_removed: false,
        }
    }

    /// When it is to be looked at by the clock.
    pub fn due(&self) -> Option<Time> {
        if self.is_removed || self.paused.is_some() {
            return None;
        }
        self.next.map(|next| self.wait.map_or(next, |wait| wait.max(next)))
    }

    /// Follows the newest version of its flow: with other times it goes on from `now`, and without any it is removed. Takes in
    /// also that the clock was set back: a next time by a clock that stood ahead would come much too late.
    pub fn follow(&mut self, spec: Option<&ScheduleSpec>, now: Time) {
        let Some(spec) = spec else {
            self.is_removed = true;
            return;
        };
        let timing = spec.timing.to_string();
        let next = spec.next(now);
        if *self.timing != *timing {
            self.timing = timing.into();
            (self.next, self.wait, self.problem) = (next, None, None);
        }
        if self.next.is_none_or(|known| next.is_some_and(|next| next < known)) {
            self.next = next;
        }
        self.wait = self.wait.filter(|wait| *wait <= now + RETRY);
    }

    /// What is to be done now that a time has passed. `is_open` says of runs whether they have not ended. Gives the time for
    /// which a run is to be started, if any: one at a time, and [`Schedule::record_fired`] says that it was.
    pub fn take_due(
        &mut self,
        spec: &ScheduleSpec,
        mut is_open: impl FnMut(RunId) -> bool,
        now: Time,
    ) -> Option<Time> {
        let next = self.next.filter(|_| self.due().is_some_and(|due| due <= now))?;
        self.wait = None;
        self.active.retain(|run| is_open(*run));
        let kept = self.drop_missed(spec, next, now);
        let after = spec.next(now);
        let Some(first) = kept.first().copied() else {
            self.next = after;
            return None;
        };
        match spec.overlap {
            Overlap::Skip if !self.active.is_empty() => {
                self.counts.skipped = self.counts.skipped.saturating_add(kept.len() as u64);
                self.counts.last_skipped = kept.last().copied();
                self.next = after;
                None
            }
            Overlap::Queue if !self.active.is_empty() => {
                self.next = Some(first);
                self.wait = Some(now + RECHECK);
                None
            }
            Overlap::Skip | Overlap::Queue | Overlap::Allow => {
                self.next = kept.get(1).copied().or(after);
                Some(first)
            }
        }
    }

    /// Counts the times from `next` to `now` that are not made up for, and gives those that are.
    fn drop_missed(&mut self, spec: &ScheduleSpec, next: Time, now: Time) -> Vec<Time> {
        // What is counted begins right before the next time, or as far back as times are counted at all.
        let from = Time(next.0.saturating_sub(1)).max(now.back(COUNTED));
        let limit = spec.catch_up.limit.max(1) as usize;
        let mut kept = std::collections::VecDeque::new();
        for at in spec.times(from).take_while(|at| *at <= now) {
            kept.push_back(at);
            if kept.len() > limit {
                self.count_missed(kept.pop_front());
            }
        }
        let longest = match (spec.catch_up.limit, spec.catch_up.within) {
            (0, _) => Some(GRACE),
            (_, within) => within.map(|within| within.max(GRACE)),
        };
        while let Some(first) = kept.front().copied()
            && longest.is_some_and(|longest| now.since(first) > longest)
        {
            self.count_missed(kept.pop_front());
        }
        kept.into()
    }

    fn count_missed(&mut self, at: Option<Time>) {
        self.counts.missed = self.counts.missed.saturating_add(1);
        self.counts.last_missed = at.or(self.counts.last_missed);
    }

    /// A run was started for a time, or was there already under its key.
    pub fn record_fired(&mut self, spec: &ScheduleSpec, firing: Firing, is_new: bool) {
        self.problem = None;
        self.last = Some(firing);
        if !is_new {
            return;
        }
        self.counts.fired = self.counts.fired.saturating_add(1);
        if spec.overlap != Overlap::Allow {
            if self.active.len() == MAX_ACTIVE {
                self.active.remove(0);
            }
            self.active.push(firing.run);
        }
    }

    /// The run for a time was refused: the next one is tried at its time.
    pub fn record_refused(&mut self, at: Time, why: Arc<str>) {
        self.count_missed(Some(at));
        self.problem = Some(why);
    }

    /// Lists the times that have come to nothing since it was as `before`.
    pub fn left_out_since(&self, before: &Schedule) -> Vec<LeftOut> {
        let (was, is) = (before.counts, self.counts);
        let missed = is.missed.saturating_sub(was.missed);
        let skipped = is.skipped.saturating_sub(was.skipped);
        let missed = (missed > 0).then_some(LeftOut::Missed { count: missed, last: is.last_missed });
        let skipped = (skipped > 0).then_some(LeftOut::Skipped { count: skipped, last: is.last_skipped });
        missed.into_iter().chain(skipped).collect()
    }

    /// Its flow cannot be used now: the time that has passed waits until that is tried again.
    pub fn postpone(&mut self, why: Arc<str>, now: Time) {
        self.wait = Some(now + RETRY);
        self.problem = Some(why);
    }

    /// Somebody pauses it.
    pub fn pause(&mut self, by: Actor, reason: Option<Arc<str>>, now: Time) -> Answer {
        if self.paused.is_some() {
            return Answer::Already;
        }
        self.paused = Some(SchedulePause { by, at: now, reason });
        Answer::Done
    }

    /// Somebody lets it go on, with the next time from `now`.
    pub fn unpause(&mut self, spec: &ScheduleSpec, now: Time) -> Answer {
        if self.paused.take().is_none() {
            return Answer::Already;
        }
        (self.next, self.wait) = (spec.next(now), None);
        Answer::Done
    }
}
