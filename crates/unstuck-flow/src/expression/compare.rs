//! Equality and order of values: numbers by value whatever their type, structures part by part.

use std::cmp::Ordering;

use super::meter::{EvaluationError, Meter};
use super::value::{List, Map, Val};

/// Compares two values for equality. Values of different types are unequal, but integers and doubles compare by value.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    meter.spend(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => {
            meter.spend_on_reading(a.as_str().len().min(b.as_str().len()))?;
            a.as_str() == b.as_str()
        }
        (Val::List(a), Val::List(b)) => return equal_lists(a, b, meter),
        (Val::Map(a), Val::Map(b)) => return equal_maps(a, b, meter),
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => return equal(a, b, meter),
        (Val::Optional(None), Val::Optional(None)) => true,
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    })
}

/// Orders two values and pays for reading them; none if one is NaN, an error if they cannot be compared.
pub(super) fn order(a: &Val<'_>, b: &Val<'_>, meter: &Meter) -> Result<Option<Ordering>, EvaluationError> {
    if let (Val::Text(a), Val::Text(b)) = (a, b) {
        meter.spend_on_reading(a.as_str().len().min(b.as_str().len()))?;
    }
    plain_order(a, b)
}

/// As [`order`], where reading has been paid for.
pub(super) fn plain_order(a: &Val<'_>, b: &Val<'_>) -> Result<Option<Ordering>, EvaluationError> {
    Ok(match (a, b) {
        (Val::Text(a), Val::Text(b)) => Some(a.as_str().cmp(b.as_str())),
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        _ if is_number(a) && is_number(b) => compare_numbers(a, b),
        _ => {
            return EvaluationError::wrong(format!(
                "{} and {} cannot be ordered; compare numbers with numbers, strings with strings",
                a.described(),
                b.described()
            ));
        }
    })
}

/// Returns whether `list` has an item equal to `wanted`.
pub(super) fn contains(list: &List<'_>, wanted: &Val<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    for item in list.iter() {
        if equal(&item, wanted, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_lists(a: &List<'_>, b: &List<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b.iter()) {
        if !equal(&a, &b, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(a: &Map<'_>, b: &Map<'_>, meter: &Meter) -> Result<bool, EvaluationError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.spend(a.len())?;
    for key in a.keys() {
        match (a.get(&key), b.get(&key)) {
            (Some(a), Some(b)) if equal(&a, &b, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn is_number(value: &Val<'_>) -> bool {
    matches!(value, Val::Integer(_) | Val::Large(_) | Val::Double(_))
}

/// Orders two numbers exactly, whatever their types.
fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Integer(a), Val::Integer(b)) => Some(a.cmp(b)),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), b) => Some(compare_with_double(to_whole(b)?, *a)?.reverse()),
        (a, Val::Double(b)) => compare_with_double(to_whole(a)?, *b),
        (a, b) => Some(to_whole(a)?.cmp(&to_whole(b)?)),
    }
}

/// Returns the value of an integer of either size.
pub(super) fn to_whole(value: &Val<'_>) -> Option<i128> {
    match value {
        Val::Integer(n) => Some(i128::from(*n)),
        Val::Large(n) => Some(i128::from(*n)),
        _ => None,
    }
}

/// Orders an integer and a double exactly, also beyond 2^53 where a double lacks digits.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the rounded comparison decides only where rounding cannot matter; `as` saturates"
)]
fn compare_with_double(whole: i128, double: f64) -> Option<Ordering> {
    match (whole as f64).partial_cmp(&double)? {
        Ordering::Equal => Some(whole.cmp(&(double as i128))),
        other => Some(other),
    }
}
