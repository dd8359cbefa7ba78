//! One pick: the best entries of several queues for several offers, with as little looking as it takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use unstuck_core::eligible::{Demand, Entry, Snapshot, check_eligible_in_queue};
use unstuck_core::offer::Offer;

use crate::contract::Candidate;
use crate::ready::level::First;
use crate::ready::{Queue, ReadyQueues, Waiting};

/// The next entry of a queue; the smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    priority: Reverse<i32>,
    first: First,
    offer: usize,
}

/// A queue that somebody takes from. Room only shrinks during a pick, so whatever was found not to fit is not looked at
/// again.
struct Line {
    queue: usize,
    /// Who takes from it, in the order of the offers.
    offers: Vec<usize>,
    /// For each demand, those of them that may take it, with the turn that each had last when it was last looked at.
    takers: Vec<(Demand, InTurn)>,
    /// Nothing above fits anybody.
    from: Reverse<i32>,
    /// How many entries had been picked when its head was found.
    seen: usize,
}

/// The last turns of offers with their places; the one whose turn is longest ago comes first.
type InTurn = BinaryHeap<Reverse<(usize, usize)>>;

/// An offer during a pick.
struct Taker {
    /// With what is left of its room.
    offer: Offer,
    /// How many entries had been picked when it was last given one; 0 if it was given none.
    turn: usize,
}

/// Picks by priority over all queues at once: a heap has the best entry of each queue, and only the queue that was
/// picked from is searched again.
pub(super) fn pick(ready: &mut ReadyQueues, offers: &[Offer], limit: usize) -> Vec<Candidate> {
    let mut takers: Vec<Taker> = offers.iter().map(|offer| Taker { offer: offer.clone(), turn: 0 }).collect();
    let mut lines = build_lines(ready, offers);
    let mut heads = BinaryHeap::with_capacity(lines.len());
    for (place, line) in lines.iter_mut().enumerate() {
        let head = line.find_head(&ready.queues[line.queue], &takers, 0);
        heads.extend(head.map(|head| Reverse((head, place))));
    }
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(Reverse((head, place))) = heads.pop()
    {
        let line = &mut lines[place];
        if line.seen == found.len() && !ready.aside.is_empty() && ready.hide_if_aside(line.queue, head) {
            // It is not given: whoever stands behind it is next.
        } else if line.seen == found.len() {
            let candidate = ready.hand_out(line.queue, head);
            let taker = &mut takers[head.offer];
            taker.offer.take_room(candidate.ready.demand());
            found.push(candidate);
            taker.turn = found.len();
        }
        let next = line.find_head(&ready.queues[line.queue], &takers, found.len());
        heads.extend(next.map(|head| Reverse((head, place))));
    }
    found
}

impl ReadyQueues {
    /// Takes an entry of a run that is set aside out of its line, without its flow losing its turn; returns whether
    /// it was one.
    fn hide_if_aside(&mut self, queue: usize, head: Head) -> bool {
        let Queue { name, levels } = &mut self.queues[queue];
        let level = levels.get_mut(&head.priority).expect("the head stands in it");
        let ready = level.peek(head.first).into_ready_attempt(name, head.priority.0);
        if !self.aside.contains(&ready.run) {
            return false;
        }
        self.in_line -= usize::from(level.remove(&ready));
        let (run, unit) = (ready.run, Some(ready.unit));
        self.waiting.insert(run, unit, Waiting { ready, picked: true });
        true
    }

    /// Takes the entry out of its line, gives its flow the turn, and remembers it as picked.
    fn hand_out(&mut self, queue: usize, head: Head) -> Candidate {
        self.turn += 1;
        self.in_line -= 1;
        let Queue { name, levels } = &mut self.queues[queue];
        let level = levels.get_mut(&head.priority).expect("the head stands in it");
        let ready = level.take(head.first, self.turn).into_ready_attempt(name, head.priority.0);
        let (run, unit) = (ready.run, ready.unit);
        self.picked.push((run, unit));
        match self.waiting.get_mut(run, Some(unit)) {
            Some(waiting) => waiting.picked = true,
            None => {
                self.waiting.insert(run, Some(unit), Waiting { ready: ready.clone(), picked: true });
            }
        }
        Candidate { offer: head.offer, ready }
    }
}

impl Line {
    /// Finds the best entry of a queue that some offer can take. `seen` tells later whether other picks have used up
    /// room since.
    fn find_head(&mut self, queue: &Queue, takers: &[Taker], seen: usize) -> Option<Head> {
        self.seen = seen;
        for (priority, level) in queue.levels.range(self.from..) {
            self.from = *priority;
            let entry = |demand| Entry { queue: &queue.name, demand, priority: priority.0 };
            let first = level.find_first(|demand| self.next_taker(&entry(demand), takers).is_some());
            if let Some((first, demand)) = first {
                let offer = self.next_taker(&entry(demand), takers)?;
                return Some(Head { priority: *priority, first, offer });
            }
        }
        None
    }

    /// Of the offers that take this entry, the one whose last turn is longest ago.
    fn next_taker(&mut self, entry: &Entry<'_>, takers: &[Taker]) -> Option<usize> {
        let known = self.takers.iter().position(|(known, _)| *known == entry.demand);
        let place = known.unwrap_or_else(|| {
            let all = self.offers.iter().map(|offer| Reverse((0, *offer))).collect();
            self.takers.push((entry.demand, all));
            self.takers.len() - 1
        });
        let heap = &mut self.takers[place].1;
        while let Some(mut first) = heap.peek_mut() {
            let Reverse((turn, offer)) = *first;
            let taker = &takers[offer];
            // A pick goes by priority: nothing better waits for anybody.
            if check_eligible_in_queue(entry, &taker.offer, Snapshot::default()).is_err() {
                PeekMut::pop(first);
            } else if turn != taker.turn {
                *first = Reverse((taker.turn, offer));
            } else {
                return Some(offer);
            }
        }
        None
    }
}

/// Collects the queues that are named by an offer with room, each with its offers.
fn build_lines(ready: &ReadyQueues, offers: &[Offer]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut places = vec![None; ready.queues.len()];
    for (offer, offered) in offers.iter().enumerate().filter(|(_, offered)| offered.free > 0) {
        for queue in offered.queues.iter().filter_map(|name| ready.names.get(name).copied()) {
            let place = *places[queue].get_or_insert_with(|| {
                lines.push(Line::new(queue));
                lines.len() - 1
            });
            let takers = &mut lines[place].offers;
            if takers.last() != Some(&offer) {
                takers.push(offer);
            }
        }
    }
    lines
}

impl Line {
    fn new(queue: usize) -> Line {
        Line { queue, offers: Vec::new(), takers: Vec::new(), from: Reverse(i32::MAX), seen: 0 }
    }
}
