//! Limits on how many runs go on at once: who has a slot, who wants one, and who is next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::id::RunId;
use unstuck_core::model::run::Limit;
use unstuck_core::slot::SlotClaim;
use unstuck_core::time::Time;

/// The slots of all limits.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    limits: HashMap<Arc<str>, TakenSlots>,
    runs: FxHashMap<RunId, RunSlot>,
    /// The first of every line that has room, so that nobody looks at the others.
    open: BTreeSet<(WaitingRun, LineName)>,
    /// Runs that are not admitted.
    aside: FxHashSet<RunId>,
}

/// Since when a run wants a slot, and how badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingRun {
    priority: Reverse<i32>,
    since: Time,
    run: RunId,
}

/// A line: those who want a slot of one limit, and agree on how many there are. (Versions of a flow may differ in that.)
type LineName = (Arc<str>, u32);

/// One limit.
#[derive(Clone, Debug, Default)]
struct TakenSlots {
    /// How many have a slot.
    count: u32,
    lines: BTreeMap<u32, BTreeSet<WaitingRun>>,
}

/// What one run has or wants.
#[derive(Clone, Debug)]
enum RunSlot {
    Has(Arc<str>),
    Wants(LineName, WaitingRun),
    /// It wants one and is set aside: it stands in no line.
    Aside(LineName, WaitingRun),
}

impl Slots {
    /// Sets what a run holds or wants. `at` is the age of a new want; one that was there keeps its age, and its place
    /// in line.
    pub fn set(&mut self, run: RunId, slot: &SlotClaim, at: Time) {
        if matches!(slot, SlotClaim::None) && self.runs.is_empty() || self.is_claim_unchanged(run, slot) {
            return;
        }
        let mut since = at;
        match self.runs.remove(&run) {
            None => {}
            Some(RunSlot::Has(limit)) => self.free_slot(&limit),
            Some(was @ (RunSlot::Wants(..) | RunSlot::Aside(..))) => {
                let (RunSlot::Wants(line, want) | RunSlot::Aside(line, want)) = &was else { return };
                if matches!(was, RunSlot::Wants(..)) {
                    self.leave_line(line, *want);
                }
                if matches!(slot, SlotClaim::Wants { limit, .. } if limit.name == line.0) {
                    since = want.since;
                }
            }
        }
        match slot {
            SlotClaim::None => {}
            SlotClaim::Has { limit } => {
                self.take_slot(limit);
                self.runs.insert(run, RunSlot::Has(limit.name.clone()));
            }
            SlotClaim::Wants { limit, priority } => {
                let want = WaitingRun { priority: Reverse(*priority), since, run };
                let line = (limit.name.clone(), limit.max);
                if self.aside.contains(&run) {
                    self.runs.insert(run, RunSlot::Aside(line, want));
                    return;
                }
                self.join_line(&line, want);
                self.runs.insert(run, RunSlot::Wants(line, want));
            }
        }
    }

    /// Runs that want a slot of a limit that has room, at most `limit` and never more than there is room for: by
    /// priority, then by age, then by id.
    pub fn admissible(&self, limit: usize) -> Vec<RunId> {
        self.admissible_beside(limit, &[])
    }

    /// Returns the limit that a run has a slot of or wants one of.
    pub fn limit_of(&self, run: RunId) -> Option<&Arc<str>> {
        match self.runs.get(&run)? {
            RunSlot::Has(limit) => Some(limit),
            RunSlot::Wants((limit, _), _) | RunSlot::Aside((limit, _), _) => Some(limit),
        }
    }

    /// As [`Slots::admissible`], but for limits that somebody else has locked.
    pub fn admissible_beside(&self, limit: usize, locked: &[Arc<str>]) -> Vec<RunId> {
        let mut firsts = self.open.iter().map(|(want, line)| (*want, line)).peekable();
        // Those behind the first of a line that somebody was found in.
        let mut behind: BinaryHeap<Reverse<(WaitingRun, &LineName)>> = BinaryHeap::new();
        let mut given: HashMap<&str, u32> = HashMap::new();
        let mut found = Vec::new();
        while found.len() < limit {
            let is_first = match (firsts.peek(), behind.peek()) {
                (Some(first), Some(Reverse(next))) => first < next,
                (first, _) => first.is_some(),
            };
            let next = if is_first { firsts.next() } else { behind.pop().map(|Reverse(next)| next) };
            let Some((want, line)) = next else { break };
            let (name, max) = line;
            let Some(taken) = self.limits.get(name).filter(|_| !locked.contains(name)) else { continue };
            let given = given.entry(name).or_default();
            if taken.count.saturating_add(*given) >= *max {
                continue;
            }
            *given += 1;
            found.push(want.run);
            let after = (Bound::Excluded(want), Bound::Unbounded);
            let follower = taken.lines.get(max).and_then(|wants| wants.range(after).next());
            behind.extend(follower.map(|want| Reverse((*want, line))));
        }
        found
    }

    /// Takes a run out of its line, so that it is not admitted. A slot that it holds stays its own.
    pub fn set_aside(&mut self, run: RunId) {
        self.aside.insert(run);
        if let Some(RunSlot::Wants(line, want)) = self.runs.get(&run).cloned() {
            self.leave_line(&line, want);
            self.runs.insert(run, RunSlot::Aside(line, want));
        }
    }

    /// Puts a run back into its line, at its old place.
    pub fn release(&mut self, run: RunId) {
        self.aside.remove(&run);
        if let Some(RunSlot::Aside(line, want)) = self.runs.get(&run).cloned() {
            self.join_line(&line, want);
            self.runs.insert(run, RunSlot::Wants(line, want));
        }
    }

    /// Lists the holders of a limit's slots, oldest first, at most `most`. It searches all runs: only people ask.
    pub fn holders(&self, limit: &str, most: usize) -> Vec<RunId> {
        let has = |(run, used): (&RunId, &RunSlot)| match used {
            RunSlot::Has(name) if **name == *limit => Some(*run),
            RunSlot::Has(_) | RunSlot::Wants(..) | RunSlot::Aside(..) => None,
        };
        let mut holders: Vec<RunId> = self.runs.iter().filter_map(has).collect();
        holders.sort_unstable();
        holders.truncate(most);
        holders
    }

    /// Returns since when a run has waited for a slot.
    pub fn wanted_since(&self, run: RunId) -> Option<Time> {
        match self.runs.get(&run)? {
            RunSlot::Has(_) => None,
            RunSlot::Wants(_, want) | RunSlot::Aside(_, want) => Some(want.since),
        }
    }

    /// Returns whether a claim is what is known, which is so for most changes of a run with a slot.
    fn is_claim_unchanged(&self, run: RunId, slot: &SlotClaim) -> bool {
        match (self.runs.get(&run), slot) {
            (None, SlotClaim::None) => true,
            (Some(RunSlot::Has(has)), SlotClaim::Has { limit }) => *has == limit.name,
            (
                Some(RunSlot::Wants((name, max), want) | RunSlot::Aside((name, max), want)),
                SlotClaim::Wants { limit, priority },
            ) => *name == limit.name && *max == limit.max && want.priority.0 == *priority,
            (None | Some(RunSlot::Has(_) | RunSlot::Wants(..) | RunSlot::Aside(..)), _) => false,
        }
    }

    /// Counts one more holder. The line whose limit is reached by it is no longer open.
    fn take_slot(&mut self, limit: &Limit) {
        let taken = self.limits.entry(limit.name.clone()).or_default();
        taken.count += 1;
        // The line that this was the last slot for has no room now.
        if let Some(first) = taken.first_in_line(taken.count) {
            self.open.remove(&(first, (limit.name.clone(), taken.count)));
        }
    }

    /// Counts one holder less. The line whose limit was reached until now is open again.
    fn free_slot(&mut self, name: &Arc<str>) {
        let Some(taken) = self.limits.get_mut(name) else { return };
        // The line that had no room until now has some.
        if let Some(first) = taken.first_in_line(taken.count) {
            self.open.insert((first, (name.clone(), taken.count)));
        }
        taken.count = taken.count.saturating_sub(1);
        self.drop_unused_limit(name);
    }

    /// Adds a run to the line of its limit. Runs may have different maxima for one limit, and each maximum has a
    /// line.
    fn join_line(&mut self, line: &LineName, want: WaitingRun) {
        let taken = self.limits.entry(line.0.clone()).or_default();
        let before = taken.first_in_line(line.1);
        taken.lines.entry(line.1).or_default().insert(want);
        let after = taken.first_in_line(line.1);
        let has_room = taken.count < line.1;
        self.update_open_line(line, has_room, before, after);
    }

    /// Removes a run from its line.
    fn leave_line(&mut self, line: &LineName, want: WaitingRun) {
        let Some(taken) = self.limits.get_mut(&line.0) else { return };
        let before = taken.first_in_line(line.1);
        if let Some(wants) = taken.lines.get_mut(&line.1) {
            wants.remove(&want);
            if wants.is_empty() {
                taken.lines.remove(&line.1);
            }
        }
        let after = taken.first_in_line(line.1);
        let has_room = taken.count < line.1;
        self.update_open_line(line, has_room, before, after);
        self.drop_unused_limit(&line.0);
    }

    /// Keeps the set of open lines, which is ordered by who is first, right after the first of a line may have
    /// changed.
    fn update_open_line(
        &mut self,
        line: &LineName,
        has_room: bool,
        before: Option<WaitingRun>,
        after: Option<WaitingRun>,
    ) {
        if has_room && before != after {
            if let Some(before) = before {
                self.open.remove(&(before, line.clone()));
            }
            if let Some(after) = after {
                self.open.insert((after, line.clone()));
            }
        }
    }

    /// Forgets a limit without holders and lines.
    fn drop_unused_limit(&mut self, name: &Arc<str>) {
        if self.limits.get(name).is_some_and(|taken| taken.count == 0 && taken.lines.is_empty()) {
            self.limits.remove(name);
        }
    }
}

impl TakenSlots {
    fn first_in_line(&self, max: u32) -> Option<WaitingRun> {
        self.lines.get(&max).and_then(|wants| wants.first()).copied()
    }
}
