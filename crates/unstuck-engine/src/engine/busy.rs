//! Runs that another server has locked: what is asked of them waits a moment, in order, instead of being tried without end.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::id::RunId;
use unstuck_core::thing::ThingRef;
use unstuck_core::time::{Millis, Time};

use crate::request::Request;

/// After so long a run that somebody else had is tried again: about as long as a batch takes.
const BUSY_RETRY: Millis = Millis(3);
/// So often. Whoever has it after that is slow or dead, and is asked less and less often.
const QUICK_TRIES: u32 = 5;
/// And at least this often.
const MAX_BUSY_RETRY: Millis = Millis(100);

/// Requests that wait for runs that somebody else has.
#[derive(Debug, Default)]
pub(super) struct BusyRequests {
    requests: VecDeque<Request>,
    runs: FxHashSet<RunId>,
    /// When they are tried again, and whatever else was busy.
    retry_at: Option<Time>,
    /// How often each was found busy in a row, and how often it had been before it was tried last.
    tries: FxHashMap<ThingRef, u32>,
    earlier: FxHashMap<ThingRef, u32>,
}

impl BusyRequests {
    /// These could not be decided at `now`, in this order, because somebody else had these things.
    pub(super) fn wait(&mut self, requests: Vec<Request>, busy: &FxHashSet<ThingRef>, now: Time) {
        let mut fewest = u32::MAX;
        let asked = requests.iter().filter_map(Request::run).map(ThingRef::Run);
        for thing in busy.iter().copied().chain(asked) {
            let tries = self.earlier.get(&thing).map_or(1, |earlier| earlier.saturating_add(1));
            self.tries.insert(thing, tries);
            fewest = fewest.min(tries);
        }
        self.forget_earlier_tries();
        self.runs.extend(requests.iter().filter_map(Request::run));
        self.requests.extend(requests);
        // What waits already is not put off by what finds something busy after it.
        let retry_at = now + wait_after(fewest);
        self.retry_at = Some(self.retry_at.map_or(retry_at, |at| at.min(retry_at)));
    }

    /// What was tried again and is not busy any more begins anew, should it be busy later.
    pub(super) fn forget_earlier_tries(&mut self) {
        self.earlier.clear();
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
        if self.retry_at.is_some_and(|at| at <= now || now + MAX_BUSY_RETRY < at) {
            self.retry_at = None;
            self.runs.clear();
            self.earlier = std::mem::take(&mut self.tries);
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

/// How long to wait for a run that was found busy so often in a row.
fn wait_after(tries: u32) -> Millis {
    let doublings = tries.saturating_sub(QUICK_TRIES).min(16);
    Millis(BUSY_RETRY.0 << doublings).min(MAX_BUSY_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(run: u64) -> Request {
        let unit = unstuck_core::model::unit::UnitRef::step(unstuck_core::model::flow::StepIndex(0));
        let attempt =
            unstuck_core::model::attempt::AttemptId { run: RunId(run), generation: 1, unit, attempt: 1 };
        Request::Lost { attempt, with_others: false }
    }

    #[test]
    fn what_waits_is_tried_in_time_and_in_order_however_often_something_else_is_busy() {
        let mut busy = BusyRequests::default();
        busy.wait(vec![lost(1)], &FxHashSet::default(), Time(100));
        assert!(busy.keep_in_order(lost(1)).is_none(), "it must not overtake the first");
        assert!(busy.keep_in_order(lost(2)).is_some(), "nothing of this run waits");
        let mut inbox = VecDeque::from([lost(3)]);
        for now in 101..103 {
            busy.take_due(Time(now), &mut inbox);
            busy.wait(Vec::new(), &FxHashSet::from_iter([ThingRef::Run(RunId(7))]), Time(now));
        }
        assert_eq!(inbox.len(), 1, "it is not time yet");
        busy.take_due(Time(103), &mut inbox);
        let runs: Vec<u64> = inbox.iter().filter_map(Request::run).map(|run| run.0).collect();
        assert_eq!((runs, busy.retry_at()), (vec![1, 1, 3], None));
    }

    #[test]
    fn a_run_that_stays_busy_is_tried_less_and_less_often_and_a_fresh_one_soon() {
        let (mut busy, mut inbox) = (BusyRequests::default(), VecDeque::new());
        let (old, fresh) = (
            FxHashSet::from_iter([ThingRef::Run(RunId(1))]),
            FxHashSet::from_iter([ThingRef::Run(RunId(2))]),
        );
        let mut now = Time(100);
        let mut waits = Vec::new();
        for _ in 0..12 {
            busy.wait(Vec::new(), &old, now);
            let at = busy.retry_at().expect("it waits");
            waits.push(at.since(now).0);
            now = at;
            busy.take_due(now, &mut inbox);
        }
        assert_eq!(waits, [3, 3, 3, 3, 3, 6, 12, 24, 48, 96, 100, 100]);
        busy.wait(Vec::new(), &old, now);
        busy.wait(vec![lost(2)], &fresh, now);
        assert_eq!(busy.retry_at(), Some(now + BUSY_RETRY), "nobody has waited for this one");
        busy.take_due(now + BUSY_RETRY, &mut inbox);
        busy.take_due(now + BUSY_RETRY, &mut inbox);
        now = now + Millis(4);
        busy.wait(Vec::new(), &old, now);
        assert_eq!(busy.retry_at(), Some(now + MAX_BUSY_RETRY), "it was busy all the while");
        busy.take_due(now + MAX_BUSY_RETRY, &mut inbox);
        busy.forget_earlier_tries();
        busy.wait(Vec::new(), &old, now);
        assert_eq!(busy.retry_at(), Some(now + BUSY_RETRY), "it was free meanwhile");
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_waited_for() {
        let mut busy = BusyRequests::default();
        busy.wait(vec![lost(1)], &FxHashSet::default(), Time(1_000_000));
        let mut inbox = VecDeque::new();
        busy.take_due(Time(5), &mut inbox);
        assert_eq!(inbox.len(), 1);
    }
}
