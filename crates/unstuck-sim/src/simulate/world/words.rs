//! What is asked, in a few words.

use unstuck_core::command::Says;

/// What a worker says.
pub(super) fn says(says: &Says) -> &'static str {
    match says {
        Says::Start => "start",
        Says::Heartbeat { .. } => "sign of life",
        Says::Complete { .. } => "complete",
        Says::Fail { fatal: false, .. } => "fail",
        Says::Fail { fatal: true, .. } => "fail for good",
        Says::Defer { .. } => "defer",
        Says::Release => "release",
        Says::Log(_) => "log",
    }
}
