//! Rule: SQL stands in the store crates only, and where a benchmark compares them with bare SQL.

use super::Violation;
use crate::repo::Tree;
use crate::rust::string_literals;

const STORES: &[&str] = &["crates/unstuck-sqlite/", "crates/unstuck-postgres/", "bench/"];

/// Looks for string literals that begin like an SQL statement.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust_files("") {
        if STORES.iter().any(|store| file.path.starts_with(store)) {
            continue;
        }
        for literal in string_literals(file.tokens()) {
            if let Some(statement) = statement(&literal.text) {
                let wrong = format!("an SQL statement ({statement}) outside of the store crates");
                let remedy =
                    "move it to unstuck-sqlite or unstuck-postgres, behind the contract of unstuck-store";
                violations.push(Violation::new(&file.path, literal.line, wrong, remedy));
            }
        }
    }
    violations
}

/// The statement that a text begins with. A sentence such as "Select a step" is none: keywords are written in one
/// case, and what has to follow them follows.
fn statement(text: &str) -> Option<&'static str> {
    let text = text.replace("\\n", " ").replace("\\t", " ").replace('\\', " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let one_case = |word: &str| !word.contains(char::is_uppercase) || !word.contains(char::is_lowercase);
    let keyword = |at: usize, keyword: &str| {
        words.get(at).is_some_and(|word| one_case(word) && word.eq_ignore_ascii_case(keyword))
    };
    let second = |keywords: &[&str]| keywords.iter().any(|name| keyword(1, name));
    let defines = second(&["table", "index", "view", "trigger"])
        || (second(&["unique"]) && keyword(2, "index"))
        || (second(&["temp", "temporary", "virtual"]) && keyword(2, "table"));
    match words.len() {
        0 | 1 => None,
        _ if keyword(0, "SELECT")
            && (words[0] == "SELECT" || (2..words.len()).any(|at| keyword(at, "FROM"))) =>
        {
            Some("SELECT")
        }
        _ if keyword(0, "PRAGMA") => Some("PRAGMA"),
        2 => None,
        _ if keyword(0, "INSERT") && second(&["into", "or"]) => Some("INSERT INTO"),
        _ if keyword(0, "UPDATE") && (keyword(2, "SET") || keyword(4, "SET")) => Some("UPDATE"),
        _ if keyword(0, "DELETE") && second(&["from"]) => Some("DELETE FROM"),
        _ if keyword(0, "CREATE") && defines => Some("CREATE"),
        _ if keyword(0, "ALTER") && second(&["table"]) => Some("ALTER TABLE"),
        _ if keyword(0, "DROP") && defines => Some("DROP"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn which_literals_are_sql() {
        let here: &[&str] = &["crates/unstuck-engine/src/a.rs:3"];
        let cases: [(&str, &[&str]); 21] = [
            ("\"SELECT 1\"", here),
            ("\"select id from run\"", here),
            ("\"\\n    SELECT id\\n FROM run\"", here),
            ("r#\"\n INSERT INTO run VALUES (?)\"#", here),
            ("\"INSERT OR IGNORE INTO run VALUES (?)\"", here),
            ("\"UPDATE run SET state = ?\"", here),
            ("\"update run as r set state = ?\"", here),
            ("\"DELETE FROM run\"", here),
            ("\"CREATE TABLE run (id)\"", here),
            ("\"create unique index a on run (id)\"", here),
            ("\"PRAGMA journal_mode\"", here),
            ("\"Select a step from the list\"", &[]),
            ("\"Update the flow, set its version\"", &[]),
            ("\"Delete from here on\"", &[]),
            ("\"select a step\"", &[]),
            ("\"create temp table a (id)\"", here),
            ("\"create temp file a\"", &[]),
            ("\"create a table\"", &[]),
            ("\"SELECT\"", &[]),
            ("\"a run that may SELECT x\"", &[]),
            ("1 // \"SELECT 1\"", &[]),
        ];
        for (literal, expected) in cases {
            let text = format!("//! An example.\n/// SELECT 1\nconst A: T = {literal};\n");
            assert_places(literal, &check(&Tree::of(&[("crates/unstuck-engine/src/a.rs", &text)])), expected);
            for store in STORES {
                let path = format!("{store}src/run.rs");
                assert_places(literal, &check(&Tree::of(&[(&path, &text)])), &[]);
            }
        }
    }
}
