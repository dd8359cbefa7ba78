//! Rule: a link in a page points to a file, a folder and a heading that exist.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::repo::Tree;

/// Looks at every relative link of every page.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree.files.iter().filter(|file| is_page(&file.path));
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.clone().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut violations = Vec::new();
    for page in pages {
        for (line, target) in links(&page.text).into_iter().filter(|(_, target)| is_relative(target)) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, path) };
            let Some(file) = file.filter(|file| exists(tree, file)) else {
                let wrong = format!("the link `{target}` points to no file");
                violations.push(Violation::new(&page.path, line, wrong, "correct the path"));
                continue;
            };
            let headings = anchors.get(file.as_str());
            if !anchor.is_empty() && !headings.is_some_and(|headings| headings.contains(anchor)) {
                let wrong = format!("the link `{target}` points to no heading of {file}");
                violations.push(Violation::new(&page.path, line, wrong, "correct the part after `#`"));
            }
        }
    }
    violations
}

fn is_page(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension == "md")
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty() || tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

/// The path in the repository; `None` where it leads out of it.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a page that are no code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!is_fence && !in_code).then_some((index + 1, line))
    })
}

/// What stands between `](` and `)`, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_inline_code(line);
        for (at, start) in line.match_indices("](") {
            if let Some((target, _)) = line[at + start.len()..].split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

fn without_inline_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The anchors of the headings, as GitHub makes them: a heading that comes again gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let anchor = |(_, line): (usize, &str)| {
        let name = slug(line.trim_start_matches('#').trim());
        let before = seen.entry(name.clone()).or_default();
        *before += 1;
        if *before > 1 { format!("{name}-{}", *before - 1) } else { name }
    };
    headings.map(anchor).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_places;

    #[test]
    fn which_links_lead_somewhere() {
        let cases: [(&str, &[&str]); 12] = [
            ("[a](other.md), [b](../README.md#first-things), [c](../src/a.rs), [d](../src)", &[]),
            ("[a](#own-heading)\n## Own heading", &[]),
            ("[a](https://example.org/x#y) and [b](mailto:ann@example.org)", &[]),
            ("[a](missing.md)", &["docs/page.md:1"]),
            ("fine\n[a](other.md) [b](../other.md)", &["docs/page.md:2"]),
            ("[a](../../README.md)", &["docs/page.md:1"]),
            ("[a](#no-heading)", &["docs/page.md:1"]),
            ("[a](other.md#run-it-again-now)", &[]),
            ("[a](other.md#run)", &["docs/page.md:1"]),
            ("[a](other.md#twice-1) [b](other.md#twice-2)", &["docs/page.md:1"]),
            ("```\n[a](missing.md)\n```\nand `[a](missing.md)`, but [b](missing.md)", &["docs/page.md:4"]),
            ("[a](other.md#no-heading-but-a-comment)", &["docs/page.md:1"]),
        ];
        for (text, expected) in cases {
            let tree = Tree::of(&[
                ("README.md", "# First things"),
                (
                    "docs/other.md",
                    "## Run it again, `now`\n## Twice\n## Twice\n```\n# no heading but a comment\n```",
                ),
                ("docs/page.md", text),
                ("src/a.rs", "//! A."),
            ]);
            assert_places(text, &check(&tree), expected);
        }
    }
}
