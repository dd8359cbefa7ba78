//! `+ - * / %` and the sign: exact on integers, refused where they overflow; a double makes doubles of both.

use jiff::SignedDuration;

use super::compare::whole;
use super::meter::{EvaluationError, Meter};
use super::syntax::Operator;
use super::time_functions;
use super::value::Val;
use super::{list, text};

/// Applies an arithmetic operator.
pub(super) fn apply<'a>(
    operator: Operator,
    a: &Val<'a>,
    b: &Val<'a>,
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    match (operator, a, b) {
        (_, Val::Integer(x), Val::Integer(y)) => integers(operator, *x, *y),
        (Operator::Add, Val::Text(x), Val::Text(y)) => text::concat(x.as_str(), y.as_str(), meter),
        (Operator::Add, Val::List(x), Val::List(y)) => list::concat(x, y, meter),
        (_, Val::Duration(_) | Val::Timestamp(_), _) | (_, _, Val::Duration(_) | Val::Timestamp(_)) => {
            time_functions::apply(operator, a, b)
        }
        _ => match (double(a), double(b)) {
            (Some(x), Some(y)) => numbers(operator, a, b, x, y),
            _ => Err(no_operator(operator, a, b)),
        },
    }
}

/// `-x`
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

/// A number of any kind as a double.
#[expect(clippy::cast_precision_loss, reason = "what a double cannot hold is rounded, as in every language")]
pub(super) fn double(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Integer(n) => Some(*n as f64),
        Val::Large(n) => Some(*n as f64),
        Val::Double(n) => Some(*n),
        _ => None,
    }
}

/// Says that an operator does not take these.
pub(super) fn no_operator(operator: Operator, a: &Val<'_>, b: &Val<'_>) -> EvaluationError {
    let symbol = operator.symbol();
    let advice = match (operator, a, b) {
        (Operator::Add, Val::Text(_), _) | (Operator::Add, _, Val::Text(_)) => {
            "; convert one of them, with `string(...)` or `int(...)`"
        }
        (_, Val::Text(_), _) | (_, _, Val::Text(_)) => {
            "; convert the string, with `int(...)` or `double(...)`"
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

fn integers<'a>(operator: Operator, a: i64, b: i64) -> Result<Val<'a>, EvaluationError> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b != 0 => a.checked_div(b),
        Operator::Remainder if b != 0 => a.checked_rem(b),
        Operator::Divide | Operator::Remainder => {
            return EvaluationError::wrong(format!("{a} cannot be divided by 0"));
        }
        _ => return Err(no_operator(operator, &Val::Integer(a), &Val::Integer(b))),
    };
    result
        .map(Val::Integer)
        .ok_or_else(|| EvaluationError::Wrong(too_large(&format!("{a} {} {b}", operator.symbol()))))
}

/// At least one is a double or a large integer.
fn numbers<'a>(
    operator: Operator,
    a: &Val<'a>,
    b: &Val<'a>,
    x: f64,
    y: f64,
) -> Result<Val<'a>, EvaluationError> {
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        return large(operator, x, y);
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
        _ => return Err(no_operator(operator, a, b)),
    }))
}

fn large<'a>(operator: Operator, a: i128, b: i128) -> Result<Val<'a>, EvaluationError> {
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
    format!("{what} does not fit in a 64-bit integer; `double(...)` holds larger numbers, less exactly")
}
