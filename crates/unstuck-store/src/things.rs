//! Things that are no runs and that something can still happen to: with version, lock and the order of their times.

use std::collections::{BTreeMap, BTreeSet};

use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Time;

use crate::contract::{LockedThing, StoreError};

/// All of them, by address.
#[derive(Clone, Debug, Default)]
pub struct Things {
    all: BTreeMap<ThingRef, Thing>,
    dues: BTreeSet<(Time, ThingRef)>,
    locked: BTreeSet<ThingRef>,
    /// Whether schedules are among what is due.
    fires_schedules: bool,
}

impl Things {
    /// Stores a thing as it is now; one that nothing can happen to any more is dropped.
    pub fn put(&mut self, thing: Thing) {
        let address = thing.address();
        self.remove(address);
        if thing.is_over() {
            return;
        }
        self.dues.extend(thing.due().map(|due| (due, address)));
        self.all.insert(address, thing);
    }

    /// From now on schedules are among what is due.
    pub fn fire_schedules(&mut self) {
        self.fires_schedules = true;
    }

    /// Takes over from what was there before a stage failed whether schedules are among what is due.
    pub fn fire_schedules_as(&mut self, before: &Things) {
        self.fires_schedules = before.fires_schedules;
    }

    pub fn get(&self, thing: ThingRef) -> Option<&Thing> {
        self.all.get(&thing)
    }

    /// Locks these for a batch and returns them in the same order; those of `taken` it has already. Never waits. The address
    /// of a schedule that is not there is locked too, so that two servers do not make it at once.
    pub fn lock(
        &mut self,
        things: &[ThingRef],
        taken: &mut Vec<ThingRef>,
    ) -> Result<Vec<LockedThing>, StoreError> {
        let mut given = Vec::with_capacity(things.len());
        for address in things {
            given.push(match self.all.get(address) {
                None if !is_schedule(*address) => LockedThing::Absent,
                _ if self.locked.contains(address) => {
                    if taken.contains(address) {
                        return Err(conflict(*address, "is locked twice in one batch"));
                    }
                    LockedThing::Busy
                }
                known => {
                    self.locked.insert(*address);
                    taken.push(*address);
                    known.map_or(LockedThing::Absent, |thing| LockedThing::Here(thing.clone()))
                }
            });
        }
        Ok(given)
    }

    /// Unlocks what an ended batch had.
    pub fn unlock(&mut self, taken: &[ThingRef]) {
        for thing in taken {
            self.locked.remove(thing);
        }
    }

    /// Leaves all of them as whoever opens the store next finds them: free, and without anybody who fires schedules.
    pub fn unlock_all(&mut self) {
        self.locked.clear();
        self.fires_schedules = false;
    }

    /// Lists things that are due at `now`, earliest first, at most `limit`.
    pub fn due(&self, now: Time, limit: usize) -> Vec<ThingRef> {
        let due = self.offered().take_while(|(due, _)| *due <= now);
        due.map(|(_, thing)| *thing).take(limit).collect()
    }

    /// As [`Things::due`], with the things themselves.
    pub fn due_now(&self, now: Time, limit: usize) -> Vec<Thing> {
        self.due(now, limit).iter().filter_map(|thing| self.all.get(thing).cloned()).collect()
    }

    pub fn next_due(&self) -> Option<Time> {
        self.offered().next().map(|(due, _)| *due)
    }

    /// What this engine looks at by the clock, in order of time.
    fn offered(&self) -> impl Iterator<Item = &(Time, ThingRef)> {
        self.dues.iter().filter(|(_, thing)| self.fires_schedules || !is_schedule(*thing))
    }

    /// Lists every thing in order of its address.
    pub fn all(&self) -> Vec<Thing> {
        self.all.values().cloned().collect()
    }

    /// Refuses a change of a thing that the batch has not locked, or that is based on an older version. Only a schedule can
    /// be made by a change.
    pub fn check_changes(&self, changes: &[Thing], taken: &[ThingRef]) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        for change in changes {
            let address = change.address();
            if !seen.insert(address) {
                return Err(conflict(address, "is in one commit twice"));
            }
            if !taken.contains(&address) {
                return Err(conflict(address, "was not locked"));
            }
            let next = match self.all.get(&address) {
                Some(known) => Some(known.version + 1),
                None => is_schedule(address).then_some(1),
            };
            if next != Some(change.version) {
                return Err(conflict(address, "was changed since it was read"));
            }
        }
        Ok(())
    }

    fn remove(&mut self, address: ThingRef) {
        if let Some(due) = self.all.remove(&address).and_then(|known| known.due()) {
            self.dues.remove(&(due, address));
        }
    }
}

fn is_schedule(thing: ThingRef) -> bool {
    matches!(thing, ThingRef::Schedule(_))
}

fn conflict(thing: ThingRef, what: &str) -> StoreError {
    StoreError::Conflict(format!("{thing} {what}"))
}
