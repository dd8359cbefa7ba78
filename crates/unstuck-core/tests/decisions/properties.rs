//! Any sequence of commands keeps the invariants, whatever the flow: random worlds from a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::{Amendment, Changes, Command, NewDeadline, NoticeBody, Report, Rerun};
use unstuck_core::decide::Effect;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::{Choice, Event, Fact, UnitFact};
use unstuck_core::evolve::evolve;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Outcome, ResumedBy, StuckLimit};
use unstuck_core::model::expression::Template;
use unstuck_core::model::flow::{Concurrency, Deadline, Flow, Kind, WaitFor};
use unstuck_core::model::log::{AttemptLog, IgnoredLine, Tail};
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::run::{Handler, ParentAttempt, Phase, Run, RunState, Slot};
use unstuck_core::model::unit::{AttemptPhase, Round, StepRun, Unit, UnitRef, UnitState};
use unstuck_core::offer::Offer;
use unstuck_core::policy::{Criteria, Policies, Policy};
use unstuck_core::random::Random;
use unstuck_core::slot::{SlotClaim, slot_claim};
use unstuck_core::time::Millis;
use unstuck_core::wakeup::wakeups;

use crate::flows::{
    StepBuilder, child, expression, flow_with, reads_input, reads_item, reads_steps, step, step_of,
};
use crate::support::{World, done, fatal, lacking, local, operator, output, remote, stall};

const SEEDS: u64 = 1_000;
const COMMANDS: usize = 120;

#[test]
fn random_worlds_keep_the_invariants() {
    let from: u64 = std::env::var("UNSTUCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count = if from == 0 { SEEDS } else { 1 };
    for seed in from..from + count {
        let result = std::panic::catch_unwind(|| live(seed));
        if let Err(problem) = result {
            eprintln!("seed {seed}: run again with UNSTUCK_SEED={seed}");
            std::panic::resume_unwind(problem);
        }
    }
}

/// One random world, checked after every command.
fn live(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::new(flows(&mut random));
    // Each flow has a second version, which is the same, so that runs can be moved at any time.
    let again = |flow: &Arc<Flow>| {
        let mut again = (**flow).clone();
        again.id = FlowId(flow.id.0 + 1_000_000_000);
        Arc::new(again)
    };
    world.versions = world.flows.values().map(again).collect();
    if random.between(0, 1) == 0 {
        let queues = ["a", "b", "c"].map(Into::into).into();
        world.offers.put(Offer { worker: local("waiting"), queues, free: 2, max_load: 2 });
    }
    let mut checker = Checker::default();
    for _ in 0..COMMANDS {
        if random.between(0, 19) == 0 {
            world.policies = policies(&mut random);
        }
        if random.between(0, 39) == 0 {
            let from = world.now;
            world.now = from + Millis::seconds(random.between(1, 3_000));
            world.downtimes.push(Downtime { from, to: world.now });
        }
        act(&mut world, &mut random);
        checker.check(&world);
    }
    settle(&mut world, &mut checker);
}

/// Some policies, or none.
fn policies(random: &mut Random) -> Policies {
    let count = random.between(0, 3);
    let one = |n: u64, random: &mut Random| Policy {
        id: format!("id-{n}").into(),
        name: format!("p{n}").into(),
        criteria: Criteria {
            error_substring: Some(
                ["e", "o", "is no good", "stuck"][usize::try_from(n).expect("small")].into(),
            ),
            flow: (random.between(0, 2) == 0).then(|| "main".into()),
            ..Criteria::default()
        },
        max_attempts: u32::try_from(random.between(2, 4)).expect("small"),
        priority: i32::try_from(random.between(0, 3)).expect("small"),
        is_priority_set: true,
        back_off: BackOff {
            max_delay: Some(Millis::seconds(90)),
            random: random.between(0, 1) == 0,
            multiplier: (random.between(0, 1) == 0).then_some(1.5),
            ..BackOff::fixed(Millis::seconds(random.between(0, 60)))
        },
        enabled: random.between(0, 4) > 0,
        include_fatal: random.between(0, 2) == 0,
        version: 1,
        age: n,
    };
    Policies::new((0..count).map(|n| one(n, random)).collect()).expect("they do not collide")
}

fn flows(random: &mut Random) -> Vec<Flow> {
    let main = flow_with("main", steps(random, 4, true), |flow| {
        match random.between(0, 5) {
            0 => flow.deadline = Some(Deadline::After(Millis::minutes(random.between(1, 60)))),
            1 => {
                let strict = random.between(0, 1) == 0;
                flow.concurrency = Some(Concurrency { limit: 1, key: None, strict });
            }
            _ => {}
        }
        if random.between(0, 3) == 0 {
            flow.output =
                Some(Template::Computed(expression(reads_input(), |scope| Ok(scope.input.clone()))));
        }
    });
    let inner = flow_with("inner", steps(random, 2, false), |_| {});
    let handler = flow_with("handler", steps(random, 1, false), |_| {});
    vec![main, inner, handler]
}

fn steps(random: &mut Random, most: u64, outer: bool) -> Vec<StepBuilder> {
    let ids = ["a", "b", "c", "d"];
    let count = usize::try_from(random.between(1, most)).expect("small");
    (0..count).map(|place| random_step(random, &ids, place, outer)).collect()
}

fn random_step(random: &mut Random, ids: &[&'static str], place: usize, outer: bool) -> StepBuilder {
    let id = ids[place];
    let mut builder = match random.between(0, 9) {
        0 if outer => child(id, "inner"),
        1 => step_of(id, Kind::Wait(WaitFor::Span(Millis::seconds(random.between(0, 100))))),
        2 => step_of(id, Kind::Signal("go".into()))
            .change(|step| step.limits.timeout = Some(Millis::minutes(5))),
        3 => step_of(id, Kind::Set(Template::Fixed(unstuck_core::json::Json::NULL))),
        _ => step(id),
    };
    let is_signal = random.between(0, 9) == 2;
    match random.between(0, 4) {
        0 => builder = builder.retry(Some(2), random.between(0, 5)),
        1 => builder = builder.hold(None),
        2 => builder = builder.retry(None, 3),
        _ => {}
    }
    match random.between(0, 5) {
        0 => builder = builder.goes_on(),
        1 if outer => builder = builder.handler("handler"),
        _ => {}
    }
    match random.between(0, 6) {
        0 if !is_signal => builder = builder.for_each("[1,2,3]", 2),
        1 => builder = builder.for_each("[]", 1),
        2 => builder = builder.when(expression(reads_input(), |scope| Ok((scope.input.is_null()).into()))),
        3 if place > 0 => {
            let reads = reads_steps(&[u16::try_from(place).expect("small") - 1]);
            let copies = expression(reads, |scope| Ok(scope.steps[0].1.clone()));
            builder = builder.needs(&[ids[place - 1]]).with(Template::Computed(copies));
        }
        4 => {
            let fails = expression(reads_item(), |scope| match &scope.item {
                Some((value, 1)) => Err(format!("item {value} is no good")),
                Some((value, _)) => Ok(value.clone()),
                None => Ok("no item".into()),
            });
            let list = format!("[\"{0}\", \"{0}\", 3]", "z".repeat(200));
            builder = builder.for_each(&list, 2).with(Template::Computed(fails));
        }
        5 => builder = builder.needs(&[]),
        _ => {}
    }
    builder.change(|step| {
        if random.between(0, 4) == 0 {
            step.limits.queue_timeout = Some(Millis::minutes(2));
        }
        if random.between(0, 4) == 0 {
            step.defer.limit = Millis::minutes(1);
        }
        if random.between(0, 3) == 0 {
            step.limits.timeout = Some(Millis::minutes(3));
        }
    })
}

/// One random thing happens.
fn act(world: &mut World, random: &mut Random) {
    let runs: Vec<RunId> = world.runs.keys().copied().collect();
    if runs.is_empty() || (runs.len() < 12 && random.between(0, 19) == 0) {
        let input =
            if random.between(0, 1) == 0 { "null".into() } else { format!("\"{}\"", "x".repeat(200)) };
        let key = (random.between(0, 2) == 0).then_some("k");
        let _ = world.start_with("main", key, &input);
        return;
    }
    let run = runs[usize::try_from(random.between(0, runs.len() as u64 - 1)).expect("small")];
    let _ = match random.between(0, 19) {
        0..=5 => claim_something(world, random, run),
        6..=12 => answer_something(world, random),
        13..=14 => {
            world.pass(Millis(random.between(0, 90_000)));
            Ok(unstuck_core::decide::Answer::Done)
        }
        15 => world.ask(run, operator_command(world, random, run)),
        16 => {
            let payload = unstuck_core::json::Json::NULL;
            world.ask(run, Command::Signal { name: "go".into(), payload, by: operator() })
        }
        17 => zombie(world, random),
        18 => repeat_notice(world, random, run),
        _ => world.ask(run, Command::rerun(some_rerun(random), operator())),
    };
    world.admit();
}

fn some_rerun(random: &mut Random) -> Rerun {
    match random.between(0, 2) {
        0 => Rerun::Continue,
        1 => Rerun::All,
        _ => Rerun::Steps(vec![unstuck_core::model::flow::StepIndex(0)]),
    }
}

type Outcome_ = Result<unstuck_core::decide::Answer, unstuck_core::refusal::Refusal>;

fn claim_something(world: &mut World, random: &mut Random, run: RunId) -> Outcome_ {
    let state = &world.runs[&run];
    let ready = state.units_where(|unit| matches!(unit.state, UnitState::Ready(_)));
    let Some(unit) = pick(random, &ready) else { return Ok(unstuck_core::decide::Answer::Done) };
    if world.flow_of(state).step(unit.step).queue.is_empty() {
        return Ok(unstuck_core::decide::Answer::Done);
    }
    let worker = if random.between(0, 1) == 0 { local("w") } else { remote("r") };
    world.ask(run, Command::Claim { unit, worker })
}

fn live_attempts(world: &World) -> Vec<AttemptId> {
    let mut live = Vec::new();
    for run in world.runs.values() {
        run.each_unit(|unit, state| {
            if let UnitState::Active(active) = &state.state
                && !matches!(active.doing, AttemptPhase::Child { .. })
            {
                live.push(AttemptId {
                    run: run.id,
                    generation: run.generation,
                    unit,
                    attempt: active.attempt,
                });
            }
        });
    }
    live
}

fn answer_something(world: &mut World, random: &mut Random) -> Outcome_ {
    let live = live_attempts(world);
    let Some(attempt) = pick(random, &live) else { return Ok(unstuck_core::decide::Answer::Done) };
    if random.between(0, 11) == 0 {
        return world.ask(attempt.run, Command::Lost { attempt, with_others: random.between(0, 1) == 0 });
    }
    let says = some_word(random);
    let answer = world.say(attempt, says.clone());
    if random.between(0, 3) == 0
        && answer.is_ok()
        && !matches!(says, Report::Start | Report::Heartbeat { .. } | Report::Log(_))
    {
        let seq = world.runs[&attempt.run].seq;
        let again = world.say(attempt, says);
        assert!(again.is_err() || world.runs[&attempt.run].seq == seq, "a repeated answer changes nothing");
    }
    answer
}

fn some_word(random: &mut Random) -> Report {
    match random.between(0, 13) {
        0..=4 => done(),
        5 => output(&format!("\"{}\"", "y".repeat(300))),
        6 | 7 => stall("it stalled"),
        8 => fatal("it failed"),
        9 => lacking(),
        10 => Report::Release,
        11 => Report::Start,
        12 => Report::Log(Box::new(some_log(random))),
        _ => Report::Heartbeat {
            progress: (random.between(0, 1) == 0).then_some(unstuck_core::json::Json::NULL),
        },
    }
}

fn some_log(random: &mut Random) -> AttemptLog {
    let ignored = IgnoredLine { line: 1, text: "x".into(), why: "no JSON".into() };
    let stderr = Tail { text: "boom".into(), bytes: 5, cut: false };
    let ignored = (random.between(0, 1) == 0).then_some(ignored).into_iter().collect();
    AttemptLog { stderr, ignored, ..AttemptLog::default() }
}

/// Somebody answers with a token that was handed out long ago.
fn zombie(world: &mut World, random: &mut Random) -> Outcome_ {
    let old: Vec<AttemptId> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Dispatch { attempt, .. } => Some(*attempt),
            Effect::Interrupt { .. } => None,
        })
        .collect();
    let live = live_attempts(world);
    let Some(attempt) = pick(random, &old).filter(|attempt| !live.contains(attempt)) else {
        return Ok(unstuck_core::decide::Answer::Done);
    };
    let before = world.runs[&attempt.run].clone();
    let answer = world.say(attempt, some_word(random));
    assert_eq!(before, world.runs[&attempt.run], "no late worker is believed");
    answer
}

/// A notice that was delivered comes again, or a stale one turns up.
fn repeat_notice(world: &mut World, random: &mut Random, run: RunId) -> Outcome_ {
    let body = match random.between(0, 3) {
        0 => NoticeBody::CancelChild { serves: ParentAttempt { generation: 99, attempt: 1 } },
        1 => NoticeBody::ContinueChild {
            serves: ParentAttempt { generation: 1, attempt: 0 },
            priority: Some(3),
        },
        2 => NoticeBody::UnpauseChild,
        _ => {
            NoticeBody::ContinueChild { serves: ParentAttempt { generation: 0, attempt: 7 }, priority: None }
        }
    };
    let is_paused = world.runs[&run].paused.is_some();
    let before = world.runs[&run].clone();
    let answer = world.ask(run, Command::Notice(Box::new(body)));
    assert!(is_paused || before == world.runs[&run], "a stale notice changes nothing");
    answer
}

fn operator_command(world: &World, random: &mut Random, run: RunId) -> Command {
    let units: Vec<UnitRef> = world.runs[&run].units_where(|_| true);
    let waiting = world.runs[&run]
        .units_where(|unit| matches!(unit.state, UnitState::Held { .. } | UnitState::Error { .. }));
    let unit = pick(random, &waiting).or_else(|| pick(random, &units));
    match (random.between(0, 15), unit) {
        (15, _) => {
            let to = world.other_version(&world.runs[&run]);
            Command::Migrate { to, by: operator(), reason: None }
        }
        (13, _) => {
            let changes = Box::new(some_amendment(random));
            Command::Amend { changes, by: operator(), reason: None }
        }
        (14, _) => {
            let changes = Changes { cancel_first: true, ..Changes::default() };
            Command::Rerun { what: some_rerun(random), changes: Box::new(changes), by: operator() }
        }
        (9, unit) => Command::Acknowledge { unit, by: operator(), reason: None },
        (10, Some(unit)) => {
            let output = Json::parse("\"by hand\"").expect("JSON");
            Command::Complete { unit, output, by: operator(), reason: None }
        }
        (11, Some(unit)) => Command::Skip { unit, by: operator(), reason: None },
        (12, Some(unit)) => {
            let after = Millis::seconds(random.between(0, 30));
            Command::ApplyPolicies { unit, only: None, after, by: operator() }
        }
        (0..=2, Some(unit)) => Command::Choose { unit, choice: Choice::Retry, by: operator(), bulk: None },
        (3, Some(unit)) => Command::Choose { unit, choice: Choice::None, by: operator(), bulk: None },
        (4..=5, unit) => {
            let given = |is: bool| is.then(|| Json::parse("{\"changed\": true}").expect("JSON"));
            let input = given(random.between(0, 3) == 0);
            let step_input = given(unit.is_some() && random.between(0, 3) == 0);
            let changes = Box::new(Changes { input, step_input, ..Changes::default() });
            Command::Resume { unit, by: operator(), reason: None, changes }
        }
        (6, _) => Command::Pause { by: operator(), reason: None },
        (7, _) => Command::Unpause { by: operator() },
        _ => Command::Cancel { by: operator(), reason: None },
    }
}

fn some_amendment(random: &mut Random) -> Amendment {
    let value = ["a", "b"][usize::try_from(random.between(0, 1)).expect("small")].to_owned();
    let label = ("team".to_owned(), (random.between(0, 2) > 0).then_some(value));
    let deadline = match random.between(0, 3) {
        0 => Some(NewDeadline::After(Millis::minutes(random.between(1, 60)))),
        1 => Some(NewDeadline::None),
        _ => None,
    };
    let priority = (random.between(0, 1) == 0).then(|| i32::try_from(random.between(0, 9)).expect("small"));
    Amendment { priority, labels: [label].into(), deadline }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> Option<T> {
    let last = (from.len() as u64).checked_sub(1)?;
    Some(from[usize::try_from(random.between(0, last)).expect("small")])
}

/// Once nothing goes wrong any more, everything comes to its end: no run is left that nothing moves.
fn settle(world: &mut World, checker: &mut Checker) {
    for _ in 0..500 {
        let open: Vec<RunId> = world.runs.values().filter(|run| !run.is_final()).map(|run| run.id).collect();
        if open.is_empty() {
            return;
        }
        for run in open {
            help(world, run);
        }
        world.pass(Millis::seconds(101));
        world.admit();
        checker.check(world);
    }
    let open: Vec<&Run> = world.runs.values().filter(|run| !run.is_final()).collect();
    panic!("these never end: {open:#?}");
}

/// Does what a person or worker would do for this run.
fn help(world: &mut World, run: RunId) {
    let _ = world.ask(run, Command::Unpause { by: operator() });
    world.admit();
    // What a policy resumes for ever, because somebody gives it its budget back for ever, is not needed.
    let in_vain = |unit: &Unit| matches!(unit.state, UnitState::Error { .. }) && unit.attempts > 8;
    for unit in world.runs[&run].units_where(in_vain) {
        let _ = world.ask(run, Command::Skip { unit, by: operator(), reason: None });
    }
    let _ =
        world.ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() });
    // An expression that fails every time under `hold`, or a child that takes longer than its step may, is held for
    // ever: somebody gives up on it.
    let hopeless = |unit: &Unit| matches!(unit.state, UnitState::Held { .. }) && unit.attempts > 4;
    for unit in world.runs[&run].units_where(hopeless) {
        let _ = world.ask(run, Command::Choose { unit, choice: Choice::None, by: operator(), bulk: None });
    }
    for unit in world.runs[&run].units_where(|unit| matches!(unit.state, UnitState::Held { .. })) {
        let _ = world.ask(run, Command::Choose { unit, choice: Choice::Retry, by: operator(), bulk: None });
    }
    world.admit();
    let signal =
        Command::Signal { name: "go".into(), payload: unstuck_core::json::Json::NULL, by: operator() };
    let _ = world.ask(run, signal);
    for unit in world.runs[&run].units_where(|unit| matches!(unit.state, UnitState::Ready(_))) {
        if !world.flow_of(&world.runs[&run]).step(unit.step).queue.is_empty() {
            let _ = world.ask(run, Command::Claim { unit, worker: local("w") });
        }
    }
    for attempt in live_attempts(world) {
        let _ = world.say(attempt, done());
    }
}

/// What must be true after every command.
#[derive(Default)]
struct Checker {
    /// Final generations, as they were when they became final.
    finals: BTreeMap<(RunId, u32), Run>,
    /// Every run, as its history gives it.
    replayed: BTreeMap<RunId, Option<Run>>,
}

impl Checker {
    fn check(&mut self, world: &World) {
        for run in world.runs.values() {
            let history = &world.history[&run.id];
            let replayed = self.replayed.entry(run.id).or_default();
            let known = replayed.as_ref().map_or(0, |run| run.seq);
            if run.seq != known {
                gapless(history);
                for event in history.iter().filter(|event| event.seq > known) {
                    evolve(replayed, event);
                }
                counted(run, history);
            }
            assert_eq!(replayed.as_ref(), Some(run), "replaying the history gives the state");
            moved_by_something(world, run);
            everything_was_loaded(run);
            slot_is_right(world, run);
            if run.is_final() {
                let first = self.finals.entry((run.id, run.generation)).or_insert_with(|| run.clone());
                assert_eq!(first, run, "a final generation never changes");
                assert!(run.steps.iter().all(StepRun::is_final), "{run:#?}");
            }
        }
    }
}

fn gapless(history: &[Event]) {
    for (place, event) in history.iter().enumerate() {
        assert_eq!(event.seq, place as u64 + 1, "the history has no gaps");
        assert!(place == 0 || history[place - 1].at <= event.at, "time never goes back");
    }
}

/// Attempts, rounds, stuck ones and deferrals are counted as section 2 of the semantics says.
fn counted(run: &Run, history: &[Event]) {
    let mut counts: BTreeMap<UnitRef, (u32, Round)> = BTreeMap::new();
    let facts =
        history.iter().filter(|event| event.generation == run.generation).flat_map(|event| &event.facts);
    for fact in facts {
        // A child that goes on for its parent's next attempt ends its old generation in the same event.
        if matches!(fact, Fact::Reran { .. }) {
            counts.clear();
        }
        let Fact::Unit { unit, fact } = fact else { continue };
        let (attempts, round) = counts.entry(*unit).or_default();
        match fact {
            UnitFact::Queued { attempt, .. } => *attempts = *attempt,
            UnitFact::ChildStarted { attempt, .. } => *attempts = *attempt,
            UnitFact::Resumed { by, .. } => {
                let number = round.number + 1;
                let manual = if *by == ResumedBy::Operator { number } else { round.manual };
                *round = Round { number, manual, ..Round::default() };
            }
            UnitFact::Deferred { delay, .. } => {
                round.deferrals += 1;
                round.deferred = round.deferred.plus(*delay);
            }
            UnitFact::Ended { attempt, outcome } => {
                *attempts = (*attempts).max(*attempt);
                match outcome {
                    Outcome::Stalled(_) | Outcome::Failed(_) => round.stalled += 1,
                    Outcome::Stuck(stuck) => {
                        round.stuck += u32::from(!stuck.free);
                        round.losses += u32::from(stuck.limit == StuckLimit::Gone);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    run.each_unit(|unit, state| {
        let (attempts, round) = counts.get(&unit).copied().unwrap_or_default();
        assert_eq!((state.attempts, state.round), (attempts, round), "{unit:?} of {run:#?}");
        assert!(state.past.windows(2).all(|pair| pair[0].attempt < pair[1].attempt));
    });
}

/// A run that is not final has a timer, a ready entry, a live attempt, a notice on its way, a slot to wait for, or
/// waits for a person.
fn moved_by_something(world: &World, run: &Run) {
    let flow = world.flow_of(run);
    let wakeups = wakeups(run, &flow);
    if run.is_final() {
        assert!(wakeups.is_empty(), "a final run needs no waking: {wakeups:?}");
        return;
    }
    let mut moved = !wakeups.is_empty() || run.paused.is_some();
    moved |= matches!(slot_claim(run, &flow), SlotClaim::Wants { .. });
    run.each_unit(|_, unit| match &unit.state {
        UnitState::Held { .. } | UnitState::Error { .. } => moved = true,
        UnitState::Active(live) if matches!(live.doing, AttemptPhase::Child { .. }) => {
            let child =
                unit.child.and_then(|child| world.runs.get(&child)).expect("an active child is known");
            let serves = ParentAttempt { generation: run.generation, attempt: live.attempt };
            moved |= child.origin.serves() == Some(serves) && !child.is_final();
        }
        _ => {}
    });
    if let Phase::Failing(failing) = &run.phase
        && let Some(Handler { run: Some(handler), .. }) = &failing.handler
    {
        moved |= world.runs.get(handler).is_some_and(|handler| !handler.is_final());
    }
    assert!(moved, "nothing would ever move {run:#?}");
}

/// What `needs` does not ask for cannot be read.
fn everything_was_loaded(run: &Run) {
    run.each_unit(|_, unit| {
        let cause = unit.last_error().map_or("", |error| &error.cause);
        assert!(!cause.contains("was not loaded"), "{cause}");
    });
}

fn slot_is_right(world: &World, run: &Run) {
    let state = run.state();
    if let Slot::Taken(limit) = &run.slot {
        let rests = matches!(state, RunState::Error | RunState::Held | RunState::Paused) && !limit.strict;
        assert!(!rests && !state.is_final(), "{state:?} keeps no slot");
    }
    let holders = world.runs.values().filter(|run| matches!(run.slot, Slot::Taken(_))).count();
    assert!(holders <= 1, "the limit holds");
}
