//! A tail that is followed from the first event on, whatever happens to the store: it tells what was expected, once.

use std::collections::BTreeSet;

use unstuck_core::id::RunId;

use crate::conformance::tails::try_to_follow;
use crate::contract::{Cursor, Reader, Stage, TailError};

/// What a tail has told so far.
#[derive(Default)]
pub(super) struct FollowedTail {
    /// Where it goes on, once it has begun.
    cursor: Option<Cursor>,
    /// The events, by run and number, in order.
    told: Vec<(RunId, u64)>,
}

impl FollowedTail {
    /// Follows it to its end, from where it was left. The process of the store may die meanwhile: then it is where it was.
    pub(super) fn follow(&mut self, reader: &dyn Reader) -> Result<(), TailError> {
        let cursor = match &self.cursor {
            Some(cursor) => cursor.clone(),
            None => reader.cursor().map_err(TailError::Store)?.with_position(0),
        };
        let (events, next) = try_to_follow(reader, &cursor, 7)?;
        self.told.extend(events.into_iter().map(|(run, event)| (run, event.seq)));
        self.cursor = Some(next);
        Ok(())
    }

    /// It has told the events of these stages in their order: all of them, or the first of them. Those of runs that were
    /// forgotten it may have told or not.
    pub(super) fn compare<'a>(&self, stages: impl Iterator<Item = &'a Stage> + Clone, all: bool) {
        let forgotten: BTreeSet<RunId> = stages.clone().flat_map(|stage| stage.forgotten.clone()).collect();
        let is_left = |(run, _): &(RunId, u64)| !forgotten.contains(run);
        let changes = stages.flat_map(|stage| &stage.runs);
        let events = changes.flat_map(|change| change.events.iter().map(|event| (change.run.id, event.seq)));
        let expected: Vec<(RunId, u64)> = events.filter(is_left).collect();
        let told: Vec<(RunId, u64)> = self.told.iter().copied().filter(is_left).collect();
        assert!(
            told.len() <= expected.len() && (!all || told.len() == expected.len()),
            "{told:?} of {expected:?}"
        );
        assert_eq!(told, expected[..told.len()], "each once, in their order");
    }
}
