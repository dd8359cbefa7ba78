//! Runs that another server has locked: what is asked of them waits a moment, in order, instead of being tried without end.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use unstuck_core::id::RunId;
use unstuck_core::time::{Millis, Time};

use crate::request::Request;

/// After so long a run that somebody else had is tried again: about as long as a batch takes.
const BUSY_RETRY: Millis = Millis(3);

/// Requests that wait for runs that somebody else has.
#[derive(Debug, Default)]
pub(super) struct BusyRequests {
    requests: VecDeque<Request>,
    runs: FxHashSet<RunId>,
    /// When they are tried again, and whatever else was busy.
    retry_at: Option<Time>,
}

impl BusyRequests {
    /// These could not be decided at `now`, in this order, because somebody else had their runs.
    pub(super) fn wait(&mut self, requests: Vec<Request>, now: Time) {
        self.runs.extend(requests.iter().filter_map(Request::run));
        self.requests.extend(requests);
        self.retry_at = Some(now + BUSY_RETRY);
    }

    /// Keeps a request that must not overtake one that waits; gives it back if there is none.
    pub(super) fn keep_in_order(&mut self, request: Request) -> Option<Request> {
        if self.runs.is_empty() || !request.run().is_some_and(|run| self.runs.contains(&run)) {
            return Some(request);
        }
        self.requests.push_back(request);
        None
    }

    /// Puts them in line again, before everything else, if it is time. A clock that was set back is not waited for.
    pub(super) fn take_due(&mut self, now: Time, inbox: &mut VecDeque<Request>) {
        if self.retry_at.is_some_and(|at| at <= now || now + BUSY_RETRY < at) {
            self.retry_at = None;
            self.runs.clear();
            while let Some(request) = self.requests.pop_back() {
                inbox.push_front(request);
            }
        }
    }

    /// Callers that do not wait any longer; what executors say stays.
    pub(super) fn retain(&mut self, keeps: impl FnMut(&Request) -> bool) {
        self.requests.retain(keeps);
    }

    pub(super) fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }
}
