//! What must be loaded before a command can be decided: the stored payloads that its consequences may read.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::advance::last_steps;
use crate::command::{ChildEnd, Command, NoticeBody, Report, StartInput};
use crate::id::PayloadId;
use crate::json::Payload;
use crate::model::expression::{Reads, Template};
use crate::model::flow::{Flow, Kind, Step, StepIndex, WaitFor};
use crate::model::recovery::RetryStrategy;
use crate::model::run::{Origin, Run};
use crate::model::unit::{ITEMS_PER_PART, StepRun, Unit, UnitRef, UnitState};

/// The stored payloads that deciding `command` may read.
pub fn needs(run: Option<&Run>, command: &Command, flow: &Flow) -> BTreeSet<PayloadId> {
    let mut needs = PayloadNeeds { ids: BTreeSet::new(), flow, reached: FxHashMap::default() };
    if let Command::Notice(notice) = command
        && let NoticeBody::ChildEnded { how: ChildEnd::Completed(output), .. } = &**notice
    {
        needs.add_payload(output);
    }
    if needs.ids.is_empty() && run.is_some_and(has_only_inline_payloads) {
        return needs.ids;
    }
    match (run, command) {
        (_, Command::Start(start)) => {
            if let StartInput::Kept(input) = &start.input {
                needs.add_payload(input);
            }
            needs.add_for_start(run);
        }
        (None, Command::Notice(notice)) => {
            if let NoticeBody::StartChild(child) = &**notice {
                needs.add_payload(&child.input);
            }
        }
        (None, _) => {}
        (Some(run), command) => needs.add_for_command(run, command),
    }
    needs.ids
}

/// So many steps are looked at in no time.
const FEW_STEPS: usize = 32;

/// Whether every payload of the run is small enough to travel with it, so that there is nothing to load.
fn has_only_inline_payloads(run: &Run) -> bool {
    let inline = |payload: &Payload| matches!(payload, Payload::Inline(_));
    // Of many steps, the few that may be reached are found sooner.
    run.steps.len() <= FEW_STEPS
        && run.signals.is_empty()
        && inline(&run.input)
        && run.steps.iter().all(|step| match step {
            StepRun::Single(_) => step.output().is_none_or(inline),
            StepRun::Items(_) => false,
        })
}

/// Whether many items of a fan-out may come and go in one decision: nobody works on them, or their own expressions
/// fail, and others follow.
fn may_end_items_at_once(step: &Step) -> bool {
    let holds = matches!(step.retry, RetryStrategy::Hold { .. });
    match &step.kind {
        Kind::Set(_) | Kind::Signal(_) => true,
        Kind::Wait(WaitFor::Computed(_)) => !step.fail_on_error || holds,
        Kind::Action(_) | Kind::Process(_) | Kind::Child(_) | Kind::Wait(_) | Kind::Emulate(_) => {
            let computes = step.with.as_ref().and_then(Template::reads).is_some();
            computes && (!step.fail_on_error || holds)
        }
    }
}

/// Whether a step may be done in the decision that enters it: nobody works on it, it is left out, there are no items, or
/// what it computes fails and others go on.
fn may_end_at_once(step: &Step) -> bool {
    let is_nobodys = match &step.kind {
        Kind::Set(_) | Kind::Signal(_) => true,
        Kind::Action(_) | Kind::Process(_) | Kind::Child(_) | Kind::Wait(_) | Kind::Emulate(_) => false,
    };
    is_nobodys || step.when.is_some() || step.for_each.is_some() || !step.fail_on_error
}

struct PayloadNeeds<'a> {
    ids: BTreeSet<PayloadId>,
    flow: &'a Flow,
    /// The steps that were looked at, and whether each may be done after this decision.
    reached: FxHashMap<StepIndex, bool>,
}

impl PayloadNeeds<'_> {
    fn add_for_start(&mut self, run: Option<&Run>) {
        if let Some(run) = run {
            self.add_payload(&run.input);
        }
    }

    fn add_for_command(&mut self, run: &Run, command: &Command) {
        match command {
            Command::Start(_)
            | Command::Claim { .. }
            | Command::Report { report: Report::Start | Report::Heartbeat { .. } | Report::Log(_), .. }
            | Command::Due { unit: None, .. }
            | Command::Acknowledge { .. }
            | Command::ApplyPolicies { .. }
            | Command::Pause { .. }
            | Command::Cancel { .. } => {}
            Command::Report { attempt, .. } | Command::Lost { attempt, .. } => {
                self.add_after_unit(run, attempt.unit);
            }
            Command::Due { unit: Some(unit), .. }
            | Command::Choose { unit, .. }
            | Command::Complete { unit, .. }
            | Command::Skip { unit, .. }
            | Command::Resume { unit: Some(unit), .. } => self.add_after_unit(run, *unit),
            Command::Resume { unit: None, .. }
            | Command::Admit
            | Command::Unpause { .. }
            | Command::Signal { .. } => self.add_after_all_steps(run),
            Command::Rerun { .. } => self.add_everything(run),
            Command::Notice(notice) => match &**notice {
                NoticeBody::StartChild(_)
                | NoticeBody::CancelChild { .. }
                | NoticeBody::PauseChild
                | NoticeBody::ChildChanged { .. } => {}
                NoticeBody::ContinueChild { .. } => self.add_everything(run),
                NoticeBody::UnpauseChild => self.add_after_all_steps(run),
                NoticeBody::ChildEnded { child, .. } => match &child.origin {
                    Origin::Child { unit, .. } => self.add_after_unit(run, *unit),
                    Origin::Root | Origin::Handler { .. } => {}
                },
            },
        }
    }

    /// What the end of a unit's attempt, or its next one, may read.
    fn add_after_unit(&mut self, run: &Run, unit: UnitRef) {
        if usize::from(unit.step.0) >= self.flow.steps.len() {
            return;
        }
        if let Some(item) = unit.item {
            self.add_item(run, unit.step, item);
        }
        self.add_after_steps(run, vec![unit.step]);
    }

    /// What a fresh look at all steps may read.
    fn add_after_all_steps(&mut self, run: &Run) {
        run.each_unit(|unit, state| {
            if let (Some(item), None) = (unit.item, &state.input) {
                self.add_item(run, unit.step, item);
            }
        });
        self.add_after_steps(run, self.flow.step_indices().collect());
    }

    /// What these steps, and all that may follow from them in one decision, may read. A step that a worker, a child or a
    /// timer has yet to end is as far as it goes.
    fn add_after_steps(&mut self, run: &Run, first: Vec<StepIndex>) {
        self.reached.extend(first.iter().map(|step| (*step, true)));
        let mut work = first;
        let mut may_end = false;
        while let Some(step) = work.pop() {
            self.add_step(run, step);
            if !self.reached[&step] {
                continue;
            }
            let dependents = &self.flow.dependents[usize::from(step.0)];
            may_end |= dependents.is_empty();
            for dependent in dependents {
                if !self.reached.contains_key(dependent) && self.may_be_entered(run, *dependent) {
                    self.reached.insert(*dependent, may_end_at_once(self.flow.step(*dependent)));
                    work.push(*dependent);
                }
            }
        }
        if may_end {
            self.add_run_output(run);
        }
        if self.reached.keys().any(|step| matches!(self.flow.step(*step).kind, Kind::Signal(_))) {
            self.add_kept_signals(run);
        }
    }

    /// Whether all that a step needs is done, or may be done by this decision.
    fn may_be_entered(&self, run: &Run, step: StepIndex) -> bool {
        let is_done = |need: &StepIndex| run.step(*need).unblocks_dependents();
        let needs = &self.flow.step(step).needs;
        needs.iter().all(|need| self.reached.get(need) == Some(&true) || is_done(need))
    }

    /// A signal that has come already becomes an output, and may be read, in the decision that reaches its step.
    fn add_kept_signals(&mut self, run: &Run) {
        for (name, kept) in &run.signals {
            let waits = |step: &&Step| matches!(&step.kind, Kind::Signal(wanted) if wanted == name);
            let most = self.flow.steps.iter().filter(waits).fold(0, |most, step| match &step.for_each {
                None => most + 1,
                Some(_) => kept.len(),
            });
            kept.iter().take(most).for_each(|payload| self.add_payload(payload));
        }
    }

    /// The value of one item.
    fn add_item(&mut self, run: &Run, step: StepIndex, item: u32) {
        let part = run.items(step).and_then(|items| items.values.get(item as usize / ITEMS_PER_PART));
        if let Some(part) = part {
            self.add_payload(part);
        }
    }

    /// What entering, or going on with, a step may read.
    fn add_step(&mut self, run: &Run, place: StepIndex) {
        match run.step(place) {
            StepRun::Items(items) => {
                let step = self.flow.step(place);
                let parallel = step.for_each.as_ref().map_or(1, |each| each.parallel as usize);
                // One of them ends, and others take the room that there is.
                let room = parallel.saturating_sub(items.in_motion as usize).saturating_add(1);
                let at_once = if may_end_items_at_once(step) { usize::MAX } else { room };
                let mut last_part = None;
                for item in items.items_to_launch().take(at_once) {
                    let part = item as usize / ITEMS_PER_PART;
                    if last_part.replace(part) != Some(part) {
                        self.add_item(run, place, item);
                    }
                }
                self.add_step_reads(run, step);
                // A worker or a child answers for one item; whatever else is in motion may end all at once.
                let nobodys = matches!(step.kind, Kind::Set(_) | Kind::Signal(_) | Kind::Wait(_));
                let is_last = (items.in_motion <= 1 || nobodys)
                    && (may_end_items_at_once(step) || items.items_to_launch().next().is_none());
                for unit in items.units.values().filter(|_| is_last) {
                    self.add_unit_output(unit);
                }
            }
            StepRun::Single(unit) if !unit.state.is_final() => {
                self.add_step_reads(run, self.flow.step(place));
            }
            StepRun::Single(_) => {}
        }
    }

    fn add_step_reads(&mut self, run: &Run, step: &Step) {
        let templates = [
            step.with.as_ref(),
            step.for_each.as_ref().map(|each| &each.items),
            match &step.kind {
                Kind::Set(value) => Some(value),
                Kind::Action(_)
                | Kind::Process(_)
                | Kind::Child(_)
                | Kind::Wait(_)
                | Kind::Signal(_)
                | Kind::Emulate(_) => None,
            },
        ];
        let mut expressions: Vec<&Reads> =
            templates.into_iter().flatten().filter_map(Template::reads).collect();
        expressions.extend(step.when.as_ref().map(|condition| &condition.reads));
        if let Kind::Wait(WaitFor::Computed(expression)) = &step.kind {
            expressions.push(&expression.reads);
        }
        for reads in expressions {
            self.add_reads(run, reads);
        }
    }

    fn add_run_output(&mut self, run: &Run) {
        match &self.flow.output {
            Some(template) => {
                if let Some(reads) = template.reads() {
                    self.add_reads(run, reads);
                }
            }
            None if last_steps(self.flow).nth(1).is_some() => {
                for step in last_steps(self.flow) {
                    if let Some(output) = run.step(step).output() {
                        self.add_payload(output);
                    }
                }
            }
            None => {}
        }
    }

    fn add_everything(&mut self, run: &Run) {
        self.add_payload(&run.input);
        for step in &run.steps {
            if let Some(output) = step.output() {
                self.add_payload(output);
            }
            if let StepRun::Items(items) = step {
                items.values.iter().for_each(|part| self.add_payload(part));
                items.units.values().for_each(|unit| self.add_unit_output(unit));
            }
        }
    }

    fn add_reads(&mut self, run: &Run, reads: &Reads) {
        if reads.input {
            self.add_payload(&run.input);
        }
        for step in &reads.steps {
            if let Some(output) = run.step(*step).output() {
                self.add_payload(output);
            }
        }
    }

    fn add_unit_output(&mut self, unit: &Unit) {
        if let UnitState::Completed { output, .. } = &unit.state {
            self.add_payload(output);
        }
    }

    fn add_payload(&mut self, payload: &Payload) {
        if let Payload::Stored(id) = payload {
            self.ids.insert(*id);
        }
    }
}
