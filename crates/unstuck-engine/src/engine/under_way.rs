//! Batches that are asked for: what each is to do, what it wants to see for that, and what it takes from the line.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustc_hash::FxHashSet;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::AttemptId;
use unstuck_store::contract::{BatchId, Store, StoreError, Wants};

use super::Engine;
use super::clock::SweepPage;
use super::isolation::{BatchFailure, Isolation, WorkKind, panic_message};
use super::settling::OutstandingBatch;
use crate::request::{Output, Request};

/// A batch that was asked for.
pub(super) struct UnderWay {
    pub(super) id: BatchId,
    pub(super) plan: BatchPlan,
}

/// What a batch is to do.
#[derive(Default)]
pub(super) struct BatchPlan {
    pub(super) wants: Wants,
    /// What was asked, in order.
    pub(super) requests: Vec<Request>,
    /// Whether it looks for what nobody asked for: claims, admissions, notices, what is due, bulk actions. One batch at a
    /// time does, so that no room is promised twice.
    pub(super) looks_around: bool,
    /// Whether there was something to look for: if the batch comes to nothing, there still is.
    pub(super) had_more: bool,
    /// Of what kind the one thing is that it does, if it does one thing alone.
    pub(super) alone: Option<WorkKind>,
    /// Timers to look at, and runs that have returned.
    pub(super) sweep: SweepPage,
}

impl<S: Store> Engine<S> {
    /// Begins a batch, if one may be under way and there is something for it to do.
    pub(super) fn ask_for_batch(&mut self, outputs: &mut Vec<Output>) {
        if !self.has_free_lane() {
            return;
        }
        let mut plan = BatchPlan::default();
        let planned = catch_unwind(AssertUnwindSafe(|| self.plan_batch(&mut plan)))
            .map_err(|panic| BatchFailure::Panic(panic_message(&*panic)))
            .and_then(|planned| planned.map_err(BatchFailure::Store));
        let asked = match planned {
            Ok(false) => return,
            Ok(true) => self.store.ask(&plan.wants).map_err(BatchFailure::Store),
            Err(failure) => Err(failure),
        };
        match asked {
            Ok(id) => {
                // What is staged from now on, by whichever batch, is to be looked for by the next.
                if plan.looks_around {
                    plan.had_more = std::mem::take(&mut self.more);
                }
                self.under_way.push(UnderWay { id, plan });
            }
            Err(failure) => self.ask_failed(plan, failure, outputs),
        }
    }

    /// Whether one more batch may be under way. What is done alone is alone.
    fn has_free_lane(&mut self) -> bool {
        match self.under_way.len() {
            0 => true,
            busy => self.isolation.is_none() && busy < self.store.lanes(),
        }
    }

    /// Whether there is something for one more batch to do, beside those that are under way.
    pub(super) fn can_ask_for_more(&mut self) -> bool {
        if self.under_way.is_empty() || self.inbox.is_empty() || !self.has_free_lane() {
            return false;
        }
        let taken = self.runs_under_way();
        let looks_around = !self.is_looking_around();
        self.inbox.iter().any(|request| is_free(request, &taken, looks_around))
    }

    /// Whether a batch is under way that looks for what nobody asked for.
    pub(super) fn is_looking_around(&self) -> bool {
        self.under_way.iter().any(|batch| batch.plan.looks_around)
    }

    /// The store could not be asked, or could not answer.
    pub(super) fn ask_failed(&mut self, plan: BatchPlan, failure: BatchFailure, outputs: &mut Vec<Output>) {
        let mut done = OutstandingBatch::default();
        done.counts.add(WorkKind::Request, plan.requests.len());
        self.more |= plan.had_more;
        self.put_back_in_line(plan.requests);
        self.failed(failure, &done, outputs);
    }

    /// Requests of a batch that came to nothing are in line again, before everything else.
    pub(super) fn put_back_in_line(&mut self, requests: Vec<Request>) {
        for request in requests.into_iter().rev() {
            self.inbox.push_front(request);
        }
    }

    /// Plans a batch; false if there is nothing to do for one more.
    fn plan_batch(&mut self, plan: &mut BatchPlan) -> Result<bool, StoreError> {
        plan.looks_around = !self.is_looking_around();
        plan.alone = self.isolation.as_ref().map(Isolation::current_kind);
        let max_batch = if plan.alone.is_some() { 1 } else { self.batch_limit };
        let alone = plan.alone;
        let limit = |work| if alone.is_none_or(|alone| alone == work) { max_batch } else { 0 };
        if plan.looks_around {
            self.release_paced_resumes();
            plan.wants.runs = self.find_targets(limit(WorkKind::Bulk), &mut plan.wants.about)?;
            if alone.is_none() {
                plan.sweep = self.find_old_timers(max_batch)?;
                plan.wants.runs.extend(plan.sweep.runs());
            }
        }
        self.take_requests(plan, limit(WorkKind::Request));
        if !plan.looks_around && plan.requests.is_empty() {
            return Ok(false);
        }
        let wants = &mut plan.wants;
        wants.now = self.last;
        if plan.looks_around {
            wants.claims = limit(WorkKind::Claim);
            if wants.claims > 0 {
                wants.offers = self.offers.open().cloned().collect();
            }
            wants.admissions = limit(WorkKind::Admission);
            wants.notices = limit(WorkKind::Notice);
            wants.due = limit(WorkKind::Due);
            wants.things = limit(WorkKind::Bulk);
        }
        Ok(true)
    }

    /// Takes requests from the line, in order, with what they want to see: but for those about runs that are in a batch under
    /// way, which wait their turn.
    fn take_requests(&mut self, plan: &mut BatchPlan, limit: usize) {
        if self.under_way.is_empty() {
            plan.requests = self.inbox.drain(..limit.min(self.inbox.len())).collect();
        } else {
            let mut taken = self.runs_under_way();
            let mut left = std::collections::VecDeque::with_capacity(self.inbox.len());
            while let Some(request) = self.inbox.pop_front() {
                if is_free(&request, &taken, plan.looks_around) && plan.requests.len() < limit {
                    plan.requests.push(request);
                    continue;
                }
                // What comes later for the same runs does not overtake it.
                taken.extend(runs_of(&request));
                left.push_back(request);
            }
            self.inbox = left;
        }
        self.want_requests(plan);
    }

    fn runs_under_way(&self) -> FxHashSet<RunId> {
        let plans = self.under_way.iter().map(|batch| &batch.plan);
        let asked = plans.clone().flat_map(|plan| &plan.wants.runs).copied();
        asked.chain(plans.flat_map(|plan| &plan.requests).flat_map(runs_of)).collect()
    }

    /// What the requests want to see.
    fn want_requests(&self, plan: &mut BatchPlan) {
        let BatchPlan { requests, wants, .. } = plan;
        wants.runs.reserve(requests.len());
        for request in &*requests {
            if let Some(key) = self.call_of(request).and_then(|call| call.idempotency.as_ref()) {
                wants.idempotency.push((key.scope.clone(), key.key.clone()));
            }
            match request {
                Request::Start { start, .. } => {
                    wants.keys.extend(start.key.clone().map(|key| (start.flow.clone(), key)));
                }
                Request::Forget { runs, .. } => {
                    wants.runs.extend(runs.iter().map(|(run, _)| *run));
                    wants.about.extend(runs.iter().map(|(run, _)| *run));
                }
                Request::Executor(word) => {
                    wants.runs.extend(request.run());
                    self.want_queues(wants, word.ended_attempt());
                }
                Request::Command { command, .. } => {
                    wants.runs.extend(request.run());
                    self.want_queues(wants, self.attempt_ended_by_caller(command));
                }
                Request::Lost { .. } | Request::Bulk { .. } | Request::Schedule { .. } => {
                    wants.runs.extend(request.run());
                }
            }
        }
    }

    /// What waits for the worker of an attempt that has ended: it is handed nothing while something of a higher priority does.
    fn want_queues(&self, wants: &mut Wants, ended: Option<AttemptId>) {
        let holder = ended.and_then(|attempt| self.handed_out.get(&attempt));
        let offer = holder.and_then(|(worker, _)| self.offers.of(worker));
        for queue in offer.iter().flat_map(|offer| offer.queues.iter()) {
            if !wants.queues.contains(queue) {
                wants.queues.push(queue.clone());
            }
        }
    }
}

/// Whether a request can be taken while these runs are in batches under way.
fn is_free(request: &Request, taken: &FxHashSet<RunId>, looks_around: bool) -> bool {
    match request {
        Request::Start { .. } => true,
        // Whoever looks around goes on with bulk actions and schedules.
        Request::Bulk { .. } | Request::Schedule { .. } => looks_around,
        Request::Forget { .. } | Request::Command { .. } | Request::Executor(_) | Request::Lost { .. } => {
            runs_of(request).all(|run| !taken.contains(&run))
        }
    }
}

/// The runs that a request is about.
fn runs_of(request: &Request) -> impl Iterator<Item = RunId> {
    let family: &[(RunId, u64)] = match request {
        Request::Forget { runs, .. } => runs,
        Request::Start { .. }
        | Request::Command { .. }
        | Request::Bulk { .. }
        | Request::Schedule { .. }
        | Request::Executor(_)
        | Request::Lost { .. } => &[],
    };
    request.run().into_iter().chain(family.iter().map(|(run, _)| *run))
}
