//! The tests of crashes can catch something: on a disk that lies about syncs they find that stages are lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use unstuck_core::random::Random;
use unstuck_store::differential::check_stores_agree;
use unstuck_store::memory::MemoryStore;

use crate::support::faults::{Lies, Which};
use crate::support::fixture::Fixture;
use crate::support::power::{Power, Tally};
use crate::support::small_limits;

/// Whether a random session with crashes on a disk that lies ends badly, for one of the first seeds.
fn is_caught(lies: Lies) -> bool {
    (0..60).any(|seed| {
        let options = small_limits(&mut Random::new(seed));
        let power = || Power::failing(seed, 120, &Tally::default()).lying(lies);
        let make = || Fixture::on_a_disk(options.clone(), power());
        catch_unwind(AssertUnwindSafe(|| check_stores_agree(MemoryStore::deferred, make, seed, 60))).is_err()
    })
}

#[test]
fn syncs_of_the_log_that_do_nothing_are_caught() {
    assert!(is_caught(Lies::Of(Which::Wal)));
}

#[test]
fn syncs_of_the_database_that_do_nothing_are_caught() {
    assert!(is_caught(Lies::Of(Which::Database)));
}

#[test]
fn syncs_that_do_nothing_are_caught() {
    assert!(is_caught(Lies::All));
}
