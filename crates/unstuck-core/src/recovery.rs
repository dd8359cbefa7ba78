//! What is done after an attempt that did not complete.

pub mod backoff;
pub(crate) mod deferral;
pub(crate) mod failing_run;
pub(crate) mod ladder;
pub(crate) mod policy_resume;
pub(crate) mod stuck;
