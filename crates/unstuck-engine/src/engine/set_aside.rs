//! Runs that are set aside: their flow cannot be used, or whatever is decided about them goes wrong. Nothing of them is
//! offered until time may have helped, an operator acts or the engine starts again; everything else goes on.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::time::{Millis, Time};
use unstuck_store::contract::{SetAside, Store};

use super::Engine;
use super::settling::OutstandingBatch;
use crate::request::Request;

/// What went wrong with a run is tried again after this, then after twice as long each time.
pub(super) const FIRST_RETRY: Millis = Millis::minutes(1);
/// No try is later than this after the one before.
pub(super) const LAST_RETRY: Millis = Millis::hours(1);

/// The runs that are set aside.
#[derive(Debug, Default)]
pub(super) struct SetAsideRuns {
    pub(super) runs: FxHashMap<RunId, SetAsideRun>,
    /// When which of them is tried again.
    retries: BTreeSet<(Time, RunId)>,
    /// Runs that were tried again: when, and how long they had waited. What goes wrong with one soon after waits longer.
    retried: FxHashMap<RunId, (Time, Millis)>,
}

/// A run that is set aside. Why is known to the store, where it is read.
#[derive(Debug)]
pub(crate) struct SetAsideRun {
    since: Time,
    /// The flow version that cannot be used, if that is why.
    flow: Option<FlowId>,
    /// When it is tried again and how long it waits for that; a flow does not become usable by itself.
    retry: Option<(Time, Millis)>,
    /// Last words of executors and losses, which are heard when it is released.
    held: Vec<Request>,
}

impl SetAsideRuns {
    /// When the next run is tried again.
    pub(super) fn next_retry(&self) -> Option<Time> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// The clock was set by so many milliseconds.
    pub(super) fn correct_clock(&mut self, by: i64) {
        self.retries = self.retries.iter().map(|(at, run)| (at.shifted(by), *run)).collect();
        for (at, _) in self.runs.values_mut().filter_map(|aside| aside.retry.as_mut()) {
            *at = at.shifted(by);
        }
        self.retried.values_mut().for_each(|(at, _)| *at = at.shifted(by));
    }

    /// Takes the runs whose time has come.
    fn take_due(&mut self, now: Time) -> Vec<RunId> {
        let due: Vec<RunId> =
            self.retries.iter().take_while(|(at, _)| *at <= now).map(|(_, run)| *run).collect();
        if !due.is_empty() {
            self.retried.retain(|_, (at, waited)| *at + *waited > now);
        }
        for run in &due {
            let waited = self.runs.get(run).and_then(|aside| aside.retry).map(|(_, waited)| waited);
            self.retried.extend(waited.map(|waited| (*run, (now, waited))));
        }
        due
    }

    /// A run goes wrong now: when it is tried again, and how long that is.
    fn schedule_retry(&mut self, run: RunId, now: Time) -> (Time, Millis) {
        let wait = match self.retried.remove(&run) {
            Some((at, waited)) if at + waited > now => Millis(waited.0.saturating_mul(2)).min(LAST_RETRY),
            Some(_) | None => FIRST_RETRY,
        };
        (now + wait, wait)
    }

    fn remove(&mut self, run: RunId) -> Option<SetAsideRun> {
        let aside = self.runs.remove(&run)?;
        if let Some((at, _)) = aside.retry {
            self.retries.remove(&(at, run));
        }
        Some(aside)
    }
}

impl<S: Store> Engine<S> {
    /// How many runs are set aside.
    pub fn set_aside_count(&self) -> usize {
        self.aside.runs.len()
    }

    pub(crate) fn is_set_aside(&self, run: RunId) -> bool {
        !self.aside.runs.is_empty() && self.aside.runs.contains_key(&run)
    }

    /// Sets a run aside; `flow` is given if that cannot be used. One that is set aside already keeps its times.
    pub(super) fn set_aside(&mut self, run: RunId, flow: Option<FlowId>, why: &str) {
        let now = self.last;
        let before = self.aside.remove(run);
        let retry = match (&before, flow) {
            (_, Some(_)) => None,
            (Some(SetAsideRun { retry: Some(retry), .. }), None) => Some(*retry),
            (Some(_) | None, None) => Some(self.aside.schedule_retry(run, now)),
        };
        let since = before.as_ref().map_or(now, |aside| aside.since);
        let held = before.map(|aside| aside.held).unwrap_or_default();
        self.aside.retries.extend(retry.map(|(at, _)| (at, run)));
        self.aside.runs.insert(run, SetAsideRun { since, flow, retry, held });
        let next_try = retry.map(|(at, _)| at);
        tracing::warn!(%run, why, "run set aside");
        self.store.set_aside(run, SetAside { since, why: why.into(), next_try });
    }

    /// Runs that went wrong are tried again when their time has come.
    pub(super) fn retry_aside(&mut self) {
        for run in self.aside.take_due(self.last) {
            self.release(run);
        }
    }

    /// The flow of a run that is set aside is given another chance, for somebody asks.
    pub(super) fn retry_flow_of(&mut self, run: RunId) {
        if let Some(flow) = self.aside.runs.get(&run).and_then(|aside| aside.flow) {
            self.flows.retry(flow);
        }
    }

    /// This flow can be used: so can the runs that were set aside because of it.
    pub(crate) fn release_flow(&mut self, flow: FlowId) {
        let waiting = self.aside.runs.iter().filter(|(_, aside)| aside.flow == Some(flow));
        let runs: Vec<RunId> = waiting.map(|(run, _)| *run).collect();
        for run in runs {
            self.release(run);
        }
    }

    /// A staged batch has decided something about runs that are set aside, or could not hear what was said about them.
    pub(super) fn record_staged_aside(&mut self, done: &mut OutstandingBatch) {
        for (run, request) in std::mem::take(&mut done.held) {
            match self.aside.runs.get_mut(&run) {
                Some(aside) => aside.held.push(request),
                None => self.inbox.push_back(request),
            }
        }
        for run in std::mem::take(&mut done.released) {
            match self.aside.runs.get(&run).and_then(|aside| aside.flow) {
                Some(flow) if !self.flows.is_unusable(flow) => self.release_flow(flow),
                // What was decided about it needs no flow.
                Some(_) | None => self.release(run),
            }
        }
    }

    fn release(&mut self, run: RunId) {
        let Some(aside) = self.aside.remove(run) else { return };
        tracing::info!(%run, "run no longer set aside");
        self.store.release(run);
        self.clock.add_returned_run(run);
        self.inbox.extend(aside.held);
        self.more = true;
    }
}

/// Why a run whose flow cannot be used is set aside.
pub fn flow_unusable(problem: &str) -> String {
    format!(
        "{problem}. Use the version of Unstuck that loaded this flow, or report this as a bug. The run resumes \
         automatically when the flow can be used again"
    )
}
