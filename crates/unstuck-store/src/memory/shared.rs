//! Several handles on one store in memory, as several servers on one database have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::{HandleState, MemoryStore, Transaction};

/// A handle on a store in memory that others have handles on too.
///
/// Each has a transaction of its own, and is told what came of its own stages. A run that one has locked is busy for the
/// others, who read it as it was before.
#[derive(Debug)]
pub struct SharedStore {
    store: Arc<Mutex<MemoryStore>>,
    side: usize,
}

impl SharedStore {
    /// The first handle.
    pub fn new(store: MemoryStore) -> SharedStore {
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

    /// The store, as this handle sees it.
    pub fn store(&mut self) -> MutexGuard<'_, MemoryStore> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.switch_handle(self.side);
        store
    }

    /// The process of this handle dies: what all of them had staged and was not durable is gone, as after a power cut.
    #[must_use]
    pub fn crash(mut self) -> SharedStore {
        let store = std::mem::take(&mut *self.store());
        SharedStore::new(store.crash())
    }
}

impl Drop for SharedStore {
    /// What this handle has locked is free again.
    fn drop(&mut self) {
        self.store().undo_transaction();
    }
}

impl MemoryStore {
    /// It is this one's turn.
    fn switch_handle(&mut self, side: usize) {
        if side == self.current {
            return;
        }
        let mut next = self.others.remove(&side).unwrap_or_else(HandleState::new);
        std::mem::swap(&mut self.transaction, &mut next.transaction);
        std::mem::swap(&mut self.settled, &mut next.settled);
        std::mem::swap(&mut self.state.locked, &mut next.locked);
        self.others.insert(self.current, next);
        self.current = side;
    }
}

impl HandleState {
    fn new() -> HandleState {
        HandleState { transaction: Transaction::None, settled: Vec::new(), locked: Vec::new() }
    }
}

crate::delegate_store!(SharedStore, store);
