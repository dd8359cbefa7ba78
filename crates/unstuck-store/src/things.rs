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

    pub fn get(&self, thing: ThingRef) -> Option<&Thing> {
        self.all.get(&thing)
    }

    /// Locks these for a batch and returns them in the same order; those of `taken` it has already. Never waits.
    pub fn lock(
        &mut self,
        things: &[ThingRef],
        taken: &mut Vec<ThingRef>,
    ) -> Result<Vec<LockedThing>, StoreError> {
        let mut given = Vec::with_capacity(things.len());
        for address in things {
            given.push(match self.all.get(address) {
                None => LockedThing::Absent,
                Some(_) if self.locked.contains(address) => {
                    if taken.contains(address) {
                        return Err(conflict(*address, "is locked twice in one batch"));
                    }
                    LockedThing::Busy
                }
                Some(thing) => {
                    self.locked.insert(*address);
                    taken.push(*address);
                    LockedThing::Here(thing.clone())
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

    pub fn unlock_all(&mut self) {
        self.locked.clear();
    }

    /// Lists things that are due at `now`, earliest first, at most `limit`.
    pub fn due(&self, now: Time, limit: usize) -> Vec<ThingRef> {
        self.dues.iter().take_while(|(due, _)| *due <= now).map(|(_, thing)| *thing).take(limit).collect()
    }

    /// As [`Things::due`], with the things themselves.
    pub fn due_now(&self, now: Time, limit: usize) -> Vec<Thing> {
        self.due(now, limit).iter().filter_map(|thing| self.all.get(thing).cloned()).collect()
    }

    pub fn next_due(&self) -> Option<Time> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// Lists every thing in order of its address.
    pub fn all(&self) -> Vec<Thing> {
        self.all.values().cloned().collect()
    }

    /// Refuses a change of a thing that the batch has not locked, or that is based on an older version.
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
            let known = self.all.get(&address).map(|known| known.version);
            if known.map(|known| known + 1) != Some(change.version) {
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

fn conflict(thing: ThingRef, what: &str) -> StoreError {
    StoreError::Conflict(format!("{thing} {what}"))
}
