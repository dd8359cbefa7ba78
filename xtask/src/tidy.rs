//! `cargo xtask tidy`: the project's own rules, each in its own file, over one reading of the repository.

mod core_lints;
mod core_purity;
mod dependency_direction;
mod file_length;
mod function_length;
mod links;
mod machine_paths;
mod named_items;
mod opening_line;
mod sql;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::repo::Tree;

/// One broken rule, at one place: what is wrong, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    file: String,
    line: usize,
    wrong: String,
    remedy: String,
}

impl Violation {
    fn new(file: &str, line: usize, wrong: impl Into<String>, remedy: impl Into<String>) -> Violation {
        Violation { file: file.to_owned(), line, wrong: wrong.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.wrong, self.remedy)
    }
}

/// The chore on its own.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(summary) => {
            eprintln!("tidy: {summary}");
            ExitCode::FAILURE
        }
    }
}

/// Prints every violation; an error sums them up.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let packages = dependency_direction::packages(root)?;
    let mut violations = unreadable(&tree);
    violations.extend(function_length::check(&tree));
    violations.extend(opening_line::check(&tree));
    violations.extend(dependency_direction::check(&packages, &tree));
    violations.extend(sql::check(&tree));
    violations.extend(core_purity::check(&tree));
    violations.extend(core_lints::check(&tree));
    violations.extend(machine_paths::check(&tree));
    violations.extend(links::check(&tree));
    violations.extend(file_length::check(&tree));
    violations.extend(named_items::check(root));
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => Err("1 rule broken at the place above".to_owned()),
        count => Err(format!("rules broken at {count} places, listed above")),
    }
}

fn unreadable(tree: &Tree) -> Vec<Violation> {
    let complain = |file: &crate::repo::File| {
        let error = file.tokens.as_ref().err()?;
        Some(Violation::new(
            &file.path,
            1,
            format!("cannot be read as Rust: {error}"),
            "make it compile first",
        ))
    };
    tree.rust_files("").filter_map(complain).collect()
}

/// Asserts which places a rule complains about, and that each complaint says what is wrong and what to do.
#[cfg(test)]
fn assert_places(case: &str, violations: &[Violation], expected: &[&str]) {
    let places: Vec<String> =
        violations.iter().map(|found| format!("{}:{}", found.file, found.line)).collect();
    assert_eq!(places, expected, "{case}: {violations:#?}");
    for violation in violations {
        assert!(!violation.wrong.is_empty() && !violation.remedy.is_empty(), "{case}: {violation}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_what_is_wrong_and_what_to_do() {
        let violation = Violation::new("a/b.rs", 7, "too long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:7: too long; split it");
    }

    #[test]
    fn a_file_that_is_no_rust_is_reported() {
        let tree = Tree::of(&[("a.rs", "fn a() {"), ("b.rs", "fn b() {}"), ("c.md", "fn c() {")]);
        assert_places("an open brace", &unreadable(&tree), &["a.rs:1"]);
    }
}
