//! The end: faults stop, workers do their work, somebody answers whatever waits for a person, and everything comes to rest.

use std::collections::BTreeMap;

use unstuck_core::id::RunId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::{PausedBy, Run};
use unstuck_core::model::unit::{UnitRef, UnitState, Waiting};
use unstuck_core::time::{Millis, Time};
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::engine::NextStep;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::Request;
use unstuck_store::conformance::TestStore;

use super::node::{Node, Process};
use super::operators::operator;
use super::servers::SESSION_IS_OVER;
use super::{PendingRequest, World, WorldEvent};
use crate::simulate::plan::OperatorAct;
use crate::simulate::promises::{Broken, Promise};

/// Within this time everything must have come to rest.
const MAX_TIME: Millis = Millis::hours(24 * 200);
/// Nobody has to answer more often than this.
const MAX_ANSWERS: u32 = 200;
/// Longer than a server takes to renew its session, and so often: until then whoever was dead is known to be.
const LAST_LOOK: Millis = Millis(3_500);
const LAST_LOOKS: u32 = 13;
/// Whoever answers gives up on what comes back after so many answers.
const PATIENCE: u64 = 3;

/// How often somebody has answered for each step.
type Answers = BTreeMap<(RunId, UnitRef), u64>;

impl<S: TestStore> World<'_, S> {
    /// Faults stop, and everything comes to its end.
    pub(super) fn finish_world(&mut self) -> Result<(), Broken> {
        self.say(format_args!("faults stop"));
        self.is_rough = false;
        (self.outage, self.slow_until) = (None, self.now);
        self.bring_servers_back()?;
        self.everybody_is_well();
        self.step_due()?;
        let begun = self.now;
        let mut answers = Answers::new();
        let (mut times, mut looks) = (0, LAST_LOOKS);
        loop {
            let next = self.next_moment();
            let is_busy = next.is_some_and(|at| at <= self.now);
            if !is_busy && self.is_quiet() && self.answer_all(&mut answers) {
                times += 1;
                if times > MAX_ANSWERS {
                    break;
                }
                self.step()?;
                continue;
            }
            let Some(at) = next.or_else(|| self.last_look(&mut looks)) else { return self.check_finished() };
            if at.since(begun) > MAX_TIME {
                break;
            }
            if next.is_some() {
                looks = LAST_LOOKS;
            }
            if self.is_shared() && at.since(self.now) > SESSION_IS_OVER {
                // Nobody is dead by then of whom it is not known.
                let known = begun + SESSION_IS_OVER;
                if self.now < known {
                    self.advance(known)?;
                    continue;
                }
                if self.is_asleep() {
                    self.fast_forward(at.back(Millis::seconds(8)));
                }
            }
            self.advance(at)?;
            self.handle_next_event()?;
        }
        let open = self.known_runs().into_iter().find(|run| !run.is_final());
        Err(Broken {
            promise: Promise::Moved,
            run: open.map(|run| run.id),
            what: format!("after {} without faults things still happen", self.now.since(begun)),
        })
    }

    /// The servers that are left are there, with clocks that are right.
    fn bring_servers_back(&mut self) -> Result<(), Broken> {
        self.agenda.retain(|coming| !matches!(coming, WorldEvent::Open(..) | WorldEvent::Thaw(_)));
        for place in 0..self.nodes.len() {
            self.go_to(place);
            self.set_wall_right();
            let is_left = !self.is_shared() || self.plan.survivors.includes(place);
            self.nodes[place].lags_until = self.now;
            if is_left {
                self.open(0)?;
                self.thaw();
            } else if matches!(self.nodes[place].process, Process::Up(_)) {
                self.faults.count("a server dies for good");
                self.crash(Millis::ZERO, 0);
                self.agenda.retain(|coming| !matches!(coming, WorldEvent::Open(..)));
            }
        }
        if self.nodes.iter().any(|node| node.blocked.is_some()) {
            self.disk()?;
        }
        let left = (0..self.nodes.len()).find(|place| self.nodes[*place].is_up());
        self.go_to(left.unwrap_or(0));
        Ok(())
    }

    /// Where nothing is to come, servers that renew their sessions may find something all the same: so many times.
    fn last_look(&mut self, looks: &mut u32) -> Option<Time> {
        *looks = looks.checked_sub(1).filter(|_| self.is_shared())?;
        Some(self.now + LAST_LOOK)
    }

    fn check_finished(&mut self) -> Result<(), Broken> {
        if let Some(run) = self.known_runs().into_iter().find(|run| !run.is_final()) {
            let mut units = Vec::new();
            run.each_unit(|unit, state| {
                units.push(format!("step {} is {}", unit.step.0, state.state.word()));
            });
            let what = format!("it is {} for good: {}", run.state().word(), units.join(", "));
            return Err(Broken::of(Promise::Moved, run.id, what));
        }
        let now = self.moment();
        if let Process::Up(host) = &mut self.nodes[self.here].process {
            self.promises.settled(&mut host.engine, now)?;
        }
        Ok(())
    }

    /// Whether nothing is in line and nothing on its way.
    fn is_quiet(&mut self) -> bool {
        self.nodes.iter_mut().filter_map(Node::running_host).all(|host| {
            host.engine.backlog() == 0
                && host.engine.outstanding() == 0
                && matches!(host.engine.next_step(), NextStep::At(_) | NextStep::Idle)
        })
    }

    /// Answers whatever waits for a person. Gives whether there was anything.
    fn answer_all(&mut self, answers: &mut Answers) -> bool {
        // Whoever was visited last may be gone.
        self.go_to_asked(self.here, false);
        let mut found: Vec<(OperatorAct, RunId, UnitRef)> = Vec::new();
        for run in self.known_runs().iter().filter(|run| !run.is_final()) {
            find(run, answers, &mut found);
        }
        let is_any = !found.is_empty();
        for (act, run, unit) in found {
            *answers.entry((run, unit)).or_default() += 1;
            // An odd number that three does not divide: with no reason given, for one step.
            self.do_to(act, run, unit, 1);
        }
        self.unpause_policies() || self.end_bulks() || is_any
    }

    fn unpause_policies(&mut self) -> bool {
        let is_paused = self.engine().is_some_and(|engine| engine.policies().switch().paused().is_some());
        is_paused && self.order(PolicyCommand::Unpause { rate: 2, by: operator() })
    }

    fn end_bulks(&mut self) -> bool {
        let bulks = std::mem::take(&mut self.bulks);
        let mut is_any = false;
        for bulk in bulks {
            let known = self.engine().and_then(|engine| engine.store().bulk(bulk).ok().flatten());
            if known.is_some_and(|known| known.due().is_none() && !known.state.is_final()) {
                is_any = true;
                let ticket = self.ticket(PendingRequest::Act("bulk: stop"));
                self.ask(Request::Bulk { ticket, bulk, command: BulkCommand::Cancel });
            }
        }
        is_any
    }
}

/// What waits for a person in a run.
fn find(run: &Run, answers: &Answers, found: &mut Vec<(OperatorAct, RunId, UnitRef)>) {
    if run.paused == Some(PausedBy::Operator) {
        found.push((OperatorAct::Unpause, run.id, UnitRef::step(StepIndex(0))));
        return;
    }
    run.each_unit(|unit, state| {
        let is_patient = answers.get(&(run.id, unit)).is_none_or(|answers| *answers < PATIENCE);
        match &state.state {
            UnitState::Held { .. } if is_patient => found.push((OperatorAct::ChooseRetry, run.id, unit)),
            UnitState::Held { .. } => found.push((OperatorAct::ChooseNone, run.id, unit)),
            UnitState::Error { resume: None, .. } if is_patient => {
                found.push((OperatorAct::Resume, run.id, unit));
            }
            UnitState::Error { resume: None, .. } => found.push((OperatorAct::Cancel, run.id, unit)),
            UnitState::Waiting(Waiting::Signal { name, .. }) if !run.signals.contains_key(name) => {
                found.push((OperatorAct::Signal, run.id, unit));
            }
            _ => {}
        }
    });
}
