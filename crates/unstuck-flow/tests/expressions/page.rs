//! The page on expressions: every example in it does what it says.

use std::sync::Arc;

use serde_json::Value;
use unstuck_core::model::expression::{Scope, Template};
use unstuck_flow::template;

use super::{evaluate_in, with_names};

const PAGE: &str = include_str!("../../../../docs/expressions.md");

#[test]
fn every_example_gives_what_the_page_says() {
    let scope = scope_of_the_page();
    let examples = rows("| expression | gives |");
    assert!(examples.len() > 80, "only {} examples were found", examples.len());
    for (source, expected) in examples {
        let expected: Value = serde_json::from_str(code(&expected)).expect(&expected);
        assert_eq!(evaluate_in(code(&source), &scope), Ok(expected), "{source}");
    }
}

#[test]
fn every_value_gives_what_the_page_says() {
    let scope = scope_of_the_page();
    let examples = rows("| value | gives |");
    assert!(examples.len() > 5, "only {} examples were found", examples.len());
    for (text, expected) in examples {
        let expected: Value = serde_json::from_str(code(&expected)).expect(&expected);
        let value = Value::from(code(&text));
        let template = with_names(true, |names| template::compile(&value, names)).expect(&text);
        let found = match template {
            Template::Fixed(json) => Ok(json.value()),
            Template::Computed(expression) => expression.program.evaluate(&scope),
        };
        assert_eq!(found, Ok(expected), "{text}");
    }
}

#[test]
fn every_refusal_reads_as_the_page_says() {
    let scope = scope_of_the_page();
    for (header, on_load) in
        [("| expression | refused on load |", true), ("| expression | refused at run time |", false)]
    {
        let examples = rows(header);
        assert!(examples.len() > 5, "only {} examples were found", examples.len());
        for (source, part) in examples {
            let compiled = super::compile(code(&source));
            assert_eq!(compiled.is_err(), on_load, "{source}");
            let sentence = evaluate_in(code(&source), &scope).expect_err(&source);
            assert!(sentence.contains(&part), "{source}: {sentence}");
        }
    }
}

#[test]
fn the_flow_on_the_page_is_loaded() {
    let text = PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a flow");
    let loaded = unstuck_flow::load(text, "orders.yaml", ".", &|_| false).expect("a flow without problems");
    assert_eq!(loaded.flows[0].steps.len(), 2);
}

/// The rows of every table with this header: two cells each.
fn rows(header: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut lines = PAGE.lines();
    while lines.by_ref().any(|line| line == header) {
        for line in lines.by_ref().skip(1).take_while(|line| line.starts_with('|')) {
            // `\|` is how a table writes `|` inside a cell.
            let line = line.replace("\\|", "\u{0}");
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
            let [left, right] = cells.as_slice() else { panic!("two cells are wanted: {line}") };
            rows.push((left.clone(), right.clone()));
        }
    }
    rows
}

fn code(cell: &str) -> &str {
    cell.strip_prefix('`')
        .and_then(|cell| cell.strip_suffix('`'))
        .unwrap_or_else(|| panic!("no code: {cell}"))
}

fn scope_of_the_page() -> Scope {
    let json = PAGE.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the values");
    let values: Value = serde_json::from_str(json).expect("JSON");
    let steps = values["steps"].as_object().expect("steps");
    Scope {
        input: values["input"].clone(),
        run: values["run"].clone(),
        item: Some((values["item"].clone(), 0)),
        steps: steps.iter().map(|(id, output)| (Arc::from(id.as_str()), output.clone())).collect(),
        now: unstuck_core::duration::parse_instant(values["now"].as_str().expect("now")).expect("an instant"),
    }
}
