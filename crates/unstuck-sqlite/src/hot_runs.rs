//! The runs in memory, which of them the rows do not cover yet, and which have rested long enough to leave.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::decide::LeaseMove;
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::Wakeup;
use unstuck_store::invariants::RunPosition;

/// The runs in memory.
#[derive(Debug, Default)]
pub(crate) struct HotRuns {
    runs: FxHashMap<RunId, HotRun>,
    /// Runs whose rows are behind, by the position of the first event that they lack. Some are no longer.
    behind: VecDeque<(u64, RunId)>,
    /// Runs in the order in which something happened to them, with their number then. Some have moved on since.
    resting: VecDeque<(RunId, u64)>,
    /// Runs that have ended, whose rows are written together. Some have been started again or forgotten since.
    ended: Vec<RunId>,
    /// When the first of them ended.
    ended_at: Time,
}

/// One run in memory.
#[derive(Debug)]
pub(crate) struct HotRun {
    pub(crate) run: Residency,
    /// The name of its flow.
    pub(crate) flow: Arc<str>,
    /// The position of its last event.
    pub(crate) head: u64,
    /// The position of the first event that its row lacks; `None` if it lacks nothing.
    pub(crate) behind_since: Option<u64>,
    /// The state that its row says, if it has one.
    pub(crate) row: Option<RunState>,
    /// Whether its row and those of its wakeups are as it is now: then it may leave memory as it is.
    pub(crate) is_saved: bool,
    /// Whether there are rows of its wakeups.
    pub(crate) has_wakes: bool,
    /// Whether there are rows of its leases.
    pub(crate) has_leases: bool,
    /// The number of the event up to which its state is kept in the file; 0 if it is not.
    pub(crate) snapshot_seq: u64,
    /// The places whose wakeups the rows lack, where all others are in them; `None` where nobody knows which.
    pub(crate) unsaved: Option<Box<FxHashSet<Option<UnitRef>>>>,
}

impl HotRun {
    /// Starts noting which wakeups change, now that the row in the file is complete. Only for runs with many units:
    /// for others it is cheaper to write all wakeups again.
    pub(crate) fn note_changes(&mut self, has_many_units: bool) {
        self.unsaved = has_many_units.then(Box::default);
    }

    /// Notes that these wakeups and leases changed since the row was written; `all` means that any may have.
    pub(crate) fn note_wakeups(
        &mut self,
        wakeups: &[(Option<UnitRef>, Wakeup)],
        leases: &[LeaseMove],
        all: bool,
    ) {
        match &mut self.unsaved {
            Some(_) if all => self.unsaved = None,
            Some(unsaved) => {
                unsaved.extend(wakeups.iter().map(|(place, _)| *place));
                unsaved.extend(leases.iter().map(|lease| Some(lease.unit)));
            }
            None => {}
        }
    }

    fn is_final(&self) -> bool {
        match &self.run {
            Residency::Here(run) => run.is_final(),
            Residency::Out(mark) => mark.is_final,
        }
    }

    /// The number of its last event.
    fn seq(&self) -> u64 {
        match &self.run {
            Residency::Here(run) => run.seq,
            Residency::Out(mark) => mark.seq,
        }
    }
}

/// Where a run is.
#[derive(Debug)]
pub(crate) enum Residency {
    Here(Box<Run>),
    /// Locked.
    Out(RunPosition),
}

impl HotRuns {
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn get(&self, run: RunId) -> Option<&HotRun> {
        self.runs.get(&run)
    }

    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut HotRun> {
        self.runs.get_mut(&run)
    }

    pub(crate) fn insert(&mut self, run: RunId, hot: HotRun) {
        self.runs.insert(run, hot);
    }

    /// Takes a run out of its entry for a batch; it comes back with [`HotRuns::put`].
    pub(crate) fn take(&mut self, run: RunId) -> Option<Residency> {
        let mark = RunPosition { seq: 0, generation: 0, is_final: false };
        self.runs.get_mut(&run).map(|hot| std::mem::replace(&mut hot.run, Residency::Out(mark)))
    }

    /// Puts a run into its entry, or makes one; `head` is the position of its last event.
    pub(crate) fn put(&mut self, id: RunId, run: Box<Run>, flow: Arc<str>, head: u64) {
        let run = Residency::Here(run);
        match self.runs.entry(id) {
            Entry::Occupied(mut known) => {
                let hot = known.get_mut();
                hot.run = run;
                hot.head = head;
            }
            Entry::Vacant(vacant) => {
                vacant.insert(HotRun {
                    run,
                    flow,
                    head,
                    behind_since: None,
                    row: None,
                    is_saved: false,
                    has_wakes: false,
                    has_leases: false,
                    snapshot_seq: 0,
                    unsaved: None,
                });
            }
        }
    }

    pub(crate) fn remove(&mut self, run: RunId) {
        self.runs.remove(&run);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RunId, &HotRun)> {
        self.runs.iter()
    }

    /// Notes that the event at `pos` is not covered by the row of its run; only the first such event counts.
    pub(crate) fn mark_row_behind(&mut self, run: RunId, pos: u64) {
        if let Some(hot) = self.runs.get_mut(&run)
            && hot.behind_since.is_none()
        {
            hot.behind_since = Some(pos);
            self.behind.push_back((pos, run));
        }
    }

    /// The position up to which all events are covered by rows, if the log ends at `end`.
    pub(crate) fn covered_position(&mut self, end: u64) -> u64 {
        self.furthest_behind().map_or(end, |(pos, _)| pos - 1)
    }

    /// The run whose row is furthest behind, and the position of the first event that the row lacks.
    pub(crate) fn furthest_behind(&mut self) -> Option<(u64, RunId)> {
        while let Some((pos, run)) = self.behind.front().copied() {
            if self.runs.get(&run).is_some_and(|hot| hot.behind_since == Some(pos)) {
                return Some((pos, run));
            }
            self.behind.pop_front();
        }
        None
    }

    /// Notes that a run has ended and its row is to be written.
    pub(crate) fn mark_ended(&mut self, run: RunId, at: Time) {
        if self.ended.is_empty() {
            self.ended_at = at;
        }
        self.ended.push(run);
    }

    /// Finds the runs that had ended before their rows were written: these are written soon.
    pub(crate) fn find_ended(&mut self) {
        self.ended = self.runs.iter().filter(|(_, hot)| hot.is_final()).map(|(id, _)| *id).collect();
        self.ended_at = Time::default();
    }

    /// Takes the runs that have ended, if they are many or have waited for long, in the order of their ids: rows of
    /// neighbours share pages.
    pub(crate) fn take_ended(&mut self, now: Time, many: usize, wait: Millis) -> Vec<RunId> {
        // A clock that was set back says nothing about how long they have waited.
        let have_waited = now < self.ended_at || now >= self.ended_at + wait;
        if self.ended.is_empty() || (self.ended.len() < many && !have_waited) {
            return Vec::new();
        }
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_unstable();
        ended.dedup();
        ended.retain(|id| self.runs.get(id).is_some_and(HotRun::is_final));
        ended
    }

    /// Moves a run to the end of the line for eviction.
    pub(crate) fn mark_recent(&mut self, run: RunId, seq: u64) {
        self.resting.push_back((run, seq));
        // Where nobody has to leave, nobody takes those from the line that have moved on.
        if self.resting.len() > 2 * self.runs.len() + 1_024 {
            let runs = &self.runs;
            self.resting.retain(|(run, seq)| runs.get(run).is_some_and(|hot| hot.seq() == *seq));
        }
    }

    /// Returns the run that has been idle longest, and skips entries of the line that are out of date.
    pub(crate) fn least_recent(&mut self) -> Option<RunId> {
        while let Some((run, seq)) = self.resting.pop_front() {
            let rests = |hot: &HotRun| matches!(hot.run, Residency::Here(_)) && hot.seq() == seq;
            if self.runs.get(&run).is_some_and(rests) {
                return Some(run);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of which something happens again and again, where there is room for all.
    #[test]
    fn the_line_of_those_that_rest_is_no_longer_than_there_are_runs() {
        let mut hot = HotRuns::default();
        for seq in 1..100_000 {
            for id in 1..=3 {
                let run = Residency::Out(RunPosition { seq, generation: 1, is_final: false });
                let flow = Arc::from("f");
                let entry = HotRun {
                    run,
                    flow,
                    head: seq,
                    behind_since: None,
                    row: None,
                    is_saved: false,
                    has_wakes: false,
                    has_leases: false,
                    snapshot_seq: 0,
                    unsaved: None,
                };
                hot.insert(RunId(id), entry);
                hot.mark_recent(RunId(id), seq);
            }
        }
        assert!(hot.resting.len() < 2_000, "{}", hot.resting.len());
        let last: Vec<RunId> = hot.resting.iter().rev().take(3).map(|(run, _)| *run).collect();
        assert_eq!(last, [RunId(3), RunId(2), RunId(1)]);
    }
}
