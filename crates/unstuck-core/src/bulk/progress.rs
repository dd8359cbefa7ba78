//! What has become of a bulk action by itself since an earlier version of it: what those who follow it are told.

use std::sync::Arc;

use super::{Bulk, BulkState};

/// Something that nobody asked for, but that was to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkProgress {
    /// The next wave has begun: all of the one before have passed.
    Wave { number: u32 },
    /// A wave did not pass.
    Stopped { why: Arc<str> },
    /// Every target has its result.
    Done,
}

impl Bulk {
    /// Lists what has become of it since it was as `before`, in order. The first wave begins with the action itself.
    pub fn progress_since(&self, before: &Bulk) -> Vec<BulkProgress> {
        let mut progress: Vec<BulkProgress> =
            (before.wave.number + 1..=self.wave.number).map(|number| BulkProgress::Wave { number }).collect();
        if self.state != before.state {
            match &self.state {
                BulkState::Stopped { why } => progress.push(BulkProgress::Stopped { why: why.clone() }),
                BulkState::Done => progress.push(BulkProgress::Done),
                BulkState::Running | BulkState::Paused | BulkState::Acted | BulkState::Cancelled => {}
            }
        }
        progress
    }
}
