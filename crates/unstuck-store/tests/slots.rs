//! Slots against a model that counts everything each time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::RunId;
use unstuck_core::model::run::Limit;
use unstuck_core::random::Random;
use unstuck_core::slot::SlotClaim;
use unstuck_core::time::Time;
use unstuck_store::slots::Slots;

type Runs = BTreeMap<RunId, (SlotClaim, Time)>;

#[test]
fn slots_are_as_simple_as_their_model() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut slots, mut model) = (Slots::default(), Runs::new());
        for now in 0..200 {
            let now = Time(now / 3);
            let run = RunId(random.between(1, 12));
            let slot = some_use(&mut random);
            slots.set(run, &slot, now);
            set(&mut model, run, slot, now);
            let limit = usize::try_from(random.between(0, 12)).unwrap();
            assert_eq!(slots.admissible(limit), admissible(&model, limit), "seed {seed}: {model:#?}");
            let since = model.get(&run).filter(|(slot, _)| matches!(slot, SlotClaim::Wants { .. }));
            assert_eq!(slots.wanted_since(run), since.map(|(_, since)| *since), "seed {seed}");
        }
    }
}

fn set(model: &mut Runs, run: RunId, slot: SlotClaim, now: Time) {
    let since = match (model.remove(&run), &slot) {
        (Some((SlotClaim::Wants { limit: old, .. }, since)), SlotClaim::Wants { limit, .. })
            if old.name == limit.name =>
        {
            since
        }
        _ => now,
    };
    model.insert(run, (slot, since));
}

fn admissible(model: &Runs, limit: usize) -> Vec<RunId> {
    let mut taken: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut wants = Vec::new();
    for (run, (slot, since)) in model {
        match slot {
            SlotClaim::None => {}
            SlotClaim::Has { limit } => *taken.entry(limit.name.clone()).or_default() += 1,
            SlotClaim::Wants { limit, priority } => wants.push((Reverse(*priority), *since, *run, limit)),
        }
    }
    wants.sort_by_key(|(priority, since, run, _)| (*priority, *since, *run));
    let fits = wants.into_iter().filter(|(.., limit)| {
        let taken = taken.entry(limit.name.clone()).or_default();
        let has_room = *taken < limit.max;
        *taken += u32::from(has_room);
        has_room
    });
    fits.map(|(_, _, run, _)| run).take(limit).collect()
}

fn some_use(random: &mut Random) -> SlotClaim {
    let name = ["a", "b", "c"][usize::try_from(random.between(0, 2)).unwrap()].into();
    let limit = Limit { name, max: u32::try_from(random.between(0, 4)).unwrap(), strict: false };
    match random.between(0, 4) {
        0 => SlotClaim::None,
        1 => SlotClaim::Has { limit },
        _ => SlotClaim::Wants { limit, priority: i32::try_from(random.between(0, 2)).unwrap() },
    }
}
