//! What lists can do. Every result is paid for before it is made.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::compare;
use super::convert::double_to_integer;
use super::function::Function;
use super::meter::{EvaluationError, Meter};
use super::text::text_at;
use super::value::{List, Val};

/// What an item of a new list costs.
pub(super) const ITEM_BYTES: usize = std::mem::size_of::<Val<'static>>();

/// `a + b`
pub(super) fn concat<'a>(a: &List<'a>, b: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let length = a.len() + b.len();
    pay(length, meter)?;
    Ok(Val::list(a.iter().chain(b.iter()).collect()))
}

/// A function on a list, which is the first argument.
pub(super) fn call<'a>(
    function: Function,
    arguments: &[Val<'a>],
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    let list = match arguments.first() {
        Some(Val::List(list)) => list,
        Some(other) => {
            return EvaluationError::wrong(format!(
                "`{}` works on a list, not on {}",
                function.name(),
                other.described()
            ));
        }
        None => return Ok(Val::Null),
    };
    meter.spend(list.len())?;
    match function {
        Function::Join => join(list, text_at(function, arguments, 1)?, meter),
        Function::Distinct => distinct(list, meter),
        Function::Flatten => flatten(list, meter),
        Function::Sort => sort(list, meter),
        _ => {
            pay(list.len(), meter)?;
            let mut items: Vec<Val<'a>> = list.iter().collect();
            items.reverse();
            Ok(Val::list(items))
        }
    }
}

/// The least or the greatest of the arguments, or of the one list.
pub(super) fn extreme<'a>(
    function: Function,
    arguments: &[Val<'a>],
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    let wanted =
        if matches!(function, Function::Min | Function::Least) { Ordering::Less } else { Ordering::Greater };
    let items: Vec<Val<'a>> = match arguments {
        [Val::List(list)] => {
            pay(list.len(), meter)?;
            list.iter().collect()
        }
        several => several.to_vec(),
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return EvaluationError::wrong(format!("`{}` of an empty list has no value", function.name()));
    };
    for item in items {
        meter.spend(1)?;
        if compare::order(&item, &best, meter)? == Some(wanted) {
            best = item;
        }
    }
    Ok(best)
}

/// Pays for a list of so many items.
pub(super) fn pay(length: usize, meter: &Meter) -> Result<(), EvaluationError> {
    meter.spend(length)?;
    Ok(meter.spend_bytes(length.saturating_mul(ITEM_BYTES))?)
}

fn join<'a>(list: &List<'a>, separator: &str, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let mut parts = Vec::with_capacity(list.len());
    let mut bytes = 0;
    for (at, item) in list.iter().enumerate() {
        let Val::Text(text) = item else {
            return EvaluationError::wrong(format!(
                "`join` needs a list of strings, but item {at} is {}; convert them with `.map(x, string(x))`",
                item.described()
            ));
        };
        bytes += text.as_str().len() + separator.len();
        parts.push(text);
    }
    meter.spend_on_reading(bytes)?;
    meter.spend_bytes(bytes)?;
    let parts: Vec<&str> = parts.iter().map(super::value::Text::as_str).collect();
    Ok(Val::text(parts.join(separator)))
}

/// The first of each; what is simple is found by a hash, the rest is compared one by one.
fn distinct<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    pay(list.len(), meter)?;
    let items: Vec<Val<'a>> = list.iter().collect();
    let mut simple = HashSet::new();
    let mut others: Vec<&Val<'a>> = Vec::new();
    let mut kept: Vec<Val<'a>> = Vec::new();
    for item in &items {
        let is_new = match Simple::of(item) {
            Some(value) => {
                meter.spend_on_reading(if let Simple::Text(text) = value { text.len() } else { 0 })?;
                simple.insert(value)
            }
            None if is_among(item, &others, meter)? => false,
            None => {
                others.push(item);
                true
            }
        };
        if is_new {
            kept.push(item.clone());
        }
    }
    Ok(Val::list(kept))
}

/// A value that can be hashed. A whole double is the integer that it equals.
#[derive(PartialEq, Eq, Hash)]
enum Simple<'v> {
    Null,
    Bool(bool),
    Whole(i128),
    Text(&'v str),
}

impl<'v> Simple<'v> {
    fn of(value: &'v Val<'_>) -> Option<Simple<'v>> {
        match value {
            Val::Null => Some(Simple::Null),
            Val::Bool(value) => Some(Simple::Bool(*value)),
            Val::Text(text) => Some(Simple::Text(text.as_str())),
            Val::Double(n) if n.fract() == 0.0 => double_to_integer(*n).map(|n| Simple::Whole(n.into())),
            other => compare::whole(other).map(Simple::Whole),
        }
    }
}

fn is_among(item: &Val<'_>, others: &[&Val<'_>], meter: &Meter) -> Result<bool, EvaluationError> {
    for other in others {
        if compare::equal(item, other, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lists in a list one after the other; what is no list stays as it is.
fn flatten<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let mut items = Vec::new();
    for item in list.iter() {
        match item {
            Val::List(inner) => {
                pay(inner.len(), meter)?;
                items.extend(inner.iter());
            }
            other => {
                pay(1, meter)?;
                items.push(other);
            }
        }
    }
    Ok(Val::list(items))
}

/// Everything is compared with the first item before anything is sorted: the order of a sort must be total.
fn sort<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    pay(list.len(), meter)?;
    let mut items: Vec<Val<'a>> = list.iter().collect();
    let mut longest = 0;
    for item in &items {
        if compare::plain_order(&items[0], item)?.is_none() {
            return EvaluationError::wrong("a list that contains NaN cannot be sorted");
        }
        if let Val::Text(text) = item {
            longest = longest.max(text.as_str().len());
        }
    }
    let rounds = usize::try_from(items.len().checked_ilog2().unwrap_or(0)).unwrap_or(0) + 1;
    meter.spend(items.len().saturating_mul(rounds).saturating_mul(1 + longest / 16))?;
    items.sort_by(|a, b| compare::plain_order(a, b).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Val::list(items))
}
