//! What the tests share: disks that crash, fill up and fail, and stores on them.

pub(crate) mod bytes;
pub(crate) mod disk;
pub(crate) mod faults;
pub(crate) mod fixture;
pub(crate) mod ledger;
pub(crate) mod locks;
pub(crate) mod power;
pub(crate) mod vfs;

use unstuck_core::random::Random;
use unstuck_sqlite::{MemoryLimits, Options, WriteMode};

/// The seeds of a randomised test: so many, or the one that `UNSTUCK_SEED` names.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("UNSTUCK_SEED") {
        Ok(seed) => vec![seed.parse().expect("UNSTUCK_SEED is a number")],
        Err(_) => (0..count).collect(),
    }
}

/// Limits so small that runs park, leave and come back all the time; everything happens in the same order every time.
pub(crate) fn small_limits(random: &mut Random) -> Options {
    Options {
        room: MemoryLimits {
            max_runs: one_of(random, &[0, 1, 3, 8]),
            max_tail: one_of(random, &[0, 4, 20, 1_000]),
        },
        max_parked: one_of(random, &[1, 2, 50]),
        max_ended: one_of(random, &[0, 2, 10, 256]),
        snapshot_events: one_of(random, &[1, 2, 5, 64]),
        many_units: one_of(random, &[0, 1, 3, 64]),
        max_group: one_of(random, &[1, 2, 5, 64]),
        payload_bytes: one_of(random, &[0, 500, 1_000_000]),
        checkpoint_pages: one_of(random, &[1, 4, 16, 64]),
        hand: WriteMode::Caller,
        ..Options::default()
    }
}

/// One of these.
pub(crate) fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    let place = random.between(0, choices.len() as u64 - 1);
    choices[usize::try_from(place).expect("is small")]
}
