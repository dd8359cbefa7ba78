//! Runs that somebody else has, batches that fail with what they have just heard, and signs of life with void tokens.

use unstuck_core::command::{Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::model::unit::{AttemptPhase, UnitRef};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::Request;
use unstuck_store::conformance::TestStore;

use super::node::Process;
use super::{PendingRequest, World, faults};
use crate::simulate::plan::{Fault, Nonsense, OperatorAct, StoreFault};

/// Whether a request is heard once, by nobody who would repeat it.
pub(super) fn is_word(request: &Request) -> bool {
    match request {
        Request::Executor(word) => {
            word.ended_attempt().is_some() && !matches!(word, ExecutorReport::Freed(_))
        }
        Request::Lost { .. } => true,
        Request::Start { .. }
        | Request::Command { .. }
        | Request::Forget { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. } => false,
    }
}

impl<S: TestStore> World<'_, S> {
    /// The batch that hears the next word or loss is to fail.
    pub(super) fn fail_hearing(&mut self, trouble: StoreFault) -> bool {
        self.fails_hearing = Some(trouble);
        true
    }

    /// Before a step that is to fail: nothing else is on its way, so that it fails alone.
    pub(super) fn before_step(&mut self) {
        if self.fails_hearing.is_none() || !self.nodes[self.here].is_word_in_line || !self.is_rough {
            return;
        }
        if let Process::Up(machine) = &mut self.nodes[self.here].process {
            machine.engine.store().make_durable(usize::MAX);
        }
    }

    /// After it: what it has staged is gone.
    pub(super) fn after_step(&mut self) {
        if !std::mem::take(&mut self.nodes[self.here].is_word_in_line) || !self.is_rough {
            return;
        }
        let Some(trouble) = self.fails_hearing.take() else { return };
        let Process::Up(machine) = &mut self.nodes[self.here].process else { return };
        if machine.engine.store().fail_next(&faults::error(trouble)) > 0 {
            let fault = Fault::FailHearing(trouble);
            self.faults.count(fault.words());
            self.say(format_args!("  the batch that has heard a word fails"));
        }
    }

    /// Somebody else has a run for a while, rather a child than any; its parent is paused and goes on meanwhile.
    pub(super) fn make_busy(&mut self, nth: u64, tries: u32) -> bool {
        let open: Vec<Run> = self.known_runs().into_iter().filter(|run| !run.is_final()).collect();
        let children: Vec<&Run> = open.iter().filter(|run| run.origin != Origin::Root).collect();
        let of = if children.is_empty() { open.iter().collect() } else { children };
        let place = usize::try_from(nth % of.len().max(1) as u64).unwrap_or(0);
        let Some(run) = of.get(place) else { return false };
        let (id, parent) = (run.id, run.origin.parent());
        // Now and then it is the parent that is busy, with what its children have to tell.
        let busy = parent.filter(|_| nth.is_multiple_of(3)).unwrap_or(id);
        let is_busy = self.engine().is_some_and(|engine| engine.store().make_busy(busy, tries));
        if let (true, Some(parent)) = (is_busy, parent.filter(|_| nth.is_multiple_of(2))) {
            let whole = UnitRef::step(StepIndex(0));
            self.do_to(OperatorAct::Pause, parent, whole, 1);
            self.do_to(OperatorAct::Unpause, parent, whole, 1);
        }
        is_busy
    }

    /// A worker that has lost its attempt gives a sign of life all the same.
    pub(super) fn void_beat(&mut self, nth: u64) {
        let mut live: Vec<AttemptId> = Vec::new();
        for run in self.known_runs().iter().filter(|run| !run.is_final()) {
            run.each_unit(|unit, state| {
                let Some(attempt) = state.state.live() else { return };
                if !matches!(attempt.doing, AttemptPhase::Child { .. }) {
                    let (run, generation, attempt) = (run.id, run.generation, attempt.attempt);
                    live.push(AttemptId { run, generation, unit, attempt });
                }
            });
        }
        // Rather one that another attempt has followed.
        live.sort_by_key(|id| std::cmp::Reverse((id.attempt > 1, id.generation > 1)));
        let first = live.iter().take_while(|id| id.attempt > 1 || id.generation > 1).count();
        let count = if first == 0 { live.len() } else { first };
        let place = usize::try_from(nth % count.max(1) as u64).unwrap_or(0);
        let Some(id) = live.get(place).copied() else { return };
        let void = match id {
            AttemptId { attempt: 1, generation: 1, .. } => AttemptId { attempt: 9_999, ..id },
            AttemptId { attempt: 1, generation, .. } => AttemptId { generation: generation - 1, ..id },
            AttemptId { attempt, .. } => AttemptId { attempt: attempt - 1, ..id },
        };
        self.acts.count(Nonsense::VoidBeat.words());
        let ticket = self.ticket(PendingRequest::Beat);
        self.send_beat(ticket, void.run, void);
    }

    fn send_beat(&mut self, ticket: unstuck_engine::request::Ticket, run: RunId, attempt: AttemptId) {
        let command = Command::Report { attempt, report: Report::Heartbeat { progress: None } };
        self.ask(Request::Command { ticket, run, command });
    }
}
