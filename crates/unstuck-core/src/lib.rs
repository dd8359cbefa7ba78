//! The model of Unstuck and every decision it takes: pure, with time, ids and chance as arguments.
//!
//! Nothing here knows about storage, threads, clocks or the network. A command goes into [`decide`], an
//! [`event`] comes out, [`evolve`] applies it; [`wakeup`] derives from a run's state what will move it next.

pub mod duration;
pub mod id;
pub mod json;
pub mod model;
pub mod random;
pub mod time;
