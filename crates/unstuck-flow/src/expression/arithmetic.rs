//! Arithmetic operators: exact on integers, an error on overflow; if one operand is a double, both become doubles.

use jiff::SignedDuration;

use super::compare::to_whole;
use super::meter::{EvaluationError, Meter};
use super::syntax::Operator;
use super::time_functions;
use super::value::Val;
use super::{list, text};

/// Applies an arithmetic operator to two values.
pub(super) fn apply_arithmetic<'a>(
    operator: Operator,
    a: &Val<'a>,
    b: &Val<'a>,
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    match (operator, a, b) {
        (_, Val::Integer(x), Val::Integer(y)) => apply_to_integers(operator, *x, *y),
        (Operator::Add, Val::Text(x), Val::Text(y)) => text::concat(x.as_str(), y.as_str(), meter),
        (Operator::Add, Val::List(x), Val::List(y)) => list::concat(x, y, meter),
        (_, Val::Duration(_) | Val::Timestamp(_), _) | (_, _, Val::Duration(_) | Val::Timestamp(_)) => {
            time_functions::apply_to_times(operator, a, b)
        }
        _ => match (to_double(a), to_double(b)) {
            (Some(x), Some(y)) => apply_to_numbers(operator, a, b, x, y),
            _ => Err(unsupported_operands_error(operator, a, b)),
        },
    }
}

/// Evaluates `-x`.
pub(super) fn negate<'a>(value: &Val<'a>) -> Result<Val<'a>, EvaluationError> {
    match value {
        Val::Integer(n) => n
            .checked_neg()
            .map(Val::Integer)
            .ok_or_else(|| EvaluationError::Wrong(too_large(&format!("-({n})")))),
        Val::Double(n) => Ok(Val::Double(-n)),
        Val::Duration(span) => Ok(Val::Duration(SignedDuration::ZERO.saturating_sub(*span))),
        other => EvaluationError::wrong(format!("`-` takes a number, not {}", other.described())),
    }
}

/// Converts a number of any kind to a double.
#[expect(clippy::cast_precision_loss, reason = "what a double cannot hold is rounded, as in every language")]
pub(super) fn to_double(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Integer(n) => Some(*n as f64),
        Val::Large(n) => Some(*n as f64),
        Val::Double(n) => Some(*n),
        _ => None,
    }
}

/// Builds the error of an operator that does not take these types, with advice for strings.
pub(super) fn unsupported_operands_error(operator: Operator, a: &Val<'_>, b: &Val<'_>) -> EvaluationError {
    let symbol = operator.symbol();
    let advice = match (operator, a, b) {
        (Operator::Add, Val::Text(_), _) | (Operator::Add, _, Val::Text(_)) => {
            "; convert one of them, with `string(...)` or `int(...)`"
        }
        (_, Val::Text(_), _) | (_, _, Val::Text(_)) => {
            "; convert the string, with `int(...)` or `to_double(...)`"
        }
        (_, Val::Optional(_), _) | (_, _, Val::Optional(_)) => {
            "; give the optional a default, with `.orValue(...)`"
        }
        _ => "",
    };
    EvaluationError::Wrong(format!(
        "`{symbol}` does not work on {} and {}{advice}",
        a.described(),
        b.described()
    ))
}

/// Applies an operator to integers; overflow and division by zero are errors.
fn apply_to_integers<'a>(operator: Operator, a: i64, b: i64) -> Result<Val<'a>, EvaluationError> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b != 0 => a.checked_div(b),
        Operator::Remainder if b != 0 => a.checked_rem(b),
        Operator::Divide | Operator::Remainder => {
            return EvaluationError::wrong(format!("{a} cannot be divided by 0"));
        }
        _ => return Err(unsupported_operands_error(operator, &Val::Integer(a), &Val::Integer(b))),
    };
    result
        .map(Val::Integer)
        .ok_or_else(|| EvaluationError::Wrong(too_large(&format!("{a} {} {b}", operator.symbol()))))
}

/// Applies an operator to numbers of which at least one is a double or a large integer.
fn apply_to_numbers<'a>(
    operator: Operator,
    a: &Val<'a>,
    b: &Val<'a>,
    x: f64,
    y: f64,
) -> Result<Val<'a>, EvaluationError> {
    if let (Some(x), Some(y)) = (to_whole(a), to_whole(b)) {
        return apply_to_large_integers(operator, x, y);
    }
    Ok(Val::Double(match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::Remainder => {
            return EvaluationError::wrong(format!(
                "`%` takes integers, not {} and {}",
                a.described(),
                b.described()
            ));
        }
        _ => return Err(unsupported_operands_error(operator, a, b)),
    }))
}

/// Applies an operator in 128 bits and checks that the result fits.
fn apply_to_large_integers<'a>(operator: Operator, a: i128, b: i128) -> Result<Val<'a>, EvaluationError> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_div(b),
        Operator::Remainder => a.checked_rem(b),
        _ => None,
    };
    let small = result.and_then(|n| i64::try_from(n).ok()).map(Val::Integer);
    let value = small.or_else(|| result.and_then(|n| u64::try_from(n).ok()).map(Val::Large));
    value.ok_or_else(|| EvaluationError::Wrong(too_large(&format!("{a} {} {b}", operator.symbol()))))
}

fn too_large(what: &str) -> String {
    format!("{what} does not fit in a 64-bit integer; `to_double(...)` holds larger numbers, less exactly")
}
