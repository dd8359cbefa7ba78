//! Conversions: `string(...)`, `int(...)` and the others, and a result back to JSON.

use serde_json::{Number, Value};

use super::meter::{EvaluationError, Meter};
use super::value::{List, Map, Val, key_name};
use super::{MAX_RESULT_DEPTH, time_functions};

/// Converts the result of an expression to JSON, within the limits of size and depth.
pub(super) fn to_json(value: &Val<'_>, meter: &Meter) -> Result<Value, EvaluationError> {
    to_json_at_depth(value, meter, 0)
}

/// What a part of a result costs besides its text: about its size as JSON.
const PART_BYTES: usize = 8;

/// Converts a value at this depth of the result.
fn to_json_at_depth(value: &Val<'_>, meter: &Meter, depth: usize) -> Result<Value, EvaluationError> {
    check_depth(depth)?;
    meter.spend_bytes(PART_BYTES)?;
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Integer(n) => Value::from(*n),
        Val::Large(n) => Value::from(*n),
        Val::Double(n) => match Number::from_f64(*n) {
            Some(number) => Value::Number(number),
            None => {
                return EvaluationError::wrong(format!(
                    "the value is {n}, which is not a JSON number; was something divided by 0?"
                ));
            }
        },
        Val::Text(text) => {
            meter.spend_bytes(text.as_str().len())?;
            Value::from(text.as_str())
        }
        Val::List(List::Json(items)) => Value::Array(copy_metered(*items, meter, depth)?),
        Val::List(List::Made(items)) => Value::Array(
            items.iter().map(|item| to_json_at_depth(item, meter, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Val::Map(Map::Json(entries)) => Value::Object(copy_metered(*entries, meter, depth)?),
        Val::Map(Map::Made(entries)) => {
            let mut object = serde_json::Map::new();
            for (key, value) in entries.iter() {
                let name = key_name(key);
                meter.spend_bytes(PART_BYTES + name.len())?;
                object.insert(name, to_json_at_depth(value, meter, depth + 1)?);
            }
            Value::Object(object)
        }
        Val::Duration(span) => Value::from(time_functions::duration_text(*span)),
        Val::Timestamp(at) => Value::from(at.to_string()),
        Val::Type(kind) => Value::from(kind.name()),
        Val::Optional(_) => {
            return EvaluationError::wrong(format!(
                "the value is {}; give it a default with `.orValue(...)`",
                value.described()
            ));
        }
    })
}

/// Copies JSON after paying for all of it.
fn copy_metered<T: Weigh + ToOwned + ?Sized>(
    json: &T,
    meter: &Meter,
    depth: usize,
) -> Result<T::Owned, EvaluationError> {
    json.weigh(meter, depth)?;
    Ok(json.to_owned())
}

trait Weigh {
    fn weigh(&self, meter: &Meter, depth: usize) -> Result<(), EvaluationError>;
}

impl Weigh for Value {
    fn weigh(&self, meter: &Meter, depth: usize) -> Result<(), EvaluationError> {
        check_depth(depth)?;
        meter.spend_bytes(PART_BYTES)?;
        match self {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => Ok(meter.spend_bytes(text.len())?),
            Value::Array(items) => items.as_slice().weigh(meter, depth),
            Value::Object(entries) => entries.weigh(meter, depth),
        }
    }
}

impl Weigh for [Value] {
    fn weigh(&self, meter: &Meter, depth: usize) -> Result<(), EvaluationError> {
        self.iter().try_for_each(|item| item.weigh(meter, depth + 1))
    }
}

impl Weigh for serde_json::Map<String, Value> {
    fn weigh(&self, meter: &Meter, depth: usize) -> Result<(), EvaluationError> {
        self.iter().try_for_each(|(key, value)| {
            meter.spend_bytes(PART_BYTES + key.len())?;
            value.weigh(meter, depth + 1)
        })
    }
}

/// Fails if a result is nested too deep.
fn check_depth(depth: usize) -> Result<(), EvaluationError> {
    if depth > MAX_RESULT_DEPTH {
        return Err(EvaluationError::Limit(format!(
            "the value is nested deeper than {MAX_RESULT_DEPTH} levels"
        )));
    }
    Ok(())
}

/// Evaluates `string(x)`.
pub(super) fn to_text<'a>(value: Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let text = match &value {
        Val::Text(_) => return Ok(value),
        Val::Bool(value) => value.to_string(),
        Val::Integer(n) => n.to_string(),
        Val::Large(n) => n.to_string(),
        Val::Double(n) => n.to_string(),
        Val::Duration(span) => time_functions::duration_text(*span),
        Val::Timestamp(at) => at.to_string(),
        Val::Type(kind) => kind.name().to_owned(),
        Val::Null | Val::List(_) | Val::Map(_) | Val::Optional(_) => {
            return EvaluationError::wrong(format!(
                "`string` cannot convert {}; text around a `${{ ... }}` prints it as JSON",
                value.described()
            ));
        }
    };
    meter.spend_bytes(text.len())?;
    Ok(Val::text(text))
}

/// Evaluates `int(x)`: the whole part of a double, the seconds since 1970 of a timestamp.
pub(super) fn to_integer(value: Val<'_>) -> Result<Val<'_>, EvaluationError> {
    match &value {
        Val::Integer(_) | Val::Large(_) => Ok(value),
        Val::Double(n) => match double_to_integer(*n) {
            Some(n) => Ok(Val::Integer(n)),
            None => EvaluationError::wrong(format!("{} does not fit in a 64-bit integer", value.described())),
        },
        Val::Text(text) => match text.as_str().trim().parse() {
            Ok(n) => Ok(Val::Integer(n)),
            Err(_) => {
                EvaluationError::wrong(format!("`int` takes a string of digits, not {}", value.described()))
            }
        },
        Val::Timestamp(at) => Ok(Val::Integer(at.as_second())),
        _ => EvaluationError::wrong(format!(
            "`int` takes a number or a string of digits, not {}",
            value.described()
        )),
    }
}

/// Evaluates `double(x)`.
pub(super) fn to_double<'a>(value: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    let number = match value {
        Val::Text(text) => text.as_str().trim().parse::<f64>().ok().filter(|n| n.is_finite()),
        other => super::arithmetic::to_double(other),
    };
    number.map(Val::Double).ok_or_else(|| {
        EvaluationError::Wrong(format!(
            "`double` takes a number or a string with one, not {}",
            value.described()
        ))
    })
}

/// Evaluates `bool(x)`.
pub(super) fn to_bool<'a>(value: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    let truth = match value {
        Val::Bool(truth) => Some(*truth),
        Val::Text(text) => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "1" => Some(true),
            "false" | "False" | "FALSE" | "f" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    };
    truth.map(Val::Bool).ok_or_else(|| {
        EvaluationError::Wrong(format!("`bool` takes \"true\" or \"false\", not {}", value.described()))
    })
}

/// Returns the whole part of a double; none if it does not fit.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked")]
pub(super) fn double_to_integer(n: f64) -> Option<i64> {
    (n.is_finite() && n > i64::MIN as f64 && n < i64::MAX as f64).then_some(n as i64)
}
