//! The loop: gather commands, load, decide, commit, perform; and the executors of this process.

mod batch;
pub mod bulk;
pub mod clock;
pub mod document;
pub mod drive;
pub mod engine;
mod examine;
pub mod executor;
pub mod flows;
mod life;
pub mod policies;
pub mod request;
pub mod runtime;
pub mod token;
pub mod trials;
