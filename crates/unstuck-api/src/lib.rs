//! The JSON types on the wire, and nothing else.

mod product;
mod run;

pub use product::{PastAttempt, Previous, Product};
pub use run::{Attempt, Decision, Error, Run, Step};
