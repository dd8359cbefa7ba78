//! The JSON types on the wire, and nothing else.

mod explanation;
pub mod json_form;
pub mod policies;
mod problem;
mod product;
mod run;

pub use explanation::{Because, Explanation, Happened, Next, Possible};
pub use problem::{ProblemDocument, ProblemPart, ProblemSubject, ProblemType, VoidToken};
pub use product::{PastAttempt, Previous, Product};
pub use run::{Attempt, Decision, Error, Handler, PoliciesPaused, Run, SetAside, Step};
