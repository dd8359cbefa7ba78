//! When the power of a disk goes: at random moments, again and again, while a store is opened too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use unstuck_core::random::Random;

use super::disk::{Disk, Image, Phase};
use super::faults::{Fault, Lies, Op, Which};
use super::one_of;

/// Decides when the power goes.
pub(crate) struct Power {
    random: Random,
    /// `None`: only when somebody pulls the plug.
    longest: Option<u64>,
    lies: Lies,
    syncs_fail: bool,
    tally: Tally,
}

/// How often the power went at each sort of moment; `None` when nothing was written at that moment.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<(Counts, usize)>>);

/// The number of crashes, by where they happened.
pub(crate) type Counts = BTreeMap<Option<(Op, Which, Phase)>, usize>;

impl Tally {
    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(crate) fn failed_syncs(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl Power {
    /// The power is there until somebody pulls the plug.
    pub(crate) fn steady(seed: u64) -> Power {
        let (random, tally) = (Random::new(seed), Tally::default());
        Power { random, longest: None, lies: Lies::None, syncs_fail: false, tally }
    }

    /// The power goes within so many moments, every time.
    pub(crate) fn failing(seed: u64, longest: u64, tally: &Tally) -> Power {
        let random = Random::new(seed ^ 0x5eed);
        let tally = tally.clone();
        Power { random, longest: Some(longest), lies: Lies::None, syncs_fail: false, tally }
    }

    /// The disk lies about syncs.
    pub(crate) fn lying(self, lies: Lies) -> Power {
        Power { lies, ..self }
    }

    /// Syncs fail now and then, mostly before the power goes.
    pub(crate) fn with_failing_syncs(self) -> Power {
        Power { syncs_fail: true, ..self }
    }

    /// A disk that holds this, with the power on.
    pub(crate) fn plug_in(&mut self, image: Image) -> Arc<Disk> {
        let disk = Disk::new(image, self.random.between(0, u64::MAX));
        disk.inner().faults.set_lies(self.lies);
        if let Some(longest) = self.longest {
            // Often soon, so that it goes while the store is opened.
            let longest = one_of(&mut self.random, &[12, longest / 4 + 1, longest]);
            let phase = one_of(&mut self.random, &[Phase::Before, Phase::During, Phase::After]);
            let moment = self.random.between(1, longest);
            disk.inner().faults.crash_in(moment, phase);
        }
        self.plan_a_failing_sync(&disk);
        disk
    }

    /// One of the next syncs fails.
    fn plan_a_failing_sync(&mut self, disk: &Disk) {
        if self.syncs_fail {
            let after = one_of(&mut self.random, &[0, 1, 3, 10, 30]);
            let code = rusqlite::ffi::SQLITE_IOERR_FSYNC;
            disk.inner().add_fault(Fault { op: Op::Sync, which: None, after, times: 1, code });
        }
    }

    /// The process has ended after a sync failed; another one goes on with the same disk.
    pub(crate) fn go_on_after_a_failed_sync(&mut self, disk: &Disk) {
        self.tally.0.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        let mut inner = disk.inner();
        inner.faults.clear_list();
        inner.faults.failed.clear();
        drop(inner);
        self.plan_a_failing_sync(disk);
    }

    /// What is left of a disk once the power has gone.
    pub(crate) fn unplug(&mut self, disk: &Disk) -> Image {
        let left = disk.crash();
        let place = disk.inner().faults.crashed;
        let mut tally = self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.0.entry(place).or_default() += 1;
        left
    }

    /// How much is written before there is no room: nothing where all is steady, for those who count on it.
    pub(crate) fn writes_before_it_is_full(&mut self) -> usize {
        if self.longest.is_none() { 0 } else { one_of(&mut self.random, &[0, 1, 2, 5, 9]) }
    }

    /// Whether the process ends by itself this time. Now and then the power goes while it closes its files.
    pub(crate) fn ends_in_good_order(&mut self, disk: &Disk) -> bool {
        let ends = self.random.between(0, 2) == 0;
        if ends && self.longest.is_some() && self.random.between(0, 1) == 0 {
            let phase = one_of(&mut self.random, &[Phase::Before, Phase::During, Phase::After]);
            disk.inner().faults.crash_at_next(Op::Remove, phase);
        }
        ends
    }
}
