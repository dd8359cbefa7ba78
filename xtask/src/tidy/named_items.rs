//! What ARCHITECTURE.md names with a link to a file of ours is in that file: the walk through the code stays true.

use std::path::Path;

use super::Violation;

const PAGE: &str = "ARCHITECTURE.md";
/// What an item begins with.
const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "mod", "macro_rules!"];

/// Every link of the page whose text is code and whose target is a Rust file.
pub(super) fn check(root: &Path) -> Vec<Violation> {
    let Ok(text) = std::fs::read_to_string(root.join(PAGE)) else {
        return vec![Violation::new(PAGE, 1, "cannot be read", "write it")];
    };
    let lines =
        text.lines().enumerate().flat_map(|(place, line)| links(line).map(move |link| (place + 1, link)));
    lines.filter_map(|(line, (name, path))| missing(root, line, name, path)).collect()
}

/// The links of a line with code as their text: the code, and the Rust file.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("[`").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("`](")?;
        let (path, _) = rest.split_once(')')?;
        Path::new(path).extension().is_some_and(|end| end == "rs").then_some((name, path))
    })
}

fn missing(root: &Path, line: usize, name: &str, path: &str) -> Option<Violation> {
    let Ok(code) = std::fs::read_to_string(root.join(path)) else {
        let wrong = format!("names `{path}`, which is not there");
        return Some(Violation::new(PAGE, line, wrong, "name the file where it is now"));
    };
    let item = name.rsplit("::").next().unwrap_or(name);
    let is_file = Path::new(path).file_stem().is_some_and(|stem| stem == item || path.ends_with(item));
    let is_item = is_file || has_item(&code, item);
    // A folder is named by the file that opens it.
    let is_folder = item.ends_with('/');
    (!is_item && !is_folder).then(|| {
        let wrong = format!("says that `{item}` is in {path}, where it is not");
        Violation::new(PAGE, line, wrong, "name the function and its file as they are now")
    })
}

fn has_item(code: &str, item: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    KEYWORDS.iter().any(|keyword| {
        let wanted = format!("{keyword} {item}");
        code.match_indices(&wanted).any(|(place, _)| ends(&code[place + wanted.len()..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_code_are_found_and_others_are_not() {
        let line = "see [`decide`](a/decide.rs), [docs](docs/x.md) and [`Batch::look`](b.rs)";
        assert_eq!(links(line).collect::<Vec<_>>(), [("decide", "a/decide.rs"), ("Batch::look", "b.rs")]);
    }

    #[test]
    fn an_item_is_found_by_its_whole_name() {
        let code = "pub(crate) fn decide_report(x: u8) {}\nstruct Batch;";
        let cases =
            [("decide_report", true), ("decide", false), ("Batch", true), ("Bat", false), ("report", false)];
        for (item, is_there) in cases {
            assert_eq!(has_item(code, item), is_there, "{item}");
        }
    }
}
