//! The model of Unstuck and every decision it takes: pure, with time, ids and chance as arguments.
//!
//! Nothing here knows about storage, threads, clocks or the network. A command goes into [`decide`], an
//! [`event`] comes out, [`evolve`] applies it; [`wakeup`] derives from a run's state what will move it next.
#![deny(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

#[cfg(test)]
extern crate self as unstuck_core;

pub mod api_token;
mod begin_attempt;
pub mod bulk;
pub mod clock;
pub mod command;
pub mod decide;
pub mod digest;
pub mod downtime;
pub mod duration;
pub mod eligible;
pub mod errors;
mod evaluate;
pub mod event;
pub mod evolve;
pub mod explain;
pub mod fingerprint;
mod graph;
pub mod home;
pub mod id;
mod interpreter;
pub mod json;
pub mod model;
pub mod needs;
pub mod offer;
pub mod outline;
pub mod policy;
pub mod random;
pub mod reason;
pub mod recovery;
pub mod refusal;
pub mod replay;
pub mod schedule;
pub mod session;
pub mod slot;
pub mod snapshot;
pub mod step_name;
pub mod summary;
pub mod thing;
pub mod time;
pub mod wakeup;
