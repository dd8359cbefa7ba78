//! Parts of messages: lists of names, the name that was meant, shortened texts.

use crate::suggest;

/// Lists the first few names in backticks, and how many more there are.
pub(super) fn list_names<'k>(names: impl ExactSizeIterator<Item = &'k str>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).map(|name| format!("`{}`", shortened(name, 40))).collect();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// Finds the name that `word` was probably meant to be. Single letters are too near to each other to guess.
pub(super) fn find_similar_name<'k>(word: &str, names: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.chars().count() > 1 { suggest::nearest(word, names) } else { None }
}

/// Cuts a text to `length` characters.
pub(super) fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Puts a piece of source on one line and shortens it.
pub(super) fn one_line(source: &str) -> String {
    let words: Vec<&str> = source.split_whitespace().collect();
    shortened(&words.join(" "), 80)
}

const SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        assert_eq!(list_names(names[..2].iter().copied()), "`a`, `b`");
        assert_eq!(list_names(names.iter().copied()), "`a`, `b`, `c`, `d`, `e`, `f`, `g`, `h` and 2 more");
    }

    #[test]
    fn a_slip_is_more_than_one_letter() {
        assert_eq!(find_similar_name("inptu", ["input", "run"]), Some("input"));
        assert_eq!(find_similar_name("y", ["x"]), None);
    }
}
