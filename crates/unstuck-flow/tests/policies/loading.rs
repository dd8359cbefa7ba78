//! What a policy file becomes.

use std::sync::Arc;

use unstuck_core::model::recovery::BackOff;
use unstuck_core::policy::{Criteria, DraftBackOff, Policy, PolicyDraft};
use unstuck_core::time::Millis;

use crate::{JSON_ERRORS, PASSTHROUGH, lines, read};

fn drafts(text: &str) -> Vec<PolicyDraft> {
    let loaded = read(text).unwrap_or_else(|problems| panic!("{text}\n{:#?}", lines(&problems)));
    assert!(loaded.warnings.is_empty(), "{text}\n{:#?}", loaded.warnings);
    loaded.policies.into_iter().map(|policy| policy.draft).collect()
}

fn policy(text: &str) -> Policy {
    drafts(text)[0].check(&Arc::from("fresh"), 7).expect("right")
}

/// A policy that matches the flow `a`, with what else is given.
fn with(fields: &str) -> PolicyDraft {
    drafts(&format!("{{name: p, flow: a, maxAttempts: 3, backOff: 1, {fields}}}")).remove(0)
}

/// The `backOff` of a policy.
fn back_off(value: &str) -> BackOff {
    policy(&format!("{{name: p, flow: a, maxAttempts: 3, backOff: {value}}}")).back_off
}

#[test]
fn the_examples_that_policies_come_from_are_accepted_as_they_are() {
    let passthrough = policy(PASSTHROUGH);
    assert_eq!(&*passthrough.id, "88bc7429-7adf-4bb1-b23f-3922993e0a1a");
    assert_eq!(&*passthrough.name, "auto-resume-passthrough");
    let criteria = Criteria { flow: Some("passthrough".into()), ..Criteria::default() };
    assert_eq!((passthrough.criteria, passthrough.max_attempts, passthrough.priority), (criteria, 10, 50));
    let expected = BackOff {
        delay: Millis::minutes(1),
        max_delay: Some(Millis::minutes(5)),
        multiplier: Some(1.0),
        random: false,
    };
    assert_eq!(passthrough.back_off, expected);
    assert!(passthrough.enabled && !passthrough.include_fatal && passthrough.is_priority_set);

    let json_errors = policy(JSON_ERRORS);
    let criteria = Criteria {
        error_substring: Some("JsonException".into()),
        action_type: Some("TRANSFORM".into()),
        ..Criteria::default()
    };
    assert_eq!((json_errors.criteria, json_errors.max_attempts, json_errors.priority), (criteria, 4, 150));
    let expected = BackOff {
        delay: Millis::minutes(1),
        max_delay: Some(Millis::minutes(2)),
        multiplier: None,
        random: true,
    };
    assert_eq!(json_errors.back_off, expected);
}

#[test]
fn a_file_has_one_policy_or_a_list_or_several_documents() {
    let cases = [
        ("one", "{name: a, flow: f, maxAttempts: 2, backOff: 1}".to_owned(), 1),
        ("a JSON list", format!("[{PASSTHROUGH}, {JSON_ERRORS}]"), 2),
        (
            "a YAML list",
            "- {name: a, flow: f, maxAttempts: 2, backOff: 1}\n- {name: b, flow: g, maxAttempts: 2, backOff: 1}\n".to_owned(),
            2,
        ),
        ("documents", format!("---\n{PASSTHROUGH}\n---\n{JSON_ERRORS}\n"), 2),
        (
            "documents of lists",
            format!("[{PASSTHROUGH}]\n---\n[{JSON_ERRORS}, {{name: a, flow: f, maxAttempts: 2, backOff: 1}}]\n"),
            3,
        ),
        ("a byte order mark", format!("\u{feff}{PASSTHROUGH}"), 1),
        ("shared parts", "- {name: a, flow: f, maxAttempts: 2, backOff: &b {delay: 5s}}\n- {name: b, flow: g, maxAttempts: 2, backOff: *b}\n".to_owned(), 2),
    ];
    for (what, text, count) in cases {
        assert_eq!(drafts(&text).len(), count, "{what}");
    }
}

#[test]
fn what_is_left_out_is_left_to_the_core() {
    let draft = with("");
    let expected = PolicyDraft {
        name: Some("p".into()),
        criteria: Criteria { flow: Some("a".into()), ..Criteria::default() },
        max_attempts: Some(3),
        back_off: Some(DraftBackOff { delay: Some(1_000), ..DraftBackOff::default() }),
        ..PolicyDraft::default()
    };
    assert_eq!(draft, expected);
    let nothing = with(
        "id: null, errorSubstring: ~, action: null, actionType: null, priority: null, enabled: null, includeFatal: null",
    );
    assert_eq!(nothing, expected, "null is left out");
}

#[test]
fn every_field_has_its_names() {
    let own = "{id: i, name: p, errorSubstring: e, flow: f, action: f.a, actionType: T, maxAttempts: 2, priority: -3, \
               backOff: {delay: 1s, maxDelay: 2s, multiplier: 1.5, random: false}, enabled: false, includeFatal: true}";
    let hyphens = "{id: i, name: p, error-substring: e, flow: f, action: f.a, action-type: T, max-attempts: 2, priority: -3, \
                   back-off: {delay: 1s, max-delay: 2s, multiplier: 1.5, random: false}, enabled: false, include-fatal: true}";
    let draft = drafts(own).remove(0);
    assert_eq!(drafts(hyphens).remove(0), draft);
    assert_eq!(drafts(&own.replace("backOff", "backoff")).remove(0), draft);
    let expected = PolicyDraft {
        id: Some("i".into()),
        name: Some("p".into()),
        criteria: Criteria {
            error_substring: Some("e".into()),
            flow: Some("f".into()),
            action: Some("f.a".into()),
            action_type: Some("T".into()),
        },
        max_attempts: Some(2),
        priority: Some(-3),
        back_off: Some(DraftBackOff {
            delay: Some(1_000),
            max_delay: Some(2_000),
            multiplier: Some(1.5),
            random: false,
        }),
        enabled: Some(false),
        include_fatal: Some(true),
    };
    assert_eq!(draft, expected);
}

#[test]
fn durations_are_written_as_everywhere() {
    let cases = [
        ("60", 60_000),
        ("0.5", 500),
        ("0", 0),
        ("30s", 30_000),
        ("1h 30m", 5_400_000),
        ("PT5M", 300_000),
        ("'90'", 90_000),
        ("{delay: 60}", 60_000),
        ("{delay: P1D}", 86_400_000),
    ];
    for (text, ms) in cases {
        assert_eq!(back_off(text), BackOff::fixed(Millis(ms)), "{text}");
    }
}

#[test]
fn a_number_is_text_as_it_is_spelled() {
    for (value, text) in
        [("503", "503"), ("1.10", "1.10"), ("0x1F", "0x1F"), ("'503'", "503"), ("\"a b\"", "a b")]
    {
        let draft = with(&format!("errorSubstring: {value}"));
        assert_eq!(draft.criteria.error_substring.as_deref(), Some(text), "{value}");
    }
}

#[test]
fn suspicious_things_are_accepted_with_a_warning() {
    let cases: [(&str, &[&str]); 5] = [
        (
            "name: p\nflow: a\nerrorSubstring: ' '\nmaxAttempts: 2\nbackOff: 1\n",
            &["3:17: errorSubstring: is empty and is ignored (remove it, or give it a value)"],
        ),
        (
            "name: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 1, maxDelay: 5}\n",
            &["4:21: backOff.maxDelay: `maxDelay` has no effect without a `multiplier` or `random: true`"],
        ),
        (
            "name: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 1, maxDelay: 5, random: false}\n",
            &["4:21: backOff.maxDelay: `maxDelay` has no effect without a `multiplier` or `random: true`"],
        ),
        (
            "name: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 1, maxDelay: 5, random: true, multiplier: 2}\n",
            &["4:48: backOff.multiplier: `multiplier` has no effect together with `random: true`"],
        ),
        ("name: p\nflow: a\nmaxAttempts: 2\nbackOff: {delay: 1, maxDelay: 5, multiplier: 2}\n", &[]),
    ];
    for (text, expected) in cases {
        let loaded = read(text).unwrap_or_else(|problems| panic!("{text}\n{:#?}", lines(&problems)));
        assert_eq!(lines(&loaded.warnings), expected, "{text}");
    }
}

#[test]
fn what_is_found_later_is_told_at_the_place_of_its_field() {
    let text = "- name: a\n  flow: f\n  maxAttempts: 2\n  backOff: {delay: 1}\n- {name: b, flow: g, maxAttempts: 2, backOff: 1}\n";
    let loaded = read(text).expect("right");
    let cases = [
        (0, "name", "1:9"),
        (0, "backOff.delay", "4:20"),
        (0, "backOff.maxDelay", "4:12"),
        (0, "id", "1:3"),
        (1, "name", "5:10"),
        (1, "backOff.delay", "5:47"),
        (1, "errorSubstring", "5:3"),
    ];
    for (place, field, at) in cases {
        let problem = loaded.policies[place].problem_at_field(field, "it is taken", "take another");
        assert_eq!(problem.to_string(), format!("f:{at}: {field}: it is taken (take another)"));
    }
}
