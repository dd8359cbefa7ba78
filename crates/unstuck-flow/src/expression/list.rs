//! Functions of lists. Every result is paid for before it is made.

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

/// Evaluates `a + b` for lists.
pub(super) fn concat<'a>(a: &List<'a>, b: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let length = a.len() + b.len();
    spend_on_list(length, meter)?;
    Ok(Val::list(a.iter().chain(b.iter()).collect()))
}

/// Calls a function on a list, which is the first argument.
pub(super) fn call_list_function<'a>(
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
        Function::Join => join_texts(list, text_at(function, arguments, 1)?, meter),
        Function::Distinct => distinct_items(list, meter),
        Function::Flatten => flatten_list(list, meter),
        Function::Sort => sort_list(list, meter),
        _ => {
            spend_on_list(list.len(), meter)?;
            let mut items: Vec<Val<'a>> = list.iter().collect();
            items.reverse();
            Ok(Val::list(items))
        }
    }
}

/// Finds the least or the greatest of the arguments, or of the items of one list.
pub(super) fn find_extreme<'a>(
    function: Function,
    arguments: &[Val<'a>],
    meter: &Meter,
) -> Result<Val<'a>, EvaluationError> {
    let wanted =
        if matches!(function, Function::Min | Function::Least) { Ordering::Less } else { Ordering::Greater };
    let items: Vec<Val<'a>> = match arguments {
        [Val::List(list)] => {
            spend_on_list(list.len(), meter)?;
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

/// Pays for making a list of this length.
pub(super) fn spend_on_list(length: usize, meter: &Meter) -> Result<(), EvaluationError> {
    meter.spend(length)?;
    Ok(meter.spend_bytes(length.saturating_mul(ITEM_BYTES))?)
}

/// Joins the strings of a list.
fn join_texts<'a>(list: &List<'a>, separator: &str, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
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

/// Keeps the first of equal items. Simple values are found by a hash, others by comparing one by one.
fn distinct_items<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    spend_on_list(list.len(), meter)?;
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
            other => compare::to_whole(other).map(Simple::Whole),
        }
    }
}

/// Returns whether an item equals one of the others.
fn is_among(item: &Val<'_>, others: &[&Val<'_>], meter: &Meter) -> Result<bool, EvaluationError> {
    for other in others {
        if compare::equal(item, other, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts the items of inner lists in their place; other items stay.
fn flatten_list<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    let mut items = Vec::new();
    for item in list.iter() {
        match item {
            Val::List(inner) => {
                spend_on_list(inner.len(), meter)?;
                items.extend(inner.iter());
            }
            other => {
                spend_on_list(1, meter)?;
                items.push(other);
            }
        }
    }
    Ok(Val::list(items))
}

/// Sorts a list. Compares every item with the first one beforehand, because sorting needs a total order.
fn sort_list<'a>(list: &List<'a>, meter: &Meter) -> Result<Val<'a>, EvaluationError> {
    spend_on_list(list.len(), meter)?;
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
