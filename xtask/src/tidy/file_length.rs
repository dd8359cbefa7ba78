//! Rule: a Rust file has at most 800 lines.

use super::Violation;
use crate::repo::Tree;

const MAX_LINES: usize = 800;

/// Counts the lines of every Rust file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let files = tree.rust_files("").map(|file| (file, file.text.lines().count()));
    let too_long = files.filter(|(_, lines)| *lines > MAX_LINES);
    let complain = |(file, lines): (&crate::repo::File, usize)| {
        let wrong = format!("the file has {lines} lines, and {MAX_LINES} is the limit");
        Violation::new(&file.path, lines, wrong, "split it by subject: one file, one subject")
    };
    too_long.map(complain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn the_limit_is_800_lines_of_rust() {
        let cases: [(&str, usize, &[&str]); 3] =
            [("a.rs", 800, &[]), ("a.rs", 801, &["a.rs:801"]), ("a.md", 5000, &[])];
        for (path, lines, expected) in cases {
            let text = "// A line.\n".repeat(lines);
            assert_places(&format!("{lines} lines"), &check(&Tree::of(&[(path, &text)])), expected);
        }
    }
}
