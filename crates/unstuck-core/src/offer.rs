//! Offers: what waiting executors would take, so that a decision can hand work over in the same event.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::attempt::Worker;

/// The load of an attempt that must be alone: all of its worker, whatever that can take.
pub const WHOLE_WORKER: u32 = u32::MAX;

/// An executor that waits for work.
#[derive(Clone, Debug)]
pub struct Offer {
    pub worker: Worker,
    /// The queues it takes from.
    pub queues: Arc<[Arc<str>]>,
    /// How much load it has room for.
    pub free: u32,
    /// How much it can have in all: an offer with `free == max_load` runs nothing.
    pub max_load: u32,
}

impl Offer {
    /// Whether it takes an attempt of this queue and load.
    pub fn takes(&self, queue: &str, load: u32, alone: bool) -> bool {
        self.free >= load.min(self.max_load)
            && self.free > 0
            && (!alone || self.free == self.max_load)
            && self.queues.iter().any(|mine| &**mine == queue)
    }
}

/// The executors that wait, while nothing that they could take is waiting for them.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    offers: Vec<Offer>,
    /// Which offers take from a queue.
    by_queue: FxHashMap<Arc<str>, Vec<usize>>,
    by_worker: FxHashMap<(Arc<str>, u64), usize>,
    /// The executor whose answer is being decided, and the highest priority that waits for it.
    answering: Option<(usize, Option<i32>)>,
}

impl Offers {
    /// Adds an executor, or changes what it offers.
    pub fn put(&mut self, offer: Offer) {
        let name = (offer.worker.name.clone(), offer.worker.incarnation);
        let place = *self.by_worker.entry(name).or_insert(self.offers.len());
        for queue in &*offer.queues {
            let places = self.by_queue.entry(queue.clone()).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
        match self.offers.get_mut(place) {
            Some(old) => *old = offer,
            None => self.offers.push(offer),
        }
    }

    /// Everyone who has room.
    pub fn open(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter().filter(|offer| offer.free > 0)
    }

    /// The offer of this worker.
    pub fn of(&self, worker: &Worker) -> Option<&Offer> {
        self.position_of(worker).map(|place| &self.offers[place])
    }

    /// Gives room back: an attempt of this load is over.
    pub fn give_back(&mut self, worker: &Worker, load: u32) {
        if let Some(place) = self.position_of(worker) {
            let offer = &mut self.offers[place];
            offer.free = offer.free.saturating_add(load.min(offer.max_load)).min(offer.max_load);
        }
    }

    /// Takes room from this worker.
    pub fn use_up(&mut self, worker: &Worker, load: u32) {
        if let Some(place) = self.position_of(worker) {
            let offer = &mut self.offers[place];
            offer.free = offer.free.saturating_sub(load.min(offer.max_load));
        }
    }

    /// Everyone has all of their room, less what is used.
    pub fn reset_room<'a>(&mut self, used: impl Iterator<Item = (&'a Worker, u32)>) {
        for offer in &mut self.offers {
            offer.free = offer.max_load;
        }
        for (worker, load) in used {
            self.use_up(worker, load);
        }
    }

    /// This worker has answered and waits for more; `waiting` is the highest priority that waits for it.
    pub fn set_answering(&mut self, answering: Option<(&Worker, Option<i32>)>) {
        self.answering = answering.and_then(|(worker, waiting)| Some((self.position_of(worker)?, waiting)));
    }

    /// Somebody who takes this attempt at once: first the one whose answer made it ready, unless something of a
    /// higher priority waits for that one; then whoever has been waiting for work.
    pub fn take_worker(&mut self, queue: &str, load: u32, alone: bool, priority: i32) -> Option<Worker> {
        let place = self.find_worker(queue, load, alone, priority)?;
        let load = if alone { WHOLE_WORKER } else { load };
        let offer = &mut self.offers[place];
        offer.free = offer.free.saturating_sub(load.min(offer.max_load));
        Some(offer.worker.clone())
    }

    fn find_worker(&self, queue: &str, load: u32, alone: bool, priority: i32) -> Option<usize> {
        if let Some((place, waiting)) = self.answering
            && waiting.is_none_or(|waiting| waiting <= priority)
            && self.offers[place].takes(queue, load, alone)
        {
            return Some(place);
        }
        let busy = self.answering.map(|(place, _)| place);
        let places = self.by_queue.get(queue)?;
        places
            .iter()
            .copied()
            .find(|place| Some(*place) != busy && self.offers[*place].takes(queue, load, alone))
    }

    fn position_of(&self, worker: &Worker) -> Option<usize> {
        self.by_worker.get(&(worker.name.clone(), worker.incarnation)).copied()
    }
}
