//! What the two stores are asked: both get every question, and their answers are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, ResultKind, Target, TargetResult};
use unstuck_core::clock::ClockRecord;
use unstuck_core::command::Notice;
use unstuck_core::decide::Withheld;
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use super::{Logged, Twin, assert_same, died};
use crate::conformance::TestStore;
use crate::contract::{
    AuditId, Candidate, Due, EndedSession, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter,
    Interrupt, Locked, LockedThing, NewFlow, NewSession, NoticeId, OpenErrorFilter, PolicyAudit,
    PolicyChange, PolicyHits, PutFlowError, RunFilter, RunLogs, Session, SetAside, Settled, Stage, StageId,
    Store, StoreError, Versions,
};

impl<A: TestStore, B: TestStore> Store for Twin<'_, A, B> {
    fn begin(&mut self) -> Result<(), StoreError> {
        self.ask(A::begin, B::begin)
    }

    fn lock(&mut self, runs: &[RunId]) -> Result<Vec<Locked>, StoreError> {
        self.ask(|oracle| oracle.lock(runs), |store| store.lock(runs))
    }

    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.ask(|oracle| oracle.run_of_key(flow, key), |store| store.run_of_key(flow, key))
    }

    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.ask(|oracle| oracle.payloads(ids), |store| store.payloads(ids))
    }

    fn candidates(&mut self, offers: &[Offer], limit: usize) -> Result<Vec<Candidate>, StoreError> {
        self.ask(|oracle| oracle.candidates(offers, limit), |store| store.candidates(offers, limit))
    }

    fn highest_waiting_priority(&mut self, queues: &[Arc<str>]) -> Result<Option<i32>, StoreError> {
        self.ask(
            |oracle| oracle.highest_waiting_priority(queues),
            |store| store.highest_waiting_priority(queues),
        )
    }

    fn admissible_runs(&mut self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.ask(|oracle| oracle.admissible_runs(limit), |store| store.admissible_runs(limit))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.ask(|oracle| oracle.due(now, limit), |store| store.due(now, limit))
    }

    fn slot_holders(&mut self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError> {
        self.ask(|oracle| oracle.slot_holders(limit, most), |store| store.slot_holders(limit, most))
    }

    fn withhold(&mut self, due: &Due, until: Withheld) {
        self.oracle.withhold(due, until);
        self.store().withhold(due, until);
    }

    fn release_withheld(&mut self, limit: usize) -> usize {
        let given = self.oracle.release_withheld(limit);
        assert_eq!(self.store().release_withheld(limit), given, "as many wait for a turn in both");
        given
    }

    fn notices(&mut self, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        let mut ids = Vec::new();
        let found = self.ask(
            |oracle| oracle.notices(limit).map(|all| split_ids(all, &mut ids)),
            |store| store.notices(limit).map(|all| split_ids(all, &mut Vec::new())),
        )?;
        Ok(self.names.of_oracle(&ids).into_iter().zip(found).collect())
    }

    fn due_notices(&mut self, now: Time, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        let mut ids = Vec::new();
        let found = self.ask(
            |oracle| oracle.due_notices(now, limit).map(|all| split_ids(all, &mut ids)),
            |store| store.due_notices(now, limit).map(|all| split_ids(all, &mut Vec::new())),
        )?;
        Ok(self.names.of_oracle(&ids).into_iter().zip(found).collect())
    }

    fn notices_to(&mut self, thing: ThingRef) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        let mut ids = Vec::new();
        let found = self.ask(
            |oracle| oracle.notices_to(thing).map(|all| split_ids(all, &mut ids)),
            |store| store.notices_to(thing).map(|all| split_ids(all, &mut Vec::new())),
        )?;
        Ok(self.names.of_oracle(&ids).into_iter().zip(found).collect())
    }

    fn postponed_receivers(&mut self) -> Result<Vec<ThingRef>, StoreError> {
        self.ask(Store::postponed_receivers, Store::postponed_receivers)
    }

    fn due_things(&mut self, now: Time, limit: usize) -> Result<Vec<ThingRef>, StoreError> {
        self.ask(|oracle| oracle.due_things(now, limit), |store| store.due_things(now, limit))
    }

    fn lock_things(&mut self, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError> {
        self.ask(|oracle| oracle.lock_things(things), |store| store.lock_things(things))
    }

    fn things(&mut self) -> Result<Vec<Thing>, StoreError> {
        self.ask(Store::things, Store::things)
    }

    fn target_results(&mut self, bulk: BulkId, places: &[u64]) -> Result<Vec<TargetResult>, StoreError> {
        self.ask(|oracle| oracle.target_results(bulk, places), |store| store.target_results(bulk, places))
    }

    /// Only for runs that no notice is on its way to: the twin finds notices by their places.
    fn has_notices_about(&mut self, runs: &[RunId]) -> Result<bool, StoreError> {
        self.ask(|oracle| oracle.has_notices_about(runs), |store| store.has_notices_about(runs))
    }

    fn set_aside(&mut self, run: RunId, aside: SetAside) {
        self.oracle.set_aside(run, aside.clone());
        self.store().set_aside(run, aside);
    }

    fn release(&mut self, run: RunId) {
        self.oracle.release(run);
        self.store().release(run);
    }

    /// Only a store on a disk has one, and nothing that is compared depends on it.
    fn release_reserve(&mut self) -> bool {
        self.store().release_reserve()
    }

    fn set_aside_record(&mut self, run: RunId) -> Option<SetAside> {
        self.oracle.set_aside_record(run)
    }

    fn stage(&mut self, stage: Stage) -> Result<StageId, StoreError> {
        if let Some(error) = self.refusal.take() {
            self.rollback();
            return Err(error);
        }
        let (mut theirs, mut ours) = (stage.clone(), stage.clone());
        theirs.delivered = self.names.translate(&stage.delivered, |(oracle, _)| oracle);
        ours.delivered = self.names.translate(&stage.delivered, |(_, store)| store);
        theirs.postponed = self.names.translate(&stage.postponed, |(oracle, _)| oracle);
        ours.postponed = self.names.translate(&stage.postponed, |(_, store)| store);
        let mut id = None;
        let result = self.both(
            |oracle| oracle.stage(theirs).map(|_| ()),
            |store| store.stage(ours).map(|staged| id = Some(staged)),
        );
        result?;
        if self.has_crashed() {
            self.names.note(&stage, &mut self.oracle, None::<&mut B>);
            // It may have come so far all the same: then nobody is told anything about it.
            self.log.extend(id.map(|id| Logged { id, stage }));
            return id.map_or_else(|| self.after_death(Ok(StageId(0))), Ok);
        }
        let id = id.expect("both have staged");
        self.names.note(&stage, &mut self.oracle, self.store.as_mut());
        self.log.push(Logged { id, stage });
        Ok(id)
    }

    fn abandon(&mut self, locked: Vec<Run>) {
        self.oracle.abandon(locked.clone());
        self.store().abandon(locked);
    }

    fn rollback(&mut self) {
        self.oracle.rollback();
        self.store().rollback();
    }

    /// What has settled is taken in, and compared with what was staged.
    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        self.take_in(wait);
        if self.has_crashed() {
            // Whatever else it would have said: it may be there all the same.
            self.settled.retain(|settled| settled.result.is_ok());
        }
        std::mem::take(&mut self.settled)
    }

    /// A process that dies while it opens its session is followed by another one, which may be the first or the second.
    fn open_session(&mut self, new: NewSession) -> Result<Session, StoreError> {
        let mut deaths = 0;
        let found = loop {
            let found = self.store().open_session(new.clone());
            if !self.has_crashed() {
                break found;
            }
            deaths += 1;
            let flows = self.compiled.clone();
            self.crash(&flows);
        };
        let mut expected = self.oracle.open_session(new.clone());
        self.session_keys.push(new.clone());
        while deaths > 0 && incarnation(&expected) < incarnation(&found) {
            deaths -= 1;
            expected = self.oracle.open_session(new.clone());
            self.session_keys.push(new.clone());
        }
        assert_same(&expected, &found);
        found
    }

    fn renew_session(&mut self) -> Result<(), StoreError> {
        self.ask(A::renew_session, B::renew_session)
    }

    fn end_session(&mut self) {
        self.oracle.end_session();
        self.store().end_session();
    }

    fn ended_sessions(&mut self) -> Result<Vec<EndedSession>, StoreError> {
        self.ask(A::ended_sessions, B::ended_sessions)
    }

    fn interrupts(&mut self) -> Result<Vec<Interrupt>, StoreError> {
        self.ask(A::interrupts, B::interrupts)
    }

    fn downtimes(&mut self) -> Result<Vec<Downtime>, StoreError> {
        self.ask(A::downtimes, B::downtimes)
    }

    fn clock(&mut self) -> Result<ClockRecord, StoreError> {
        self.ask(A::clock, B::clock)
    }

    fn timers(
        &mut self,
        after: Option<(Time, RunId, Option<UnitRef>)>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.ask(|oracle| oracle.timers(after, limit), |store| store.timers(after, limit))
    }

    fn record_alive(&mut self, now: Time) {
        self.seen = self.seen.max(Some(now));
        self.oracle.record_alive(now);
        self.store().record_alive(now);
    }

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        self.ask(A::last_seen, B::last_seen)
    }

    fn next_due(&mut self) -> Result<Option<Time>, StoreError> {
        self.ask(A::next_due, B::next_due)
    }

    fn last_time(&mut self) -> Result<Option<Time>, StoreError> {
        self.ask(A::last_time, B::last_time)
    }

    fn last_id(&mut self) -> Result<u64, StoreError> {
        self.ask(A::last_id, B::last_id)
    }

    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.ask(|oracle| oracle.run(run), |store| store.run(run))
    }

    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.ask(|oracle| oracle.history(run, after, limit), |store| store.history(run, after, limit))
    }

    fn list(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.ask(|oracle| oracle.list(filter, before, limit), |store| store.list(filter, before, limit))
    }

    fn count_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        self.ask(|oracle| oracle.count_runs(since), |store| store.count_runs(since))
    }

    fn put_flow(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError> {
        let expected = self.oracle.put_flow(flow.clone());
        let found = self.store().put_flow(flow.clone());
        if self.has_crashed() {
            self.unsure.push(flow);
            return if self.compile.is_some() { Err(PutFlowError::Store(died())) } else { expected };
        }
        assert_eq!(found, expected, "the stores keep a flow alike, its id included");
        let kept = found?;
        self.keep_flow(flow, &kept);
        Ok(kept)
    }

    fn flow(&mut self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError> {
        self.ask(|oracle| oracle.flow(flow), |store| store.flow(flow))
    }

    fn flows(&mut self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError> {
        self.ask(|oracle| oracle.flows(after, limit), |store| store.flows(after, limit))
    }

    fn newest_flow(&mut self, name: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.ask(|oracle| oracle.newest_flow(name), |store| store.newest_flow(name))
    }

    fn versions(&mut self) -> Result<Versions, StoreError> {
        if self.has_crashed() {
            let answer = self.oracle.versions();
            return self.after_death(answer);
        }
        self.store().versions()
    }

    fn on_news(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.store().on_news(wake);
    }

    fn policies(&mut self) -> Result<Vec<Policy>, StoreError> {
        self.ask(A::policies, B::policies)
    }

    fn policy_switch(&mut self) -> Result<PolicySwitch, StoreError> {
        self.ask(A::policy_switch, B::policy_switch)
    }

    fn put_policies(&mut self, change: PolicyChange, made_on: u64) -> Result<(), StoreError> {
        let newest = self.oracle.versions().expect("reads").policies;
        // Whoever is dead already keeps nothing.
        if self.has_crashed() {
            let answer = self.oracle.put_policies(change, newest);
            return self.after_death(answer);
        }
        // The oracle is made again now and then, and counts from the beginning.
        let is_newest = self.store().versions().expect("reads").policies == made_on;
        let theirs = if is_newest { newest } else { newest + 1 };
        self.both(
            |oracle| oracle.put_policies(change.clone(), theirs),
            |store| store.put_policies(change.clone(), made_on),
        )?;
        if self.has_crashed() {
            self.unsure_policies = Some(change);
            return self.after_death(Ok(()));
        }
        self.policies.push(change);
        Ok(())
    }

    fn policy_audit(
        &mut self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        self.ask(|oracle| oracle.policy_audit(before, limit), |store| store.policy_audit(before, limit))
    }

    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError> {
        self.ask(A::policy_hits, B::policy_hits)
    }

    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.ask(|oracle| oracle.errors(filter, after, limit), |store| store.errors(filter, after, limit))
    }

    fn open_errors(
        &mut self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.ask(
            |oracle| oracle.open_errors(filter, after, limit),
            |store| store.open_errors(filter, after, limit),
        )
    }

    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError> {
        self.ask(|oracle| oracle.error_groups(filter, limit), |store| store.error_groups(filter, limit))
    }

    fn logs(&mut self, run: RunId) -> Result<RunLogs, StoreError> {
        self.ask(|oracle| oracle.logs(run), |store| store.logs(run))
    }

    fn needs_backfill(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.ask(|oracle| oracle.needs_backfill(after, limit), |store| store.needs_backfill(after, limit))
    }

    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError> {
        let (theirs, ours) = (targets.clone(), targets.clone());
        self.ask(|oracle| oracle.put_targets(bulk, theirs), |store| store.put_targets(bulk, ours))?;
        self.drafts.entry(bulk).or_default().extend(targets);
        Ok(())
    }

    fn put_bulk(&mut self, bulk: Bulk) -> Result<(), StoreError> {
        let (theirs, ours) = (bulk.clone(), bulk.clone());
        self.both(|oracle| oracle.put_bulk(theirs), |store| store.put_bulk(ours))?;
        let targets = self.drafts.remove(&bulk.id).unwrap_or_default();
        if self.has_crashed() {
            self.unsure_bulk = Some((bulk, targets));
            return self.after_death(Ok(()));
        }
        self.bulks.push((bulk, targets));
        Ok(())
    }

    fn bulk(&mut self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        self.ask(|oracle| oracle.bulk(bulk), |store| store.bulk(bulk))
    }

    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError> {
        self.ask(
            |oracle| oracle.bulks(open_only, before, limit),
            |store| store.bulks(open_only, before, limit),
        )
    }

    fn targets(
        &mut self,
        bulk: BulkId,
        only: Option<ResultKind>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Target>, StoreError> {
        self.ask(
            |oracle| oracle.targets(bulk, only, from, limit),
            |store| store.targets(bulk, only, from, limit),
        )
    }

    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError> {
        self.ask(
            |oracle| oracle.next_targets(bulk, from, limit).map(without_results),
            |store| store.next_targets(bulk, from, limit).map(without_results),
        )
    }
}

fn incarnation(session: &Result<Session, StoreError>) -> u64 {
    session.as_ref().map_or(0, |session| session.incarnation)
}

/// Targets as they are known to whoever does not look at results.
fn without_results(mut targets: Vec<Target>) -> Vec<Target> {
    for target in &mut targets {
        target.result = TargetResult::Pending;
    }
    targets
}

/// The notices alone; what they are called is noted.
fn split_ids(all: Vec<(NoticeId, Notice)>, ids: &mut Vec<NoticeId>) -> Vec<Notice> {
    let (names, notices): (Vec<NoticeId>, Vec<Notice>) = all.into_iter().unzip();
    *ids = names;
    notices
}
