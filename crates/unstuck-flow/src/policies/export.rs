//! Policies as the text of a file that loads to the same policies again.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Number, Value};
use unstuck_core::duration::{parse_duration, read_duration};
use unstuck_core::policy::Policy;
use unstuck_core::time::Millis;

/// Policies as YAML, one document each.
pub fn export_yaml(policies: &[Policy]) -> String {
    let documents: Vec<String> = policies.iter().map(yaml).collect();
    documents.join("---\n")
}

/// Policies as a JSON list.
pub fn export_json(policies: &[Policy]) -> String {
    let written: Vec<Written<'_>> = policies.iter().map(Written::of).collect();
    // Only a map with keys that are no texts could fail.
    serde_json::to_string_pretty(&written).unwrap_or_default()
}

/// A policy as it is written, with nothing that would be so anyway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_substring: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action_type: Option<&'a str>,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    back_off: WrittenBackOff,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_fatal: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenBackOff {
    delay: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_delay: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random: Option<bool>,
}

impl Written<'_> {
    fn of(policy: &Policy) -> Written<'_> {
        let back_off = &policy.back_off;
        Written {
            id: &policy.id,
            name: &policy.name,
            error_substring: policy.criteria.error_substring.as_deref(),
            flow: policy.criteria.flow.as_deref(),
            action: policy.criteria.action.as_deref(),
            action_type: policy.criteria.action_type.as_deref(),
            max_attempts: policy.max_attempts,
            priority: policy.is_priority_set.then_some(policy.priority),
            back_off: WrittenBackOff {
                delay: seconds(back_off.delay),
                max_delay: back_off.max_delay.map(seconds),
                multiplier: back_off.multiplier.map(plain_number),
                random: back_off.random.then_some(true),
            },
            enabled: (!policy.enabled).then_some(false),
            include_fatal: policy.include_fatal.then_some(true),
        }
    }
}

/// In seconds, as the numbers of policies are; as a text where a number would not come back as the same.
fn seconds(span: Millis) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "what does not come back as it was is written as a text")]
    let number = match span.0 % 1_000 {
        0 => Value::from(span.0 / 1_000),
        _ => Value::from(span.0 as f64 / 1_000.0),
    };
    if read_duration(&number) == Ok(span) { number } else { Value::from(format!("{}ms", span.0)) }
}

/// Without a fraction where there is none.
fn plain_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < f64::from(i32::MAX) {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and fits")]
        return Value::from(number as i32);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn yaml(policy: &Policy) -> String {
    let written = Written::of(policy);
    let mut text = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{name}: {value}");
        }
    };
    line("id", Some(scalar(written.id)));
    line("name", Some(scalar(written.name)));
    line("errorSubstring", written.error_substring.map(scalar));
    line("flow", written.flow.map(scalar));
    line("action", written.action.map(scalar));
    line("actionType", written.action_type.map(scalar));
    line("maxAttempts", Some(written.max_attempts.to_string()));
    line("priority", written.priority.map(|priority| priority.to_string()));
    line("backOff", Some(back_off(policy, &written.back_off)));
    line("enabled", written.enabled.map(|enabled| enabled.to_string()));
    line("includeFatal", written.include_fatal.map(|include| include.to_string()));
    text
}

fn back_off(policy: &Policy, written: &WrittenBackOff) -> String {
    let mut parts = vec![format!("delay: {}", span(policy.back_off.delay))];
    parts.extend(policy.back_off.max_delay.map(|max_delay| format!("maxDelay: {}", span(max_delay))));
    parts.extend(written.multiplier.as_ref().map(|multiplier| format!("multiplier: {multiplier}")));
    parts.extend(written.random.map(|random| format!("random: {random}")));
    format!("{{{}}}", parts.join(", "))
}

/// As people write it, where that says all of it.
fn span(span: Millis) -> String {
    let shown = span.to_string();
    if parse_duration(&shown) == Ok(span) { shown } else { format!("{}ms", span.0) }
}

/// A text as a YAML scalar: plain where nothing could take it for something else, else in double quotes.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts_as_word = text.starts_with(|c: char| c.is_ascii_alphabetic());
    if text.chars().all(is_plain) && (is_uuid(text) || (starts_as_word && !is_reserved(text))) {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ if c.is_alphanumeric() => quoted.push(c),
            _ if code <= 0xffff => drop(write!(quoted, "\\u{code:04x}")),
            _ => drop(write!(quoted, "\\U{code:08x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Words that some reader of YAML takes for something other than a text.
fn is_reserved(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];
    words.contains(&text.to_lowercase().as_str())
}

/// As generated ids are: no number looks like it.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}
