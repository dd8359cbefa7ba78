//! Several servers on one store: how many there are, who is connected to which, and what happens to each.

use std::sync::Arc;

use unstuck_core::time::Millis;

use crate::simulate::chance::Chance;
use crate::simulate::plan::{Fault, LostAnswer, PlannedAct, PlannedWorker, TimedAct};

/// Where servers share a store nothing waits longer than this for the next act: their sessions are renewed all the while.
const LONGEST_GAP: u64 = 75_000;
/// Nor does a disk take longer than this: what is on its way is busy for the others all the while.
const SLOWEST_SYNC: Millis = Millis(8_000);
/// And so many acts are enough for things to collide.
const MAX_ACTS: usize = 26;

/// A server.
#[derive(Clone, Debug)]
pub struct PlannedNode {
    /// The machine that it is on, with its executors.
    pub host: Arc<str>,
}

/// Which servers are there when faults have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// All of them.
    All,
    /// The one of this place alone: the others died, and nobody has started them again.
    One(usize),
}

impl Survivors {
    /// Whether the server of this place is there.
    pub(crate) fn includes(self, node: usize) -> bool {
        match self {
            Survivors::All => true,
            Survivors::One(left) => left == node,
        }
    }

    pub(crate) fn words(self) -> String {
        match self {
            Survivors::All => "all servers are there".to_owned(),
            Survivors::One(left) => format!("server {left} is left alone"),
        }
    }
}

/// The servers of a plan: a third of all plans has two or three.
pub(crate) fn draw(chance: &mut Chance) -> (Vec<PlannedNode>, Survivors) {
    let count = chance.weighed(&[(12, 1), (4, 2), (2, 3)]);
    let hosts = if chance.percent(30) { ["one", "one", "two"] } else { ["one", "two", "three"] };
    let nodes = hosts.iter().take(count).map(|host| PlannedNode { host: Arc::from(*host) }).collect();
    let left = chance.below(count);
    let survivors = if count > 1 && chance.percent(40) { Survivors::One(left) } else { Survivors::All };
    (nodes, survivors)
}

/// Says which server each worker is connected to at first.
pub(crate) fn connect(chance: &mut Chance, workers: &mut [PlannedWorker], count: usize) {
    for worker in workers.iter_mut().filter(|worker| !worker.local) {
        worker.node = chance.below(count);
    }
}

/// Says at which server each act is done.
pub(crate) fn spread(seed: u64, acts: Vec<(Millis, PlannedAct)>, count: usize) -> Vec<TimedAct> {
    if count == 1 {
        return acts.into_iter().map(|(at, act)| TimedAct { at, node: 0, act }).collect();
    }
    let (mut spread, mut now, mut before): (Vec<TimedAct>, u64, u64) = (Vec::new(), 0, 0);
    for (number, (at, act)) in (0..).zip(acts) {
        let mut chance = Chance::of(seed, &[18, number]);
        now += (at.0 - before).min(LONGEST_GAP);
        before = at.0;
        let act = among_several(&mut chance, act);
        spread.push(TimedAct { at: Millis(now), node: chance.below(count), act });
    }
    spread.truncate(MAX_ACTS);
    lose_answers(&mut Chance::of(seed, &[22]), &mut spread, count);
    spread
}

/// Now and then the answers to commits are lost, rather where something is asked.
fn lose_answers(chance: &mut Chance, acts: &mut Vec<TimedAct>, count: usize) {
    if !chance.percent(50) {
        return;
    }
    for _ in 0..chance.between(1, 4) {
        let place = chance.below(acts.len().max(1));
        let Some(TimedAct { at, node, .. }) = acts.get(place) else { return };
        let (at, asked) = (*at, *node);
        let span = Millis(*chance.one(&[1, 30, 400, 2_000, 8_000]));
        let dies = chance.percent(30).then(|| Millis(chance.between(0, span.0)));
        let lost = LostAnswer { happens: chance.percent(50), span, dies };
        let node = if chance.percent(70) { asked } else { chance.below(count) };
        acts.insert(place, TimedAct { at, node, act: PlannedAct::Fault(Fault::LoseAnswer(lost)) });
    }
}

/// What an act is where several servers share the store.
fn among_several(chance: &mut Chance, act: PlannedAct) -> PlannedAct {
    match act {
        // All go by the clock of the store: half of the time something happens that matters more to several.
        PlannedAct::Fault(Fault::ClockForward(_) | Fault::ClockBack(_) | Fault::ClockRight)
            if chance.percent(50) =>
        {
            PlannedAct::Fault(match chance.between(0, 3) {
                0 => Fault::FallBehind(Millis(chance.between(3_000, 40_000))),
                // Longer than a session lasts, or nearly.
                _ => Fault::LongPause(Millis(chance.between(22_000, 50_000))),
            })
        }
        PlannedAct::Fault(Fault::SlowSync(span)) => {
            PlannedAct::Fault(Fault::SlowSync(span.min(SLOWEST_SYNC)))
        }
        act => act,
    }
}
