//! Things: whatever has an address, a lock, a version and a time at which it is due, and is told by notices.
//!
//! A run is the largest kind of them and is kept in its own way. What is no run is a [`Thing`]: a bulk action or a
//! schedule; the services of an action, checkpoint entries and limits are added as kinds with modules of their own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bulk::Bulk;
use crate::id::{BulkId, RunId, ScheduleId};
use crate::schedule::Schedule;
use crate::time::{Millis, Time};

/// The address of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "StoredRef", into = "StoredRef")]
pub enum ThingRef {
    Run(RunId),
    Bulk(BulkId),
    Schedule(ScheduleId),
}

/// An address as it is kept. That of a run is its number alone, as it was when there was nothing but runs.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredRef {
    Run(RunId),
    Named(NamedRef),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum NamedRef {
    Bulk(BulkId),
    Schedule(ScheduleId),
}

impl From<StoredRef> for ThingRef {
    fn from(stored: StoredRef) -> ThingRef {
        match stored {
            StoredRef::Run(run) => ThingRef::Run(run),
            StoredRef::Named(NamedRef::Bulk(bulk)) => ThingRef::Bulk(bulk),
            StoredRef::Named(NamedRef::Schedule(schedule)) => ThingRef::Schedule(schedule),
        }
    }
}

impl From<ThingRef> for StoredRef {
    fn from(thing: ThingRef) -> StoredRef {
        match thing {
            ThingRef::Run(run) => StoredRef::Run(run),
            ThingRef::Bulk(bulk) => StoredRef::Named(NamedRef::Bulk(bulk)),
            ThingRef::Schedule(schedule) => StoredRef::Named(NamedRef::Schedule(schedule)),
        }
    }
}

impl ThingRef {
    /// The run, where it is the address of one.
    pub fn run(self) -> Option<RunId> {
        match self {
            ThingRef::Run(run) => Some(run),
            ThingRef::Bulk(_) | ThingRef::Schedule(_) => None,
        }
    }

    /// The number of its id, which is unique among all kinds that take theirs from the ids of nodes. That of a schedule is
    /// the number of a flow version.
    pub fn number(self) -> u64 {
        match self {
            ThingRef::Run(run) => run.0,
            ThingRef::Bulk(bulk) => bulk.0,
            ThingRef::Schedule(schedule) => schedule.0,
        }
    }
}

impl From<RunId> for ThingRef {
    fn from(run: RunId) -> ThingRef {
        ThingRef::Run(run)
    }
}

impl fmt::Display for ThingRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThingRef::Run(run) => run.fmt(f),
            ThingRef::Bulk(bulk) => bulk.fmt(f),
            ThingRef::Schedule(schedule) => schedule.fmt(f),
        }
    }
}

/// What is no run, as it is kept. Its address and when it is due follow from what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Thing {
    /// Grows by one with every change, from 1.
    pub version: u64,
    pub body: ThingBody,
}

/// What a thing is.
#[derive(Clone, Debug, PartialEq)]
pub enum ThingBody {
    Bulk(Box<Bulk>),
    Schedule(Box<Schedule>),
}

impl Thing {
    /// A bulk action that begins.
    pub fn of_bulk(bulk: Bulk) -> Thing {
        Thing { version: 1, body: ThingBody::Bulk(Box::new(bulk)) }
    }

    /// A schedule that begins.
    pub fn of_schedule(schedule: Schedule) -> Thing {
        Thing { version: 1, body: ThingBody::Schedule(Box::new(schedule)) }
    }

    pub fn address(&self) -> ThingRef {
        match &self.body {
            ThingBody::Bulk(bulk) => ThingRef::Bulk(bulk.id),
            ThingBody::Schedule(schedule) => ThingRef::Schedule(schedule.id),
        }
    }

    /// When it is to be looked at by the clock, if it is.
    pub fn due(&self) -> Option<Time> {
        match &self.body {
            ThingBody::Bulk(bulk) => bulk.due(),
            ThingBody::Schedule(schedule) => schedule.due(),
        }
    }

    /// Whether nothing can happen to it any more.
    pub fn is_over(&self) -> bool {
        match &self.body {
            ThingBody::Bulk(bulk) => bulk.is_settled(),
            ThingBody::Schedule(schedule) => schedule.is_removed,
        }
    }

    /// The bulk action, where it is one.
    pub fn bulk(&self) -> Option<&Bulk> {
        match &self.body {
            ThingBody::Bulk(bulk) => Some(bulk),
            ThingBody::Schedule(_) => None,
        }
    }

    /// Likewise, to decide about it.
    pub fn bulk_mut(&mut self) -> Option<&mut Bulk> {
        match &mut self.body {
            ThingBody::Bulk(bulk) => Some(bulk),
            ThingBody::Schedule(_) => None,
        }
    }

    /// The schedule, where it is one.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.body {
            ThingBody::Schedule(schedule) => Some(schedule),
            ThingBody::Bulk(_) => None,
        }
    }

    /// Likewise, to decide about it.
    pub fn schedule_mut(&mut self) -> Option<&mut Schedule> {
        match &mut self.body {
            ThingBody::Schedule(schedule) => Some(schedule),
            ThingBody::Bulk(_) => None,
        }
    }
}

/// How often a notice in the outbox could not be delivered, and when it is tried next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    pub tries: u32,
    pub due: Time,
}

/// About as long as a batch takes: whoever has the receiver now has it no longer then.
const FIRST_WAIT: Millis = Millis(3);
/// Nobody waits longer than this for a receiver that has come back.
pub const LONGEST_WAIT: Millis = Millis::seconds(60);

impl Delivery {
    /// It could not be delivered at `now`: each wait is twice as long as the one before, up to the longest.
    #[must_use]
    pub fn postponed(self, now: Time) -> Delivery {
        let wait = FIRST_WAIT.0.saturating_mul(1 << self.tries.min(20));
        Delivery { tries: self.tries.saturating_add(1), due: now + Millis(wait.min(LONGEST_WAIT.0)) }
    }

    /// Whether it is to be tried at `now`. One that would wait longer than anybody does was told by another clock.
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now || now + LONGEST_WAIT < self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_as_it_was_when_there_were_only_runs() {
        let cases = [
            (ThingRef::Run(RunId(7)), "7"),
            (ThingRef::Bulk(BulkId(7)), r#"{"bulk":7}"#),
            (ThingRef::Schedule(ScheduleId(7)), r#"{"schedule":7}"#),
        ];
        for (thing, kept) in cases {
            assert_eq!(serde_json::to_string(&thing).expect("is JSON"), kept);
            assert_eq!(serde_json::from_str::<ThingRef>(kept).expect("is read"), thing);
        }
        assert!(serde_json::from_str::<ThingRef>(r#"{"kettle":7}"#).is_err());
    }

    #[test]
    fn each_wait_is_twice_as_long_as_the_one_before_up_to_a_minute() {
        let mut delivery = Delivery::default();
        let mut waits = Vec::new();
        for _ in 0..40 {
            delivery = delivery.postponed(Time(1_000));
            waits.push(delivery.due.since(Time(1_000)).0);
        }
        assert_eq!(waits[..5], [3, 6, 12, 24, 48]);
        assert_eq!((waits[14], waits[15], waits[39]), (49_152, 60_000, 60_000));
        assert_eq!(delivery.tries, 40);
    }

    #[test]
    fn what_was_postponed_is_due_in_time_whatever_becomes_of_the_clock() {
        let postponed = Delivery::default().postponed(Time(100_000));
        let cases = [(100_002, false), (100_003, true), (200_000, true), (99_000, false), (10_000, true)];
        for (now, is_due) in cases {
            assert_eq!(postponed.is_due(Time(now)), is_due, "at {now}");
        }
        assert!(Delivery::default().is_due(Time(0)));
    }
}
