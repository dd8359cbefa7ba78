//! Who there is: ids given out once, keys with one run, children of one attempt, and slots under their limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::{Origin, ParentAttempt, Run, Slot};
use unstuck_core::model::unit::UnitRef;

use super::{Broken, Promise};

/// What an attempt of a parent has a child for; a handler is the run's.
type ChildKey = (RunId, Option<UnitRef>, ParentAttempt);

/// Everybody, as far as it is durable.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// Every id that a run ever had.
    ids: BTreeSet<RunId>,
    keys: BTreeMap<(Arc<str>, Arc<str>), RunId>,
    children: BTreeMap<ChildKey, RunId>,
    slots: BTreeMap<Arc<str>, BTreeMap<RunId, u32>>,
    /// Whether what happens is told in another order than it happened in.
    is_unordered: bool,
}

impl Family {
    /// The run of a key.
    pub(super) fn of_key(&self, flow: &Arc<str>, key: &Arc<str>) -> Option<RunId> {
        self.keys.get(&(flow.clone(), key.clone())).copied()
    }

    /// Every key.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&(Arc<str>, Arc<str>), &RunId)> {
        self.keys.iter()
    }

    /// A run and its key are gone for good.
    pub(super) fn forget(&mut self, run: RunId) {
        self.keys.retain(|_, owner| *owner != run);
        for has in self.slots.values_mut() {
            has.remove(&run);
        }
    }

    /// Something happened to a run, which is now as `after`.
    pub(super) fn follow(&mut self, event: &Event, flow: &Flow, after: &Run) -> Result<(), Broken> {
        for fact in &event.facts {
            match fact {
                Fact::Started(started) => {
                    if !self.ids.insert(started.run) {
                        return Err(Broken::of(Promise::Keys, after.id, "its id was given out before"));
                    }
                    self.take_key(after, flow)?;
                    self.check_child(after)?;
                }
                Fact::Unit { unit, fact: UnitFact::ChildStarted { attempt, run, .. } } => {
                    let serves = ParentAttempt { generation: event.generation, attempt: *attempt };
                    self.has_child(after.id, Some(*unit), serves, *run)?;
                }
                Fact::HandlerStarted { run } => {
                    let serves = ParentAttempt { generation: event.generation, attempt: 0 };
                    self.has_child(after.id, None, serves, *run)?;
                }
                Fact::Reran { serves: Some(_), .. } => self.check_child(after)?,
                _ => {}
            }
        }
        check_parallel(event, after, flow)?;
        self.check_slot(after)
    }

    fn take_key(&mut self, run: &Run, flow: &Flow) -> Result<(), Broken> {
        let Some(key) = &run.key else { return Ok(()) };
        match self.keys.insert((flow.name.clone(), key.clone()), run.id) {
            None => Ok(()),
            Some(other) => Err(Broken::of(Promise::Keys, run.id, format!("its key `{key}` is {other}'s"))),
        }
    }

    /// An attempt of a parent begins a child, which the parent names first.
    fn has_child(
        &mut self,
        parent: RunId,
        unit: Option<UnitRef>,
        serves: ParentAttempt,
        child: RunId,
    ) -> Result<(), Broken> {
        match self.children.insert((parent, unit, serves), child) {
            Some(other) if other != child => {
                let what = format!("attempt {} has two children, {other} and {child}", serves.attempt);
                Err(Broken::of(Promise::Children, parent, what))
            }
            _ => Ok(()),
        }
    }

    /// A child works for an attempt that has no other child.
    fn check_child(&mut self, run: &Run) -> Result<(), Broken> {
        let (parent, unit, serves) = match &run.origin {
            Origin::Root => return Ok(()),
            Origin::Child { parent, unit, serves, .. } => (*parent, Some(*unit), *serves),
            Origin::Handler { parent, generation } => {
                (*parent, None, ParentAttempt { generation: *generation, attempt: 0 })
            }
        };
        match self.children.get(&(parent, unit, serves)) {
            Some(known) if *known == run.id => Ok(()),
            Some(other) => {
                let what = format!("it works for an attempt of {parent} whose child is {other}");
                Err(Broken::of(Promise::Children, run.id, what))
            }
            None => {
                let what = format!("it works for an attempt of {parent} that has begun no child");
                Err(Broken::of(Promise::Children, run.id, what))
            }
        }
    }

    fn check_slot(&mut self, run: &Run) -> Result<(), Broken> {
        match &run.slot {
            Slot::Unlimited => Ok(()),
            Slot::Wanted(limit) => {
                self.slots.entry(limit.name.clone()).or_default().remove(&run.id);
                Ok(())
            }
            Slot::Taken(limit) => {
                let has = self.slots.entry(limit.name.clone()).or_default();
                let is_new = has.insert(run.id, limit.max).is_none();
                if is_new && !self.is_unordered && has.len() > limit.max as usize {
                    return Err(too_many(&limit.name, has));
                }
                Ok(())
            }
        }
    }

    /// Whether what is told comes in another order than it happened in.
    pub(super) fn is_unordered(&self) -> bool {
        self.is_unordered
    }

    /// What follows is told in another order than it happened in.
    pub(super) fn begin_unordered(&mut self) {
        self.is_unordered = true;
    }

    /// That is over: limits are looked at again.
    pub(super) fn end_unordered(&mut self) -> Result<(), Broken> {
        self.is_unordered = false;
        let is_over =
            |has: &BTreeMap<RunId, u32>| has.values().max().is_some_and(|max| has.len() > *max as usize);
        match self.slots.iter().find(|(_, has)| is_over(has)) {
            None => Ok(()),
            Some((name, has)) => Err(too_many(name, has)),
        }
    }
}

fn too_many(name: &str, has: &BTreeMap<RunId, u32>) -> Broken {
    let max = has.values().max().copied().unwrap_or(0);
    let what = format!("{} runs have a slot of `{name}`, and {max} may", has.len());
    Broken { promise: Promise::Limits, run: has.keys().next_back().copied(), what }
}

/// No further item is launched while `parallel` of them are in motion. Those that somebody resumes go on at once.
fn check_parallel(event: &Event, run: &Run, flow: &Flow) -> Result<(), Broken> {
    for (place, step) in flow.step_indices().zip(&flow.steps) {
        let (Some(each), Some(items)) = (&step.node.for_each, run.items(place)) else { continue };
        let launches = event.facts.iter().any(|fact| match fact {
            Fact::Unit {
                unit,
                fact: UnitFact::Queued { attempt: 1, .. } | UnitFact::ChildStarted { attempt: 1, .. },
            } => unit.step == place,
            _ => false,
        });
        let moving = items.units.values().filter(|unit| unit.state.is_progressing()).count();
        if launches && moving > each.parallel as usize {
            let what =
                format!("{moving} items of step `{}` go on at once, and {} may", step.id, each.parallel);
            return Err(Broken::of(Promise::Limits, run.id, what));
        }
    }
    Ok(())
}
