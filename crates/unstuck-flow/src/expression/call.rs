//! Calls of functions: dispatches each to the module of its kind of value.

use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::value::Val;
use super::{arithmetic, convert, list, text, time_functions};

/// Calls a function; the value that it is called on is the first argument.
pub(super) fn call_function<'a>(
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
        | Function::Split => text::call_text_function(function, &arguments, meter),
        Function::Join | Function::Distinct | Function::Flatten | Function::Sort | Function::Reverse => {
            list::call_list_function(function, &arguments, meter)
        }
        Function::Min | Function::Max | Function::Least | Function::Greatest => {
            list::find_extreme(function, &arguments, meter)
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
        | Function::Milliseconds => time_functions::part_of_time(function, &arguments, meter),
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
        | Function::OrValue => call_with_one(function, arguments.pop().unwrap_or(Val::Null), meter),
    }
}

/// Calls a function of one value.
fn call_with_one<'a>(function: Function, value: Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    match function {
        Function::Size => size_of_value(&value, meter),
        Function::Text => convert::to_text(value, meter),
        Function::Integer => convert::to_integer(value),
        Function::Double => convert::to_double(&value),
        Function::Bool => convert::to_bool(&value),
        Function::Type => Ok(Val::Type(value.kind())),
        Function::Duration => match &value {
            Val::Duration(_) => Ok(value),
            Val::Text(text) => time_functions::parse_signed_duration(text.as_str())
                .map(Val::Duration)
                .map_err(EvaluationError::Wrong),
            other => EvaluationError::wrong(format!("`duration` takes a string, not {}", other.described())),
        },
        Function::Timestamp => match &value {
            Val::Timestamp(_) => Ok(value),
            Val::Text(text) => time_functions::parse_timestamp(text.as_str())
                .map(Val::Timestamp)
                .map_err(EvaluationError::Wrong),
            Val::Integer(seconds) => {
                jiff::Timestamp::from_second(*seconds).map(Val::Timestamp).map_err(|_| {
                    EvaluationError::Wrong(format!(
                        "{seconds} seconds since 1970 is outside the range of dates"
                    ))
                })
            }
            other => EvaluationError::wrong(format!("`timestamp` takes a string, not {}", other.described())),
        },
        Function::Abs | Function::Ceil | Function::Floor | Function::Round => round_value(function, value),
        Function::HasValue | Function::OrValue => match &value {
            Val::Optional(inner) => Ok(Val::Bool(inner.is_some())),
            other => Err(not_optional_error(function, other)),
        },
        _ => EvaluationError::wrong(format!("`{}` does not take this value", function.name())),
    }
}

/// Evaluates `size(x)`: characters of a string, items of a list, entries of a map.
fn size_of_value<'a>(value: &Val<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
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

/// Evaluates `math.abs`, `ceil`, `floor` or `round`; integers stay integers.
fn round_value(function: Function, value: Val<'_>) -> Result<Val<'_>, EvaluationError> {
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

/// Builds the error of an optional function on another value.
pub(super) fn not_optional_error(function: Function, value: &Val<'_>) -> EvaluationError {
    let name = function.name();
    EvaluationError::Wrong(format!(
        "`{name}` works on an optional, as in `input.?name.{name}(...)`, not on {}",
        value.described()
    ))
}
