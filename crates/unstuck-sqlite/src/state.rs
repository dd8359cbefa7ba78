//! What is in memory and follows from what is durable.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use unstuck_core::clock::ClockRecord;
use unstuck_core::downtime::Downtime;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::slot::SlotClaim;
use unstuck_core::time::Time;
use unstuck_core::wakeup::Wakeup;
use unstuck_store::contract::StoreError;
use unstuck_store::flows::Flows;
use unstuck_store::notices::Notices;
use unstuck_store::ready::ReadyQueues;
use unstuck_store::slots::Slots;
use unstuck_store::things::Things;
use unstuck_store::timers::Timers;

use crate::error::broken_store;
use crate::hot_runs::{HotRuns, Residency};
use crate::overlay::{FreshRun, OverlayChange};
use crate::recent_ids::{RecentCalls, RecentKeys, RecentPayloads};
use crate::recent_results::RecentResults;

/// All that is in memory and follows from what is durable.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    pub(crate) hot: HotRuns,
    pub(crate) ready: ReadyQueues,
    pub(crate) timers: Timers,
    pub(crate) slots: Slots,
    pub(crate) notices: Notices,
    /// Runs that had rows of leases when the store was opened: whoever parks leaves none.
    pub(crate) leased: FxHashSet<RunId>,
    pub(crate) things: Things,
    pub(crate) results: RecentResults,
    pub(crate) flows: Flows,
    /// The oldest first.
    pub(crate) policies: Vec<Policy>,
    pub(crate) policy_switch: PolicySwitch,
    pub(crate) payloads: RecentPayloads,
    pub(crate) keys: RecentKeys,
    pub(crate) calls: RecentCalls,
    /// The position of the last event.
    pub(crate) end: u64,
    /// The last stage that was durable when this was read.
    pub(crate) stage: u64,
    pub(crate) last_notice: u64,
    pub(crate) last_error: u64,
    pub(crate) last_id: u64,
    pub(crate) last_time: Option<Time>,
    pub(crate) downtimes: Vec<Downtime>,
    pub(crate) clock: ClockRecord,
}

impl StoreState {
    /// Replaces the wakeups that a change names, or all of the run's with `replaces_all`.
    pub(crate) fn set_wakeups(
        &mut self,
        run: RunId,
        wakeups: &[(Option<UnitRef>, Wakeup)],
        replaces_all: bool,
        slot: &SlotClaim,
        at: Time,
    ) {
        if replaces_all {
            self.timers
                .set_all(run, wakeups.iter().filter_map(|(place, wakeup)| Some((*place, wakeup.due?))));
            self.ready.set_all(run, wakeups.iter().filter_map(|(_, wakeup)| wakeup.ready.as_ref()));
        } else {
            for (place, wakeup) in wakeups {
                self.timers.set(run, *place, wakeup.due);
                if let Some(unit) = place {
                    self.ready.set(run, *unit, wakeup.ready.as_ref());
                }
            }
        }
        self.slots.set(run, slot, at);
    }

    /// The runs whose rows are behind, one after the other: there may be many, and no list of them is made.
    pub(crate) fn fresh_runs(&self) -> impl Iterator<Item = OverlayChange> {
        let behind = self.hot.iter().filter(|(_, hot)| hot.behind_since.is_some());
        behind.filter_map(|(id, _)| Some((*id, Some(self.fresh_run(*id)?))))
    }

    /// What readers are told of a run while its row is behind.
    pub(crate) fn fresh_run(&self, id: RunId) -> Option<FreshRun> {
        let hot = self.hot.get(id)?;
        match &hot.run {
            Residency::Here(run) => Some(FreshRun::of(run, hot, self.timers.first_due_of(id))),
            Residency::Out(_) => None,
        }
    }

    /// When the next timer, thing or postponed notice is due.
    pub(crate) fn next_due(&mut self) -> Option<Time> {
        let dues = [self.timers.next_due(), self.things.next_due(), self.notices.next_due()];
        dues.into_iter().flatten().min()
    }

    /// Hides the run's timers, queue entries, notices and slot claim; they stay as they are.
    pub(crate) fn set_aside(&mut self, run: RunId) {
        self.timers.set_aside(run);
        self.ready.set_aside(run);
        self.slots.set_aside(run);
        self.notices.set_aside(run);
    }

    /// Offers what [`StoreState::set_aside`] has hidden again.
    pub(crate) fn release(&mut self, run: RunId) {
        self.timers.release(run);
        self.ready.release(run);
        self.slots.release(run);
        self.notices.release(run);
    }

    /// Removes everything that could wake a run that is deleted.
    pub(crate) fn forget(&mut self, run: RunId) {
        self.hot.remove(run);
        self.keys.forget(run);
        self.timers.set_all(run, std::iter::empty());
        self.ready.set_all(run, std::iter::empty());
        self.slots.set(run, &SlotClaim::None, Time::default());
    }

    pub(crate) fn flow_name(&self, flow: FlowId) -> Result<Arc<str>, StoreError> {
        let record =
            self.flows.get(flow).ok_or_else(|| broken_store(format!("flow version {flow} is missing")))?;
        Ok(record.name)
    }
}
