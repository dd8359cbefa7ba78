//! A policy for a kind of error: what somebody would write who has seen a few of them.

use crate::policy::{Criteria, DraftBackOff, PolicyDraft};

/// A fixed part of a pattern that is shorter says nothing.
const SHORTEST: usize = 4;
/// The name of a policy is made of so many words of the cause.
const WORDS: usize = 5;

/// A policy for the errors of an action that have this pattern, such as these causes: for the longest part of them that
/// does not change. Its name is none of those that are taken.
pub fn suggest(action: &str, pattern: &str, causes: &[&str], is_fatal: bool, taken: &[&str]) -> PolicyDraft {
    let fixed = fixed_part(pattern, causes);
    PolicyDraft {
        name: Some(name_for(fixed.as_deref().unwrap_or(action), taken).into()),
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
        include_fatal: is_fatal.then_some(true),
        ..PolicyDraft::default()
    }
}

/// The longest part of a pattern that stands for itself, and that every one of these causes has.
fn fixed_part(pattern: &str, causes: &[&str]) -> Option<String> {
    let mut rest = pattern.to_owned();
    for hole in ["<n>", "<id>", "<time>", "<address>", "*"] {
        rest = rest.replace(hole, "\u{2026}");
    }
    let whole = rest.split('\u{2026}');
    // Where a cause is broken into lines, only its words are as they are in the pattern.
    let parts = whole.clone().chain(whole.flat_map(str::split_whitespace));
    let parts =
        parts.map(|part| part.trim().trim_matches(['"', '\'', '`', '“', '”', '‘', '’', '«', '»']).trim());
    let fits =
        |part: &&str| part.chars().count() >= SHORTEST && causes.iter().all(|cause| cause.contains(part));
    // Of several of the same length, the first.
    let longest = parts.filter(fits).fold(None, |longest: Option<&str>, part| match longest {
        Some(longest) if longest.chars().count() >= part.chars().count() => Some(longest),
        Some(_) | None => Some(part),
    });
    longest.map(str::to_owned)
}

/// `resume-connection-refused`, with a number where that is taken.
fn name_for(cause: &str, taken: &[&str]) -> String {
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
    use crate::fingerprint::pattern;

    #[test]
    fn the_longest_fixed_part_is_found() {
        let cases = [
            ("connection refused", Some("connection refused")),
            ("HTTP 503 from 10.0.0.1", Some("HTTP")),
            ("no answer from 10.0.3.7:5432 in time", Some("no answer from")),
            ("can't open 'a file.txt': no such file", Some(": no such file")),
            ("order 17 failed: order 18 failed", Some("failed: order")),
            ("two\n   lines\t here", Some("lines")),
            ("17", None),
            ("", None),
            ("rate 5", Some("rate")),
        ];
        for (cause, wanted) in cases {
            assert_eq!(fixed_part(&pattern(cause), &[cause]).as_deref(), wanted, "{cause:?}");
        }
        // A star that the cause itself has is no hole, but it is taken for one.
        assert_eq!(fixed_part("a * in the middle", &["a * in the middle"]).as_deref(), Some("in the middle"));
        let several = ["disk 1 of web is full", "disk 2 of web is full up"];
        assert_eq!(fixed_part("disk <n> of web is full", &several).as_deref(), Some("of web is full"));
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
            assert_eq!(name_for(cause, taken), wanted);
        }
    }
}
