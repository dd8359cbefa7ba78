//! Expressions and templates: compiled, and evaluated within their limits.

use serde_json::{Value, json};
use unstuck_core::model::expression::{Evaluate, Reads, Scope, Template};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::time::Time;
use unstuck_flow::expression::{
    self, ExpressionError, MAX_NESTING, MAX_RESULT_BYTES, MAX_RESULT_DEPTH, MAX_SOURCE_BYTES, Names,
};
use unstuck_flow::template;

use crate::payloads::depth;

/// When everything is evaluated here.
const NOW: Time = Time(1_794_882_600_000);
const STEPS: [&str; 3] = ["fetch", "encode-all", "store"];

/// An expression, and after a line `---` the input of the run.
pub(crate) fn expression(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let (source, input) = text.split_once("\n---\n").unwrap_or((text, "null"));
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    match expression::compile(source, &names()) {
        Ok((reads, program)) => {
            assert!(source.len() <= MAX_SOURCE_BYTES, "it is longer than it may be");
            evaluate(&*program, &reads, &input);
        }
        Err(error) => refusal(source, &error),
    }
    match template::compile_expression(source, &names()) {
        Ok(compiled) => assert_eq!(&*compiled.source, source),
        Err(error) => refusal(source, &error),
    }
}

/// A value with expressions in its strings: JSON, or else one string.
pub(crate) fn template(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let value: Value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    match template::compile(&value, &names()) {
        Ok(Template::Fixed(fixed)) => {
            assert!(value.to_string().contains("$${") || fixed.value() == value, "{fixed} is not {value}");
        }
        Ok(Template::Computed(computed)) => {
            let input = json!({"a": 1, "list": [1, "x", null], "s": "ü"});
            evaluate(&*computed.program, &computed.reads, &input);
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            for error in errors {
                let place = value.pointer(&error.pointer).and_then(Value::as_str);
                refusal(place.unwrap_or_else(|| panic!("{error:?} is at no string")), &error.error);
            }
        }
    }
}

fn names() -> Names<'static> {
    Names {
        steps: &|name| STEPS.iter().position(|step| *step == name).map(ix),
        step_ids: &STEPS,
        item: true,
        secrets: true,
    }
}

fn ix(place: usize) -> StepIndex {
    StepIndex(u16::try_from(place).expect("there are few"))
}

/// A refusal has its place in the text and says something.
fn refusal(source: &str, error: &ExpressionError) {
    assert!(source.is_char_boundary(error.offset), "{error:?} is not in {source:?}");
    assert!(!error.message.is_empty(), "{error:?}");
}

/// The value is the same every time, within the limits, and depends on nothing that is not said to be read.
fn evaluate(program: &dyn Evaluate, reads: &Reads, input: &Value) {
    let run = json!({"id": "run_1", "key": null, "flow": "f", "version": "1", "generation": 1,
        "createdAt": "2026-11-16T02:30:00Z"});
    let bind = |is_read: bool, value: &Value| if is_read { value.clone() } else { Value::Null };
    let whole = Scope {
        input: input.clone(),
        run: run.clone(),
        item: Some((input.clone(), 3)),
        steps: STEPS.iter().map(|step| ((*step).into(), input.clone())).collect(),
        now: NOW,
    };
    let read = reads.steps.iter().map(|step| (STEPS[usize::from(step.0)].into(), input.clone()));
    let needed = Scope {
        input: bind(reads.input, input),
        run: bind(reads.run, &run),
        item: reads.item.then(|| (input.clone(), 3)),
        steps: read.collect(),
        now: NOW,
    };
    let value = program.evaluate(&whole);
    assert_eq!(program.evaluate(&needed), value, "it reads what it does not say");
    match value {
        Ok(value) => {
            let text = value.to_string();
            // What is counted are the bytes of the value, not the quotes and escapes of its text.
            assert!(text.len() <= 8 * MAX_RESULT_BYTES, "{} bytes", text.len());
            assert!(depth(&value) <= MAX_RESULT_DEPTH + MAX_NESTING, "{} deep", depth(&value));
            assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value), "it is JSON");
        }
        Err(sentence) => assert!(!sentence.is_empty(), "a failure without a sentence"),
    }
}
