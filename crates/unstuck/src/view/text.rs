//! Text for a terminal: its width, where it is cut, where it is wrapped.

use std::collections::BTreeMap;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces control characters, so that texts of steps and files cannot control the terminal.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if is_control_or_bidi(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns whether a character controls the terminal or the direction of text.
fn is_control_or_bidi(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns how many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Cuts a text to `width` columns, with an ellipsis if something was cut.
pub(crate) fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(ellipsis));
    let mut short = prefix_of_width(text, room).trim_end().to_owned();
    short.push_str(prefix_of_width(ellipsis, width));
    short
}

/// Wraps a text to lines of at most `width` columns, between words where possible.
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

/// Returns the longest prefix of at most `width` columns.
fn prefix_of_width(text: &str, width: usize) -> &str {
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

/// Adds a full stop unless the text ends with one.
pub(crate) fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The text with a capital at its beginning.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Quotes a word for a shell if it needs it.
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
