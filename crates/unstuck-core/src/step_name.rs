//! Step names as people write them: `step`, or `step[3]` for an item. The rules are the same for every interface.

use std::fmt;

use crate::model::flow::{Flow, StepIndex};
use crate::model::run::Run;
use crate::model::unit::{Items, StepRun, Unit, UnitRef, UnitState};

/// How many names are listed where a name is ambiguous or unknown.
const SHOWN: usize = 8;

/// Why a name does not identify something to act on, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepNameError {
    /// It is not written as a name.
    Malformed(String),
    /// The flow has no such step, or the step no such item.
    NotFound(String),
    /// It names several.
    Ambiguous(String),
    /// It is there, and not in a state in which anything can be done.
    WrongState(String),
}

impl fmt::Display for StepNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (StepNameError::Malformed(sentence)
        | StepNameError::NotFound(sentence)
        | StepNameError::Ambiguous(sentence)
        | StepNameError::WrongState(sentence)) = self;
        f.write_str(sentence)
    }
}

/// Finds a step by its id, or lists the ids there are.
pub fn find_step(flow: &Flow, id: &str) -> Result<StepIndex, StepNameError> {
    flow.find_step(id).ok_or_else(|| {
        let ids = flow.steps.iter().map(|step| format!("`{}`", step.id)).collect();
        StepNameError::NotFound(format!(
            "flow `{}` has no step `{id}`; it has {}",
            flow.name,
            join_first_names(ids)
        ))
    })
}

/// Finds the one step or item of this name. A fan-out without an item number is ambiguous.
pub fn find_unit(run: &Run, flow: &Flow, name: &str) -> Result<UnitRef, StepNameError> {
    let (id, item) = parse_name(name)?;
    let step = find_step(flow, id)?;
    match (run.step(step), item) {
        (StepRun::Single(_), None) => Ok(UnitRef::step(step)),
        (StepRun::Items(items), None) => {
            let open = open_items(items).map(|(item, unit)| format!("{id}[{item}] ({})", unit.state.word()));
            let open: Vec<String> = open.collect();
            let which = if open.is_empty() {
                "none of them is held or in error".to_owned()
            } else {
                format!("name one: {}", join_first_names(open))
            };
            Err(StepNameError::Ambiguous(format!("step `{id}` has {} items; {which}", items.total)))
        }
        (state, Some(item)) => find_item(state, step, id, item),
    }
}

/// Finds the steps or items of this name; a fan-out without an item number means its items that are held or in error.
pub fn find_units(run: &Run, flow: &Flow, name: &str) -> Result<Vec<UnitRef>, StepNameError> {
    let (id, item) = parse_name(name)?;
    let step = find_step(flow, id)?;
    match (run.step(step), item) {
        (StepRun::Single(_), None) => Ok(vec![UnitRef::step(step)]),
        (StepRun::Items(items), None) => {
            let open: Vec<UnitRef> = open_items(items).map(|(item, _)| UnitRef::item(step, item)).collect();
            if open.is_empty() {
                let sentence = format!("none of the items of step `{id}` is in error or held");
                return Err(StepNameError::WrongState(sentence));
            }
            Ok(open)
        }
        (state, Some(item)) => find_item(state, step, id, item).map(|unit| vec![unit]),
    }
}

/// Splits `step[3]` into the id of the step and the number of the item.
fn parse_name(name: &str) -> Result<(&str, Option<u32>), StepNameError> {
    let Some((id, item)) = name.strip_suffix(']').and_then(|rest| rest.split_once('[')) else {
        return Ok((name, None));
    };
    let item = item.parse().map_err(|_| {
        StepNameError::Malformed(format!("`{name}` is not an item: the number in brackets starts at 0"))
    })?;
    Ok((id, Some(item)))
}

/// Returns the item of a fan-out, or says that the step has no such item.
fn find_item(state: &StepRun, step: StepIndex, id: &str, item: u32) -> Result<UnitRef, StepNameError> {
    match state {
        StepRun::Single(_) => {
            Err(StepNameError::NotFound(format!("step `{id}` has no items; name it without the brackets")))
        }
        StepRun::Items(items) if item >= items.total => Err(StepNameError::NotFound(match items.total {
            0 => format!("step `{id}` has no items"),
            total => format!("step `{id}` has {total} items, the last of which is `{id}[{}]`", total - 1),
        })),
        StepRun::Items(items) if !items.units.contains_key(&item) => Err(StepNameError::WrongState(format!(
            "`{id}[{item}]` has not started yet, so there is nothing to change"
        ))),
        StepRun::Items(_) => Ok(UnitRef::item(step, item)),
    }
}

/// Iterates over the items that need an operator: held or in error.
fn open_items(items: &Items) -> impl Iterator<Item = (u32, &Unit)> {
    let is_open = |unit: &Unit| matches!(unit.state, UnitState::Held { .. } | UnitState::Error { .. });
    items.units.iter().filter(move |(_, unit)| is_open(unit)).map(|(item, unit)| (*item, unit))
}

/// Joins the first [`SHOWN`] names, and says how many more there are.
fn join_first_names(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
