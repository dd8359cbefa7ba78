//! What is counted while a rehearsal goes on: attempts, rungs, policies, and how long it took to get well again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::event::{Event, Fact, UnitFact};
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::Origin;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};

use super::report::Attempts;

/// What decided what follows an error, a silence or a lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Reached {
    /// Rung 1: tried again.
    Retry,
    /// Rung 1: held.
    Hold,
    /// Rung 2: went on without it.
    FailOnError,
    /// Rung 3: a policy.
    Policy,
    /// Rung 4: the exception handler.
    Handler,
    /// Rung 5: at rest in error.
    Rest,
    /// Rung 5: the run failed.
    Failed,
    /// Stuck, and tried again.
    Stuck,
    /// Deferred.
    Deferral,
}

/// All that was counted.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) deaths: u64,
    pub(super) attempts: Attempts,
    pub(super) reached: BTreeMap<(FlowId, StepIndex, Reached), u64>,
    pub(super) policies: BTreeMap<Arc<str>, PolicyTally>,
    /// From a unit's first error to its completion.
    pub(super) recovered: Vec<Millis>,
    /// The longest that an attempt waited for somebody to take it, and where.
    pub(super) longest_wait: Option<(Millis, FlowId, StepIndex)>,
    roots: BTreeMap<RunId, RunId>,
    families: BTreeMap<RunId, Vec<RunId>>,
    pub(super) flow_of: BTreeMap<RunId, FlowId>,
    pub(super) origins: BTreeMap<RunId, Origin>,
    units: BTreeMap<(RunId, UnitRef), AttemptTrail>,
}

/// What a policy has done.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyTally {
    pub(super) used: u64,
    pub(super) spent: u64,
    /// The root runs that it has resumed something of.
    pub(super) runs: BTreeSet<RunId>,
}

/// How it goes with a unit.
#[derive(Default)]
struct AttemptTrail {
    in_trouble_since: Option<Time>,
    queued_at: Option<Time>,
    /// The policy that has it, with the rounds that it has had and may have.
    policy: Option<(Arc<str>, u32, u32)>,
}

impl Ledger {
    /// The root run of this one.
    pub(super) fn root_of(&self, run: RunId) -> RunId {
        self.roots.get(&run).copied().unwrap_or(run)
    }

    /// The root run that was started first.
    pub(super) fn first_root(&self) -> RunId {
        self.families.keys().next().copied().unwrap_or(RunId(0))
    }

    /// A root run, its children and handlers.
    pub(super) fn family(&self, root: RunId) -> Vec<RunId> {
        self.families.get(&root).cloned().unwrap_or_default()
    }

    /// Takes in what happened.
    pub(super) fn take(&mut self, run: RunId, event: &Event) {
        for fact in &event.facts {
            match fact {
                Fact::Started(started) => {
                    let root = started.origin.parent().map_or(run, |parent| self.root_of(parent));
                    self.roots.insert(run, root);
                    self.families.entry(root).or_default().push(run);
                    self.flow_of.insert(run, started.flow);
                    self.origins.insert(run, started.origin.clone());
                }
                Fact::Failing { error, handler } => {
                    if let Some(unit) = error.unit {
                        let reached = if handler.is_some() { Reached::Handler } else { Reached::Failed };
                        self.reach(run, unit, reached);
                    }
                }
                Fact::Unit { unit, fact } => self.unit(run, *unit, fact, event.at),
                _ => {}
            }
        }
    }

    fn unit(&mut self, run: RunId, unit: UnitRef, fact: &UnitFact, at: Time) {
        match fact {
            UnitFact::Queued { .. } => self.course(run, unit).queued_at = Some(at),
            UnitFact::Dequeued { .. } | UnitFact::Started { .. } => self.taken(run, unit, at),
            UnitFact::Ended { outcome, .. } => self.ended(run, unit, outcome, at),
            UnitFact::Retry { .. } => self.reach(run, unit, Reached::Retry),
            UnitFact::Held => {
                self.spent(run, unit);
                self.reach(run, unit, Reached::Hold);
            }
            UnitFact::Ignored => self.reach(run, unit, Reached::FailOnError),
            UnitFact::LeftInError => {
                self.spent(run, unit);
                self.reach(run, unit, Reached::Rest);
            }
            UnitFact::Failed => self.spent(run, unit),
            UnitFact::Deferred { .. } => self.reach(run, unit, Reached::Deferral),
            UnitFact::Requeued { .. } => self.reach(run, unit, Reached::Stuck),
            UnitFact::Scheduled { policy, rounds, max, .. } => {
                self.spent(run, unit);
                let root = self.root_of(run);
                let tally = self.policies.entry(policy.name.clone()).or_default();
                tally.used += 1;
                tally.runs.insert(root);
                self.course(run, unit).policy = Some((policy.name.clone(), *rounds, *max));
                self.reach(run, unit, Reached::Policy);
            }
            _ => {}
        }
    }

    fn course(&mut self, run: RunId, unit: UnitRef) -> &mut AttemptTrail {
        self.units.entry((run, unit)).or_default()
    }

    fn reach(&mut self, run: RunId, unit: UnitRef, reached: Reached) {
        if let Some(flow) = self.flow_of.get(&run) {
            *self.reached.entry((*flow, unit.step, reached)).or_default() += 1;
        }
    }

    /// Something else has the unit now: the policy that had it is spent, if it had all of its rounds.
    fn spent(&mut self, run: RunId, unit: UnitRef) {
        if let Some((name, rounds, max)) = self.course(run, unit).policy.take()
            && rounds + 1 >= max
        {
            self.policies.entry(name).or_default().spent += 1;
        }
    }

    fn taken(&mut self, run: RunId, unit: UnitRef, at: Time) {
        let Some(queued) = self.course(run, unit).queued_at.take() else { return };
        let waited = at.since(queued);
        let is_longest = self.longest_wait.is_none_or(|(longest, _, _)| waited > longest);
        if let Some(flow) = self.flow_of.get(&run).filter(|_| is_longest) {
            self.longest_wait = Some((waited, *flow, unit.step));
        }
    }

    fn ended(&mut self, run: RunId, unit: UnitRef, outcome: &Outcome, at: Time) {
        self.attempts.count(outcome);
        let course = self.course(run, unit);
        match outcome {
            Outcome::Completed(_) => {
                if let Some(since) = course.in_trouble_since.take() {
                    self.recovered.push(at.since(since));
                }
            }
            Outcome::Stalled(_) | Outcome::Failed(_) | Outcome::Stuck(_) => {
                course.in_trouble_since.get_or_insert(at);
            }
            Outcome::Deferred { .. } | Outcome::Cancelled(_) => {}
        }
    }
}
