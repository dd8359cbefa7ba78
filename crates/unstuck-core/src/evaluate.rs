//! Evaluates expressions, conditions and templates for a run; results stay within the limits of a payload.

use crate::decide::{Draft, MAX_PAYLOAD_BYTES};
use crate::json::{Json, MAX_DEPTH};
use crate::model::expression::{Expression, Template};
use crate::model::flow::StepIndex;
use crate::model::unit::{ITEMS_PER_PART, UnitRef};
use serde_json::Value;

/// Evaluates a template for a unit: a fixed value is returned as it is, a computed one is checked for size.
pub(crate) fn evaluate_template(
    draft: &Draft<'_, '_>,
    template: &Template,
    unit: UnitRef,
) -> Result<Json, String> {
    match template {
        Template::Fixed(json) => Ok(json.clone()),
        Template::Computed(expression) => {
            check_payload_size(Json::of(&evaluate_expression(draft, expression, unit)?))
        }
    }
}

/// Evaluates an expression for a unit. Binds the item of a `forEach` only if the expression reads it, because loading
/// an item costs.
pub(crate) fn evaluate_expression(
    draft: &Draft<'_, '_>,
    expression: &Expression,
    unit: UnitRef,
) -> Result<Value, String> {
    let item = match unit.item {
        Some(item) if expression.reads.item => Some((item_value(draft, unit.step, item)?, item)),
        Some(_) | None => None,
    };
    let scope = draft.scope(&expression.reads, item)?;
    expression.program.evaluate(&scope).map_err(|problem| format!("{}: {problem}", expression.source))
}

/// Evaluates an `if`, which must give true or false.
pub(crate) fn evaluate_condition(draft: &Draft<'_, '_>, condition: &Expression) -> Result<bool, String> {
    let scope = draft.scope(&condition.reads, None)?;
    match condition.program.evaluate(&scope) {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!(
            "if: {} must be true or false, but is {}",
            condition.source,
            quote_briefly(&Json::of(&other))
        )),
        Err(problem) => Err(format!("if: {}: {problem}", condition.source)),
    }
}

/// Loads the value of one `forEach` item. The list is stored in parts of [`ITEMS_PER_PART`], so that an item does not
/// need all of it.
pub(crate) fn item_value(draft: &Draft<'_, '_>, step: StepIndex, item: u32) -> Result<Value, String> {
    let place = item as usize;
    let part = draft.run().items(step).and_then(|items| items.values.get(place / ITEMS_PER_PART));
    let values = draft.payload_json(part.ok_or("the list of items is not known")?)?.value();
    values.get(place % ITEMS_PER_PART).cloned().ok_or_else(|| format!("there is no item {item}"))
}

/// Returns a computed value, or refuses it if it is too large or nested too deep to be stored and read again.
pub(crate) fn check_payload_size(json: Json) -> Result<Json, String> {
    let bytes = json.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(format!(
            "the outputs together are too large ({bytes} bytes, at most {MAX_PAYLOAD_BYTES}); return references"
        ));
    }
    // A short text cannot be nested too deep, so that most need no measuring.
    if bytes > MAX_DEPTH && json.depth() > MAX_DEPTH {
        return Err(format!(
            "the outputs together are nested too deep ({} levels, at most {MAX_DEPTH}); return references",
            json.depth()
        ));
    }
    Ok(json)
}

/// Returns the first 60 characters of a value, for an error message.
pub(crate) fn quote_briefly(json: &Json) -> String {
    let text = json.text();
    match text.char_indices().nth(60) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
