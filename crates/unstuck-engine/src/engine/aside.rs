//! Runs that are set aside: their flow cannot be used, or whatever is decided about them goes wrong. Nothing of them is
//! offered until somebody acts or the engine starts again; everything else goes on.

use unstuck_core::id::{FlowId, RunId};
use unstuck_store::contract::Store;

use super::Engine;
use super::settling::Outstanding;
use crate::request::Request;

/// A run that is set aside. Why is known to the store, where it is read.
#[derive(Debug, Default)]
pub(crate) struct AsideRun {
    /// The flow version that cannot be used, if that is why.
    flow: Option<FlowId>,
    /// Last words of executors and losses, which are heard when it is released.
    held: Vec<Request>,
}

impl<S: Store> Engine<S> {
    /// How many runs are set aside.
    pub fn aside(&self) -> usize {
        self.aside.len()
    }

    pub(crate) fn is_aside(&self, run: RunId) -> bool {
        !self.aside.is_empty() && self.aside.contains_key(&run)
    }

    /// Sets a run aside; `flow` is given if that cannot be used.
    pub(super) fn set_aside(&mut self, run: RunId, flow: Option<FlowId>, why: &str) {
        self.aside.entry(run).or_default().flow = flow;
        self.store.set_aside(run, why.into());
    }

    /// The flow of a run that is set aside is given another chance, for somebody asks.
    pub(super) fn retry_flow_of(&mut self, run: RunId) {
        if let Some(flow) = self.aside.get(&run).and_then(|aside| aside.flow) {
            self.flows.retry(flow);
        }
    }

    /// This flow can be used: so can the runs that were set aside because of it.
    pub(super) fn release_flow(&mut self, flow: FlowId) {
        let waiting = self.aside.iter().filter(|(_, aside)| aside.flow == Some(flow));
        let runs: Vec<RunId> = waiting.map(|(run, _)| *run).collect();
        for run in runs {
            self.release(run);
        }
    }

    /// A staged batch has decided something about runs that are set aside, or could not hear what was said about them.
    pub(super) fn staged_aside(&mut self, done: &mut Outstanding) {
        for (run, request) in std::mem::take(&mut done.held) {
            match self.aside.get_mut(&run) {
                Some(aside) => aside.held.push(request),
                None => self.inbox.push_back(request),
            }
        }
        for run in std::mem::take(&mut done.released) {
            match self.aside.get(&run).and_then(|aside| aside.flow) {
                Some(flow) if !self.flows.is_bad(flow) => self.release_flow(flow),
                // What was decided about it needs no flow.
                Some(_) | None => self.release(run),
            }
        }
    }

    fn release(&mut self, run: RunId) {
        let Some(aside) = self.aside.remove(&run) else { return };
        self.store.release(run);
        self.inbox.extend(aside.held);
        self.more = true;
    }
}

/// Why a run whose flow cannot be used is set aside.
pub fn flow_unusable(problem: &str) -> String {
    format!(
        "{problem}. Use the version of Unstuck that loaded this flow, or report this as a defect. The run goes on when the \
         flow can be used again"
    )
}
