//! `--plan auto`: every fault at every step, and what does not end well.

use std::process::ExitCode;

use unstuck_sim::rehearse::Rehearsal;

use super::Arguments;
use crate::Format;
use crate::failure::Failure;

/// Tries every fault, and shows the weak points. Gives how many runs were rehearsed, too.
pub(super) fn execute(
    _arguments: &Arguments,
    _rehearsal: Rehearsal,
    _format: Format,
) -> Result<(ExitCode, u32), Failure> {
    Err(Failure::new("--plan auto is not there yet"))
}
