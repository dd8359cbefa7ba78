//! The JSON types on the wire, and nothing else: requests, the views that answer them, and the documents that people and
//! workers see. A crate that talks to Unstuck needs no other of ours.

pub mod audit;
pub mod bulk;
pub mod clock;
pub mod documents;
pub mod errors;
mod explanation;
pub mod flows;
pub mod history;
pub mod http;
pub mod json_form;
pub mod logs;
pub mod owner;
pub mod policies;
mod problem;
mod product;
mod query;
pub mod request;
mod run;
pub mod runs;
pub mod schedules;
pub mod status;
pub mod store;
pub mod tokens;
pub mod trials;

pub use explanation::{ApiCall, Because, Explanation, Happened, Next, Possible};
pub use problem::{ProblemDocument, ProblemPart, ProblemSubject, ProblemType, VoidToken};
pub use product::{PastAttempt, Previous, Product};
pub use run::{
    Acknowledged, Attempt, Decision, Error, Handler, ItemsView, PoliciesPaused, Run, SetAside, SignalLine,
    SignalsView, Step,
};
