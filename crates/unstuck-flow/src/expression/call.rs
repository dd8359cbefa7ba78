//! Calls of functions: each to the room that knows its kind of value.

use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::value::Val;
use super::{arithmetic, convert, list, text, time_functions};

/// Calls a function; the value that it is called on is the first argument.
pub(super) fn call<'a>(
    function: Function,
    mut arguments: Vec<Val<'a>>,
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    match function {
        Function::Contains
        | Function::StartsWith
        | Function::EndsWith
        | Function::Matches
        | Function::LowerAscii
        | Function::UpperAscii
        | Function::Trim
        | Function::IndexOf
        | Function::LastIndexOf
        | Function::Substring
        | Function::Replace
        | Function::Split => text::call(function, &arguments, meter),
        Function::Join | Function::Distinct | Function::Flatten | Function::Sort | Function::Reverse => {
            list::call(function, &arguments, meter)
        }
        Function::Min | Function::Max | Function::Least | Function::Greatest => {
            list::extreme(function, &arguments, meter)
        }
        Function::FullYear
        | Function::Month
        | Function::Date
        | Function::DayOfMonth
        | Function::DayOfWeek
        | Function::DayOfYear
        | Function::Hours
        | Function::Minutes
        | Function::Seconds
        | Function::Milliseconds => time_functions::part(function, &arguments, meter),
        Function::Size
        | Function::Text
        | Function::Integer
        | Function::Double
        | Function::Bool
        | Function::Type
        | Function::Duration
        | Function::Timestamp
        | Function::Abs
        | Function::Ceil
        | Function::Floor
        | Function::Round
        | Function::HasValue
        | Function::OrValue => one(function, arguments.pop().unwrap_or(Val::Null), meter),
    }
}

/// The functions of one value.
fn one<'a>(function: Function, value: Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    match function {
        Function::Size => size(&value, meter),
        Function::Text => convert::to_text(value, meter),
        Function::Integer => convert::to_integer(value),
        Function::Double => convert::to_double(&value),
        Function::Bool => convert::to_bool(&value),
        Function::Type => Ok(Val::Type(value.kind())),
        Function::Duration => match &value {
            Val::Duration(_) => Ok(value),
            Val::Text(text) => {
                time_functions::duration(text.as_str()).map(Val::Duration).map_err(EvaluationError::Wrong)
            }
            other => EvaluationError::wrong(format!("`duration` takes a string, not {}", other.described())),
        },
        Function::Timestamp => match &value {
            Val::Timestamp(_) => Ok(value),
            Val::Text(text) => {
                time_functions::timestamp(text.as_str()).map(Val::Timestamp).map_err(EvaluationError::Wrong)
            }
            Val::Integer(seconds) => {
                jiff::Timestamp::from_second(*seconds).map(Val::Timestamp).map_err(|_| {
                    EvaluationError::Wrong(format!(
                        "{seconds} seconds since 1970 is outside the range of dates"
                    ))
                })
            }
            other => EvaluationError::wrong(format!("`timestamp` takes a string, not {}", other.described())),
        },
        Function::Abs | Function::Ceil | Function::Floor | Function::Round => rounded(function, value),
        Function::HasValue | Function::OrValue => match &value {
            Val::Optional(inner) => Ok(Val::Bool(inner.is_some())),
            other => Err(no_optional(function, other)),
        },
        _ => EvaluationError::wrong(format!("`{}` does not take this value", function.name())),
    }
}

fn size<'a>(value: &Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    match value {
        Val::Text(text) => {
            meter.spend_on_reading(text.as_str().len())?;
            Ok(Val::count(text.as_str().chars().count()))
        }
        Val::List(list) => Ok(Val::count(list.len())),
        Val::Map(map) => Ok(Val::count(map.len())),
        other => EvaluationError::wrong(format!(
            "`size` takes a string, a list or a map, not {}",
            other.described()
        )),
    }
}

fn rounded(function: Function, value: Val<'_>) -> Result<Val<'_>, EvaluationError> {
    match (function, &value) {
        (Function::Abs, Val::Integer(n)) if *n < 0 => arithmetic::negate(&value),
        (_, Val::Integer(_) | Val::Large(_)) => Ok(value),
        (Function::Abs, Val::Double(n)) => Ok(Val::Double(n.abs())),
        (Function::Ceil, Val::Double(n)) => Ok(Val::Double(n.ceil())),
        (Function::Floor, Val::Double(n)) => Ok(Val::Double(n.floor())),
        (_, Val::Double(n)) => Ok(Val::Double(n.round())),
        (_, other) => {
            EvaluationError::wrong(format!("`{}` takes a number, not {}", function.name(), other.described()))
        }
    }
}

/// Says that a value is no optional.
pub(super) fn no_optional(function: Function, value: &Val<'_>) -> EvaluationError {
    let name = function.name();
    EvaluationError::Wrong(format!(
        "`{name}` works on an optional, as in `input.?name.{name}(...)`, not on {}",
        value.described()
    ))
}
