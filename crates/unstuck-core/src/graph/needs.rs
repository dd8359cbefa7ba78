//! The stored payloads that one decision about a graph may read: those of every step that it may reach.

use rustc_hash::FxHashMap;

use crate::graph::last_steps;
use crate::model::expression::{Reads, Template};
use crate::model::flow::{Flow, Kind, Step, StepIndex, WaitFor};
use crate::model::recovery::RetryStrategy;
use crate::model::run::Run;
use crate::model::unit::{ITEMS_PER_PART, StepRun};
use crate::needs::PayloadNeeds;

/// Adds the payloads that these steps, and all steps that the same decision may reach from them, may read. The decision
/// cannot go beyond a step that a worker, a child or a timer has yet to end.
pub(super) fn add_needs(needs: &mut PayloadNeeds, run: &Run, flow: &Flow, first: Vec<StepIndex>) {
    let reached = first.iter().map(|step| (*step, true)).collect();
    let mut reach = Reach { needs, run, flow, reached };
    reach.follow_dependents(first);
    let is_signal = |step: &StepIndex| matches!(flow.step(*step).kind, Kind::Signal(_));
    if !run.signals.is_empty() && reach.reached.keys().any(is_signal) {
        reach.add_kept_signals();
    }
}

/// The steps that one decision may reach, while they are being collected.
struct Reach<'a> {
    needs: &'a mut PayloadNeeds,
    run: &'a Run,
    flow: &'a Flow,
    /// The steps that were looked at, and whether each may be done after this decision.
    reached: FxHashMap<StepIndex, bool>,
}

impl Reach<'_> {
    /// Follows dependents from these steps as far as each may be done within the decision, and adds what they read.
    fn follow_dependents(&mut self, mut work: Vec<StepIndex>) {
        let flow = self.flow;
        let mut may_end = false;
        while let Some(step) = work.pop() {
            self.add_step(step);
            if !self.reached[&step] {
                continue;
            }
            let dependents = &flow.dependents[usize::from(step.0)];
            may_end |= dependents.is_empty();
            for dependent in dependents {
                if !self.reached.contains_key(dependent) && self.may_be_entered(*dependent) {
                    self.reached.insert(*dependent, may_end_at_once(flow.step(*dependent)));
                    work.push(*dependent);
                }
            }
        }
        if may_end {
            self.add_run_output();
        }
    }

    /// Returns whether every step that this one needs is done, or may be done by this decision.
    fn may_be_entered(&self, step: StepIndex) -> bool {
        let is_done = |need: &StepIndex| self.run.step(*need).unblocks_dependents();
        let needs = &self.flow.step(step).node.needs;
        needs.iter().all(|need| self.reached.get(need) == Some(&true) || is_done(need))
    }

    /// Adds kept signals: a signal step that is reached completes with one at once, and later steps may read it.
    fn add_kept_signals(&mut self) {
        for (name, kept) in &self.run.signals {
            let waits = |step: &&Step| matches!(&step.kind, Kind::Signal(wanted) if wanted == name);
            let most = self.flow.steps.iter().filter(waits).fold(0, |most, step| match &step.node.for_each {
                None => most + 1,
                Some(_) => kept.len(),
            });
            kept.iter().take(most).for_each(|payload| self.needs.add_payload(payload));
        }
    }

    /// Adds what the decision may read when it enters a step or advances it.
    fn add_step(&mut self, place: StepIndex) {
        let step = self.flow.step(place);
        match self.run.step(place) {
            StepRun::Items(items) => {
                let parallel = step.node.for_each.as_ref().map_or(1, |each| each.parallel as usize);
                // The decision may end one item, which makes room for one more.
                let room = parallel.saturating_sub(items.in_motion as usize).saturating_add(1);
                let at_once = if may_end_items_at_once(step) { usize::MAX } else { room };
                let mut last_part = None;
                for item in items.items_to_launch().take(at_once) {
                    let part = item as usize / ITEMS_PER_PART;
                    if last_part.replace(part) != Some(part) {
                        self.needs.add_item(self.run, place, item);
                    }
                }
                self.add_step_reads(step);
                // A worker or a child ends one item at a time; items without either may end all at once.
                let nobodys = matches!(step.kind, Kind::Set(_) | Kind::Signal(_) | Kind::Wait(_));
                let ends_many = may_end_items_at_once(step);
                // Of two that rest one stays, whatever is decided about the other.
                let is_rest_over = items.tally.held + items.tally.error <= 1;
                let is_last = (nobodys || items.in_motion <= 1 && (ends_many || is_rest_over))
                    && (ends_many || items.items_to_launch().next().is_none());
                if is_last {
                    items.units.values().for_each(|unit| self.needs.add_unit_output(unit));
                }
            }
            StepRun::Single(unit) if !unit.state.is_final() => self.add_step_reads(step),
            StepRun::Single(_) => {}
        }
    }

    /// Adds what the expressions of a step read: its condition, list, input and value.
    fn add_step_reads(&mut self, step: &Step) {
        let templates = [step.node.with.as_ref(), step.node.for_each.as_ref().map(|each| &each.items)];
        let templates = templates.into_iter().flatten().filter_map(Template::reads);
        let expressions = templates.chain(step.node.when.as_ref().map(|condition| &condition.reads));
        let all: Vec<&Reads> = expressions.chain(step.kind.reads()).collect();
        for reads in all {
            self.needs.add_reads(self.run, reads);
        }
    }

    /// Adds what the output of the run reads, for a decision that may complete it.
    fn add_run_output(&mut self) {
        match &self.flow.output {
            Some(template) => {
                if let Some(reads) = template.reads() {
                    self.needs.add_reads(self.run, reads);
                }
            }
            None if last_steps(self.flow).nth(1).is_some() => {
                for step in last_steps(self.flow) {
                    if let Some(output) = self.run.step(step).output() {
                        self.needs.add_payload(output);
                    }
                }
            }
            None => {}
        }
    }
}

/// Returns whether a step may be done in the decision that enters it: it needs no worker, it may be skipped, it may
/// have no items, or its expressions may fail and the flow continues.
fn may_end_at_once(step: &Step) -> bool {
    let is_nobodys = match &step.kind {
        Kind::Set(_) | Kind::Signal(_) => true,
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Emulate(_) => false,
    };
    is_nobodys || step.node.when.is_some() || step.node.for_each.is_some() || !step.fail_on_error
}

/// Returns whether one decision may end many items of a fan-out: they need no worker, or each may fail by its own
/// expressions so that the next one is launched.
fn may_end_items_at_once(step: &Step) -> bool {
    let holds = matches!(step.retry, RetryStrategy::Hold { .. });
    match &step.kind {
        Kind::Set(_) | Kind::Signal(_) => true,
        Kind::Wait(WaitFor::Computed(_)) => !step.fail_on_error || holds,
        Kind::Action(_)
        | Kind::Process(_)
        | Kind::Http(_)
        | Kind::Child(_)
        | Kind::Wait(_)
        | Kind::Emulate(_) => {
            let computes = step.node.with.as_ref().and_then(Template::reads).is_some();
            computes && (!step.fail_on_error || holds)
        }
    }
}
