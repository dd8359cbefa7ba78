//! The store in memory keeps the contract, whether it settles at once or later.

mod at_once {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::new);
}

mod deferred {
    unstuck_store::conformance_tests!(unstuck_store::memory::MemoryStore::deferred);
}
