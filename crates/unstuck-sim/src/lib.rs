//! The simulator: the real engine on a virtual clock, for rehearsals of somebody's flow and for our own proof.

pub mod agenda;
pub mod machine;
pub mod rehearse;
#[cfg(feature = "simulate")]
pub mod simulate;
