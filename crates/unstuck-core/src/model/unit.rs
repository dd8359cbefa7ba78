//! Units: a step, or one item of a `forEach` step. A unit has attempts, budgets, a hold and a schedule.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bulk::BulkRef;
use crate::id::RunId;
use crate::json::Payload;
use crate::model::attempt::{Outcome, PastAttempt, ResumedBy, Worker};
use crate::model::error::Error;
use crate::model::flow::StepIndex;
use crate::model::run::RunState;
use crate::policy::PolicyRef;
use crate::time::{Millis, Time};

/// How many ended attempts are kept with a unit, over the generations; the history has all of them.
pub const KEPT_ATTEMPTS: usize = 20;

/// How many items one stored part of a list holds.
pub const ITEMS_PER_PART: usize = 64;

/// Names a unit in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitRef {
    pub step: StepIndex,
    /// The item, for a step with `forEach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

impl UnitRef {
    /// The step itself.
    pub fn step(step: StepIndex) -> UnitRef {
        UnitRef { step, item: None }
    }

    /// One item of it.
    pub fn item(step: StepIndex, item: u32) -> UnitRef {
        UnitRef { step, item: Some(item) }
    }
}

/// The run-time side of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepRun {
    /// The step is one unit.
    Single(Unit),
    /// The step is a fan-out.
    Items(Items),
}

/// The items of a `forEach` step whose list is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Items {
    /// The list, in parts of [`ITEMS_PER_PART`], so that launching one item does not read them all.
    pub values: Vec<Payload>,
    /// How long it is.
    pub total: u32,
    /// The next one to be launched; `total` when there is none.
    pub next: u32,
    /// The launched ones.
    pub units: BTreeMap<u32, Unit>,
    /// How many of them are ready, active or waiting: what `parallel` bounds.
    pub in_motion: u32,
    /// How the launched ones count for the state of the run.
    pub tally: UnitCounts,
    /// How the step as a whole ended.
    pub end: ItemsEnd,
    /// Attempts of the step itself, from before its list was known, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierAttempt>,
}

impl Items {
    /// Moves `next` to the next item to launch: in a later generation some are done already.
    pub(crate) fn skip_done(&mut self) {
        let is_done = |unit: &Unit| !matches!(unit.state, UnitState::Pending);
        while self.units.get(&self.next).is_some_and(is_done) {
            self.next += 1;
        }
    }

    /// Iterates over the items that are yet to be launched, in order.
    pub fn items_to_launch(&self) -> impl Iterator<Item = u32> {
        let waits =
            |item: &u32| self.units.get(item).is_none_or(|unit| matches!(unit.state, UnitState::Pending));
        (self.next..self.total).filter(waits)
    }
}

/// How many units are in which state of the run's interest, counted up so that the state of a run needs no visit to
/// all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitCounts {
    /// Ready: they run if the run has a slot.
    pub ready: u32,
    pub running: u32,
    pub held: u32,
    /// In error.
    pub error: u32,
    pub waiting: u32,
}

impl UnitCounts {
    /// Returns the counter for a unit in this state, if it is counted. A `flow` step counts as its child's state.
    pub(crate) fn counter_of(&mut self, state: &UnitState) -> Option<&mut u32> {
        match state {
            UnitState::Ready(_) => Some(&mut self.ready),
            UnitState::Active(live) => match &live.doing {
                AttemptPhase::Dequeued { .. } | AttemptPhase::Working { .. } => Some(&mut self.running),
                AttemptPhase::Child { state, .. } => match state {
                    RunState::Held => Some(&mut self.held),
                    RunState::Error => Some(&mut self.error),
                    RunState::Waiting | RunState::Paused => Some(&mut self.waiting),
                    // The child waits for a slot, so its parent is queued too: a unit that is not counted at all makes the run queued.
                    RunState::Queued => None,
                    RunState::Running
                    | RunState::Completed
                    | RunState::Failed
                    | RunState::Cancelled
                    | RunState::Superseded => Some(&mut self.running),
                },
            },
            UnitState::Waiting(_) => Some(&mut self.waiting),
            UnitState::Held { .. } => Some(&mut self.held),
            UnitState::Error { .. } => Some(&mut self.error),
            UnitState::Pending
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => None,
        }
    }

    /// Counts one more in this state.
    pub(crate) fn add(&mut self, state: &UnitState) {
        if let Some(count) = self.counter_of(state) {
            *count += 1;
        }
    }

    /// Replaces the contribution `before` of a fan-out by `now`.
    pub(crate) fn replace(&mut self, before: UnitCounts, now: UnitCounts) {
        self.ready = self.ready + now.ready - before.ready;
        self.running = self.running + now.running - before.running;
        self.held = self.held + now.held - before.held;
        self.error = self.error + now.error - before.error;
        self.waiting = self.waiting + now.waiting - before.waiting;
    }
}

/// How a fan-out as a whole ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemsEnd {
    /// Nothing yet.
    Open,
    /// Every item is done; the outputs in order.
    Completed {
        at: Time,
        /// The list of outputs.
        output: Payload,
    },
    /// An item failed for good.
    Failed { at: Time },
    /// A handler took over.
    Dropped { at: Time },
    /// Its run ended first.
    Cancelled { at: Time },
    /// By an operator.
    Skipped { at: Time },
}

/// The state of a step or item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    pub state: UnitState,
    /// Its input; `None` is the run's input.
    pub input: Option<Payload>,
    /// How many attempts have been numbered in this generation.
    pub attempts: u32,
    /// The budgets of the current round.
    pub round: Round,
    /// The last ended attempts of this generation, in order.
    pub past: Vec<PastAttempt>,
    /// Those of the generations that this one continues, in order; with `past` at most [`KEPT_ATTEMPTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierAttempt>,
    /// The child run of a `flow` step, kept over its attempts.
    pub child: Option<RunId>,
}

/// An attempt of a generation before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierAttempt {
    /// Which generation.
    pub generation: u32,
    pub past: PastAttempt,
}

impl Unit {
    /// Takes all attempts so far out of the unit, marked with their generation, for the next generation.
    pub(crate) fn take_earlier_attempts(&mut self, generation: u32) -> Vec<EarlierAttempt> {
        let mut all = std::mem::take(&mut self.earlier);
        let past = std::mem::take(&mut self.past).into_iter();
        all.extend(past.map(|past| EarlierAttempt { generation, past }));
        all
    }

    /// The error of the last attempt, if that is how it ended.
    pub fn last_error(&self) -> Option<&Error> {
        self.past.last().and_then(|past| past.outcome.error())
    }

    /// How the last attempt ended.
    pub fn last_outcome(&self) -> Option<&Outcome> {
        self.past.last().map(|past| &past.outcome)
    }
}

/// The attempts from one resume to the next, and the budgets they have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The first is 1.
    pub number: u32,
    /// The round that the last manual resume started (1 if there was none): policies count from there.
    pub manual: u32,
    /// Attempts that stalled, or failed.
    pub stalled: u32,
    /// Attempts that were stuck, the free ones apart.
    pub stuck: u32,
    /// How often its worker was lost; the first time is free where others were lost with it.
    pub losses: u32,
    /// How often it was deferred.
    pub deferrals: u32,
    /// The time of deferral so far.
    pub deferred: Millis,
    /// The bulk action that began it and waits for its result.
    pub bulk: Option<BulkRef>,
}

impl Default for Round {
    fn default() -> Round {
        Round {
            number: 1,
            manual: 1,
            stalled: 0,
            stuck: 0,
            losses: 0,
            deferrals: 0,
            deferred: Millis::ZERO,
            bulk: None,
        }
    }
}

impl Round {
    /// Returns whether the next attempt needs a worker that runs nothing else: two workers were lost with it, so that
    /// it must not take other attempts with it again.
    pub fn must_run_alone(&self) -> bool {
        self.losses > 1
    }
}

/// The state of a unit. Each state has the data that is valid in it, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitState {
    /// Not reached yet.
    #[default]
    Pending,
    /// Its next attempt is queued.
    Ready(QueuedAttempt),
    /// An attempt is under way.
    Active(LiveAttempt),
    /// A timer or a signal comes first.
    Waiting(Waiting),
    /// Waits for an operator's choice.
    Held {
        /// Since when.
        since: Time,
    },
    /// In error, until a policy or an operator resumes it.
    Error {
        /// Since when.
        since: Time,
        /// The resume that a policy has scheduled, if any.
        resume: Option<AutoResume>,
        /// Set once an operator has acknowledged it: no policy resumes it then.
        acknowledged: Option<Acknowledged>,
    },
    /// Done.
    Completed {
        at: Time,
        output: Payload,
        /// Whether an operator did it, and no attempt.
        by_hand: bool,
    },
    /// Not needed.
    Skipped { at: Time, why: SkippedBy },
    /// Failed for good.
    Failed {
        at: Time,
        /// Whether the flow continues without it.
        goes_on: bool,
    },
    /// A handler took over.
    Dropped { at: Time },
    /// Its run ended first.
    Cancelled { at: Time },
}

impl UnitState {
    /// Returns whether nothing more happens to the unit in this generation.
    pub fn is_final(&self) -> bool {
        match self {
            UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Active(_)
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Error { .. } => false,
            UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => true,
        }
    }

    /// Returns the attempt under way, if there is one.
    pub fn live(&self) -> Option<&LiveAttempt> {
        match self {
            UnitState::Active(live) => Some(live),
            UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Error { .. }
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => None,
        }
    }

    /// Returns whether the unit advances without an operator: ready, active or waiting.
    pub fn is_progressing(&self) -> bool {
        match self {
            UnitState::Ready(_) | UnitState::Active(_) | UnitState::Waiting(_) => true,
            UnitState::Pending
            | UnitState::Held { .. }
            | UnitState::Error { .. }
            | UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => false,
        }
    }

    /// Returns whether steps that need this unit may begin.
    pub fn unblocks_dependents(&self) -> bool {
        match self {
            UnitState::Completed { .. }
            | UnitState::Skipped { .. }
            | UnitState::Failed { goes_on: true, .. } => true,
            UnitState::Pending
            | UnitState::Ready(_)
            | UnitState::Active(_)
            | UnitState::Waiting(_)
            | UnitState::Held { .. }
            | UnitState::Error { .. }
            | UnitState::Failed { goes_on: false, .. }
            | UnitState::Dropped { .. }
            | UnitState::Cancelled { .. } => false,
        }
    }

    /// The word for it, as a step state.
    pub fn word(&self) -> &'static str {
        match self {
            UnitState::Pending => "pending",
            UnitState::Ready(_) => "ready",
            UnitState::Active(_) => "active",
            UnitState::Waiting(_) => "waiting",
            UnitState::Held { .. } => "held",
            UnitState::Error { .. } => "error",
            UnitState::Completed { .. } => "completed",
            UnitState::Skipped { .. } => "skipped",
            UnitState::Failed { .. } => "failed",
            UnitState::Dropped { .. } => "dropped",
            UnitState::Cancelled { .. } => "cancelled",
        }
    }
}

/// A resume that a policy has scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoResume {
    pub due: Time,
    pub policy: PolicyRef,
}

/// An acknowledged error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    pub at: Time,
    pub reason: Option<Arc<str>>,
}

/// Why a unit was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkippedBy {
    /// Its `if` was false.
    Condition,
    /// By an operator.
    Operator,
}

/// An attempt that waits to be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedAttempt {
    pub attempt: u32,
    /// Since when.
    pub since: Time,
    pub place: QueuePlace,
    /// Why it is a repeat, if it is one.
    pub resumed_by: Option<ResumedBy>,
    /// Its `queueTimeout` is moved on to this time, because the engine was down for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spared: Option<Time>,
}

/// Where in its queue an attempt waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePlace {
    /// Before all attempts that were queued normally.
    pub front: bool,
    /// Only for a worker that runs nothing else.
    pub alone: bool,
}

impl QueuePlace {
    /// Whether it is a place like any other.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
    pub(crate) fn is_usual(&self) -> bool {
        *self == QueuePlace::default()
    }
}

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveAttempt {
    pub attempt: u32,
    /// Why it is a repeat, if it is one.
    pub resumed_by: Option<ResumedBy>,
    /// When it became ready.
    pub queued_at: Time,
    /// What executes it, and in which phase.
    pub doing: AttemptPhase,
    /// Its `startTimeout` or lease is moved on to this time, because the engine was down for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spared: Option<Time>,
}

/// What executes an attempt, and in which phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptPhase {
    /// Handed to a worker, not yet started.
    Dequeued { worker: Worker, at: Time },
    /// A worker works on it.
    Working {
        worker: Worker,
        /// Since when.
        started_at: Time,
        /// The last sign of life that was an event.
        heard: Time,
        /// Its last progress.
        progress: Option<Payload>,
    },
    /// A child run.
    Child {
        /// Since when.
        started_at: Time,
        /// The state the child last reported.
        state: RunState,
    },
}

/// What a waiting unit waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// To be tried again.
    Again {
        due: Time,
        by: ResumedBy,
        /// Its place in the queue then.
        place: QueuePlace,
    },
    /// A timer of the flow.
    Timer {
        due: Time,
        /// Whether the flow gave that instant, rather than a length of time.
        #[serde(default)]
        is_instant: bool,
    },
    Signal {
        name: Arc<str>,
        /// Since when.
        since: Time,
        /// How long at most.
        until: Option<Time>,
    },
}

impl Waiting {
    /// Returns when the wait ends by itself, if it does.
    pub fn due(&self) -> Option<Time> {
        match self {
            Waiting::Again { due, .. } | Waiting::Timer { due, .. } => Some(*due),
            Waiting::Signal { until, .. } => *until,
        }
    }
}
