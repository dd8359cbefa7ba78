//! Flow files, policy files and plan files: from text to the model, with every problem and its place.
//!
//! [`load`] parses a file into a tree that knows where everything is written, reads the outline of each flow (ids,
//! kinds, needs), compiles its steps, and checks what the flows of the file say about each other.
//! [`policies`] reads resume policies, and writes them. [`plan`] reads plans of rehearsals.

mod canonical;
mod command;
mod computed;
mod emulate;
pub mod expression;
mod fields;
mod flow;
mod graph;
mod http;
mod input;
mod load;
mod outline;
mod parse;
pub mod plan;
pub mod policies;
mod problem;
mod read;
mod recovery;
mod references;
mod schedule;
mod schema;
mod schema_cost;
mod step;
mod step_fields;
pub mod suggest;
pub mod template;
mod time_of_day;
mod time_value;
mod tree;
mod wait;
mod warnings;
mod zone;

pub use input::check_input;
pub use load::{Loaded, load};
pub use problem::{Problem, Severity};
pub use schema::schema;
