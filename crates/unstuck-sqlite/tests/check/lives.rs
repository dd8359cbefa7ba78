//! A store that Unstuck has written is as promised, at any moment of any life.

use unstuck_core::random::Random;
use unstuck_sqlite::Room;
use unstuck_store::differential::agree;
use unstuck_store::memory::MemoryStore;

use crate::fixture::Temporary;

#[test]
fn a_store_has_no_findings_at_any_moment_of_its_life() {
    let seeds = match std::env::var("UNSTUCK_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("UNSTUCK_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..12,
    };
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut one_of = |choices: [usize; 4]| choices[usize::try_from(random.between(0, 3)).unwrap_or(0)];
        let room = Room { max_runs: one_of([0, 1, 4, 1_000]), max_tail: one_of([0, 5, 30, 1_000]) as u64 };
        agree(MemoryStore::deferred, || Temporary::with(room), seed, 120);
    }
}
