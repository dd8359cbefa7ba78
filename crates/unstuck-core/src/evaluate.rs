//! Values that a flow computes: inputs of steps, conditions, templates, each within the limits of a payload.

use crate::begin_attempt::fail_by_engine;
use crate::decide::{Draft, MAX_PAYLOAD_BYTES};
use crate::event::UnitFact;
use crate::for_each::item_value;
use crate::json::{Json, MAX_DEPTH};
use crate::model::error::{EXPRESSION_ACTION, Error};
use crate::model::expression::{Expression, Template};
use crate::model::unit::UnitRef;
use serde_json::Value;

/// Computes the input of a unit, once.
pub(crate) fn bind_input(draft: &mut Draft<'_, '_>, unit: UnitRef) -> Result<(), String> {
    if draft.run().unit(unit).is_some_and(|unit| unit.input.is_some()) {
        return Ok(());
    }
    let input = match (&draft.step(unit).with, unit.item) {
        (Some(template), _) => evaluate_template(draft, template, unit)?,
        (None, Some(item)) => Json::of(&item_value(draft, unit.step, item)?),
        (None, None) => return Ok(()),
    };
    let input = draft.store_payload(input);
    draft.emit_unit(unit, UnitFact::InputBound { input });
    Ok(())
}

/// The input of the run has changed: that of a unit is computed again. False where that fails, and the unit with it.
pub(crate) fn rebind_input(draft: &mut Draft<'_, '_>, unit: UnitRef) -> bool {
    // Without a template the run's input is looked up anyway, and an item is what it was when the list was made.
    let Some(template) = &draft.step(unit).with else { return true };
    match evaluate_template(draft, template, unit) {
        Ok(input) => {
            let input = draft.store_payload(input);
            draft.emit_unit(unit, UnitFact::InputBound { input });
            true
        }
        Err(cause) => {
            fail_by_engine(draft, unit, Error::found_by(EXPRESSION_ACTION, cause));
            false
        }
    }
}

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

/// What is made of others is a payload too, which must be stored and read again.
pub(crate) fn check_payload_size(json: Json) -> Result<Json, String> {
    let bytes = json.text().len();
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(format!(
            "the outputs together are too large ({bytes} bytes, at most {MAX_PAYLOAD_BYTES}); return references"
        ));
    }
    // Most are so short that they cannot be too deep.
    if bytes > MAX_DEPTH && json.depth() > MAX_DEPTH {
        return Err(format!(
            "the outputs together are nested too deep ({} levels, at most {MAX_DEPTH}); return references",
            json.depth()
        ));
    }
    Ok(json)
}

/// The first characters of a value, for an error text.
pub(crate) fn quote_briefly(json: &Json) -> String {
    let text = json.text();
    match text.char_indices().nth(60) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
