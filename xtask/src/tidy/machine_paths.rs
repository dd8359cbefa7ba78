//! Rule: nothing in the repository names a folder of somebody's machine.

use super::Violation;
use crate::repo::Tree;

const FOLDERS: &[&str] = &["/home/", "/root/", "/work/", "/Users/"];

/// The rule's own text and examples.
const EXCEPT: &str = "xtask/src/tidy/machine_paths.rs";

/// Looks for absolute paths into such folders in every text file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != EXCEPT) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(folder) = FOLDERS.iter().find(|folder| names(line, folder)) {
                let wrong = format!("`{folder}` is a path of one machine");
                let remedy =
                    "use a path relative to the repository, or a neutral one such as `/tmp` or `/srv`";
                violations.push(Violation::new(&file.path, index + 1, wrong, remedy));
            }
        }
    }
    violations
}

/// A URL or a relative path may well have such a part in its middle (`https://example.org/home/`).
fn names(line: &str, folder: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.~$})]".contains(c);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn which_paths_belong_to_a_machine() {
        let cases: [(&str, &[&str]); 10] = [
            ("cd /home/ann/unstuck", &["README.md:1"]),
            ("fine\n\"/root/.cargo\"", &["README.md:2"]),
            ("see `/work/x.md`", &["README.md:1"]),
            ("file:///Users/ann/x", &["README.md:1"]),
            ("https://example.org/home/ and https://example.org/home/ann", &[]),
            ("https://example.org/home/ but /home/ann", &["README.md:1"]),
            ("src/work/mod.rs, ./root/a, $HOME/work/a, ${DIR}/home/a", &[]),
            ("/tmp/home-made and /srv/unstuck", &[]),
            ("/api/work/7", &[]),
            ("at home/root/work", &[]),
        ];
        for (text, expected) in cases {
            assert_places(text, &check(&Tree::of(&[("README.md", text)])), expected);
        }
        assert_places("the rule's own file", &check(&Tree::of(&[(EXCEPT, "/home/ann")])), &[]);
    }
}
