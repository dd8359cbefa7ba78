//! Ordering a bulk action: what is selected is frozen as a list.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use unstuck_core::bulk::{
    Bulk, BulkAction, BulkContext, BulkRefusal, Pace, Target, TargetFilter, TargetResult, change_bulk,
};
use unstuck_core::decide::{Answer, check_texts};
use unstuck_core::event::Actor;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitRef;
use unstuck_store::contract::{LabelFilter, OpenErrorFilter};

use crate::bulk::select::SelectedTargets;
use crate::bulk::{BulkCommand, BulkPart};
use crate::call::Call;
use crate::request::EngineError;
use crate::runtime::Handle;

/// So many targets are put between two batches.
const PAGE: usize = 1_000;
/// So many targets does a plan show.
const SHOWN: usize = 100;

/// An order for many runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkRequest {
    /// What is done.
    pub action: BulkAction,
    /// To what.
    pub selection: Selection,
    /// What was selected, in the words of whoever selected it.
    pub words: Arc<str>,
    /// At most so many targets, the first of them.
    pub max: Option<u64>,
    /// How fast.
    pub pace: Pace,
    /// Who orders it.
    pub by: Actor,
    pub reason: Option<Arc<str>>,
}

/// An order whose targets are found.
pub(crate) struct FrozenOrder {
    pub(crate) action: BulkAction,
    pub(crate) words: Arc<str>,
    pub(crate) pace: Pace,
    pub(crate) by: Actor,
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) left_out: u64,
    pub(crate) call: Arc<Call>,
}

/// What is selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// These runs: what is in error, held or named in them, or they themselves.
    Runs(Vec<RunId>),
    /// Open errors, or the runs that somebody started and that have them.
    Errors {
        /// Of this kind.
        filter: OpenErrorFilter,
        /// In these runs.
        common: BulkFilter,
    },
    /// Runs, whatever they have in common.
    Common {
        common: BulkFilter,
        /// With an error of this group, open or past.
        group: Option<Arc<str>>,
    },
}

/// What runs have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkFilter {
    /// They are of this flow.
    pub flow: Option<Arc<str>>,
    /// They have all of these labels.
    pub labels: Vec<LabelFilter>,
    /// They are in this state, or have a step in it.
    pub state: Option<RunState>,
    /// This of what is open in them is meant.
    pub which: TargetFilter,
}

/// What an order would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkPlan {
    /// How many targets there are.
    pub total: u64,
    /// How many runs had in common what was selected, and are left out: nothing can be done to them now.
    pub left_out: u64,
    /// In how many runs the targets are.
    pub runs: u64,
    /// The first of them.
    pub first: Vec<(RunId, Option<UnitRef>)>,
}

impl Handle {
    /// What an order would do now. Nothing is changed.
    pub fn plan_bulk(&self, order: &BulkRequest) -> Result<BulkPlan, EngineError> {
        check_texts(&order.by, order.reason.as_deref())?;
        let SelectedTargets { mut targets, left_out } = self.select(order)?;
        let total = targets.len() as u64;
        let runs = targets.iter().map(|(run, _)| run).collect::<HashSet<_>>().len() as u64;
        targets.truncate(SHOWN);
        Ok(BulkPlan { total, left_out, runs, first: targets })
    }

    /// Begins a bulk action, durable on return; without one where nothing is selected. Gives how many runs were left out.
    pub fn start_bulk(&self, order: BulkRequest) -> Result<(Option<Bulk>, u64), EngineError> {
        self.start_bulk_as(order, Call::default())
    }

    /// The same, with what comes with the request.
    pub fn start_bulk_as(&self, order: BulkRequest, call: Call) -> Result<(Option<Bulk>, u64), EngineError> {
        check_texts(&order.by, order.reason.as_deref())?;
        let SelectedTargets { targets: found, left_out } = self.select(&order)?;
        let BulkRequest { action, words, pace, by, reason, .. } = order;
        let order = FrozenOrder { action, words, pace, by, reason, left_out, call: Arc::new(call) };
        Ok((self.begin_with(order, found)?, left_out))
    }

    /// Begins a bulk action with these targets, durable on return; none where there are none.
    pub(crate) fn begin_with(
        &self,
        order: FrozenOrder,
        found: Vec<(RunId, Option<UnitRef>)>,
    ) -> Result<Option<Bulk>, EngineError> {
        if found.is_empty() {
            if order.call.idempotency.is_some() {
                self.put(|reply| BulkPart::Nothing(order.left_out, order.call.clone(), reply))?;
            }
            return Ok(None);
        }
        let (sender, receiver) = sync_channel(1);
        self.put_bulk(BulkPart::Id(sender));
        let (id, now) = receiver.recv().map_err(|_| EngineError::Stopped)?;
        let total = found.len() as u64;
        let mut targets = (0..).zip(found).map(|(place, (run, unit))| {
            let result = TargetResult::Pending;
            Target { place, run, unit, result }
        });
        loop {
            let part: Vec<Target> = targets.by_ref().take(PAGE).collect();
            if part.is_empty() {
                break;
            }
            self.put(|reply| BulkPart::Targets(id, part, reply))?;
        }
        let FrozenOrder { action, words, pace, by, reason, left_out, call } = order;
        let bulk = Bulk { left_out, ..Bulk::new(id, action, (by, reason), words, pace, total, now) };
        self.put(|reply| BulkPart::Begin(Box::new(bulk.clone()), call, reply))?;
        Ok(Some(bulk))
    }

    /// Pauses a bulk action, lets it go on, or cancels what is left of it.
    pub fn change_bulk(&self, bulk: BulkId, command: BulkCommand) -> Result<Answer, EngineError> {
        self.change_bulk_as(bulk, command, None)
    }

    /// The same, with what comes with the request. What has ended changes no more, and nothing is recorded of that.
    pub fn change_bulk_as(
        &self,
        bulk: BulkId,
        command: BulkCommand,
        call: Option<Call>,
    ) -> Result<Answer, EngineError> {
        let known = self.reader().bulk(bulk)?;
        let Some(mut known) = known else {
            return Err(EngineError::BadBulk(format!("there is no bulk action {bulk}")));
        };
        if known.is_settled() {
            let now = known.credited_at;
            let context = BulkContext { now, latest: now, clock: known.clock };
            return change_bulk(&mut known, command, &context)
                .map_err(|BulkRefusal(sentence)| EngineError::BadBulk(sentence));
        }
        self.ask_bulk(bulk, command, call)
    }

    fn put(
        &self,
        part: impl FnOnce(SyncSender<Result<(), EngineError>>) -> BulkPart,
    ) -> Result<(), EngineError> {
        let (sender, receiver) = sync_channel(1);
        self.put_bulk(part(sender));
        receiver.recv().unwrap_or(Err(EngineError::Stopped))
    }
}
