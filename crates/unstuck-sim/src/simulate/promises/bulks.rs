//! Bulk actions: every target is acted on once, in order, no faster than the pace, wave after wave; the counts are true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkRef, BulkState, Counts, Pace, ResultKind, Target};
use unstuck_core::event::{Actor, Event, Fact, UnitFact};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::time::Time;
use unstuck_engine::bulk::BulkDeed;
use unstuck_store::contract::Store;

use super::{Broken, Promise, Trouble};

/// The bulk actions that were begun.
#[derive(Debug, Default)]
pub(super) struct Bulks {
    known: BTreeMap<BulkId, Order>,
    /// What was resumed and has not come out, by the target.
    under_way: BTreeMap<(RunId, UnitRef), BulkRef>,
}

/// One bulk action, as it was ordered and as its events tell it.
#[derive(Debug)]
struct Order {
    by: Actor,
    pace: Pace,
    targets: Vec<(RunId, Option<UnitRef>)>,
    /// When each target was acted on, in order.
    acted: Vec<(u64, Time)>,
    results: BTreeMap<u64, bool>,
    /// Somebody has paused it, or cancelled it.
    is_stopped: bool,
    /// Targets that failed again since somebody let it go on.
    failed: u64,
}

impl Bulks {
    /// It has begun, and that is durable.
    pub(super) fn begun(&mut self, bulk: &Bulk, targets: &[Target]) {
        let order = Order {
            by: bulk.by.clone(),
            pace: bulk.pace,
            targets: targets.iter().map(|target| (target.run, target.unit)).collect(),
            acted: Vec::new(),
            results: BTreeMap::new(),
            is_stopped: false,
            failed: 0,
        };
        self.known.insert(bulk.id, order);
    }

    /// Somebody was told that this was done.
    pub(super) fn changed(&mut self, bulk: BulkId, deed: BulkDeed) {
        if let Some(order) = self.known.get_mut(&bulk) {
            order.is_stopped = deed != BulkDeed::Unpause;
            if deed == BulkDeed::Unpause {
                order.failed = 0;
            }
        }
    }

    /// Somebody wanted it to go on when the process died, and may have been heard.
    pub(super) fn may_have_changed(&mut self, bulk: BulkId, deed: BulkDeed) {
        if deed == BulkDeed::Unpause {
            self.changed(bulk, deed);
        }
    }

    /// Something happened to a run.
    pub(super) fn follow(
        &mut self,
        run: RunId,
        (event, at): (&Event, Time),
        is_ordered: bool,
    ) -> Result<(), Broken> {
        for fact in &event.facts {
            match fact {
                Fact::RunCancelled { .. } => self.acted_by(run, None, (event, at), is_ordered)?,
                Fact::Unit { unit, fact: UnitFact::Acknowledged { .. } } => {
                    self.acted_by(run, Some(*unit), (event, at), is_ordered)?;
                }
                Fact::Unit { unit, fact: UnitFact::Resumed { bulk: Some(target), .. } } => {
                    self.acted(*target, run, Some(*unit), at, is_ordered)?;
                    self.under_way.insert((run, *unit), *target);
                }
                Fact::Unit { unit, fact } => self.came_out(run, *unit, fact),
                _ => {}
            }
        }
        Ok(())
    }

    fn came_out(&mut self, run: RunId, unit: UnitRef, fact: &UnitFact) {
        let has_passed = match fact {
            UnitFact::Ended { outcome: Outcome::Completed(_), .. }
            | UnitFact::Done { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Skipped { .. } => true,
            UnitFact::Held
            | UnitFact::WentOn
            | UnitFact::Scheduled { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::Rested
            | UnitFact::Failed
            | UnitFact::Closed { .. } => false,
            _ => return,
        };
        let Some(target) = self.under_way.remove(&(run, unit)) else { return };
        if let Some(order) = self.known.get_mut(&target.bulk) {
            order.results.insert(target.place, has_passed);
            order.failed += u64::from(!has_passed);
        }
    }

    /// An event of whoever ordered a bulk action: each has a name of its own.
    fn acted_by(
        &mut self,
        run: RunId,
        unit: Option<UnitRef>,
        (event, at): (&Event, Time),
        is_ordered: bool,
    ) -> Result<(), Broken> {
        let Some((id, order)) = self.known.iter().find(|(_, order)| order.by == event.by) else {
            return Ok(());
        };
        let place = order.targets.iter().position(|target| *target == (run, unit));
        let Some(place) = place else {
            let what = format!("{id} acts on what is not among its targets");
            return Err(Broken::of(Promise::Bulks, run, what));
        };
        let target = BulkRef { bulk: *id, place: place as u64 };
        self.acted(target, run, unit, at, is_ordered)?;
        if let Some(order) = self.known.get_mut(&target.bulk) {
            order.results.insert(target.place, true);
        }
        Ok(())
    }

    fn acted(
        &mut self,
        target: BulkRef,
        run: RunId,
        unit: Option<UnitRef>,
        at: Time,
        is_ordered: bool,
    ) -> Result<(), Broken> {
        let Some(order) = self.known.get_mut(&target.bulk) else { return Ok(()) };
        let place = usize::try_from(target.place).unwrap_or(usize::MAX);
        let wrong = if order.targets.get(place) != Some(&(run, unit)) {
            Some("it is not the target of that place".to_owned())
        } else if order.acted.iter().any(|(before, _)| *before == target.place) {
            Some("it was acted on before".to_owned())
        } else if is_ordered {
            order.wrong_turn(target.place, at)
        } else {
            None
        };
        order.acted.push((target.place, at));
        match wrong {
            None => Ok(()),
            Some(what) => {
                let what = format!("{} acts on target {}: {what}", target.bulk, target.place);
                Err(Broken::of(Promise::Bulks, run, what))
            }
        }
    }

    /// Nothing is on its way: what is kept of them is what has happened.
    pub(super) fn check_at_rest(&self, store: &mut dyn Store) -> Result<(), Trouble> {
        for (id, order) in &self.known {
            let Some(kept) = store.bulk(*id)? else { continue };
            let mut pending = BTreeSet::new();
            let mut refused = 0;
            for target in store.targets(*id, None, 0, usize::MAX)? {
                match target.result.kind() {
                    ResultKind::Pending => drop(pending.insert(target.place)),
                    ResultKind::Refused => refused += 1,
                    _ => {}
                }
            }
            if let Some(what) = order.wrong(&kept, &pending, refused) {
                let what = format!("{id}: {what}");
                return Err(Broken { promise: Promise::Bulks, run: None, what }.into());
            }
        }
        Ok(())
    }
}

impl Order {
    /// What is wrong with acting on this target now.
    fn wrong_turn(&self, place: u64, at: Time) -> Option<String> {
        if self.is_stopped {
            return Some("somebody has paused or cancelled it".to_owned());
        }
        if self.acted.iter().any(|(before, _)| *before > place) {
            return Some("later ones were acted on before".to_owned());
        }
        let rate = u64::from(self.pace.rate);
        for (already, (_, since)) in (1..).zip(self.acted.iter().rev()) {
            // A second's worth at once, and then so many a second.
            let most = rate.max(1) + at.since(*since).0.saturating_mul(rate) / 1_000;
            let count: u64 = already + 1;
            if count > most {
                return Some(format!("{count} were acted on since {since}, and {most} may be"));
            }
        }
        let first = u64::from(self.pace.canary?).max(1);
        if self.failed > 0 {
            return Some(format!("{} have failed again, and it goes on", self.failed));
        }
        let begin = wave_begin(first, place);
        let waits = |before: &u64| *before < begin && !self.results.contains_key(before);
        let open = self.acted.iter().map(|(before, _)| *before).find(waits)?;
        Some(format!("it is of the wave from {begin} on, and target {open} has not come out"))
    }

    fn wrong(&self, kept: &Bulk, pending: &BTreeSet<u64>, refused: u64) -> Option<String> {
        let passed = self.results.values().filter(|passed| **passed).count() as u64;
        let failed = self.results.len() as u64 - passed;
        let under_way = self.acted.len() as u64 - self.results.len() as u64;
        let wanted = Counts { under_way, passed, failed, refused };
        if kept.counts != wanted {
            return Some(format!("it counts {:?}, and it is {wanted:?}", kept.counts));
        }
        if kept.next != self.acted.len() as u64 + refused {
            return Some(format!("it is at {}, and {} were acted on", kept.next, self.acted.len()));
        }
        if let Some(place) = pending.iter().find(|place| **place < kept.next) {
            return Some(format!("target {place} was passed over"));
        }
        if kept.state == BulkState::Done && kept.next != self.targets.len() as u64 {
            return Some(format!("it is done, and {} of {} were", kept.next, self.targets.len()));
        }
        None
    }
}

/// Where the wave of a target begins: waves of `first`, twice as many, and so on.
fn wave_begin(first: u64, place: u64) -> u64 {
    let (mut begin, mut size) = (0, first);
    while begin + size <= place {
        begin += size;
        size = size.saturating_mul(2);
    }
    begin
}

/// The name that whoever orders a bulk action goes by.
pub(crate) fn actor_of(bulk: BulkId) -> Arc<str> {
    format!("crew of {bulk}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wave_is_twice_as_large_as_the_one_before() {
        let begins: Vec<u64> = (0..8).map(|place| wave_begin(1, place)).collect();
        assert_eq!(begins, [0, 1, 1, 3, 3, 3, 3, 7]);
        let begins: Vec<u64> = (0..8).map(|place| wave_begin(2, place)).collect();
        assert_eq!(begins, [0, 0, 2, 2, 2, 2, 6, 6]);
    }
}
