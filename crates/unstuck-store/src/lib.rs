//! The storage contract, the in-memory store that keeps it, and the conformance suite for every store.

mod by_run;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
pub mod delegate;
#[cfg(feature = "conformance")]
pub mod differential;
pub mod flows;
pub mod invariants;
pub mod logs;
pub mod memory;
pub mod notices;
pub mod ready;
pub mod slots;
pub mod tally;
pub mod things;
pub mod timers;
pub mod verify;
