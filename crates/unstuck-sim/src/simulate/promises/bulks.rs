//! Bulk actions: every target is acted on once, in order, no faster than the pace, wave after wave; the counts are true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkCounts, BulkRef, BulkState, Pace, ResultKind, Target};
use unstuck_core::event::{Actor, Choice, Event, Fact, UnitFact};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::{SkippedBy, UnitRef};
use unstuck_core::time::Time;
use unstuck_engine::bulk::BulkCommand;
use unstuck_store::contract::Store;

use super::{Broken, CheckError, Promise};

/// The bulk actions that were begun.
#[derive(Debug, Default)]
pub(super) struct Bulks {
    known: BTreeMap<BulkId, Order>,
    /// What was resumed, or tried once more, and has not come out, by the target.
    under_way: BTreeMap<(RunId, UnitRef), BulkRef>,
    /// Runs that were started again and have not come out.
    runs_under_way: BTreeMap<RunId, BulkRef>,
}

/// One bulk action, as it was ordered and as its events tell it.
#[derive(Debug)]
struct Order {
    action: BulkAction,
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
            action: bulk.action.clone(),
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
    pub(super) fn changed(&mut self, bulk: BulkId, command: BulkCommand) {
        if let Some(order) = self.known.get_mut(&bulk) {
            order.is_stopped = command != BulkCommand::Unpause;
            if command == BulkCommand::Unpause {
                order.failed = 0;
            }
        }
    }

    /// Somebody wanted it to go on when the process died, and may have been heard.
    pub(super) fn may_have_changed(&mut self, bulk: BulkId, command: BulkCommand) {
        if command == BulkCommand::Unpause {
            self.changed(bulk, command);
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
            self.run_came_out(run, fact);
            match fact {
                Fact::RunCancelled { .. } | Fact::SignalKept { .. } => {
                    self.acted_by(run, None, (event, at), is_ordered)?;
                }
                Fact::Reran { bulk: Some(target), .. } => {
                    self.acted(*target, run, None, at, is_ordered)?;
                    self.runs_under_way.insert(run, *target);
                }
                Fact::Unit {
                    unit,
                    fact:
                        UnitFact::Resumed { bulk: Some(target), .. } | UnitFact::Chosen { bulk: Some(target), .. },
                } => {
                    self.acted(*target, run, Some(*unit), at, is_ordered)?;
                    self.under_way.insert((run, *unit), *target);
                }
                Fact::Unit { unit, fact } => {
                    self.came_out(run, *unit, fact);
                    if is_by_hand(fact) {
                        self.acted_by(run, Some(*unit), (event, at), is_ordered)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A bulk action has removed a run. When it did is not known: nothing of the run is left to tell.
    pub(super) fn forgot(&mut self, target: BulkRef, run: RunId, at: Time) -> Result<(), Broken> {
        self.acted(target, run, None, at, false)?;
        if let Some(order) = self.known.get_mut(&target.bulk) {
            order.results.insert(target.place, true);
        }
        Ok(())
    }

    /// Whether a target has come out, as far as its bulk action is known.
    pub(super) fn has_result(&self, target: BulkRef) -> bool {
        self.known.get(&target.bulk).is_none_or(|order| order.results.contains_key(&target.place))
    }

    /// Whether a bulk action may have removed this run and nobody was told.
    pub(super) fn may_forget(&self, run: RunId) -> bool {
        self.known.values().any(|order| order.to_forget(run).is_some())
    }

    /// These runs are gone at this time, and nobody was told: what bulk actions have kept of them says which have done it.
    pub(super) fn find_forgotten(
        &mut self,
        store: &mut dyn Store,
        gone: &[RunId],
        at: Time,
    ) -> Result<(), CheckError> {
        let ids: Vec<BulkId> = self.known.keys().copied().collect();
        for bulk in ids {
            for target in store.targets(bulk, Some(ResultKind::Forgotten), 0, usize::MAX)? {
                let is_new = self.known[&bulk].to_forget(target.run) == Some(target.place);
                if is_new && gone.contains(&target.run) {
                    self.forgot(BulkRef { bulk, place: target.place }, target.run, at)?;
                }
            }
        }
        Ok(())
    }

    /// How a run came out that was started again: as a whole, or by the first step that comes to rest.
    fn run_came_out(&mut self, run: RunId, fact: &Fact) {
        let has_passed = match fact {
            Fact::Completed { .. } => true,
            Fact::Failing { .. }
            | Fact::RunFailed { .. }
            | Fact::RunCancelled { .. }
            | Fact::Unit {
                fact:
                    UnitFact::Held
                    | UnitFact::LeftInError
                    | UnitFact::Scheduled { .. }
                    | UnitFact::ChildChanged { state: RunState::Error | RunState::Held },
                ..
            } => false,
            _ => return,
        };
        let Some(target) = self.runs_under_way.remove(&run) else { return };
        self.result(target, has_passed);
    }

    fn result(&mut self, target: BulkRef, has_passed: bool) {
        if let Some(order) = self.known.get_mut(&target.bulk) {
            order.results.insert(target.place, has_passed);
            order.failed += u64::from(!has_passed);
        }
    }

    fn came_out(&mut self, run: RunId, unit: UnitRef, fact: &UnitFact) {
        let has_passed = match fact {
            UnitFact::Ended { outcome: Outcome::Completed(_), .. }
            | UnitFact::Done { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Skipped { .. } => true,
            UnitFact::Held
            | UnitFact::Ignored
            | UnitFact::Scheduled { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::LeftInError
            | UnitFact::Failed
            | UnitFact::Closed { .. } => false,
            _ => return,
        };
        let Some(target) = self.under_way.remove(&(run, unit)) else { return };
        self.result(target, has_passed);
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
    pub(super) fn check_at_rest(&self, store: &mut dyn Store) -> Result<(), CheckError> {
        for (id, order) in &self.known {
            let Some(kept) = store.bulk(*id)? else { continue };
            let mut pending = BTreeSet::new();
            let mut refused = 0;
            for target in store.targets(*id, None, 0, usize::MAX)? {
                match target.result.kind() {
                    ResultKind::Pending => drop(pending.insert(target.place)),
                    ResultKind::Refused => refused += 1,
                    ResultKind::Forgotten if store.run(target.run)?.is_some() => {
                        let what = format!("{id} says that it is forgotten, and it is there");
                        return Err(Broken::of(Promise::Bulks, target.run, what).into());
                    }
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
    /// The place of a run that it is to forget, as far as anybody was told.
    fn to_forget(&self, run: RunId) -> Option<u64> {
        let is_it = |target: &(RunId, Option<UnitRef>)| target.0 == run;
        let place = self.targets.iter().position(is_it).filter(|_| self.action == BulkAction::Forget)? as u64;
        (!self.results.contains_key(&place)).then_some(place)
    }

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
        let wanted = BulkCounts { under_way, passed, failed, refused, ..BulkCounts::default() };
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

/// What a person does to a step that is over with it.
fn is_by_hand(fact: &UnitFact) -> bool {
    matches!(
        fact,
        UnitFact::Acknowledged { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Skipped { why: SkippedBy::Operator, .. }
            | UnitFact::Chosen { choice: Choice::None, .. }
    )
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
