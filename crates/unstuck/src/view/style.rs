//! Colours, and when there are any.

use std::fmt::Display;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

use crate::view::text::visible;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BUSY: Style = AnsiColor::Cyan.on_default();
pub(crate) const LATER: Style = AnsiColor::Yellow.on_default();
pub(crate) const ASKS: Style = AnsiColor::Magenta.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Returns the colour of a state of a run or step.
pub(crate) fn style_of_word(word: &str) -> Style {
    match word {
        "running" | "active" | "ready" => BUSY,
        "waiting" => LATER,
        "error" | "failed" | "cancelled" => BAD,
        "held" | "paused" | "idle" => ASKS,
        "completed" => GOOD,
        "queued" | "pending" | "skipped" | "dropped" | "superseded" => DIM,
        _ => Style::new(),
    }
}

/// What the other end of a stream can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether text may be coloured.
    pub(crate) colour: bool,
    /// Whether lines may be drawn again in place.
    pub(crate) live: bool,
    /// Whether it shows more than ASCII.
    pub(crate) unicode: bool,
}

impl Look {
    /// Text and nothing else.
    pub(crate) const PLAIN: Look = Look { colour: false, live: false, unicode: true };

    /// What this stream can show: nothing but text where it is no terminal, no colours where `NO_COLOR` is set.
    pub(crate) fn of(stream: &impl IsTerminal) -> Look {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let term = std::env::var("TERM").unwrap_or_default();
        if !stream.is_terminal() || term.is_empty() || term == "dumb" {
            return Look::PLAIN;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Look { colour: !set("NO_COLOR"), live: true, unicode: shows_unicode(&term, locale.as_deref()) }
    }

    /// Returns the text in this style, without control characters; unstyled where colours are off.
    pub(crate) fn paint(self, style: Style, text: impl Display) -> String {
        let text = visible(&text.to_string());
        if self.colour { format!("{style}{text}{style:#}") } else { text }
    }
}

/// Returns whether the terminal shows Unicode: the Linux console has few glyphs, and a locale other than UTF-8 has
/// none.
fn shows_unicode(term: &str, locale: Option<&str>) -> bool {
    let utf8 = |locale: &str| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    term != "linux" && locale.is_none_or(utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_is_shown_unless_the_terminal_or_the_locale_says_otherwise() {
        let cases = [
            ("xterm", None, true),
            ("xterm", Some("en_GB.UTF-8"), true),
            ("xterm", Some("C.utf8"), true),
            ("xterm", Some("C"), false),
            ("xterm", Some("de_DE.ISO-8859-1"), false),
            ("linux", Some("en_GB.UTF-8"), false),
        ];
        for (term, locale, shown) in cases {
            assert_eq!(shows_unicode(term, locale), shown, "{term} {locale:?}");
        }
    }

    #[test]
    fn text_is_coloured_only_where_there_are_colours_and_never_steers_the_terminal() {
        let colourful = Look { colour: true, ..Look::PLAIN };
        assert_eq!(colourful.paint(GOOD, "ok"), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(Look::PLAIN.paint(GOOD, "ok"), "ok");
        assert_eq!(Look::PLAIN.paint(GOOD, "o\u{1b}[2Jk"), "o\u{fffd}[2Jk");
    }
}
