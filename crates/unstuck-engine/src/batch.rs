//! One batch: commands are decided on the runs they touch, and what comes of it becomes one transaction.

mod calls;
mod load;
mod notices;
mod progress;
mod schedules;
mod things;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use unstuck_core::bulk::BulkRef;
use unstuck_core::clock::decision_time;
use unstuck_core::command::{Command, Notice};
use unstuck_core::decide::{
    Answer, Context, Decision, Effect, LeaseMove, Touched, Withheld, check_forget, decide_boxed,
};
use unstuck_core::downtime::Downtime;
use unstuck_core::errors::{ErrorRecord, changed_open_errors};
use unstuck_core::event::Event;
use unstuck_core::home::Homes;
use unstuck_core::id::{FlowId, Ids, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::log::LogRecord;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::needs::needs;
use unstuck_core::offer::Offers;
use unstuck_core::outline::can_decide_by_outline;
use unstuck_core::policy::{Policies, ResumePacer};
use unstuck_core::random::Random;
use unstuck_core::refusal::Refusal;
use unstuck_core::slot::slot_claim;
use unstuck_core::thing::ThingRef;
use unstuck_core::time::Time;
use unstuck_core::wakeup::{wakeup, wakeups};
use unstuck_store::contract::{BatchId, NoticeId, RunChange, Stage, Store, StoreError};

use self::calls::BatchCalls;
use self::load::Missing;
pub(crate) use self::load::{Deferred, PayloadRead};
use self::things::BatchThings;
use crate::engine::set_aside::SetAsideRun;
use crate::flows::{Flows, outline};
use crate::metrics::Tally;
use crate::request::EngineError;

/// What a batch needs of the engine.
pub(crate) struct BatchContext<'a> {
    pub(crate) store: &'a mut dyn Store,
    pub(crate) flows: &'a mut Flows,
    pub(crate) ids: &'a mut Ids,
    pub(crate) random: &'a mut Random,
    pub(crate) offers: &'a mut Offers,
    pub(crate) downtimes: &'a [Downtime],
    pub(crate) clock: i64,
    pub(crate) policies: &'a Policies,
    pub(crate) turns: &'a mut ResumePacer,
    /// Runs that nothing is delivered to.
    pub(crate) aside: &'a FxHashMap<RunId, SetAsideRun>,
    pub(crate) max_nesting: u32,
    pub(crate) homes: &'a Homes,
    /// The time that the batch is decided at, and what the clock says since.
    pub(crate) now: Time,
    pub(crate) latest: Time,
}

/// The runs that a batch has locked, and what has become of them.
#[derive(Default)]
pub(crate) struct Batch {
    /// How the store names it.
    id: BatchId,
    runs: FxHashMap<RunId, BatchRun>,
    order: Vec<RunId>,
    /// Runs that somebody else has. One that was busy once is busy until the batch ends, so that what comes later for it
    /// does not overtake what had to wait.
    busy: FxHashSet<RunId>,
    /// Runs that are not what was written, each with what is wrong with it, and payloads.
    damaged: FxHashMap<RunId, String>,
    damaged_payloads: FxHashMap<PayloadId, String>,
    /// Runs that cannot be decided about, with the flow if that cannot be used, and why.
    pub(crate) unusable: Vec<(RunId, Option<FlowId>, EngineError)>,
    payloads: HashMap<PayloadId, Json>,
    /// What decisions have turned up that was not loaded.
    missing: Missing,
    /// What could not be decided for want of that, in order.
    pub(crate) deferred: Vec<Deferred>,
    /// Nothing more is loaded: what lacks something waits for the next batch.
    is_last_round: bool,
    /// The last id that was given out before this batch.
    last_id: u64,
    deliveries: VecDeque<Notice>,
    /// Notices that cannot be delivered now, in order, and to whom: what is new for them waits behind them.
    undelivered: VecDeque<Notice>,
    undelivered_to: FxHashSet<ThingRef>,
    /// New notices are stored rather than delivered: older ones may wait, or each thing is decided alone.
    pub(crate) stores_notices: bool,
    delivered: Vec<NoticeId>,
    /// Stored notices whose receivers somebody else has, the first of each.
    postponed: Vec<(NoticeId, ThingRef)>,
    /// Runs for which older notices wait that this batch was not given: new ones wait behind them.
    backlog: FxHashSet<RunId>,
    /// Runs that are removed.
    forgotten: Vec<RunId>,
    /// What went wrong, in order.
    errors: Vec<ErrorRecord>,
    /// What attempts have printed, in order.
    logs: Vec<LogRecord>,
    /// What is no run.
    things: BatchThings,
    /// Things that the store has found to be due.
    pub(crate) due_things: Vec<ThingRef>,
    /// Runs by flow and key: those that the store has told, and those of this batch, which it does not know yet.
    keys: HashMap<(Arc<str>, Arc<str>), RunId>,
    /// What comes with requests.
    calls: BatchCalls,
    /// The highest priority that waits, by queue.
    waiting: Vec<(Arc<str>, i32)>,
    /// Runs that stored notices are about.
    noticed: FxHashSet<RunId>,
    /// Runs that were set aside, and about which something was decided or is to be.
    pub(crate) released: Vec<RunId>,
    /// What was decided last is due and not done now: what it waits for.
    pub(crate) withheld: Option<Withheld>,
    /// What to hand out and whom to interrupt, once durable.
    pub(crate) effects: Vec<Effect>,
    /// Whether anybody wants to know what happens.
    is_watched: bool,
    /// What is counted of it once it is durable.
    pub(crate) tally: Tally,
    /// What has happened, in order, if so.
    pub(crate) happened: Vec<(RunId, Event)>,
    /// And which runs were removed together, as the target of a bulk action or not.
    pub(crate) gone: Vec<(Option<BulkRef>, Vec<RunId>)>,
}

/// One locked run.
struct BatchRun {
    run: Option<Box<Run>>,
    flow: Option<Arc<Flow>>,
    /// What is known of a flow that cannot be used: for what needs no flow.
    outline: Option<Arc<Flow>>,
    events: Vec<Event>,
    payloads: Vec<(PayloadId, Json)>,
    touched: Touched,
    leases: Vec<LeaseMove>,
    /// The run itself: its deadline and its slot.
    touched_run: bool,
    /// By which clock the store tells the signs of life of this run.
    clock: i64,
}

/// Why a command was not decided.
pub(crate) enum Undecided {
    /// Somebody else has the run: the next batch.
    Busy,
    /// Something that it needs was not loaded: the next round of this batch, or the next batch.
    Lacking,
    /// The run is set aside.
    Aside,
    /// It cannot be done.
    Error(EngineError),
}

impl From<StoreError> for Undecided {
    fn from(error: StoreError) -> Undecided {
        Undecided::Error(error.into())
    }
}

impl Batch {
    /// Whether somebody else has a run or another thing that this batch had something to do with.
    pub(crate) fn has_busy_runs(&self) -> bool {
        !self.busy.is_empty() || self.things.has_busy()
    }

    /// The runs and other things that somebody else has, once nothing more is decided.
    pub(crate) fn take_busy(&mut self) -> FxHashSet<ThingRef> {
        let runs = self.busy.drain().map(ThingRef::Run);
        runs.chain(self.things.busy()).collect()
    }

    /// The run that has this key, in the store or in this batch.
    pub(crate) fn run_of_key(&self, flow: &Arc<str>, key: &Arc<str>) -> Option<RunId> {
        self.keys.get(&(flow.clone(), key.clone())).copied()
    }

    /// The highest priority that waits in any of these queues.
    pub(crate) fn highest_waiting(&self, queues: &[Arc<str>]) -> Option<i32> {
        let asked = self.waiting.iter().filter(|(queue, _)| queues.contains(queue));
        asked.map(|(_, priority)| *priority).max()
    }

    /// Remembers the key of a run that is started in this batch.
    pub(crate) fn register_key(&mut self, flow: &Arc<str>, key: &Arc<str>, run: RunId) {
        self.keys.insert((flow.clone(), key.clone()), run);
    }

    /// A run that this batch makes: nobody can have locked it.
    pub(crate) fn expect_new(&mut self, run: RunId) {
        self.order.push(run);
        self.runs.insert(run, BatchRun::new(None));
    }

    /// Decides one command. `flow` is given for a start; any other run knows its own.
    pub(crate) fn decide(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: RunId,
        command: Command,
        flow: Option<Arc<Flow>>,
    ) -> Result<Answer, Undecided> {
        let flow = self.prepare(tools, id, &command, flow)?;
        self.decide_prepared(tools, id, command, &flow)
    }

    /// Looks whether all that a command needs is loaded, and gives the flow to decide it with. What is missing is noted, to
    /// be loaded with the rest; what comes later for the same run waits as well.
    pub(crate) fn prepare(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: RunId,
        command: &Command,
        flow: Option<Arc<Flow>>,
    ) -> Result<Arc<Flow>, Undecided> {
        if self.missing.waits(id) {
            return Err(Undecided::Lacking);
        }
        let Some(working) = self.runs.get_mut(&id) else { return Err(self.why_not_loaded(id)) };
        let flow = match working.flow(tools, flow) {
            Ok(flow) => flow,
            Err(None) => return Err(Undecided::Error(unknown_run(id))),
            Err(Some(error)) if error.is_unusable_flow() => {
                let Some(outline) = working.outline(tools, command)? else {
                    self.unusable.extend(working.run.as_ref().map(|run| (id, Some(run.flow), error.clone())));
                    return Err(Undecided::Error(error));
                };
                outline
            }
            Err(Some(error)) => return Err(Undecided::Error(error)),
        };
        for payload in needs(working.run.as_deref(), command, &flow) {
            if self.payloads.contains_key(&payload) {
                continue;
            }
            if let Some(what) = self.damaged_payloads.get(&payload) {
                let error = EngineError::Damaged(what.clone());
                self.unusable.extend(working.run.as_ref().map(|_| (id, None, error.clone())));
                return Err(Undecided::Error(error));
            }
            self.missing.add_payload(payload, id);
        }
        if self.missing.waits(id) { Err(Undecided::Lacking) } else { Ok(flow) }
    }

    /// Decides one command of which [`Batch::prepare`] has given the flow.
    pub(crate) fn decide_prepared(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: RunId,
        command: Command,
        flow: &Flow,
    ) -> Result<Answer, Undecided> {
        let Some(working) = self.runs.get_mut(&id) else { return Err(Undecided::Busy) };
        let place = place_of(&command);
        let next_flow = match &command {
            Command::Migrate { to, .. } => Some(tools.flows.get(tools.store, *to).map_err(Undecided::Error)?),
            _ => None,
        };
        let command = working.with_heartbeats(command, tools.clock);
        let mut context = Context {
            now: working.run.as_deref().map_or(tools.now, |run| decision_time(run, tools.now, tools.clock)),
            run: id,
            flow,
            next_flow: next_flow.as_deref(),
            payloads: &self.payloads,
            ids: tools.ids,
            random: tools.random,
            offers: tools.offers,
            downtimes: tools.downtimes,
            clock: tools.clock,
            policies: tools.policies,
            turns: tools.turns,
            max_nesting: tools.max_nesting,
            homes: tools.homes,
        };
        let result = decide_boxed(&mut working.run, command, &mut context);
        // Whatever a stale timer or queue entry was about is looked at again, or it would come back for ever.
        match place {
            Some(RunAtWork::Unit(unit)) => working.touch(unit),
            Some(RunAtWork::Run) => working.touched_run = true,
            None => {}
        }
        let decision = result.map_err(|refusal| Undecided::Error(refusal.into()))?;
        // From here on the run is decided about, and woken, by the version that it was moved to.
        if let Some(next) =
            next_flow.filter(|next| working.run.as_ref().is_some_and(|run| run.flow == next.id))
        {
            working.flow = Some(next);
        }
        self.withheld = self.withheld.or(decision.withheld);
        Ok(self.record(id, decision))
    }

    /// Removes a final run and all that belongs to it, which are given with the numbers of their last events; as a target
    /// of a bulk action, or because somebody asked for it.
    pub(crate) fn forget(
        &mut self,
        runs: &[(RunId, u64)],
        target: Option<BulkRef>,
    ) -> Result<Answer, Undecided> {
        if let Some((gone, _)) = runs.iter().find(|(run, _)| self.forgotten.contains(run)) {
            return Err(Undecided::Error(unknown_run(*gone)));
        }
        let is_one = |run: RunId| runs.iter().any(|(id, _)| *id == run);
        // What is on its way to one of them, or begins a child of one, comes first. They are locked: nothing new comes.
        let is_about = |notice: &Notice| {
            notice.to.run().is_some_and(is_one) || notice.begins_child_of().is_some_and(is_one)
        };
        if self.undelivered.iter().chain(&self.deliveries).any(is_about)
            || runs.iter().any(|(run, _)| self.noticed.contains(run))
        {
            return Err(Undecided::Busy);
        }
        for (id, _) in runs {
            if self.missing.waits(*id) {
                return Err(Undecided::Lacking);
            }
            if !self.runs.contains_key(id) {
                return Err(self.why_not_loaded(*id));
            }
        }
        for (place, (id, seq)) in runs.iter().enumerate() {
            let Some(working) = self.runs.get(id) else { return Err(Undecided::Busy) };
            let run = working.run.as_deref().ok_or(Undecided::Error(unknown_run(*id)))?;
            if working.is_changed() || run.seq != *seq {
                return Err(Undecided::Error(EngineError::Changed(*id)));
            }
            check_forget(run, place > 0).map_err(|refusal| Undecided::Error(refusal.into()))?;
        }
        for (id, _) in runs {
            self.runs.remove(id);
            self.logs.retain(|record| record.attempt.run != *id);
            self.forgotten.push(*id);
        }
        if self.is_watched {
            self.gone.push((target, runs.iter().map(|(run, _)| *run).collect()));
        }
        Ok(Answer::Done)
    }

    /// A run as this batch leaves it, and its flow, before something is decided about it.
    pub(crate) fn view_run(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: RunId,
    ) -> Result<(&Run, Arc<Flow>), Undecided> {
        if self.forgotten.contains(&id) {
            return Err(Undecided::Error(unknown_run(id)));
        }
        if self.missing.waits(id) {
            return Err(Undecided::Lacking);
        }
        if !self.runs.contains_key(&id) {
            return Err(self.why_not_loaded(id));
        }
        let Some(working) = self.runs.get_mut(&id) else { return Err(Undecided::Busy) };
        let flow = match working.flow(tools, None) {
            Ok(flow) => flow,
            Err(None) => return Err(Undecided::Error(unknown_run(id))),
            Err(Some(error)) => {
                if error.is_unusable_flow()
                    && let Some(run) = &working.run
                {
                    self.unusable.push((id, Some(run.flow), error.clone()));
                }
                return Err(Undecided::Error(error));
            }
        };
        let run = working.run.as_deref().ok_or(Undecided::Error(unknown_run(id)))?;
        Ok((run, flow))
    }

    fn record(&mut self, id: RunId, decision: Decision) -> Answer {
        let Some(working) = self.runs.get_mut(&id) else { return decision.answer };
        if decision.touched.all {
            working.touched.all = true;
        } else if working.touched.units.is_empty() {
            working.touched.units = decision.touched.units;
        } else {
            decision.touched.units.iter().for_each(|unit| working.touch(*unit));
        }
        if let Some(lease) = decision.lease {
            working.leases.retain(|old| old.unit != lease.unit);
            working.leases.push(lease);
        }
        for (id, json) in &decision.payloads {
            self.payloads.insert(*id, json.clone());
        }
        working.payloads.extend(decision.payloads);
        if let Some(event) = decision.event {
            self.tally.take(&event, working.flow.as_deref());
            if self.is_watched {
                self.happened.push((id, event.clone()));
            }
            if working.events.is_empty() {
                working.events.reserve_exact(1);
            }
            working.events.push(event);
        }
        self.errors.extend(decision.errors);
        self.logs.extend(decision.log.map(|log| *log));
        self.deliveries.extend(decision.notices);
        self.effects.extend(decision.effects);
        decision.answer
    }

    /// Whether this batch leaves the run ended.
    pub(crate) fn has_ended(&self, id: RunId) -> bool {
        self.runs.get(&id).and_then(|working| working.run.as_deref()).is_some_and(Run::is_final)
    }

    /// Whether a run that is locked has not taken in all that the clock was set by.
    pub(crate) fn has_old_clock(&self, id: RunId, clock: i64) -> bool {
        let run = self.runs.get(&id).and_then(|working| working.run.as_deref());
        run.is_some_and(|run| !run.is_final() && run.clock != clock)
    }

    /// The state of a run as this batch leaves it, with its flow.
    pub(crate) fn run(&self, id: RunId) -> Option<(&Run, &Arc<Flow>)> {
        let working = self.runs.get(&id)?;
        Some((working.run.as_deref()?, working.flow.as_ref()?))
    }

    /// Whether there is anything to make durable.
    pub(crate) fn has_changes(&self) -> bool {
        !self.deliveries.is_empty()
            || !self.undelivered.is_empty()
            || !self.forgotten.is_empty()
            || !self.delivered.is_empty()
            || !self.postponed.is_empty()
            || self.things.has_changes()
            || !self.logs.is_empty()
            || !self.calls.is_empty()
            || self.runs.values().any(|working| working.run.is_some() && working.is_changed())
    }

    /// Gives the locked runs back as they are; only for a batch without changes.
    pub(crate) fn into_runs(self) -> Vec<Run> {
        self.runs.into_values().filter_map(|working| working.run.map(|run| *run)).collect()
    }

    /// The transaction.
    pub(crate) fn into_stage(mut self, at: Time, last_id: u64) -> Stage {
        let mut runs = Vec::with_capacity(self.order.len());
        let mut unchanged = Vec::new();
        for id in &self.order {
            let Some(working) = self.runs.remove(id) else { continue };
            let is_changed = working.is_changed();
            let BatchRun {
                run: Some(run),
                flow,
                outline,
                events,
                payloads,
                touched,
                leases,
                touched_run,
                ..
            } = working
            else {
                continue;
            };
            let Some(flow) = flow.or(outline).filter(|_| is_changed) else {
                unchanged.push(*run);
                continue;
            };
            let wakeups = if touched.all {
                wakeups(&run, &flow)
            } else {
                let own = touched_run.then_some(None);
                let places = own.into_iter().chain(touched.units.into_iter().map(Some));
                places.map(|place| (place, wakeup(&run, &flow, place))).collect()
            };
            runs.push(RunChange {
                slot: slot_claim(&run, &flow),
                open_errors: changed_open_errors(&events, &run, &flow),
                run,
                flow: flow.name.clone(),
                events,
                payloads,
                wakeups,
                replaces_all: touched.all,
                leases,
            });
        }
        let progress = self.things.list_progress(at);
        let (things, results) = self.things.into_changes();
        Stage {
            at,
            runs,
            unchanged,
            notices: self.undelivered.into_iter().chain(self.deliveries).collect(),
            delivered: self.delivered,
            postponed: self.postponed.into_iter().map(|(id, _)| id).collect(),
            last_id,
            forgotten: self.forgotten,
            downtime: None,
            clock: None,
            errors: self.errors,
            logs: self.logs,
            backfilled: Vec::new(),
            things,
            results,
            interrupts: Vec::new(),
            idempotency: self.calls.idempotency,
            audit: self.calls.audit.into_iter().chain(progress).collect(),
            token_uses: Vec::new(),
        }
    }
}

impl BatchRun {
    fn new(run: Option<Box<Run>>) -> BatchRun {
        BatchRun {
            clock: run.as_deref().map_or(0, |run| run.clock),
            run,
            flow: None,
            outline: None,
            events: Vec::new(),
            payloads: Vec::new(),
            touched: Touched::default(),
            leases: Vec::new(),
            touched_run: false,
        }
    }

    fn is_changed(&self) -> bool {
        !self.events.is_empty()
            || !self.leases.is_empty()
            || self.touched_run
            || self.touched.all
            || !self.touched.units.is_empty()
    }

    fn touch(&mut self, unit: UnitRef) {
        if !self.touched.all && !self.touched.units.contains(&unit) {
            self.touched.units.push(unit);
        }
    }

    /// Something that is due, with the signs of life that this batch has heard: they are no events, and the store does
    /// not know them yet. What the store knows is told by the clock as it was when the run was last changed.
    fn with_heartbeats(&self, command: Command, clock: i64) -> Command {
        match command {
            Command::Due { unit: Some(unit), heard } => {
                let heard = heard.map(|heard| heard.shifted(clock.saturating_sub(self.clock)));
                let lease = self.leases.iter().find(|lease| lease.unit == unit);
                Command::Due { unit: Some(unit), heard: heard.max(lease.map(|lease| lease.heard)) }
            }
            command => command,
        }
    }

    /// The flow of the run: its own, or the one it is to be started with. `Err(None)`: there is no such run.
    fn flow(
        &mut self,
        tools: &mut BatchContext<'_>,
        given: Option<Arc<Flow>>,
    ) -> Result<Arc<Flow>, Option<EngineError>> {
        if let Some(flow) = &self.flow {
            return Ok(flow.clone());
        }
        let flow = match (&self.run, given) {
            (Some(run), _) => tools.flows.get(tools.store, run.flow).map_err(Some)?,
            (None, Some(given)) => given,
            (None, None) => return Err(None),
        };
        if let Some(run) = &self.run
            && run.steps.len() != flow.steps.len()
        {
            let (has, should) = (run.steps.len(), flow.steps.len());
            let problem = format!(
                "{} has {has} steps, but its flow version has {should}: restore a copy of the store",
                run.id
            );
            return Err(Some(EngineError::BadFlow(problem)));
        }
        self.flow = Some(flow.clone());
        Ok(flow)
    }

    /// What is known of a flow that cannot be used, if that is enough to decide this command.
    fn outline(
        &mut self,
        tools: &mut BatchContext<'_>,
        command: &Command,
    ) -> Result<Option<Arc<Flow>>, StoreError> {
        let Some(run) = self.run.as_deref().filter(|run| can_decide_by_outline(run, command)) else {
            return Ok(None);
        };
        if self.outline.is_none() {
            let record = tools.store.flow(run.flow)?;
            self.outline = Some(Arc::new(outline(run, record)));
        }
        Ok(self.outline.clone())
    }
}

/// The wakeup that a command was found by.
enum RunAtWork {
    Unit(UnitRef),
    Run,
}

fn place_of(command: &Command) -> Option<RunAtWork> {
    match command {
        Command::Claim { unit, .. } | Command::Due { unit: Some(unit), .. } => Some(RunAtWork::Unit(*unit)),
        Command::Due { unit: None, .. } | Command::Admit => Some(RunAtWork::Run),
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
        | Command::Unpause { .. }
        | Command::Amend { .. }
        | Command::Migrate { .. }
        | Command::Cancel { .. }
        | Command::Signal { .. }
        | Command::Rerun { .. }
        | Command::Notice(_) => None,
    }
}

fn unknown_run(run: RunId) -> EngineError {
    EngineError::Refused(Refusal::UnknownRun(run))
}

/// The attempts that a batch hands out, each with the worker's room that it takes.
pub(crate) fn dispatches(effects: &[Effect]) -> impl Iterator<Item = (AttemptId, &Worker, u32)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Dispatch { attempt, worker, load } => Some((*attempt, worker, *load)),
        Effect::Interrupt { .. } => None,
    })
}
