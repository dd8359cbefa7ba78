//! The JSON types on the wire, and nothing else.

mod explanation;
mod product;
mod run;

pub use explanation::{Because, Explanation, Happened, Next, Possible};
pub use product::{PastAttempt, Previous, Product};
pub use run::{Attempt, Decision, Error, Handler, PoliciesPaused, Run, SetAside, Step};
