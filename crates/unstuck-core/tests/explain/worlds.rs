//! Random worlds: every run can be explained at any time, and every command that is offered is accepted.

use std::sync::Arc;

use unstuck_core::command::{Command, Report, Rerun};
use unstuck_core::event::Choice;
use unstuck_core::explain::Explanation;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::{Concurrency, Deadline, Flow, Kind, WaitFor};
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{AttemptPhase, StepRun, UnitRef, UnitState};
use unstuck_core::policy::Policies;
use unstuck_core::random::Random;
use unstuck_core::time::Millis;

use crate::flows::{StepBuilder, child, expression, flow_with, reads_input, step, step_of};
use crate::saying::{decisions, explained, log, log_of_a_stranger, policy};
use crate::support::{World, done, fatal, lacking, local, operator, remote, stall};

const SEEDS: u64 = 300;
const COMMANDS: usize = 60;

#[test]
fn every_run_is_explained_at_any_time() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut world = World::new(flows(&mut random));
        if seed % 2 == 0 {
            let all = vec![policy("stalls", "stalled", 20), policy("fatal", "failed", 5)];
            world.policies = Policies::new(all).expect("they do not collide");
        }
        world.start("main");
        for _ in 0..COMMANDS {
            act(&mut world, &mut random);
        }
        for run in world.runs.keys().copied().collect::<Vec<_>>() {
            let explanation = explained(&world, run);
            is_complete(&world, &world.runs[&run], &explanation, seed);
            is_readable(&explanation, seed);
            offers_what_is_accepted(&world, &explanation, seed);
        }
    }
}

/// Every step and every open item has its sentence, and so have the state, the future and the past.
fn is_complete(world: &World, run: &Run, explanation: &Explanation, seed: u64) {
    let told: Vec<UnitRef> = explanation.because.iter().map(|because| because.unit).collect();
    run.each_unit(|unit, state| {
        assert!(
            unit.item.is_some() && state.state.is_final() || told.contains(&unit),
            "seed {seed}: {unit:?}"
        );
    });
    assert!(run.steps.iter().filter(|step| matches!(step, StepRun::Items(_))).count() <= told.len());
    let all = explanation.because.iter().map(|because| &because.why);
    let all = all.chain(explanation.next.iter().map(|next| &next.what));
    let all = all.chain(explanation.can.iter().map(|can| &can.what));
    let all = all.chain(explanation.happened.iter().map(|(_, what)| what));
    let known = log(world, run.id);
    let unknown = log_of_a_stranger(world, run.id);
    assert_eq!(known.len(), unknown.len(), "seed {seed}: a line for every fact, whoever asks");
    for text in all.chain(&known).chain(&unknown).chain(&decisions(world, run.id)) {
        assert!(!text.trim().is_empty() && !text.ends_with(": "), "seed {seed}: {text:?}");
        assert!(!text.contains("  ") && !text.contains("::"), "seed {seed}: {text:?}");
    }
    assert!(!explanation.next.is_empty() && !explanation.happened.is_empty(), "seed {seed}: {explanation}");
    assert!(run.is_final() || !explanation.can.is_empty(), "seed {seed}: {explanation}");
}

fn is_readable(explanation: &Explanation, seed: u64) {
    for line in explanation.to_string().lines() {
        let is_command = line.starts_with("  unstuck ");
        assert!(line.chars().count() <= 80 || is_command, "seed {seed}: {line}");
        assert_eq!(line.trim_end(), line, "seed {seed}");
    }
}

/// Every command that an explanation offers does something when it is typed.
fn offers_what_is_accepted(world: &World, explanation: &Explanation, seed: u64) {
    for can in &explanation.can {
        let words: Vec<String> = can.command.split(' ').map(|word| word.replace('\'', "")).collect();
        let run: RunId = words[2].parse().expect("a run");
        let Some(command) = typed(world, run, &words) else { continue };
        let mut other = copy(world);
        let before = other.runs[&run].seq;
        let answer = other.ask(run, command);
        assert!(answer.is_ok(), "seed {seed}: `{}`: {answer:?}", can.command);
        assert!(other.runs[&run].seq > before, "seed {seed}: `{}` did nothing", can.command);
    }
}

fn typed(world: &World, run: RunId, words: &[String]) -> Option<Command> {
    let by = operator();
    let unit = || world.unit_ref(run, &words[3]);
    Some(match words[1].as_str() {
        "explain" => return None,
        "choose" => {
            let choice = if words[4] == "retry" { Choice::Retry } else { Choice::None };
            Command::Choose { unit: unit(), choice, by, bulk: None }
        }
        "resume" => {
            Command::Resume { unit: (words.len() > 3).then(unit), by, reason: None, changes: Box::default() }
        }
        "ack" => Command::Acknowledge { unit: (words[3] != "--reason").then(unit), by, reason: None },
        "complete" => Command::Complete {
            unit: unit(),
            output: Json::parse(&words[5]).expect("JSON"),
            by,
            reason: None,
        },
        "skip" => Command::Skip { unit: unit(), by, reason: None },
        "signal" => Command::Signal { name: words[3].as_str().into(), payload: Json::NULL, by },
        "pause" => Command::Pause { by, reason: None },
        "unpause" => Command::Unpause { by },
        "cancel" => Command::Cancel { by, reason: None },
        "rerun" => Command::rerun(Rerun::Continue, by),
        other => panic!("what is `{other}`?"),
    })
}

fn copy(world: &World) -> World {
    World {
        flows: world.flows.clone(),
        versions: world.versions.clone(),
        homes: world.homes.clone(),
        runs: world.runs.clone(),
        history: world.history.clone(),
        payloads: world.payloads.clone(),
        notices: world.notices.clone(),
        effects: Vec::new(),
        heard: world.heard.clone(),
        ids: world.ids.clone(),
        random: world.random.clone(),
        offers: world.offers.clone(),
        downtimes: world.downtimes.clone(),
        policies: world.policies.clone(),
        errors: world.errors.clone(),
        outcomes: world.outcomes.clone(),
        ..*world
    }
}

fn flows(random: &mut Random) -> Vec<Flow> {
    let ids = ["a", "b", "c", "d"];
    let mut steps = |outer: bool, most: usize| -> Vec<StepBuilder> {
        ids[..most].iter().map(|id| some_step(random, id, outer)).collect()
    };
    let (main, inner, handler) = (steps(true, 4), steps(false, 2), steps(false, 1));
    let main = flow_with("main", main, |flow| match random.between(0, 4) {
        0 => flow.deadline = Some(Deadline::After(Millis::minutes(30))),
        1 => flow.concurrency = Some(Concurrency { limit: 1, key: None, strict: random.between(0, 1) == 0 }),
        _ => {}
    });
    vec![main, flow_with("inner", inner, |_| {}), flow_with("handler", handler, |_| {})]
}

fn some_step(random: &mut Random, id: &str, outer: bool) -> StepBuilder {
    let builder = match random.between(0, 7) {
        0 if outer => child(id, "inner"),
        1 => step_of(id, Kind::Wait(WaitFor::Span(Millis::seconds(random.between(0, 100))))),
        2 => step_of(id, Kind::Signal("go".into())),
        _ => step(id),
    };
    let builder = match random.between(0, 3) {
        0 => builder.retry(Some(2), 3),
        1 => builder.hold((random.between(0, 1) == 0).then_some(2)),
        _ => builder,
    };
    let builder = match random.between(0, 4) {
        0 => builder.goes_on(),
        1 if outer => builder.handler("handler"),
        _ => builder,
    };
    let builder = match random.between(0, 5) {
        0 => builder.for_each("[1,2,3]", 2),
        1 => builder.needs(&[]),
        2 => builder.when(expression(reads_input(), |_| Ok(false.into()))),
        _ => builder,
    };
    let max_stuck = u32::try_from(random.between(1, 3)).expect("small");
    builder.change(|step| step.limits.max_stuck = max_stuck)
}

/// One random thing happens.
fn act(world: &mut World, random: &mut Random) {
    let runs: Vec<RunId> = world.runs.keys().copied().collect();
    let run = pick(random, &runs);
    let state = world.runs[&run].clone();
    match random.between(0, 11) {
        0..=3 => claim(world, random, &state),
        4..=8 => answer(world, random, &state),
        9 => world.pass(Millis(random.between(0, 60_000))),
        10 => operate(world, random, &state),
        _ => {
            let _ = world.start_with("main", None, "null");
        }
    }
    world.admit();
}

fn claim(world: &mut World, random: &mut Random, run: &Run) {
    let flow: Arc<Flow> = world.flow_of(run);
    let ready = run.units_where(|unit| matches!(unit.state, UnitState::Ready(_)));
    for unit in ready.into_iter().filter(|unit| !flow.step(unit.step).queue.is_empty()) {
        let worker = if random.between(0, 1) == 0 { local("here") } else { remote("there") };
        let _ = world.ask(run.id, Command::Claim { unit, worker });
    }
}

fn answer(world: &mut World, random: &mut Random, run: &Run) {
    let mut live = Vec::new();
    run.each_unit(|unit, state| {
        if let UnitState::Active(active) = &state.state
            && !matches!(active.doing, AttemptPhase::Child { .. })
        {
            live.push(AttemptId { run: run.id, generation: run.generation, unit, attempt: active.attempt });
        }
    });
    for attempt in live {
        let says = match random.between(0, 9) {
            0..=2 => done(),
            3 | 4 => stall("it stalled"),
            5 => fatal("it failed"),
            6 => lacking(),
            7 => Report::Heartbeat { progress: Json::parse("{\"done\":1}").ok() },
            8 => Report::Release,
            _ => Report::Start,
        };
        let _ = world.say(attempt, says);
    }
}

fn operate(world: &mut World, random: &mut Random, run: &Run) {
    let by = operator();
    let command = match random.between(0, 5) {
        0 => Command::Pause { by, reason: None },
        1 => Command::Unpause { by },
        2 => Command::Resume { unit: None, by, reason: Some("try".into()), changes: Box::default() },
        3 => Command::rerun(Rerun::Continue, by),
        4 => Command::Acknowledge { unit: None, by, reason: Some("known".into()) },
        _ => Command::Cancel { by, reason: None },
    };
    let _ = world.ask(run.id, command);
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    let last = from.len() as u64 - 1;
    from[usize::try_from(random.between(0, last)).expect("small")]
}
