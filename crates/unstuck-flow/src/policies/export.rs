//! Formats policies as text that loads to the same policies again.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Number, Value};
use unstuck_api::policies::{BackOffDocument, PolicyDocument};
use unstuck_core::duration::{parse_duration, read_duration};
use unstuck_core::policy::{Policy, PolicyDraft, PolicyProblem};
use unstuck_core::time::Millis;

/// Formats policies as YAML, one document each.
pub fn export_yaml(policies: &[PolicyDocument]) -> String {
    let documents: Vec<String> = policies.iter().map(to_yaml).collect();
    documents.join("---\n")
}

/// Formats policies as a JSON list.
pub fn export_json(policies: &[PolicyDocument]) -> String {
    // Serialisation fails only for maps with non-string keys, which a document does not have.
    serde_json::to_string_pretty(policies).unwrap_or_default()
}

/// Converts a policy to its wire form.
pub fn document(policy: &Policy) -> PolicyDocument {
    let Policy { criteria, back_off, .. } = policy;
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    PolicyDocument {
        id: Some(policy.id.to_string()),
        name: policy.name.to_string(),
        error_substring: text(&criteria.error_substring),
        flow: text(&criteria.flow),
        action: text(&criteria.action),
        action_type: text(&criteria.action_type),
        max_attempts: policy.max_attempts,
        priority: policy.is_priority_set.then_some(policy.priority),
        back_off: BackOffDocument {
            delay: span_to_value(back_off.delay),
            max_delay: back_off.max_delay.map(span_to_value),
            multiplier: back_off.multiplier.map(number_to_value),
            random: back_off.random.then_some(true),
        },
        enabled: (!policy.enabled).then_some(false),
        include_fatal: policy.include_fatal.then_some(true),
    }
}

/// Converts a draft to its wire form without adding defaults, or returns what is wrong with it.
pub fn document_of_draft(draft: &PolicyDraft) -> Result<PolicyDocument, Vec<PolicyProblem>> {
    let policy = draft.check(&Arc::from(""), 0)?;
    Ok(PolicyDocument {
        id: Some(policy.id.to_string()).filter(|id| !id.is_empty()),
        enabled: draft.enabled,
        include_fatal: draft.include_fatal,
        ..document(&policy)
    })
}

/// Formats a policy as one YAML document.
pub fn to_yaml(policy: &PolicyDocument) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{name}: {value}");
        }
    };
    line("id", policy.id.as_deref().map(yaml_scalar));
    line("name", Some(yaml_scalar(&policy.name)));
    line("errorSubstring", policy.error_substring.as_deref().map(yaml_scalar));
    line("flow", policy.flow.as_deref().map(yaml_scalar));
    line("action", policy.action.as_deref().map(yaml_scalar));
    line("actionType", policy.action_type.as_deref().map(yaml_scalar));
    line("maxAttempts", Some(policy.max_attempts.to_string()));
    line("priority", policy.priority.map(|priority| priority.to_string()));
    line("backOff", Some(format_back_off(&policy.back_off)));
    line("enabled", policy.enabled.map(|enabled| enabled.to_string()));
    line("includeFatal", policy.include_fatal.map(|include| include.to_string()));
    text
}

/// Converts a span to a number of seconds, or to a text where a number would lose precision.
fn span_to_value(span: Millis) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "what does not come back as it was is written as a text")]
    let number = match span.0 % 1_000 {
        0 => Value::from(span.0 / 1_000),
        _ => Value::from(span.0 as f64 / 1_000.0),
    };
    if read_duration(&number) == Ok(span) { number } else { Value::from(format!("{}ms", span.0)) }
}

/// Converts a number to JSON, without a fraction where it has none.
fn number_to_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < f64::from(i32::MAX) {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and fits")]
        return Value::from(number as i32);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Formats a back-off as a YAML flow map.
fn format_back_off(written: &BackOffDocument) -> String {
    let mut parts = vec![format!("delay: {}", format_span(&written.delay))];
    parts.extend(written.max_delay.as_ref().map(|max_delay| format!("maxDelay: {}", format_span(max_delay))));
    parts.extend(written.multiplier.as_ref().map(|multiplier| format!("multiplier: {multiplier}")));
    parts.extend(written.random.map(|random| format!("random: {random}")));
    format!("{{{}}}", parts.join(", "))
}

/// Formats a duration as people write it, if that is exact; else in milliseconds.
fn format_span(written: &Value) -> String {
    let Ok(span) = read_duration(written) else { return written.to_string() };
    let shown = span.to_string();
    if parse_duration(&shown) == Ok(span) { shown } else { format!("{}ms", span.0) }
}

/// Formats a text as a YAML scalar: plain if no parser could take it for something else, else in double quotes.
fn yaml_scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let starts_as_word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.ends_with(' ');
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

/// Returns whether some YAML parser takes the word for something other than a text.
fn is_reserved(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"];
    words.contains(&text.to_lowercase().as_str())
}

/// Returns whether a text is a UUID, which is never taken for a number.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}
