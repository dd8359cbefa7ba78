//! What an attempt printed, and which lines of its report were ignored: kept apart from the run, within bounds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::attempt::AttemptId;
use crate::time::Time;

/// The longest tail of one stream that is kept.
pub const MAX_TAIL_BYTES: usize = 64 * 1024;
/// How many ignored lines of one report are kept; the others are counted.
pub const MAX_IGNORED_LINES: usize = 5;
/// The most that one log may have, ignored lines included.
pub const MAX_LOG_BYTES: usize = 3 * MAX_TAIL_BYTES;

/// What one attempt printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptLog {
    /// The end of its standard error.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub stderr: Tail,
    /// The end of its standard output.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub stdout: Tail,
    /// Lines of its report that were ignored, in order, at most [`MAX_IGNORED_LINES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredLine>,
    /// How many more were ignored.
    #[serde(default, skip_serializing_if = "is_none")]
    pub more_ignored: u64,
}

/// The end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// The text that is kept.
    pub text: Arc<str>,
    /// How many bytes the whole stream had.
    pub bytes: u64,
    /// Whether what came before the text was dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A line of a report that was ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredLine {
    /// Its number in the file, from 1.
    pub line: u64,
    /// Its text, shortened.
    pub text: Arc<str>,
    /// What is wrong with it.
    pub why: Arc<str>,
}

/// The log of an attempt, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRecord {
    pub attempt: AttemptId,
    /// When it was recorded.
    pub at: Time,
    /// What it printed.
    pub log: AttemptLog,
}

impl AttemptLog {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.stderr.is_empty() && self.stdout.is_empty() && self.ignored.is_empty()
    }

    /// How many bytes of text it has.
    pub fn size(&self) -> usize {
        let ignored = self.ignored.iter().map(|line| line.text.len() + line.why.len());
        self.stderr.text.len() + self.stdout.text.len() + ignored.sum::<usize>()
    }
}

impl Tail {
    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

fn is_nothing(tail: &Tail) -> bool {
    *tail == Tail::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what `skip_serializing_if` calls")]
fn is_none(count: &u64) -> bool {
    *count == 0
}
