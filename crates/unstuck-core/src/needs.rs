//! What must be loaded before a command can be decided: the stored payloads that its consequences may read.

use std::collections::BTreeSet;

use crate::command::{Command, NoticeBody, Says, StartInput};
use crate::id::PayloadId;
use crate::json::Payload;
use crate::model::expression::{Reads, Template};
use crate::model::flow::{Flow, Kind, Step, StepIx, WaitFor};
use crate::model::run::Run;
use crate::model::unit::{StepRun, Unit, UnitState};
use crate::schedule::last_steps;

/// The stored payloads that deciding `command` may read.
pub fn needs(run: Option<&Run>, command: &Command, flow: &Flow) -> BTreeSet<PayloadId> {
    let mut needs = Needs { ids: BTreeSet::new(), flow };
    if run.is_some_and(keeps_nothing_apart) {
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
    inline(&run.input)
        && run.steps.iter().all(|step| match step {
            StepRun::Single(_) => step.output().is_none_or(inline),
            StepRun::Items(_) => false,
        })
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
            | Command::Answer { says: Says::Start | Says::Heartbeat { .. }, .. }
            | Command::Pause { .. }
            | Command::Cancel { .. } => {}
            Command::Answer { attempt, .. } => self.after(run, Some(attempt.unit.step)),
            Command::Lost { attempt, .. } => self.after(run, Some(attempt.unit.step)),
            Command::Due { unit: None, .. } => {}
            Command::Due { unit: Some(unit), .. } | Command::Choose { unit, .. } => {
                self.after(run, Some(unit.step));
            }
            Command::Resume { unit, .. } => self.after(run, unit.map(|unit| unit.step)),
            Command::Admit | Command::Unpause { .. } | Command::Signal { .. } => self.after(run, None),
            Command::Rerun { .. } => self.everything(run),
            Command::Notice(notice) => match &**notice {
                NoticeBody::StartChild(_)
                | NoticeBody::CancelChild { .. }
                | NoticeBody::PauseChild
                | NoticeBody::ChildChanged { .. } => {}
                NoticeBody::ContinueChild { .. } => self.everything(run),
                NoticeBody::UnpauseChild | NoticeBody::ChildEnded { .. } => self.after(run, None),
            },
        }
    }

    /// What a step's end, or a fresh look at all steps, may read.
    fn after(&mut self, run: &Run, step: Option<StepIx>) {
        let mut seen = vec![false; self.flow.steps.len()];
        let mut work: Vec<StepIx> = step.map_or_else(|| self.flow.places().collect(), |step| vec![step]);
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

    /// What entering, or going on with, a step may read.
    fn step(&mut self, run: &Run, place: StepIx) {
        match run.step(place) {
            StepRun::Items(items) => {
                self.add(&items.values);
                self.reads_of(run, self.flow.step(place));
                let last = items.next >= items.total && items.in_motion <= 1;
                for unit in items.units.values().filter(|_| last) {
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
                self.add(&items.values);
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
