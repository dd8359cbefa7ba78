//! What callers and operators ask, and the nonsense that others ask.

use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkRerun, Pace, Target, TargetResult};
use unstuck_core::command::{Changes, Command, OnDuplicate, Report, Rerun};
use unstuck_core::decide::unit_name;
use unstuck_core::event::{Actor, Choice};
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::model::unit::{UnitRef, UnitState, Waiting};
use unstuck_core::policy::PolicyDraft;
use unstuck_core::time::Millis;
use unstuck_engine::bulk::BulkCommand;
use unstuck_engine::drive::Drive as _;
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{Request, StartRun};
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::{OpenErrorFilter, RunFilter};

use super::{PendingRequest, World};
use crate::simulate::plan::flows::SIGNALS;
use crate::simulate::plan::policies::NAMES as POLICY_NAMES;
use crate::simulate::plan::{Nonsense, OperatorAct, PlannedAct, StartPlan};
use crate::simulate::promises::Broken;
use crate::simulate::promises::bulks::actor_of;
use crate::simulate::worker_behaviour::{input, too_large};

/// A run, and the step of it where one is meant.
type TargetRef = (RunId, Option<UnitRef>);

/// Who does what is done by hand.
pub(super) fn operator() -> Actor {
    Actor::User("ada".into())
}

impl<S: TestStore> World<'_, S> {
    /// Something of the plan is done.
    pub(super) fn perform_act(&mut self, act: &PlannedAct) -> Result<(), Broken> {
        let words = act.words();
        self.say(format_args!("{act}"));
        let by = operator();
        match act {
            PlannedAct::Fault(fault) => return self.fault(*fault),
            PlannedAct::Start(start) => self.start(start),
            PlannedAct::Operate(act, nth) => self.operate(*act, *nth),
            PlannedAct::LoadPolicies(drafts, replace) => {
                let drafts = drafts.clone();
                self.order_counted(words, PolicyCommand::Load { drafts, replace: *replace, by });
            }
            PlannedAct::EnablePolicy(name) => {
                self.order_counted(words, PolicyCommand::Enable { names: vec![(*name).into()], by });
            }
            PlannedAct::DisablePolicy(name) => {
                self.order_counted(words, PolicyCommand::Disable { names: vec![(*name).into()], by });
            }
            PlannedAct::DeletePolicy(name) => {
                self.order_counted(words, PolicyCommand::Delete { names: vec![(*name).into()], by });
            }
            PlannedAct::PausePolicies => {
                self.order_counted(words, PolicyCommand::Pause { reason: "it is night".into(), by });
            }
            PlannedAct::UnpausePolicies(rate) => {
                self.order_counted(words, PolicyCommand::Unpause { rate: *rate, by });
            }
            PlannedAct::Bulk(act, canary) => {
                if self.bulk(*act, *canary).is_some() {
                    self.acts.count(words);
                }
            }
            PlannedAct::ChangeBulk(act, nth) => self.change_bulk(*act, *nth, words),
            PlannedAct::NewVersion(flow) => {
                if self.engine().is_some() {
                    self.put_flow(flow);
                    self.acts.count(words);
                }
            }
            PlannedAct::Nonsense(nonsense, nth) => self.nonsense(*nonsense, *nth),
        }
        Ok(())
    }

    fn start(&mut self, start: &StartPlan) {
        let ticket = self.ticket(PendingRequest::Act("start"));
        // Whoever gives an instant has the right time.
        let deadline = start.deadline.map(|span| self.now + span);
        let on_duplicate =
            if start.restart_if_final { OnDuplicate::RestartIfFinal } else { OnDuplicate::Return };
        let start = StartRun {
            flow: start.flow.clone(),
            version: None,
            key: start.key.map(|key| format!("k{key}").into()),
            input: input(start.input),
            labels: None,
            priority: start.priority,
            deadline,
            on_duplicate,
            home: None,
            by: operator(),
        };
        self.ask(Request::Start { ticket, start });
    }

    fn order_counted(&mut self, words: &'static str, order: PolicyCommand) {
        if self.order(order) {
            self.acts.count(words);
        }
    }

    /// Does something to the `nth` of what it fits, or to anything at all where it fits nothing.
    fn operate(&mut self, act: OperatorAct, nth: u64) {
        let runs = self.known_runs();
        let mut fitting: Vec<(RunId, UnitRef)> = runs.iter().flat_map(|run| fits(act, run)).collect();
        if fitting.is_empty() {
            let anything = |run: &Run| (run.id, UnitRef::step(StepIndex(0)));
            fitting = runs.iter().map(anything).collect();
        }
        let Some((run, unit)) = nth_of(&fitting, nth) else { return };
        self.do_to(act, run, unit, nth);
        // Another one right behind it, so that signals wait in line.
        if act == OperatorAct::Signal && nth % 4 < 2 {
            self.do_to(act, run, unit, nth + 1);
        }
    }

    /// Does something to a run or a step of it.
    pub(super) fn do_to(&mut self, act: OperatorAct, run: RunId, unit: UnitRef, nth: u64) {
        let by = operator();
        let reason: Option<Arc<str>> = nth.is_multiple_of(2).then(|| "it is time".into());
        let whole = nth.is_multiple_of(3);
        let command = match act {
            OperatorAct::ChooseRetry => Command::Choose { unit, choice: Choice::Retry, by, bulk: None },
            OperatorAct::ChooseNone => Command::Choose { unit, choice: Choice::None, by, bulk: None },
            OperatorAct::Resume => {
                Command::Resume { unit: (!whole).then_some(unit), by, reason, changes: Box::default() }
            }
            OperatorAct::ResumeChanged => {
                let changes = match nth % 2 {
                    0 => Changes { input: Some(input(nth % 3)), ..Changes::default() },
                    _ => Changes { step_input: Some(input(nth % 3)), ..Changes::default() },
                };
                Command::Resume { unit: Some(unit), by, reason, changes: Box::new(changes) }
            }
            OperatorAct::Acknowledge => Command::Acknowledge { unit: (!whole).then_some(unit), by, reason },
            OperatorAct::Complete => Command::Complete { unit, output: input(nth % 3), by, reason },
            OperatorAct::Skip => Command::Skip { unit, by, reason },
            OperatorAct::Apply => {
                let only = (nth % 4 == 3).then(|| vec![POLICY_NAMES[usize::from(whole)].into()]);
                Command::ApplyPolicies { unit, only, after: Millis(nth % 5_000), by }
            }
            OperatorAct::Pause => Command::Pause { by, reason },
            OperatorAct::Unpause => Command::Unpause { by },
            OperatorAct::Cancel => Command::Cancel { by, reason },
            OperatorAct::Signal => {
                let name =
                    self.signal_wanted(run, unit).unwrap_or_else(|| SIGNALS[usize::from(whole)].into());
                Command::Signal { name, payload: input(nth % 3), by }
            }
            OperatorAct::Continue => rerun(Rerun::Continue, nth, by),
            OperatorAct::RunAll => rerun(Rerun::All, nth, by),
            OperatorAct::RunStep => Command::rerun(Rerun::Steps(self.steps_of(run, nth)), by),
            OperatorAct::Forget => return self.forget(run),
        };
        let ticket = self.ticket(PendingRequest::Act(act.words()));
        self.say(format_args!("  {} {run} {}", act.words(), unit.step.0));
        self.ask(Request::Command { ticket, run, command });
    }

    /// One step of a run, or now and then two.
    fn steps_of(&mut self, run: RunId, nth: u64) -> Vec<StepIndex> {
        let known = self.engine().and_then(|engine| engine.store().run(run).ok().flatten());
        let count = known.map_or(1, |run| run.steps.len().max(1)) as u64;
        let step = |nth: u64| StepIndex(u16::try_from(nth % count).unwrap_or(0));
        let mut steps = vec![step(nth)];
        if nth.is_multiple_of(5) {
            steps.push(step(nth / 5));
        }
        steps
    }

    fn signal_wanted(&mut self, run: RunId, unit: UnitRef) -> Option<Arc<str>> {
        let run = self.engine()?.store().run(run).ok()??;
        match &run.unit(unit)?.state {
            UnitState::Waiting(Waiting::Signal { name, .. }) => Some(name.clone()),
            _ => None,
        }
    }

    /// Forgets a run with all that belongs to it.
    fn forget(&mut self, root: RunId) {
        let ticket = self.ticket(PendingRequest::Act(OperatorAct::Forget.words()));
        let Some(engine) = self.engine() else { return };
        let Ok(Some(first)) = engine.store().run(root) else { return };
        let mut runs = vec![(root, first.seq)];
        let mut next = 0;
        while let Some((parent, _)) = runs.get(next).copied() {
            next += 1;
            let filter = RunFilter { parent: Some(parent), ..RunFilter::default() };
            let children = engine.store().list(&filter, None, 1_000).unwrap_or_default();
            runs.extend(children.iter().map(|run| (run.id, run.seq)));
        }
        self.say(format_args!("  forget {root} and {} more", runs.len() - 1));
        self.ask(Request::Forget { ticket, runs });
    }

    /// A bulk action for what it fits.
    fn bulk(&mut self, act: OperatorAct, canary: Option<u32>) -> Option<()> {
        if !self.is_up() {
            return None;
        }
        let now = self.running_host()?.timer().now();
        let (action, found) = self.bulk_of(act)?;
        let canary = canary.filter(|_| action.has_later_result());
        let engine = self.engine()?;
        if found.is_empty() {
            return None;
        }
        let id = engine.new_bulk_id(now);
        let total = found.len() as u64;
        let target = |(place, (run, unit))| Target { place, run, unit, result: TargetResult::Pending };
        let targets: Vec<Target> = (0..).zip(found).map(target).collect();
        engine.put_targets(id, targets.clone()).ok()?;
        // What is done to many runs at once is asked for once, so it has a name of its own.
        let (by, pace) = ((Actor::User(actor_of(id)), None), Pace { rate: 2, canary });
        // As whoever orders one is told: by the clock of the store, where several share it.
        let now = engine.to_store_time(now);
        let bulk = Bulk::new(id, action, by, "what the plan wants".into(), pace, total, now);
        engine.begin_bulk(bulk.clone()).ok()?;
        self.promises.record_bulk(&bulk, &targets);
        self.bulks.push(id);
        self.say(format_args!("  {id} begins with {total}"));
        Some(())
    }

    /// What a bulk action does, and to what: to all of it, where that does no harm to the plan, else to the first few.
    fn bulk_of(&mut self, act: OperatorAct) -> Option<(BulkAction, Vec<TargetRef>)> {
        let runs = self.known_runs();
        let fitting: Vec<(RunId, UnitRef)> = runs.iter().flat_map(|run| fits(act, run)).collect();
        let mut fitting_runs: Vec<RunId> = fitting.iter().map(|(run, _)| *run).collect();
        // Several steps of a run may wait for the same signal.
        fitting_runs.dedup();
        let whole = |most: usize| fitting_runs.iter().take(most).map(|run| (*run, None)).collect();
        let units = |most: usize| fitting.iter().take(most).map(|(run, unit)| (*run, Some(*unit))).collect();
        let (input, step_input) = (None, None);
        Some(match act {
            OperatorAct::Acknowledge | OperatorAct::Resume => {
                let engine = self.engine()?;
                let errors = engine.store().open_errors(&OpenErrorFilter::default(), None, 100).ok()?;
                let found = errors.iter().map(|error| (error.record.run, Some(error.record.unit))).collect();
                let resume = BulkAction::Resume { input, step_input };
                (if act == OperatorAct::Resume { resume } else { BulkAction::Acknowledge }, found)
            }
            OperatorAct::Cancel => (BulkAction::Cancel, whole(2)),
            OperatorAct::Continue => {
                (BulkAction::Rerun { again: BulkRerun::Continue, input, step_input }, whole(9))
            }
            OperatorAct::RunAll => (BulkAction::Rerun { again: BulkRerun::All, input, step_input }, whole(3)),
            OperatorAct::ChooseRetry => (BulkAction::Choose { choice: Choice::Retry, step: None }, units(9)),
            OperatorAct::ChooseNone => (BulkAction::Choose { choice: Choice::None, step: None }, units(2)),
            OperatorAct::Signal => {
                let (run, unit) = *fitting.first()?;
                let name = self.signal_wanted(run, unit).unwrap_or_else(|| SIGNALS[0].into());
                (BulkAction::Signal { name, payload: self::input(1) }, whole(3))
            }
            OperatorAct::Skip | OperatorAct::Complete => {
                let (run, unit) = *fitting.first()?;
                let step = self.step_name(run, unit)?;
                let action = match act {
                    OperatorAct::Skip => BulkAction::Skip { step },
                    _ => BulkAction::Complete { step, output: self::input(1) },
                };
                (action, units(3))
            }
            OperatorAct::Forget => (BulkAction::Forget, whole(3)),
            _ => return None,
        })
    }

    fn step_name(&mut self, run: RunId, unit: UnitRef) -> Option<Arc<str>> {
        let (store, flows) = self.engine()?.reader();
        let run = store.run(run).ok()??;
        let flow = flows.get(store, run.flow).ok()?;
        Some(unit_name(&flow, UnitRef::step(unit.step)).into())
    }

    fn change_bulk(&mut self, act: OperatorAct, nth: u64, words: &'static str) {
        let last = self.bulks.last().copied().filter(|_| nth == u64::MAX);
        let Some(bulk) = last.or_else(|| nth_of(&self.bulks, nth)) else { return };
        let command = match act {
            OperatorAct::Pause => BulkCommand::Pause,
            OperatorAct::Unpause => BulkCommand::Unpause,
            _ => BulkCommand::Cancel,
        };
        let ticket = self.ticket(PendingRequest::Act(words));
        self.ask(Request::Bulk { ticket, bulk, command });
    }

    /// Asks what must be refused. It is counted when it is asked, for it is never done.
    fn nonsense(&mut self, nonsense: Nonsense, nth: u64) {
        let by = operator();
        if self.engine().is_none() {
            return;
        }
        let known = nth_of(&self.runs, nth);
        let ticket = self.ticket(PendingRequest::Act("something that makes no sense"));
        let request = match nonsense {
            Nonsense::UnknownRun => {
                Request::Command { ticket, run: RunId(nth), command: Command::Pause { by, reason: None } }
            }
            Nonsense::UnknownUnit => {
                let unit = UnitRef::item(StepIndex(77), 7);
                let command = Command::Resume { unit: Some(unit), by, reason: None, changes: Box::default() };
                Request::Command { ticket, run: known.unwrap_or(RunId(1)), command }
            }
            Nonsense::VoidToken => {
                let Some(run) = known else { return };
                let unit = UnitRef::step(StepIndex(0));
                let attempt = AttemptId { run, generation: 1, unit, attempt: 9_999 };
                let command = Command::Report { attempt, report: Report::Complete { output: Json::NULL } };
                Request::Command { ticket, run, command }
            }
            Nonsense::VoidBeat => return self.void_beat(nth),
            Nonsense::UnknownFlow => return self.start_unknown(nonsense),
            Nonsense::TooLarge => {
                let command = Command::Signal { name: SIGNALS[0].into(), payload: too_large(), by };
                Request::Command { ticket, run: known.unwrap_or(RunId(1)), command }
            }
            Nonsense::BadPolicy => {
                let drafts = vec![PolicyDraft { name: Some("nothing".into()), ..PolicyDraft::default() }];
                self.acts.count(nonsense.words());
                self.order(PolicyCommand::Load { drafts, replace: true, by });
                return;
            }
            Nonsense::UnknownBulk => Request::Bulk { ticket, bulk: BulkId(nth), command: BulkCommand::Pause },
        };
        self.acts.count(nonsense.words());
        self.ask(request);
    }

    fn start_unknown(&mut self, nonsense: Nonsense) {
        self.acts.count(nonsense.words());
        self.start(&StartPlan {
            flow: "omega".into(),
            key: None,
            input: 0,
            priority: 0,
            deadline: None,
            restart_if_final: false,
        });
    }

    /// Runs that nobody was told of are in the store all the same.
    pub(super) fn find_runs(&mut self) {
        let Some(engine) = self.engine() else { return };
        let kept = engine.store().list(&RunFilter::default(), None, 1_000).unwrap_or_default();
        for run in kept.iter().rev().filter(|run| !self.runs.contains(&run.id)).collect::<Vec<_>>() {
            self.runs.push(run.id);
        }
    }

    /// The runs that there are, as they are now.
    pub(super) fn known_runs(&mut self) -> Vec<Run> {
        let runs = self.runs.clone();
        let Some(engine) = self.engine() else { return Vec::new() };
        runs.iter().filter_map(|run| engine.store().run(*run).ok().flatten()).collect()
    }
}

/// The units of a run that an act fits.
fn fits(act: OperatorAct, run: &Run) -> Vec<(RunId, UnitRef)> {
    let whole = UnitRef::step(StepIndex(0));
    let itself = |fits: bool| if fits { vec![(run.id, whole)] } else { Vec::new() };
    let units = |fits: fn(&UnitState) -> bool| {
        let mut found = Vec::new();
        if !run.is_final() {
            run.each_unit(|unit, state| {
                if fits(&state.state) {
                    found.push((run.id, unit));
                }
            });
        }
        found
    };
    match act {
        OperatorAct::ChooseRetry | OperatorAct::ChooseNone => {
            units(|state| matches!(state, UnitState::Held { .. }))
        }
        OperatorAct::Resume | OperatorAct::ResumeChanged => units(|state| {
            matches!(state, UnitState::Error { .. } | UnitState::Waiting(Waiting::Again { .. }))
        }),
        OperatorAct::Acknowledge | OperatorAct::Apply => {
            units(|state| matches!(state, UnitState::Error { .. }))
        }
        OperatorAct::Complete | OperatorAct::Skip => units(|state| {
            matches!(
                state,
                UnitState::Error { .. }
                    | UnitState::Held { .. }
                    | UnitState::Waiting(_)
                    | UnitState::Ready(_)
            )
        }),
        OperatorAct::Pause | OperatorAct::Cancel => itself(!run.is_final()),
        OperatorAct::Unpause => itself(run.paused.is_some()),
        OperatorAct::Signal => {
            let waits = units(|state| matches!(state, UnitState::Waiting(Waiting::Signal { .. })));
            if waits.is_empty() { itself(!run.is_final()) } else { waits }
        }
        OperatorAct::Continue | OperatorAct::RunAll | OperatorAct::RunStep => itself(run.is_final()),
        OperatorAct::Forget => itself(run.is_final() && run.origin == Origin::Root),
    }
}

/// A rerun, now and then with another input.
fn rerun(what: Rerun, nth: u64, by: Actor) -> Command {
    let changed = (nth % 4 == 1).then(|| input(nth % 3));
    Command::Rerun { what, changes: Box::new(Changes { input: changed, ..Changes::default() }), by }
}

fn nth_of<T: Copy>(of: &[T], nth: u64) -> Option<T> {
    let place = usize::try_from(nth % of.len().max(1) as u64).unwrap_or(0);
    of.get(place).copied()
}
