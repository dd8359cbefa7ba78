//! A sweep over everything: histories, keys, timers, slots, errors and policies, against what the store shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstuck_core::downtime::shift_downtimes;
use unstuck_core::errors::LedTo;
use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::DEADLINE_ACTION;
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::time::Time;
use unstuck_core::wakeup::{first_limit, wakeups};
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{ErrorFilter, OpenErrorFilter, RunFilter, Store, StoreError};

use super::family::Family;
use super::run_record::RunRecord;
use super::store_view::Notices;
use super::{Broken, CheckError, Promise, Promises, flow};

/// Every run, as the store shows it, with its flow.
type All = BTreeMap<RunId, (Run, Arc<Flow>)>;

/// Whatever a check finds, or that the store cannot be asked now.
type Checked = Result<Result<(), Broken>, StoreError>;

impl Promises {
    /// Looks at everything.
    pub(super) fn sweep(
        &mut self,
        store: &mut dyn Store,
        flows: &mut Flows,
        is_quiet: bool,
    ) -> Result<(), CheckError> {
        let notices = Notices::read(store)?;
        let ids: Vec<RunId> = self.books.keys().copied().collect();
        let mut all = All::new();
        for id in ids {
            self.look_at_run(store, flows, id, &notices)?;
            if let Some(run) = store.run(id)? {
                if let Some(book) = self.books.get(&id) {
                    check_history(store, id, book)??;
                }
                let flow = flow(store, flows, run.flow)?;
                all.insert(id, (run, flow));
            }
        }
        for promise in [
            Promise::Keys,
            Promise::Moved,
            Promise::Limits,
            Promise::Errors,
            Promise::Policies,
            Promise::Leases,
        ] {
            self.count(promise);
        }
        check_keys(store, &self.family, |run| self.may_be_forgotten(run))??;
        // What is not durable yet may have begun runs that nobody has heard of.
        let list = store.list(&RunFilter::default(), None, usize::MAX)?;
        for run in list {
            let flow = flow(store, flows, run.flow)?;
            all.entry(run.id).or_insert((run, flow));
        }
        check_timers(store, &all)??;
        check_slots(store, &all)??;
        check_errors(store, &all, &self.books)??;
        self.check_policies(store)?;
        if is_quiet {
            self.check_leases(store, &all)?;
        }
        Ok(())
    }

    fn check_policies(&self, store: &mut dyn Store) -> Result<(), CheckError> {
        let Some(wanted) = self.in_force.last() else { return Ok(()) };
        let mut kept = store.policies()?;
        let mut wanted = wanted.to_vec();
        kept.sort_by(|a, b| a.id.cmp(&b.id));
        wanted.sort_by(|a, b| a.id.cmp(&b.id));
        if kept == wanted && store.policy_switch()? == *self.switch.last() {
            return Ok(());
        }
        let what = "the policies that were acknowledged are not those that are kept".to_owned();
        Err(Broken { promise: Promise::Kept, run: None, what }.into())
    }

    /// Nobody is left longer than a limit of an attempt, once the engine has done all that it had to do.
    fn check_leases(&self, store: &mut dyn Store, all: &All) -> Result<(), CheckError> {
        let mut downtimes = store.downtimes()?;
        shift_downtimes(&mut downtimes, store.clock()?.shift.saturating_neg());
        let heard: BTreeMap<(RunId, Option<UnitRef>), Option<Time>> = store
            .due(Time(i64::MAX), usize::MAX)?
            .into_iter()
            .map(|due| ((due.run, due.unit), due.heard))
            .collect();
        for (id, (run, flow)) in all {
            let Some(book) = self.books.get(id).filter(|book| book.seq() == run.seq) else { continue };
            for (unit, recount) in &book.units {
                let Some(live) = run.unit(*unit).and_then(|unit| unit.state.live()) else { continue };
                let attempt =
                    AttemptId { run: *id, generation: run.generation, unit: *unit, attempt: live.attempt };
                let step = flow.step(unit.step);
                let moved = heard.get(&(*id, Some(*unit))).copied().flatten();
                let moved = moved.map(|moved| moved.shifted(run.clock.saturating_neg()));
                self.leases.check_moved(attempt, recount, moved)?;
                let now = self.timeline.paced();
                self.leases.check_live(attempt, step, &live.doing, recount, &downtimes, now)?;
            }
        }
        Ok(())
    }
}

/// Every event that was ever acknowledged is in the history, as it was.
fn check_history(store: &mut dyn Store, id: RunId, book: &RunRecord) -> Checked {
    let history = store.history(id, 0, usize::MAX)?;
    for (place, event) in book.events.iter().enumerate() {
        if history.get(place) != Some(event) {
            let what = format!("event {} was acknowledged, and is not in the history as it was", event.seq);
            return Ok(Err(Broken::of(Promise::Kept, id, what)));
        }
    }
    Ok(Ok(()))
}

/// Every key finds its run.
fn check_keys(store: &mut dyn Store, family: &Family, may_be_gone: impl Fn(RunId) -> bool) -> Checked {
    for ((flow, key), run) in family.keys() {
        let found = store.run_of_key(flow, key)?;
        if found != Some(*run) && !may_be_gone(*run) {
            let what = format!("its key `{key}` gives {found:?}");
            return Ok(Err(Broken::of(Promise::Keys, *run, what)));
        }
    }
    Ok(Ok(()))
}

/// What the store will wake is what the states ask for, leases moved by signs of life apart.
fn check_timers(store: &mut dyn Store, all: &All) -> Checked {
    let mut kept: BTreeMap<(RunId, Option<UnitRef>), (Time, Option<Time>)> = BTreeMap::new();
    for due in store.timers(None, usize::MAX)? {
        kept.insert((due.run, due.unit), (due.due, due.heard));
    }
    for (id, (run, flow)) in all {
        for (place, wakeup) in wakeups(run, flow) {
            let Some(wanted) = wakeup.due else { continue };
            let is = kept.remove(&(*id, place));
            let is_right =
                is.is_some_and(|(due, heard)| due == wanted || is_lease(run, flow, place, due, heard));
            if !is_right {
                let what = format!("something is due {wanted} in {place:?}, and the store has {is:?}");
                return Ok(Err(Broken::of(Promise::Moved, *id, what)));
            }
        }
    }
    let left = kept.into_iter().find(|((run, _), _)| all.contains_key(run));
    Ok(match left {
        None => Ok(()),
        Some(((run, place), (due, _))) => Err(Broken::of(
            Promise::Moved,
            run,
            format!("the store has {due} for {place:?}, and nothing is due there"),
        )),
    })
}

/// Whether a timer is a lease that a sign of life has moved.
fn is_lease(run: &Run, flow: &Flow, place: Option<UnitRef>, due: Time, heard: Option<Time>) -> bool {
    let Some(unit) = place else { return false };
    let Some(live) = run.unit(unit).and_then(|unit| unit.state.live()) else { return false };
    first_limit(flow.step(unit.step), live, heard).is_some_and(|(limit, _)| limit == due)
}

/// A limit with room lets in whoever wants to, and one without lets in nobody.
fn check_slots(store: &mut dyn Store, all: &All) -> Checked {
    let mut has: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut wants: BTreeMap<Arc<str>, BTreeMap<u32, BTreeSet<RunId>>> = BTreeMap::new();
    for (id, (run, flow)) in all {
        match slot_claim(run, flow) {
            SlotClaim::None => {}
            SlotClaim::Has { limit } => *has.entry(limit.name).or_default() += 1,
            SlotClaim::Wants { limit, .. } => {
                wants.entry(limit.name).or_default().entry(limit.max).or_default().insert(*id);
            }
        }
    }
    let let_in: BTreeSet<RunId> = store.admissible_runs(usize::MAX)?.into_iter().collect();
    for (name, wants) in wants {
        // Where versions of a flow have other limits, who is first decides for all.
        let Some((max, wants)) = wants.first_key_value().filter(|_| wants.len() == 1) else { continue };
        let has = has.get(&name).copied().unwrap_or(0);
        let expected = wants.len().min(max.saturating_sub(has) as usize);
        let admitted = wants.intersection(&let_in).count();
        if admitted != expected {
            let run = wants.first().copied();
            let what = format!(
                "`{name}` has {has} of {max} and {} want in: {expected} should be let in, and {admitted} are",
                wants.len()
            );
            return Ok(Err(Broken { promise: Promise::Limits, run, what }));
        }
    }
    Ok(Ok(()))
}

/// Every error is recorded once, and what is open of errors is what the runs are in.
fn check_errors(store: &mut dyn Store, all: &All, books: &BTreeMap<RunId, RunRecord>) -> Checked {
    // By attempt; the deadline of a generation ends none.
    let mut recorded: BTreeMap<_, u32> = BTreeMap::new();
    for (_, record) in store.errors(&ErrorFilter::default(), None, usize::MAX)? {
        let attempt = (record.led_to != LedTo::Deadline).then_some((record.unit, record.attempt));
        *recorded.entry((record.run, record.generation, attempt)).or_default() += 1;
    }
    for (id, book) in books.iter().filter(|(id, _)| all.contains_key(id)) {
        for (event, fact) in
            book.events.iter().flat_map(|event| event.facts.iter().map(move |fact| (event, fact)))
        {
            let attempt = match fact {
                Fact::Unit { unit, fact: UnitFact::Ended { attempt, outcome } }
                    if outcome.error().is_some() =>
                {
                    Some((*unit, *attempt))
                }
                Fact::Failing { error, .. }
                    if error.error.found_by.as_deref() == Some(DEADLINE_ACTION) && error.unit.is_none() =>
                {
                    None
                }
                _ => continue,
            };
            let times = recorded.remove(&(*id, event.generation, attempt)).unwrap_or(0);
            if times != 1 {
                let what = format!("the error of event {} is recorded {times} times", event.seq);
                return Ok(Err(Broken::of(Promise::Errors, *id, what)));
            }
        }
    }
    check_open_errors(store, all)
}

fn check_open_errors(store: &mut dyn Store, all: &All) -> Checked {
    let open = store.open_errors(&OpenErrorFilter::default(), None, usize::MAX)?;
    let mut kept: BTreeMap<(RunId, UnitRef), _> =
        open.iter().map(|open| ((open.record.run, open.record.unit), open)).collect();
    for (id, (run, _)) in all.iter().filter(|(_, (run, _))| !run.is_final()) {
        for unit in run.units_where(|unit| matches!(unit.state, UnitState::Error { .. })) {
            let Some(UnitState::Error { resume, acknowledged, .. }) = run.unit(unit).map(|unit| &unit.state)
            else {
                continue;
            };
            let is_right = kept.remove(&(*id, unit)).is_some_and(|open| {
                open.acknowledged == acknowledged.is_some()
                    && open.resume == resume.as_ref().map(|resume| (resume.due, resume.policy.clone()))
            });
            if !is_right {
                let what = format!("{unit:?} is in error, and what is kept of open errors says otherwise");
                return Ok(Err(Broken::of(Promise::Errors, *id, what)));
            }
        }
    }
    Ok(match kept.first_key_value() {
        None => Ok(()),
        Some(((run, unit), _)) => Err(Broken::of(
            Promise::Errors,
            *run,
            format!("{unit:?} is kept as an open error, and is in none"),
        )),
    })
}
