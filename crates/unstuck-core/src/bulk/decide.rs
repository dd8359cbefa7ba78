//! What is decided about a bulk action: by whoever has it locked, on what it is, what is asked or told, and the time.

use std::ops::Range;

use crate::bulk::{Bulk, BulkAction, BulkRefusal, TargetResult};
use crate::decide::Answer;
use crate::time::Time;

/// What somebody does to a bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkCommand {
    /// Nothing more is acted on for now.
    Pause,
    /// It goes on, after a pause or after it has stopped.
    Unpause,
    /// Nothing more is acted on for good.
    Cancel,
}

/// What a decision depends on besides the bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkContext {
    /// The time of the batch.
    pub now: Time,
    /// What the clock says: a batch may have been loaded some time ago, and others may have acted since.
    pub latest: Time,
    /// What all corrections of the clock come to, in milliseconds.
    pub clock: i64,
}

/// Somebody pauses it, lets it go on, also after it has stopped, or cancels what is left of it. What is under way goes on.
pub fn change_bulk(
    bulk: &mut Bulk,
    command: BulkCommand,
    context: &BulkContext,
) -> Result<Answer, BulkRefusal> {
    bulk.correct_clock(context);
    let changed = match command {
        BulkCommand::Pause => bulk.pause()?,
        BulkCommand::Unpause => bulk.unpause(context.now)?,
        BulkCommand::Cancel => bulk.cancel()?,
    };
    Ok(if changed { Answer::Done } else { Answer::Already })
}

/// The places of the targets that are to be acted on now, at most `limit`, as far as its pace and its wave allow.
pub fn due_targets(bulk: &mut Bulk, limit: usize, context: &BulkContext) -> Range<u64> {
    bulk.correct_clock(context);
    let count = bulk.allowance(context.now, limit as u64);
    bulk.next..bulk.next + count
}

/// What came of acting on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    pub result: TargetResult,
    /// Whether it resumes in a turn at the pace.
    pub takes_turn: bool,
}

impl From<TargetResult> for Acted {
    fn from(result: TargetResult) -> Acted {
        Acted { result, takes_turn: false }
    }
}

/// The target at the next place was acted on. Gives whether the one after it may be acted on at once.
pub fn record_acted(bulk: &mut Bulk, acted: &Acted, context: &BulkContext) -> bool {
    if acted.takes_turn {
        bulk.turns.take(bulk.pace.rate, context.now);
    }
    bulk.record_acted(&acted.result, context.now);
    bulk.allowance(context.now, 1) > 0
}

/// A run tells how a target came out. `known` is what the target has come to so far: one that is not under way has been
/// told before, and whoever tells it again changes nothing. Gives whether it was news.
pub fn fold_result(
    bulk: &mut Bulk,
    known: &TargetResult,
    result: &TargetResult,
    context: &BulkContext,
) -> bool {
    if !known.is_under_way() || result.is_under_way() {
        return false;
    }
    bulk.correct_clock(context);
    bulk.record_result(result);
    true
}

impl Bulk {
    /// Takes in what the clock was set by since it was last looked at. Nothing is earned in a time to come.
    fn correct_clock(&mut self, context: &BulkContext) {
        let by = context.clock.saturating_sub(self.clock);
        if by != 0 {
            self.credited_at = self.credited_at.shifted(by);
            self.turns.shift(by);
            self.clock = context.clock;
        }
        self.credited_at = self.credited_at.min(context.latest);
    }

    /// Whether it forgets its targets, which takes all that belongs to them.
    pub fn forgets(&self) -> bool {
        matches!(self.action, BulkAction::Forget)
    }
}
