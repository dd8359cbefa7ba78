//! The loop: gather commands, load, decide, commit, perform; and the executors of this process.

pub mod executor;
