//! Errors as a store keeps them: each one that happened, those that are open, and the groups that they fall into.

use std::sync::Arc;

use unstuck_core::errors::ErrorRecord;
use unstuck_core::id::RunId;
use unstuck_core::time::Time;

/// Names a recorded error. They grow with time, and none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorId(pub u64);

/// Which recorded errors to read. A flow is the flow of the root run, here and below, as policies mean it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFilter {
    /// Not before this.
    pub since: Option<Time>,
    /// Before this.
    pub until: Option<Time>,
    /// Of this group.
    pub group: Option<Arc<str>>,
    /// Of this flow.
    pub flow: Option<Arc<str>>,
    /// Of this action, by its full name.
    pub action: Option<Arc<str>>,
}

/// Which open errors to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenErrorFilter {
    /// Of this group.
    pub group: Option<Arc<str>>,
    /// Of this flow.
    pub flow: Option<Arc<str>>,
    /// Of this action, by its full name.
    pub action: Option<Arc<str>>,
    /// That this policy will resume, by its id.
    pub policy: Option<Arc<str>>,
    /// Of this run.
    pub run: Option<RunId>,
}

/// Which groups of errors to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// This one.
    pub group: Option<Arc<str>>,
    /// Those that this flow has had errors of.
    pub flow: Option<Arc<str>>,
    /// Of this action, by its full name.
    pub action: Option<Arc<str>>,
    /// Those that were seen at this time or later.
    pub since: Option<Time>,
}

/// Where a group stands in the order of groups: when it was seen last, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    pub last: Time,
    pub group: Arc<str>,
}

impl GroupPlace {
    /// Returns whether a group comes after this place, in the order of
    /// [`Store::error_groups`](crate::contract::Store::error_groups).
    pub fn is_before(&self, group: &ErrorGroup) -> bool {
        group.last < self.last || (group.last == self.last && *group.group > *self.group)
    }
}

/// Errors that are the same kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGroup {
    pub group: Arc<str>,
    /// The full name of the action.
    pub action: Arc<str>,
    /// What the causes have in common, as people read it.
    pub pattern: Arc<str>,
    /// When the first one happened.
    pub first: Time,
    /// When the last one did.
    pub last: Time,
    /// How many there ever were, those of forgotten runs too.
    pub count: u64,
    /// And by flow, the most frequent first.
    pub flows: Vec<(Arc<str>, u64)>,
    /// How many steps are in error now, without those that somebody has acknowledged.
    pub open: u64,
    /// How many runs these belong to.
    pub runs: u64,
    /// How many steps are in error and acknowledged.
    pub acknowledged: u64,
    /// How many of the open ones a policy will resume, by its name, the most frequent first.
    pub scheduled: Vec<(Arc<str>, u64)>,
    /// Some of them, newest first.
    pub examples: Vec<ErrorRecord>,
}

/// So many examples does a group show.
pub const MAX_EXAMPLES: usize = 5;
