//! References to secrets in stored values: a value that refers to secrets is kept with references, never with what they are.
//!
//! In such a value `${secrets.NAME}` in a text is a reference, and `$$` is a `$`. Whoever makes the value escapes every text
//! that came from elsewhere, so that no input of a run can become a reference. A `$` that is followed by anything else than
//! `$`, `{` or the end stays as it is. Values that refer to no secret are not in this form.

use std::borrow::Cow;

use serde_json::Value;

/// A part of a text that may refer to secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPart<'a> {
    Text(Cow<'a, str>),
    /// The name of a secret.
    Reference(&'a str),
}

const OPEN: &str = "${secrets.";

/// The longest name of a secret.
pub const MAX_SECRET_NAME: usize = 100;

/// Returns whether a secret can have this name: a letter or `_`, then letters, digits and `_`. It names a variable of the
/// environment and a file.
pub fn is_secret_name(name: &str) -> bool {
    name.len() <= MAX_SECRET_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the reference to a secret.
pub fn reference(name: &str) -> String {
    format!("{OPEN}{name}}}")
}

/// Escapes a text, so that it refers to nothing whatever stands before or after it.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains('$') {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 4);
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        escaped.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        if rest.is_empty() || rest.starts_with(['$', '{']) {
            escaped.push('$');
        }
    }
    escaped.push_str(rest);
    Cow::Owned(escaped)
}

/// Escapes every text of a value. Keys hold no references, so that they stay as they are.
pub fn escape_value(value: Value) -> Value {
    match value {
        Value::String(text) => match escape(&text) {
            Cow::Borrowed(_) => Value::String(text),
            Cow::Owned(escaped) => Value::String(escaped),
        },
        Value::Array(items) => items.into_iter().map(escape_value).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (key, escape_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Splits a text of this form into what stands there and what it refers to.
pub fn parse(text: &str) -> Vec<SecretPart<'_>> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((name, after)) = parse_reference(rest) {
            if !plain.is_empty() {
                parts.push(SecretPart::Text(Cow::Owned(std::mem::take(&mut plain))));
            }
            parts.push(SecretPart::Reference(name));
            rest = after;
            continue;
        }
        plain.push('$');
        rest = rest.strip_prefix("$$").unwrap_or(&rest[1..]);
    }
    if plain.is_empty() && !rest.is_empty() {
        parts.push(SecretPart::Text(Cow::Borrowed(rest)));
    } else if !plain.is_empty() {
        plain.push_str(rest);
        parts.push(SecretPart::Text(Cow::Owned(plain)));
    }
    parts
}

/// Returns the name that a reference at the start of a text names, and what follows it.
fn parse_reference(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix(OPEN)?.split_once('}')?;
    is_secret_name(name).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> String {
        let part = |part: &SecretPart<'_>| match part {
            SecretPart::Text(text) => text.clone().into_owned(),
            SecretPart::Reference(name) => format!("<{name}>"),
        };
        parse(text).iter().map(part).collect()
    }

    #[test]
    fn references_are_told_from_text() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("${secrets.A}", "<A>"),
            ("Bearer ${secrets.TOKEN}!", "Bearer <TOKEN>!"),
            ("${secrets.A}${secrets.B_2}", "<A><B_2>"),
            ("$${secrets.A}", "${secrets.A}"),
            ("$$${secrets.A}", "$<A>"),
            ("$5 and $$", "$5 and $"),
            ("${secrets.}", "${secrets.}"),
            ("${secrets.a-b}", "${secrets.a-b}"),
            ("${secrets.A", "${secrets.A"),
            ("${input.a}", "${input.a}"),
            ("$", "$"),
        ];
        for (text, expected) in cases {
            assert_eq!(joined(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_escaped_refers_to_nothing_and_is_the_same_again() {
        let pieces = ["$", "{", "secrets.A", "}", "x", "$$", "${secrets.A}"];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let text = format!("{first}{second}{third}");
                    let escaped = escape(&text).into_owned();
                    assert_eq!(joined(&escaped), text, "{text}");
                    // Whatever stands before and after it.
                    let between = format!("{escaped}{}{escaped}", reference("B"));
                    assert_eq!(joined(&between), format!("{text}<B>{text}"), "{text}");
                    assert_eq!(joined(&format!("{}{{", escape(&text))), format!("{text}{{"), "{text}");
                }
            }
        }
        assert_eq!(escape("$5 a$b"), "$5 a$b", "what cannot be mistaken is left alone");
    }

    #[test]
    fn names_are_those_of_variables() {
        for name in ["A", "_a", "API_TOKEN2"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["", "2a", "a-b", "a.b", "ä", "../a", &"a".repeat(101)] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
