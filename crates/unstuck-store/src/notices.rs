//! The outbox: notices that are on their way, oldest first. Those to a receiver that cannot take them now wait apart, in
//! their order, so that they hold up nobody else: until it is time to try again, or until a run is not set aside any more.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use unstuck_core::command::Notice;
use unstuck_core::id::RunId;
use unstuck_core::thing::{Delivery, ThingRef};
use unstuck_core::time::Time;

use crate::contract::NoticeId;

/// Undelivered notices.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    offered: BTreeMap<NoticeId, Notice>,
    /// By the run that they are for, for each run that is set aside.
    aside: FxHashMap<RunId, BTreeMap<NoticeId, Notice>>,
    /// By the receiver that they are for, for each that could not take its first one: when that is tried again.
    postponed: FxHashMap<ThingRef, PostponedLine>,
    /// The same receivers, in order of time.
    dues: BTreeSet<(Time, ThingRef)>,
    /// How often each could not be delivered, of those that were tried in vain.
    tries: FxHashMap<NoticeId, u32>,
    /// Those to a thing, and those that begin a child of it, wherever they wait.
    about: FxHashMap<ThingRef, BTreeSet<NoticeId>>,
}

/// What waits for a receiver.
#[derive(Clone, Debug)]
struct PostponedLine {
    due: Time,
    notices: BTreeMap<NoticeId, Notice>,
}

impl Notices {
    /// Adds a notice, behind those to the same receiver.
    pub fn insert(&mut self, id: NoticeId, notice: Notice) {
        for thing in things_of(&notice) {
            self.about.entry(thing).or_default().insert(id);
        }
        self.put(id, notice);
    }

    /// Adds a notice that has been tried in vain.
    pub fn insert_tried(&mut self, id: NoticeId, notice: Notice, delivery: Delivery) {
        let to = notice.to;
        self.insert(id, notice);
        if delivery.tries > 0 {
            self.tries.insert(id, delivery.tries);
            self.hold(to, delivery.due);
        }
    }

    /// Removes a notice.
    pub fn remove(&mut self, id: NoticeId) {
        let found = self.offered.remove(&id).or_else(|| self.remove_aside(id));
        let Some(notice) = found.or_else(|| self.remove_postponed(id)) else { return };
        self.tries.remove(&id);
        for thing in things_of(&notice) {
            if let Entry::Occupied(mut about) = self.about.entry(thing) {
                about.get_mut().remove(&id);
                if about.get().is_empty() {
                    about.remove();
                }
            }
        }
    }

    /// This one could not be delivered at `now`: it and what comes behind it to the same receiver is tried again later.
    /// Gives how often it was tried by now, and when it is next.
    pub fn postpone(&mut self, id: NoticeId, now: Time) -> Option<Delivery> {
        let to = self.find(id)?.to;
        let tries = self.tries.get(&id).copied().unwrap_or(0);
        let delivery = Delivery { tries, due: now }.postponed(now);
        self.tries.insert(id, delivery.tries);
        self.hold(to, delivery.due);
        Some(delivery)
    }

    /// What was postponed and is to be tried at `now` is offered again, each in its place.
    pub fn bring_back(&mut self, now: Time) {
        while let Some((_, to)) = self.first_due(now) {
            self.offer_again(to);
        }
    }

    /// When the next receiver is tried again.
    pub fn next_due(&self) -> Option<Time> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// The receivers that are not to be tried yet: whatever is new for them waits behind.
    pub fn postponed(&self) -> Vec<ThingRef> {
        self.dues.iter().map(|(_, to)| *to).collect()
    }

    /// Whether one is on its way to one of these runs, or begins a child of one.
    pub fn has_any_about(&self, runs: &[RunId]) -> bool {
        let mut about = runs.iter().filter_map(|run| self.about.get(&ThingRef::Run(*run))).flatten();
        about.any(|id| self.find(*id).is_some())
    }

    /// Those that are on their way to this thing, oldest first, whether they are to be tried or not.
    pub fn to(&self, thing: ThingRef) -> Vec<(NoticeId, Notice)> {
        let about = self.about.get(&thing).into_iter().flatten();
        let found = about.filter_map(|id| Some((*id, self.find(*id)?.clone())));
        found.filter(|(_, notice)| notice.to == thing).collect()
    }

    fn find(&self, id: NoticeId) -> Option<&Notice> {
        let of_line = || self.postponed.values().find_map(|line| line.notices.get(&id));
        self.offered.get(&id).or_else(of_line)
    }

    /// The oldest notices that are offered, at most `limit`.
    pub fn first(&self, limit: usize) -> Vec<(NoticeId, Notice)> {
        self.offered.iter().take(limit).map(|(id, notice)| (*id, notice.clone())).collect()
    }

    /// The oldest notices that are on their way, whether they are to be tried or not, at most `limit`.
    pub fn all(&self, limit: usize) -> Vec<(NoticeId, Notice)> {
        if self.postponed.is_empty() {
            return self.first(limit);
        }
        let postponed = self.postponed.values().flat_map(|line| &line.notices);
        let all: BTreeMap<NoticeId, &Notice> =
            self.offered.iter().chain(postponed).map(|(id, notice)| (*id, notice)).collect();
        all.into_iter().take(limit).map(|(id, notice)| (id, notice.clone())).collect()
    }

    /// Notices to this run are not offered any more, new ones neither.
    pub fn set_aside(&mut self, run: RunId) {
        self.offer_again(ThingRef::Run(run));
        let waiting = self.take_offered(ThingRef::Run(run));
        self.aside.entry(run).or_default().extend(waiting);
    }

    /// Notices to this run are offered again, each in its place.
    pub fn release(&mut self, run: RunId) {
        self.offered.extend(self.aside.remove(&run).unwrap_or_default());
    }

    /// Where a notice to this receiver waits.
    fn put(&mut self, id: NoticeId, notice: Notice) {
        if let Some(line) = self.postponed.get_mut(&notice.to) {
            line.notices.insert(id, notice);
            return;
        }
        let waiting = match notice.to.run() {
            Some(run) if !self.aside.is_empty() => self.aside.get_mut(&run),
            Some(_) | None => None,
        };
        waiting.unwrap_or(&mut self.offered).insert(id, notice);
    }

    /// Nothing to this receiver is offered until then.
    fn hold(&mut self, to: ThingRef, due: Time) {
        if to.run().is_some_and(|run| self.aside.contains_key(&run)) {
            return;
        }
        let mut notices = self.take_offered(to);
        if let Some(line) = self.postponed.remove(&to) {
            self.dues.remove(&(line.due, to));
            notices.extend(line.notices);
        }
        self.dues.insert((due, to));
        self.postponed.insert(to, PostponedLine { due, notices });
    }

    fn offer_again(&mut self, to: ThingRef) {
        let Some(line) = self.postponed.remove(&to) else { return };
        self.dues.remove(&(line.due, to));
        self.offered.extend(line.notices);
    }

    fn take_offered(&mut self, to: ThingRef) -> BTreeMap<NoticeId, Notice> {
        self.offered.extract_if(.., |_, notice| notice.to == to).collect()
    }

    fn first_due(&self, now: Time) -> Option<(Time, ThingRef)> {
        let is_due = |(due, _): &(Time, ThingRef)| Delivery { tries: 1, due: *due }.is_due(now);
        let mut ends = self.dues.first().into_iter().chain(self.dues.last()).copied();
        ends.find(is_due)
    }

    fn remove_aside(&mut self, id: NoticeId) -> Option<Notice> {
        self.aside.values_mut().find_map(|notices| notices.remove(&id))
    }

    fn remove_postponed(&mut self, id: NoticeId) -> Option<Notice> {
        let found = self.postponed.iter_mut().find_map(|(to, line)| Some((*to, line.notices.remove(&id)?)));
        let (to, notice) = found?;
        // Only what comes first in a line is waited for: what comes behind it has not been tried.
        if self.postponed.get(&to).is_some_and(|line| line.notices.keys().all(|left| *left > id)) {
            self.offer_again(to);
        }
        Some(notice)
    }
}

/// What a notice is about.
fn things_of(notice: &Notice) -> impl Iterator<Item = ThingRef> {
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
            ThingRef::Run(_) => NoticeBody::PauseChild,
            ThingRef::Bulk(_) => NoticeBody::TargetEnded { place: 0, result: TargetResult::Passed },
        };
        Notice { to, body }
    }

    fn offered(notices: &Notices) -> Vec<u64> {
        notices.first(usize::MAX).into_iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn a_receiver_that_cannot_take_its_first_one_holds_up_nobody_else_and_keeps_its_order() {
        let mut notices = outbox(&[ONE, BULK, ONE, OTHER]);
        let tried = notices.postpone(NoticeId(1), Time(100)).expect("it is offered");
        assert_eq!((tried, offered(&notices)), (Delivery { tries: 1, due: Time(103) }, vec![2, 4]));
        notices.insert(NoticeId(5), notice(ONE));
        notices.insert(NoticeId(6), notice(BULK));
        assert_eq!((offered(&notices), notices.postponed()), (vec![2, 4, 6], vec![ONE]));
        notices.bring_back(Time(102));
        assert_eq!(offered(&notices), [2, 4, 6], "it is not time yet");
        assert_eq!(notices.next_due(), Some(Time(103)));
        notices.bring_back(Time(103));
        assert_eq!((offered(&notices), notices.next_due()), (vec![1, 2, 3, 4, 5, 6], None));
        assert_eq!(notices.postpone(NoticeId(1), Time(103)).map(|tried| tried.due), Some(Time(109)));
        notices.remove(NoticeId(1));
        notices.bring_back(Time(109));
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
        assert_eq!((offered(&notices), notices.next_due()), (vec![3], Some(Time(500))));
        notices.bring_back(Time(500));
        assert_eq!(offered(&notices), [1, 2, 3]);
        assert_eq!(notices.postpone(NoticeId(1), Time(500)), Some(delivery.postponed(Time(500))));
    }

    #[test]
    fn what_comes_behind_one_that_is_gone_is_offered() {
        let mut notices = outbox(&[ONE, ONE, ONE]);
        notices.postpone(NoticeId(1), Time(100));
        notices.remove(NoticeId(2));
        assert_eq!((offered(&notices), notices.next_due()), (vec![], Some(Time(103))));
        notices.remove(NoticeId(1));
        assert_eq!((offered(&notices), notices.next_due()), (vec![3], None));
    }

    #[test]
    fn a_run_that_is_set_aside_is_not_tried_by_time() {
        let mut notices = outbox(&[ONE, OTHER, ONE]);
        notices.postpone(NoticeId(1), Time(100));
        notices.set_aside(RunId(1));
        assert_eq!(notices.postpone(NoticeId(1), Time(100)), None);
        notices.bring_back(Time(9_000));
        assert_eq!((offered(&notices), notices.has_any_about(&[RunId(1)])), (vec![2], false));
        notices.release(RunId(1));
        assert_eq!((offered(&notices), notices.has_any_about(&[RunId(1)])), (vec![1, 2, 3], true));
    }

    #[test]
    fn a_clock_that_was_set_back_is_not_waited_for() {
        let mut notices = outbox(&[ONE, OTHER]);
        notices.postpone(NoticeId(1), Time(1_000_000));
        notices.postpone(NoticeId(2), Time(200));
        assert!(notices.has_any_about(&[RunId(1)]), "it is on its way all the same");
        notices.bring_back(Time(100));
        assert_eq!(offered(&notices), [1]);
    }
}
