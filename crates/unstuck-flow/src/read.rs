//! Reads single values out of the tree; each reader reports what it expected and what it found.

use unstuck_core::duration::read_duration;
use unstuck_core::time::Millis;

use crate::fields::{self, Field};
use crate::parse::join;
use crate::problem::Problems;
use crate::suggest;
use crate::tree::{Content, Entry, Node, Position};

/// The longest name of a flow, step, action or signal.
const MAX_NAME: usize = unstuck_core::decide::MAX_NAME_BYTES;

/// A value and the path of its field.
#[derive(Clone, Debug)]
pub(crate) struct LocatedNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
}

/// A map whose keys are all known fields, under their own names.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) at: Position,
    pub(crate) path: String,
    entries: Vec<(&'static str, &'a Entry)>,
}

impl<'a> Object<'a> {
    /// Reads a map. Unknown fields are reported with a guess, and left out.
    pub(crate) fn read(
        spot: &LocatedNode<'a>,
        fields: &[Field],
        what: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Object<'a>> {
        let Content::Map(entries) = &spot.node.content else {
            let found = spot.node.word();
            problems
                .error(spot.node.at, &spot.path, format!("{what} is a map, not {found}"))
                .maybe_hint(fields.first().map(|field| format!("write `{}: ...`", field.name)));
            return None;
        };
        let mut object = Object { at: spot.node.at, path: spot.path.clone(), entries: Vec::new() };
        for entry in entries {
            let path = join(&spot.path, &entry.key);
            let Some(name) = fields::find(fields, &entry.key) else {
                let guess = fields::guess_field(fields, &entry.key);
                problems
                    .error(entry.at, path, format!("{what} has no field `{}`", entry.key))
                    .maybe_hint(guess.map(|name| format!("did you mean `{name}`?")));
                continue;
            };
            if object.get(name).is_some() {
                problems.error(entry.at, path, format!("`{name}` is given twice, under two different names"));
                continue;
            }
            object.entries.push((name, entry));
        }
        Some(object)
    }

    /// Returns an object without fields, as if `path` were an empty map.
    pub(crate) fn empty(at: Position, path: &str) -> Object<'a> {
        Object { at, path: path.to_owned(), entries: Vec::new() }
    }

    /// Returns the entry of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|(field, _)| *field == name).map(|(_, entry)| *entry)
    }

    /// Returns the value of a field with its path.
    pub(crate) fn spot(&self, name: &str) -> Option<LocatedNode<'a>> {
        self.get(name).map(|entry| LocatedNode { node: &entry.node, path: join(&self.path, name) })
    }

    /// Iterates over the fields that are given, with the positions of their keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, Position)> {
        self.entries.iter().map(|(name, entry)| (*name, entry.at))
    }
}

impl<'a> LocatedNode<'a> {
    /// Returns the whole of a document.
    pub(crate) fn root(node: &'a Node) -> LocatedNode<'a> {
        LocatedNode { node, path: String::new() }
    }

    /// Reports an error at this value.
    pub(crate) fn refuse<'p>(
        &self,
        problems: &'p mut Problems<'_>,
        message: impl Into<String>,
    ) -> &'p mut crate::problem::Problem {
        problems.error(self.node.at, &self.path, message)
    }

    /// Reports that this value is of the wrong type, with a guess about the cause.
    pub(crate) fn report_expected(&self, problems: &mut Problems<'_>, what: &str) {
        let hint = self.node.text().and_then(|text| hint_about(text, what));
        let found = match &self.node.content {
            Content::Text(text) if hint == Some(UNQUOTE) => format!("`\"{text}\"`"),
            Content::Text(text) => format!("`{}`", shortened(text)),
            Content::Bool(value) => format!("`{value}`"),
            Content::Number(number) => format!("`{number}`"),
            Content::Null | Content::List(_) | Content::Map(_) => self.node.word().to_owned(),
        };
        self.refuse(problems, format!("expected {what}, not {found}")).maybe_hint(hint.map(str::to_owned));
    }

    /// Reads a text that is not blank.
    pub(crate) fn read_text(&self, problems: &mut Problems<'_>) -> Option<&'a str> {
        match self.node.text() {
            Some(text) if !text.trim().is_empty() => Some(text),
            Some(_) => {
                self.refuse(problems, "must not be empty");
                None
            }
            None => {
                self.report_expected(problems, "text");
                None
            }
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn read_boolean(&self, problems: &mut Problems<'_>) -> Option<bool> {
        if let Content::Bool(value) = self.node.content {
            return Some(value);
        }
        self.report_expected(problems, "`true` or `false`");
        None
    }

    /// Reads a whole number of at least `at_least` that fits the type; `what` completes the error message.
    pub(crate) fn read_whole<T: TryFrom<i128>>(
        &self,
        at_least: i128,
        what: &str,
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        if let Content::Number(number) = &self.node.content {
            let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            if let Some(value) = whole.filter(|n| *n >= at_least).and_then(|n| T::try_from(n).ok()) {
                return Some(value);
            }
        }
        self.report_expected(problems, what);
        None
    }

    /// Reads a finite number of at least `at_least`.
    pub(crate) fn read_number(&self, at_least: f64, problems: &mut Problems<'_>) -> Option<f64> {
        if let Content::Number(number) = &self.node.content
            && let Some(value) = number.as_f64().filter(|value| value.is_finite() && *value >= at_least)
        {
            return Some(value);
        }
        self.report_expected(problems, &format!("a number of at least {at_least}"));
        None
    }

    /// Reads a duration: a text or a number of seconds.
    pub(crate) fn read_duration(&self, problems: &mut Problems<'_>) -> Option<Millis> {
        if self.node.text().is_some_and(|text| text.contains("${")) {
            self.report_expected(problems, "a duration");
            return None;
        }
        match read_duration(&self.node.value()) {
            Ok(span) => Some(span),
            Err(message) => {
                self.refuse(problems, message);
                None
            }
        }
    }

    /// Reads a duration above zero.
    pub(crate) fn read_positive_duration(&self, problems: &mut Problems<'_>) -> Option<Millis> {
        let span = self.read_duration(problems)?;
        if span == Millis::ZERO {
            self.refuse(problems, "must be longer than zero").hint("remove the field to use the default");
            return None;
        }
        Some(span)
    }

    /// Reads one of a few words, and returns what it stands for.
    pub(crate) fn read_word<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let Some(text) = self.node.text() else {
            self.report_expected(problems, &suggest::join_words(&names, "or"));
            return None;
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let hint =
            suggest::find_nearest(text, names.iter().copied()).map(|word| format!("did you mean `{word}`?"));
        let expected = format!("expected {}, not `{}`", suggest::join_words(&names, "or"), shortened(text));
        self.refuse(problems, expected).maybe_hint(hint);
        None
    }

    /// Reads a name: a letter, then letters, digits, `_` and `-`.
    pub(crate) fn read_name(&self, what: &str, problems: &mut Problems<'_>) -> Option<&'a str> {
        self.read_word_of(
            what,
            "letters, digits, `_` and `-`",
            |c| c.is_ascii_alphanumeric() || "_-".contains(c),
            problems,
        )
    }

    /// Reads the name of something outside of the flow, which may contain `.`, `:` and `/` too.
    pub(crate) fn read_foreign_name(&self, what: &str, problems: &mut Problems<'_>) -> Option<&'a str> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        self.read_word_of(what, "letters, digits, `_`, `-`, `.`, `:` and `/`", allowed, problems)
    }

    /// Reads a word of `allowed` characters that starts with a letter and is not too long.
    fn read_word_of(
        &self,
        what: &str,
        alphabet: &str,
        allowed: impl Fn(char) -> bool,
        problems: &mut Problems<'_>,
    ) -> Option<&'a str> {
        let text = self.read_text(problems)?;
        if text.len() > MAX_NAME {
            self.refuse(problems, format!("longer than {MAX_NAME} characters"));
            return None;
        }
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) || !text.chars().all(&allowed) {
            let better: String = text.trim().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
            let better = better.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).to_owned();
            let hint = (!better.is_empty()).then(|| format!("for example `{better}`"));
            self.refuse(
                problems,
                format!("`{text}` is not a valid {what}: start with a letter, then use {alphabet}"),
            )
            .maybe_hint(hint);
            return None;
        }
        Some(text)
    }
}

const UNQUOTE: &str = "remove the quotes";

/// Guesses why a text is where something else was expected: an expression, or quotes around a number or boolean.
fn hint_about(text: &str, expected: &str) -> Option<&'static str> {
    if text.contains("${") {
        return Some(
            "expressions are not allowed here, only in `with`, `http`, `set`, `if`, `forEach`, `wait`, `output` and `key`",
        );
    }
    let boolean = expected.contains("`true`");
    match text.to_lowercase().as_str() {
        "yes" | "on" if boolean => Some("write `true`"),
        "no" | "off" if boolean => Some("write `false`"),
        "true" | "false" if boolean => Some(UNQUOTE),
        number if expected.contains("number") && number.parse::<f64>().is_ok() => Some(UNQUOTE),
        _ => None,
    }
}

/// Cuts a text to 60 characters for a message.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}
