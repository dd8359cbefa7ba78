//! Rule: the core has no clock, no chance and no IO: time, ids and random numbers are arguments.

use super::Violation;
use crate::repo::Tree;
use crate::rust::{CodePath, paths};

const SOURCE: &str = "crates/unstuck-core/src/";

/// What is not used, and what to do instead. A trailing `::` stands for anything below.
const FORBIDDEN: &[(&str, &str)] = &[
    ("SystemTime::now", TAKE_TIME),
    ("Instant::now", TAKE_TIME),
    ("Timestamp::now", TAKE_TIME),
    ("Zoned::now", TAKE_TIME),
    ("thread_rng", TAKE_CHANCE),
    ("rand::", TAKE_CHANCE),
    ("std::thread", LEAVE_TO_ENGINE),
    ("std::fs", LEAVE_TO_ENGINE),
    ("std::net", LEAVE_TO_ENGINE),
    ("std::process", LEAVE_TO_ENGINE),
    ("std::env", LEAVE_TO_ENGINE),
    ("print!", RETURN_IT),
    ("println!", RETURN_IT),
    ("eprint!", RETURN_IT),
    ("eprintln!", RETURN_IT),
];

const TAKE_TIME: &str = "take the time as an argument";
const TAKE_CHANCE: &str = "take a `Random` as an argument";
const LEAVE_TO_ENGINE: &str = "leave it to the engine, which performs effects after commit";
const RETURN_IT: &str = "return what there is to say as data";

/// Looks for the forbidden paths in the core's code; comments and strings may speak of them.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files(SOURCE) {
        for path in paths(file.tokens()) {
            if let Some((name, remedy)) = FORBIDDEN.iter().find(|(name, _)| uses(&path, name)) {
                violations.push(Violation::new(
                    &file.path,
                    path.line,
                    format!("the core uses `{name}`"),
                    *remedy,
                ));
            }
        }
    }
    violations
}

fn uses(path: &CodePath, name: &str) -> bool {
    if let Some(root) = name.strip_suffix("::") {
        return path.segments.len() > 1 && path.segments[0] == root;
    }
    let wanted: Vec<&str> = name.split("::").collect();
    path.segments.windows(wanted.len()).any(|part| part.iter().eq(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn what_the_core_may_not_use() {
        let at_line_2: &[&str] = &["crates/unstuck-core/src/a.rs:2"];
        let cases: [(&str, &[&str]); 20] = [
            ("let now = SystemTime::now();", at_line_2),
            ("let now = std::time::Instant::now();", at_line_2),
            ("let now = jiff::Timestamp::now();", at_line_2),
            ("let now = Zoned::now();", at_line_2),
            ("let dice = thread_rng();", at_line_2),
            ("let dice = rand::random();", at_line_2),
            ("use std::thread;", at_line_2),
            ("use std::{collections::BTreeMap, fs};", at_line_2),
            ("let stream = std::net::TcpStream::connect(at);", at_line_2),
            ("use std::process::Command;", at_line_2),
            ("let home = std::env::var(name);", at_line_2),
            ("println!(\"{x}\");", at_line_2),
            ("fn now(now: Timestamp) -> Timestamp { now }", &[]),
            ("let dice = crate::random::Random::new(seed); let rand = dice;", &[]),
            ("use std::{collections::BTreeMap, fmt};", &[]),
            ("// std::fs, println!(), Instant::now()", &[]),
            ("let text = \"std::fs, Instant::now()\";", &[]),
            ("let thread = std::cmp::min(fs, net);", &[]),
            ("writeln!(f, \"{x}\")", &[]),
            ("const VERSION: &str = env!(\"CARGO_PKG_VERSION\");", &[]),
        ];
        for (code, expected) in cases {
            let text = format!("//! An example.\n{code}\n");
            assert_places(code, &check(&Tree::of(&[("crates/unstuck-core/src/a.rs", &text)])), expected);
            assert_places(code, &check(&Tree::of(&[("crates/unstuck-engine/src/a.rs", &text)])), &[]);
        }
    }
}
