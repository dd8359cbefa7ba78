//! The power goes at any moment: what was durable is there, what was not is whole or gone, and work continues.

use std::collections::BTreeSet;

use unstuck_core::random::Random;
use unstuck_sqlite::{Options, WriteMode};
use unstuck_store::differential::check_stores_agree;
use unstuck_store::memory::MemoryStore;

use crate::support::disk::Phase;
use crate::support::faults::{Op, Which};
use crate::support::fixture::Fixture;
use crate::support::power::{Power, Tally};
use crate::support::{seeds, small_limits};

/// Every sort of moment there is around a commit, a checkpoint, an open and an end, each of which some crash must hit.
const MOMENTS: [(Op, Which); 11] = [
    (Op::Make, Which::Database),
    (Op::Make, Which::Wal),
    (Op::Make, Which::Journal),
    (Op::Remove, Which::Wal),
    (Op::Remove, Which::Journal),
    (Op::Write, Which::Database),
    (Op::Write, Which::Wal),
    (Op::Cut, Which::Wal),
    (Op::Sync, Which::Database),
    (Op::Sync, Which::Wal),
    (Op::Sync, Which::Journal),
];

#[test]
fn the_power_goes_at_any_moment() {
    let tally = Tally::default();
    let seeds = seeds(130);
    for seed in &seeds {
        let options = small_limits(&mut Random::new(*seed));
        let make = || Fixture::on_a_disk(options.clone(), Power::failing(*seed, 120, &tally));
        check_stores_agree(MemoryStore::deferred, make, *seed, 60);
    }
    let counts = tally.counts();
    let crashes: usize = counts.values().sum();
    println!("{crashes} crashes: {counts:?}");
    if seeds.len() > 1 {
        assert!(crashes > 2_000, "only {crashes} crashes");
        let hit: BTreeSet<(Op, Which)> =
            counts.keys().flatten().map(|(op, which, _)| (*op, *which)).collect();
        let missed: Vec<_> = MOMENTS.iter().filter(|moment| !hit.contains(moment)).collect();
        assert!(missed.is_empty(), "no crash at {missed:?}");
        for phase in [Phase::Before, Phase::During, Phase::After] {
            let sync = Some((Op::Sync, Which::Wal, phase));
            assert!(counts.contains_key(&sync), "no crash {phase:?} the sync of a commit");
        }
    }
}

/// How stages come together in groups is up to the thread here, so a seed does not decide everything.
#[test]
fn the_power_goes_while_a_thread_writes() {
    let tally = Tally::default();
    let seeds = seeds(30);
    for seed in &seeds {
        let options = Options { hand: WriteMode::Thread, ..small_limits(&mut Random::new(*seed)) };
        let make = || Fixture::on_a_disk(options.clone(), Power::failing(*seed, 120, &tally));
        check_stores_agree(MemoryStore::deferred, make, *seed, 60);
    }
    let crashes: usize = tally.counts().values().sum();
    println!("{crashes} crashes");
    assert!(seeds.len() == 1 || crashes > 300, "only {crashes} crashes");
}

/// After a sync that failed, what it should have made durable is in the memory of the machine only, where the next
/// process finds it. What is acknowledged after that must not stand on it when the power goes.
#[test]
fn syncs_fail_and_later_the_power_goes() {
    let tally = Tally::default();
    let seeds = seeds(60);
    for seed in &seeds {
        let options = small_limits(&mut Random::new(*seed));
        let power = || Power::failing(*seed, 200, &tally).with_failing_syncs();
        let make = || Fixture::on_a_disk(options.clone(), power());
        check_stores_agree(MemoryStore::deferred, make, *seed, 60);
    }
    let failed = tally.failed_syncs();
    println!("{failed} syncs failed");
    assert!(seeds.len() == 1 || failed > 100, "only {failed} syncs failed");
}
