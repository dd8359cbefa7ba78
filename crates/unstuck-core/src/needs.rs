//! The stored payloads to load before a command is decided: those that the decision may read.

use std::collections::BTreeSet;

use crate::command::{ChildEnd, Command, NoticeBody, Report, StartInput};
use crate::id::PayloadId;
use crate::interpreter::interpreter;
use crate::json::Payload;
use crate::model::expression::Reads;
use crate::model::flow::{Flow, StepIndex};
use crate::model::run::{Origin, Run};
use crate::model::unit::{ITEMS_PER_PART, StepRun, Unit, UnitRef, UnitState};

/// Lists the stored payloads that deciding `command` may read.
pub fn needs(run: Option<&Run>, command: &Command, flow: &Flow) -> BTreeSet<PayloadId> {
    let mut needs = PayloadNeeds { ids: BTreeSet::new() };
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
        (Some(run), command) => needs.add_for_command(run, flow, command),
    }
    needs.ids
}

/// Up to this many steps, looking at all of them is cheaper than finding those that can be reached.
const FEW_STEPS: usize = 32;

/// Returns whether every payload of the run is inline, so that there is nothing to load.
fn has_only_inline_payloads(run: &Run) -> bool {
    let inline = |payload: &Payload| matches!(payload, Payload::Inline(_));
    // For a run with many steps, finding the few that can be reached is cheaper.
    run.steps.len() <= FEW_STEPS
        && run.signals.is_empty()
        && inline(&run.input)
        && run.steps.iter().all(|step| match step {
            StepRun::Single(_) => step.output().is_none_or(inline),
            StepRun::Items(_) => false,
        })
}

/// Collects the stored payloads that may be read.
pub(crate) struct PayloadNeeds {
    ids: BTreeSet<PayloadId>,
}

impl PayloadNeeds {
    /// Adds what a duplicate start reads: the input of the run that has the key.
    fn add_for_start(&mut self, run: Option<&Run>) {
        if let Some(run) = run {
            self.add_payload(&run.input);
        }
    }

    /// Adds what a command to an existing run may read.
    fn add_for_command(&mut self, run: &Run, flow: &Flow, command: &Command) {
        match command {
            Command::Start(_)
            | Command::Claim { .. }
            | Command::Report { report: Report::Start | Report::Heartbeat { .. } | Report::Log(_), .. }
            | Command::Due { unit: None, .. }
            | Command::Acknowledge { .. }
            | Command::ApplyPolicies { .. }
            | Command::Pause { .. }
            | Command::Amend { .. }
            | Command::Cancel { .. } => {}
            Command::Report { attempt, .. } | Command::Lost { attempt, .. } => {
                self.add_after_unit(run, flow, attempt.unit);
            }
            Command::Due { unit: Some(unit), .. }
            | Command::Choose { unit, .. }
            | Command::Complete { unit, .. }
            | Command::Skip { unit, .. }
            | Command::Resume { unit: Some(unit), .. } => self.add_after_unit(run, flow, *unit),
            Command::Resume { unit: None, .. }
            | Command::Admit
            | Command::Unpause { .. }
            | Command::Signal { .. } => self.add_after_all_steps(run, flow),
            // What comes next follows from another version than the one that is at hand.
            Command::Rerun { .. } | Command::Migrate { .. } => self.add_everything(run),
            Command::Notice(notice) => match &**notice {
                NoticeBody::StartChild(_)
                | NoticeBody::CancelChild { .. }
                | NoticeBody::PauseChild
                | NoticeBody::AmendChild { .. }
                | NoticeBody::ChildChanged { .. }
                | NoticeBody::TargetEnded { .. } => {}
                NoticeBody::ContinueChild { .. } => self.add_everything(run),
                NoticeBody::UnpauseChild => self.add_after_all_steps(run, flow),
                NoticeBody::ChildEnded { child, .. } => match &child.origin {
                    Origin::Child { unit, .. } => self.add_after_unit(run, flow, *unit),
                    Origin::Root | Origin::Handler { .. } => {}
                },
            },
        }
    }

    /// Adds what may be read when a unit's attempt ends or its next one begins.
    fn add_after_unit(&mut self, run: &Run, flow: &Flow, unit: UnitRef) {
        if usize::from(unit.step.0) >= flow.steps.len() {
            return;
        }
        if let Some(item) = unit.item {
            self.add_item(run, unit.step, item);
        }
        interpreter(flow).add_needs(self, run, flow, vec![unit.step]);
    }

    /// Adds what may be read when every step of the run may advance.
    fn add_after_all_steps(&mut self, run: &Run, flow: &Flow) {
        run.each_unit(|unit, state| {
            if let (Some(item), None) = (unit.item, &state.input) {
                self.add_item(run, unit.step, item);
            }
        });
        interpreter(flow).add_needs(self, run, flow, flow.step_indices().collect());
    }

    /// Adds the part of the list that holds one item.
    pub(crate) fn add_item(&mut self, run: &Run, step: StepIndex, item: u32) {
        let part = run.items(step).and_then(|items| items.values.get(item as usize / ITEMS_PER_PART));
        if let Some(part) = part {
            self.add_payload(part);
        }
    }

    /// Adds all payloads of a run, for a rerun, which may reach any step.
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

    /// Adds what an expression reads.
    pub(crate) fn add_reads(&mut self, run: &Run, reads: &Reads) {
        if reads.input {
            self.add_payload(&run.input);
        }
        for step in &reads.steps {
            if let Some(output) = run.step(*step).output() {
                self.add_payload(output);
            }
        }
    }

    /// Adds the output of a completed unit.
    pub(crate) fn add_unit_output(&mut self, unit: &Unit) {
        if let UnitState::Completed { output, .. } = &unit.state {
            self.add_payload(output);
        }
    }

    /// Adds a payload that is stored apart; inline ones need no load.
    pub(crate) fn add_payload(&mut self, payload: &Payload) {
        if let Payload::Stored(id) = payload {
            self.ids.insert(*id);
        }
    }
}
