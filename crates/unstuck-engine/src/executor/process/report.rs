//! The report file: JSON lines by which a process tells more than an exit status can.

mod file;
mod line;

pub(super) use self::file::{ReportFile, remove_left};
pub(super) use self::line::{Findings, ReportedDefer, ReportedError};
