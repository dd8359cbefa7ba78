//! Rule: every Rust file opens with one `//!` sentence that says what it is for.

use super::Violation;
use crate::repo::{File, Tree};

/// Looks at the first line of every Rust file under `crates/` and `xtask/`.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.rust_files("crates/").chain(tree.rust_files("xtask/"));
    files.filter(|file| !opens_well(file)).map(complain).collect()
}

fn opens_well(file: &File) -> bool {
    let sentence = file.text.lines().next().and_then(|line| line.strip_prefix("//!"));
    sentence.is_some_and(|sentence| !sentence.trim().is_empty())
}

fn complain(file: &File) -> Violation {
    Violation::new(
        &file.path,
        1,
        "the file does not open with a `//!` sentence",
        "say in its first line what it is for: `//! ...`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn which_first_lines_are_taken() {
        let cases: [(&str, &str, &[&str]); 6] = [
            ("crates/a/src/lib.rs", "//! What it is for.\n", &[]),
            ("crates/a/src/lib.rs", "\n//! Too late.\n", &["crates/a/src/lib.rs:1"]),
            ("crates/a/src/lib.rs", "//!\n//! Too late.\n", &["crates/a/src/lib.rs:1"]),
            ("crates/a/tests/a.rs", "// No doc comment.\n", &["crates/a/tests/a.rs:1"]),
            ("xtask/src/main.rs", "", &["xtask/src/main.rs:1"]),
            ("docs/a.md", "# A page\n", &[]),
        ];
        for (path, text, expected) in cases {
            assert_places(text, &check(&Tree::of(&[(path, text)])), expected);
        }
    }
}
