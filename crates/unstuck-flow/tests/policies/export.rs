//! What is written is read again, and is the same.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{Criteria, Policy};
use unstuck_core::time::Millis;
use unstuck_flow::policies::{self, document, schema};

use crate::{JSON_ERRORS, PASSTHROUGH, lines, read};

fn policies(text: &str) -> Vec<Policy> {
    let loaded = read(text).unwrap_or_else(|problems| panic!("{text}\n{:#?}", lines(&problems)));
    let checked = loaded.policies.iter().map(|policy| policy.draft.check(&Arc::from("fresh"), 0));
    checked.map(|policy| policy.expect("right by itself")).collect()
}

fn export_yaml(policies: &[Policy]) -> String {
    policies::export_yaml(&policies.iter().map(document).collect::<Vec<_>>())
}

fn export_json(policies: &[Policy]) -> String {
    policies::export_json(&policies.iter().map(document).collect::<Vec<_>>())
}

#[test]
fn policies_are_written_as_people_would() {
    let both = policies(&format!("[{PASSTHROUGH}, {JSON_ERRORS}]"));
    let yaml = "\
id: 88bc7429-7adf-4bb1-b23f-3922993e0a1a
name: auto-resume-passthrough
flow: passthrough
maxAttempts: 10
priority: 50
backOff: {delay: 1m, maxDelay: 5m, multiplier: 1}
---
id: a2b08968-866a-4080-bc28-1d7e7c81ada8
name: resume-json-errors
errorSubstring: JsonException
actionType: TRANSFORM
maxAttempts: 4
priority: 150
backOff: {delay: 1m, maxDelay: 2m, random: true}
";
    assert_eq!(export_yaml(&both), yaml);
    let given: Vec<Value> =
        [PASSTHROUGH, JSON_ERRORS].map(|text| serde_json::from_str(text).expect("JSON")).to_vec();
    let written: Vec<Value> = serde_json::from_str(&export_json(&both)).expect("JSON");
    assert_eq!(written, given);
    assert!(export_json(&both).starts_with("[\n  {\n    \"id\": \"88bc7429"), "in the order of the fields");
}

#[test]
fn what_has_its_default_is_left_out() {
    let plain = policies(
        "{id: i, name: p, flow: a, maxAttempts: 2, backOff: 90, enabled: true, includeFatal: false}",
    );
    assert_eq!(export_yaml(&plain), "id: i\nname: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 1m 30s}\n");
    let off = policies(
        "{id: i, name: p, flow: a, maxAttempts: 2, backOff: 0.25, enabled: false, includeFatal: true}",
    );
    let expected = "id: i\nname: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 250ms}\nenabled: false\nincludeFatal: true\n";
    assert_eq!(export_yaml(&off), expected);
}

#[test]
fn texts_are_quoted_where_they_would_be_taken_for_something_else() {
    let cases = [
        ("plain", "plain"),
        ("smoke.Format-Action_2/x", "smoke.Format-Action_2/x"),
        ("connection reset by peer - again", "connection reset by peer - again"),
        ("open ", "\"open \""),
        ("503", "\"503\""),
        ("true", "\"true\""),
        ("No", "\"No\""),
        ("a: b", "\"a: b\""),
        ("say \"hi\"", "\"say \\\"hi\\\"\""),
        ("a\nb", "\"a\\u000ab\""),
        ("größe", "\"größe\""),
        ("\u{2028}\u{1f600}", "\"\\u2028\\U0001f600\""),
        ("-", "\"-\""),
    ];
    for (text, expected) in cases {
        let mut policy = policies("{id: i, name: p, flow: a, maxAttempts: 2, backOff: 1}").remove(0);
        policy.criteria.error_substring = Some(text.into());
        policy.priority = policy.criteria.priority();
        let yaml = export_yaml(std::slice::from_ref(&policy));
        assert!(yaml.contains(&format!("\nerrorSubstring: {expected}\n")), "{yaml}");
        assert_eq!(policies(&yaml), [policy], "{text:?}");
    }
}

fn texts() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![any::<String>(), "[0-9.eE+x_-]{1,8}", "[a-zA-Z]{1,5}", "[ -~]{1,20}"]
        .prop_filter("blank ones count as absent", |text| !text.trim().is_empty())
        .prop_map(Into::into)
}

fn labels() -> impl Strategy<Value = Arc<str>> {
    texts().prop_filter("a name has one line", |text| {
        !text.chars().any(char::is_control) && text.chars().count() <= 200
    })
}

prop_compose! {
    fn spans()(ms in prop_oneof![0u64..5_000, (0u64..100_000).prop_map(|s| s * 1_000), 0u64..315_360_000_000_000])
        -> Millis { Millis(ms) }
}

prop_compose! {
    fn any_policy()(
        id in labels(), name in labels(),
        error_substring in prop::option::of(texts()), flow in texts(), action in prop::option::of(texts()),
        action_type in prop::option::of(texts()),
        max_attempts in 2u32.., priority in prop::option::of(any::<i32>()),
        delay in spans(), more in prop::option::of(spans()), multiplier in prop::option::of(1.0..f64::MAX),
        random in any::<bool>(), enabled in any::<bool>(), include_fatal in any::<bool>(),
    ) -> Policy {
        let action = action.map(|action| Arc::from(format!("f.{action}")));
        let criteria = Criteria { error_substring, flow: Some(flow), action, action_type };
        let max_delay = more.map(|more| Millis((delay.0 + more.0).min(315_360_000_000_000)));
        let back_off = BackOff { delay, max_delay, multiplier, random: random && max_delay.is_some() };
        Policy {
            id, name, max_attempts,
            priority: priority.unwrap_or_else(|| criteria.priority()),
            is_priority_set: priority.is_some(),
            criteria, back_off, enabled, include_fatal,
            version: 1,
            age: 0,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_loads_to_the_same(policy in any_policy()) {
        let yaml = export_yaml(std::slice::from_ref(&policy));
        prop_assert_eq!(policies(&yaml), [policy.clone()], "{}", yaml);
        let json = export_json(std::slice::from_ref(&policy));
        prop_assert_eq!(policies(&json), [policy], "{}", json);
        let validator = jsonschema::draft202012::options().offline().build(&schema()).expect("a schema");
        let document: Value = serde_json::from_str(&json).expect("JSON");
        let problems: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        prop_assert!(problems.is_empty(), "{}: {:#?}", json, problems);
    }
}
