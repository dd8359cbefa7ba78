//! What must be loaded before a command can be decided: the stored payloads that its consequences may read.

use std::collections::BTreeSet;

use crate::command::{ChildEnd, Command, NoticeBody, Says, StartInput};
use crate::id::PayloadId;
use crate::json::Payload;
use crate::model::expression::{Reads, Template};
use crate::model::flow::{Flow, Kind, Step, StepIx, WaitFor};
use crate::model::recovery::RetryStrategy;
use crate::model::run::{Origin, Run};
use crate::model::unit::{ITEMS_PER_PART, StepRun, Unit, UnitRef, UnitState};
use crate::schedule::last_steps;

/// The stored payloads that deciding `command` may read.
pub fn needs(run: Option<&Run>, command: &Command, flow: &Flow) -> BTreeSet<PayloadId> {
    let mut needs = Needs { ids: BTreeSet::new(), flow };
    if let Command::Notice(notice) = command
        && let NoticeBody::ChildEnded { how: ChildEnd::Completed(output), .. } = &**notice
    {
        needs.add(output);
    }
    if needs.ids.is_empty() && run.is_some_and(keeps_nothing_apart) {
        return needs.ids;
    }
    match (run, command) {
        (_, Command::Start(start)) => {
            if let StartInput::Kept(input) = &start.input {
                needs.add(input);
            }
            needs.of_start(run);
        }
        (None, Command::Notice(notice)) => {
            if let NoticeBody::StartChild(child) = &**notice {
                needs.add(&child.input);
            }
        }
        (None, _) => {}
        (Some(run), command) => needs.of_command(run, command),
    }
    needs.ids
}

/// Whether every payload of the run is small enough to travel with it, so that there is nothing to load.
fn keeps_nothing_apart(run: &Run) -> bool {
    let inline = |payload: &Payload| matches!(payload, Payload::Inline(_));
    run.signals.is_empty()
        && inline(&run.input)
        && run.steps.iter().all(|step| match step {
            StepRun::Single(_) => step.output().is_none_or(inline),
            StepRun::Items(_) => false,
        })
}

/// Whether many items of a fan-out may come and go in one decision: nobody works on them, or their own expressions
/// fail, and others follow.
fn is_hasty(step: &Step) -> bool {
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

struct Needs<'a> {
    ids: BTreeSet<PayloadId>,
    flow: &'a Flow,
}

impl Needs<'_> {
    fn of_start(&mut self, run: Option<&Run>) {
        if let Some(run) = run {
            self.add(&run.input);
        }
    }

    fn of_command(&mut self, run: &Run, command: &Command) {
        match command {
            Command::Start(_)
            | Command::Claim { .. }
            | Command::Answer { says: Says::Start | Says::Heartbeat { .. } | Says::Log(_), .. }
            | Command::Due { unit: None, .. }
            | Command::Acknowledge { .. }
            | Command::ApplyPolicies { .. }
            | Command::Pause { .. }
            | Command::Cancel { .. } => {}
            Command::Answer { attempt, .. } | Command::Lost { attempt, .. } => {
                self.after_unit(run, attempt.unit);
            }
            Command::Due { unit: Some(unit), .. }
            | Command::Choose { unit, .. }
            | Command::Complete { unit, .. }
            | Command::Skip { unit, .. }
            | Command::Resume { unit: Some(unit), .. } => self.after_unit(run, *unit),
            Command::Resume { unit: None, .. }
            | Command::Admit
            | Command::Unpause { .. }
            | Command::Signal { .. } => self.after_all(run),
            Command::Rerun { .. } => self.everything(run),
            Command::Notice(notice) => match &**notice {
                NoticeBody::StartChild(_)
                | NoticeBody::CancelChild { .. }
                | NoticeBody::PauseChild
                | NoticeBody::ChildChanged { .. } => {}
                NoticeBody::ContinueChild { .. } => self.everything(run),
                NoticeBody::UnpauseChild => self.after_all(run),
                NoticeBody::ChildEnded { child, .. } => match &child.origin {
                    Origin::Child { unit, .. } => self.after_unit(run, *unit),
                    Origin::Root | Origin::Handler { .. } => {}
                },
            },
        }
    }

    /// What the end of a unit's attempt, or its next one, may read.
    fn after_unit(&mut self, run: &Run, unit: UnitRef) {
        if usize::from(unit.step.0) >= self.flow.steps.len() {
            return;
        }
        if let Some(item) = unit.item {
            self.item(run, unit.step, item);
        }
        self.after(run, vec![unit.step]);
    }

    /// What a fresh look at all steps may read.
    fn after_all(&mut self, run: &Run) {
        run.each_unit(|unit, state| {
            if let (Some(item), None) = (unit.item, &state.input) {
                self.item(run, unit.step, item);
            }
        });
        self.after(run, self.flow.places().collect());
    }

    /// What these steps, and all that may follow from them, may read.
    fn after(&mut self, run: &Run, mut work: Vec<StepIx>) {
        self.kept_signals(run);
        let mut seen = vec![false; self.flow.steps.len()];
        let mut may_end = false;
        while let Some(step) = work.pop() {
            if std::mem::replace(&mut seen[usize::from(step.0)], true) {
                continue;
            }
            self.step(run, step);
            let dependents = &self.flow.dependents[usize::from(step.0)];
            may_end |= dependents.is_empty();
            work.extend(dependents);
        }
        if may_end {
            self.output(run);
        }
    }

    /// A signal that has come already becomes an output, and may be read, in the decision that reaches its step.
    fn kept_signals(&mut self, run: &Run) {
        for (name, kept) in &run.signals {
            let waits = |step: &&Step| matches!(&step.kind, Kind::Signal(wanted) if wanted == name);
            let most = self.flow.steps.iter().filter(waits).fold(0, |most, step| match &step.for_each {
                None => most + 1,
                Some(_) => kept.len(),
            });
            kept.iter().take(most).for_each(|payload| self.add(payload));
        }
    }

    /// The value of one item.
    fn item(&mut self, run: &Run, step: StepIx, item: u32) {
        let part = run.items(step).and_then(|items| items.values.get(item as usize / ITEMS_PER_PART));
        if let Some(part) = part {
            self.add(part);
        }
    }

    /// What entering, or going on with, a step may read.
    fn step(&mut self, run: &Run, place: StepIx) {
        match run.step(place) {
            StepRun::Items(items) => {
                let step = self.flow.step(place);
                let parallel = step.for_each.as_ref().map_or(1, |each| each.parallel as usize);
                let at_once = if is_hasty(step) { usize::MAX } else { parallel };
                for item in items.to_launch().take(at_once) {
                    self.item(run, place, item);
                }
                self.reads_of(run, step);
                // A worker or a child answers for one item; whatever else is in motion may end all at once.
                let nobodys = matches!(step.kind, Kind::Set(_) | Kind::Signal(_) | Kind::Wait(_));
                let is_last = (items.in_motion <= 1 || nobodys)
                    && (is_hasty(step) || items.to_launch().next().is_none());
                for unit in items.units.values().filter(|_| is_last) {
                    self.unit_output(unit);
                }
            }
            StepRun::Single(unit) if !unit.state.is_final() => self.reads_of(run, self.flow.step(place)),
            StepRun::Single(_) => {}
        }
    }

    fn reads_of(&mut self, run: &Run, step: &Step) {
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
            self.reads(run, reads);
        }
    }

    fn output(&mut self, run: &Run) {
        match &self.flow.output {
            Some(template) => {
                if let Some(reads) = template.reads() {
                    self.reads(run, reads);
                }
            }
            None if last_steps(self.flow).nth(1).is_some() => {
                for step in last_steps(self.flow) {
                    if let Some(output) = run.step(step).output() {
                        self.add(output);
                    }
                }
            }
            None => {}
        }
    }

    fn everything(&mut self, run: &Run) {
        self.add(&run.input);
        for step in &run.steps {
            if let Some(output) = step.output() {
                self.add(output);
            }
            if let StepRun::Items(items) = step {
                items.values.iter().for_each(|part| self.add(part));
                items.units.values().for_each(|unit| self.unit_output(unit));
            }
        }
    }

    fn reads(&mut self, run: &Run, reads: &Reads) {
        if reads.input {
            self.add(&run.input);
        }
        for step in &reads.steps {
            if let Some(output) = run.step(*step).output() {
                self.add(output);
            }
        }
    }

    fn unit_output(&mut self, unit: &Unit) {
        if let UnitState::Completed { output, .. } = &unit.state {
            self.add(output);
        }
    }

    fn add(&mut self, payload: &Payload) {
        if let Payload::Stored(id) = payload {
            self.ids.insert(*id);
        }
    }
}
