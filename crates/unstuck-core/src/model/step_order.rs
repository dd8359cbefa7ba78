//! The order of a flow's steps. Events, tokens and rows refer to steps by index, so the order is stored with the flow
//! version and restored when the flow is compiled again, whatever order the compiler gives.

use std::sync::Arc;

use crate::model::expression::{Expression, Template};
use crate::model::flow::{Flow, Kind, Step, StepIndex, WaitFor};

impl Flow {
    /// Lists the ids of the steps, in order.
    pub fn step_ids(&self) -> Arc<[Arc<str>]> {
        self.steps.iter().map(|step| step.id.clone()).collect()
    }

    /// Reorders the steps to match these ids and updates every index that refers to them. Fails if the ids are not the
    /// same set.
    pub fn in_order_of(mut self, ids: &[Arc<str>]) -> Result<Flow, String> {
        if self.steps.iter().map(|step| &step.id).eq(ids) {
            return Ok(self);
        }
        let mut place_of = vec![StepIndex(0); self.steps.len()];
        let mut steps: Vec<Option<Step>> = std::mem::take(&mut self.steps).into_iter().map(Some).collect();
        let old: Vec<Arc<str>> = steps.iter().flatten().map(|step| step.id.clone()).collect();
        let mut ordered = Vec::with_capacity(ids.len());
        for (new, id) in (0..=u16::MAX).map(StepIndex).zip(ids) {
            let found = old.iter().position(|known| known == id);
            let step = found.and_then(|place| steps[place].take().map(|step| (place, step)));
            let Some((place, step)) = step else { return Err(describe_other_steps(&old, ids)) };
            place_of[place] = new;
            ordered.push(step);
        }
        if ordered.len() != old.len() {
            return Err(describe_other_steps(&old, ids));
        }
        let moved = StepMoves(&place_of);
        for (place, step) in ordered.iter_mut().enumerate() {
            moved.move_step(step);
            // The scheduler relies on every step coming after the steps it needs.
            if step.node.needs.iter().any(|need| usize::from(need.0) >= place) {
                return Err(describe_other_steps(&old, ids));
            }
        }
        let mut dependents = vec![Vec::new(); ordered.len()];
        for (place, of) in place_of.iter().zip(std::mem::take(&mut self.dependents)) {
            let mut of: Vec<StepIndex> = of.into_iter().map(|step| moved.new_index(step)).collect();
            of.sort_unstable();
            dependents[usize::from(place.0)] = of;
        }
        if let Some(output) = &mut self.output {
            moved.move_template(output);
        }
        if let Some(key) = self.concurrency.as_mut().and_then(|concurrency| concurrency.key.as_mut()) {
            moved.move_expression(key);
        }
        Ok(Flow { steps: ordered, dependents, ..self })
    }
}

/// Describes that the stored steps and the compiled ones differ.
fn describe_other_steps(now: &[Arc<str>], kept: &[Arc<str>]) -> String {
    let list = |ids: &[Arc<str>]| ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    format!(
        "its stored steps are {}, but its definition gives {}: its runs would continue with the wrong steps. Use the \
         version of Unstuck that wrote it, or restore a copy of the store",
        list(kept),
        list(now)
    )
}

/// The new index of each step, by its old index.
struct StepMoves<'a>(&'a [StepIndex]);

impl StepMoves<'_> {
    fn new_index(&self, step: StepIndex) -> StepIndex {
        self.0.get(usize::from(step.0)).copied().unwrap_or(step)
    }

    /// Updates the indices that a step refers to.
    fn move_step(&self, step: &mut Step) {
        for need in &mut step.node.needs {
            *need = self.new_index(*need);
        }
        if let Some(with) = &mut step.node.with {
            self.move_template(with);
        }
        if let Some(when) = &mut step.node.when {
            self.move_expression(when);
        }
        if let Some(each) = &mut step.node.for_each {
            self.move_template(&mut each.items);
        }
        match &mut step.kind {
            Kind::Set(value) => self.move_template(value),
            Kind::Wait(WaitFor::Computed(until)) => self.move_expression(until),
            Kind::Action(_)
            | Kind::Process(_)
            | Kind::Http(_)
            | Kind::Child(_)
            | Kind::Wait(WaitFor::Span(_) | WaitFor::Until(_) | WaitFor::Next(_))
            | Kind::Signal(_)
            | Kind::Emulate(_) => {}
        }
    }

    fn move_template(&self, template: &mut Template) {
        if let Template::Computed(expression) = template {
            self.move_expression(expression);
        }
    }

    fn move_expression(&self, expression: &mut Expression) {
        expression.reads.steps = expression.reads.steps.iter().map(|step| self.new_index(*step)).collect();
    }
}
