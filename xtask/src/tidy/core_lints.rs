//! Rule: the core denies the lints that keep its decisions total: no `unwrap`, no `_ =>` over our own enums.

use super::Violation;
use crate::repo::Tree;
use crate::rust::inner_attributes;

const LINTS: &[&str] = &["unwrap_used", "wildcard_enum_match_arm"];
const LIB: &str = "crates/unstuck-core/src/lib.rs";
const MANIFEST: &str = "crates/unstuck-core/Cargo.toml";

/// Looks for each lint in the attributes of the core's `lib.rs` and in the lint table of its `Cargo.toml`.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let attributes: Vec<_> = tree.rust_files(LIB).flat_map(|lib| inner_attributes(lib.tokens())).collect();
    let in_lib = |lint: &str| {
        let has = |words: &Vec<String>, word: &str| words.iter().any(|found| found == word);
        attributes.iter().any(|words| has(words, lint) && (has(words, "deny") || has(words, "forbid")))
    };
    let in_manifest = |lint: &str| {
        let lines = || tree.text(MANIFEST).unwrap_or_default().lines().map(str::trim_start);
        let denies = |line: &str| line.contains("\"deny\"") || line.contains("\"forbid\"");
        lines().any(|line| line.starts_with(lint) && denies(line))
    };
    let missing = LINTS.iter().filter(|lint| !in_lib(lint) && !in_manifest(lint));
    missing.map(|lint| complain(lint)).collect()
}

fn complain(lint: &str) -> Violation {
    let remedy = format!("add `#![deny(clippy::{lint})]` below the opening comment");
    Violation::new(LIB, 1, format!("the core does not deny `clippy::{lint}`"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn where_the_lints_may_be_denied() {
        let at_lib = "crates/unstuck-core/src/lib.rs:1";
        let both = "unwrap_used = \"deny\"\nwildcard_enum_match_arm = { level = \"deny\" }\n";
        let cases: [(&str, &str, &[&str]); 7] = [
            ("#![deny(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]", "", &[]),
            ("#![forbid(clippy::unwrap_used)]\n#![deny(clippy::wildcard_enum_match_arm)]", "", &[]),
            ("", both, &[]),
            ("#![deny(clippy::unwrap_used)]", "", &[at_lib]),
            ("// #![deny(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]", "", &[at_lib, at_lib]),
            ("#![warn(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]", "", &[at_lib, at_lib]),
            ("", "unwrap_used = \"warn\"\n# wildcard_enum_match_arm = \"deny\"\n", &[at_lib, at_lib]),
        ];
        for (lib, manifest, expected) in cases {
            let tree = Tree::of(&[(LIB, &format!("//! The core.\n{lib}\n")), (MANIFEST, manifest)]);
            assert_places(&format!("{lib}{manifest}"), &check(&tree), expected);
        }
    }
}
