//! What is done after an attempt that did not complete.

pub mod backoff;
pub(crate) mod deferral;
pub(crate) mod failing;
pub(crate) mod ladder;
pub(crate) mod policies;
pub(crate) mod stuck;
