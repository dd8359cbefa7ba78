//! Rule: a function has at most 70 lines; the list of exceptions may only shrink.

use super::Violation;
use crate::repo::Tree;
use crate::rust::{Function, functions};

const MAX_LINES: usize = 70;
const LIST: &str = "xtask/long-functions.txt";

/// One line of the list: `path name lines`.
struct Exception<'a> {
    at: usize,
    path: &'a str,
    name: &'a str,
    lines: usize,
}

/// Counts every function's lines, tests included, and compares the long ones with the list.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut exceptions = read_list(tree.text(LIST).unwrap_or_default(), &mut violations);
    for file in tree.rust_files("") {
        let mut long = functions(file.tokens());
        long.retain(|function| function.lines > MAX_LINES);
        // Two functions of one name in one file: the longest is compared with the largest exception.
        long.sort_by_key(|function| std::cmp::Reverse(function.lines));
        for function in long {
            violations.extend(compare(
                &file.path,
                &function,
                take(&mut exceptions, &file.path, &function.name),
            ));
        }
    }
    violations.extend(exceptions.iter().map(not_needed));
    violations
}

/// Parses the list of exceptions, and reports invalid lines.
fn read_list<'a>(text: &'a str, violations: &mut Vec<Violation>) -> Vec<Exception<'a>> {
    let mut exceptions = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let entry = line.trim();
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let mut fields = entry.split_whitespace();
        let path_and_name = fields.next().zip(fields.next());
        let lines = fields.next().and_then(|lines| lines.parse().ok());
        match (path_and_name, lines, fields.next()) {
            (Some((path, name)), Some(lines), None) => {
                exceptions.push(Exception { at: index + 1, path, name, lines });
            }
            _ => violations.push(Violation::new(
                LIST,
                index + 1,
                format!("`{entry}` is no entry"),
                "write `path function lines`, or remove it",
            )),
        }
    }
    exceptions
}

fn take<'a>(exceptions: &mut Vec<Exception<'a>>, path: &str, name: &str) -> Option<Exception<'a>> {
    let matching =
        exceptions.iter().enumerate().filter(|(_, entry)| entry.path == path && entry.name == name);
    let index = matching.max_by_key(|(_, entry)| entry.lines).map(|(index, _)| index)?;
    Some(exceptions.remove(index))
}

fn compare(path: &str, function: &Function, exception: Option<Exception<'_>>) -> Option<Violation> {
    let Function { name, line, lines } = function;
    let here = |wrong: String| Some(Violation::new(path, *line, wrong, "split it"));
    match exception {
        None => here(format!("`{name}` has {lines} lines, and {MAX_LINES} is the limit")),
        Some(entry) if entry.lines < *lines => here(format!(
            "`{name}` has grown from {} to {lines} lines, and {MAX_LINES} is the limit",
            entry.lines
        )),
        Some(entry) if entry.lines > *lines => Some(Violation::new(
            LIST,
            entry.at,
            format!("`{name}` has shrunk to {lines} lines"),
            format!("lower its entry from {} to {lines}", entry.lines),
        )),
        Some(_) => None,
    }
}

fn not_needed(entry: &Exception<'_>) -> Violation {
    let wrong = format!("`{}` in {} is no longer over {MAX_LINES} lines", entry.name, entry.path);
    Violation::new(LIST, entry.at, wrong, "remove its entry")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    /// A function of so many lines.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn the_list_may_only_shrink() {
        let cases: [(usize, &str, &[&str]); 11] = [
            (70, "", &[]),
            (71, "", &["a.rs:1"]),
            (80, "a.rs long 80", &[]),
            (80, "# why\n\na.rs long 80\n", &[]),
            (81, "a.rs long 80", &["a.rs:1"]),
            (79, "a.rs long 80", &["xtask/long-functions.txt:1"]),
            (70, "a.rs long 80", &["xtask/long-functions.txt:1"]),
            (70, "# why\na.rs gone 80", &["xtask/long-functions.txt:2"]),
            (80, "b.rs long 80", &["a.rs:1", "xtask/long-functions.txt:1"]),
            (70, "a.rs long", &["xtask/long-functions.txt:1"]),
            (70, "a.rs long eighty", &["xtask/long-functions.txt:1"]),
        ];
        for (lines, list, expected) in cases {
            let tree = Tree::of(&[("a.rs", &function("long", lines)), (LIST, list)]);
            assert_places(&format!("{lines} lines, list: {list}"), &check(&tree), expected);
        }
    }

    #[test]
    fn functions_of_one_name_are_compared_longest_first() {
        let text = function("new", 75) + &function("new", 90);
        let cases: [(&str, &[&str]); 3] = [
            ("a.rs new 75\na.rs new 90", &[]),
            ("a.rs new 90", &["a.rs:1"]),
            ("a.rs new 75\na.rs new 95", &["xtask/long-functions.txt:2"]),
        ];
        for (list, expected) in cases {
            assert_places(list, &check(&Tree::of(&[("a.rs", &text), (LIST, list)])), expected);
        }
    }

    #[test]
    fn what_to_do_is_said() {
        let check_one = |lines: usize, list: &str| {
            let tree = Tree::of(&[("a.rs", &function("long", lines)), (LIST, list)]);
            check(&tree).iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
        };
        let cases = [
            (71, "", "a.rs:1: `long` has 71 lines, and 70 is the limit; split it"),
            (
                80,
                "a.rs long 75",
                "a.rs:1: `long` has grown from 75 to 80 lines, and 70 is the limit; split it",
            ),
            (
                72,
                "a.rs long 75",
                "xtask/long-functions.txt:1: `long` has shrunk to 72 lines; lower its entry from 75 to 72",
            ),
            (
                60,
                "a.rs long 75",
                "xtask/long-functions.txt:1: `long` in a.rs is no longer over 70 lines; remove its entry",
            ),
        ];
        for (lines, list, expected) in cases {
            assert_eq!(check_one(lines, list), expected);
        }
    }
}
