//! Describes policies in words.

use serde_json::Value;
use unstuck_api::policies::PolicyDocument;
use unstuck_core::duration::read_duration;

/// Describes what a policy matches: `cause has "reset", flow nightly`.
pub(super) fn describe_criteria(policy: &PolicyDocument) -> String {
    let parts = [
        policy.error_substring.as_ref().map(|text| format!("cause has \"{text}\"")),
        policy.flow.as_ref().map(|flow| format!("flow {flow}")),
        policy.action.as_ref().map(|action| format!("action {action}")),
        policy.action_type.as_ref().map(|kind| format!("type {kind}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes when a policy resumes: `after 1m`, `after 1m to 2m`, `after 2m, 4m, 5m`.
pub(super) fn describe_back_off(policy: &PolicyDocument) -> String {
    let back_off = &policy.back_off;
    let delay = format_span(&back_off.delay);
    let most = back_off.max_delay.as_ref().map(format_span);
    match (&back_off.multiplier, back_off.random, most) {
        (_, Some(true), Some(most)) => format!("after {delay} to {most}"),
        (Some(multiplier), _, most) => {
            let factor = match multiplier.as_f64() {
                Some(1.0) => String::new(),
                _ => format!(" * {multiplier}"),
            };
            let cap = most.map_or_else(String::new, |most| format!(", at most {most}"));
            format!("after {delay}{factor} * rounds{cap}")
        }
        (None, _, _) => format!("after {delay}"),
    }
}

fn format_span(written: &Value) -> String {
    read_duration(written).map_or_else(|_| written.to_string(), |span| span.to_string())
}

/// `2 steps`, `1 step`.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn policy(fields: &Value) -> PolicyDocument {
        let mut all: Map<String, Value> = Map::new();
        all.extend(
            json!({"name": "p", "maxAttempts": 3, "backOff": {"delay": 60}})
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
        all.extend(fields.as_object().cloned().unwrap_or_default());
        serde_json::from_value(Value::Object(all)).expect("a policy")
    }

    #[test]
    fn what_it_matches_is_said_in_words() {
        let cases = [
            (json!({"flow": "nightly"}), "flow nightly"),
            (json!({"errorSubstring": "a \"b\""}), "cause has \"a \"b\"\""),
            (
                json!({"action": "f.a", "actionType": "T", "errorSubstring": "x"}),
                "cause has \"x\", action f.a, type T",
            ),
        ];
        for (fields, wanted) in cases {
            assert_eq!(describe_criteria(&policy(&fields)), wanted);
        }
    }

    #[test]
    fn when_it_resumes_is_said_in_words() {
        let cases = [
            (json!({"delay": 60}), "after 1m"),
            (json!({"delay": 0.5, "maxDelay": 60}), "after 500ms"),
            (json!({"delay": 60, "maxDelay": 120, "random": true}), "after 1m to 2m"),
            (json!({"delay": 60, "maxDelay": 300, "multiplier": 1}), "after 1m * rounds, at most 5m"),
            (json!({"delay": 60, "multiplier": 1.5}), "after 1m * 1.5 * rounds"),
        ];
        for (back_off, wanted) in cases {
            assert_eq!(describe_back_off(&policy(&json!({ "backOff": back_off }))), wanted);
        }
    }
}
