//! The nouns of Unstuck: one file per lifecycle.

pub mod emulation;
pub mod expression;
pub mod flow;
pub mod recovery;
