//! The store in memory keeps the contract, whether it settles at once or later.

mod at_once {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::new);
}

mod deferred {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::deferred);
}

#[test]
fn both_lead_the_same_life() {
    use unstuck_store::differential::agree;
    use unstuck_store::memory::MemoryStore;

    for seed in 0..200 {
        agree(MemoryStore::new, MemoryStore::deferred, seed, 200);
    }
}
