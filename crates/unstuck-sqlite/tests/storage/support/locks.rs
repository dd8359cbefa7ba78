//! The locks of files and the memory that connections share, which a crash leaves nothing of.

use rusqlite::ffi;

use super::disk::Failed;

/// One region of shared memory, as SQLite asks for it.
pub(crate) const REGION: usize = 32 * 1024;

/// Who has locked a file, of how many.
#[derive(Default)]
pub(crate) struct FileLock {
    shared: usize,
    reserved: bool,
    pending: bool,
    exclusive: bool,
}

/// The memory that all connections to one database share.
#[derive(Default)]
pub(crate) struct SharedMemory {
    regions: Vec<Box<[u64]>>,
    pub(crate) users: usize,
    slots: [Slot; ffi::SQLITE_SHM_NLOCK as usize],
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Free,
    Shared(usize),
    Exclusive,
}

const BUSY: Failed = Failed(ffi::SQLITE_BUSY);

impl FileLock {
    /// Raises the lock of one who has `level`.
    pub(crate) fn raise(&mut self, level: &mut i32, wanted: i32) -> Result<(), Failed> {
        while *level < wanted {
            match wanted {
                ffi::SQLITE_LOCK_SHARED => {
                    if self.pending || self.exclusive {
                        return Err(BUSY);
                    }
                    self.shared += 1;
                    *level = ffi::SQLITE_LOCK_SHARED;
                }
                ffi::SQLITE_LOCK_RESERVED => {
                    if self.reserved {
                        return Err(BUSY);
                    }
                    self.reserved = true;
                    *level = ffi::SQLITE_LOCK_RESERVED;
                }
                _ => {
                    let others_write = self.reserved && *level < ffi::SQLITE_LOCK_RESERVED;
                    let others_wait = self.pending && *level < ffi::SQLITE_LOCK_PENDING;
                    if others_write || others_wait {
                        return Err(BUSY);
                    }
                    self.pending = true;
                    self.reserved = true;
                    *level = ffi::SQLITE_LOCK_PENDING;
                    if self.shared > 1 {
                        return Err(BUSY);
                    }
                    self.exclusive = true;
                    *level = ffi::SQLITE_LOCK_EXCLUSIVE;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn lower(&mut self, level: &mut i32, wanted: i32) {
        if *level <= wanted {
            return;
        }
        if *level >= ffi::SQLITE_LOCK_RESERVED {
            (self.reserved, self.pending, self.exclusive) = (false, false, false);
        }
        if wanted == ffi::SQLITE_LOCK_NONE {
            self.shared -= 1;
        }
        *level = wanted;
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }
}

impl SharedMemory {
    /// Where a region is; it stays there while anybody uses it.
    pub(crate) fn region(&mut self, place: usize, extend: bool) -> Option<*mut u64> {
        while extend && self.regions.len() <= place {
            self.regions.push(vec![0; REGION / 8].into_boxed_slice());
        }
        self.regions.get_mut(place).map(|region| region.as_mut_ptr())
    }

    pub(crate) fn leave(&mut self) {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            *self = SharedMemory::default();
        }
    }

    /// Takes slots for somebody who has none of them, all or nothing.
    pub(crate) fn lock(&mut self, from: usize, count: usize, exclusive: bool) -> Result<(), Failed> {
        let slots = &mut self.slots[from..from + count];
        let fits = |slot: &Slot| match slot {
            Slot::Free => true,
            Slot::Shared(_) => !exclusive,
            Slot::Exclusive => false,
        };
        if !slots.iter().all(fits) {
            return Err(BUSY);
        }
        for slot in slots {
            *slot = match (exclusive, *slot) {
                (true, _) => Slot::Exclusive,
                (false, Slot::Shared(count)) => Slot::Shared(count + 1),
                (false, _) => Slot::Shared(1),
            };
        }
        Ok(())
    }

    pub(crate) fn unlock(&mut self, from: usize, count: usize) {
        for slot in &mut self.slots[from..from + count] {
            *slot = match *slot {
                Slot::Shared(count) if count > 1 => Slot::Shared(count - 1),
                _ => Slot::Free,
            };
        }
    }
}
