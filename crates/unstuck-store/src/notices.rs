//! The outbox: notices that are on their way, oldest first. Those to a receiver that cannot take them now wait in their
//! order and hold up nobody else: until it is time to try again, or until a run is not set aside any more.
//!
//! Looking changes nothing: what is to be tried follows from what was staged and from the time alone.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use unstuck_core::command::Notice;
use unstuck_core::id::RunId;
use unstuck_core::thing::{Delivery, LONGEST_WAIT, ThingRef};
use unstuck_core::time::Time;

use crate::contract::NoticeId;

/// Undelivered notices.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    all: BTreeMap<NoticeId, Notice>,
    /// Those whose receivers are neither set aside nor postponed.
    offered: BTreeSet<NoticeId>,
    aside: FxHashSet<RunId>,
    /// The receivers that could not take their first one, and when that is tried again.
    postponed: FxHashMap<ThingRef, Time>,
    /// The same receivers, in order of time.
    dues: BTreeSet<(Time, ThingRef)>,
    /// How often each could not be delivered, of those that were tried in vain.
    tries: FxHashMap<NoticeId, u32>,
    /// Those to a thing, and those that begin a child of it.
    about: FxHashMap<ThingRef, BTreeSet<NoticeId>>,
}

impl Notices {
    /// Adds a notice at the end of its receiver's line.
    pub fn insert(&mut self, id: NoticeId, notice: Notice) {
        for thing in things_about(&notice) {
            self.about.entry(thing).or_default().insert(id);
        }
        if !self.is_aside(notice.to) && !self.postponed.contains_key(&notice.to) {
            self.offered.insert(id);
        }
        self.all.insert(id, notice);
    }

    /// Adds a notice whose delivery failed before; its whole line waits until it is due.
    pub fn insert_tried(&mut self, id: NoticeId, notice: Notice, delivery: Delivery) {
        let to = notice.to;
        self.insert(id, notice);
        if delivery.tries > 0 {
            self.tries.insert(id, delivery.tries);
            self.hold_until(to, delivery.due);
        }
    }

    /// Removes a delivered notice. If it was the first of its line, the line is offered again: what comes behind has
    /// not failed.
    pub fn remove(&mut self, id: NoticeId) {
        let Some(notice) = self.all.remove(&id) else { return };
        self.offered.remove(&id);
        self.tries.remove(&id);
        for thing in things_about(&notice) {
            if let Entry::Occupied(mut about) = self.about.entry(thing) {
                about.get_mut().remove(&id);
                if about.get().is_empty() {
                    about.remove();
                }
            }
        }
        if self.postponed.contains_key(&notice.to)
            && self.ids_to(notice.to).next().is_none_or(|left| left > id)
        {
            self.offer_again(notice.to);
        }
    }

    /// This one could not be delivered at `now`: it and what comes behind it to the same receiver is tried again later.
    /// Gives how often it was tried by now, and when it is next; nothing where the receiver is set aside, for whom nobody
    /// waits by time.
    pub fn postpone(&mut self, id: NoticeId, now: Time) -> Option<Delivery> {
        let to = self.get_offerable(id)?.to;
        let tries = self.tries.get(&id).copied().unwrap_or(0);
        let delivery = Delivery { tries, due: now }.postponed(now);
        self.tries.insert(id, delivery.tries);
        self.hold_until(to, delivery.due);
        Some(delivery)
    }

    /// Returns when the next receiver is tried again.
    pub fn next_due(&self) -> Option<Time> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// Those of these runs that notices are on their way to which are not among those that were given, in their order.
    pub fn backlog(&self, runs: &[RunId], given: &[(NoticeId, Notice)]) -> Vec<RunId> {
        if self.all.len() == given.len() {
            return Vec::new();
        }
        let is_left = |id: NoticeId| {
            self.get_offerable(id).is_some() && given.binary_search_by_key(&id, |(given, _)| *given).is_err()
        };
        let has_more = |run: &RunId| self.ids_to(ThingRef::Run(*run)).any(is_left);
        runs.iter().copied().filter(has_more).collect()
    }

    /// Returns whether a notice is under way to this run, or will start a child of it.
    pub fn has_any_about(&self, run: RunId) -> bool {
        let about = self.about.get(&ThingRef::Run(run)).into_iter().flatten();
        about.copied().any(|id| self.get_offerable(id).is_some())
    }

    /// Lists notices to a thing, oldest first, at most `limit`, whether they are due or not.
    pub fn list_to(&self, thing: ThingRef, limit: usize) -> Vec<(NoticeId, Notice)> {
        let found = self.ids_to(thing).filter_map(|id| Some((id, self.get_offerable(id)?.clone())));
        found.take(limit).collect()
    }

    /// Notices that are to be tried at `now`, at most `limit`: the oldest that nobody has tried in vain, and those of the
    /// receivers that have waited longest. Of one receiver, always its oldest; all of them in their order.
    pub fn list_due(&self, now: Time, limit: usize) -> Vec<(NoticeId, Notice)> {
        let mut ids: Vec<NoticeId> = self.offered.iter().copied().take(limit).collect();
        let again = self.due_receivers(now).flat_map(|to| self.ids_to(to).take(limit));
        ids.extend(again.take(limit));
        ids.sort_unstable();
        ids.truncate(limit);
        ids.into_iter().filter_map(|id| Some((id, self.get_offerable(id)?.clone()))).collect()
    }

    /// Lists the oldest notices, at most `limit`, whether they are due or not.
    pub fn list_all(&self, limit: usize) -> Vec<(NoticeId, Notice)> {
        let on_their_way = self.all.iter().filter(|(_, notice)| !self.is_aside(notice.to));
        on_their_way.take(limit).map(|(id, notice)| (*id, notice.clone())).collect()
    }

    /// Stops offering notices to this run, those that come later too.
    pub fn set_aside(&mut self, run: RunId) {
        let to = ThingRef::Run(run);
        if let Some(due) = self.postponed.remove(&to) {
            self.dues.remove(&(due, to));
        }
        self.withdraw_all_to(to);
        self.aside.insert(run);
    }

    /// Offers notices to this run again, each in its old place.
    pub fn release(&mut self, run: RunId) {
        if self.aside.remove(&run) {
            self.offered.extend(self.ids_to(ThingRef::Run(run)).collect::<Vec<_>>());
        }
    }

    /// Holds the line of a receiver back until `due`. Not for one that is set aside: its line returns with the
    /// release.
    fn hold_until(&mut self, to: ThingRef, due: Time) {
        if self.is_aside(to) {
            return;
        }
        if let Some(before) = self.postponed.insert(to, due) {
            self.dues.remove(&(before, to));
        } else {
            self.withdraw_all_to(to);
        }
        self.dues.insert((due, to));
    }

    /// Offers the line of a receiver now, although it was to wait.
    fn offer_again(&mut self, to: ThingRef) {
        let Some(due) = self.postponed.remove(&to) else { return };
        self.dues.remove(&(due, to));
        self.offered.extend(self.ids_to(to).collect::<Vec<_>>());
    }

    /// Stops offering the line of a receiver.
    fn withdraw_all_to(&mut self, to: ThingRef) {
        for id in self.ids_to(to).collect::<Vec<_>>() {
            self.offered.remove(&id);
        }
    }

    /// Lists the ids of notices to a receiver, oldest first.
    fn ids_to(&self, to: ThingRef) -> impl Iterator<Item = NoticeId> {
        let about = self.about.get(&to).into_iter().flatten().copied();
        about.filter(move |id| self.all.get(id).is_some_and(|notice| notice.to == to))
    }

    /// Lists receivers that are due, and those that are due later than any wait can be: the clock was set back since.
    fn due_receivers(&self, now: Time) -> impl Iterator<Item = ThingRef> {
        let waited = self.dues.iter().take_while(move |(due, _)| *due <= now);
        let too_late = self.dues.iter().rev().take_while(move |(due, _)| now + LONGEST_WAIT < *due);
        waited.chain(too_late).map(|(_, to)| *to)
    }

    /// Returns a notice unless its receiver is set aside.
    fn get_offerable(&self, id: NoticeId) -> Option<&Notice> {
        self.all.get(&id).filter(|notice| !self.is_aside(notice.to))
    }

    /// Returns whether the receiver is a run that is set aside; usually none is, which costs one comparison.
    fn is_aside(&self, to: ThingRef) -> bool {
        !self.aside.is_empty() && to.run().is_some_and(|run| self.aside.contains(&run))
    }
}

/// Lists what a notice concerns: its receiver, and the parent of a child that it starts.
fn things_about(notice: &Notice) -> impl Iterator<Item = ThingRef> {
    std::iter::once(notice.to).chain(notice.begins_child_of().map(ThingRef::Run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstuck_core::bulk::TargetResult;
    use unstuck_core::command::NoticeBody;
    use unstuck_core::id::BulkId;

    const ONE: ThingRef = ThingRef::Run(RunId(1));
    const OTHER: ThingRef = ThingRef::Run(RunId(2));
    const BULK: ThingRef = ThingRef::Bulk(BulkId(1));

    /// Notices 1, 2, ... to these.
    fn outbox(to: &[ThingRef]) -> Notices {
        let mut notices = Notices::default();
        (1..).zip(to).for_each(|(id, to)| notices.insert(NoticeId(id), notice(*to)));
        notices
    }

    fn notice(to: ThingRef) -> Notice {
        let body = match to {
            ThingRef::Run(_) | ThingRef::Schedule(_) => NoticeBody::PauseChild,
            ThingRef::Bulk(_) => NoticeBody::TargetEnded { place: 0, result: TargetResult::Passed },
        };
        Notice { to, body }
    }

    /// What is to be tried then.
    fn tried_at(notices: &Notices, now: i64) -> Vec<u64> {
        notices.list_due(Time(now), usize::MAX).into_iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn a_receiver_that_cannot_take_its_first_one_holds_up_nobody_else_and_keeps_its_order() {
        let mut notices = outbox(&[ONE, BULK, ONE, OTHER]);
        let tried = notices.postpone(NoticeId(1), Time(100)).expect("it is offered");
        assert_eq!((tried, tried_at(&notices, 100)), (Delivery { tries: 1, due: Time(103) }, vec![2, 4]));
        notices.insert(NoticeId(5), notice(ONE));
        notices.insert(NoticeId(6), notice(BULK));
        assert_eq!(tried_at(&notices, 102), [2, 4, 6], "it is not time yet");
        let backlog = |now| notices.backlog(&[RunId(1), RunId(2)], &notices.list_due(Time(now), 9));
        assert_eq!((backlog(102), backlog(103)), (vec![RunId(1)], vec![]));
        assert_eq!((tried_at(&notices, 103), notices.next_due()), (vec![1, 2, 3, 4, 5, 6], Some(Time(103))));
        assert_eq!(tried_at(&notices, 102), [2, 4, 6], "looking has changed nothing");
        assert_eq!(notices.postpone(NoticeId(1), Time(103)).map(|tried| tried.due), Some(Time(109)));
        notices.remove(NoticeId(1));
        assert_eq!((tried_at(&notices, 103), notices.next_due()), (vec![2, 3, 4, 5, 6], None));
        let fresh = notices.postpone(NoticeId(3), Time(110));
        assert_eq!(fresh, Some(Delivery { tries: 1, due: Time(113) }), "another one has another count");
    }

    #[test]
    fn an_outbox_that_is_read_again_waits_as_it_did() {
        let mut notices = Notices::default();
        let delivery = Delivery { tries: 3, due: Time(500) };
        notices.insert_tried(NoticeId(1), notice(BULK), delivery);
        notices.insert_tried(NoticeId(2), notice(BULK), Delivery::default());
        notices.insert_tried(NoticeId(3), notice(ONE), Delivery::default());
        assert_eq!((tried_at(&notices, 499), notices.next_due()), (vec![3], Some(Time(500))));
        assert_eq!(tried_at(&notices, 500), [1, 2, 3]);
        assert_eq!(notices.postpone(NoticeId(1), Time(500)), Some(delivery.postponed(Time(500))));
    }

    #[test]
    fn what_comes_behind_one_that_is_gone_is_offered() {
        let mut notices = outbox(&[ONE, ONE, ONE]);
        notices.postpone(NoticeId(1), Time(100));
        notices.remove(NoticeId(2));
        assert_eq!((tried_at(&notices, 100), notices.next_due()), (vec![], Some(Time(103))));
        notices.remove(NoticeId(1));
        assert_eq!((tried_at(&notices, 100), notices.next_due()), (vec![3], None));
    }

    #[test]
    fn of_many_the_oldest_are_tried_and_of_one_receiver_none_is_passed_over() {
        let mut notices = outbox(&[ONE, OTHER, ONE, BULK, OTHER, ONE]);
        notices.postpone(NoticeId(1), Time(100));
        notices.postpone(NoticeId(2), Time(101));
        let first =
            |now, limit| notices.list_due(Time(now), limit).iter().map(|(id, _)| id.0).collect::<Vec<_>>();
        assert_eq!((first(103, 1), first(103, 2), first(103, 3)), (vec![1], vec![1, 3], vec![1, 3, 4]));
        assert_eq!((first(104, 4), first(104, 9)), (vec![1, 2, 3, 4], vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn a_run_that_is_set_aside_is_not_tried_by_time() {
        let mut notices = outbox(&[ONE, OTHER, ONE]);
        notices.postpone(NoticeId(1), Time(100));
        notices.set_aside(RunId(1));
        assert_eq!(notices.postpone(NoticeId(1), Time(100)), None);
        notices.insert(NoticeId(4), notice(ONE));
        assert_eq!((tried_at(&notices, 9_000), notices.has_any_about(RunId(1))), (vec![2], false));
        notices.release(RunId(1));
        assert_eq!((tried_at(&notices, 100), notices.has_any_about(RunId(1))), (vec![1, 2, 3, 4], true));
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_waited_for() {
        let mut notices = outbox(&[ONE, OTHER]);
        notices.postpone(NoticeId(1), Time(1_000_000));
        notices.postpone(NoticeId(2), Time(200));
        assert!(notices.has_any_about(RunId(1)), "it is on its way all the same");
        assert_eq!(tried_at(&notices, 100), [1]);
    }
}
