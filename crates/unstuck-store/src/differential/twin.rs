//! Two stores that are asked the same: every answer is compared on the way.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, ResultKind, Target};
use unstuck_core::command::Notice;
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::event::Event;
use unstuck_core::id::{BulkId, FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::offer::Offer;
use unstuck_core::policy::Policy;
use unstuck_core::time::Time;

use crate::conformance::TestStore;
use crate::conformance::contents::contents;
use crate::contract::{
    AuditId, Candidate, Due, ErrorFilter, ErrorGroup, ErrorId, Filter, FlowRecord, GroupFilter, Life, Locked,
    NewFlow, NoticeId, OpenFilter, PolicyAudit, PolicyChange, PolicyHits, PutFlowError, Settled, Stage,
    StageId, Store, StoreError,
};

/// A store beside an oracle that has been given the same stages. When stages are lost, the oracle is made anew from
/// those that are left. When the process of the store has died, the oracle answers alone until the store is opened again.
pub(super) struct Twin<'m, A, B> {
    make_oracle: &'m mut dyn FnMut() -> A,
    oracle: A,
    store: B,
    flows: Vec<NewFlow>,
    /// Flows that may have been kept when the process died, or not.
    unsure: Vec<NewFlow>,
    policies: Vec<PolicyChange>,
    /// A change of policies that may have been kept when the process died, or not.
    unsure_policies: Option<PolicyChange>,
    /// Targets of bulk actions that are not there yet.
    drafts: BTreeMap<BulkId, Vec<Target>>,
    bulks: Vec<(Bulk, Vec<Target>)>,
    /// A bulk action that may have been kept when the process died, or not.
    unsure_bulk: Option<(Bulk, Vec<Target>)>,
    /// What was staged and may be there.
    log: Vec<Logged>,
    /// So many of it are durable.
    durable: usize,
    names: Names,
}

/// A stage that was accepted.
struct Logged {
    id: StageId,
    /// Notices are named as the twin names them.
    stage: Stage,
}

/// How the twin names notices, and how the two stores name them.
#[derive(Default)]
struct Names {
    last: u64,
    /// The undelivered ones.
    names: BTreeMap<NoticeId, (NoticeId, NoticeId)>,
}

impl<'m, A: TestStore, B: TestStore> Twin<'m, A, B> {
    pub(super) fn new(make_oracle: &'m mut dyn FnMut() -> A, store: B) -> Twin<'m, A, B> {
        let oracle = make_oracle();
        Twin {
            make_oracle,
            oracle,
            store,
            flows: Vec::new(),
            unsure: Vec::new(),
            policies: Vec::new(),
            unsure_policies: None,
            drafts: BTreeMap::new(),
            bulks: Vec::new(),
            unsure_bulk: None,
            log: Vec::new(),
            durable: 0,
            names: Names::default(),
        }
    }

    /// Compares everything there is, and checks that it fits together.
    pub(super) fn compare(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        // Everything is asked of both, so that a store whose process has died needs no answer.
        contents(self, flows.values()).check();
    }

    /// Lets the store look at itself.
    pub(super) fn look(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        self.store.look(flows);
    }

    /// Some of what is outstanding becomes durable.
    pub(super) fn make_durable(&mut self, n: usize) {
        self.store.make_durable(n);
        self.take_in(false);
    }

    /// What is outstanding fails, if the store can do that. A transaction that is open is void then.
    pub(super) fn fail(&mut self, error: &StoreError) -> bool {
        self.take_in(false);
        let failed = self.store.fail_next(error);
        let lost = self.take_in(false);
        assert_eq!(lost, failed, "as many are reported as failed");
        if failed > 0 {
            assert_eq!(self.log.len(), self.durable);
            self.rebuild(self.durable);
        }
        failed > 0
    }

    /// What was decided before a failure is refused after it.
    pub(super) fn expect_void(&mut self, stage: Stage) {
        let result = self.store.stage(stage);
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    }

    /// The process dies, with a transaction open or without. Of what was not durable, any first part may be there.
    pub(super) fn crash(self, flows: &BTreeMap<FlowId, Arc<Flow>>) -> Self {
        let mut twin = Twin { store: self.store.reopen(), ..self };
        // Whoever was not told that a flow is kept keeps it again.
        while let Some(flow) = twin.unsure.first() {
            let again = twin.store.put_flow(flow.clone());
            if twin.store.has_crashed() {
                twin = Twin { store: twin.store.reopen(), ..twin };
            } else {
                again.expect("it is kept");
                twin.flows.push(twin.unsure.remove(0));
            }
        }
        if let Some(change) = twin.unsure_policies.take() {
            let kept = twin.store.policy_audit(None, usize::MAX).expect("reads").len();
            let told: usize = twin.policies.iter().map(|change| change.changes.len()).sum();
            twin.policies.extend((kept > told).then_some(change));
        }
        twin.drafts.clear();
        if let Some((bulk, targets)) = twin.unsure_bulk.take() {
            let is_kept = twin.store.bulk(bulk.id).expect("reads").is_some();
            twin.bulks.extend(is_kept.then_some((bulk, targets)));
        }
        let found = contents(&mut twin.store, flows.values());
        twin.rebuild(twin.durable);
        let mut expected = contents(&mut twin.oracle, flows.values());
        let durable = expected.clone();
        while expected != found {
            assert!(
                twin.durable < twin.log.len(),
                "after a crash there is no first part of what was staged, but {}",
                found.unlike(&durable)
            );
            twin.stage_again(twin.durable);
            twin.durable += 1;
            expected = contents(&mut twin.oracle, flows.values());
        }
        twin.log.truncate(twin.durable);
        // Turns begin anew.
        twin.rebuild(twin.durable);
        twin
    }

    /// How many stages are not known to be durable.
    pub(super) fn outstanding(&self) -> usize {
        self.log.len() - self.durable
    }

    /// Takes in what the store says of its stages. Gives how many were lost.
    fn take_in(&mut self, wait: bool) -> usize {
        self.oracle.settle(false);
        let mut lost = 0;
        for Settled { stage, result } in self.store.settle(wait) {
            assert_eq!(self.log.get(self.durable + lost).map(|logged| logged.id), Some(stage), "in order");
            match result {
                Ok(()) => {
                    assert_eq!(lost, 0, "what is on top of a failed stage has failed");
                    self.durable += 1;
                }
                Err(_) => lost += 1,
            }
        }
        if self.store.has_crashed() {
            // What failed then may be there all the same.
            return 0;
        }
        if lost > 0 {
            assert_eq!(self.log.len(), self.durable + lost, "everything on top of a failed stage has failed");
            self.log.truncate(self.durable);
        }
        lost
    }

    /// The oracle as it is after the first `count` stages.
    fn rebuild(&mut self, count: usize) {
        self.oracle = (self.make_oracle)();
        for flow in &self.flows {
            self.oracle.put_flow(flow.clone()).expect("the flow was kept before");
        }
        for change in &self.policies {
            self.oracle.put_policies(change.clone()).expect("the policies were kept before");
        }
        for (bulk, targets) in &self.bulks {
            self.oracle.put_targets(bulk.id, targets.clone()).expect("the targets were kept before");
            self.oracle.put_bulk(bulk.clone()).expect("the bulk action was kept before");
        }
        self.names.names.clear();
        self.names.last = 0;
        for place in 0..count {
            self.stage_again(place);
        }
        if count == self.log.len() && !self.store.has_crashed() {
            self.names.pair(&mut self.oracle, &mut self.store);
        }
    }

    /// Gives the oracle a stage of the log.
    fn stage_again(&mut self, place: usize) {
        let logged = &self.log[place];
        let mut stage = logged.stage.clone();
        let runs: Vec<RunId> = runs_of(&stage).collect();
        stage.delivered = self.names.translate(&logged.stage.delivered, |(oracle, _)| oracle);
        self.oracle.begin().expect("begins");
        self.oracle.lock(&runs).expect("locks");
        self.oracle.stage(stage).expect("was staged before");
        self.names.note(&logged.stage, &mut self.oracle, None::<&mut B>);
    }

    /// Whether the process of the store has died.
    pub(super) fn has_crashed(&self) -> bool {
        self.store.has_crashed()
    }

    fn both<T: PartialEq + Debug>(
        &mut self,
        of_oracle: impl FnOnce(&mut A) -> Result<T, StoreError>,
        of_store: impl FnOnce(&mut B) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (expected, found) = (of_oracle(&mut self.oracle), of_store(&mut self.store));
        if self.store.has_crashed() {
            return expected;
        }
        assert_same(&expected, &found);
        found
    }
}

impl Names {
    /// Names what a stage has added and forgets what it has delivered.
    fn note<A: Store, B: Store>(&mut self, stage: &Stage, oracle: &mut A, store: Option<&mut B>) {
        for id in &stage.delivered {
            self.names.remove(id);
        }
        for _ in &stage.notices {
            self.last += 1;
            self.names.insert(NoticeId(self.last), (NoticeId(0), NoticeId(0)));
        }
        if let Some(store) = store {
            return self.pair(oracle, store);
        }
        let ids = oracle.notices(usize::MAX).expect("reads");
        for (names, (id, _)) in self.names.values_mut().zip(ids) {
            names.0 = id;
        }
    }

    /// The undelivered notices of both stores, in order, are the same.
    fn pair<A: Store, B: Store>(&mut self, oracle: &mut A, store: &mut B) {
        let theirs = oracle.notices(usize::MAX).expect("reads");
        let ours = store.notices(usize::MAX).expect("reads");
        assert_eq!(theirs.len(), self.names.len(), "what was not delivered is there");
        let bodies =
            |all: &[(NoticeId, Notice)]| all.iter().map(|(_, notice)| notice.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&ours), bodies(&theirs), "the stores have the same notices");
        for (names, ((oracle, _), (store, _))) in self.names.values_mut().zip(theirs.into_iter().zip(ours)) {
            *names = (oracle, store);
        }
    }

    fn translate(&self, ids: &[NoticeId], side: impl Fn((NoticeId, NoticeId)) -> NoticeId) -> Vec<NoticeId> {
        ids.iter().filter_map(|id| self.names.get(id).copied().map(&side)).collect()
    }
}

impl<A: TestStore, B: TestStore> Store for Twin<'_, A, B> {
    fn begin(&mut self) -> Result<(), StoreError> {
        self.both(A::begin, B::begin)
    }

    fn lock(&mut self, runs: &[RunId]) -> Result<Vec<Locked>, StoreError> {
        self.both(|oracle| oracle.lock(runs), |store| store.lock(runs))
    }

    fn run_of_key(&mut self, flow: &str, key: &str) -> Result<Option<RunId>, StoreError> {
        self.both(|oracle| oracle.run_of_key(flow, key), |store| store.run_of_key(flow, key))
    }

    fn payloads(&mut self, ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError> {
        self.both(|oracle| oracle.payloads(ids), |store| store.payloads(ids))
    }

    fn candidates(&mut self, offers: &[Offer], limit: usize) -> Result<Vec<Candidate>, StoreError> {
        self.both(|oracle| oracle.candidates(offers, limit), |store| store.candidates(offers, limit))
    }

    fn highest_waiting(&mut self, queues: &[Arc<str>]) -> Result<Option<i32>, StoreError> {
        self.both(|oracle| oracle.highest_waiting(queues), |store| store.highest_waiting(queues))
    }

    fn admissible(&mut self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.both(|oracle| oracle.admissible(limit), |store| store.admissible(limit))
    }

    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.both(|oracle| oracle.due(now, limit), |store| store.due(now, limit))
    }

    fn notices(&mut self, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        let strip =
            |all: Vec<(NoticeId, Notice)>| all.into_iter().map(|(_, notice)| notice).collect::<Vec<_>>();
        let found =
            self.both(|oracle| oracle.notices(limit).map(strip), |store| store.notices(limit).map(strip))?;
        Ok(self.names.names.keys().copied().zip(found).collect())
    }

    fn stage(&mut self, stage: Stage) -> Result<StageId, StoreError> {
        let (mut theirs, mut ours) = (stage.clone(), stage.clone());
        theirs.delivered = self.names.translate(&stage.delivered, |(oracle, _)| oracle);
        ours.delivered = self.names.translate(&stage.delivered, |(_, store)| store);
        let mut id = None;
        let result = self.both(
            |oracle| oracle.stage(theirs).map(|_| ()),
            |store| store.stage(ours).map(|staged| id = Some(staged)),
        );
        result?;
        if self.store.has_crashed() {
            self.names.note(&stage, &mut self.oracle, None::<&mut B>);
            // It may have come so far all the same.
            self.log.extend(id.map(|id| Logged { id, stage }));
            return Ok(StageId(0));
        }
        let id = id.expect("both have staged");
        self.names.note(&stage, &mut self.oracle, Some(&mut self.store));
        self.log.push(Logged { id, stage });
        Ok(id)
    }

    fn abandon(&mut self, locked: Vec<Run>) {
        self.oracle.abandon(locked.clone());
        self.store.abandon(locked);
    }

    fn rollback(&mut self) {
        self.oracle.rollback();
        self.store.rollback();
    }

    /// What has settled is taken in, and compared with what was staged; nobody else needs it.
    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        self.take_in(wait);
        Vec::new()
    }

    fn begin_life(&mut self, fresh_key: [u8; 32]) -> Result<Life, StoreError> {
        self.both(|oracle| oracle.begin_life(fresh_key), |store| store.begin_life(fresh_key))
    }

    fn local_attempts(&mut self) -> Result<Vec<(AttemptId, Worker)>, StoreError> {
        self.both(A::local_attempts, B::local_attempts)
    }

    fn downtimes(&mut self) -> Result<Vec<Downtime>, StoreError> {
        self.both(A::downtimes, B::downtimes)
    }

    fn alive(&mut self, now: Time) {
        self.oracle.alive(now);
        self.store.alive(now);
    }

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        self.both(A::last_seen, B::last_seen)
    }

    fn next_due(&mut self) -> Result<Option<Time>, StoreError> {
        self.both(A::next_due, B::next_due)
    }

    fn last_time(&mut self) -> Result<Option<Time>, StoreError> {
        self.both(A::last_time, B::last_time)
    }

    fn last_id(&mut self) -> Result<u64, StoreError> {
        self.both(A::last_id, B::last_id)
    }

    fn run(&mut self, run: RunId) -> Result<Option<Run>, StoreError> {
        self.both(|oracle| oracle.run(run), |store| store.run(run))
    }

    fn history(&mut self, run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.both(|oracle| oracle.history(run, after, limit), |store| store.history(run, after, limit))
    }

    fn list(&mut self, filter: &Filter, before: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.both(|oracle| oracle.list(filter, before, limit), |store| store.list(filter, before, limit))
    }

    fn put_flow(&mut self, flow: NewFlow) -> Result<FlowRecord, PutFlowError> {
        let expected = self.oracle.put_flow(flow.clone());
        let found = self.store.put_flow(flow.clone());
        if self.store.has_crashed() {
            self.unsure.push(flow);
            return expected;
        }
        assert_eq!(found, expected, "the stores keep a flow alike, its id included");
        self.flows.push(flow);
        found
    }

    fn flow(&mut self, flow: FlowId) -> Result<Option<FlowRecord>, StoreError> {
        self.both(|oracle| oracle.flow(flow), |store| store.flow(flow))
    }

    fn newest_flow(&mut self, name: &str) -> Result<Option<FlowRecord>, StoreError> {
        self.both(|oracle| oracle.newest_flow(name), |store| store.newest_flow(name))
    }

    fn policies(&mut self) -> Result<Vec<Policy>, StoreError> {
        self.both(A::policies, B::policies)
    }

    fn put_policies(&mut self, change: PolicyChange) -> Result<(), StoreError> {
        // Whoever is dead already keeps nothing.
        if self.store.has_crashed() {
            return self.oracle.put_policies(change);
        }
        let (theirs, ours) = (change.clone(), change.clone());
        let result = self.both(|oracle| oracle.put_policies(theirs), |store| store.put_policies(ours));
        if result.is_ok() && self.store.has_crashed() {
            self.unsure_policies = Some(change);
        } else if result.is_ok() {
            self.policies.push(change);
        }
        result
    }

    fn policy_audit(
        &mut self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<(AuditId, PolicyAudit)>, StoreError> {
        self.both(|oracle| oracle.policy_audit(before, limit), |store| store.policy_audit(before, limit))
    }

    fn policy_hits(&mut self) -> Result<Vec<PolicyHits>, StoreError> {
        self.both(A::policy_hits, B::policy_hits)
    }

    fn errors(
        &mut self,
        filter: &ErrorFilter,
        after: Option<ErrorId>,
        limit: usize,
    ) -> Result<Vec<(ErrorId, ErrorRecord)>, StoreError> {
        self.both(|oracle| oracle.errors(filter, after, limit), |store| store.errors(filter, after, limit))
    }

    fn open_errors(
        &mut self,
        filter: &OpenFilter,
        after: Option<(RunId, UnitRef)>,
        limit: usize,
    ) -> Result<Vec<OpenError>, StoreError> {
        self.both(
            |oracle| oracle.open_errors(filter, after, limit),
            |store| store.open_errors(filter, after, limit),
        )
    }

    fn error_groups(&mut self, filter: &GroupFilter, limit: usize) -> Result<Vec<ErrorGroup>, StoreError> {
        self.both(|oracle| oracle.error_groups(filter, limit), |store| store.error_groups(filter, limit))
    }

    fn unexamined(&mut self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.both(|oracle| oracle.unexamined(after, limit), |store| store.unexamined(after, limit))
    }

    fn put_targets(&mut self, bulk: BulkId, targets: Vec<Target>) -> Result<(), StoreError> {
        let (theirs, ours) = (targets.clone(), targets.clone());
        self.both(|oracle| oracle.put_targets(bulk, theirs), |store| store.put_targets(bulk, ours))?;
        self.drafts.entry(bulk).or_default().extend(targets);
        Ok(())
    }

    fn put_bulk(&mut self, bulk: Bulk) -> Result<(), StoreError> {
        let (theirs, ours) = (bulk.clone(), bulk.clone());
        self.both(|oracle| oracle.put_bulk(theirs), |store| store.put_bulk(ours))?;
        let targets = self.drafts.remove(&bulk.id).unwrap_or_default();
        if self.store.has_crashed() {
            self.unsure_bulk = Some((bulk, targets));
        } else {
            self.bulks.push((bulk, targets));
        }
        Ok(())
    }

    fn bulk(&mut self, bulk: BulkId) -> Result<Option<Bulk>, StoreError> {
        self.both(|oracle| oracle.bulk(bulk), |store| store.bulk(bulk))
    }

    fn bulks(
        &mut self,
        open_only: bool,
        before: Option<BulkId>,
        limit: usize,
    ) -> Result<Vec<Bulk>, StoreError> {
        self.both(
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
        self.both(
            |oracle| oracle.targets(bulk, only, from, limit),
            |store| store.targets(bulk, only, from, limit),
        )
    }

    fn next_targets(&mut self, bulk: BulkId, from: u64, limit: usize) -> Result<Vec<Target>, StoreError> {
        self.both(
            |oracle| oracle.next_targets(bulk, from, limit).map(without_results),
            |store| store.next_targets(bulk, from, limit).map(without_results),
        )
    }
}

/// Targets as they are known to whoever does not look at results.
fn without_results(mut targets: Vec<Target>) -> Vec<Target> {
    for target in &mut targets {
        target.result = unstuck_core::bulk::TargetResult::Pending;
    }
    targets
}

/// Both say the same, or fail for the same sort of reason.
fn assert_same<T: PartialEq + Debug>(expected: &Result<T, StoreError>, found: &Result<T, StoreError>) {
    if let (Err(expected), Err(found)) = (expected, found) {
        let alike = std::mem::discriminant(expected) == std::mem::discriminant(found);
        assert!(alike, "the oracle says `{expected}`, the store says `{found}`");
    } else {
        assert_eq!(found, expected, "the stores say the same");
    }
}

fn runs_of(stage: &Stage) -> impl Iterator<Item = RunId> {
    let unchanged = stage.unchanged.iter().map(|run| run.id);
    let back = stage.runs.iter().map(|change| change.run.id).chain(unchanged);
    back.chain(stage.forgotten.iter().copied())
}
