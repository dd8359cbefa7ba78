//! Exit codes: what a script can tell from how a command ended.

use std::process::ExitCode;

/// The run failed, was cancelled or rests in error; a check found something; a bulk action has stopped.
pub(crate) const FAILED: u8 = 1;
/// A run is held for an operator.
pub(crate) const HELD: u8 = 3;
/// The run of a key is being executed by another process.
pub(crate) const EXECUTING: u8 = 4;
/// Refused or not possible: nothing was changed, and repeating it changes nothing.
pub(crate) const REFUSED: u8 = 5;
/// The store is busy, full or out of reach: nothing was changed, and the same may succeed later.
pub(crate) const UNAVAILABLE: u8 = 6;
/// The answer was lost: it may or may not have been done.
pub(crate) const UNKNOWN: u8 = 7;

/// What `--help` says about them.
pub(crate) const TABLE: &str = "\
Exit codes:
  0      done, or already done; a run is completed
  1      the run failed, was cancelled or is in error; a check found problems
  2      wrong usage: an unknown or unsuitable option or argument
  3      the run is held for an operator
  4      another process is executing the run of this key
  5      refused or not possible; nothing was changed
  6      the store is busy, full or unreachable; nothing was changed, repeat the command later
  7      the answer was lost: the command may or may not have been carried out
  128+N  ended by signal N (130 for Ctrl-C); the run can be continued";

/// Returns the code of a run that rests in this state.
pub(crate) fn of_state(state: &str) -> ExitCode {
    match state {
        "completed" => ExitCode::SUCCESS,
        "held" => ExitCode::from(HELD),
        _ => ExitCode::from(FAILED),
    }
}

/// Returns success or [`FAILED`].
pub(crate) fn of(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}
