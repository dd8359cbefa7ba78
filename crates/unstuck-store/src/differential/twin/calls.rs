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
use unstuck_core::policy::{Policy, PolicySwitch};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use super::{Logged, Twin, assert_same, died};
use crate::conformance::TestStore;
use crate::contract::{
    AuditId, BatchId, Due, EndedSession, ErrorFilter, ErrorGroup, ErrorId, FlowRecord, GroupFilter, Loaded,
    LockedThing, More, NewFlow, NewSession, NoticeId, OpenErrorFilter, PolicyAudit, PolicyChange, PolicyHits,
    PutFlowError, Reader, RunFilter, RunLogs, Session, SetAside, Settled, Stage, StageId, Store, StoreError,
    Versions, Wants,
};

impl<A: TestStore, B: TestStore> Store for Twin<'_, A, B> {
    fn ask(&mut self, wants: &Wants) -> Result<BatchId, StoreError> {
        let (mut theirs, mut ours) = (BatchId(0), BatchId(0));
        self.same(
            |oracle| oracle.ask(wants).map(|batch| theirs = batch),
            |store| store.ask(wants).map(|batch| ours = batch),
        )?;
        self.last_batch += 1;
        let batch = BatchId(self.last_batch);
        self.batches.insert(batch, (theirs, ours));
        Ok(batch)
    }

    /// What each of them counts for itself is the store's: versions, the names of notices, and signs of life, which are
    /// compared elsewhere.
    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let (theirs, ours) = (self.oracle.loaded(), self.store().loaded());
        let (of_oracle, expected) = theirs?;
        let batch =
            self.batches.iter().rev().find(|(_, names)| names.0 == of_oracle).map(|(batch, _)| *batch)?;
        let mut found = ours.map(|(_, loaded)| loaded);
        let own = found.iter().flatten().next();
        let (versions, last_seen) = own.map(|own| (own.versions, own.last_seen)).unwrap_or_default();
        // What is postponed is left out: which ones these are, the oracle says.
        let given: Vec<NoticeId> =
            expected.iter().flat_map(|loaded| &loaded.notices).map(|(id, _)| *id).collect();
        let names = self.names.of_oracle(&given);
        let rename = |mut loaded: Loaded| {
            for (name, (id, _)) in names.iter().zip(&mut loaded.notices) {
                *id = *name;
            }
            Loaded { versions, last_seen, ..loaded }
        };
        let expected = expected.map(rename);
        let result = self.same(|_| expected, |_| found.take().unwrap_or_else(|| Err(died())).map(rename));
        Some((batch, result))
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        let (theirs, ours) = self.names_of_batch(batch);
        self.same(|oracle| oracle.more(theirs, runs, payloads), |store| store.more(ours, runs, payloads))
    }

    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.same(|oracle| oracle.run_of_key(flow, key), |store| store.run_of_key(flow, key))
    }

    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.same(|oracle| oracle.payloads(ids), |store| store.payloads(ids))
    }

    fn admissible_runs(&mut self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.same(|oracle| oracle.admissible_runs(limit), |store| store.admissible_runs(limit))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.same(|oracle| oracle.due(now, limit), |store| store.due(now, limit))
    }

    fn slot_holders(&mut self, limit: &str, most: usize) -> Result<Vec<RunId>, StoreError> {
        self.same(|oracle| oracle.slot_holders(limit, most), |store| store.slot_holders(limit, most))
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
        let found = self.same(
            |oracle| oracle.notices(limit).map(|all| split_ids(all, &mut ids)),
            |store| store.notices(limit).map(|all| split_ids(all, &mut Vec::new())),
        )?;
        Ok(self.names.of_oracle(&ids).into_iter().zip(found).collect())
    }

    fn notices_to(&mut self, thing: ThingRef, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        let mut ids = Vec::new();
        let found = self.same(
            |oracle| oracle.notices_to(thing, limit).map(|all| split_ids(all, &mut ids)),
            |store| store.notices_to(thing, limit).map(|all| split_ids(all, &mut Vec::new())),
        )?;
        Ok(self.names.of_oracle(&ids).into_iter().zip(found).collect())
    }

    fn due_things(&mut self, now: Time, limit: usize) -> Result<Vec<Thing>, StoreError> {
        self.same(|oracle| oracle.due_things(now, limit), |store| store.due_things(now, limit))
    }

    fn lock_things(&mut self, batch: BatchId, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError> {
        let (theirs, ours) = self.names_of_batch(batch);
        self.same(|oracle| oracle.lock_things(theirs, things), |store| store.lock_things(ours, things))
    }

    fn fire_schedules(&mut self) {
        self.oracle.fire_schedules();
        self.store().fire_schedules();
    }

    fn things(&mut self) -> Result<Vec<Thing>, StoreError> {
        self.same(Store::things, Store::things)
    }

    fn target_results(&mut self, bulk: BulkId, places: &[u64]) -> Result<Vec<TargetResult>, StoreError> {
        self.same(|oracle| oracle.target_results(bulk, places), |store| store.target_results(bulk, places))
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

    fn stage(&mut self, batch: BatchId, stage: Stage) -> Result<StageId, StoreError> {
        if let Some(error) = self.refusal.take() {
            self.rollback(batch);
            return Err(error);
        }
        let (of_oracle, of_store) = self.names_of_batch(batch);
        self.batches.remove(&batch);
        let (mut theirs, mut ours) = (stage.clone(), stage.clone());
        theirs.delivered = self.names.translate(&stage.delivered, |(oracle, _)| oracle);
        ours.delivered = self.names.translate(&stage.delivered, |(_, store)| store);
        theirs.postponed = self.names.translate(&stage.postponed, |(oracle, _)| oracle);
        ours.postponed = self.names.translate(&stage.postponed, |(_, store)| store);
        let mut id = None;
        let result = self.both(
            |oracle| oracle.stage(of_oracle, theirs).map(|_| ()),
            |store| store.stage(of_store, ours).map(|staged| id = Some(staged)),
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

    fn abandon(&mut self, batch: BatchId, unchanged: Vec<Run>) {
        let (theirs, ours) = self.names_of_batch(batch);
        self.batches.remove(&batch);
        self.oracle.abandon(theirs, unchanged.clone());
        self.store().abandon(ours, unchanged);
    }

    fn rollback(&mut self, batch: BatchId) {
        let (theirs, ours) = self.names_of_batch(batch);
        self.batches.remove(&batch);
        self.oracle.rollback(theirs);
        self.store().rollback(ours);
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
        self.same(A::renew_session, B::renew_session)
    }

    fn end_session(&mut self) {
        self.oracle.end_session();
        self.store().end_session();
    }

    fn ended_sessions(&mut self) -> Result<Vec<EndedSession>, StoreError> {
        self.same(A::ended_sessions, B::ended_sessions)
    }

    fn downtimes(&mut self) -> Result<Vec<Downtime>, StoreError> {
        self.same(A::downtimes, B::downtimes)
    }

    fn clock(&mut self) -> Result<ClockRecord, StoreError> {
        self.same(A::clock, B::clock)
    }

    fn timers(
        &mut self,
        after: Option<(Time, RunId, Option<UnitRef>)>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.same(|oracle| oracle.timers(after, limit), |store| store.timers(after, limit))
    }

    fn record_alive(&mut self, now: Time) {
        self.seen = self.seen.max(Some(now));
        self.oracle.record_alive(now);
        self.store().record_alive(now);
    }

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        self.same(A::last_seen, B::last_seen)
    }

    fn next_due(&mut self) -> Result<Option<Time>, StoreError> {
        self.same(A::next_due, B::next_due)
    }

    fn last_time(&mut self) -> Result<Option<Time>, StoreError> {
        self.same(A::last_time, B::last_time)
    }

    fn last_id(&mut self) -> Result<u64, StoreError> {
        self.same(A::last_id, B::last_id)
    }

    /// What is durable is the store's to say: `Twin::compare` compares what its readers see.
    fn reader(&mut self) -> Arc<dyn Reader> {
        self.store().reader()
    }

    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.same(|oracle| oracle.run(run), |store| store.run(run))
    }

    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.same(|oracle| oracle.history(run, after, limit), |store| store.history(run, after, limit))
    }

    fn list(
        &mut self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.same(|oracle| oracle.list(filter, before, limit), |store| store.list(filter, before, limit))
    }

    fn count_runs(&mut self, since: Time) -> Result<BTreeMap<RunState, u64>, StoreError> {
        self.same(|oracle| oracle.count_runs(since), |store| store.count_runs(since))
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
        self.same(|oracle| oracle.flow(flow), |store| store.flow(flow))
    }

    fn flows(&mut self, after: Option<FlowId>, limit: usize) -> Result<Vec<FlowRecord>, StoreError> {
        self.same(|oracle| oracle.flows(after, limit), |store| store.flows(after, limit))
    }

    fn newest_flow(&mut self, name: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.same(|oracle| oracle.newest_flow(name), |store| store.newest_flow(name))
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
        self.same(A::policies, B::policies)
    }

    fn policy_switch(&mut self) -> Result<PolicySwitch, StoreError> {
        self.same(A::policy_switch, B::policy_switch)
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
        self.same(|oracle| oracle.policy_audit(before, limit), |store| store.policy_audit(before, limit))
    }

    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError> {
        self.same(A::policy_hits, B::policy_hits)
    }

    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.same(|oracle| oracle.errors(filter, after, limit), |store| store.errors(filter, after, limit))
    }

    fn open_errors(
        &mut self,
        filter: &OpenErrorFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.same(
            |oracle| oracle.open_errors(filter, after, limit),
            |store| store.open_errors(filter, after, limit),
        )
    }

    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError> {
        self.same(|oracle| oracle.error_groups(filter, limit), |store| store.error_groups(filter, limit))
    }

    fn logs(&mut self, run: RunId) -> Result<RunLogs, StoreError> {
        self.same(|oracle| oracle.logs(run), |store| store.logs(run))
    }

    fn needs_backfill(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.same(|oracle| oracle.needs_backfill(after, limit), |store| store.needs_backfill(after, limit))
    }

    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError> {
        let (theirs, ours) = (targets.clone(), targets.clone());
        self.same(|oracle| oracle.put_targets(bulk, theirs), |store| store.put_targets(bulk, ours))?;
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
        self.same(|oracle| oracle.bulk(bulk), |store| store.bulk(bulk))
    }

    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError> {
        self.same(
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
        self.same(
            |oracle| oracle.targets(bulk, only, from, limit),
            |store| store.targets(bulk, only, from, limit),
        )
    }

    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError> {
        self.same(
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
