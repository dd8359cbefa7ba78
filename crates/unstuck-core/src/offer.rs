//! Offers: what waiting workers would take, so that a decision can dispatch work in the same event.
//!
//! Workers with room stand in a line for each of their queues, and in one line for all of them. A worker that is handed
//! an attempt moves to the end of its lines, so that work is dealt in turn and the one that has waited longest comes
//! first. The lines are doubly linked through the members, so that joining, leaving and moving take constant time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::eligible::{Demand, Entry, Snapshot, check_eligible, check_eligible_in_queue};
use crate::model::attempt::Worker;

/// The load of an attempt that must run alone: the whole worker, whatever its maximum.
pub const WHOLE_WORKER: u32 = u32::MAX;

/// A worker that waits for work.
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
    /// Takes the room of an attempt; one that must run alone takes all of it.
    pub fn take_room(&mut self, demand: Demand) {
        self.free = self.free.saturating_sub(load_of(demand).min(self.max_load));
    }
}

/// The load of an attempt: the whole worker for one that must run alone.
fn load_of(demand: Demand) -> u32 {
    if demand.alone { WHOLE_WORKER } else { demand.load }
}

/// The workers that wait for work. Whatever they could take has been handed to them already.
#[derive(Clone, Debug)]
pub struct Offers {
    members: Slots<Member>,
    by_worker: FxHashMap<(Arc<str>, u64), usize>,
    /// The lines of all queues that a worker takes from; the line of all workers is [`EVERYONE`].
    lines: Slots<Line>,
    by_queue: FxHashMap<Arc<str>, usize>,
    /// The worker whose report is being decided, and the highest priority that waits for it.
    answering: Option<(usize, Option<i32>)>,
    /// A worker that has room again but has not joined its lines yet. Most are handed the next attempt before the lines are
    /// read, which saves joining and leaving them.
    joining: Option<usize>,
}

/// The line of all workers with room, whatever their queues.
const EVERYONE: usize = 0;

#[derive(Clone, Debug)]
struct Member {
    offer: Offer,
    /// The load that it was handed and has not given back.
    held: u32,
    /// How much it may be handed in all. Of a worker that is always here this is its maximum; of one that calls, what it
    /// holds and the room of its open calls. It may be less than what is held: then there is no room until that is less.
    capacity: u32,
    /// Its places: in the line of everyone, then in the line of each of its queues.
    places: Vec<Place>,
    /// Whether it stands in its lines: it has room.
    in_line: bool,
    /// Whether it calls for work, and has the room of its open calls.
    is_caller: bool,
}

impl Member {
    /// Returns whether the worker has room and does not stand in its lines.
    fn is_to_join(&self) -> bool {
        self.offer.free > 0 && !self.in_line
    }

    fn hold_load(&mut self, load: u32) {
        self.held = self.held.saturating_add(load.min(self.offer.max_load));
        self.update_free();
    }

    fn release_load(&mut self, load: u32) {
        self.held = self.held.saturating_sub(load.min(self.offer.max_load));
        self.update_free();
    }

    fn update_free(&mut self) {
        self.offer.free = self.capacity.saturating_sub(self.held);
    }
}

/// The place of a member in a line, between two others.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: usize,
    before: Option<Seat>,
    after: Option<Seat>,
}

/// Names a place: which member, and which of its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seat {
    member: usize,
    place: usize,
}

#[derive(Clone, Debug, Default)]
struct Line {
    queue: Arc<str>,
    /// How many take from the queue, with room or without.
    takers: usize,
    first: Option<Seat>,
    last: Option<Seat>,
}

impl Default for Offers {
    fn default() -> Offers {
        let mut lines = Slots::default();
        lines.insert(Line::default());
        Offers {
            members: Slots::default(),
            by_worker: FxHashMap::default(),
            lines,
            by_queue: FxHashMap::default(),
            answering: None,
            joining: None,
        }
    }
}

impl Offers {
    /// Adds a worker that is always here, or replaces its offer.
    pub fn put(&mut self, offer: Offer) {
        let (capacity, held) = (offer.max_load, offer.max_load.saturating_sub(offer.free));
        let member = self.find_or_add_member(&offer.worker, &offer.queues);
        let found = &mut self.members[member];
        (found.offer, found.capacity, found.held, found.is_caller) = (offer, capacity, held, false);
        self.update_lines(member);
    }

    /// A worker calls, and offers this much room more than it has offered already. What it holds it keeps.
    pub fn add_room(&mut self, worker: &Worker, queues: &Arc<[Arc<str>]>, max_load: u32, room: u32) {
        let member = self.find_or_add_member(worker, queues);
        let found = &mut self.members[member];
        (found.offer.max_load, found.is_caller) = (max_load, true);
        found.capacity = found.capacity.saturating_add(room);
        found.update_free();
        self.update_lines(member);
    }

    /// A worker that calls takes back room that it has offered.
    pub fn withdraw_room(&mut self, worker: &Worker, room: u32) {
        if let Some(member) = self.find_member(worker) {
            let found = &mut self.members[member];
            found.capacity = found.capacity.saturating_sub(room);
            found.update_free();
            self.update_lines(member);
        }
    }

    /// Returns the member of a worker with these queues; one that took from others joins its new lines at their ends.
    fn find_or_add_member(&mut self, worker: &Worker, queues: &Arc<[Arc<str>]>) -> usize {
        let (mut held, mut capacity) = (0, 0);
        if let Some(member) = self.find_member(worker) {
            let found = &self.members[member];
            if found.offer.queues == *queues {
                return member;
            }
            (held, capacity) = (found.held, found.capacity);
            self.remove(worker);
        }
        let mut lines: Vec<usize> = queues.iter().map(|queue| self.find_or_add_line(queue)).collect();
        // A queue that is listed twice counts once.
        lines.sort_unstable();
        lines.dedup();
        for line in &lines {
            self.lines[*line].takers += 1;
        }
        let place = |line| Place { line, before: None, after: None };
        let places = std::iter::once(EVERYONE).chain(lines).map(place).collect();
        let offer = Offer { worker: worker.clone(), queues: queues.clone(), free: 0, max_load: 0 };
        let member =
            self.members.insert(Member { offer, held, capacity, places, in_line: false, is_caller: false });
        self.by_worker.insert((worker.name.clone(), worker.incarnation), member);
        member
    }

    /// Removes a worker from its lines, and every line that no worker takes from any more.
    pub fn remove(&mut self, worker: &Worker) {
        let Some(member) = self.by_worker.remove(&(worker.name.clone(), worker.incarnation)) else { return };
        self.members[member].offer.free = 0;
        self.update_lines(member);
        self.answering = self.answering.filter(|(answering, _)| *answering != member);
        self.joining = self.joining.filter(|joining| *joining != member);
        for place in self.members.remove(member).places.into_iter().skip(1) {
            self.lines[place.line].takers -= 1;
            if self.lines[place.line].takers == 0 {
                let line = self.lines.remove(place.line);
                self.by_queue.remove(&line.queue);
            }
        }
    }

    /// How many workers there are, with room or without.
    pub fn len(&self) -> usize {
        self.by_worker.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_worker.is_empty()
    }

    /// Iterates over the workers with room, the one that has waited longest first.
    pub fn open(&self) -> impl Iterator<Item = &Offer> {
        let joining = self.joining.filter(|member| self.members[*member].is_to_join());
        let members = self.seats_in_line(EVERYONE).map(|seat| seat.member).chain(joining);
        members.map(|member| &self.members[member].offer)
    }

    /// Returns the offer of a worker.
    pub fn of(&self, worker: &Worker) -> Option<&Offer> {
        self.find_member(worker).map(|member| &self.members[member].offer)
    }

    /// Returns whether a worker calls for work, rather than being here all the time.
    pub fn is_caller(&self, worker: &Worker) -> bool {
        self.find_member(worker).is_some_and(|member| self.members[member].is_caller)
    }

    /// Gives a worker the room of an ended attempt back; it joins its lines again if it was full.
    pub fn release_room(&mut self, worker: &Worker, load: u32) {
        if let Some(member) = self.find_member(worker) {
            self.members[member].release_load(load);
            self.update_lines(member);
        }
    }

    /// Takes room from a worker, which keeps its place in line.
    pub fn take_load(&mut self, worker: &Worker, load: u32) {
        if let Some(member) = self.find_member(worker) {
            self.members[member].hold_load(load);
            self.update_lines(member);
        }
    }

    /// Sets the free room of every worker to its capacity minus `used`.
    pub fn reset_room<'a>(&mut self, used: impl Iterator<Item = (&'a Worker, u32)>) {
        for member in self.members.occupied() {
            self.members[member].held = 0;
        }
        for (worker, load) in used {
            if let Some(member) = self.find_member(worker) {
                self.members[member].hold_load(load);
            }
        }
        for member in self.members.occupied() {
            self.members[member].update_free();
            self.update_lines(member);
        }
    }

    /// Sets the worker whose report is being decided, which gets the next attempt first; `waiting` is the highest
    /// priority that waits for it.
    pub fn set_answering(&mut self, answering: Option<(&Worker, Option<i32>)>) {
        self.answering = answering.and_then(|(worker, waiting)| Some((self.find_member(worker)?, waiting)));
    }

    /// Chooses a worker for this attempt and takes its room: first the one whose report made the attempt ready, unless
    /// work of a higher priority waits for it; then the one that has waited longest.
    pub fn take_worker(&mut self, entry: &Entry<'_>) -> Option<Worker> {
        let member = self.answering_worker(entry).or_else(|| self.next_in_line(entry))?;
        self.assign_attempt(member, entry);
        Some(self.members[member].offer.worker.clone())
    }

    /// Takes the room of an attempt that is dispatched to this worker, and moves it to the end of its lines. Returns `false`
    /// if it has no room for it any more, or is gone.
    pub fn take_from(&mut self, worker: &Worker, entry: &Entry<'_>) -> bool {
        let Some(member) = self.find_member(worker) else { return false };
        let has_room = check_eligible(entry, &self.members[member].offer, Snapshot::default()).is_ok();
        if has_room {
            self.assign_attempt(member, entry);
        }
        has_room
    }

    /// Returns the worker whose report is being decided, if it is eligible.
    fn answering_worker(&self, entry: &Entry<'_>) -> Option<usize> {
        let (member, highest_waiting) = self.answering?;
        let offer = &self.members[member].offer;
        check_eligible(entry, offer, Snapshot { highest_waiting }).is_ok().then_some(member)
    }

    /// Returns the first eligible worker in the line of the attempt's queue. The one that is yet to join stands last.
    fn next_in_line(&self, entry: &Entry<'_>) -> Option<usize> {
        let answering = self.answering.map(|(member, _)| member);
        // No other work waits for these workers: it would have been handed to them.
        let snapshot = Snapshot::default();
        let mut line = self.seats_in_line(*self.by_queue.get(entry.queue)?).map(|seat| seat.member);
        let found = line.find(|member| {
            Some(*member) != answering
                && check_eligible_in_queue(entry, &self.members[*member].offer, snapshot).is_ok()
        });
        // The worker that is yet to join stands behind all others.
        found.or_else(|| {
            let last = self.joining.filter(|member| Some(*member) != answering)?;
            let Member { offer, in_line, .. } = &self.members[last];
            (!*in_line && check_eligible(entry, offer, snapshot).is_ok()).then_some(last)
        })
    }

    /// Takes the room of an attempt from a worker, and moves it to the end of the line of its queue and of the line of
    /// all.
    fn assign_attempt(&mut self, member: usize, entry: &Entry<'_>) {
        if self.joining != Some(member) {
            self.flush_joining();
        }
        self.members[member].hold_load(load_of(entry.demand));
        self.update_lines(member);
        if self.members[member].in_line {
            self.move_to_end(Seat { member, place: 0 });
            let line = self.by_queue.get(entry.queue);
            let place = self.members[member].places.iter().position(|place| Some(&place.line) == line);
            if let Some(place) = place {
                self.move_to_end(Seat { member, place });
            }
        }
    }

    fn find_member(&self, worker: &Worker) -> Option<usize> {
        self.by_worker.get(&(worker.name.clone(), worker.incarnation)).copied()
    }

    /// Returns the line of a queue, which is added with its first worker.
    fn find_or_add_line(&mut self, queue: &Arc<str>) -> usize {
        if let Some(line) = self.by_queue.get(queue) {
            return *line;
        }
        let line = self.lines.insert(Line { queue: queue.clone(), ..Line::default() });
        self.by_queue.insert(queue.clone(), line);
        line
    }

    /// Iterates over the seats of a line from its front.
    fn seats_in_line(&self, line: usize) -> impl Iterator<Item = Seat> {
        std::iter::successors(self.lines[line].first, |seat| self.place_at(*seat).after)
    }

    fn place_at(&self, seat: Seat) -> Place {
        self.members[seat.member].places[seat.place]
    }

    fn place_at_mut(&mut self, seat: Seat) -> &mut Place {
        &mut self.members[seat.member].places[seat.place]
    }

    /// Takes a worker out of its lines if it has no room, or marks it as joining if it has room again.
    fn update_lines(&mut self, member: usize) {
        let Member { offer, in_line, .. } = &mut self.members[member];
        let has_room = offer.free > 0;
        if *in_line && !has_room {
            *in_line = false;
            for place in 0..self.members[member].places.len() {
                self.unlink_from_line(Seat { member, place });
            }
        } else if !*in_line && has_room && self.joining != Some(member) {
            self.flush_joining();
            self.joining = Some(member);
        }
    }

    /// Appends the joining worker to its lines, if there is one.
    fn flush_joining(&mut self) {
        if let Some(member) = self.joining.take()
            && self.members[member].is_to_join()
        {
            self.members[member].in_line = true;
            for place in 0..self.members[member].places.len() {
                self.append_to_line(Seat { member, place });
            }
        }
    }

    /// Moves a seat to the end of its line.
    fn move_to_end(&mut self, seat: Seat) {
        if self.place_at(seat).after.is_some() {
            self.unlink_from_line(seat);
            self.append_to_line(seat);
        }
    }

    /// Links a seat behind the last one of its line.
    fn append_to_line(&mut self, seat: Seat) {
        let line = self.place_at(seat).line;
        let last = self.lines[line].last.replace(seat);
        match last {
            Some(last) => self.place_at_mut(last).after = Some(seat),
            None => self.lines[line].first = Some(seat),
        }
        *self.place_at_mut(seat) = Place { line, before: last, after: None };
    }

    /// Unlinks a seat from its neighbours, or from the ends of its line.
    fn unlink_from_line(&mut self, seat: Seat) {
        let Place { line, before, after } = self.place_at(seat);
        match before {
            Some(before) => self.place_at_mut(before).after = after,
            None => self.lines[line].first = after,
        }
        match after {
            Some(after) => self.place_at_mut(after).before = before,
            None => self.lines[line].last = before,
        }
    }
}

/// A slab: values keep their index until they are removed; then the index is used again.
#[derive(Clone, Debug)]
struct Slots<T> {
    slots: Vec<Option<T>>,
    vacant: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { slots: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Inserts a value at a free index, and returns the index.
    fn insert(&mut self, thing: T) -> usize {
        if let Some(slot) = self.vacant.pop() {
            self.slots[slot] = Some(thing);
            return slot;
        }
        self.slots.push(Some(thing));
        self.slots.len() - 1
    }

    fn remove(&mut self, slot: usize) -> T {
        self.vacant.push(slot);
        self.slots[slot].take().expect("it is there")
    }

    /// Lists the indices in use, in order.
    fn occupied(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()).collect()
    }
}

impl<T> std::ops::Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, slot: usize) -> &T {
        self.slots[slot].as_ref().expect("it is there")
    }
}

impl<T> std::ops::IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, slot: usize) -> &mut T {
        self.slots[slot].as_mut().expect("it is there")
    }
}
