//! The state that is kept of a run beside its history: what replaying gives, or it would be shown and continued wrongly.

use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_store::verify::{Finding, Promise};

use crate::table::run_snapshot::RunSnapshot;

/// What to do about a state that is not what the history gives.
const LEAVE_OUT: &str = "no event is lost; stop the engine, make a copy with `unstuck store copy`, which leaves such states out, use the \
     copy, and report this as a bug";
/// What to do about one that is not used.
const NOT_USED: &str = "nothing is lost and nothing has to be done: the history is read instead";

/// A kept state, while the history of its run is read.
pub(crate) struct KeptState {
    run: RunId,
    kept: Option<Result<RunSnapshot, String>>,
    is_met: bool,
}

impl KeptState {
    pub(crate) fn new(run: RunId, kept: Option<Result<RunSnapshot, String>>) -> KeptState {
        KeptState { run, kept, is_met: false }
    }

    /// Compares the snapshot with the run as replayed up to `pos`, if the snapshot is of that event.
    pub(crate) fn compare(&mut self, pos: u64, now: Option<&Run>, findings: &mut Vec<Finding>) {
        let Some(Ok(kept)) =
            self.kept.as_ref().filter(|kept| kept.as_ref().is_ok_and(|kept| kept.head == pos))
        else {
            return;
        };
        self.is_met = true;
        // Where the history makes no sense, that is told.
        if now.is_some_and(|now| *now != kept.run) {
            let what = format!("its state as stored at event row {pos} is not what its history gives");
            findings.push(Finding::new(Promise::Snapshot, self.run.to_string(), what, LEAVE_OUT));
        }
    }

    /// Reports a snapshot that is damaged, or of an event that is not in the history.
    pub(crate) fn finish(self, findings: &mut Vec<Finding>) {
        let (what, hint) = match self.kept {
            None => return,
            Some(Ok(_)) if self.is_met => return,
            Some(Ok(kept)) => {
                let head = kept.head;
                (format!("its state is stored as of event row {head}, which is not in its history"), NOT_USED)
            }
            Some(Err(why)) => (format!("its stored state cannot be read ({why})"), NOT_USED),
        };
        findings.push(Finding::new(Promise::Snapshot, self.run.to_string(), what, hint));
    }
}
