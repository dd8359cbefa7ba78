//! Bulk actions: how they begin, and how the engine goes on with those that are due, a bounded part in each batch.

mod request;
mod select;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rustc_hash::FxHashMap;
use serde_json::json;
use unstuck_core::bulk::{
    Acted, Bulk, BulkAction, BulkContext, BulkRef, Target, TargetResult, command_for, due_targets, result_of,
};
use unstuck_core::command::Command;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;
use unstuck_store::contract::{AuditRecord, CallOutcome, Store, StoreError};

use crate::batch::{Batch, Deferred, Undecided};
use crate::call::{Call, values};
use crate::engine::Engine;
use crate::engine::isolation::{Suspect, WorkKind};
use crate::engine::settling::OutstandingBatch;
use crate::family::family;
use crate::request::EngineError;

pub(crate) use request::FrozenOrder;
pub use request::{BulkFilter, BulkPlan, BulkRequest, Selection};
pub use unstuck_core::bulk::{BulkCommand, TargetFilter};

/// A part of a new bulk action, on its way into the store between two batches.
pub(crate) enum BulkPart {
    /// An id for it, and the time.
    Id(SyncSender<(BulkId, Time)>),
    /// Some of its targets.
    Targets(BulkId, Vec<Target>, SyncSender<Result<(), EngineError>>),
    /// All of them are there: it begins.
    Begin(Box<Bulk>, Arc<Call>, SyncSender<Result<(), EngineError>>),
    /// There are none, so that nothing begins; so many were left out.
    Nothing(u64, Arc<Call>, SyncSender<Result<(), EngineError>>),
}

/// What the audit is told of a bulk action that begins.
fn bulk_entry(bulk: &Bulk, call: &Call, at: Time) -> Option<AuditRecord> {
    let after = json!({ "action": bulk.action.verb(), "selection": bulk.selection, "total": bulk.total });
    let thing = Some(bulk.id.to_string().into());
    let what = match bulk.action {
        BulkAction::ApplyPolicies { .. } => "policy.applied",
        _ => "bulk.begin",
    };
    call.entry(at, what, (None, thing), bulk.reason.clone(), values(None, Some(&after)))
}

/// So many stored results is a bulk action told in one batch at most.
const MAX_STORED_RESULTS: usize = 2_000;

/// What belongs to the runs that are to be forgotten next, with the numbers of their last events.
pub(crate) type Families = FxHashMap<RunId, Vec<(RunId, u64)>>;

impl<S: Store> Engine<S> {
    /// Puts a part of a new bulk action, between two batches.
    pub(crate) fn put_bulk(&mut self, put: BulkPart, now: Time) {
        // Whoever has hung up does not want to know.
        match put {
            BulkPart::Id(reply) => drop(reply.send((self.new_bulk_id(now), self.store_time()))),
            BulkPart::Targets(bulk, targets, reply) => drop(reply.send(self.put_targets(bulk, targets))),
            BulkPart::Begin(bulk, call, reply) => drop(reply.send(self.begin_bulk_as(*bulk, &call))),
            BulkPart::Nothing(left_out, call, reply) => {
                let checked = self.check_store_works().and_then(|()| self.check_key(&call));
                let outcome = CallOutcome::BulkBegun { bulk: None, left_out };
                drop(reply.send(checked.and_then(|()| self.record_unchanged(&call, outcome))));
            }
        }
    }

    /// An id for a bulk action.
    pub fn new_bulk_id(&mut self, now: Time) -> BulkId {
        self.take_time(now);
        BulkId(self.ids.next(self.store_time()))
    }

    /// Keeps targets of a bulk action that is to begin, following those before.
    pub fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), EngineError> {
        self.check_store_works()?;
        Ok(self.store.put_targets(bulk, targets)?)
    }

    /// All targets are there: it begins, durable on return.
    pub fn begin_bulk(&mut self, bulk: Bulk) -> Result<(), EngineError> {
        self.begin_bulk_as(bulk, &Call::default())
    }

    /// The same, with what comes with the request.
    fn begin_bulk_as(&mut self, bulk: Bulk, call: &Call) -> Result<(), EngineError> {
        self.check_store_works()?;
        let bulk = Bulk { clock: self.clock.record.shift, ..bulk };
        if *call == Call::default() {
            self.store.put_bulk(bulk)?;
        } else {
            self.check_key(call)?;
            let at = self.store_time();
            let outcome = CallOutcome::BulkBegun { bulk: Some(bulk.id), left_out: bulk.left_out };
            let ledger = call.ledger(at, outcome, bulk_entry(&bulk, call, at).into_iter().collect());
            self.store.begin_bulk(bulk, ledger)?;
        }
        self.look_again();
        Ok(())
    }

    fn check_store_works(&self) -> Result<(), EngineError> {
        self.stopped.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Acts on the next targets of the bulk actions that are due, a share of `limit` each, and fires schedules that are.
    pub(crate) fn advance_bulks(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: usize,
    ) -> Result<(), StoreError> {
        if limit == 0 {
            return Ok(());
        }
        let mut due = batch.due_things.clone();
        // What this batch has changed may act sooner than the store knows.
        due.extend(batch.bulks_due(self.store_time()));
        due.sort_unstable();
        due.dedup();
        if due.is_empty() {
            return Ok(());
        }
        batch.lock_things(&mut self.batch_context(), &due)?;
        let share = (limit / due.len()).max(1);
        for thing in due.into_iter().take(limit) {
            match thing {
                ThingRef::Run(_) => {}
                ThingRef::Bulk(bulk) => self.act_on_next_targets(batch, done, bulk, share)?,
                ThingRef::Schedule(schedule) => self.fire_schedule(batch, schedule)?,
            }
        }
        batch.deliver_all(&mut self.batch_context())
    }

    /// Acts on the next targets of one bulk action, as far as its pace allows. Each is told to it at once, so that a wave
    /// that does not pass ends here.
    fn act_on_next_targets(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        id: BulkId,
        share: usize,
    ) -> Result<(), StoreError> {
        // What is told to one that somebody else has would be put off again and again, without end.
        if batch.is_busy(ThingRef::Bulk(id))
            || !batch.fold_waiting(&mut self.batch_context(), id, MAX_STORED_RESULTS)?
        {
            return Ok(());
        }
        let Some((from, count)) = batch.next_targets_of(&self.batch_context(), id, share) else {
            return Ok(());
        };
        let targets = self.store.next_targets(id, from, count)?;
        let runs: Vec<RunId> = targets.iter().map(|target| target.run).collect();
        done.counts.add(WorkKind::Bulk, runs.len());
        done.suspect = runs.first().map(|run| Suspect::Run(*run));
        for target in targets {
            let place = BulkRef { bulk: id, place: target.place };
            let Some(bulk) = batch.acts_at(place).cloned() else { break };
            let acted = if bulk.forgets() {
                self.forget_target(batch, place, target.run)?
            } else {
                self.act_on_target(batch, &bulk, &target)?
            };
            let Some(acted) = acted else { break };
            let goes_on = batch.record_acted(&self.batch_context(), place, acted);
            batch.deliver_all(&mut self.batch_context())?;
            batch.fold_new(&mut self.batch_context(), id)?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Acts on one target; `None` where somebody else has its run, so that it waits for the next batch.
    fn act_on_target(
        &mut self,
        batch: &mut Batch,
        bulk: &Bulk,
        target: &Target,
    ) -> Result<Option<Acted>, StoreError> {
        let refused = self.refused_aside(target.run);
        let (is_aside, is_cancel) = (refused.is_some(), matches!(bulk.action, BulkAction::Cancel));
        if let Some(refused) = refused.filter(|_| !is_cancel) {
            return Ok(Some(refused.into()));
        }
        let now = self.store_time();
        let command = if is_cancel {
            // Whether its flow can be used or not.
            Ok(Command::Cancel { by: bulk.by.clone(), reason: bulk.reason.clone() })
        } else {
            match batch.view_run(&mut self.batch_context(), target.run) {
                Ok((run, flow)) => command_for(bulk, target, run, &flow, now).map_err(TargetRefusal::of),
                Err(undecided) => Err(refusal(batch, undecided)?),
            }
        };
        let command = match command {
            Ok(command) => command,
            Err(refused) => return Ok(refused.acted()),
        };
        let decided = batch.decide(&mut self.batch_context(), target.run, command, None);
        batch.released.extend((is_aside && decided.is_ok()).then_some(target.run));
        Ok(match decided {
            Ok(answer) => Some(result_of(bulk, answer, now)),
            Err(undecided) => refusal(batch, undecided)?.acted(),
        })
    }

    /// Removes a run for good, with all that belongs to it; `None` where it waits for the next batch.
    fn forget_target(
        &mut self,
        batch: &mut Batch,
        target: BulkRef,
        run: RunId,
    ) -> Result<Option<Acted>, StoreError> {
        // It has become the next one since the families were looked up.
        let Some(family) = self.families.get(&run).cloned() else { return Ok(None) };
        // Notices to a run that is set aside are not delivered, and what is on its way would be waited for.
        if let Some(refused) = family.iter().find_map(|(member, _)| self.refused_aside(*member)) {
            return Ok(Some(refused.into()));
        }
        Ok(match batch.forget(&family, Some(target)) {
            Ok(_) => Some(TargetResult::Forgotten.into()),
            Err(Undecided::Error(EngineError::Changed(_))) => None,
            Err(undecided) => refusal(batch, undecided)?.acted(),
        })
    }

    fn refused_aside(&mut self, run: RunId) -> Option<TargetResult> {
        let aside = self.is_set_aside(run).then(|| self.store.set_aside_record(run))?;
        let why = aside.map(|aside| aside.why).unwrap_or_default();
        Some(TargetResult::Refused { why: format!("it is set aside: {why}").into() })
    }

    /// Finds the next targets for a batch, and what belongs to those that are to be forgotten, which are added to `forgotten`:
    /// within a batch runs are not listed. Gives the runs that it wants for that.
    pub(crate) fn find_targets(
        &mut self,
        limit: usize,
        forgotten: &mut Vec<RunId>,
    ) -> Result<Vec<RunId>, StoreError> {
        self.families.clear();
        self.forget_open_runs();
        let mut runs = Vec::new();
        let due = if limit == 0 { Vec::new() } else { self.store.due_things(self.store_time(), limit)? };
        if due.is_empty() {
            return Ok(runs);
        }
        let share = (limit / due.len()).max(1);
        let now = self.store_time();
        let context = BulkContext { now, latest: now, clock: self.clock.record.shift };
        for schedule in due.iter().filter_map(Thing::schedule) {
            self.find_open_runs(schedule)?;
        }
        for bulk in due.iter().filter_map(Thing::bulk) {
            let places = due_targets(&mut bulk.clone(), share, &context);
            let count = usize::try_from(places.end - places.start).unwrap_or(share);
            let targets = self.store.next_targets(bulk.id, places.start, count)?;
            runs.extend(targets.iter().map(|target| target.run));
            for target in targets.iter().filter(|_| bulk.forgets()) {
                let family = match family(&mut self.store, target.run) {
                    Ok(family) => family,
                    // That there is none is told when it is acted on.
                    Err(EngineError::Store(error)) => return Err(error),
                    Err(_) => vec![(target.run, 0)],
                };
                runs.extend(family.iter().map(|(run, _)| *run));
                forgotten.extend(family.iter().map(|(run, _)| *run));
                self.families.insert(target.run, family);
            }
        }
        Ok(runs)
    }
}

/// Why nothing is done to a target; nothing where it waits for the next batch.
struct TargetRefusal(Option<Arc<str>>);

impl TargetRefusal {
    fn of(why: String) -> TargetRefusal {
        TargetRefusal(Some(why.into()))
    }

    fn acted(self) -> Option<Acted> {
        self.0.map(|why| TargetResult::Refused { why }.into())
    }
}

/// Whether a target is refused, waits, or takes the batch with it.
fn refusal(batch: &mut Batch, undecided: Undecided) -> Result<TargetRefusal, StoreError> {
    match undecided {
        Undecided::Lacking => {
            batch.defer(Deferred::Bulks);
            Ok(TargetRefusal(None))
        }
        Undecided::Busy | Undecided::Aside => Ok(TargetRefusal(None)),
        Undecided::Error(EngineError::Store(error)) => Err(error),
        Undecided::Error(error) => Ok(TargetRefusal::of(error.to_string())),
    }
}
