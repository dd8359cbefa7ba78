//! One random session: what happens next, and to whom.

use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkCommand, BulkRerun, Pace, Target, TargetResult, change_bulk};
use unstuck_core::command::{Amendment, Command, Notice, NoticeBody, OnDuplicate, Report, Rerun, StartInput};
use unstuck_core::decide::Withheld;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Choice;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Deadline, Flow, Kind, Step, StepIndex, WaitFor};
use unstuck_core::model::log::{AttemptLog, IgnoredLine, Tail};
use unstuck_core::model::recovery::{BackOff, Limits, RetryStrategy};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::{Unit, UnitState};
use unstuck_core::offer::Offer;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::{Ask, Driver, large, offer, user, worker};
use crate::conformance::flows::{action_of, each, graph, limited, sequence, step};
use crate::conformance::lists::{filters_like, labels};
use crate::conformance::sessions::session;
use crate::conformance::steps::BatchSteps;
use crate::contract::{ErrorFilter, OpenErrorFilter, RunFilter, Stage, Store, StoreError, Wants};
use crate::differential::twin::Twin;

const QUEUES: [&str; 3] = ["q", "r", "s"];

pub(super) struct RandomSession<'m, A, B> {
    pub(super) driver: Driver<Twin<'m, A, B>>,
    pub(super) random: Random,
}

impl<'m, A: TestStore, B: TestStore> RandomSession<'m, A, B> {
    pub(super) fn new(driver: Driver<Twin<'m, A, B>>, random: Random) -> RandomSession<'m, A, B> {
        let mut session = RandomSession { driver, random };
        for flow in flows() {
            session.driver.keep(flow);
        }
        for _ in 0..session.below(5) {
            session.change_policies();
        }
        session
    }

    /// Carries out one random action on both stores, and compares them now and then.
    pub(super) fn step(mut self, step: usize) -> Self {
        let span = [0, 0, 1, 40, 1_000, 20_000][self.below(6)];
        self.driver.pass(Millis(span));
        match self.below(100) {
            0..9 => self.start(),
            9..27 => self.claim(),
            27..57 => self.answer(),
            57..66 => self.what_is_due(),
            66..69 => self.admit(),
            69..71 => self.change_policies(),
            71..74 => self.bulk(),
            74..78 => self.deliver(),
            78..83 => self.operate(),
            83..85 => self.turn_back(),
            85..87 => self.tamper(),
            87 => self.read(),
            88 => self.forget(),
            89..97 => self.settle(),
            97 => self.fail(),
            98 => return self.crash(),
            _ => self.new_version(),
        }
        if step.is_multiple_of(16) {
            self.compare();
        }
        if self.driver.store.has_crashed() {
            return self.crash();
        }
        self.driver.store.look(&self.driver.flows);
        self
    }

    pub(super) fn end(mut self) {
        self.compare();
        self.crash().compare();
    }

    fn start(&mut self) {
        let mut asks = Vec::new();
        for _ in 0..=self.below(3) {
            let flow = self.some_flow();
            let key: Option<Arc<str>> = self.chance(3).then(|| format!("k{}", self.below(5)).into());
            // Mostly somebody has looked whether the key has a run; if not, the store must notice.
            let looked = !self.chance(8);
            let known = key
                .as_ref()
                .filter(|_| looked)
                .and_then(|key| self.driver.store.run_of_key(&flow.name, key).expect("reads"));
            let input = if self.chance(4) { large("input") } else { Json::NULL };
            let priority = [-1, 0, 0, 0, 2][self.below(5)];
            let restart = self.chance(2);
            let mut ask = self.driver.start_of(&flow, |start| {
                start.key = key;
                start.input = StartInput::New(input);
                start.priority = priority;
                start.labels =
                    (priority != 0 || restart).then(|| labels(&[("team", if restart { "a" } else { "b" })]));
                start.on_duplicate = if restart { OnDuplicate::RestartIfFinal } else { OnDuplicate::Return };
            });
            ask.run = known.unwrap_or(ask.run);
            asks.push(ask);
        }
        self.batch(asks);
    }

    fn claim(&mut self) {
        let offers: Vec<Offer> = (0..=self.below(3)).map(|_| self.some_offer()).collect();
        let limit = [1, 3, 100][self.below(3)];
        let queues = vec![QUEUES[self.below(3)].into()];
        let wants = Wants { offers, claims: limit, queues, ..Wants::default() };
        let found = self.driver.load(&wants).expect("loads").candidates;
        let mut asks = Vec::new();
        for candidate in found {
            if self.chance(10) {
                continue;
            }
            let worker = Worker { local: self.chance(3), ..worker("w") };
            let command = Command::Claim { unit: candidate.ready.unit, worker };
            asks.push(Ask { run: candidate.ready.run, command, flow: None });
        }
        let batch = self.driver.decide(asks).expect("decides");
        self.driver.stage(batch.stage).expect("claims are staged");
    }

    fn answer(&mut self) {
        let mut asks = Vec::new();
        for run in self.some_runs(10) {
            let active = run.units_where(|unit: &Unit| matches!(unit.state, UnitState::Active(_)));
            if active.is_empty() {
                continue;
            }
            let unit = active[self.below(active.len())];
            let Some(attempt) = run.unit(unit).map(|unit| unit.attempts) else { continue };
            let attempt = AttemptId { run: run.id, generation: run.generation, unit, attempt };
            for _ in 0..=self.below(2) {
                let command = self.some_answer(attempt);
                asks.push(Ask { run: run.id, command, flow: None });
            }
        }
        self.batch(asks);
    }

    fn some_answer(&mut self, attempt: AttemptId) -> Command {
        let says = match self.below(22) {
            0 => return Command::Lost { attempt, with_others: self.chance(2) },
            1..4 => Report::Start,
            4..7 => Report::Heartbeat { progress: None },
            7 => Report::Heartbeat { progress: Some(large("progress")) },
            8..14 => Report::Complete { output: if self.chance(3) { large("output") } else { Json::NULL } },
            14..17 => Report::Fail { error: Box::new(Error::new("it broke")), fatal: false },
            17 => Report::Fail { error: Box::new(Error::new("it broke for good")), fatal: true },
            18 => Report::Defer { asked: None, lacking: None },
            19 => Report::Release,
            _ => Report::Log(Box::new(self.some_log())),
        };
        Command::Report { attempt, report: says }
    }

    /// Makes a log; now and then one that is larger than a page of the database.
    fn some_log(&mut self) -> AttemptLog {
        let text = "log ".repeat(if self.chance(8) { 4_000 } else { self.below(20) });
        let stdout = Tail { bytes: text.len() as u64, text: text.into(), cut: self.chance(2) };
        let ignored = IgnoredLine { line: 1, text: "x".into(), why: "no JSON".into() };
        let ignored = self.chance(3).then_some(ignored).into_iter().collect();
        AttemptLog { stdout, ignored, ..AttemptLog::default() }
    }

    fn what_is_due(&mut self) {
        let limit = 1 + self.below(5);
        self.driver.store.next_due().expect("reads");
        if self.chance(4) {
            self.driver.store.release_withheld(limit);
        } else if self.chance(4)
            && let Some(due) = self.driver.store.due(self.driver.now, limit).expect("reads").last()
        {
            self.driver.store.withhold(due, Withheld::ForTurn);
        }
        let wants = Wants { now: self.driver.now, due: limit, ..Wants::default() };
        let due = self.driver.load(&wants).expect("loads").due;
        let asks = due
            .into_iter()
            .map(|due| {
                let command = Command::Due { unit: due.unit, heard: due.heard };
                Ask { run: due.run, command, flow: None }
            })
            .collect();
        let batch = self.driver.decide(asks).expect("decides");
        self.driver.stage(batch.stage).expect("what is due is staged");
    }

    fn admit(&mut self) {
        let limit = 1 + self.below(4);
        let wants = Wants { admissions: limit, ..Wants::default() };
        let runs = self.driver.load(&wants).expect("loads").admissible;
        let asks = runs.into_iter().map(|run| Ask { run, command: Command::Admit, flow: None }).collect();
        let batch = self.driver.decide(asks).expect("decides");
        self.driver.stage(batch.stage).expect("admissions are staged");
    }

    fn deliver(&mut self) {
        let limit = 1 + self.below(4);
        if !self.chance(5) {
            self.driver.deliver(limit);
            return;
        }
        // The receiver of the first one cannot take it.
        let first = self.driver.store.due_notices(self.driver.now, 1).expect("reads");
        self.driver.begin().expect("begins");
        let postponed = first.into_iter().map(|(id, _)| id).collect();
        let stage = Stage { at: self.driver.now, postponed, ..Stage::default() };
        self.driver.stage(stage).expect("it is postponed");
    }

    fn operate(&mut self) {
        let mut asks = Vec::new();
        for run in self.some_runs(2) {
            let command = self.some_remedy(&run).filter(|_| self.chance(2));
            let command = command.unwrap_or_else(|| self.some_order(&run));
            asks.push(Ask { run: run.id, command, flow: None });
        }
        self.batch(asks);
    }

    fn some_order(&mut self, run: &Run) -> Command {
        let by = user();
        let held = run.units_where(|unit| matches!(unit.state, UnitState::Held { .. }));
        match (self.below(9), held.first()) {
            (8, _) => {
                let value = ["a", "b"].get(self.below(3)).map(|value| (*value).to_owned());
                let priority = i32::try_from(self.below(3)).ok();
                let labels = [("team".to_owned(), value)].into();
                let changes = Box::new(Amendment { priority, labels, deadline: None });
                Command::Amend { changes, by, reason: None }
            }
            (0 | 1, Some(unit)) => Command::Choose { unit: *unit, choice: Choice::Retry, by, bulk: None },
            (2, Some(unit)) => Command::Choose { unit: *unit, choice: Choice::None, by, bulk: None },
            (0, None) => Command::Cancel { by, reason: None },
            (1, None) => Command::Signal { name: "s".into(), payload: large("signal"), by },
            (2 | 3, _) => Command::Resume { unit: None, by, reason: None, changes: Box::default() },
            (4, _) => Command::Pause { by, reason: None },
            (5, _) => Command::Unpause { by },
            (6, _) => Command::rerun(Rerun::Continue, by),
            (_, _) => Command::rerun(Rerun::Steps(vec![StepIndex(0)]), by),
        }
    }

    /// Begins, continues or changes a bulk action.
    fn bulk(&mut self) {
        let known: Vec<BulkId> = self.driver.open_bulks();
        let some = known.get(self.below(known.len().max(1))).copied();
        match (self.below(8), some) {
            (0..5, Some(bulk)) => {
                let most = self.below(4);
                self.driver.go_on(bulk, most).expect("it goes on");
            }
            (5, Some(bulk)) => self.change_bulk(bulk),
            (_, _) => self.begin_bulk(),
        }
    }

    fn begin_bulk(&mut self) {
        let id = BulkId(self.driver.new_id().0);
        let errors = self.driver.store.open_errors(&OpenErrorFilter::default(), None, 9).expect("reads");
        let errors = errors.into_iter().map(|error| (error.record.run, Some(error.record.unit)));
        let (action, mut found): (BulkAction, Vec<_>) = match self.below(9) {
            0 => (BulkAction::Acknowledge, errors.collect()),
            1 => (BulkAction::Cancel, self.some_runs(2).into_iter().map(|run| (run.id, None)).collect()),
            2 | 3 => {
                let runs = self.some_runs(6).into_iter().filter(Run::is_final);
                let again = BulkRerun::Continue;
                let rerun = BulkAction::Rerun { again, input: None, step_input: None };
                (rerun, runs.map(|run| (run.id, None)).collect())
            }
            4 => (BulkAction::Skip { step: "a step".into() }, errors.collect()),
            _ => (BulkAction::Resume { input: None, step_input: None }, errors.collect()),
        };
        // One that is not there any more.
        found.extend(self.chance(4).then_some((RunId(1), None)));
        let targets: Vec<Target> = (0..)
            .zip(found)
            .map(|(place, (run, unit))| Target { place, run, unit, result: TargetResult::Pending })
            .collect();
        let pace = Pace { canary: self.chance(2).then_some(1), ..Pace::default() };
        let total = targets.len() as u64;
        let bulk = Bulk::new(id, action, (user(), None), "some".into(), pace, total, self.driver.now);
        let (first, rest) = targets.split_at(self.below(targets.len() + 1));
        for part in [first, rest] {
            self.driver.store.put_targets(id, part.to_vec()).expect("targets are put");
        }
        let _ = self.driver.store.put_bulk(bulk);
    }

    fn change_bulk(&mut self, bulk: BulkId) {
        let command = match self.below(3) {
            0 => BulkCommand::Pause,
            1 => BulkCommand::Unpause,
            _ => BulkCommand::Cancel,
        };
        self.driver.begin().expect("begins");
        let mut thing = self.driver.lock_bulk(bulk).expect("locks").expect("it is not over");
        let bulk = thing.bulk_mut().expect("a bulk action");
        let _ = change_bulk(bulk, command, &self.driver.bulk_context());
        let stage = Stage { at: self.driver.now, things: vec![thing], ..Stage::default() };
        self.driver.stage(stage).expect("it is changed");
    }

    /// Decides a batch and does not stage it: nothing of it may be seen.
    fn turn_back(&mut self) {
        let flow = self.some_flow();
        let mut asks = vec![self.driver.start_of(&flow, |_| {})];
        for run in self.some_runs(3) {
            let command = self.some_order(&run);
            asks.push(Ask { run: run.id, command, flow: None });
        }
        let runs: Vec<Run> = self.some_runs(3);
        let offers = vec![self.some_offer()];
        self.driver.load(&Wants { offers, claims: 3, ..Wants::default() }).expect("loads");
        if self.chance(2) {
            let batch = self.driver.decide(asks).expect("decides");
            drop(batch);
            self.driver.rollback();
        } else {
            let mut ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.retain(|run| !self.driver.has_been_given(*run));
            let locked = self.driver.lock(&ids).expect("locks");
            self.driver.abandon(crate::conformance::steps::runs_of(locked));
        }
    }

    /// Stages a batch that breaks an invariant: both stores must refuse it.
    fn tamper(&mut self) {
        let flow = self.some_flow();
        let other = self.some_runs(1).first().map(|run| run.id);
        let ask = self.driver.start_of(&flow, |_| {});
        self.driver.begin().expect("begins");
        let mut stage = self.driver.decide(vec![ask]).expect("decides").stage;
        let change = &mut stage.runs[0];
        match (self.random.between(0, 3), other) {
            (0, Some(other)) => change.run.id = other,
            (1, _) => change.events[0].seq += 1,
            (2, _) => {
                let again = change.clone();
                stage.runs.push(again);
            }
            (_, _) => change.events[0].facts.clear(),
        }
        let result = self.driver.stage(stage);
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    }

    fn read(&mut self) {
        let states = (0..self.below(3)).map(|_| RunState::ALL[self.below(RunState::ALL.len())]).collect();
        let flow = self.chance(3).then(|| self.some_flow().name.clone());
        let runs = self.some_runs(1);
        let before = runs.first().filter(|_| self.chance(2)).map(|run| run.id);
        let parent = runs.first().and_then(|run| run.origin.parent());
        let roots_only = self.chance(4);
        let limit = 1 + self.below(6);
        let mut filter = RunFilter { states, flow, parent, roots_only, ..RunFilter::default() };
        self.narrow(&mut filter, runs.first());
        self.driver.store.list(&filter, before, limit).expect("lists");
        for like in runs.first().map(filters_like).unwrap_or_default() {
            let states = filter.states.clone();
            self.driver.store.list(&RunFilter { states, ..like }, before, limit).expect("lists");
        }
        let since = filter.since.unwrap_or(Time(0));
        self.driver.store.count_runs(since).expect("counts");
        for run in runs {
            let after = self.random.between(0, run.seq);
            self.driver.store.history(run.id, after, 3).expect("reads");
            self.driver.store.run(RunId(run.id.0 + 1)).expect("reads");
        }
        self.read_errors();
    }

    /// Adds criteria to a filter: those that a run meets, or those that it does not.
    fn narrow(&mut self, filter: &mut RunFilter, run: Option<&Run>) {
        let Some(run) = run else { return };
        if self.chance(6) {
            filter.since = Some(run.created_at);
        }
        if self.chance(6) {
            filter.until = Some(run.created_at);
        }
        if self.chance(6) {
            filter.versions = Some(vec![run.flow]);
        }
        if self.chance(4) {
            filter.key.clone_from(&run.key);
        }
        if self.chance(4) {
            let errors = self.driver.store.errors(&ErrorFilter::default(), None, 9).expect("reads");
            let some = errors.last().map(|(_, error)| error);
            filter.group = some.map(|error| error.group.clone());
            filter.cause = some.map(|error| error.cause.clone()).filter(|_| self.chance(2));
        }
    }

    /// Forgets a final run with all that belongs to it; sometimes one that is not final, which is refused.
    fn forget(&mut self) {
        let all = self.driver.store.list(&RunFilter::default(), None, usize::MAX).expect("lists");
        let is_root = |run: &&Run| run.origin.parent().is_none();
        let Some(root) = all.iter().filter(is_root).find(|run| run.is_final()) else { return };
        let mut family = vec![root.id];
        // Parents are older than their children.
        for run in all.iter().rev() {
            if run.origin.parent().is_some_and(|parent| family.contains(&parent)) {
                family.push(run.id);
            }
        }
        let is_final = all.iter().filter(|run| family.contains(&run.id)).all(Run::is_final);
        // A notice that is on its way would find nobody, or start a child of nobody.
        let notices = self.driver.store.notices(usize::MAX).expect("reads");
        if notices.iter().any(|(_, notice)| concerns(notice, &family)) {
            return;
        }
        let downtime = self.chance(2).then_some(Downtime { from: self.driver.now, to: self.driver.now });
        self.driver.begin().expect("begins");
        self.driver.lock(&family).expect("locks");
        let at = self.driver.now;
        let stage = Stage { at, forgotten: family, downtime, ..Stage::default() };
        let result = self.driver.stage(stage);
        assert_eq!(result.is_ok(), is_final, "{result:?}");
    }

    fn settle(&mut self) {
        let all = self.driver.store.outstanding();
        let n = if self.chance(2) { all } else { self.below(all + 1) };
        self.driver.store.make_durable(n);
        self.driver.store.settle(false);
    }

    fn fail(&mut self) {
        let error = StoreError::Away("the network".into());
        if self.chance(2) {
            // In the middle of a transaction, which is void then.
            let flow = self.some_flow();
            let ask = self.driver.start_of(&flow, |_| {});
            self.driver.begin().expect("begins");
            let batch = self.driver.decide(vec![ask]).expect("decides");
            if self.driver.store.fail(&error) {
                let id = self.driver.take_batch();
                self.driver.store.expect_void(id, batch.stage);
            } else {
                self.driver.stage(batch.stage).expect("nothing has failed");
            }
        } else {
            self.driver.store.fail(&error);
        }
        self.driver.resume();
        self.compare();
    }

    fn crash(mut self) -> Self {
        if self.chance(3) {
            let flow = self.some_flow();
            let ask = self.driver.start_of(&flow, |_| {});
            self.driver.begin().expect("begins");
            drop(self.driver.decide(vec![ask]).expect("decides"));
        }
        let RandomSession { driver, random } = self;
        let (mut twin, driver) = driver.split();
        twin.crash(&driver.flows);
        // As an engine does, so that what was being put is gone: its id may be given out again.
        twin.open_session(session([7; 32])).expect("a session is opened");
        let mut session = RandomSession { driver: driver.continue_with(twin), random };
        session.compare();
        session
    }

    fn new_version(&mut self) {
        let flow = self.some_flow();
        let mut steps = flow.steps.clone();
        let priority = self.random.between(0, 3);
        steps[0].priority = i32::try_from(priority).unwrap_or(0);
        let changed = graph(&flow.name, steps);
        let (deadline, concurrency) = (flow.deadline, flow.concurrency.clone());
        self.driver.keep(Flow { deadline, concurrency, ..changed });
    }

    fn compare(&mut self) {
        let flows = self.driver.flows.clone();
        self.driver.store.compare(&flows);
    }

    /// Carries out commands in one batch; the stores may only refuse it together.
    fn batch(&mut self, asks: Vec<Ask>) {
        match self.driver.attempt_all(asks) {
            Ok(_) | Err(StoreError::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn some_flow(&mut self) -> Arc<Flow> {
        let place = self.below(self.driver.flows.len());
        self.driver.flows.values().nth(place).expect("there are flows").clone()
    }

    /// Chooses some runs, older ones too; one may come twice.
    fn some_runs(&mut self, most: usize) -> Vec<Run> {
        let all = self.driver.store.list(&RunFilter::default(), None, 40).expect("lists");
        if all.is_empty() {
            return all;
        }
        (0..=self.below(most)).map(|_| all[self.below(all.len())].clone()).collect()
    }

    fn some_offer(&mut self) -> Offer {
        let queues: Vec<&str> = QUEUES.into_iter().filter(|_| !self.chance(3)).collect();
        let max_load = [1, 2, 5, 50][self.below(4)];
        let free = self.random.between(0, u64::from(max_load));
        Offer { free: u32::try_from(free).unwrap_or(0), ..offer(queues, max_load) }
    }

    /// Returns true once in `one_in` times.
    pub(super) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        let last = end.saturating_sub(1) as u64;
        usize::try_from(self.random.between(0, last)).unwrap_or(0)
    }
}

/// Returns whether a notice is for one of these runs, or starts a child of one.
fn concerns(notice: &Notice, runs: &[RunId]) -> bool {
    let parent = match &notice.body {
        NoticeBody::StartChild(child) => child.origin.parent(),
        _ => None,
    };
    notice.to.run().is_some_and(|run| runs.contains(&run))
        || parent.is_some_and(|parent| runs.contains(&parent))
}

/// Builds flows that make use of all that the core can do without expressions.
fn flows() -> Vec<Flow> {
    let retry = RetryStrategy::Retry { max_attempts: Some(3), back_off: Some(BackOff::fixed(Millis(500))) };
    let hold = RetryStrategy::Hold { max_attempts: None };
    let limits = Limits {
        queue_timeout: Some(Millis::seconds(60)),
        heartbeat_timeout: Some(Millis::seconds(10)),
        ..Limits::default()
    };
    let steps = vec![
        Step { retry, limits, ..action_of("a", "q") },
        Step { load: 2, priority: 1, retry: hold, ..action_of("b", "r") },
        Step { retry, fail_on_error: false, ..action_of("c", "q") },
    ];
    let parallel = vec![
        Step { load: 4, ..action_of("x", "s") },
        Step { queue: "q".into(), kind: Kind::Action("q".into()), ..each("y", 3) },
        step("z", Kind::Wait(WaitFor::Span(Millis(700)))),
        step("w", Kind::Signal("s".into())),
    ];
    let family = vec![
        step("child", Kind::Child("steps".into())),
        Step { exception_handler: Some("handler".into()), ..action_of("own", "r") },
    ];
    let deadline = Some(Deadline::After(Millis::seconds(400)));
    vec![
        Flow { deadline, ..sequence("steps", steps) },
        graph("parallel", parallel),
        limited(graph("family", family), 2),
        limited(sequence("handler", vec![action_of("h", "s")]), 1),
    ]
}
