//! Several handles on one store in memory, as several servers on one database have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unstuck_core::session::SESSION_LEASE;
use unstuck_core::time::{Millis, Time};

use crate::memory::batches::Batches;
use crate::memory::{HandleState, MemoryStore};
use crate::timers::WithheldTimers;

/// A handle on a store in memory that others have handles on too.
///
/// Each has batches and a session of its own, and is told what came of its own stages. A run that one has locked is
/// busy for the others, who read it as it was before; what one withholds or sets aside, the others are given.
#[derive(Debug)]
pub struct SharedStore {
    store: Arc<Mutex<MemoryStore>>,
    side: usize,
}

impl SharedStore {
    /// The first handle.
    pub fn new(mut store: MemoryStore) -> SharedStore {
        store.sessions.lease.get_or_insert(SESSION_LEASE);
        let side = store.current;
        SharedStore { store: Arc::new(Mutex::new(store)), side }
    }

    /// One more handle.
    #[must_use]
    pub fn new_handle(&self) -> SharedStore {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = store.others.keys().next_back().copied().unwrap_or(0).max(store.current);
        let side = taken + 1;
        store.others.insert(side, HandleState::new());
        SharedStore { store: self.store.clone(), side }
    }

    /// Sets the clock of the store, by which sessions last.
    pub fn set_time(&self, now: Time) {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).sessions.now = now;
    }

    pub fn time(&self) -> Time {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).sessions.now
    }

    /// Makes batches use the clock of the store instead of the caller's.
    pub fn tell_time(&self) {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).tells_time = true;
    }

    /// Sets how long sessions last without renewal from now on.
    pub fn set_lease(&self, lease: Millis) {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).sessions.lease = Some(lease);
    }

    /// Locks the store, and switches it to this handle.
    pub fn store(&mut self) -> MutexGuard<'_, MemoryStore> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.switch_handle(self.side);
        store
    }

    /// Lets the process of this handle die; what any handle had staged and was not durable is gone, as after a power
    /// cut.
    #[must_use]
    pub fn crash(mut self) -> SharedStore {
        let store = std::mem::take(&mut *self.store());
        SharedStore::new(store.crash())
    }
}

impl Drop for SharedStore {
    /// What this handle has locked is free again, and nobody tells it anything.
    fn drop(&mut self) {
        let side = self.side;
        let mut store = self.store();
        for batch in store.batches.keys().copied().collect::<Vec<_>>() {
            store.end_batch(batch);
        }
        store.wakers.remove(&side);
    }
}

impl MemoryStore {
    /// Exchanges the per-handle state (batches, aside, session) with that of this handle.
    fn switch_handle(&mut self, side: usize) {
        if side == self.current {
            return;
        }
        let mut next = self.others.remove(&side).unwrap_or_else(HandleState::new);
        std::mem::swap(&mut self.batches, &mut next.batches);
        std::mem::swap(&mut self.settled, &mut next.settled);
        std::mem::swap(&mut self.session, &mut next.session);
        self.aside.keys().for_each(|run| self.state.release(*run));
        std::mem::swap(&mut self.aside, &mut next.aside);
        let withheld = self.state.timers.take_withheld();
        self.state.timers.withhold_again(std::mem::replace(&mut next.withheld, withheld));
        self.aside.keys().for_each(|run| self.state.set_aside(*run));
        self.others.insert(self.current, next);
        self.current = side;
    }
}

impl HandleState {
    fn new() -> HandleState {
        HandleState {
            batches: Batches::default(),
            settled: Vec::new(),
            session: None,
            aside: BTreeMap::new(),
            withheld: WithheldTimers::default(),
        }
    }
}

crate::delegate_store!(SharedStore, store);
