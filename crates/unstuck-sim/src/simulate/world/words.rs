//! What is asked, in a few words.

use unstuck_core::command::Report;

/// What a worker says.
pub(super) fn says(says: &Report) -> &'static str {
    match says {
        Report::Start => "start",
        Report::Heartbeat { .. } => "sign of life",
        Report::Complete { .. } => "complete",
        Report::Fail { fatal: false, .. } => "fail",
        Report::Fail { fatal: true, .. } => "fail for good",
        Report::Defer { .. } => "defer",
        Report::Release => "release",
        Report::Log(_) => "log",
    }
}
