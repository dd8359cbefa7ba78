//! One pick: the best entries of several queues for several offers, with as little looking as it takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use unstuck_core::offer::Offer;

use crate::contract::Candidate;
use crate::ready::level::{First, Fit};
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
    /// For each class, the first of them that may take it.
    fits: Vec<(Fit, usize)>,
    /// Nothing above fits anybody.
    from: Reverse<i32>,
    /// How many entries had been picked when its head was found.
    seen: usize,
}

pub(super) fn pick(ready: &mut ReadyQueues, offers: &[Offer], limit: usize) -> Vec<Candidate> {
    let mut free: Vec<u32> = offers.iter().map(|offer| offer.free).collect();
    let mut lines = lines(ready, offers);
    let mut heads = BinaryHeap::with_capacity(lines.len());
    for (place, line) in lines.iter_mut().enumerate() {
        heads.extend(
            line.head(&ready.queues[line.queue], offers, &free, 0).map(|head| Reverse((head, place))),
        );
    }
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(Reverse((head, place))) = heads.pop()
    {
        let line = &mut lines[place];
        if line.seen == found.len() && !ready.aside.is_empty() && ready.hide(line.queue, head) {
            // It is not given: whoever stands behind it is next.
        } else if line.seen == found.len() {
            found.push(ready.hand_out(line.queue, head));
            take_room(&mut free[head.offer], &offers[head.offer], &found[found.len() - 1]);
        }
        let next = line.head(&ready.queues[line.queue], offers, &free, found.len());
        heads.extend(next.map(|head| Reverse((head, place))));
    }
    found
}

impl ReadyQueues {
    /// Whether this entry is not given; then it leaves its line, without its flow having had a turn.
    fn hide(&mut self, queue: usize, head: Head) -> bool {
        let Queue { name, levels } = &mut self.queues[queue];
        let level = levels.get_mut(&head.priority).expect("the head stands in it");
        let ready = level.entry(head.first).ready(name, head.priority.0);
        if !self.aside.contains(&ready.run) {
            return false;
        }
        self.in_line -= usize::from(level.remove(&ready));
        let (run, unit) = (ready.run, Some(ready.unit));
        self.waiting.insert(run, unit, Waiting { ready, picked: true });
        true
    }

    fn hand_out(&mut self, queue: usize, head: Head) -> Candidate {
        self.turn += 1;
        self.in_line -= 1;
        let Queue { name, levels } = &mut self.queues[queue];
        let level = levels.get_mut(&head.priority).expect("the head stands in it");
        let ready = level.take(head.first, self.turn).ready(name, head.priority.0);
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
    /// The best entry that somebody takes.
    fn head(&mut self, queue: &Queue, offers: &[Offer], free: &[u32], seen: usize) -> Option<Head> {
        self.seen = seen;
        for (priority, level) in queue.levels.range(self.from..) {
            self.from = *priority;
            let first = level.first(|fit| self.taker(fit, offers, free).is_some());
            if let Some((first, fit)) = first {
                let offer = self.taker(fit, offers, free)?;
                return Some(Head { priority: *priority, first, offer });
            }
        }
        None
    }

    /// The first offer that takes entries of this class.
    fn taker(&mut self, fit: Fit, offers: &[Offer], free: &[u32]) -> Option<usize> {
        let known = self.fits.iter().position(|(known, _)| *known == fit);
        let place = known.unwrap_or_else(|| {
            self.fits.push((fit, 0));
            self.fits.len() - 1
        });
        let from = &mut self.fits[place].1;
        while let Some(offer) = self.offers.get(*from) {
            if takes(fit, free[*offer], offers[*offer].max_load) {
                return Some(*offer);
            }
            *from += 1;
        }
        None
    }
}

/// The rule of [`Offer::takes`], for an offer of this queue with so much room left.
fn takes(fit: Fit, free: u32, max_load: u32) -> bool {
    free > 0 && free >= fit.load.min(max_load) && (!fit.alone || free == max_load)
}

/// An attempt that must be alone takes the whole of its worker.
fn take_room(free: &mut u32, offer: &Offer, candidate: &Candidate) {
    let load = if candidate.ready.alone { offer.max_load } else { candidate.ready.load };
    *free = free.saturating_sub(load.min(offer.max_load));
}

/// The queues that have entries and takers.
fn lines(ready: &ReadyQueues, offers: &[Offer]) -> Vec<Line> {
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
        Line { queue, offers: Vec::new(), fits: Vec::new(), from: Reverse(i32::MAX), seen: 0 }
    }
}

#[cfg(test)]
mod tests {
    use unstuck_core::model::attempt::Worker;

    use super::*;

    #[test]
    fn the_rule_is_that_of_an_offer() {
        for max_load in 0..5 {
            for free in 0..=max_load {
                for load in 0..7 {
                    for alone in [false, true] {
                        let worker = Worker { name: "w".into(), incarnation: 1, local: true };
                        let offer = Offer { worker, queues: ["q".into()].into(), free, max_load };
                        let fit = Fit { load, alone };
                        assert_eq!(
                            takes(fit, free, max_load),
                            offer.takes("q", load, alone),
                            "{fit:?} {free}"
                        );
                    }
                }
            }
        }
    }
}
