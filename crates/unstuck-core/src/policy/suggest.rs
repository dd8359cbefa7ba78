//! Suggests a policy for a group of errors, as an operator who has seen a few of them would write it.

use std::fmt;

use crate::policy::{Criteria, DraftBackOff, PolicyDraft};

/// The shortest fixed part of a pattern that says anything.
const SHORTEST: usize = 4;
/// How many words of the cause make the name of a policy.
const WORDS: usize = 5;

/// Exceptions that mean a bug in the program: another attempt ends the same way.
const MISTAKES: [&str; 40] = [
    "ArgumentError",
    "ArgumentException",
    "ArgumentNullException",
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "AssertionError",
    "AttributeError",
    "ClassCastException",
    "ClassNotFoundException",
    "FormatException",
    "IllegalArgumentException",
    "ImportError",
    "IndentationError",
    "IndexError",
    "IndexOutOfBoundsException",
    "InvalidCastException",
    "KeyError",
    "ModuleNotFoundError",
    "NameError",
    "NoClassDefFoundError",
    "NoMethodError",
    "NoSuchFieldError",
    "NoSuchMethodError",
    "NotImplementedError",
    "NotImplementedException",
    "NullPointerException",
    "NullReferenceException",
    "NumberFormatException",
    "RangeError",
    "RecursionError",
    "ReferenceError",
    "StringIndexOutOfBoundsException",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
    "UndefinedMethodError",
    "UnsupportedOperationException",
    "ValueError",
    "ZeroDivisionError",
    "panicked",
];

/// Why no policy is suggested: retrying cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSuggested {
    /// The worker called the errors fatal.
    Fatal,
    /// The input is at fault.
    Data,
    /// The program is wrong, by the name of this exception.
    Mistake(&'static str),
}

impl fmt::Display for NotSuggested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSuggested::Fatal => {
                f.write_str("the worker reports these errors as fatal, so another attempt would fail too")
            }
            NotSuggested::Data => {
                f.write_str("the input is wrong, so another attempt would fail too; correct the input")
            }
            NotSuggested::Mistake(name) => write!(
                f,
                "`{name}` is a bug in the program, so another attempt would fail too; fix the program"
            ),
        }
    }
}

/// Errors of one kind, as far as a suggestion needs them.
#[derive(Clone, Copy, Debug)]
pub struct ErrorSample<'a> {
    /// The full name of the action.
    pub action: &'a str,
    /// What their causes have in common.
    pub pattern: &'a str,
    /// Some of the causes.
    pub causes: &'a [&'a str],
    /// Whether all of them were called fatal.
    pub is_fatal: bool,
    /// Whether the input is at fault in all of them.
    pub is_data: bool,
}

/// Returns why another attempt would fail too, if so: the data is wrong, the program has a bug, or the worker says so.
pub fn why_retry_cannot_help(seen: &ErrorSample<'_>) -> Option<NotSuggested> {
    if seen.is_data {
        return Some(NotSuggested::Data);
    }
    let named = |word: &str| MISTAKES.into_iter().find(|known| *known == word);
    let mut words = seen.pattern.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mistake = words.find_map(named).map(NotSuggested::Mistake);
    mistake.or_else(|| seen.is_fatal.then_some(NotSuggested::Fatal))
}

/// Suggests a policy for these errors: it matches the longest part of their causes that does not change. Its name
/// differs from those `taken`.
pub fn suggest(seen: &ErrorSample<'_>, taken: &[&str]) -> Result<PolicyDraft, NotSuggested> {
    if let Some(why) = why_retry_cannot_help(seen) {
        return Err(why);
    }
    let ErrorSample { action, pattern, causes, .. } = *seen;
    let fixed = longest_fixed_part(pattern, causes);
    Ok(PolicyDraft {
        name: Some(free_policy_name(fixed.as_deref().unwrap_or(action), taken).into()),
        criteria: Criteria {
            error_substring: fixed.map(Into::into),
            action: Some(action.into()),
            ..Criteria::default()
        },
        max_attempts: Some(5),
        back_off: Some(DraftBackOff {
            delay: Some(60_000),
            max_delay: Some(600_000),
            multiplier: Some(2.0),
            random: false,
        }),
        ..PolicyDraft::default()
    })
}

/// Returns the longest part of a pattern that is not masked and that all of these causes contain.
fn longest_fixed_part(pattern: &str, causes: &[&str]) -> Option<String> {
    let mut rest = pattern.to_owned();
    for hole in ["<n>", "<id>", "<time>", "<address>", "*"] {
        rest = rest.replace(hole, "\u{2026}");
    }
    let whole = rest.split('\u{2026}');
    // A cause with line breaks contains only single words of the pattern literally.
    let parts = whole.clone().chain(whole.flat_map(str::split_whitespace));
    let parts =
        parts.map(|part| part.trim().trim_matches(['"', '\'', '`', '“', '”', '‘', '’', '«', '»']).trim());
    let fits =
        |part: &&str| part.chars().count() >= SHORTEST && causes.iter().all(|cause| cause.contains(part));
    // Of several parts of the same length, the first.
    let longest = parts.filter(fits).fold(None, |longest: Option<&str>, part| match longest {
        Some(longest) if longest.chars().count() >= part.chars().count() => Some(longest),
        Some(_) | None => Some(part),
    });
    longest.map(str::to_owned)
}

/// Makes a name such as `resume-connection-refused` from the cause, with a number if it is taken.
fn free_policy_name(cause: &str, taken: &[&str]) -> String {
    let words = cause.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.take(WORDS).map(str::to_lowercase).collect();
    let name = if words.is_empty() { "resume".to_owned() } else { format!("resume-{}", words.join("-")) };
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !taken.contains(&name.as_str())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::mask_variable_parts;

    #[test]
    fn the_longest_fixed_part_is_found() {
        let cases = [
            ("connection refused", Some("connection refused")),
            ("HTTP 503 from 10.0.0.1", Some("HTTP 503 from")),
            ("no answer from 10.0.3.7:5432 in time", Some("no answer from")),
            ("can't open 'a file.txt': no such file", Some(": no such file")),
            ("order 17 failed: order 18 failed", Some("failed: order")),
            ("two\n   lines\t here", Some("lines")),
            ("17", None),
            ("", None),
            ("rate 5", Some("rate")),
        ];
        for (cause, wanted) in cases {
            assert_eq!(
                longest_fixed_part(&mask_variable_parts(cause), &[cause]).as_deref(),
                wanted,
                "{cause:?}"
            );
        }
        // A star that the cause itself has is no hole, but it is taken for one.
        assert_eq!(
            longest_fixed_part("a * in the middle", &["a * in the middle"]).as_deref(),
            Some("in the middle")
        );
        let several = ["disk 1 of web is full", "disk 2 of web is full up"];
        assert_eq!(
            longest_fixed_part("disk <n> of web is full", &several).as_deref(),
            Some("of web is full")
        );
    }

    #[test]
    fn nothing_is_suggested_where_retrying_cannot_help() {
        let seen = |cause: &'static str, is_fatal, is_data| {
            let pattern = mask_variable_parts(cause);
            let seen = ErrorSample { action: "f.a", pattern: &pattern, causes: &[cause], is_fatal, is_data };
            suggest(&seen, &[]).map(|_| ())
        };
        let cases = [
            ("connection refused", false, false, Ok(())),
            ("HTTP 404", false, false, Ok(())),
            ("connection refused", true, false, Err(NotSuggested::Fatal)),
            ("no such column", false, true, Err(NotSuggested::Data)),
            ("TypeError: x is not a function", false, false, Err(NotSuggested::Mistake("TypeError"))),
            (
                "java.lang.NullPointerException",
                true,
                false,
                Err(NotSuggested::Mistake("NullPointerException")),
            ),
            ("KeyError: 'order'", false, false, Err(NotSuggested::Mistake("KeyError"))),
            ("thread 'main' panicked at src/a.rs:1:1", false, false, Err(NotSuggested::Mistake("panicked"))),
            ("MyTypeError happened", false, false, Ok(())),
        ];
        for (cause, is_fatal, is_data, wanted) in cases {
            assert_eq!(seen(cause, is_fatal, is_data), wanted, "{cause}");
        }
    }

    #[test]
    fn a_name_is_made_of_the_cause_and_is_free() {
        let cases: [(&str, &[&str], &str); 5] = [
            ("Connection refused!", &[], "resume-connection-refused"),
            ("Connection refused", &["resume-connection-refused"], "resume-connection-refused-2"),
            ("a b", &["resume-a-b", "resume-a-b-2"], "resume-a-b-3"),
            ("one two three four five six seven", &[], "resume-one-two-three-four-five"),
            ("漢字", &[], "resume"),
        ];
        for (cause, taken, wanted) in cases {
            assert_eq!(free_policy_name(cause, taken), wanted);
        }
    }
}
