//! Runs: one execution of one flow version on one input, and how its state follows from its steps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bulk::BulkRef;
use crate::id::{FlowId, RunId};
use crate::json::Payload;
use crate::model::attempt::{AttemptId, Worker};
use crate::model::error::RunError;
use crate::model::flow::StepIndex;
use crate::model::labels::Labels;
use crate::model::nesting::Nesting;
use crate::model::recent::RecentAttempt;
use crate::model::unit::{AttemptPhase, Items, ItemsEnd, StepRun, Unit, UnitCounts, UnitRef, UnitState};
use crate::time::Time;

/// How many signals of one name are kept until a step consumes them.
pub const KEPT_SIGNALS: usize = 1_000;

/// How many signal names are kept, besides the names that steps of the flow wait for.
pub const KEPT_SIGNAL_NAMES: usize = 100;

/// One execution of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    /// From 1; a rerun begins the next.
    pub generation: u32,
    /// The number of its last event.
    pub seq: u64,
    /// The flow version.
    pub flow: FlowId,
    /// Unique in its flow, if given.
    pub key: Option<Arc<str>>,
    /// Its own labels, if it has any; those of its flow count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Arc<Labels>>,
    pub input: Payload,
    /// A digest of the input, kept for runs with a key.
    pub input_digest: Option<Arc<str>>,
    /// Where it comes from.
    pub origin: Origin,
    /// The flow of the root run.
    pub root_flow: Arc<str>,
    /// Where it stands below its root run; nothing for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nesting: Option<Arc<Nesting>>,
    /// Where its local steps are executed, if not wherever the store is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Arc<str>>,
    /// Higher first; added to the priority of its steps.
    pub priority: i32,
    /// When it was started.
    pub created_at: Time,
    /// When its last event was. It never goes back.
    pub updated_at: Time,
    /// What the clock said then, where that is behind: it was set back, and has not come so far again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Time>,
    /// When it is given up on.
    pub deadline: Option<Time>,
    /// Whether that follows from a length of time: then it is moved when the clock is set.
    #[serde(default)]
    pub deadline_is_relative: bool,
    /// What of the store's corrections of the clock it has taken in, in milliseconds.
    #[serde(default)]
    pub clock: i64,
    /// Its place under the flow's `concurrency`.
    pub slot: Slot,
    /// Whether an operator, or its parent, has paused it.
    pub paused: Option<PausedBy>,
    /// Going, failing or ended.
    pub phase: Phase,
    /// The steps, by place.
    pub steps: Vec<StepRun>,
    /// The attempts that ended last, oldest first, once there may be many: see [`Run::recent_attempts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<RecentAttempt>,
    /// Signals that have come and wait to be consumed.
    pub signals: BTreeMap<Arc<str>, VecDeque<Payload>>,
    /// The bulk action that started this generation and waits for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkRef>,
}

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Started from outside.
    Root,
    /// A `flow` step of another run.
    Child {
        /// The other run.
        parent: RunId,
        /// Its step or item.
        unit: UnitRef,
        /// The attempt of that which it works for.
        serves: ParentAttempt,
        /// Whether it runs inside a handler: then no step stays in `error`.
        in_handler: bool,
    },
    /// The exception handler of another run.
    Handler {
        /// The other run.
        parent: RunId,
        generation: u32,
    },
}

impl Origin {
    /// Returns the run that is notified about changes of this one.
    pub fn parent(&self) -> Option<RunId> {
        match self {
            Origin::Root => None,
            Origin::Child { parent, .. } | Origin::Handler { parent, .. } => Some(*parent),
        }
    }

    /// Returns the attempt of the parent that this run works for.
    pub fn serves(&self) -> Option<ParentAttempt> {
        match self {
            Origin::Root => None,
            Origin::Child { serves, .. } => Some(*serves),
            Origin::Handler { generation, .. } => Some(ParentAttempt { generation: *generation, attempt: 0 }),
        }
    }

    /// Returns whether the run belongs to a handler: then no step may stay in `error`, because nobody would see it.
    pub fn is_in_handler(&self) -> bool {
        match self {
            Origin::Root => false,
            Origin::Child { in_handler, .. } => *in_handler,
            Origin::Handler { .. } => true,
        }
    }
}

/// The attempt of its parent that a child works for: a retry of the parent's step continues the same child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParentAttempt {
    /// The parent's generation.
    pub generation: u32,
    /// The attempt of the parent's step; 0 for a handler.
    pub attempt: u32,
}

/// Who paused a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PausedBy {
    /// An operator, on this run.
    Operator,
    /// Its parent was paused.
    Parent,
}

/// A run's place under its flow's `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// There is no limit.
    Unlimited,
    /// It has none now, and needs one to continue.
    Wanted(Limit),
    /// It has one.
    Taken(Limit),
}

impl Slot {
    /// Returns whether the run may dispatch: it has a slot or needs none.
    pub fn allows_progress(&self) -> bool {
        match self {
            Slot::Unlimited | Slot::Taken(_) => true,
            Slot::Wanted(_) => false,
        }
    }
}

/// A limit on how many runs may be under way at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The flow, and the value of its `key` where there is one.
    pub name: Arc<str>,
    /// The number of slots.
    pub max: u32,
    /// Whether the slot is kept in `error`, `held` and `paused`.
    pub strict: bool,
}

/// The large phases of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Steps are scheduled.
    Going,
    /// It will be `failed`: nothing more is dispatched, what is active ends, then the handler runs.
    Failing(Failing),
    /// Final: never changes.
    Ended(RunEnd),
}

/// A run on its way to `failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// Since when.
    pub since: Time,
    pub error: RunError,
    /// The handler that runs before the end.
    pub handler: Option<Handler>,
}

/// The exception handler of a failing run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    pub flow: Arc<str>,
    /// Its run, once started.
    pub run: Option<RunId>,
    /// The state that run last reported.
    pub state: RunState,
}

/// How a generation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub at: Time,
    pub how: RunOutcome,
}

/// The final states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// Every step is done.
    Completed {
        /// Its output.
        output: Payload,
    },
    /// It failed.
    Failed {
        error: Box<RunError>,
        /// The handler, and its own error if it failed too.
        handler: Option<(RunId, Option<Box<RunError>>)>,
    },
    /// It was cancelled.
    Cancelled { reason: Option<Arc<str>> },
    /// Another run took its place.
    Superseded { by: RunId },
}

/// Whether steps of a run may need an operator, whatever the state of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attention {
    /// A step is in error.
    pub error: bool,
    /// A step is held.
    pub held: bool,
}

/// The state of a run, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// Needs a slot, or nothing has begun yet.
    Queued,
    /// A step is ready or active.
    Running,
    /// Timers or signals come first.
    Waiting,
    /// A step is in error, and nothing else is under way.
    Error,
    /// Waits for an operator's choice.
    Held,
    /// By an operator.
    Paused,
    /// Final: every step is done.
    Completed,
    /// Final: it failed.
    Failed,
    /// Final: it was cancelled.
    Cancelled,
    /// Final: another run took its place.
    Superseded,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 10] = [
        RunState::Queued,
        RunState::Running,
        RunState::Waiting,
        RunState::Error,
        RunState::Held,
        RunState::Paused,
        RunState::Completed,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Superseded,
    ];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running => "running",
            RunState::Waiting => "waiting",
            RunState::Error => "error",
            RunState::Held => "held",
            RunState::Paused => "paused",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
            RunState::Superseded => "superseded",
        }
    }

    /// Returns whether it never changes again.
    pub fn is_final(self) -> bool {
        match self {
            RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => true,
            RunState::Queued
            | RunState::Running
            | RunState::Waiting
            | RunState::Error
            | RunState::Held
            | RunState::Paused => false,
        }
    }
}

impl Run {
    /// Lists the live attempts that executors of an engine's own process have.
    pub fn local_attempts(&self) -> Vec<(AttemptId, Worker)> {
        let mut found = Vec::new();
        self.each_unit(|unit, state| {
            if let Some(live) = state.state.live()
                && let AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } =
                    &live.doing
                && worker.local
            {
                let id = AttemptId { run: self.id, generation: self.generation, unit, attempt: live.attempt };
                found.push((id, worker.clone()));
            }
        });
        found
    }

    /// Returns the state of the run: final, or the first that applies of `paused`, `running`, `held`, `error`,
    /// `waiting`, `queued`.
    pub fn state(&self) -> RunState {
        match &self.phase {
            Phase::Ended(ended) => return ended.how.state(),
            Phase::Failing(failing) if self.paused.is_none() => return failing.state(),
            Phase::Failing(_) | Phase::Going => {}
        }
        if self.paused.is_some() {
            return RunState::Paused;
        }
        self.state_by_units(self.slot.allows_progress())
    }

    /// Returns the state that the units would give the run if it had a slot.
    pub(crate) fn state_with_slot(&self) -> RunState {
        self.state_by_units(true)
    }

    /// Returns whether a filter for `state` finds this run: it is in that state, or it is not final and a step of it is
    /// in error or held, whatever its other steps do.
    pub fn matches_state(&self, state: RunState) -> bool {
        let rests = self.attention();
        self.state() == state
            || (state == RunState::Error && rests.error)
            || (state == RunState::Held && rests.held)
    }

    /// Returns which of `error` and `held` its steps are in, those of children included; neither once it is final.
    pub fn attention(&self) -> Attention {
        if self.is_final() {
            return Attention::default();
        }
        let all = self.unit_counts();
        let by_handler = self.state();
        Attention {
            error: all.error > 0 || by_handler == RunState::Error,
            held: all.held > 0 || by_handler == RunState::Held,
        }
    }

    /// Counts units by what they mean for the state of the run.
    fn unit_counts(&self) -> UnitCounts {
        let mut all = UnitCounts::default();
        for step in &self.steps {
            match step {
                StepRun::Single(unit) => all.add(&unit.state),
                StepRun::Items(items) => {
                    let UnitCounts { ready, running, held, error, waiting } = items.tally;
                    all.ready += ready;
                    all.running += running;
                    all.held += held;
                    all.error += error;
                    all.waiting += waiting;
                }
            }
        }
        all
    }

    /// Derives the state from the counts of units; ready units count as running only with a slot.
    fn state_by_units(&self, has_slot: bool) -> RunState {
        match self.unit_counts() {
            UnitCounts { running: 1.., .. } => RunState::Running,
            UnitCounts { ready: 1.., .. } if has_slot => RunState::Running,
            UnitCounts { held: 1.., .. } => RunState::Held,
            UnitCounts { error: 1.., .. } => RunState::Error,
            UnitCounts { waiting: 1.., .. } => RunState::Waiting,
            UnitCounts { .. } => RunState::Queued,
        }
    }

    /// Returns whether an attempt or a child is under way.
    pub fn has_active(&self) -> bool {
        let mut active = false;
        self.each_unit(|_, unit| active |= matches!(unit.state, UnitState::Active(_)));
        active
    }

    /// Returns whether steps may begin now: the run is neither failing nor paused, and has a slot if it needs one.
    pub fn can_schedule(&self) -> bool {
        matches!(self.phase, Phase::Going) && self.paused.is_none() && self.slot.allows_progress()
    }

    /// Returns whether it is on its way to `failed`.
    pub fn is_failing(&self) -> bool {
        matches!(self.phase, Phase::Failing(_))
    }

    /// Returns whether this generation is over.
    pub fn is_final(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Returns a unit, if it exists now.
    pub fn unit(&self, unit: UnitRef) -> Option<&Unit> {
        match (self.steps.get(usize::from(unit.step.0))?, unit.item) {
            (StepRun::Single(single), None) => Some(single),
            (StepRun::Items(items), Some(item)) => items.units.get(&item),
            (StepRun::Single(_), Some(_)) | (StepRun::Items(_), None) => None,
        }
    }

    /// As [`Run::unit`], to change it.
    pub(crate) fn unit_mut(&mut self, unit: UnitRef) -> Option<&mut Unit> {
        match (self.steps.get_mut(usize::from(unit.step.0))?, unit.item) {
            (StepRun::Single(single), None) => Some(single),
            (StepRun::Items(items), Some(item)) => items.units.get_mut(&item),
            (StepRun::Single(_), Some(_)) | (StepRun::Items(_), None) => None,
        }
    }

    /// The step at this place.
    pub fn step(&self, step: StepIndex) -> &StepRun {
        &self.steps[usize::from(step.0)]
    }

    /// Returns the items of a fan-out whose list is known.
    pub fn items(&self, step: StepIndex) -> Option<&Items> {
        match self.step(step) {
            StepRun::Items(items) => Some(items),
            StepRun::Single(_) => None,
        }
    }

    /// Calls `f` with every unit, in order.
    pub fn each_unit<'a>(&'a self, mut f: impl FnMut(UnitRef, &'a Unit)) {
        for (place, step) in (0..=u16::MAX).map(StepIndex).zip(&self.steps) {
            match step {
                StepRun::Single(unit) => f(UnitRef::step(place), unit),
                StepRun::Items(items) => {
                    for (item, unit) in &items.units {
                        f(UnitRef::item(place, *item), unit);
                    }
                }
            }
        }
    }

    /// How many units it has: those steps that are one, and the items that are launched.
    pub fn unit_count(&self) -> usize {
        let of_step = |step: &StepRun| match step {
            StepRun::Single(_) => 1,
            StepRun::Items(items) => items.units.len(),
        };
        self.steps.iter().map(of_step).sum()
    }

    /// Lists the units that fulfil `wanted`, in order.
    pub fn units_where(&self, wanted: impl Fn(&Unit) -> bool) -> Vec<UnitRef> {
        let mut found = Vec::new();
        self.each_unit(|unit, state| {
            if wanted(state) {
                found.push(unit);
            }
        });
        found
    }
}

impl StepRun {
    /// Returns whether anything was decided about it in this generation, or is kept of the ones before.
    pub fn has_begun(&self) -> bool {
        match self {
            StepRun::Single(unit) => *unit != Unit::default(),
            StepRun::Items(_) => true,
        }
    }

    /// Returns whether nothing more happens to the step in this generation.
    pub fn is_final(&self) -> bool {
        match self {
            StepRun::Single(unit) => unit.state.is_final(),
            StepRun::Items(items) => !matches!(items.end, ItemsEnd::Open),
        }
    }

    /// Returns the word for its state. An open fan-out is the first that applies of `active`, `ready`, `held`, `error`,
    /// `waiting` among its items, else `pending`.
    pub fn word(&self) -> &'static str {
        let items = match self {
            StepRun::Single(unit) => return unit.state.word(),
            StepRun::Items(items) => items,
        };
        match &items.end {
            ItemsEnd::Completed { .. } => "completed",
            ItemsEnd::Failed { .. } => "failed",
            ItemsEnd::Dropped { .. } => "dropped",
            ItemsEnd::Cancelled { .. } => "cancelled",
            ItemsEnd::Skipped { .. } => "skipped",
            ItemsEnd::Open => ["active", "ready", "held", "error", "waiting"]
                .into_iter()
                .find(|word| items.units.values().any(|unit| unit.state.word() == *word))
                .unwrap_or("pending"),
        }
    }

    /// Returns whether steps that need this one may begin.
    pub fn unblocks_dependents(&self) -> bool {
        match self {
            StepRun::Single(unit) => unit.state.unblocks_dependents(),
            StepRun::Items(items) => match &items.end {
                ItemsEnd::Completed { .. } | ItemsEnd::Skipped { .. } => true,
                ItemsEnd::Open
                | ItemsEnd::Failed { .. }
                | ItemsEnd::Dropped { .. }
                | ItemsEnd::Cancelled { .. } => false,
            },
        }
    }

    /// Returns the output of the step; `None` stands for null.
    pub fn output(&self) -> Option<&Payload> {
        match self {
            StepRun::Single(Unit { state: UnitState::Completed { output, .. }, .. })
            | StepRun::Items(Items { end: ItemsEnd::Completed { output, .. }, .. }) => Some(output),
            StepRun::Single(_) | StepRun::Items(_) => None,
        }
    }
}

impl Failing {
    /// Returns the state of a failing run: that of its handler once started, as far as it matters to people.
    fn state(&self) -> RunState {
        match &self.handler {
            Some(Handler { run: Some(_), state, .. }) => match state {
                RunState::Held | RunState::Error | RunState::Waiting | RunState::Queued => *state,
                RunState::Paused => RunState::Waiting,
                RunState::Running
                | RunState::Completed
                | RunState::Failed
                | RunState::Cancelled
                | RunState::Superseded => RunState::Running,
            },
            Some(_) | None => RunState::Running,
        }
    }
}

impl RunOutcome {
    /// The state that this is.
    pub fn state(&self) -> RunState {
        match self {
            RunOutcome::Completed { .. } => RunState::Completed,
            RunOutcome::Failed { .. } => RunState::Failed,
            RunOutcome::Cancelled { .. } => RunState::Cancelled,
            RunOutcome::Superseded { .. } => RunState::Superseded,
        }
    }
}
