//! Timers against a model that sorts everything each time.

use std::collections::BTreeMap;

use unstuck_core::decide::LeaseMove;
use unstuck_core::id::RunId;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::random::Random;
use unstuck_core::time::Time;
use unstuck_store::contract::Due;
use unstuck_store::timers::{Timer, Timers};

type Places = BTreeMap<(RunId, Option<UnitRef>), Timer>;
/// Parked runs, with what a store has kept of their timers.
type Parked = BTreeMap<RunId, Vec<(Option<UnitRef>, Timer)>>;

#[test]
fn timers_are_as_simple_as_their_model() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut timers, mut model, mut parked) = (Timers::default(), Places::new(), Parked::new());
        for _ in 0..200 {
            step(&mut random, &mut timers, &mut model, &mut parked);
            let mut all: Vec<Due> = model
                .iter()
                .map(|((run, unit), timer)| Due {
                    due: timer.due,
                    run: *run,
                    unit: *unit,
                    heard: timer.heard,
                })
                .collect();
            all.sort_by_key(|due| (due.due, due.run, due.unit));
            assert_eq!(timers.next_due(), all.first().map(|due| due.due), "seed {seed}");
            let now = some_time(&mut random);
            let limit = usize::try_from(random.between(0, 10)).unwrap();
            all.retain(|due| due.due <= now);
            all.truncate(limit);
            assert_eq!(timers.due(now, limit), all, "seed {seed}");
        }
    }
}

fn step(random: &mut Random, timers: &mut Timers, model: &mut Places, parked: &mut Parked) {
    let run = RunId(random.between(1, 5));
    let unit = some_unit(random);
    for (unit, timer) in parked.remove(&run).unwrap_or_default() {
        timers.unpark(run, unit, timer);
    }
    match random.between(0, 11) {
        0..4 => {
            let due = some_time(random);
            timers.set(run, unit, Some(due));
            set(model, run, unit, due);
        }
        4 => {
            timers.set(run, unit, None);
            model.remove(&(run, unit));
        }
        5 => {
            let mut listed: Vec<(Option<UnitRef>, Time)> =
                (0..random.between(0, 4)).map(|_| (some_unit(random), some_time(random))).collect();
            listed.sort_unstable();
            listed.dedup_by_key(|(unit, _)| *unit);
            timers.set_all(run, listed.iter().copied());
            model.retain(|(of, unit), _| *of != run || listed.iter().any(|(listed, _)| listed == unit));
            for (unit, due) in listed {
                set(model, run, unit, due);
            }
        }
        6..9 => {
            let Some(unit) = unit else { return };
            let lease = LeaseMove { unit, heard: some_time(random), due: some_time(random) };
            timers.move_lease(run, lease);
            if let Some(timer) = model.get_mut(&(run, Some(unit))) {
                timer.due = lease.due;
                timer.heard = timer.heard.max(Some(lease.heard));
            }
        }
        9 if !model.keys().any(|(of, _)| *of == run) => {
            let timer = some_timer(random);
            timers.add_parked(run, unit, timer);
            model.insert((run, unit), timer);
            parked.insert(run, vec![(unit, timer)]);
            return;
        }
        _ => {
            let kept = model.iter().filter(|((of, _), _)| *of == run);
            parked.insert(run, kept.map(|((_, unit), timer)| (*unit, *timer)).collect());
            timers.park(run);
            return;
        }
    }
    assert_eq!(timers.get(run, unit), model.get(&(run, unit)).copied());
}

fn some_timer(random: &mut Random) -> Timer {
    let set = some_time(random);
    match random.between(0, 1) {
        0 => Timer { due: set, set, heard: None },
        _ => Timer { due: some_time(random), set, heard: Some(some_time(random)) },
    }
}

fn set(model: &mut Places, run: RunId, unit: Option<UnitRef>, due: Time) {
    let timer = model.entry((run, unit)).or_insert(Timer { due, set: due, heard: None });
    if timer.set != due {
        *timer = Timer { due, set: due, heard: None };
    }
}

fn some_unit(random: &mut Random) -> Option<UnitRef> {
    let step = u16::try_from(random.between(0, 3)).unwrap();
    (step > 0).then(|| UnitRef::step(StepIndex(step)))
}

fn some_time(random: &mut Random) -> Time {
    Time(i64::try_from(random.between(0, 12)).unwrap())
}
