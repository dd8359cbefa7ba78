//! What time it is, whether somebody has set the clock, and whether the engine was stopped for a while.

use unstuck_core::clock::ClockCorrection;
use unstuck_core::time::{Millis, Time};

/// The clocks of a machine.
pub trait TimeSource: Send {
    /// The clock on the wall, which anybody may set.
    fn wall(&mut self) -> Time;

    /// A clock that nobody sets: it goes on while the machine is suspended, and means nothing after the next boot.
    fn uptime(&mut self) -> Millis;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTime;

impl TimeSource for SystemTime {
    fn wall(&mut self) -> Time {
        Time(jiff::Timestamp::now().as_millisecond())
    }

    fn uptime(&mut self) -> Millis {
        // The monotonic clock of Linux stands still while the machine is suspended; elsewhere it does not.
        #[cfg(target_os = "linux")]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(CLOCK);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        Millis::seconds(seconds.unwrap_or(0)).plus(Millis(nanos.unwrap_or(0) / 1_000_000))
    }
}

/// Tells the time to an engine, and whether answers were taken all the while.
///
/// Time is anchored at the wall and goes on by the clock that never jumps. When the two are further apart than
/// [`EngineTimer::SLACK`], somebody has set the clock: that is a correction, and the wall is right from then on.
#[derive(Debug)]
pub struct EngineTimer<T> {
    source: T,
    /// What the wall said, and when.
    wall: Time,
    since: Millis,
    /// When answers were last taken, and how long the engine meant to sleep from then on.
    taken: Millis,
    patience: Millis,
}

/// What is known on waking up, before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// What time it is.
    pub now: Time,
    /// Somebody has set the clock.
    pub correction: Option<ClockCorrection>,
    /// Nobody has taken answers since then, by the clock as it is now: whoever works here is asked what has ended
    /// before any limit is looked at.
    pub down_since: Option<Time>,
}

impl<T: TimeSource> EngineTimer<T> {
    /// The wall may differ by so much before it is believed that somebody has set it.
    pub const SLACK: Millis = Millis::seconds(2);
    /// Who does not come back for so long, though nothing keeps it asleep, was stopped or had to wait for a disk.
    /// Shorter than the shortest sensible lease, and longer than a busy machine lets anybody wait.
    pub const LATE: Millis = Millis(500);
    /// How long an engine sleeps at most while somebody works for it: so much of a stop may go unnoticed.
    pub const TICK: Millis = Millis(500);
    /// How long it sleeps at most while something is due some day.
    pub const SIGN_OF_LIFE: Millis = Millis::seconds(10);

    /// From now on.
    pub fn new(mut source: T) -> EngineTimer<T> {
        let (wall, since) = (source.wall(), source.uptime());
        EngineTimer { source, wall, since, taken: since, patience: Millis::ZERO }
    }

    /// What time it is.
    pub fn now(&mut self) -> Time {
        let uptime = self.source.uptime();
        self.at(uptime)
    }

    /// The clock that nobody sets, for lengths of time.
    pub fn uptime(&mut self) -> Millis {
        self.source.uptime()
    }

    /// Answers are about to be taken.
    pub fn wake(&mut self) -> Wake {
        let (uptime, wall) = (self.source.uptime(), self.source.wall());
        let expected = self.at(uptime);
        let is_set = wall.since(expected) > Self::SLACK || expected.since(wall) > Self::SLACK;
        let correction = is_set.then_some(ClockCorrection { from: expected, to: wall });
        if is_set {
            (self.wall, self.since) = (wall, uptime);
        }
        let now = self.at(uptime);
        let gap = Millis(uptime.0.saturating_sub(self.taken.0));
        let is_late = gap > self.patience.plus(Self::LATE);
        (self.taken, self.patience) = (uptime, Millis::ZERO);
        Wake { now, correction, down_since: is_late.then(|| now.back(gap)) }
    }

    /// The engine sleeps until then, or until somebody wakes it, and takes answers all the while. Gives for how long: less
    /// if it `is_awaited` by somebody who works for it, so that a stop in the middle is noticed.
    pub fn sleep(&mut self, until: Option<Time>, is_awaited: bool) -> Option<Millis> {
        let now = self.now();
        let longest = if is_awaited { Self::TICK } else { Self::SIGN_OF_LIFE };
        let patience = until.map(|until| until.since(now).min(longest));
        // What was left of the batch until now was no sleep.
        let busy = Millis(self.source.uptime().0.saturating_sub(self.taken.0));
        self.patience = patience.map_or(Millis(u64::MAX), |patience| patience.plus(busy.min(Self::LATE)));
        patience
    }

    fn at(&self, uptime: Millis) -> Time {
        self.wall + Millis(uptime.0.saturating_sub(self.since.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Time = Time(1_800_000_000_000);
    const YEAR: i64 = 365 * 24 * 3_600_000;

    #[derive(Debug)]
    struct Clocks {
        wall: Time,
        uptime: Millis,
    }

    impl TimeSource for Clocks {
        fn wall(&mut self) -> Time {
            self.wall
        }

        fn uptime(&mut self) -> Millis {
            self.uptime
        }
    }

    fn keeper() -> EngineTimer<Clocks> {
        EngineTimer::new(Clocks { wall: BEGIN, uptime: Millis(5_000) })
    }

    fn pass(keeper: &mut EngineTimer<Clocks>, ms: u64) {
        keeper.source.wall = keeper.source.wall + Millis(ms);
        keeper.source.uptime = keeper.source.uptime.plus(Millis(ms));
    }

    #[test]
    fn a_clock_that_is_set_by_hand_is_a_correction_and_a_sleep_is_not() {
        // By how much the wall is set, and whether that is noticed.
        let cases: [(i64, bool); 7] = [
            (0, false),
            (1_900, false),
            (-1_900, false),
            (3_600_000, true),
            (-3_600_000, true),
            (4 * YEAR, true),
            (-4 * YEAR, true),
        ];
        for (by, is_noticed) in cases {
            let mut keeper = keeper();
            pass(&mut keeper, 60_000);
            keeper.wake();
            pass(&mut keeper, 100);
            keeper.source.wall = Time(keeper.source.wall.0 + by);
            let expected = BEGIN + Millis(60_100);
            let wake = keeper.wake();
            let set = Time(expected.0 + by);
            let correction = is_noticed.then_some(ClockCorrection { from: expected, to: set });
            assert_eq!(wake.correction, correction, "{by}");
            assert_eq!(wake.now, if is_noticed { set } else { expected }, "{by}");
            assert_eq!(wake.down_since, None, "{by}: nobody was stopped");
            assert_eq!(keeper.wake().correction, None, "{by}: once");
        }
    }

    #[test]
    fn time_in_which_answers_were_not_taken_begins_when_they_were_last() {
        // How long it means to sleep, when it wakes up, and since when it was down.
        let cases: [(Option<u64>, u64, Option<i64>); 8] = [
            (None, 400, None),
            (None, 8_000, Some(0)),
            (Some(2_000), 2_000, None),
            (Some(2_000), 2_400, None),
            (Some(2_000), 300, None),
            (Some(2_000), 5_000, Some(0)),
            (Some(60_000), 10_000, None),
            (Some(60_000), 11_000, Some(0)),
        ];
        for (sleeps, wakes, down_since) in cases {
            let mut keeper = keeper();
            keeper.wake();
            if let Some(sleeps) = sleeps {
                keeper.sleep(Some(BEGIN + Millis(sleeps)), false);
            }
            pass(&mut keeper, wakes);
            let since = down_since.map(|since| Time(BEGIN.0 + since));
            assert_eq!(keeper.wake().down_since, since, "{sleeps:?}, woken after {wakes}");
            assert_eq!(keeper.wake().down_since, None, "once");
        }
    }

    #[test]
    fn while_somebody_works_for_it_a_stop_is_noticed_whenever_the_next_thing_is_due() {
        let mut keeper = keeper();
        keeper.wake();
        assert_eq!(keeper.sleep(Some(BEGIN + Millis::seconds(60)), true), Some(Millis(500)));
        pass(&mut keeper, 5_000);
        assert_eq!(keeper.wake().down_since, Some(BEGIN));
        assert_eq!(keeper.sleep(None, true), None);
        pass(&mut keeper, 5_000);
        assert_eq!(keeper.wake().down_since, None, "nothing is due: nobody has lost anything");
    }

    #[test]
    fn a_stop_is_measured_by_the_clock_that_nobody_sets() {
        let mut keeper = keeper();
        keeper.wake();
        pass(&mut keeper, 4_000);
        keeper.source.wall = Time(keeper.source.wall.0 + YEAR);
        let wake = keeper.wake();
        assert_eq!(wake.down_since, Some(Time(BEGIN.0 + YEAR)));
        assert_eq!(wake.correction.map(ClockCorrection::shift), Some(YEAR));
    }
}
