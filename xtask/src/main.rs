//! The chores of the project: `cargo xtask test|tidy|bench`.

fn main() {}
