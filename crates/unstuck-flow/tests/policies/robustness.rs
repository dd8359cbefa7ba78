//! Whatever a file has in it, loading it gives policies or problems, and never a panic.

use std::sync::Arc;

use proptest::prelude::*;
use unstuck_core::policy::{Policy, PolicyDraft};
use unstuck_flow::Severity;
use unstuck_flow::policies::{
    LoadedPolicy, document, document_of_draft, export_json, export_yaml, read_document,
};

use crate::{JSON_ERRORS, lines, read};

const POLICIES: &str = r#"id: i-1
name: everything
errorSubstring: "connection: refused"
flow: smoke
action: smoke.Format
actionType: TRANSFORM
maxAttempts: 10
priority: 150
backOff: {delay: 60, maxDelay: 5m, multiplier: 1.5, random: false}
enabled: true
includeFatal: false
---
- {name: second, flow: smoke, maxAttempts: 2, backOff: &b {delay: 5}}
- {name: fourth, flow: other, maxAttempts: 2, backOff: *b}
- name: third
  action-type: LOAD
  max-attempts: 4
  back-off:
    delay: PT1M
    max-delay: 120
    random: true
"#;

fn check(text: &str) {
    match read(text) {
        Ok(loaded) => {
            assert!(!loaded.policies.is_empty());
            assert!(loaded.warnings.iter().all(|problem| problem.severity == Severity::Warning));
            let fresh: Arc<str> = Arc::from("fresh");
            let checked: Vec<Policy> = loaded
                .policies
                .iter()
                .map(|policy| policy.draft.check(&fresh, 0).expect("a policy that loads is right by itself"))
                .collect();
            for LoadedPolicy { draft, .. } in &loaded.policies {
                let written = document_of_draft(draft).expect("right by itself");
                let again =
                    read_document(&written).unwrap_or_else(|problems| panic!("{:#?}", lines(&problems)));
                assert_eq!(again.check(&fresh, 0), draft.check(&fresh, 0));
                // What is left out stays left out: it is the store's to say.
                let open = |draft: &PolicyDraft| (draft.enabled, draft.include_fatal, draft.priority);
                assert_eq!(open(&again), open(draft));
            }
            // One at a time: those without an id would all be given the same.
            for policy in checked {
                let written = [document(&policy)];
                for again in [export_yaml(&written), export_json(&written)] {
                    let again =
                        read(&again).unwrap_or_else(|problems| panic!("{again}\n{:#?}", lines(&problems)));
                    assert_eq!(again.policies[0].draft.check(&fresh, 0).expect("right"), policy);
                }
            }
        }
        Err(problems) => {
            assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
            // For YAML a carriage return alone ends a line too.
            let lines = u32::try_from(text.split(['\n', '\r']).count()).unwrap_or(u32::MAX);
            for problem in problems {
                assert!((1..=lines + 1).contains(&problem.line) && problem.column >= 1, "{problem}");
                assert!(!problem.message.is_empty() && !problem.message.contains("gave up"), "{problem}");
            }
        }
    }
}

#[test]
fn the_file_that_is_mutated_is_right() {
    let loaded = read(POLICIES).unwrap_or_else(|problems| panic!("{:#?}", lines(&problems)));
    assert_eq!(loaded.policies.len(), 4);
    check(POLICIES);
    check(JSON_ERRORS);
}

fn salt() -> impl Strategy<Value = String> {
    let words = "\n  - |{|}|[|]|:|: |\"|'|&a |*a|#|!|\\|,|\n|\t|---\n|<<: |~|null|true|-1|-5s|.inf|1e999|0x|name: x|flow: |delay: |é|\u{0}|\u{feff}|?|9999999999999999999";
    let words: Vec<String> =
        words.split('|').map(str::to_owned).chain(["|".to_owned(), "> ".to_owned()]).collect();
    prop::sample::select(words)
}

fn cut(text: &str, place: prop::sample::Index) -> usize {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    if places.is_empty() { 0 } else { *place.get(&places) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_structure_never_panics(parts in prop::collection::vec(salt(), 0..60)) {
        check(&parts.concat());
    }

    #[test]
    fn a_mutated_file_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, salt()), 1..6),
    ) {
        let mut text = POLICIES.to_owned();
        for (place, removed, added) in changes {
            let start = cut(&text, place);
            let end = text[start..].char_indices().nth(removed).map_or(text.len(), |(length, _)| start + length);
            text.replace_range(start..end, &added);
        }
        check(&text);
    }
}
