//! Pieces of sentences: the names there are, the name that was meant, a text cut short.

use crate::suggest;

/// The first few of `names`, each in backticks.
pub(super) fn listed<'k>(names: impl ExactSizeIterator<Item = &'k str>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).map(|name| format!("`{}`", shortened(name, 40))).collect();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// The one of `names` that `word` is probably a slip of; a single letter is near to every other one.
pub(super) fn meant<'k>(word: &str, names: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.chars().count() > 1 { suggest::nearest(word, names) } else { None }
}

/// The beginning of `text`, at most `length` characters of it.
pub(super) fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A piece of source.
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
        assert_eq!(listed(names[..2].iter().copied()), "`a`, `b`");
        assert_eq!(listed(names.iter().copied()), "`a`, `b`, `c`, `d`, `e`, `f`, `g`, `h` and 2 more");
    }

    #[test]
    fn a_slip_is_more_than_one_letter() {
        assert_eq!(meant("inptu", ["input", "run"]), Some("input"));
        assert_eq!(meant("y", ["x"]), None);
    }
}
