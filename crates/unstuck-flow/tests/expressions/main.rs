//! The expression language: what it computes, what it refuses, what it is limited to.

mod language;
mod limits;
mod oracle;
mod page;
mod refused;
mod sentences;
mod templates;

use std::sync::Arc;

use serde_json::{Value, json};
use unstuck_core::model::expression::{Reads, Scope};
use unstuck_core::model::flow::StepIndex;
use unstuck_flow::expression::{self, ExpressionError, Names};

const STEP_IDS: [&str; 3] = ["fetch", "fetch-data", "skipped"];

/// Runs `test` with the names of a flow with the steps of [`STEP_IDS`], inside a `forEach` or not.
fn with_names<T>(item: bool, test: impl FnOnce(&Names<'_>) -> T) -> T {
    let steps = |id: &str| {
        let place = STEP_IDS.iter().position(|known| *known == id)?;
        u16::try_from(place).ok().map(StepIndex)
    };
    test(&Names { steps: &steps, step_ids: &STEP_IDS, item, secrets: true })
}

/// What the expressions of these tests see.
fn scope() -> Scope {
    Scope {
        input: json!({
            "n": 5, "price": 2.5, "big": u64::MAX, "name": "Ada", "text": "a,b,c", "none": null, "ok": true,
            "user": {"id": 7, "kind": "admin", "first-name": "Ada"},
            "list": [3, 1, 2], "words": ["b", "a", "b"], "empty": [], "nothing": {},
            "orders": [{"id": 1, "total": 10, "state": "paid"}, {"id": 2, "total": 2.5, "state": "open"}],
        }),
        run: json!({
            "id": "run_1", "key": "k", "flow": "orders", "version": "1", "generation": 1,
            "createdAt": "2030-01-31T08:30:00Z",
        }),
        item: Some((json!({"file": "a.txt"}), 4)),
        steps: vec![
            (Arc::from("fetch"), json!({"path": "/tmp/x", "rows": [{"id": 1}, {"id": 2}]})),
            (Arc::from("fetch-data"), json!([1, 2, 3])),
            (Arc::from("skipped"), Value::Null),
        ],
        now: unstuck_core::time::Time(1_896_081_300_500),
    }
}

fn compile(source: &str) -> Result<Reads, ExpressionError> {
    with_names(true, |names| expression::compile(source, names).map(|(reads, _)| reads))
}

/// The value of an expression, or the sentence that says why it has none.
fn evaluate(source: &str) -> Result<Value, String> {
    evaluate_in(source, &scope())
}

fn evaluate_in(source: &str, scope: &Scope) -> Result<Value, String> {
    let (_, program) = with_names(true, |names| expression::compile(source, names))
        .map_err(|error| format!("at {}: {error}", error.offset))?;
    program.evaluate(scope)
}
