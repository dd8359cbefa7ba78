//! Text for a terminal: how wide it is, where it is cut, where it is broken.

use std::collections::BTreeMap;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text without what would steer a terminal: what steps and files say is shown, and never obeyed.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Control characters, and those that turn the direction of what follows.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text on one line of at most `width` columns, with an ellipsis where it was cut.
pub(crate) fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(ellipsis));
    let mut short = upto(text, room).trim_end().to_owned();
    short.push_str(upto(ellipsis, width));
    short
}

/// The text in lines of at most `width` columns, broken between words where that is possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if columns(&line) + 1 + columns(word) <= width && !line.is_empty() {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        // A word that is longer than a line is broken, and a character that is wider than a line is not.
        for c in word.chars() {
            if columns(&line) + c.width().unwrap_or(0) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// The longest beginning of the text that takes at most `width` columns.
fn upto(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (place, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return &text[..place];
        }
    }
    text
}

/// Labels on one line.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// A sentence with its full stop, which it may have already.
pub(crate) fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The text with a capital at its beginning.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A word as a shell takes it.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_word_for_a_shell() {
        let cases = [("/srv/a-b", "/srv/a-b"), ("/a b", "'/a b'"), ("it's", r"'it'\''s'"), ("", "''")];
        for (word, wanted) in cases {
            assert_eq!(shell_word(word), wanted);
        }
    }

    #[test]
    fn a_text_is_cut_with_an_ellipsis() {
        let cases = [
            ("short", 10, "short"),
            ("exactly ten", 11, "exactly ten"),
            ("rather too long", 10, "rather to…"),
            ("ends in a blank", 7, "ends i…"),
            ("with a blank", 6, "with…"),
            ("漢字漢字", 5, "漢字…"),
            ("anything", 1, "…"),
            ("anything", 0, ""),
        ];
        for (text, width, wanted) in cases {
            assert_eq!(cut(text, width, "…"), wanted, "{text} in {width}");
        }
        assert_eq!(cut("rather too long", 10, "..."), "rather...");
    }

    #[test]
    fn a_text_is_broken_between_words() {
        let cases: [(&str, usize, &[&str]); 6] = [
            ("one two three", 20, &["one two three"]),
            ("one two three", 8, &["one two", "three"]),
            ("one two three", 5, &["one", "two", "three"]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("see abcdefghij now", 6, &["see", "abcdef", "ghij", "now"]),
            ("", 5, &[""]),
        ];
        for (text, width, wanted) in cases {
            assert_eq!(wrap(text, width), wanted, "{text} in {width}");
        }
        assert_eq!(wrap("漢", 1), ["漢"]);
    }

    #[test]
    fn a_sentence_has_one_full_stop_and_a_capital() {
        for (text, wanted) in [("it is held", "it is held."), ("Idle.", "Idle."), ("why?", "why?")] {
            assert_eq!(sentence(text), wanted);
        }
        for (text, wanted) in [("added", "Added"), ("\u{e9}tat", "\u{c9}tat"), ("", "")] {
            assert_eq!(capitalised(text), wanted);
        }
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(visible("a\u{1b}[31mb\u{7}\u{202e}c\td"), "a\u{fffd}[31mb\u{fffd}\u{fffd}c\u{fffd}d");
    }
}
