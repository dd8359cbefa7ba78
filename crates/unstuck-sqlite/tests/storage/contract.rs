//! The embedded store keeps the contract, and agrees with the store in memory, whatever its limits.

use unstuck_core::random::Random;
use unstuck_sqlite::{MemoryLimits, Options, WriteMode};
use unstuck_store::conformance::{lists, readers};
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

/// A page of a list looks at no more runs than it may: it is short then, but nothing is left out or comes twice.
#[test]
fn lists_are_complete_however_few_runs_a_page_looks_at() {
    for max_candidates in [1, 3] {
        for room in [MemoryLimits::default(), MemoryLimits { max_runs: 0, max_tail: 0 }] {
            let hand = WriteMode::Caller;
            let options = Options { max_candidates, room, hand, ..Options::default() };
            let make = || Fixture::on_a_disk(options.clone(), Power::steady(1));
            lists::runs_are_found_by_their_labels(&mut || make());
            lists::runs_are_found_by_their_open_work(&mut || make());
            lists::what_is_below_a_root_is_found(&mut || make());
            lists::lists_have_an_order(&mut || make());
            readers::a_reader_sees_all_that_is_there(&mut || make());
        }
    }
}
