//! The smallest engine: it decides commands with the core and stages what comes of them, one batch at a time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unstuck_core::bulk::{
    Acted, Bulk, BulkAction, BulkContext, BulkRef, BulkRerun, BulkState, Target, TargetResult, fold_result,
    record_acted,
};
use unstuck_core::clock::{ClockCorrection, ClockRecord};
use unstuck_core::command::{
    Changes, Command, Notice, NoticeBody, OnDuplicate, Report, Rerun, Start, StartInput,
};
use unstuck_core::decide::{Answer, Context, Decision, LeaseMove, Touched, decide, notice_of_refused_child};
use unstuck_core::errors::changed_open_errors;
use unstuck_core::event::{Actor, Event};
use unstuck_core::home::Homes;
use unstuck_core::id::{BulkId, FlowId, Ids, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::nesting::MAX_NESTING;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::needs::needs;
use unstuck_core::offer::{Offer, Offers};
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::refusal::Refusal;
use unstuck_core::slot::slot_claim;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::{Millis, Time};
use unstuck_core::wakeup::{wakeup, wakeups};

use crate::conformance::steps::{BatchSteps, runs_of};
use crate::contract::{
    BatchId, Loaded, LoadedPayload, Locked, LockedThing, NewFlow, NoticeId, PolicyChange, RunChange, Stage,
    StageId, Store, StoreError, Wants,
};

/// Drives a store.
pub struct Driver<S> {
    pub store: S,
    /// The time of the next batch.
    pub now: Time,
    ids: Ids,
    random: Random,
    /// The flows that are kept.
    pub flows: BTreeMap<FlowId, Arc<Flow>>,
    /// The policies in force.
    pub policies: Policies,
    newest: HashMap<Arc<str>, FlowId>,
    /// How the clock was set.
    clock: ClockRecord,
    /// The batch that is under way, and the runs that it was given with what it asked for.
    batch: Option<BatchId>,
    given: BTreeMap<RunId, Locked>,
}

/// Something to be decided.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Of this run.
    pub run: RunId,
    pub command: Command,
    /// For a start: of this flow.
    pub flow: Option<Arc<Flow>>,
}

/// A batch that was decided and not staged yet.
#[derive(Debug, Default)]
pub struct Batch {
    /// What is to be staged.
    pub stage: Stage,
    /// What was answered, in the order that it was asked.
    pub answers: Vec<Result<Answer, Refusal>>,
}

/// One run of a batch.
struct Working {
    run: Option<Run>,
    flow: Option<Arc<Flow>>,
    events: Vec<Event>,
    payloads: Vec<(PayloadId, Json)>,
    touched: Touched,
    touched_run: bool,
    leases: Vec<LeaseMove>,
}

impl<S: Store> Driver<S> {
    pub fn new(store: S) -> Driver<S> {
        let now = Time(1_700_000_000_000);
        let (flows, newest, policies) = (BTreeMap::new(), HashMap::new(), Policies::default());
        let (ids, random) = (Ids::new(1, 0), Random::new(7));
        let clock = ClockRecord::default();
        let (batch, given) = (None, BTreeMap::new());
        Driver { store, now, ids, random, flows, policies, newest, clock, batch, given }
    }

    /// Separates the store from the driver, to reopen it.
    pub fn split(self) -> (S, Driver<()>) {
        let Driver { store, now, ids, random, flows, policies, newest, clock, batch, given } = self;
        (store, Driver { store: (), now, ids, random, flows, policies, newest, clock, batch, given })
    }

    /// Puts policies into the store, and decides by them from then on.
    pub fn put_policies(&mut self, change: PolicyChange) -> Result<(), StoreError> {
        put_policies(&mut self.store, change)?;
        self.policies = self.kept_policies();
        Ok(())
    }

    fn kept_policies(&mut self) -> Policies {
        let switch = self.store.policy_switch().expect("the switch can be read");
        let policies = Policies::new(self.store.policies().expect("policies can be read"));
        policies.expect("they go together").with_switch(switch)
    }

    /// Takes over the clock, the ids and the policies of the store, as an engine does when it starts.
    pub fn resume(&mut self) {
        self.policies = self.kept_policies();
        self.now = self.now.max(self.store.last_time().expect("the time is known").unwrap_or(self.now));
        self.ids = Ids::new(1, self.store.last_id().expect("the last id is known"));
    }

    /// Lists the bulk actions that are not settled.
    pub fn open_bulks(&mut self) -> Vec<BulkId> {
        let things = self.store.things().expect("things can be read");
        things.iter().filter_map(Thing::bulk).map(|bulk| bulk.id).collect()
    }

    /// Locks a bulk action in the open batch, and returns it in its next version.
    pub fn lock_bulk(&mut self, bulk: BulkId) -> Result<Option<Thing>, StoreError> {
        match self.lock_things(&[ThingRef::Bulk(bulk)])?.pop() {
            Some(LockedThing::Here(thing)) => Ok(Some(Thing { version: thing.version + 1, ..thing })),
            Some(LockedThing::Absent) | None => Ok(None),
            Some(LockedThing::Busy) => panic!("nobody else has locked anything"),
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Millis) {
        self.now = self.now + span;
    }

    /// Sets the clock forward, or back if negative, by so many milliseconds. A run takes it in with its next command.
    pub fn set_clock(&mut self, by: i64) {
        let correction = ClockCorrection { from: self.now, to: self.now.shifted(by) };
        self.clock.record_correction(correction);
        self.now = correction.to;
        self.begin().expect("begins");
        let stage = Stage { at: self.now, clock: Some(self.clock.clone()), ..Stage::default() };
        self.stage(stage).expect("a clock may be set");
    }

    /// Returns an id that was never given out.
    pub fn new_id(&mut self) -> RunId {
        RunId(self.ids.next(self.now))
    }

    /// Puts a flow into the store.
    pub fn keep(&mut self, flow: Flow) -> Arc<Flow> {
        let version = Some(flow.version.clone()).filter(|version| !version.is_empty());
        let (name, source, directory) = (flow.name.clone(), flow.source.clone(), flow.directory.clone());
        let new = NewFlow { name, version, source, directory, steps: flow.step_ids() };
        let record = self.store.put_flow(new).expect("the flow is kept");
        let flow = Arc::new(Flow { id: record.id, version: record.version, ..flow });
        self.flows.insert(flow.id, flow.clone());
        self.newest.insert(flow.name.clone(), flow.id);
        flow
    }

    /// The flow of a run.
    pub fn flow_of(&self, run: &Run) -> &Arc<Flow> {
        &self.flows[&run.flow]
    }

    /// Builds the command that starts a run of this flow.
    pub fn start_of(&mut self, flow: &Arc<Flow>, change: impl FnOnce(&mut Start)) -> Ask {
        let run = self.new_id();
        let mut start = Start {
            run,
            key: None,
            input: StartInput::New(Json::NULL),
            labels: None,
            priority: 0,
            deadline: None,
            origin: Origin::Root,
            root_flow: None,
            nesting: None,
            home: None,
            on_duplicate: OnDuplicate::Return,
            by: user(),
        };
        change(&mut start);
        Ask { run, command: Command::Start(Box::new(start)), flow: Some(flow.clone()) }
    }

    /// Starts a run.
    pub fn start(&mut self, flow: &Arc<Flow>) -> RunId {
        self.start_with(flow, |_| {})
    }

    /// Starts a run with a change to how it starts.
    pub fn start_with(&mut self, flow: &Arc<Flow>, change: impl FnOnce(&mut Start)) -> RunId {
        let ask = self.start_of(flow, change);
        let run = ask.run;
        self.all(vec![ask]);
        run
    }

    /// Carries out one command in one batch, which must not be refused.
    pub fn act(&mut self, run: RunId, command: Command) -> Answer {
        self.all(vec![Ask { run, command, flow: None }])[0]
    }

    /// Carries out these commands in one batch; none may be refused.
    pub fn all(&mut self, asks: Vec<Ask>) -> Vec<Answer> {
        let (_, answers) = self.attempt_all(asks).expect("the batch is staged");
        answers.into_iter().map(|answer| answer.expect("the command is not refused")).collect()
    }

    /// Carries out these commands in one batch; each may be refused.
    pub fn attempt_all(
        &mut self,
        asks: Vec<Ask>,
    ) -> Result<(StageId, Vec<Result<Answer, Refusal>>), StoreError> {
        self.begin()?;
        let batch = self.decide(asks)?;
        Ok((self.stage(batch.stage)?, batch.answers))
    }

    /// Begins a batch that wants nothing yet.
    pub fn begin(&mut self) -> Result<(), StoreError> {
        self.load(&Wants::default()).map(drop)
    }

    /// Begins a batch that wants this. The runs that it is given come back with what is decided.
    pub fn load(&mut self, wants: &Wants) -> Result<Loaded, StoreError> {
        let (batch, mut loaded) = self.store.load(wants)?;
        self.batch = Some(batch);
        self.given = std::mem::take(&mut loaded.runs).into_iter().collect();
        Ok(loaded)
    }

    /// Locks these runs in the batch that is under way.
    pub fn lock(&mut self, runs: &[RunId]) -> Result<Vec<Locked>, StoreError> {
        let batch = self.batch.unwrap_or(BatchId(0));
        self.store.lock(batch, runs)
    }

    /// Locks these things in the batch that is under way.
    pub fn lock_things(&mut self, things: &[ThingRef]) -> Result<Vec<LockedThing>, StoreError> {
        let batch = self.batch.unwrap_or(BatchId(0));
        self.store.lock_things(batch, things)
    }

    /// Returns whether the batch was given this run with what it asked for.
    pub fn has_been_given(&self, run: RunId) -> bool {
        self.given.contains_key(&run)
    }

    /// Ends the batch without changes.
    pub fn abandon(&mut self, mut unchanged: Vec<Run>) {
        unchanged.extend(runs_of(std::mem::take(&mut self.given).into_values()));
        let batch = self.take_batch();
        self.store.abandon(batch, unchanged);
    }

    /// Ends the batch after something went wrong in it.
    pub fn rollback(&mut self) {
        let batch = self.take_batch();
        self.store.rollback(batch);
    }

    /// Returns the batch that is under way, and forgets it; an unknown id if there is none.
    pub fn take_batch(&mut self) -> BatchId {
        self.given.clear();
        self.batch.take().unwrap_or(BatchId(0))
    }

    /// Ends the batch with these changes.
    pub fn stage(&mut self, stage: Stage) -> Result<StageId, StoreError> {
        let batch = self.take_batch();
        self.store.stage(batch, stage)
    }

    /// Acts on the next targets of a bulk action in one batch, at most `most`.
    pub fn go_on(&mut self, bulk: BulkId, most: usize) -> Result<StageId, StoreError> {
        self.begin()?;
        let mut thing = self.lock_bulk(bulk)?.expect("it is not over");
        let context = self.bulk_context();
        let bulk = thing.bulk_mut().expect("a bulk action");
        let is_running = bulk.state == BulkState::Running;
        let left = if is_running { bulk.wave.end.saturating_sub(bulk.next) } else { 0 };
        let most = usize::try_from(left).unwrap_or(most).min(most);
        let targets = self.store.next_targets(bulk.id, bulk.next, most)?;
        let asks = targets.iter().map(|target| target_of(bulk, target)).collect();
        let mut batch = self.decide(asks)?;
        for (target, answer) in targets.iter().zip(&batch.answers) {
            let result = match answer {
                Ok(_) => bulk.action.result_of_acting(),
                Err(refusal) => TargetResult::Refused { why: refusal.to_string().into() },
            };
            record_acted(bulk, &Acted::from(result.clone()), &context);
            batch.stage.results.push((BulkRef { bulk: bulk.id, place: target.place }, result));
        }
        batch.stage.things.push(thing);
        self.stage(batch.stage)
    }

    /// Returns what decisions about bulk actions depend on.
    pub fn bulk_context(&self) -> BulkContext {
        BulkContext { now: self.now, latest: self.now, clock: self.clock.shift }
    }

    /// Hands the queued attempt of a step to a worker of another process.
    pub fn claim(&mut self, run: RunId, step: u16) {
        let unit = UnitRef::step(StepIndex(step));
        self.act(run, Command::Claim { unit, worker: worker("w") });
    }

    /// Hands the queued attempt of a step to a worker, who starts.
    pub fn work(&mut self, run: RunId, step: u16) {
        self.claim(run, step);
        self.say(run, step, Report::Start);
    }

    /// Reports something as the worker of a step.
    pub fn say(&mut self, run: RunId, step: u16, says: Report) {
        let attempt = self.attempt(run, UnitRef::step(StepIndex(step)));
        self.act(run, Command::Report { attempt, report: says });
    }

    /// Finds the attempt under way of a unit.
    pub fn attempt(&mut self, run: RunId, unit: UnitRef) -> AttemptId {
        let found = self.run(run);
        let Some(UnitState::Active(live)) = found.unit(unit).map(|unit| &unit.state) else {
            panic!("{run} has no attempt under way in {unit:?}")
        };
        AttemptId { run, generation: found.generation, unit, attempt: live.attempt }
    }

    /// Loads a run that must exist.
    pub fn run(&mut self, run: RunId) -> Run {
        self.store.run(run).expect("runs can be read").expect("the run is there")
    }

    /// Delivers stored notices in one batch, at most `limit`. Returns how many.
    pub fn deliver(&mut self, limit: usize) -> usize {
        self.try_deliver(limit).expect("the batch is staged")
    }

    /// Delivers until there is nothing left to deliver, in batches of at most `limit`.
    pub fn deliver_all(&mut self, limit: usize) {
        let enough = (0..1_000).find(|_| self.deliver(limit) == 0);
        assert!(enough.is_some(), "notices keep coming");
    }

    /// As [`Driver::deliver`], where the store may refuse.
    pub fn try_deliver(&mut self, limit: usize) -> Result<usize, StoreError> {
        let wants = Wants { now: self.now, notices: limit, ..Wants::default() };
        let notices = self.load(&wants)?.notices;
        let (mut asks, mut refused, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let delivered: Vec<NoticeId> = notices.iter().map(|(id, _)| *id).collect();
        for (_, Notice { to, body }) in notices {
            let run = match (to, &body) {
                (ThingRef::Run(run), _) => run,
                (ThingRef::Bulk(bulk), NoticeBody::TargetEnded { place, result }) => {
                    told.push((BulkRef { bulk, place: *place }, result.clone()));
                    continue;
                }
                (ThingRef::Bulk(_) | ThingRef::Schedule(_), _) => {
                    panic!("only bulk actions are told, of their targets")
                }
            };
            let child = if let NoticeBody::StartChild(child) = &body { Some(child) } else { None };
            let flow = child.map(|child| self.newest.get(&child.flow).map(|id| self.flows[id].clone()));
            if let (Some(child), Some(None)) = (child, &flow) {
                refused.extend(notice_of_refused_child(run, child, "there is no such flow"));
                continue;
            }
            asks.push(Ask { run, command: Command::Notice(Box::new(body)), flow: flow.flatten() });
        }
        let mut batch = self.decide(asks)?;
        self.tell_bulks(told, &mut batch.stage)?;
        batch.stage.delivered.clone_from(&delivered);
        batch.stage.notices.extend(refused);
        self.stage(batch.stage)?;
        Ok(delivered.len())
    }

    /// Gives bulk actions the results of what they have set going.
    fn tell_bulks(
        &mut self,
        told: Vec<(BulkRef, TargetResult)>,
        stage: &mut Stage,
    ) -> Result<(), StoreError> {
        let mut things: BTreeMap<BulkId, Option<Thing>> = BTreeMap::new();
        for (target, result) in told {
            let known = match things.entry(target.bulk) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(self.lock_bulk(target.bulk)?),
            };
            let Some(thing) = known else { continue };
            let bulk = thing.bulk_mut().expect("a bulk action");
            let before = stage.results.iter().rev().find(|(known, _)| *known == target);
            let known = match before {
                Some((_, known)) => known.clone(),
                None => self.store.target_results(target.bulk, &[target.place])?.remove(0),
            };
            if fold_result(bulk, &known, &result, &self.bulk_context()) {
                stage.results.push((target, result));
            }
        }
        let is_told = |thing: &Thing| {
            let is_this = |bulk: &Bulk| stage.results.iter().any(|(target, _)| target.bulk == bulk.id);
            thing.bulk().is_some_and(is_this)
        };
        stage.things.extend(things.into_values().flatten().filter(is_told));
        Ok(())
    }

    /// Decides these commands in the batch that is under way. What other things must be told is stored as notices.
    pub fn decide(&mut self, asks: Vec<Ask>) -> Result<Batch, StoreError> {
        let mut runs = self.lock_asked(&asks)?;
        let mut batch = Batch::default();
        for ask in asks {
            let working = runs.entry(ask.run).or_insert_with(|| Working::new(None));
            let answer = match working.flow(&self.flows, ask.flow) {
                None => Err(Refusal::UnknownRun(ask.run)),
                Some(flow) => self.decide_one(working, ask.run, ask.command, &flow, &mut batch)?,
            };
            batch.answers.push(answer);
        }
        batch.stage.at = self.now;
        for working in runs.into_values() {
            working.finish(&mut batch.stage);
        }
        batch.stage.last_id = last_id(&batch.stage);
        Ok(batch)
    }

    /// Locks the runs that commands are for, beside those that the batch was given.
    fn lock_asked(&mut self, asks: &[Ask]) -> Result<BTreeMap<RunId, Working>, StoreError> {
        let mut given = std::mem::take(&mut self.given);
        let mut ids: Vec<RunId> = asks.iter().map(|ask| ask.run).collect();
        ids.retain(|run| !given.contains_key(run));
        ids.sort_unstable();
        ids.dedup();
        let locked = self.lock(&ids)?;
        given.extend(ids.into_iter().zip(locked));
        let working = |(run, locked)| match locked {
            Locked::Here(here) => (run, Working::new(Some(*here))),
            Locked::Absent => (run, Working::new(None)),
            Locked::Busy => panic!("nobody else has locked anything"),
            Locked::Damaged(what) => panic!("{run} is damaged: {what}"),
        };
        Ok(given.into_iter().map(working).collect())
    }

    fn decide_one(
        &mut self,
        working: &mut Working,
        run: RunId,
        command: Command,
        flow: &Flow,
        batch: &mut Batch,
    ) -> Result<Result<Answer, Refusal>, StoreError> {
        let wanted: Vec<PayloadId> = needs(working.run.as_ref(), &command, flow).into_iter().collect();
        let found = self.store.more(self.batch.unwrap_or(BatchId(0)), &[], &wanted)?.payloads;
        let here = |(id, payload)| match payload {
            LoadedPayload::Here(json) => Some((id, json)),
            LoadedPayload::Absent => None,
            LoadedPayload::Damaged(what) => panic!("{id} is damaged: {what}"),
        };
        let mut payloads: HashMap<PayloadId, Json> = wanted.into_iter().zip(found).filter_map(here).collect();
        payloads.extend(working.payloads.iter().cloned());
        working.touch_place_of(&command);
        let next_flow = match &command {
            Command::Migrate { to, .. } => self.flows.get(to).cloned(),
            _ => None,
        };
        let mut context = Context {
            now: self.now,
            run,
            flow,
            next_flow: next_flow.as_deref(),
            payloads: &payloads,
            ids: &mut self.ids,
            random: &mut self.random,
            offers: &mut Offers::default(),
            downtimes: &[],
            clock: self.clock.shift,
            policies: &self.policies,
            turns: &mut ResumePacer::default(),
            max_nesting: MAX_NESTING,
            homes: &Homes::default(),
        };
        let decided = decide(&mut working.run, command, &mut context);
        // A run that was moved is woken by the version that it was moved to.
        if next_flow.is_some() && decided.is_ok() {
            working.flow = next_flow;
        }
        Ok(decided.map(|decision| working.record(decision, batch)))
    }
}

impl Driver<()> {
    /// Continues with another store, as an engine does after a restart: its clock and its ids follow the store's.
    pub fn continue_with<S: Store>(self, store: S) -> Driver<S> {
        let Driver { store: (), now, ids, random, flows, policies, newest, clock, .. } = self;
        let (batch, given) = (None, BTreeMap::new());
        let mut driver = Driver { store, now, ids, random, flows, policies, newest, clock, batch, given };
        driver.resume();
        driver
    }
}

impl Working {
    fn new(run: Option<Run>) -> Working {
        let (touched, touched_run) = (Touched::default(), false);
        Working { run, flow: None, events: vec![], payloads: vec![], touched, touched_run, leases: vec![] }
    }

    fn flow(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>, given: Option<Arc<Flow>>) -> Option<Arc<Flow>> {
        let own = self.run.as_ref().map(|run| flows[&run.flow].clone());
        self.flow = own.or(given);
        self.flow.clone()
    }

    /// Marks the place that a stale timer or entry was about, so that its wakeup is written again.
    fn touch_place_of(&mut self, command: &Command) {
        match command {
            Command::Claim { unit, .. } | Command::Due { unit: Some(unit), .. } => {
                self.touched.units.push(*unit);
            }
            Command::Due { unit: None, .. } | Command::Admit => self.touched_run = true,
            Command::Start(_)
            | Command::Report { .. }
            | Command::Lost { .. }
            | Command::Choose { .. }
            | Command::Resume { .. }
            | Command::Acknowledge { .. }
            | Command::Complete { .. }
            | Command::Skip { .. }
            | Command::ApplyPolicies { .. }
            | Command::Pause { .. }
            | Command::Amend { .. }
            | Command::Migrate { .. }
            | Command::Unpause { .. }
            | Command::Cancel { .. }
            | Command::Signal { .. }
            | Command::Rerun { .. }
            | Command::Notice(_) => {}
        }
    }

    fn record(&mut self, decision: Decision, batch: &mut Batch) -> Answer {
        self.touched.all |= decision.touched.all;
        self.touched.units.extend(decision.touched.units);
        self.leases.extend(decision.lease);
        self.payloads.extend(decision.payloads);
        self.events.extend(decision.event);
        batch.stage.notices.extend(decision.notices);
        batch.stage.errors.extend(decision.errors);
        batch.stage.logs.extend(decision.log.map(|log| *log));
        decision.answer
    }

    fn finish(self, stage: &mut Stage) {
        let Working { run: Some(run), flow, events, payloads, mut touched, touched_run, leases } = self
        else {
            return;
        };
        touched.units.sort_unstable();
        touched.units.dedup();
        let is_same = events.is_empty()
            && leases.is_empty()
            && !touched_run
            && !touched.all
            && touched.units.is_empty();
        let Some(flow) = flow.filter(|_| !is_same) else {
            stage.unchanged.push(run);
            return;
        };
        let wakeups = if touched.all {
            wakeups(&run, &flow)
        } else {
            let places = touched_run.then_some(None).into_iter().chain(touched.units.into_iter().map(Some));
            places.map(|place| (place, wakeup(&run, &flow, place))).collect()
        };
        stage.runs.push(RunChange {
            slot: slot_claim(&run, &flow),
            open_errors: changed_open_errors(&events, &run, &flow),
            run: Box::new(run),
            flow: flow.name.clone(),
            events,
            payloads,
            wakeups,
            replaces_all: touched.all,
            leases,
        });
    }
}

/// Builds the command of a bulk action for one of its targets.
fn target_of(bulk: &Bulk, target: &Target) -> Ask {
    let (by, reason, unit) = (bulk.by.clone(), bulk.reason.clone(), target.unit);
    let own = Some(BulkRef { bulk: bulk.id, place: target.place });
    let changes = |input: &Option<Json>, step_input: &Option<Json>| {
        let (input, step_input) = (input.clone(), step_input.clone());
        Box::new(Changes { input, step_input, bulk: own, ..Changes::default() })
    };
    let of_step = unit.unwrap_or(UnitRef::step(StepIndex(0)));
    let command = match &bulk.action {
        BulkAction::Resume { input, step_input } => {
            Command::Resume { unit, by, reason, changes: changes(input, step_input) }
        }
        BulkAction::Acknowledge => Command::Acknowledge { unit, by, reason },
        BulkAction::Cancel => Command::Cancel { by, reason },
        BulkAction::Rerun { again, input, step_input } => {
            let what = if *again == BulkRerun::Continue { Rerun::Continue } else { Rerun::All };
            Command::Rerun { what, changes: changes(input, step_input), by }
        }
        BulkAction::Choose { choice, .. } => {
            Command::Choose { unit: of_step, choice: *choice, by, bulk: own }
        }
        BulkAction::Signal { name, payload } => {
            Command::Signal { name: name.clone(), payload: payload.clone(), by }
        }
        BulkAction::Skip { .. } => Command::Skip { unit: of_step, by, reason },
        BulkAction::Complete { output, .. } => {
            Command::Complete { unit: of_step, output: output.clone(), by, reason }
        }
        BulkAction::Forget => panic!("whoever forgets runs stages that by itself"),
        BulkAction::ApplyPolicies { only } => {
            Command::ApplyPolicies { unit: of_step, only: only.clone(), after: Millis(0), by }
        }
    };
    Ask { run: target.run, command, flow: None }
}

/// Returns the highest id of a batch: of runs, of payloads, and of children that are yet to be started.
fn last_id(stage: &Stage) -> u64 {
    let runs = stage.runs.iter().flat_map(|change| {
        let payloads = change.payloads.iter().map(|(id, _)| id.0);
        payloads.chain([change.run.id.0])
    });
    runs.chain(stage.notices.iter().map(|notice| notice.to.number())).max().unwrap_or(0)
}

/// Puts policies that were made on the newest ones.
pub fn put_policies(store: &mut impl Store, change: PolicyChange) -> Result<(), StoreError> {
    let newest = store.versions().expect("versions can be read").policies;
    store.put_policies(change, newest)
}

/// Builds a worker of another process.
pub fn worker(name: &str) -> Worker {
    Worker { name: name.into(), incarnation: 1, local: false }
}

pub fn user() -> Actor {
    Actor::User("somebody".into())
}

/// Builds the offer of an idle worker that takes from these queues.
pub fn offer<'a>(queues: impl IntoIterator<Item = &'a str>, max_load: u32) -> Offer {
    let queues: Vec<Arc<str>> = queues.into_iter().map(Arc::from).collect();
    Offer { worker: worker("w"), queues: queues.into(), free: max_load, max_load }
}

/// Builds a JSON text that is too long to be kept within its run.
pub fn large(text: &str) -> Json {
    Json::parse(&format!("\"{text}{}\"", "-".repeat(200))).expect("is JSON")
}
