//! `unstuck policy suggest`: a policy for a group of errors, as a file.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use unstuck_core::duration::read_duration;
use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};
use unstuck_flow::policies::{BackOffDocument, PolicyDocument};

use super::trial::{self, When};
use super::words::count;
use crate::desk::asked::{Reading, TrialOf, Tried};
use crate::desk::errors::{GroupLine, GroupPage};
use crate::desk::policies::PolicyLine;
use crate::desk::trial::Trial;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreArgument;
use crate::{Done, Format, json_text, text};

/// Write a policy for a group of errors: a file to look at, change and load.
///
/// The file goes to stdout, what the policy would do to what is in error now to stderr. Nothing is changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The group of errors, as `unstuck errors` shows it, or the beginning of its name.
    group: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy suggest err_3f2a9c1e0b44 > reset.yaml
  unstuck policy load reset.yaml";

/// A fixed part of a pattern that is shorter says nothing.
const SHORTEST: usize = 4;
/// The name of a policy is made of so many words of the cause.
const WORDS: usize = 5;

/// What is suggested, for programs.
#[derive(Serialize)]
struct Suggestion<'a> {
    policy: &'a PolicyDocument,
    preview: Option<&'a Trial>,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        let page: GroupPage = place.read(Reading::ErrorGroup { group: self.group })?.read()?;
        let known: Vec<PolicyLine> = place.read(Reading::Policies)?.read()?;
        let names: Vec<&str> = known.iter().map(|line| line.policy.name.as_str()).collect();
        let policy = policy_for(&page.line, &names);
        let of = TrialOf { policies: Tried::Drafts(vec![draft(&policy)]), past: None };
        let trials: Vec<Trial> = place.read(Reading::Trial(of))?.read()?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let suggestion = Suggestion { policy: &policy, preview: trials.first() };
                let json =
                    serde_json::to_string(&suggestion).map_err(|error| Failure::new(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => {
                stdout.text(&format!("{}{}", comment(&page.line), policy.to_yaml()));
                let mut stderr = Output::stderr();
                for found in &trials {
                    trial::show(found, When::Now, &mut stderr);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the group is, at the head of the file.
fn comment(group: &GroupLine) -> String {
    let flows: Vec<String> =
        group.flows.iter().map(|flow| format!("{} in {}", flow.count, flow.flow)).collect();
    let text = [
        format!("{}: {}", group.group, group.pattern),
        format!(
            "{} ({}), the last at {:.0}",
            count(group.count, "error", "errors"),
            flows.join(", "),
            group.last
        ),
    ];
    let lines: Vec<String> = text.iter().map(|line| format!("# {}\n", text::visible(line))).collect();
    lines.concat()
}

/// A policy for a group: for its action, and for the longest part of the cause that does not change.
fn policy_for(group: &GroupLine, taken: &[&str]) -> PolicyDocument {
    let causes: Vec<&str> = group.examples.iter().map(|example| example.cause.as_str()).collect();
    let fixed = fixed_part(&group.pattern, &causes);
    let is_fatal = !group.examples.is_empty() && group.examples.iter().all(|example| example.fatal);
    PolicyDocument {
        id: None,
        name: name_for(fixed.as_deref().unwrap_or(&group.action), taken),
        error_substring: fixed,
        flow: None,
        action: Some(group.action.clone()),
        action_type: None,
        max_attempts: 5,
        priority: None,
        back_off: BackOffDocument {
            delay: json!(60),
            max_delay: Some(json!(600)),
            multiplier: Some(json!(2)),
            random: None,
        },
        enabled: None,
        include_fatal: is_fatal.then_some(true),
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

/// As it would be loaded.
fn draft(policy: &PolicyDocument) -> PolicyDraft {
    let ms =
        |written: &serde_json::Value| read_duration(written).ok().and_then(|span| i64::try_from(span.0).ok());
    PolicyDraft {
        id: None,
        name: Some(policy.name.as_str().into()),
        criteria: Criteria {
            error_substring: policy.error_substring.as_deref().map(Into::into),
            flow: policy.flow.as_deref().map(Into::into),
            action: policy.action.as_deref().map(Into::into),
            action_type: policy.action_type.as_deref().map(Into::into),
        },
        max_attempts: Some(i64::from(policy.max_attempts)),
        priority: policy.priority,
        back_off: Some(DraftBackOff {
            delay: ms(&policy.back_off.delay),
            max_delay: policy.back_off.max_delay.as_ref().and_then(ms),
            multiplier: policy.back_off.multiplier.as_ref().and_then(serde_json::Value::as_f64),
            random: policy.back_off.random.unwrap_or(false),
        }),
        enabled: None,
        include_fatal: policy.include_fatal,
    }
}

#[cfg(test)]
mod tests {
    use unstuck_core::fingerprint::pattern;

    use super::*;

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
