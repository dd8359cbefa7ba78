//! Two stores that are asked the same: every answer is compared on the way.

mod admin;
mod calls;
mod followed_tail;
mod names;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use unstuck_core::bulk::{Bulk, Target};
use unstuck_core::id::{BulkId, FlowId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use self::followed_tail::FollowedTail;
use self::names::Names;
use crate::conformance::TestStore;
use crate::conformance::contents::contents;
use crate::conformance::readers::same_as_store_in;
use crate::conformance::steps::BatchSteps;
use crate::contract::{
    BatchId, FlowRecord, NewFlow, NewSession, PolicyChange, Settled, Stage, StageId, StoreError, Wants,
};

/// A store beside an oracle that has been given the same stages. When stages are lost, the oracle is made again from
/// those that are left. When the process of the store has died, the oracle answers alone until the store is opened
/// again; or nobody does, where an engine is to notice.
pub struct Twin<'m, A, B> {
    make_oracle: Box<dyn FnMut() -> A + 'm>,
    oracle: A,
    /// `None` while it is opened again.
    store: Option<B>,
    /// For an engine: makes flows of what is kept of them.
    compile: Option<Compile<'m>>,
    compiled: BTreeMap<FlowId, Arc<Flow>>,
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
    /// What the store has said of its stages, and nobody has asked for yet.
    settled: Vec<Settled>,
    /// The sessions that were opened.
    session_keys: Vec<NewSession>,
    /// When the engine was last alive.
    seen: Option<Time>,
    /// Why the next stage is refused.
    refusal: Option<StoreError>,
    names: Names,
    /// How the two stores name the batches that are under way.
    batches: BTreeMap<BatchId, (BatchId, BatchId)>,
    last_batch: u64,
    tail: FollowedTail,
}

/// Makes a flow of what is kept of it.
type Compile<'m> = Box<dyn FnMut(&FlowRecord) -> Flow + 'm>;

/// A stage that was accepted.
struct Logged {
    id: StageId,
    /// Notices are named as the twin names them.
    stage: Stage,
}

impl<'m, A: TestStore, B: TestStore> Twin<'m, A, B> {
    /// A store, and what makes its oracle.
    pub fn new(mut make_oracle: impl FnMut() -> A + 'm, store: B) -> Twin<'m, A, B> {
        Twin {
            oracle: make_oracle(),
            make_oracle: Box::new(make_oracle),
            store: Some(store),
            compile: None,
            compiled: BTreeMap::new(),
            flows: Vec::new(),
            unsure: Vec::new(),
            policies: Vec::new(),
            unsure_policies: None,
            drafts: BTreeMap::new(),
            bulks: Vec::new(),
            unsure_bulk: None,
            log: Vec::new(),
            durable: 0,
            settled: Vec::new(),
            session_keys: Vec::new(),
            seen: None,
            refusal: None,
            names: Names::default(),
            batches: BTreeMap::new(),
            last_batch: 0,
            tail: FollowedTail::default(),
        }
    }

    /// For an engine, which knows nothing of two stores: once the process of the store has died, every answer is that it
    /// is broken, as the engine is told when a disk fails. It is to be opened again then.
    #[must_use]
    pub fn for_an_engine(self, compile: impl FnMut(&FlowRecord) -> Flow + 'm) -> Twin<'m, A, B> {
        Twin { compile: Some(Box::new(compile)), ..self }
    }

    fn store(&mut self) -> &mut B {
        self.store.as_mut().expect("it is open")
    }

    /// Compares everything there is, and checks that it fits together.
    pub(super) fn compare(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        // Everything is asked of both, so that a store whose process has died needs no answer.
        contents(self, flows.values()).check();
        if self.has_crashed() {
            return;
        }
        let reader = self.store().reader();
        if let Err(error) = self.tail.follow(&*reader) {
            assert!(self.has_crashed(), "{error:?}");
            return;
        }
        self.tail.compare(self.log.iter().map(|logged| &logged.stage), self.outstanding() == 0);
        if self.outstanding() == 0 {
            let turn = self.log.len();
            same_as_store_in(self.store(), |place| (place + turn).is_multiple_of(32));
        }
    }

    /// Lets the store check itself.
    pub(super) fn look(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        self.store().look(flows);
    }

    /// Makes some outstanding stages durable.
    pub(super) fn make_durable(&mut self, n: usize) {
        self.store().make_durable(n);
        self.take_in(false);
    }

    /// Fails what is outstanding, if the store can do that. A batch that is open is void then.
    pub(super) fn fail(&mut self, error: &StoreError) -> bool {
        self.take_in(false);
        let failed = self.store().fail_next(error);
        let lost = self.take_in(false);
        assert_eq!(lost, failed, "as many are reported as failed");
        if failed > 0 {
            assert_eq!(self.log.len(), self.durable);
            self.rebuild(self.durable);
        }
        failed > 0
    }

    /// Stages what was decided before a failure, and expects that it is refused.
    pub(super) fn expect_void(&mut self, batch: BatchId, stage: Stage) {
        let (_, of_store) = self.names_of_batch(batch);
        self.batches.remove(&batch);
        let result = self.store().stage(of_store, stage);
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    }

    /// Lets the process die, with a batch open or without. Of what was not durable, any first part may be there.
    pub(super) fn crash(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        self.reopen_store();
        // Whoever was not told that a flow is kept keeps it again.
        while let Some(flow) = self.unsure.first().cloned() {
            let again = self.store().put_flow(flow);
            if self.has_crashed() {
                self.reopen_store();
            } else {
                let kept = self.unsure.remove(0);
                self.keep_flow(kept, &again.expect("it is kept"));
            }
        }
        if let Some(change) = self.unsure_policies.take() {
            let kept = self.store().policy_audit(None, usize::MAX).expect("reads").len();
            let counted: usize = self.policies.iter().map(|change| change.changes.len()).sum();
            self.policies.extend((kept > counted).then_some(change));
        }
        self.drafts.clear();
        if let Some((bulk, targets)) = self.unsure_bulk.take() {
            let is_kept = self.store().bulk(bulk.id).expect("reads").is_some();
            self.bulks.extend(is_kept.then_some((bulk, targets)));
        }
        let found = contents(self.store(), flows.values());
        self.rebuild(self.durable);
        let mut expected = contents(&mut self.oracle, flows.values());
        let durable = expected.clone();
        while expected != found {
            assert!(
                self.durable < self.log.len(),
                "after a crash there is no first part of what was staged, but {}",
                found.unlike(&durable)
            );
            self.stage_again(self.durable);
            self.durable += 1;
            expected = contents(&mut self.oracle, flows.values());
        }
        self.log.truncate(self.durable);
        // Turns begin again. Whoever looks at what is ready takes turns, and the store has been looked at once since.
        self.rebuild(self.durable);
        contents(&mut self.oracle, flows.values());
    }

    fn reopen_store(&mut self) {
        self.store = self.store.take().map(B::reopen);
        self.batches.clear();
        self.settled.clear();
        self.refusal = None;
    }

    /// Notes a flow that is durable, to give it to an oracle that is built again.
    fn keep_flow(&mut self, flow: NewFlow, kept: &FlowRecord) {
        self.flows.push(flow);
        if let Some(compile) = &mut self.compile {
            self.compiled.insert(kept.id, Arc::new(Flow { id: kept.id, ..compile(kept) }));
        }
    }

    /// Returns how many stages are not known to be durable.
    pub(super) fn outstanding(&self) -> usize {
        self.log.len() - self.durable
    }

    /// Takes in what the store reports about its stages; returns how many were lost.
    fn take_in(&mut self, wait: bool) -> usize {
        self.oracle.settle(false);
        let mut lost = 0;
        for Settled { stage, result } in self.store().settle(wait) {
            assert_eq!(self.log.get(self.durable + lost).map(|logged| logged.id), Some(stage), "in order");
            if result.is_ok() {
                assert_eq!(lost, 0, "what is on top of a failed stage has failed");
                self.durable += 1;
            } else {
                lost += 1;
            }
            self.settled.push(Settled { stage, result });
        }
        if self.has_crashed() {
            // What failed then may be there all the same.
            return 0;
        }
        if lost > 0 {
            assert_eq!(self.log.len(), self.durable + lost, "everything on top of a failed stage has failed");
            self.log.truncate(self.durable);
        }
        lost
    }

    /// Builds the oracle again from the first `count` stages of the log.
    fn rebuild(&mut self, count: usize) {
        self.oracle = (self.make_oracle)();
        for new in &self.session_keys {
            self.oracle.open_session(new.clone()).expect("the session was opened before");
        }
        if let Some(seen) = self.seen {
            self.oracle.record_alive(seen);
        }
        for flow in &self.flows {
            self.oracle.put_flow(flow.clone()).expect("the flow was kept before");
        }
        for change in &self.policies {
            let newest = self.oracle.versions().expect("reads").policies;
            self.oracle.put_policies(change.clone(), newest).expect("the policies were kept before");
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
        if let Some(store) =
            self.store.as_mut().filter(|store| count == self.log.len() && !store.has_crashed())
        {
            self.names.pair(&mut self.oracle, store);
        }
    }

    /// Gives the oracle a stage of the log.
    fn stage_again(&mut self, place: usize) {
        let logged = &self.log[place];
        let mut stage = logged.stage.clone();
        let runs: Vec<RunId> = runs_of(&stage).collect();
        stage.delivered = self.names.translate(&logged.stage.delivered, |(oracle, _)| oracle);
        stage.postponed = self.names.translate(&logged.stage.postponed, |(oracle, _)| oracle);
        let things: Vec<ThingRef> = stage.things.iter().map(Thing::address).collect();
        let (batch, _) = self.oracle.load(&Wants { runs, ..Wants::default() }).expect("loads");
        self.oracle.lock_things(batch, &things).expect("locks");
        self.oracle.stage(batch, stage).expect("was staged before");
        self.names.note(&logged.stage, &mut self.oracle, None::<&mut B>);
    }

    /// Returns the id of a batch in each of the two stores; an unknown one has an unknown id in both.
    fn names_of_batch(&self, batch: BatchId) -> (BatchId, BatchId) {
        self.batches.get(&batch).copied().unwrap_or((BatchId(0), BatchId(0)))
    }

    /// Returns whether the process of the store has died.
    pub(super) fn has_crashed(&self) -> bool {
        self.store.as_ref().is_some_and(B::has_crashed)
    }

    /// Returns what is answered once the process has died: what the oracle says, or for an engine that the store is
    /// broken.
    fn after_death<T>(&self, of_oracle: Result<T, StoreError>) -> Result<T, StoreError> {
        if self.compile.is_some() { Err(died()) } else { of_oracle }
    }

    /// Makes a call on both stores and asserts that they agree, unless the store has died in it.
    fn both<T: PartialEq + Debug>(
        &mut self,
        of_oracle: impl FnOnce(&mut A) -> Result<T, StoreError>,
        of_store: impl FnOnce(&mut B) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (expected, found) = (of_oracle(&mut self.oracle), of_store(self.store()));
        if self.has_crashed() {
            return expected;
        }
        assert_same(&expected, &found);
        found
    }

    /// As `both`, for calls that change nothing: after a death nobody needs to know whether it was carried out.
    fn same<T: PartialEq + Debug>(
        &mut self,
        of_oracle: impl FnOnce(&mut A) -> Result<T, StoreError>,
        of_store: impl FnOnce(&mut B) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let answer = self.both(of_oracle, of_store);
        if self.has_crashed() { self.after_death(answer) } else { answer }
    }
}

impl<A: TestStore, B: TestStore> TestStore for Twin<'_, A, B> {
    fn reopen(mut self) -> Self {
        let flows = self.compiled.clone();
        self.crash(&flows);
        self
    }

    fn make_durable(&mut self, n: usize) {
        Twin::make_durable(self, n);
    }

    fn fail_next(&mut self, error: &StoreError) -> usize {
        usize::from(self.fail(error))
    }

    fn refuse_stage(&mut self, error: StoreError) -> bool {
        self.refusal = Some(error);
        true
    }

    fn has_crashed(&self) -> bool {
        Twin::has_crashed(self)
    }
}

/// What a process that has died would say.
fn died() -> StoreError {
    StoreError::Broken("the process has died".to_owned())
}

/// Asserts that both return the same, or fail with the same kind of error.
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
