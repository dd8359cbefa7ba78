//! Whatever a file has in it, loading it gives flows or problems, and never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use unstuck_flow::{Severity, load};

const FLOW: &str = r#"flow: everything
version: 1.2
description: one of each
input: {type: object, properties: {list: {type: array}}}
output: {last: "${steps.last.output}"}
deadline: 1h
concurrency: {limit: 3, key: "${input.customer}", strict: true}
defaults: &defaults {timeout: 5m, retryStrategy: retry, maxAttempts: -1, backOff: {delay: 1s, maxDelay: 1m, random: true}}
labels: {team: media}
steps:
  - id: act
    action: work
    with: {a: "${input.a}", b: ["${run.id}", 2]}
    <<: *defaults
  - id: process
    run: [sh, -c, 'echo ${HOME}']
    needs: act
    if: ${steps.act.output.ok}
    heartbeatTimeout: 10s
  - id: shell
    run: |
      set -e
      echo "$INPUT_NAME"
    needs: [act]
    defer: {delay: 1s, multiplier: 2, maxDelay: 1m, limit: 1h}
    exceptionHandler: handler
  - id: child
    flow: handler
    forEach: {items: "${input.list}", parallel: 2, maxItems: 10}
  - {id: pause, wait: 5s}
  - {id: event, signal: go, timeout: 1h, failOnError: false}
  - {id: trouble, emulate: {odds: {stall: 1, pass: 9}, seed: 3, cause: why}}
  - {id: last, needs: [pause, trouble], set: {text: "a ${steps.trouble.output} b"}}
---
flow: handler
steps: [{id: note, set: 1}]
"#;

fn check(text: &str) {
    match load(text, "file", "/flows", &|_| false) {
        Ok(loaded) => {
            assert!(!loaded.flows.is_empty());
            assert!(loaded.warnings.iter().all(|problem| problem.severity == Severity::Warning));
            for flow in loaded.flows {
                let again = load(&flow.source, "source", "/flows", &|_| true);
                let again = again.unwrap_or_else(|problems| panic!("{}: {problems:#?}", flow.source));
                assert_eq!(again.flows[0].source, flow.source, "what is kept is the same flow");
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
    let loaded = load(FLOW, "file", "/flows", &|_| false).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(loaded.flows.len(), 2);
}

#[test]
fn what_is_as_deep_as_it_may_be_fits_a_small_stack() {
    let deep =
        |open: &str, close: &str, levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
    let files = [
        format!("flow: a\nsteps: [{{id: x, set: {}}}]\n", deep("[", "]", 60)),
        format!("flow: a\nsteps: [{{id: x, set: {}}}]\n", deep("{a: ", "}", 60)),
        format!("flow: a\nsteps: [{{id: x, set: {}}}]\n", deep("[", "]", 100_000)),
        format!(
            "flow: a\ninput: {}\nsteps: [{{id: x, set: 1}}]\n",
            deep("{properties: {a: ", "}}", 30).replace('1', "{}")
        ),
        format!(
            "flow: a\ninput: {}\nsteps: [{{id: x, set: 1}}]\n",
            deep("{items: ", "}", 61).replace('1', "{}")
        ),
        format!(
            "flow: a\ninput: {}\nsteps: [{{id: x, set: 1}}]\n",
            deep("{not: ", "}", 61).replace('1', "{}")
        ),
        format!(
            "flow: a\ninput: {}\nsteps: [{{id: x, set: 1}}]\n",
            deep("{allOf: [", "]}", 30).replace('1', "{}")
        ),
        format!(
            "flow: a\nsteps: [{{id: x, set: {}}}]\n",
            deep("[", "]", 60).replace('1', "'${((((((input.a))))))}'")
        ),
        "- ".repeat(5_000),
        "? ".repeat(5_000),
        "{a: ".repeat(5_000),
        "'".repeat(5_001),
        "&a ".repeat(5_000),
        "!x ".repeat(5_000),
    ];
    for file in files {
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        thread.spawn(move || check(&file)).expect("a thread starts").join().expect("no panic");
    }
}

/// Characters that mean something to YAML, JSON, expressions or shells, and a few others.
fn salt() -> impl Strategy<Value = String> {
    let words = "\n  - |{|}|[|]|:|: |\"|'|&a |*a|#|!|${|}|\\|,|\n|\t|---\n|<<: |~|null|true|-1|.inf|1e999|0x|id: x|flow: |needs: [|é|\u{0}|\u{feff}|?";
    let words: Vec<String> =
        words.split('|').map(str::to_owned).chain(["|".to_owned(), "> ".to_owned()]).collect();
    prop::sample::select(words)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON knows finite numbers", |n| n.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        salt().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
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
    fn every_json_value_is_kept_as_it_is(value in json(), key in any::<String>()) {
        let document = json!({"flow": "a", "steps": [{"id": "x", "emulate": {"sequence": ["pass"], "output": {key: value}}}]});
        for text in [document.to_string(), format!("{document:#}")] {
            let expression = text.contains("${");
            match load(&text, "file", "/flows", &|_| false) {
                Ok(loaded) => prop_assert_eq!(
                    serde_json::from_str::<Value>(&loaded.flows[0].source).expect("JSON"),
                    document.clone()
                ),
                Err(problems) => prop_assert!(expression, "{:#?}", problems),
            }
            check(&text);
        }
    }

    #[test]
    fn random_structure_never_panics(parts in prop::collection::vec(salt(), 0..60)) {
        check(&parts.concat());
    }

    #[test]
    fn a_mutated_flow_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, salt()), 1..6),
    ) {
        let mut text = FLOW.to_owned();
        for (place, removed, added) in changes {
            let start = cut(&text, place);
            let end = text[start..].char_indices().nth(removed).map_or(text.len(), |(length, _)| start + length);
            text.replace_range(start..end, &added);
        }
        check(&text);
    }

    #[test]
    fn a_flow_with_lines_moved_never_panics(
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let mut lines: Vec<&str> = FLOW.lines().collect();
        for (from, to) in moves {
            let line = lines.remove(from.index(lines.len()));
            lines.insert(to.index(lines.len() + 1), line);
        }
        check(&lines.join("\n"));
    }
}
