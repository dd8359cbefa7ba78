//! The embedded store keeps the contract, and agrees with the store in memory, whatever its limits.

use unstuck_core::random::Random;
use unstuck_sqlite::{MemoryLimits, Options, WriteMode};
use unstuck_store::differential::check_stores_agree;
use unstuck_store::memory::MemoryStore;

use crate::support::fixture::Fixture;
use crate::support::power::Power;
use crate::support::{seeds, small_limits};

mod as_usual {
    unstuck_store::conformance_tests!(super::as_usual);
}

/// Everything parks at once and is made again when it is needed; the disk is in memory, so that stages can fail.
mod with_no_room_in_memory {
    unstuck_store::conformance_tests!(super::with_no_room_in_memory);
}

fn as_usual() -> Fixture {
    Fixture::in_a_folder(Options::default())
}

fn with_no_room_in_memory() -> Fixture {
    let options = Options {
        room: MemoryLimits { max_runs: 0, max_tail: 0 },
        payload_bytes: 0,
        checkpoint_pages: 1,
        hand: WriteMode::Caller,
        ..Options::default()
    };
    Fixture::on_a_disk(options, Power::steady(1))
}

#[test]
fn it_agrees_with_the_store_in_memory() {
    for seed in seeds(8) {
        check_stores_agree(MemoryStore::deferred, as_usual, seed, 120);
    }
}

#[test]
fn it_agrees_with_small_limits() {
    for seed in seeds(40) {
        let options = small_limits(&mut Random::new(seed));
        let make = || Fixture::on_a_disk(options.clone(), Power::steady(seed));
        check_stores_agree(MemoryStore::deferred, make, seed, 150);
    }
}

#[test]
fn it_agrees_with_small_limits_and_a_thread_that_writes() {
    for seed in seeds(20) {
        let options = Options { hand: WriteMode::Thread, ..small_limits(&mut Random::new(seed)) };
        let make = || Fixture::on_a_disk(options.clone(), Power::steady(seed));
        check_stores_agree(MemoryStore::deferred, make, seed, 150);
    }
}
