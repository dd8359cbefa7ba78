//! Bulk actions: what is ordered about them, and how the engine goes on with them, a bounded part in each batch.

mod request;
mod select;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use unstuck_core::bulk::{
    Bulk, BulkAction, BulkOutcome, BulkRef, BulkRefusal, BulkState, Target, TargetResult, command_for,
};
use unstuck_core::command::Command;
use unstuck_core::decide::Answer;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::time::Time;
use unstuck_store::contract::{BulkChange, Store, StoreError};

use crate::batch::{Batch, Deferred, Undecided};
use crate::engine::Engine;
use crate::engine::isolation::{Suspect, WorkKind};
use crate::engine::settling::OutstandingBatch;
use crate::request::EngineError;
use crate::runtime::family;

pub use request::{BulkFilter, BulkPlan, BulkRequest, Selection};
pub use unstuck_core::bulk::TargetFilter;

/// What somebody does to a bulk action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkCommand {
    /// Nothing more is acted on for now.
    Pause,
    /// It goes on, after a pause or after it has stopped.
    Unpause,
    /// Nothing more is acted on for good.
    Cancel,
}

impl BulkCommand {
    /// Whether that changes anything, if it can be done.
    pub(crate) fn apply(self, bulk: &mut Bulk, now: Time) -> Result<Answer, EngineError> {
        let changed = match self {
            BulkCommand::Pause => bulk.pause(),
            BulkCommand::Unpause => bulk.unpause(now),
            BulkCommand::Cancel => bulk.cancel(),
        };
        match changed {
            Ok(true) => Ok(Answer::Done),
            Ok(false) => Ok(Answer::Already),
            Err(BulkRefusal(sentence)) => Err(EngineError::BadBulk(sentence)),
        }
    }
}

/// A part of a new bulk action, on its way into the store between two batches.
pub(crate) enum BulkPart {
    /// An id for it, and the time.
    Id(SyncSender<(BulkId, Time)>),
    /// Some of its targets.
    Targets(BulkId, Vec<Target>, SyncSender<Result<(), EngineError>>),
    /// All of them are there: it begins.
    Begin(Box<Bulk>, SyncSender<Result<(), EngineError>>),
}

/// The bulk actions that are not over, as the last batch leaves them.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    open: BTreeMap<BulkId, Bulk>,
    /// Their next targets, as they were found for the next batch.
    targets: BTreeMap<BulkId, Vec<Target>>,
    /// What belongs to the runs that are to be forgotten next, with the numbers of their last events.
    families: HashMap<RunId, Vec<(RunId, u64)>>,
    /// A batch was lost: what is durable is to be read again.
    is_stale: bool,
}

impl Bulks {
    pub(crate) fn load(store: &mut dyn Store) -> Result<Bulks, StoreError> {
        let open = store.bulks(true, None, usize::MAX)?;
        let open = open.into_iter().map(|bulk| (bulk.id, bulk)).collect();
        Ok(Bulks { open, ..Bulks::default() })
    }

    /// When one of them is to be gone on with.
    pub(crate) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(Bulk::due).min()
    }

    /// None of them has earned anything in a time to come, or before the clock was last set: the clock that says so was
    /// another one.
    fn correct_clock(&mut self, set: Option<Time>, now: Time) {
        for bulk in self.open.values_mut() {
            let earliest = set.unwrap_or(bulk.credited_at);
            bulk.credited_at = bulk.credited_at.max(earliest).min(now);
        }
    }

    /// A batch was lost, and with it what these have done in it.
    pub(crate) fn mark_lost(&mut self) {
        self.is_stale = true;
    }

    /// Reads again what is durable, if something was lost.
    pub(crate) fn reload_if_lost(
        &mut self,
        store: &mut dyn Store,
        set: Option<Time>,
        now: Time,
    ) -> Result<(), StoreError> {
        if self.is_stale {
            *self = Bulks::load(store)?;
        }
        self.correct_clock(set, now);
        Ok(())
    }

    /// A batch is staged that leaves these so.
    pub(crate) fn apply_staged(&mut self, bulks: Vec<Bulk>) {
        for bulk in bulks {
            if bulk.is_settled() {
                self.open.remove(&bulk.id);
            } else {
                self.open.insert(bulk.id, bulk);
            }
        }
    }

    /// Those that may act on a target now.
    fn ready(&self, now: Time) -> Vec<BulkId> {
        self.open.values().filter(|bulk| bulk.allowance(now, 1) > 0).map(|bulk| bulk.id).collect()
    }
}

impl<S: Store> Engine<S> {
    /// Puts a part of a new bulk action, between two batches.
    pub(crate) fn put_bulk(&mut self, put: BulkPart, now: Time) {
        // Whoever has hung up does not want to know.
        match put {
            BulkPart::Id(reply) => drop(reply.send((self.new_bulk_id(now), self.store_time()))),
            BulkPart::Targets(bulk, targets, reply) => drop(reply.send(self.put_targets(bulk, targets))),
            BulkPart::Begin(bulk, reply) => drop(reply.send(self.begin_bulk(*bulk))),
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
        self.check_store_works()?;
        self.store.put_bulk(bulk.clone())?;
        self.bulks.apply_staged(vec![bulk]);
        Ok(())
    }

    fn check_store_works(&self) -> Result<(), EngineError> {
        self.stopped.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Somebody changes how a bulk action goes on.
    pub(crate) fn change_bulk(
        &mut self,
        batch: &mut Batch,
        bulk: BulkId,
        command: BulkCommand,
    ) -> Result<Answer, Undecided> {
        let now = self.store_time();
        let refused =
            || EngineError::BadBulk(format!("{bulk} has ended or does not exist, so it cannot be changed"));
        let known = batch.bulks.get(&bulk).map(|change| &change.bulk).or(self.bulks.open.get(&bulk));
        let mut changed = known.cloned().ok_or_else(refused).map_err(Undecided::Error)?;
        let answer = command.apply(&mut changed, now).map_err(Undecided::Error)?;
        if answer == Answer::Done {
            let results = batch.bulks.remove(&bulk).map(|change| change.results).unwrap_or_default();
            batch.bulks.insert(bulk, BulkChange { bulk: changed, results });
        }
        Ok(answer)
    }

    /// Tells bulk actions how things came out, and acts on their next targets: a share of `limit` each.
    pub(crate) fn advance_bulks(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        limit: usize,
    ) -> Result<(), StoreError> {
        self.record_outcomes(batch);
        if limit == 0 {
            return Ok(());
        }
        let mut ready = self.bulks.ready(self.store_time());
        ready.extend(batch.bulks.keys());
        ready.sort_unstable();
        ready.dedup();
        if ready.is_empty() {
            return Ok(());
        }
        let share = (limit / ready.len()).max(1);
        for id in ready.into_iter().take(limit) {
            self.act_on_next_targets(batch, done, id, share)?;
        }
        batch.deliver_all(&mut self.batch_context())?;
        self.record_outcomes(batch);
        Ok(())
    }

    /// Acts on the next targets of one bulk action, as far as its pace allows.
    fn act_on_next_targets(
        &mut self,
        batch: &mut Batch,
        done: &mut OutstandingBatch,
        id: BulkId,
        share: usize,
    ) -> Result<(), StoreError> {
        let now = self.store_time();
        let Some(bulk) = batch.bulks.get(&id).map(|change| &change.bulk).or(self.bulks.open.get(&id)) else {
            return Ok(());
        };
        let count = usize::try_from(bulk.allowance(now, share as u64)).unwrap_or(share);
        if count == 0 {
            return Ok(());
        }
        let found = self.bulks.targets.get(&id).into_iter().flatten();
        let targets: Vec<Target> =
            found.filter(|target| target.place >= bulk.next).take(count).cloned().collect();
        let runs: Vec<RunId> = targets.iter().map(|target| target.run).collect();
        done.counts.add(WorkKind::Bulk, runs.len());
        done.suspect = runs.first().map(|run| Suspect::Run(*run));
        let change = BulkChange { bulk: bulk.clone(), results: Vec::new() };
        batch.bulks.entry(id).or_insert(change);
        for target in targets {
            let Some(change) = batch.bulks.get(&id) else { break };
            if change.bulk.state != BulkState::Running {
                break;
            }
            let bulk = change.bulk.clone();
            let result = match bulk.action {
                BulkAction::Forget => {
                    self.forget_target(batch, BulkRef { bulk: id, place: target.place }, target.run)?
                }
                _ => self.act_on_target(batch, &bulk, &target)?,
            };
            let Some(result) = result else { break };
            if let Some(change) = batch.bulks.get_mut(&id) {
                change.bulk.record_acted(&result, now);
                change.results.push((target.place, result));
            }
            self.record_outcomes(batch);
        }
        Ok(())
    }

    /// Acts on one target; `None` where somebody else has its run, so that it waits for the next batch.
    fn act_on_target(
        &mut self,
        batch: &mut Batch,
        bulk: &Bulk,
        target: &Target,
    ) -> Result<Option<TargetResult>, StoreError> {
        let refused = self.refused_aside(target.run);
        let (is_aside, is_cancel) = (refused.is_some(), matches!(bulk.action, BulkAction::Cancel));
        if let Some(refused) = refused.filter(|_| !is_cancel) {
            return Ok(Some(refused));
        }
        let command = if is_cancel {
            // Whether its flow can be used or not.
            Ok(Command::Cancel { by: bulk.by.clone(), reason: bulk.reason.clone() })
        } else {
            match batch.view_run(&mut self.batch_context(), target.run) {
                Ok((run, flow)) => command_for(bulk, target, run, &flow).map_err(TargetRefusal::of),
                Err(undecided) => Err(refusal(batch, undecided)?),
            }
        };
        let command = match command {
            Ok(command) => command,
            Err(TargetRefusal(why)) => return Ok(why.map(|why| TargetResult::Refused { why })),
        };
        let already = match &command {
            Command::Acknowledge { .. } => "it was already acknowledged",
            Command::Cancel { .. } => "it was already cancelled",
            Command::Skip { .. } => "it was already skipped",
            Command::Complete { .. } => "it was already completed by hand",
            _ => "it is no longer in error",
        };
        let decided = batch.decide(&mut self.batch_context(), target.run, command, None);
        batch.released.extend((is_aside && decided.is_ok()).then_some(target.run));
        Ok(match decided {
            Ok(Answer::Already) => Some(TargetResult::Refused { why: already.into() }),
            Ok(_) => Some(bulk.action.result_of_acting()),
            Err(undecided) => refusal(batch, undecided)?.0.map(|why| TargetResult::Refused { why }),
        })
    }

    /// Removes a run for good, with all that belongs to it; `None` where it waits for the next batch.
    fn forget_target(
        &mut self,
        batch: &mut Batch,
        target: BulkRef,
        run: RunId,
    ) -> Result<Option<TargetResult>, StoreError> {
        // It has become the next one since the families were looked up.
        let Some(family) = self.bulks.families.get(&run).cloned() else { return Ok(None) };
        // Notices to a run that is set aside are not delivered, and what is on its way would be waited for.
        if let Some(refused) = family.iter().find_map(|(member, _)| self.refused_aside(*member)) {
            return Ok(Some(refused));
        }
        Ok(match batch.forget(&family, Some(target)) {
            Ok(_) => Some(TargetResult::Forgotten),
            Err(Undecided::Error(EngineError::Changed(_))) => None,
            Err(undecided) => refusal(batch, undecided)?.0.map(|why| TargetResult::Refused { why }),
        })
    }

    fn refused_aside(&mut self, run: RunId) -> Option<TargetResult> {
        let aside = self.is_set_aside(run).then(|| self.store.set_aside_record(run))?;
        let why = aside.map(|aside| aside.why).unwrap_or_default();
        Some(TargetResult::Refused { why: format!("it is set aside: {why}").into() })
    }

    /// Finds the next targets for a batch, and what belongs to those that are to be forgotten, which are added to `forgotten`.
    /// Gives the runs that it wants for that.
    pub(crate) fn find_targets(
        &mut self,
        limit: usize,
        forgotten: &mut Vec<RunId>,
    ) -> Result<Vec<RunId>, StoreError> {
        self.bulks.families.clear();
        self.bulks.targets.clear();
        let mut runs = Vec::new();
        let ready = self.bulks.ready(self.store_time());
        let share = (limit / ready.len().max(1)).max(1);
        for id in ready.into_iter().take(limit) {
            let Some(bulk) = self.bulks.open.get(&id) else { continue };
            let forgets = matches!(bulk.action, BulkAction::Forget);
            let count = usize::try_from(bulk.allowance(self.store_time(), share as u64)).unwrap_or(share);
            let targets = self.store.next_targets(id, bulk.next, count)?;
            runs.extend(targets.iter().map(|target| target.run));
            for target in targets.iter().filter(|_| forgets) {
                let family = match family(&mut self.store, target.run) {
                    Ok(family) => family,
                    // That there is none is told when it is acted on.
                    Err(EngineError::Store(error)) => return Err(error),
                    Err(_) => vec![(target.run, 0)],
                };
                runs.extend(family.iter().map(|(run, _)| *run));
                forgotten.extend(family.iter().map(|(run, _)| *run));
                self.bulks.families.insert(target.run, family);
            }
            self.bulks.targets.insert(id, targets);
        }
        Ok(runs)
    }

    /// Bulk actions learn how what they have resumed came out. One that is not there any more has nobody to tell.
    fn record_outcomes(&self, batch: &mut Batch) {
        for BulkOutcome { target: BulkRef { bulk: id, place }, result } in std::mem::take(&mut batch.outcomes)
        {
            let change = match batch.bulks.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    let Some(bulk) = self.bulks.open.get(&id).cloned() else { continue };
                    vacant.insert(BulkChange { bulk, results: Vec::new() })
                }
            };
            change.bulk.record_result(&result);
            change.results.push((place, result));
        }
    }
}

/// Why nothing is done to a target; nothing where it waits for the next batch.
struct TargetRefusal(Option<Arc<str>>);

impl TargetRefusal {
    fn of(why: String) -> TargetRefusal {
        TargetRefusal(Some(why.into()))
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
