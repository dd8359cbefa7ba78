//! Offers against a model that looks at everything each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::eligible::{Demand, Entry, Snapshot, check_eligible};
use unstuck_core::model::attempt::Worker;
use unstuck_core::offer::{Offer, Offers};
use unstuck_core::random::Random;

/// Everyone, and for each queue those with room, the one first that has waited longest.
#[derive(Default)]
struct Model {
    all: BTreeMap<u64, Offer>,
    /// What each may have in all, and has.
    room: BTreeMap<u64, (u32, u32)>,
    open: Vec<u64>,
    lines: BTreeMap<Arc<str>, Vec<u64>>,
}

impl Model {
    fn put(&mut self, offer: Offer) {
        let id = offer.worker.incarnation;
        if self.all.get(&id).is_some_and(|old| old.queues != offer.queues) {
            self.remove(id);
        }
        self.room.insert(id, (offer.max_load, offer.max_load - offer.free));
        self.all.insert(id, offer);
        self.update(id);
    }

    fn add_room(&mut self, offer: Offer, room: u32) {
        let id = offer.worker.incarnation;
        let (capacity, held) = self.room.get(&id).copied().unwrap_or_default();
        if self.all.get(&id).is_some_and(|old| old.queues != offer.queues) {
            self.remove(id);
        }
        self.room.insert(id, (capacity + room, held));
        self.all.insert(id, offer);
        self.change_room(id, |_| (0, 0));
    }

    fn remove(&mut self, id: u64) {
        self.all.remove(&id);
        self.room.remove(&id);
        self.update(id);
    }

    /// Changes what a worker has, by loads that it takes and gives back, each of them the whole worker at most.
    fn change_room(&mut self, id: u64, loads: impl Fn(&Offer) -> (u32, u32)) {
        if let (Some(offer), Some((capacity, held))) = (self.all.get_mut(&id), self.room.get_mut(&id)) {
            let (more, less) = loads(offer);
            *held = (*held + more.min(offer.max_load)).saturating_sub(less.min(offer.max_load));
            offer.free = capacity.saturating_sub(*held);
            self.update(id);
        }
    }

    /// Whoever has room and does not stand in line joins at the end; whoever has none leaves.
    fn update(&mut self, id: u64) {
        let Some(offer) = self.all.get(&id).filter(|offer| offer.free > 0) else {
            self.open.retain(|open| *open != id);
            return self.lines.values_mut().for_each(|line| line.retain(|open| *open != id));
        };
        if !self.open.contains(&id) {
            self.open.push(id);
            for queue in &*offer.queues {
                let line = self.lines.entry(queue.clone()).or_default();
                line.retain(|open| *open != id);
                line.push(id);
            }
        }
    }

    fn hand_over(&mut self, id: u64, entry: &Entry<'_>) {
        let load = |offer: &Offer| if entry.demand.alone { offer.max_load } else { entry.demand.load };
        self.change_room(id, |offer| (load(offer), 0));
        for line in [Some(&mut self.open), self.lines.get_mut(entry.queue)].into_iter().flatten() {
            if line.contains(&id) {
                line.retain(|open| *open != id);
                line.push(id);
            }
        }
    }

    fn take(&mut self, entry: &Entry<'_>, answering: Option<(u64, Option<i32>)>) -> Option<u64> {
        let takes = |id: u64, highest_waiting| {
            let offer = self.all.get(&id)?;
            check_eligible(entry, offer, Snapshot { highest_waiting }).is_ok().then_some(id)
        };
        let answers = answering.and_then(|(id, waiting)| takes(id, waiting));
        let others = self.lines.get(entry.queue).into_iter().flatten();
        let mut others = others.filter(|id| answering.is_none_or(|(answering, _)| answering != **id));
        let id = answers.or_else(|| others.find_map(|id| takes(*id, None)))?;
        self.hand_over(id, entry);
        Some(id)
    }
}

#[test]
fn workers_come_and_go_and_work_is_dealt_in_turn() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut model, mut offers) = (Model::default(), Offers::default());
        for _ in 0..300 {
            act(&mut random, &mut model, &mut offers);
            let open: Vec<(u64, u32)> =
                offers.open().map(|offer| (offer.worker.incarnation, offer.free)).collect();
            let expected: Vec<(u64, u32)> = model.open.iter().map(|id| (*id, model.all[id].free)).collect();
            assert_eq!(open, expected, "seed {seed}");
            assert_eq!(offers.len(), model.all.len(), "seed {seed}");
        }
    }
}

fn act(random: &mut Random, model: &mut Model, offers: &mut Offers) {
    let id = below(random, 6);
    match below(random, 10) {
        0 => {
            let offer = some_offer(random, id);
            model.put(offer.clone());
            offers.put(offer);
        }
        1 => {
            model.remove(id);
            offers.remove(&worker(id));
        }
        2 | 3 => {
            let load = small(random, 4);
            model.change_room(id, |_| (0, load));
            offers.release_room(&worker(id), load);
        }
        4 => {
            let load = small(random, 4);
            model.change_room(id, |_| (load, 0));
            offers.take_load(&worker(id), load);
        }
        5 => {
            let (offer, room) = (some_offer(random, id), small(random, 4));
            model.add_room(offer.clone(), room);
            offers.add_room(&offer.worker, &offer.queues, offer.max_load, room);
        }
        6 => {
            let room = small(random, 4);
            if let Some((capacity, _)) = model.room.get_mut(&id) {
                *capacity = capacity.saturating_sub(room);
                model.change_room(id, |_| (0, 0));
            }
            offers.withdraw_room(&worker(id), room);
        }
        _ => {
            let queue = ["a", "b", "c"][usize::try_from(below(random, 3)).expect("it is small")];
            let demand = Demand { load: small(random, 4), alone: below(random, 8) == 0 };
            let entry = Entry { queue, demand, priority: 1 };
            let waiting = [None, Some(0), Some(2)][usize::try_from(below(random, 3)).expect("it is small")];
            let answering = (below(random, 2) == 0 && model.all.contains_key(&id)).then_some((id, waiting));
            let worker = worker(id);
            offers.set_answering(answering.map(|(_, waiting)| (&worker, waiting)));
            let got = offers.take_worker(&entry).map(|worker| worker.incarnation);
            assert_eq!(got, model.take(&entry, answering), "{entry:?}");
            offers.set_answering(None);
        }
    }
}

fn worker(id: u64) -> Worker {
    Worker { name: "w".into(), incarnation: id, local: true }
}

fn some_offer(random: &mut Random, id: u64) -> Offer {
    let sets: [&[&str]; 5] = [&["a"], &["b"], &["a", "b"], &["c", "a", "b"], &["a", "a"]];
    let queues = sets[usize::try_from(below(random, 5)).expect("it is small")];
    let max_load = small(random, 4);
    let free = small(random, max_load);
    Offer { worker: worker(id), queues: queues.iter().map(|queue| (*queue).into()).collect(), free, max_load }
}

fn below(random: &mut Random, end: u64) -> u64 {
    random.between(0, end - 1)
}

fn small(random: &mut Random, most: u32) -> u32 {
    u32::try_from(random.between(0, u64::from(most))).expect("it is small")
}

#[test]
fn after_a_reset_everyone_has_the_room_that_nothing_takes() {
    let mut offers = Offers::default();
    for (id, free) in [(1, 4), (2, 0), (3, 1)] {
        offers.put(Offer { worker: worker(id), queues: ["a".into()].into(), free, max_load: 4 });
    }
    let (second, third) = (worker(2), worker(3));
    offers.reset_room([(&second, 1), (&third, 9), (&second, 1)].into_iter());
    let open: Vec<(u64, u32)> = offers.open().map(|offer| (offer.worker.incarnation, offer.free)).collect();
    assert_eq!(open, [(1, 4), (2, 2)]);
}
