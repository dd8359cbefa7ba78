//! What happened, as it is persisted: one event per decided command, made of the facts that it established.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bulk::BulkRef;
use crate::id::{FlowId, PayloadId, RunId};
use crate::json::Payload;
use crate::model::attempt::{Outcome, ResumedBy, Worker};
use crate::model::error::RunError;
use crate::model::flow::StepIndex;
use crate::model::labels::Labels;
use crate::model::log::IgnoredLine;
use crate::model::nesting::Nesting;
use crate::model::run::{Limit, Origin, ParentAttempt, PausedBy, RunState};
use crate::model::unit::{QueuePlace, SkippedBy, UnitRef};
use crate::policy::{PassedPolicy, PolicyRef};
use crate::time::{Millis, Time};

/// One entry of a run's history. Their numbers have no gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the run, from 1.
    pub seq: u64,
    /// The generation it belongs to.
    pub generation: u32,
    /// When. Never earlier than the event before it.
    pub at: Time,
    /// The time by the clock, where that is earlier than `at`: the event before was recorded by a clock that was ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Time>,
    /// Who caused it.
    pub by: Actor,
    /// What it established, in order.
    pub facts: Vec<Fact>,
}

impl Event {
    /// Returns the time by the clock as it was at the event. Durations count from this, because `at` may be ahead of
    /// the clock.
    pub fn time(&self) -> Time {
        self.clock.unwrap_or(self.at)
    }

    /// Returns by how many milliseconds the event corrects the clock of its run.
    pub fn clock_shift(&self) -> i64 {
        let shifts =
            self.facts.iter().map(|fact| if let Fact::ClockCorrected { by } = fact { *by } else { 0 });
        shifts.fold(0, i64::saturating_add)
    }
}

/// Who caused something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// The engine: a timer, a notice, a dispatch.
    Engine,
    /// The worker of the attempt.
    Worker,
    /// A person or program that uses Unstuck, by name.
    User(Arc<str>),
}

/// One thing that became true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The run exists.
    Started(Box<Started>),
    /// It has a slot under its flow's `concurrency`.
    Admitted,
    /// It is paused.
    Paused { by: PausedBy, reason: Option<Arc<str>> },
    /// The pause has ended.
    Unpaused,
    /// Its priority, labels or deadline were changed.
    Amended(Box<Amended>),
    /// It was moved to another version of its flow. Steps that have begun are the same and have the same places there.
    Migrated(Box<Migrated>),
    /// The clock was set since the last event: relative times are moved, so that lengths of time keep their
    /// length. Instants stay.
    ClockCorrected {
        /// In milliseconds, forward or (negative) back.
        by: i64,
    },
    /// An operator has changed its input.
    InputChanged {
        /// What it is now.
        input: Payload,
        /// Its digest, where a start of its key has brought it: from now on the key goes with this input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Arc<str>>,
    },
    /// A signal has arrived and is kept.
    SignalKept {
        name: Arc<str>,
        /// What it carries.
        payload: Payload,
    },
    /// A step has consumed the oldest signal of this name.
    SignalTaken { name: Arc<str> },
    /// The run will be `failed`.
    Failing {
        error: Box<RunError>,
        /// The handler's flow, if there is one (rung 4).
        handler: Option<Arc<str>>,
    },
    /// The handler was started.
    HandlerStarted { run: RunId },
    /// The handler reported its state.
    HandlerChanged { state: RunState },
    /// The generation has ended: every step is done.
    Completed {
        /// Its output.
        output: Payload,
    },
    /// The generation has ended: it failed.
    RunFailed {
        /// The handler's own error, if that failed too.
        handler_error: Option<Box<RunError>>,
    },
    /// The generation has ended: it was cancelled.
    RunCancelled { reason: Option<Arc<str>> },
    /// A final run starts its next generation.
    Reran {
        /// The number of the new generation.
        generation: u32,
        /// Its flow version.
        flow: FlowId,
        deadline: Option<Time>,
        /// Whether that follows from a length of time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        deadline_is_relative: bool,
        /// What of the store's corrections of the clock it has taken in.
        #[serde(default, skip_serializing_if = "is_no_shift")]
        clock: i64,
        /// How many steps it has.
        steps: u16,
        /// The steps that keep what they have: completed ones, and fan-outs with their completed items.
        keep: Vec<StepIndex>,
        /// Whether steps that run again continue their child runs, rather than start new ones.
        keep_children: bool,
        /// The attempt of its parent that it works for now, where that has changed.
        serves: Option<ParentAttempt>,
        /// Its limit, if any.
        limit: Option<Limit>,
        /// The bulk action that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bulk: Option<BulkRef>,
    },
    /// The list of a fan-out is known.
    ItemsKnown {
        step: StepIndex,
        /// The list, in parts of [`ITEMS_PER_PART`](crate::model::unit::ITEMS_PER_PART).
        values: Vec<Payload>,
        /// How long it is.
        total: u32,
    },
    /// A fan-out is done.
    ItemsCompleted {
        step: StepIndex,
        /// The outputs in order.
        output: Payload,
    },
    /// A fan-out as a whole has failed, was dropped, cancelled or skipped.
    ItemsEnded { step: StepIndex, how: Closing },
    /// Something about one step or item.
    Unit { unit: UnitRef, fact: UnitFact },
}

/// The beginning of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub run: RunId,
    /// The flow version.
    pub flow: FlowId,
    /// How many steps that has.
    pub steps: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// Its own labels, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Arc<Labels>>,
    pub input: Payload,
    /// A digest of the input, for runs with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// When it is given up on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Whether that follows from a length of time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_is_relative: bool,
    /// What of the store's corrections of the clock it has taken in.
    #[serde(default, skip_serializing_if = "is_no_shift")]
    pub clock: i64,
    /// The limit that it must be admitted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// What was changed of a run that is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amended {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Labels that it has no more, with the values that they had; first of those that have another value now.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels_removed: Labels,
    /// Labels that it has now, or that have this value now.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels_set: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<AmendedDeadline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// The deadline that a run has from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmendedDeadline {
    /// When it is given up on; never, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Whether that follows from a length of time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_relative: bool,
}

/// That a run was moved to another version of its flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Migrated {
    /// The version that it is of now.
    pub flow: FlowId,
    /// As people know it.
    pub version: Arc<str>,
    /// The version that it was of, as people know it.
    pub from: Arc<str>,
    /// How many steps it has now.
    pub steps: u16,
    /// Steps that are defined in another way now, and whose inputs are computed again before the next attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<StepIndex>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// How an open unit is closed when its run ends under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Closing {
    /// An item failed for good.
    Failed,
    /// A handler took over.
    Dropped,
    /// The run ended.
    Cancelled,
    /// By an operator.
    Skipped,
}

/// What became true of one step or item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UnitFact {
    /// Its input was computed.
    #[serde(rename = "Bound")]
    InputBound { input: Payload },
    /// An attempt is ready to be handed out.
    Queued {
        attempt: u32,
        /// Why it is a repeat, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumed_by: Option<ResumedBy>,
        /// Its place in the queue.
        #[serde(default, skip_serializing_if = "QueuePlace::is_usual")]
        place: QueuePlace,
    },
    /// The attempt was handed to a worker.
    Dequeued { worker: Worker },
    /// Work began; for an executor of this process a claim is a start.
    Started { worker: Worker },
    /// The worker reported progress.
    Progress {
        /// The value as the worker reported it.
        value: Payload,
    },
    /// Lines of the report of its process were ignored.
    ReportIgnored {
        attempt: u32,
        /// The first of them.
        lines: Vec<IgnoredLine>,
        /// How many more there were.
        #[serde(default, skip_serializing_if = "is_no_more")]
        more: u64,
    },
    /// Its limit is moved on, because the engine was down for a while.
    #[serde(rename = "Spared")]
    LimitExtended {
        /// When it is reached now.
        until: Time,
        /// By how much it was moved.
        by: Millis,
        /// The last sign of life.
        heard: Option<Time>,
    },
    /// The attempt ended.
    Ended { attempt: u32, outcome: Outcome },
    /// Rung 1: the retry strategy runs it again.
    Retry {
        due: Time,
        /// How long that is.
        delay: Millis,
        /// Attempts of the round that stalled.
        stalled: u32,
        /// The budget; `None` is unlimited.
        max: Option<u32>,
    },
    /// Rung 1: the retry strategy holds it for an operator.
    Held,
    /// Rung 2: it failed, and the flow continues.
    #[serde(rename = "WentOn")]
    Ignored,
    /// Rung 3: a policy will resume it; until then it is in `error`.
    Scheduled {
        due: Time,
        /// How long after the end of the attempt, or from now on where that is over.
        delay: Millis,
        policy: PolicyRef,
        /// The rounds since the last manual resume.
        rounds: u32,
        /// Of how many.
        max: u32,
    },
    /// Rung 3: these policies match the error but did not take it. The facts after this one tell what follows.
    PassedOver {
        /// Some of them in matching order, used-up ones first.
        policies: Vec<PassedPolicy>,
    },
    /// Rung 5: it stays in `error`.
    #[serde(rename = "Rested")]
    LeftInError,
    /// An operator has acknowledged its error: no policy resumes it.
    Acknowledged { reason: Option<Arc<str>> },
    /// An operator has done it by hand.
    DoneByHand { output: Payload, reason: Option<Arc<str>> },
    /// It failed for good, and so does the run.
    Failed,
    /// It waits for resources.
    Deferred {
        /// When it is tried again.
        due: Time,
        /// How long that is.
        delay: Millis,
    },
    /// It was stuck, and is tried again.
    #[serde(rename = "Anew")]
    Requeued {
        due: Time,
        /// How often it was stuck in its round, counted ones only.
        stuck: u32,
        /// The budget.
        max: u32,
        /// Its place in the queue.
        place: QueuePlace,
    },
    /// Its `if` was false, or an operator skipped it.
    Skipped {
        why: SkippedBy,
        /// The reason that the operator gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// It is done without an attempt: a value, a timer, a signal.
    Done { output: Payload },
    /// It waits for a timer of the flow.
    TimerSet {
        /// When that is due.
        due: Time,
        /// Whether the flow gave that instant, rather than a length of time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_instant: bool,
    },
    /// It waits for a signal.
    SignalAwaited {
        name: Arc<str>,
        /// How long at most.
        until: Option<Time>,
    },
    /// A child run was started, or continued as its next generation.
    ChildStarted {
        /// The number of the attempt.
        attempt: u32,
        /// Why it is a repeat, if it is one.
        resumed_by: Option<ResumedBy>,
        run: RunId,
    },
    /// The child reported its state.
    ChildChanged { state: RunState },
    /// An operator chose for a held step.
    Chosen {
        choice: Choice,
        /// The bulk action that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bulk: Option<BulkRef>,
    },
    /// A resume: a new round.
    Resumed {
        by: ResumedBy,
        reason: Option<Arc<str>>,
        /// The bulk action that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bulk: Option<BulkRef>,
        /// How long after it was due a policy resumed it, where it had to wait because automatic resumes were paused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited: Option<Millis>,
    },
    /// Its run ended first.
    Closed { how: Closing },
}

/// What an operator may choose for a held step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice {
    /// One more attempt in the same round.
    Retry,
    /// Leave it failed.
    None,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_no_more(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_no_shift(shift: &i64) -> bool {
    *shift == 0
}

impl Event {
    /// Calls `each` with the id of every stored payload that the event refers to.
    pub fn for_each_payload(&self, mut each: impl FnMut(PayloadId)) {
        let mut payload = |payload: &Payload| {
            if let Payload::Stored(id) = payload {
                each(*id);
            }
        };
        for fact in &self.facts {
            match fact {
                Fact::Started(started) => payload(&started.input),
                Fact::InputChanged { input, .. } => payload(input),
                Fact::SignalKept { payload: kept, .. } => payload(kept),
                Fact::Completed { output } | Fact::ItemsCompleted { output, .. } => payload(output),
                Fact::ItemsKnown { values, .. } => values.iter().for_each(&mut payload),
                Fact::Unit { fact, .. } => match fact {
                    UnitFact::InputBound { input: value }
                    | UnitFact::Progress { value }
                    | UnitFact::Done { output: value }
                    | UnitFact::DoneByHand { output: value, .. }
                    | UnitFact::Ended { outcome: Outcome::Completed(value), .. } => payload(value),
                    UnitFact::Queued { .. }
                    | UnitFact::Dequeued { .. }
                    | UnitFact::Started { .. }
                    | UnitFact::ReportIgnored { .. }
                    | UnitFact::LimitExtended { .. }
                    | UnitFact::Ended { .. }
                    | UnitFact::Retry { .. }
                    | UnitFact::Held
                    | UnitFact::Ignored
                    | UnitFact::Scheduled { .. }
                    | UnitFact::PassedOver { .. }
                    | UnitFact::LeftInError
                    | UnitFact::Acknowledged { .. }
                    | UnitFact::Failed
                    | UnitFact::Deferred { .. }
                    | UnitFact::Requeued { .. }
                    | UnitFact::Skipped { .. }
                    | UnitFact::TimerSet { .. }
                    | UnitFact::SignalAwaited { .. }
                    | UnitFact::ChildStarted { .. }
                    | UnitFact::ChildChanged { .. }
                    | UnitFact::Chosen { .. }
                    | UnitFact::Resumed { .. }
                    | UnitFact::Closed { .. } => {}
                },
                Fact::Admitted
                | Fact::Paused { .. }
                | Fact::Unpaused
                | Fact::Amended(_)
                | Fact::Migrated(_)
                | Fact::ClockCorrected { .. }
                | Fact::SignalTaken { .. }
                | Fact::Failing { .. }
                | Fact::HandlerStarted { .. }
                | Fact::HandlerChanged { .. }
                | Fact::RunFailed { .. }
                | Fact::RunCancelled { .. }
                | Fact::Reran { .. }
                | Fact::ItemsEnded { .. } => {}
            }
        }
    }
}

impl Fact {
    /// Something about one unit.
    pub fn unit(unit: UnitRef, fact: UnitFact) -> Fact {
        Fact::Unit { unit, fact }
    }
}
