//! What became of targets of bulk actions, as long as the file does not show it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use unstuck_core::bulk::{BulkRef, TargetResult};

/// Results that are staged and may not be in the file.
#[derive(Debug, Default)]
pub(crate) struct RecentResults {
    results: FxHashMap<BulkRef, (u64, TargetResult)>,
    order: VecDeque<(u64, BulkRef)>,
}

impl RecentResults {
    /// Keeps the result of a target that `stage` will write: until then the file has the one before.
    pub(crate) fn put(&mut self, target: BulkRef, result: TargetResult, stage: u64) {
        self.results.insert(target, (stage, result));
        self.order.push_back((stage, target));
    }

    pub(crate) fn get(&self, target: BulkRef) -> Option<&TargetResult> {
        self.results.get(&target).map(|(_, result)| result)
    }

    /// Drops results of stages up to `durable`: they are found in the file.
    pub(crate) fn trim(&mut self, durable: u64) {
        while let Some((stage, target)) = self.order.front().copied().filter(|(stage, _)| *stage <= durable) {
            self.order.pop_front();
            if self.results.get(&target).is_some_and(|(newest, _)| *newest == stage) {
                self.results.remove(&target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstuck_core::id::BulkId;

    #[test]
    fn what_the_file_shows_is_let_go_and_what_came_since_stays() {
        let target = |place| BulkRef { bulk: BulkId(1), place };
        let mut recent = RecentResults::default();
        recent.put(target(0), TargetResult::Resumed, 1);
        recent.put(target(1), TargetResult::Resumed, 1);
        recent.put(target(0), TargetResult::Passed, 2);
        recent.trim(1);
        assert_eq!((recent.get(target(0)), recent.get(target(1))), (Some(&TargetResult::Passed), None));
        recent.trim(2);
        assert_eq!(recent.get(target(0)), None);
    }
}
