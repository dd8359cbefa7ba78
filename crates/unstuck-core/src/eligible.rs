//! Eligibility: whether a worker may be handed an attempt. The one rule for every dispatch, with the reason for a no.
//!
//! A new reason is a variant of [`NotEligible`], what it depends on in [`Demand`], [`Offer`] or [`Snapshot`], and a
//! check in [`check_eligible_in_queue`].

use std::fmt;

use crate::offer::Offer;

/// An attempt that waits for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The queue that it waits in.
    pub queue: &'a str,
    pub demand: Demand,
    /// Higher first.
    pub priority: i32,
}

/// What an attempt demands of its worker, apart from its queue. Attempts of one queue and priority with the same demand
/// are eligible for the same workers, so that a queue need not be looked through one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    pub load: u32,
    /// Only a worker that runs nothing else.
    pub alone: bool,
}

/// What a hand-over depends on besides the attempt and the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The highest priority that waits in the queues of this worker; `None` where the attempt is the first in line.
    pub highest_waiting: Option<i32>,
}

/// Why a worker may not be handed an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEligible {
    /// It does not take from the queue.
    OtherQueue,
    /// Its free load is too small.
    NoRoom { load: u32, free: u32 },
    /// The attempt must run alone, and the worker has something.
    NotIdle,
    /// Something of a higher priority waits for the worker.
    Outranked { waiting: i32 },
}

/// Checks that a worker may be handed this attempt now, or returns the first reason why not.
pub fn check_eligible(entry: &Entry<'_>, offer: &Offer, snapshot: Snapshot) -> Result<(), NotEligible> {
    // The cheapest check comes first: most workers that are not eligible are full.
    check_eligible_in_queue(entry, offer, snapshot)?;
    if !offer.queues.iter().any(|queue| &**queue == entry.queue) {
        return Err(NotEligible::OtherQueue);
    }
    Ok(())
}

/// As [`check_eligible`], for a worker that is known to take from the attempt's queue.
pub fn check_eligible_in_queue(
    entry: &Entry<'_>,
    offer: &Offer,
    snapshot: Snapshot,
) -> Result<(), NotEligible> {
    let Demand { load, alone } = entry.demand;
    // An attempt with a load above the worker's maximum takes the whole worker.
    if offer.free == 0 || offer.free < load.min(offer.max_load) {
        return Err(NotEligible::NoRoom { load, free: offer.free });
    }
    if alone && offer.free < offer.max_load {
        return Err(NotEligible::NotIdle);
    }
    if let Some(waiting) = snapshot.highest_waiting
        && waiting > entry.priority
    {
        return Err(NotEligible::Outranked { waiting });
    }
    Ok(())
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotEligible::OtherQueue => f.write_str("The worker does not offer this action."),
            NotEligible::NoRoom { load, free: 0 } => {
                write!(f, "The worker is full; the attempt needs a load of {load}.")
            }
            NotEligible::NoRoom { load, free } => {
                write!(f, "The worker has a load of {free} free; the attempt needs {load}.")
            }
            NotEligible::NotIdle => {
                f.write_str("The attempt must run alone, and the worker is running something else.")
            }
            NotEligible::Outranked { waiting } => {
                write!(f, "Work of a higher priority ({waiting}) is waiting for this worker.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::attempt::Worker;

    const NOT_IDLE: NotEligible = NotEligible::NotIdle;
    const OTHER: NotEligible = NotEligible::OtherQueue;

    fn no_room(load: u32, free: u32) -> NotEligible {
        NotEligible::NoRoom { load, free }
    }

    #[test]
    fn who_may_be_handed_what() {
        // The queue, load and `alone` of an attempt of priority 5; the queues, room and maximum of a worker; what waits.
        type Case = ((&'static str, u32, bool), (&'static [&'static str], u32, u32), Option<i32>);
        let cases: [(Case, Result<(), NotEligible>); 19] = [
            ((("a", 1, false), (&["a"], 1, 1), None), Ok(())),
            ((("a", 1, false), (&["b", "a"], 1, 4), None), Ok(())),
            ((("a", 1, false), (&["b"], 1, 1), None), Err(OTHER)),
            ((("a", 1, false), (&[], 1, 1), None), Err(OTHER)),
            ((("a", 2, false), (&["a"], 2, 4), None), Ok(())),
            ((("a", 3, false), (&["a"], 2, 4), None), Err(no_room(3, 2))),
            ((("a", 1, false), (&["a"], 0, 4), None), Err(no_room(1, 0))),
            ((("a", 0, false), (&["a"], 1, 4), None), Ok(())),
            ((("a", 0, false), (&["a"], 0, 4), None), Err(no_room(0, 0))),
            ((("a", 1, false), (&["a"], 0, 0), None), Err(no_room(1, 0))),
            ((("a", 9, false), (&["a"], 4, 4), None), Ok(())),
            ((("a", 9, false), (&["a"], 3, 4), None), Err(no_room(9, 3))),
            ((("a", 1, true), (&["a"], 4, 4), None), Ok(())),
            ((("a", 1, true), (&["a"], 3, 4), None), Err(NOT_IDLE)),
            ((("a", 1, true), (&["b"], 4, 4), None), Err(OTHER)),
            ((("a", 1, false), (&["a"], 1, 1), Some(4)), Ok(())),
            ((("a", 1, false), (&["a"], 1, 1), Some(5)), Ok(())),
            ((("a", 1, false), (&["a"], 1, 1), Some(6)), Err(NotEligible::Outranked { waiting: 6 })),
            ((("a", 1, false), (&["a"], 0, 1), Some(6)), Err(no_room(1, 0))),
        ];
        for (((queue, load, alone), (queues, free, max_load), highest_waiting), expected) in cases {
            let worker = Worker { name: "w".into(), incarnation: 1, local: true };
            let queues = queues.iter().map(|queue| (*queue).into()).collect();
            let offer = Offer { worker, queues, free, max_load };
            let entry = Entry { queue, demand: Demand { load, alone }, priority: 5 };
            let snapshot = Snapshot { highest_waiting };
            assert_eq!(
                check_eligible(&entry, &offer, snapshot),
                expected,
                "{entry:?} {offer:?} {snapshot:?}"
            );
            if expected != Err(OTHER) {
                assert_eq!(
                    check_eligible_in_queue(&entry, &offer, snapshot),
                    expected,
                    "{entry:?} {offer:?}"
                );
            }
        }
    }
}
