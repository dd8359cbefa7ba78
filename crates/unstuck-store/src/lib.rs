//! The storage contract, the in-memory store that keeps it, and the conformance suite for every store.

pub mod contract;
