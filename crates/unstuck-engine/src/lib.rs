//! The loop: gather commands, load, decide, commit, perform; and the executors of this process.

pub mod apply;
pub mod apply_flows;
mod backfill;
mod batch;
pub mod bulk;
pub mod call;
pub mod clock;
pub mod document;
pub mod drive;
pub mod engine;
pub mod executor;
mod family;
pub mod flows;
pub mod metrics;
pub mod policies;
pub mod read_flows;
mod reply;
pub mod request;
pub mod runtime;
pub mod secrets;
mod session;
pub mod token;
pub mod tokens;
pub mod trials;
mod waiters;
mod wake_time;
pub mod worker_calls;
