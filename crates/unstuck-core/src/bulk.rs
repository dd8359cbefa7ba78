//! Bulk actions: one order for many runs, carried out at a pace, in waves if asked, with an honest result for each.

mod decide;
mod outcome;
mod progress;
mod result;
mod target;
mod turns;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Actor, Choice};
use crate::id::{BulkId, RunId};
use crate::json::Json;
use crate::model::unit::UnitRef;
use crate::time::{Millis, Time};

pub use decide::{Acted, BulkCommand, BulkContext, change_bulk, due_targets, fold_result, record_acted};
pub(crate) use outcome::{rerun_result, resume_result, run_outcome, unit_outcome};
pub use progress::BulkProgress;
pub use result::{CountedAs, ResultKind, TargetResult};
pub use target::{TargetFilter, TargetScope, command_for, is_named, needs_person, result_of, target_scope};
pub use turns::Turns;

/// So many targets a second, unless somebody says otherwise.
pub const DEFAULT_RATE: u32 = 50;

/// What acting on one target costs of the credit.
const ONE_TARGET: u64 = 1_000;

/// What is done to each target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkAction {
    /// Resume a step in error.
    Resume {
        /// The input of the run is changed to this first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Json>,
        /// Or the input of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step_input: Option<Json>,
    },
    /// Acknowledge a step in error.
    Acknowledge,
    /// Cancel a run.
    Cancel,
    /// Start the next generation of a final run.
    Rerun {
        /// What runs again.
        again: BulkRerun,
        /// The input of the run is changed to this first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Json>,
        /// Or the input of the step that failed, or of the one that is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step_input: Option<Json>,
    },
    /// Choose for a held step.
    Choose {
        choice: Choice,
        /// The name of the step, where only one is meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Arc<str>>,
    },
    /// Send a signal to a run.
    Signal {
        name: Arc<str>,
        /// What it carries.
        payload: Json,
    },
    /// Skip a step.
    Skip {
        /// The name of the step, or of one item of it.
        step: Arc<str>,
    },
    /// Count a step as completed.
    Complete {
        /// The name of the step, or of one item of it.
        step: Arc<str>,
        /// What it would have put out.
        output: Json,
    },
    /// Remove a final run for good.
    Forget,
    /// Match a step in error with the policies again. This is done at once: the pace is that of the resumes of what would
    /// be due already.
    ApplyPolicies {
        /// Only with the policies of these names; with all if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Vec<Arc<str>>>,
    },
}

/// What a rerun of many runs does again. Steps go by name: the runs may be of different versions of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkRerun {
    /// What is left to do since the point of failure.
    Continue,
    /// Everything.
    All,
    /// These steps, with everything that depends on them.
    Steps(Vec<Arc<str>>),
}

impl BulkAction {
    /// The command that begins it.
    pub fn verb(&self) -> &'static str {
        match self {
            BulkAction::Resume { .. } => "resume",
            BulkAction::Acknowledge => "ack",
            BulkAction::Cancel => "cancel",
            BulkAction::Rerun { .. } => "rerun",
            BulkAction::Choose { .. } => "choose",
            BulkAction::Signal { .. } => "signal",
            BulkAction::Skip { .. } => "skip",
            BulkAction::Complete { .. } => "complete",
            BulkAction::Forget => "forget",
            BulkAction::ApplyPolicies { .. } => "apply",
        }
    }

    /// The result of a target right after it was acted on: the last one, or one that another follows.
    pub fn result_of_acting(&self) -> TargetResult {
        match self {
            BulkAction::Resume { .. } => TargetResult::Resumed,
            BulkAction::Acknowledge => TargetResult::Acknowledged,
            BulkAction::Cancel => TargetResult::Cancelled,
            BulkAction::Rerun { .. } => TargetResult::Rerun,
            BulkAction::Choose { choice: Choice::Retry, .. } => TargetResult::Retried,
            BulkAction::Choose { choice: Choice::None, .. } => TargetResult::GivenUp,
            BulkAction::Signal { .. } => TargetResult::Signalled,
            BulkAction::Skip { .. } => TargetResult::Skipped,
            BulkAction::Complete { .. } => TargetResult::Completed,
            BulkAction::Forget => TargetResult::Forgotten,
            BulkAction::ApplyPolicies { .. } => TargetResult::Scheduled,
        }
    }

    /// Whether the pace is that of acting, rather than of what follows from it.
    fn acts_at_pace(&self) -> bool {
        !matches!(self, BulkAction::ApplyPolicies { .. })
    }

    /// Whether the result of a target is known only later: then it can be gone through in waves.
    pub fn has_later_result(&self) -> bool {
        self.result_of_acting().is_under_way()
    }

    /// What the results of these targets are about, one or several.
    fn subject(&self, count: u64) -> &'static str {
        match (self, count) {
            (BulkAction::Rerun { .. }, 1) => "run",
            (BulkAction::Rerun { .. }, _) => "runs",
            (_, 1) => "step",
            (_, _) => "steps",
        }
    }
}

/// How fast, and in what portions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// So many targets a second at most; at least 1.
    pub rate: u32,
    /// The first wave has so many targets, each next one twice as many as the one before, and begins only when all of
    /// the last one have passed. Without it there is one wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<u32>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rate: DEFAULT_RATE, canary: None }
    }
}

/// One bulk action, without its targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    pub id: BulkId,
    /// What is done.
    pub action: BulkAction,
    /// Who asked for it.
    pub by: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// What was selected, in the words of whoever selected it.
    pub selection: Arc<str>,
    /// How fast.
    pub pace: Pace,
    /// When it was ordered.
    pub created_at: Time,
    pub state: BulkState,
    /// How many targets it has.
    pub total: u64,
    /// How many runs had in common what was selected, and were left out: nothing could be done to them then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The place of the next target that is to be acted on.
    pub next: u64,
    /// What became of those before it.
    pub counts: BulkCounts,
    /// The wave under way.
    pub wave: Wave,
    /// What the pace allows: a thousandth of a target for each millisecond and each target a second; a second's worth
    /// at most.
    pub credit: u64,
    /// Up to when that is counted.
    pub credited_at: Time,
    /// The turns of what resumes at the pace, where acting itself does not.
    #[serde(default, skip_serializing_if = "Turns::is_none")]
    pub turns: Turns,
    /// What it has taken in of the corrections of the clock, in milliseconds.
    #[serde(default, skip_serializing_if = "is_no_shift")]
    pub clock: i64,
}

/// Where a bulk action stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkState {
    /// It goes on by itself.
    Running,
    /// Somebody paused it.
    Paused,
    /// Every target has been acted on; some may still be under way.
    Acted,
    /// Every target has its result.
    Done,
    /// A wave did not pass: nothing more is acted on.
    Stopped {
        /// Why, in a sentence.
        why: Arc<str>,
    },
    /// Somebody cancelled what was left of it.
    Cancelled,
}

/// How many targets have come to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkCounts {
    /// Acted on, with the result still to come.
    pub under_way: u64,
    /// Passed the step that had failed; completed after a rerun; acknowledged, cancelled, scheduled, and whatever else is
    /// done at once.
    pub passed: u64,
    /// Failed again.
    pub failed: u64,
    /// Not acted on, because that was refused.
    pub refused: u64,
    /// No policy takes them any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unscheduled: u64,
    /// They are where the policies would put them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unchanged: u64,
}

/// A portion of the targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Its number, from 1.
    pub number: u32,
    /// Where its targets end: the place after the last.
    pub end: u64,
    /// How many of them have failed again.
    pub failed: u64,
}

/// One target of a bulk action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its place, from 0.
    pub place: u64,
    pub run: RunId,
    /// The step or item, where the action is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitRef>,
    /// What became of it.
    pub result: TargetResult,
}

/// Names a target: what a resumed step, or a run that was started again, remembers until its result is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BulkRef {
    pub bulk: BulkId,
    /// The place of the target.
    pub place: u64,
}

/// Why an order about a bulk action was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRefusal(pub String);

impl Bulk {
    /// A bulk action that begins now.
    pub fn new(
        id: BulkId,
        action: BulkAction,
        (by, reason): (Actor, Option<Arc<str>>),
        selection: Arc<str>,
        pace: Pace,
        total: u64,
        now: Time,
    ) -> Bulk {
        let pace = Pace { rate: pace.rate.max(1), ..pace };
        let end = pace.canary.map_or(total, |canary| u64::from(canary.max(1)).min(total));
        let wave = Wave { number: 1, end, failed: 0 };
        let state = if total == 0 { BulkState::Done } else { BulkState::Running };
        let (next, counts) = (0, BulkCounts::default());
        Bulk {
            id,
            action,
            by,
            reason,
            selection,
            pace,
            created_at: now,
            state,
            total,
            left_out: 0,
            next,
            counts,
            wave,
            credit: ONE_TARGET,
            credited_at: now,
            turns: Turns::default(),
            clock: 0,
        }
    }

    /// How many targets may be acted on now, at most `limit`.
    fn allowance(&self, now: Time, limit: u64) -> u64 {
        // Where others have acted after that, it is their pace that counts: the next batch knows of it.
        if self.state != BulkState::Running || now < self.credited_at {
            return 0;
        }
        let by_rate = if self.action.acts_at_pace() { self.credit_at(now) / ONE_TARGET } else { limit };
        by_rate.min(limit).min(self.wave.end.saturating_sub(self.next))
    }

    /// When to look at it next, if anything is to be done by the clock.
    pub fn due(&self) -> Option<Time> {
        if self.state != BulkState::Running || self.next >= self.wave.end {
            return None;
        }
        let missing = if self.action.acts_at_pace() { ONE_TARGET.saturating_sub(self.credit) } else { 0 };
        Some(self.credited_at + Millis(missing.div_ceil(u64::from(self.pace.rate))))
    }

    /// Whether nothing can happen to it any more, and no result is to come.
    pub fn is_settled(&self) -> bool {
        self.state.is_final() && self.counts.under_way == 0
    }

    /// The next target was acted on, with this result.
    fn record_acted(&mut self, result: &TargetResult, now: Time) {
        self.credit = self.credit_at(now).saturating_sub(ONE_TARGET);
        self.credited_at = self.credited_at.max(now);
        self.next += 1;
        self.count(result);
        self.advance_wave();
    }

    /// Who comes late makes up for a second at most.
    fn credit_at(&self, now: Time) -> u64 {
        let rate = u64::from(self.pace.rate);
        let earned = now.since(self.credited_at).0.saturating_mul(rate);
        self.credit.saturating_add(earned).min(rate.saturating_mul(1_000).max(ONE_TARGET))
    }

    /// The result of a target that was under way is known.
    fn record_result(&mut self, result: &TargetResult) {
        self.counts.under_way = self.counts.under_way.saturating_sub(1);
        self.count(result);
        self.advance_wave();
    }

    fn count(&mut self, result: &TargetResult) {
        match result.kind().counts_as() {
            None => {}
            Some(CountedAs::UnderWay) => self.counts.under_way += 1,
            Some(CountedAs::Passed) => self.counts.passed += 1,
            Some(CountedAs::Failed) => {
                self.counts.failed += 1;
                self.wave.failed += 1;
            }
            Some(CountedAs::Refused) => self.counts.refused += 1,
            Some(CountedAs::Unscheduled) => self.counts.unscheduled += 1,
            Some(CountedAs::Unchanged) => self.counts.unchanged += 1,
        }
    }

    /// Begins the next wave, stops, or ends, as far as what is known allows.
    fn advance_wave(&mut self) {
        if !matches!(self.state, BulkState::Running | BulkState::Acted) {
            return;
        }
        if self.next >= self.total {
            self.state = if self.counts.under_way == 0 { BulkState::Done } else { BulkState::Acted };
            return;
        }
        if self.wave.failed > 0 && self.pace.canary.is_some() {
            let Wave { number, failed, .. } = self.wave;
            let steps = self.action.subject(failed);
            let left = self.total - self.next;
            let why = format!(
                "{failed} {steps} of wave {number} failed again; the remaining {left} were not changed"
            );
            self.state = BulkState::Stopped { why: why.into() };
            return;
        }
        if self.next >= self.wave.end && self.counts.under_way == 0 {
            let size = u64::from(self.pace.canary.unwrap_or(1).max(1));
            let number = self.wave.number + 1;
            let size = size.saturating_mul(1 << u64::from(number - 1).min(40));
            let end = self.next.saturating_add(size).min(self.total);
            self.wave = Wave { number, end, failed: 0 };
        }
    }

    /// A user pauses it; what is under way continues.
    fn pause(&mut self) -> Result<bool, BulkRefusal> {
        self.change(BulkState::Paused, "be paused", |state| *state == BulkState::Running)
    }

    /// A user lets it continue, also after it has stopped: the next wave begins.
    fn unpause(&mut self, now: Time) -> Result<bool, BulkRefusal> {
        let may = |state: &BulkState| matches!(state, BulkState::Paused | BulkState::Stopped { .. });
        let changed = self.change(BulkState::Running, "continue", may)?;
        if changed {
            self.wave.failed = 0;
            self.credited_at = self.credited_at.max(now);
            self.advance_wave();
        }
        Ok(changed)
    }

    /// A user cancels what is left of it; what was done stays done.
    fn cancel(&mut self) -> Result<bool, BulkRefusal> {
        let may = |state: &BulkState| {
            matches!(state, BulkState::Running | BulkState::Paused | BulkState::Stopped { .. })
        };
        self.change(BulkState::Cancelled, "be cancelled", may)
    }

    fn change(
        &mut self,
        to: BulkState,
        asked: &str,
        may: impl Fn(&BulkState) -> bool,
    ) -> Result<bool, BulkRefusal> {
        if self.state == to {
            return Ok(false);
        }
        if !may(&self.state) {
            return Err(BulkRefusal(format!(
                "the bulk action is {}, so it cannot {asked}",
                self.state.word()
            )));
        }
        self.state = to;
        Ok(true)
    }
}

impl BulkState {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            BulkState::Running => "running",
            BulkState::Paused => "paused",
            BulkState::Acted => "acted",
            BulkState::Done => "done",
            BulkState::Stopped { .. } => "stopped",
            BulkState::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more is acted on, and every result that will come has come or does not matter.
    pub fn is_final(&self) -> bool {
        matches!(self, BulkState::Done | BulkState::Cancelled)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_no_shift(by: &i64) -> bool {
    *by == 0
}
