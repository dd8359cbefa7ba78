//! Time as the promises see it: it goes on at its own pace whatever the wall says, and every event has its place in it.
//!
//! An engine goes by the wall, and adds up by how much that was set. What is left when the sum is taken away from what an
//! event says is *paced* time: lengths of time are measured in it. Only over a restart nobody knows how long it took but by
//! the wall.

use std::collections::VecDeque;

use unstuck_core::event::{Event, Fact};
use unstuck_core::id::RunId;
use unstuck_core::time::{Millis, Time};

use super::{Broken, Promise};

/// By so much the wall may differ before somebody has set it.
const SLACK: Millis = Millis::seconds(2);

/// What the clocks of the machine say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The one that anybody sets.
    pub wall: Time,
    /// The one that nobody sets.
    pub uptime: Millis,
}

/// Where nobody sets the clock, both go on together.
impl From<Time> for Moment {
    fn from(now: Time) -> Moment {
        Moment { wall: now, uptime: Millis(now.0.unsigned_abs()) }
    }
}

/// What time an engine must take it to be when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    clock: Time,
    /// What all corrections come to.
    shift: i64,
}

impl Turn {
    fn paced(self) -> Time {
        self.clock.shifted(self.shift.saturating_neg())
    }
}

/// When an engine has decided, and by which clock.
#[derive(Debug)]
pub(super) struct Timeline {
    /// What the clocks said when the wall was last believed.
    anchor: Option<Moment>,
    /// The turns that events may still come from, in order; the last is the present.
    turns: VecDeque<Turn>,
    /// The uptime of the last turn.
    uptime: Millis,
}

impl Timeline {
    /// Before the first engine.
    pub(super) fn new() -> Timeline {
        let turns = VecDeque::from([Turn { clock: Time(i64::MIN), shift: 0 }]);
        Timeline { anchor: None, turns, uptime: Millis::ZERO }
    }

    fn last(&self) -> Turn {
        self.turns.back().copied().unwrap_or(Turn { clock: Time(i64::MIN), shift: 0 })
    }

    /// The present, paced.
    pub(super) fn paced(&self) -> Time {
        self.last().paced()
    }

    /// What the engine takes the time to be.
    pub(super) fn clock(&self) -> Time {
        self.last().clock
    }

    /// What all corrections come to.
    pub(super) fn shift(&self) -> i64 {
        self.last().shift
    }

    /// The paced time at an uptime after the last turn.
    pub(super) fn paced_at(&self, uptime: Millis) -> Time {
        self.paced() + Millis(uptime.0.saturating_sub(self.uptime.0))
    }

    /// An engine wakes up at this moment: it goes by the clock that nobody sets, until the wall is far from it.
    pub(super) fn wake(&mut self, moment: Moment) {
        let Turn { clock, shift } = self.last();
        let anchor = *self.anchor.get_or_insert(moment);
        let expected = anchor.wall + Millis(moment.uptime.0.saturating_sub(anchor.uptime.0));
        let is_far = moment.wall.since(expected) > SLACK || expected.since(moment.wall) > SLACK;
        let now = if is_far { moment.wall } else { expected };
        // Behind what was recorded by no more than that, it is waited for.
        let from = expected.max(clock);
        let is_set = is_far || from.since(now) > SLACK;
        if is_far {
            self.anchor = Some(moment);
        }
        let turn = if is_set {
            Turn { clock: now, shift: shift.saturating_add(now.0.saturating_sub(from.0)) }
        } else {
            Turn { clock: from, shift }
        };
        self.uptime = moment.uptime;
        if turn != self.last() {
            self.turns.push_back(turn);
        }
    }

    /// Everything that was decided is durable.
    pub(super) fn all_durable(&mut self) {
        let surplus = self.turns.len().saturating_sub(1);
        self.turns.drain(..surplus);
    }

    /// An engine died then, and all that became durable is known. Another one opens the store, which knows of corrections that
    /// come to `shift`, and was last alive at `seen`.
    pub(super) fn reopen(
        &mut self,
        died: Time,
        shift: i64,
        seen: Option<Time>,
        moment: Moment,
    ) -> Result<(), Broken> {
        if !self.turns.iter().any(|turn| turn.shift == shift) {
            let known: Vec<i64> = self.turns.iter().map(|turn| turn.shift).collect();
            let what = format!(
                "the store knows that the clock was set by {shift} ms, and it was by one of {known:?}"
            );
            return Err(Broken { promise: Promise::Time, run: None, what });
        }
        let clock = seen.unwrap_or(Time(i64::MIN));
        if (Turn { clock, shift }).paced() > died {
            let what = format!("the store says that an engine was alive at {clock}, and it had died before");
            return Err(Broken { promise: Promise::Time, run: None, what });
        }
        self.anchor = Some(moment);
        self.turns = VecDeque::from([Turn { clock, shift }]);
        self.uptime = moment.uptime;
        Ok(())
    }

    /// The place of an event, whose run has taken in corrections that come to `clock`: it was decided at a turn, after
    /// every event that became durable before. Gives its paced time.
    pub(super) fn place(
        &mut self,
        run: RunId,
        event: &Event,
        clock: i64,
        is_ordered: bool,
    ) -> Result<Time, Broken> {
        let turn = Turn { clock: event.time(), shift: clock };
        let Some(place) = self.turns.iter().position(|known| *known == turn) else {
            let what = format!(
                "event {} is of {} by a clock that was set by {clock} ms: the engine has decided nothing then; {:?}",
                event.seq,
                event.time(),
                self.turns.iter().map(|turn| (turn.clock.to_string(), turn.shift)).collect::<Vec<_>>()
            );
            return Err(Broken::of(Promise::Time, run, what));
        };
        if is_ordered {
            self.turns.drain(..place);
        }
        Ok(turn.paced())
    }
}

/// What a run has taken in of corrections of the clock, after an event.
pub(super) fn clock_after(before: i64, event: &Event) -> i64 {
    event.facts.iter().fold(before, |clock, fact| match fact {
        Fact::Started(started) => started.clock,
        Fact::Reran { clock, .. } => *clock,
        Fact::ClockCorrected { by } => clock.saturating_add(*by),
        _ => clock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Time = Time(1_800_000_000_000);
    const YEAR: i64 = 365 * 24 * 3_600_000;

    #[test]
    fn paced_time_goes_on_whatever_the_wall_says() {
        for by in [0, 1_500, -1_500, 40_000, -40_000, 4 * YEAR, -4 * YEAR] {
            let mut timeline = Timeline::new();
            let at = |up: u64, by: i64| Moment { wall: (BEGIN + Millis(up)).shifted(by), uptime: Millis(up) };
            for (up, by) in [(0, 0), (1_000, 0), (2_000, by), (3_000, by), (4_000, 0)] {
                timeline.wake(at(up, by));
                assert_eq!(timeline.paced(), BEGIN + Millis(up), "by {by} after {up}");
            }
            assert_eq!(timeline.clock(), BEGIN + Millis(4_000));
        }
    }

    #[test]
    fn over_a_restart_time_goes_on_by_the_wall_and_never_back() {
        // By how much the wall is set while nobody is there for a minute, and how much has passed.
        for (by, passed) in [(0, 60_000), (40_000, 100_000), (-40_000, 20_000), (-90_000, 0), (-4 * YEAR, 0)]
        {
            let mut timeline = Timeline::new();
            timeline.wake(Moment { wall: BEGIN, uptime: Millis(0) });
            let wall = (BEGIN + Millis(60_000)).shifted(by);
            let moment = Moment { wall, uptime: Millis(60_000) };
            timeline.reopen(BEGIN, 0, Some(BEGIN), moment).expect("nothing is wrong");
            timeline.wake(moment);
            assert_eq!(timeline.paced(), BEGIN + Millis(passed), "by {by}");
        }
    }
}
