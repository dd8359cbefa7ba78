//! The engine under faults: a fixed range of seeds, every promise watched, and a look whether all that may go wrong has.

use unstuck_sim::simulate::plan::{Nonsense, OperatorAct};
use unstuck_sim::simulate::run_in_memory;
use unstuck_sim::simulate::sweep::{explain, sweep};

const SEEDS: u64 = 20_000;

/// Every fault that must have fired.
const FAULTS: [&str; 54] = [
    "a run that another server has",
    "a server dies for good",
    "a server falls behind",
    "a server was taken for dead, and lives",
    "a server's processes are ended by another",
    "a sync takes seconds",
    "a worker goes to another server",
    "answer late",
    "answer lost",
    "answer repeated",
    "answer repeated later",
    "answers reordered",
    "clock jumps ahead",
    "clock jumps ahead by years",
    "clock jumps back",
    "clock jumps back by years",
    "clock set right",
    "clock set while there is no engine",
    "commit unknown, and it did not happen",
    "commit unknown, and it happened",
    "crash before a commit is looked up",
    "crash before anybody is told",
    "crash before the stage",
    "crash right after the start",
    "crash with stages on their way",
    "disk full for a while",
    "handed to a worker that has gone to another server",
    "long pause",
    "no server takes answers",
    "process gone",
    "reply lost",
    "run busy",
    "several attempts lost at once",
    "sign of life lost",
    "stage failed: away",
    "stage failed: broken",
    "stage failed: full",
    "stage failed: with a word or a loss",
    "stage refused: away",
    "stage refused: conflict",
    "stage refused: full",
    "stop in good order",
    "stopped for seconds",
    "store away for a while",
    "work ended in a stop",
    "worker cut off",
    "worker deaf",
    "worker dies",
    "worker dies of its work",
    "worker drags",
    "worker silent",
    "worker stops in good order",
    "zombie goes on",
    "zombie refused",
];

/// Every act that must have been done, those that operators do to a run and nonsense apart.
const ACTS: [&str; 22] = [
    "a new version of a flow",
    "bulk: acknowledge",
    "bulk: cancel",
    "bulk: choose none",
    "bulk: choose retry",
    "bulk: complete",
    "bulk: forget",
    "bulk: pause",
    "bulk: rerun: all",
    "bulk: rerun: continue",
    "bulk: resume",
    "bulk: signal",
    "bulk: skip",
    "bulk: stop",
    "bulk: unpause",
    "delete a policy",
    "disable a policy",
    "enable a policy",
    "load policies",
    "pause policies",
    "start",
    "unpause policies",
];

#[test]
fn every_promise_is_kept_whatever_goes_wrong() {
    if let Ok(seed) = std::env::var("UNSTUCK_SEED") {
        let seed = seed.parse().expect("UNSTUCK_SEED is a number");
        assert!(run_in_memory(seed).broken.is_none(), "{}", explain(seed).unwrap_or_default());
        return;
    }
    let sum = sweep(0..SEEDS);
    if let Some(seed) = sum.failures.keys().next() {
        let failed: Vec<u64> = sum.failures.keys().copied().collect();
        panic!("seeds {failed:?} failed; the first:\n{}", explain(*seed).unwrap_or_default());
    }
    assert_eq!(sum.seeds, SEEDS);
    for fault in FAULTS {
        assert!(sum.faults.of(fault) > 0, "never happened: {fault}");
    }
    for (fault, _) in sum.faults.iter() {
        assert!(FAULTS.contains(&fault), "not in the table: {fault}");
    }
    let acts = OperatorAct::ALL.iter().map(|act| act.words());
    let nonsense = Nonsense::ALL.iter().map(|nonsense| nonsense.words());
    for act in ACTS.into_iter().chain(acts).chain(nonsense) {
        assert!(sum.acts.of(act) > 0, "never done: {act}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let digests =
        |from: u64| -> Vec<u64> { (from..from + 40).map(|seed| run_in_memory(seed).digest).collect() };
    let first = digests(500);
    assert_eq!(first, digests(500));
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), first.len(), "different seeds give different traces");
}
