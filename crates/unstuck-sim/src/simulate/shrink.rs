//! Shrinking: what can be left out of a plan so that the same promise is still not kept.

use crate::simulate::{Failure, Plan, run_plan_in_memory};

/// So many plans are tried at most.
const MAX_TRIES: u32 = 600;

/// The smallest plan found that fails like this one.
pub fn shrink(plan: &Plan, failure: &Failure) -> Plan {
    let mut search = Search { best: plan.clone(), failure, tries: 0 };
    loop {
        let before = search.tries;
        let is_smaller = [
            search.leave_out_parts(|plan| &mut plan.acts),
            search.leave_out_parts(|plan| &mut plan.policies),
            search.leave_out_parts(|plan| &mut plan.workers),
            search.leave_out_parts(|plan| &mut plan.flows),
            search.leave_out_steps(),
            search.leave_out_fields(),
        ];
        if !is_smaller.contains(&true) || search.tries == before || search.tries >= MAX_TRIES {
            return search.best;
        }
    }
}

struct Search<'a> {
    best: Plan,
    failure: &'a Failure,
    tries: u32,
}

impl Search<'_> {
    /// Leaves out large portions first, then smaller ones, then single ones.
    fn leave_out_parts<T>(&mut self, part: impl Fn(&mut Plan) -> &mut Vec<T>) -> bool {
        let mut is_smaller = false;
        let mut portion = part(&mut self.best).len().div_ceil(2);
        while portion > 0 {
            let mut from = 0;
            while from < part(&mut self.best).len() {
                let mut plan = self.best.clone();
                let list = part(&mut plan);
                let to = (from + portion).min(list.len());
                list.drain(from..to);
                if self.take(plan) {
                    is_smaller = true;
                } else {
                    from += portion;
                }
            }
            portion = if portion == 1 { 0 } else { portion.div_ceil(2) };
        }
        is_smaller
    }

    fn leave_out_steps(&mut self) -> bool {
        let mut is_smaller = false;
        for flow in 0..self.best.flows.len() {
            let mut step = self.best.flows[flow].steps.len();
            while step > 0 && self.best.flows[flow].steps.len() > 1 {
                step -= 1;
                let mut plan = self.best.clone();
                plan.flows[flow].steps.remove(step);
                is_smaller |= self.take(plan);
            }
        }
        is_smaller
    }

    /// Leaves out what flows and steps say besides what they are.
    fn leave_out_fields(&mut self) -> bool {
        let mut is_smaller = false;
        for flow in 0..self.best.flows.len() {
            for name in self.best.flows[flow].head.keys().cloned().collect::<Vec<_>>() {
                let mut plan = self.best.clone();
                plan.flows[flow].head.remove(&name);
                is_smaller |= self.take(plan);
            }
            for step in 0..self.best.flows[flow].steps.len() {
                let fields = self.best.flows[flow].steps[step].as_object();
                let names: Vec<String> =
                    fields.map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
                for name in names.iter().filter(|name| *name != "id") {
                    let mut plan = self.best.clone();
                    if let Some(fields) = plan.flows[flow].steps[step].as_object_mut() {
                        fields.remove(name);
                    }
                    is_smaller |= self.take(plan);
                }
            }
        }
        is_smaller
    }

    /// Takes this plan if it fails in the same way.
    fn take(&mut self, plan: Plan) -> bool {
        if self.tries >= MAX_TRIES || !plan.makes_sense() {
            return false;
        }
        self.tries += 1;
        let came = run_plan_in_memory(&plan, false).broken;
        let is_like = came.is_some_and(|failure| failure.is_like(self.failure));
        if is_like {
            self.best = plan;
        }
        is_like
    }
}
