//! What attempts printed: so much of each run, and the oldest goes first.

use unstuck_core::model::log::LogRecord;

/// The most logs that are kept of one run.
pub const MAX_LOGS_OF_RUN: usize = 100;
/// The most bytes that are kept of one run's logs.
pub const MAX_LOG_BYTES_OF_RUN: usize = 1024 * 1024;

/// The logs of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLogs {
    /// How many older ones were dropped.
    pub dropped: u64,
    /// Those that are kept, the oldest first.
    pub kept: Vec<LogRecord>,
}

impl RunLogs {
    /// Adds a log, and drops the oldest above the limits.
    pub(crate) fn add(&mut self, record: LogRecord) {
        self.kept.push(record);
        let over = self.kept.len() - count_retained(self.kept.iter().rev().map(|record| record.log.size()));
        self.kept.drain(..over);
        self.dropped += over as u64;
    }
}

/// Counts how many logs of a run are kept, given their sizes from newest to oldest. The newest is kept whatever its
/// size.
pub fn count_retained(sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = 0_usize;
    let fits = |size: &usize| {
        total = total.saturating_add(*size);
        total <= MAX_LOG_BYTES_OF_RUN
    };
    sizes.take(MAX_LOGS_OF_RUN).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_within_both_bounds() {
        let cases: [(&str, Vec<usize>, usize); 6] = [
            ("one", vec![10], 1),
            ("as many as there may be", vec![0; 100], 100),
            ("one more", vec![0; 101], 100),
            ("as large as they may be together", vec![MAX_LOG_BYTES_OF_RUN / 4; 4], 4),
            ("one byte more", vec![MAX_LOG_BYTES_OF_RUN, 1], 1),
            ("a newest that is too large by itself", vec![MAX_LOG_BYTES_OF_RUN + 1, 1], 1),
        ];
        for (name, sizes, kept) in cases {
            assert_eq!(count_retained(sizes.into_iter()), kept, "{name}");
        }
    }
}
