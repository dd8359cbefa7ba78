//! Bulk actions as a store keeps them.

use unstuck_core::bulk::{Bulk, TargetResult};

/// The change of one bulk action.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkChange {
    /// As it is now.
    pub bulk: Bulk,
    /// What became of targets, by place, in order: of two results of one target, the later one holds.
    pub results: Vec<(u64, TargetResult)>,
}
