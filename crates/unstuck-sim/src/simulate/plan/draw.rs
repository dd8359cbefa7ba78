//! Drawing workers and acts: mostly close together, so that things collide, and sometimes far apart.

use std::sync::Arc;

use unstuck_core::time::Millis;

use crate::simulate::chance::Chance;
use crate::simulate::plan::flows::QUEUES;
use crate::simulate::plan::{
    Crash, Fault, Nonsense, OperatorAct, PlannedAct, PlannedFlow, PlannedWorker, StartPlan, StoreFault,
    flows, policies,
};

/// In milliseconds.
const YEAR: u64 = 365 * 24 * 3_600_000;

/// A few workers, so that somebody takes from every queue.
pub(crate) fn workers(chance: &mut Chance) -> Vec<PlannedWorker> {
    let worker = |chance: &mut Chance, name: &str, local, queues: Vec<&str>| PlannedWorker {
        name: name.into(),
        local,
        node: 0,
        queues: queues.into_iter().map(Arc::from).collect(),
        max_load: u32::try_from(chance.between(1, 4)).unwrap_or(1),
    };
    let (actions, beside) = QUEUES.split_at(3);
    let mut local: Vec<&str> = beside.to_vec();
    local.extend(actions.iter().filter(|_| chance.percent(30)));
    let mut workers = vec![worker(chance, "here", true, local)];
    if chance.percent(30) {
        let queues = QUEUES.iter().copied().filter(|_| chance.percent(60)).collect();
        workers.push(worker(chance, "beside", true, queues));
    }
    let count = usize::try_from(chance.between(1, 3)).unwrap_or(1);
    for name in ["anna", "bela", "cleo"].iter().take(count) {
        let queues = actions.iter().copied().filter(|_| chance.percent(60)).collect();
        workers.push(worker(chance, name, false, queues));
    }
    for queue in actions {
        let is_taken = |worker: &PlannedWorker| worker.queues.iter().any(|mine| &**mine == *queue);
        if !workers.iter().any(is_taken)
            && let Some(last) = workers.last_mut()
        {
            last.queues.push(Arc::from(*queue));
        }
    }
    workers
}

/// What is done when.
pub(crate) fn acts(seed: u64, flows: &[PlannedFlow]) -> Vec<(Millis, PlannedAct)> {
    let mut chance = Chance::of(seed, &[4]);
    let count = chance.between(12, 44);
    let mut at = 0;
    let mut acts = Vec::new();
    for number in 0..count {
        at += gap(&mut chance);
        // Each act has chance of its own, so that they do not depend on each other.
        let mut own = Chance::of(seed, &[5, number]);
        let act = if number < 2 { start(&mut own, flows) } else { act(&mut own, flows) };
        let is_bulk = matches!(act, PlannedAct::Bulk(..));
        acts.push((Millis(at), act));
        // A bulk action of a few targets does not last long: who wants to change it must be quick.
        if is_bulk && own.percent(60) {
            at += own.between(0, 700);
            acts.push((Millis(at), PlannedAct::ChangeBulk(OperatorAct::Pause, u64::MAX)));
            at += own.between(0, 700);
            acts.push((Millis(at), PlannedAct::ChangeBulk(OperatorAct::Unpause, u64::MAX)));
        }
    }
    acts.extend(crowd(seed, flows));
    acts.extend(pauses(seed));
    acts.sort_by_key(|(at, _)| *at);
    acts
}

/// Now and then many runs of one flow, and bulk actions on all that has gone wrong with them.
fn crowd(seed: u64, flows: &[PlannedFlow]) -> Vec<(Millis, PlannedAct)> {
    let mut chance = Chance::of(seed, &[14]);
    let mut acts = Vec::new();
    if !chance.percent(20) {
        return acts;
    }
    for number in 0..chance.between(5, 9) {
        let input = chance.weighed(&[(6, 0), (1, 2), (2, 3)]);
        let (flow, key, priority) = (flows[0].name.clone(), None, 0);
        let start = StartPlan { flow, key, input, priority, deadline: None, restart_if_final: false };
        acts.push((Millis(number * 100), PlannedAct::Start(start)));
    }
    let mut at = chance.between(5_000, 40_000);
    for _ in 0..chance.between(1, 4) {
        let act = chance.weighed(&[
            (6, OperatorAct::Resume),
            (1, OperatorAct::Acknowledge),
            (3, OperatorAct::Continue),
            (2, OperatorAct::ChooseRetry),
            (1, OperatorAct::Skip),
            (1, OperatorAct::Forget),
        ]);
        acts.push((Millis(at), PlannedAct::Bulk(act, chance.percent(60).then_some(1))));
        if chance.percent(30) {
            acts.push((
                Millis(at + chance.between(500, 9_000)),
                PlannedAct::ChangeBulk(OperatorAct::Unpause, u64::MAX),
            ));
        }
        at += chance.between(2_000, 60_000);
    }
    acts
}

/// Now and then automatic resumes are paused, and unpaused some time later, or paused again first.
fn pauses(seed: u64) -> Vec<(Millis, PlannedAct)> {
    let mut chance = Chance::of(seed, &[15]);
    let mut acts = Vec::new();
    if !chance.percent(30) {
        return acts;
    }
    let mut at = 0;
    for _ in 0..chance.between(1, 3) {
        at += chance.between(0, 20_000);
        acts.push((Millis(at), PlannedAct::PausePolicies));
        at += *chance.one(&[0, 900, 15_000, 90_000, 700_000]);
        if chance.percent(85) {
            acts.push((Millis(at), PlannedAct::UnpausePolicies(*chance.one(&[1, 1, 3, 20]))));
        }
    }
    acts
}

fn gap(chance: &mut Chance) -> u64 {
    match chance.between(0, 9) {
        0..=2 => 0,
        3..=4 => chance.between(1, 20),
        5..=7 => chance.between(20, 5_000),
        8 => chance.between(5_000, 60_000),
        _ => chance.between(60_000, 900_000),
    }
}

fn act(chance: &mut Chance, flows: &[PlannedFlow]) -> PlannedAct {
    match chance.between(0, 99) {
        0..=19 => start(chance, flows),
        20..=56 => PlannedAct::Operate(operator_act(chance), chance.any() >> 32),
        57..=63 => policy(chance, flows),
        64..=68 => bulk(chance),
        69..=70 => PlannedAct::NewVersion(flows::again(chance, flows)),
        71..=75 => PlannedAct::Nonsense(*chance.one(&Nonsense::ALL), chance.any() >> 32),
        _ => PlannedAct::Fault(fault(chance)),
    }
}

fn start(chance: &mut Chance, flows: &[PlannedFlow]) -> PlannedAct {
    let flow = if chance.percent(60) { &flows[0] } else { chance.one(flows) };
    PlannedAct::Start(StartPlan {
        flow: flow.name.clone(),
        key: chance.percent(40).then(|| chance.between(0, 2)),
        input: chance.weighed(&[(6, 0), (3, 1), (1, 2), (1, 3)]),
        priority: chance.weighed(&[(7, 0), (1, 1), (1, 5)]),
        deadline: chance.percent(10).then(|| Millis(*chance.one(&[5_000, 60_000, 3_000_000]))),
        restart_if_final: chance.percent(40),
    })
}

fn operator_act(chance: &mut Chance) -> OperatorAct {
    chance.weighed(&[
        (4, OperatorAct::ChooseRetry),
        (2, OperatorAct::ChooseNone),
        (4, OperatorAct::Resume),
        (3, OperatorAct::ResumeChanged),
        (3, OperatorAct::Acknowledge),
        (2, OperatorAct::Complete),
        (2, OperatorAct::Skip),
        (3, OperatorAct::Apply),
        (3, OperatorAct::Pause),
        (3, OperatorAct::Unpause),
        (2, OperatorAct::Cancel),
        (4, OperatorAct::Signal),
        (3, OperatorAct::Continue),
        (2, OperatorAct::RunAll),
        (2, OperatorAct::RunStep),
        (2, OperatorAct::Forget),
    ])
}

fn policy(chance: &mut Chance, flows: &[PlannedFlow]) -> PlannedAct {
    let name = *chance.one(&policies::NAMES);
    match chance.between(0, 6) {
        0 => PlannedAct::EnablePolicy(name),
        1 => PlannedAct::DisablePolicy(name),
        2 => PlannedAct::DeletePolicy(name),
        _ => {
            let mut drafts = vec![policies::one(chance, name, flows)];
            if chance.percent(30) {
                let other = *chance.one(&policies::NAMES);
                drafts.push(policies::one(chance, other, flows));
            }
            PlannedAct::LoadPolicies(drafts, chance.percent(70))
        }
    }
}

fn bulk(chance: &mut Chance) -> PlannedAct {
    if chance.percent(30) {
        let act =
            chance.weighed(&[(2, OperatorAct::Pause), (2, OperatorAct::Unpause), (1, OperatorAct::Cancel)]);
        return PlannedAct::ChangeBulk(act, chance.any() >> 32);
    }
    let act = chance.weighed(&[
        (6, OperatorAct::Resume),
        (2, OperatorAct::Acknowledge),
        (1, OperatorAct::Cancel),
        (3, OperatorAct::Continue),
        (1, OperatorAct::RunAll),
        (3, OperatorAct::ChooseRetry),
        (1, OperatorAct::ChooseNone),
        (2, OperatorAct::Signal),
        (1, OperatorAct::Skip),
        (1, OperatorAct::Complete),
        (2, OperatorAct::Forget),
    ]);
    PlannedAct::Bulk(act, chance.percent(50).then_some(1))
}

fn fault(chance: &mut Chance) -> Fault {
    let span = |chance: &mut Chance| Millis(*chance.one(&[0, 1, 200, 3_000, 45_000, 900_000]));
    let nth = chance.any() >> 32;
    match chance.between(0, 42) {
        0..=9 => {
            let at = match chance.between(0, 3) {
                0 => Crash::BeforeStage,
                1 => Crash::Untold,
                _ => Crash::Staged(chance.between(0, 3)),
            };
            let again = chance.weighed(&[(7, 0), (2, 1), (1, 2)]);
            Fault::Crash { at, down: span(chance), again }
        }
        10 => Fault::Stop { down: span(chance) },
        11..=13 => {
            Fault::RefuseStage(*chance.one(&[StoreFault::Full, StoreFault::Away, StoreFault::Conflict]))
        }
        14..=17 => Fault::FailStage(*chance.one(&[StoreFault::Full, StoreFault::Away, StoreFault::Broken])),
        18..=19 => {
            Fault::Outage { why: *chance.one(&[StoreFault::Full, StoreFault::Away]), span: span(chance) }
        }
        20..=21 => Fault::ClockForward(jump(chance)),
        22..=23 => Fault::ClockBack(jump(chance)),
        24..=25 => Fault::LongPause(span(chance)),
        26..=28 => {
            let noticed = chance.percent(70).then(|| span(chance));
            Fault::KillWorker { nth, noticed, back: span(chance), cut_off: chance.percent(40) }
        }
        29..=30 => Fault::Deafen { nth, span: span(chance) },
        31..=32 => Fault::FailHearing(*chance.one(&[StoreFault::Full, StoreFault::Away])),
        33..=35 => Fault::Busy { nth, tries: u32::try_from(chance.between(1, 6)).unwrap_or(1) },
        36..=37 => Fault::ClockRight,
        38..=39 => Fault::LongPause(Millis(chance.between(600, 20_000))),
        40..=41 => Fault::SlowSync(Millis(chance.between(600, 20_000))),
        _ => Fault::Release { nth, back: span(chance) },
    }
}

/// By how much somebody sets a clock: seconds, hours, years.
fn jump(chance: &mut Chance) -> Millis {
    Millis(*chance.one(&[500, 40_000, 7_200_000, 4 * YEAR]))
}
