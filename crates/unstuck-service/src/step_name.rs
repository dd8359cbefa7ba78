//! How steps and items are named: `step`, or `step[3]` for an item.

use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{StepRun, UnitRef};

use crate::service::ServiceError;

/// So many are named where somebody has to choose.
const SHOWN: usize = 8;

/// The step of this id.
pub(crate) fn find_step(flow: &Flow, id: &str) -> Result<StepIndex, ServiceError> {
    flow.find_step(id).ok_or_else(|| {
        let ids = flow.steps.iter().map(|step| format!("`{}`", step.id));
        ServiceError::not_found(format!("flow `{}` has no step `{id}`; it has {}", flow.name, some_of(ids)))
            .named("step", id)
    })
}

/// The step or item of this name that can be acted on.
pub(crate) fn find_unit(run: &Run, flow: &Flow, name: &str) -> Result<UnitRef, ServiceError> {
    let (id, item) = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        None => (name, None),
        Some((id, item)) => {
            let item: u32 = item.parse().map_err(|_| {
                ServiceError::refused(format!("`{name}` is not an item: the number in brackets starts at 0"))
            })?;
            (id, Some(item))
        }
    };
    let place = find_step(flow, id)?;
    match (run.step(place), item) {
        (StepRun::Single(_), None) => Ok(UnitRef::step(place)),
        (StepRun::Single(_), Some(_)) => {
            Err(ServiceError::not_found(format!("step `{id}` has no items; name it without the brackets")))
        }
        (StepRun::Items(items), None) => {
            let open = items.units.iter().filter(|(_, unit)| matches!(unit.state.word(), "held" | "error"));
            let open: Vec<String> =
                open.map(|(item, unit)| format!("{id}[{item}] ({})", unit.state.word())).collect();
            let which = if open.is_empty() {
                "none of them is held or in error".to_owned()
            } else {
                format!("name one: {}", some_of(open.into_iter()))
            };
            let items = items.total;
            Err(ServiceError::ambiguous(format!("step `{id}` has {items} items; {which}"), Vec::new()))
        }
        (StepRun::Items(items), Some(item)) if item >= items.total => {
            Err(ServiceError::not_found(match items.total {
                0 => format!("step `{id}` has no items"),
                total => format!("step `{id}` has {total} items, the last of which is `{id}[{}]`", total - 1),
            }))
        }
        (StepRun::Items(items), Some(item)) if !items.units.contains_key(&item) => Err(
            ServiceError::wrong_state(format!("`{name}` has not started yet, so there is nothing to change")),
        ),
        (StepRun::Items(_), Some(item)) => Ok(UnitRef::item(place, item)),
    }
}

fn some_of(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
