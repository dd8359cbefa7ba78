//! A disk in memory that loses what was not synced, tears what was half written, fills up and fails when told to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use unstuck_core::random::Random;

use super::faults::{Fault, Faults, Op};
use super::locks::{FileLock, SharedMemory};

/// What is written at once or not at all.
const SECTOR: usize = 512;

/// A disk. Whoever has opened files on it keeps it.
pub(crate) struct Disk {
    inner: Mutex<Inner>,
    this: Weak<Disk>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

/// What a disk holds when nothing is in flight.
pub(crate) type Image = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
pub(crate) struct Inner {
    /// The folder as a process sees it, and as it is on the disk.
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    name_changes: Vec<(u64, NameChange)>,
    files: BTreeMap<u64, Contents>,
    last_file: u64,
    /// Every change has a number, so that a crash can keep the first ones.
    last_change: u64,
    pub(crate) faults: Faults,
    /// Set once it has crashed: what is left.
    left: Option<Image>,
    random: Option<Random>,
    pub(crate) locks: BTreeMap<String, FileLock>,
    pub(crate) memory: BTreeMap<String, SharedMemory>,
}

#[derive(Clone)]
enum NameChange {
    Made(String, u64),
    Removed(String),
}

/// What is in a file.
#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<(u64, Change)>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// When a crash happens, seen from the call in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Before,
    During,
    After,
}

/// How much of what was in flight is there after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Nothing,
    Everything,
    /// The first changes, and a part of the next.
    First,
    /// Any sectors.
    Some(u64),
}

/// A call that cannot be carried out: the disk is dead, or was told to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed(pub(crate) i32);

impl Disk {
    pub(crate) fn new(image: Image, seed: u64) -> Arc<Disk> {
        let mut inner = Inner { random: Some(Random::new(seed)), ..Inner::default() };
        for (name, bytes) in image {
            let file = inner.new_file();
            inner.files.insert(file, Contents { seen: bytes.clone(), synced: bytes, changes: Vec::new() });
            inner.names.insert(name, file);
        }
        inner.synced_names.clone_from(&inner.names);
        Arc::new_cyclic(|this| Disk { inner: Mutex::new(inner), this: this.clone() })
    }

    /// For those who keep it.
    pub(crate) fn share(&self) -> Option<Arc<Disk>> {
        self.this.upgrade()
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power goes now, unless it has gone before: what is left.
    pub(crate) fn crash(&self) -> Image {
        let mut inner = self.inner();
        inner.die();
        inner.left.clone().unwrap_or_default()
    }

    /// Whether the power has gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.inner().left.is_some()
    }

    /// Whether a sync has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.inner().faults.failed.keys().any(|(op, _)| *op == Op::Sync)
    }

    /// What a process sees.
    pub(crate) fn seen(&self) -> Image {
        let inner = self.inner();
        inner.names.iter().map(|(name, file)| (name.clone(), inner.files[file].seen.clone())).collect()
    }
}

impl Inner {
    /// The file of this name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    pub(crate) fn make(&mut self, name: &str) -> Result<u64, Failed> {
        self.moment(Op::Make, name, |inner| {
            let file = inner.new_file();
            inner.files.insert(file, Contents::default());
            inner.names.insert(name.to_owned(), file);
            inner.change_name(NameChange::Made(name.to_owned(), file));
            file
        })
    }

    pub(crate) fn remove(&mut self, name: &str, sync: bool) -> Result<(), Failed> {
        self.moment(Op::Remove, name, |inner| {
            inner.names.remove(name);
            inner.change_name(NameChange::Removed(name.to_owned()));
            if sync {
                inner.sync_names();
            }
        })
    }

    /// Reads what there is; the rest of the buffer becomes zero. Gives whether there was enough.
    pub(crate) fn read(&mut self, name: &str, file: u64, at: usize, into: &mut [u8]) -> Result<bool, Failed> {
        self.alive()?;
        self.faults.reads += 1;
        self.faults.check(Op::Read, name)?;
        let seen = &self.files[&file].seen;
        let from = at.min(seen.len());
        let there = &seen[from..seen.len().min(at + into.len())];
        into.fill(0);
        into[..there.len()].copy_from_slice(there);
        Ok(there.len() == into.len())
    }

    pub(crate) fn write(&mut self, name: &str, file: u64, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        self.alive()?;
        let grows = (at + bytes.len()).saturating_sub(self.files[&file].seen.len());
        let used: usize = self.files.values().map(|file| file.seen.len()).sum();
        self.faults.check_room(used, grows)?;
        self.moment(Op::Write, name, |inner| inner.change(file, Change::Write(at, bytes.to_vec())))
    }

    pub(crate) fn cut(&mut self, name: &str, file: u64, size: usize) -> Result<(), Failed> {
        self.moment(Op::Cut, name, |inner| inner.change(file, Change::Cut(size)))
    }

    /// A sync that fails leaves what was in flight in memory only: it is seen, and no later sync makes it durable.
    pub(crate) fn sync(&mut self, name: &str, file: u64, names_too: bool) -> Result<(), Failed> {
        self.alive()?;
        self.faults.syncs += 1;
        if let Err(failed) = self.faults.check(Op::Sync, name) {
            self.contents(file).changes.clear();
            return Err(failed);
        }
        if self.faults.lies(name) {
            return self.moment(Op::Sync, name, |_| ());
        }
        self.moment(Op::Sync, name, |inner| {
            let contents = inner.contents(file);
            for (_, change) in std::mem::take(&mut contents.changes) {
                change.apply(&mut contents.synced);
            }
            if names_too {
                inner.sync_names();
            }
        })
    }

    pub(crate) fn size(&self, file: u64) -> usize {
        self.files[&file].seen.len()
    }

    pub(crate) fn alive(&self) -> Result<(), Failed> {
        if self.left.is_some() { Err(Failed(rusqlite::ffi::SQLITE_IOERR)) } else { Ok(()) }
    }

    /// A moment at which the power may go: before, during or after what happens.
    fn moment<T>(&mut self, op: Op, name: &str, happen: impl FnOnce(&mut Inner) -> T) -> Result<T, Failed> {
        self.alive()?;
        if op != Op::Sync {
            self.faults.check(op, name)?;
        }
        let phase = self.faults.crash_now(op, name);
        // During a sync, any part of what is in flight may have come to the disk: as before it.
        if phase == Some(Phase::Before) || (phase == Some(Phase::During) && op == Op::Sync) {
            self.die();
        }
        self.alive()?;
        let made = happen(self);
        if phase.is_some() {
            self.die();
        }
        self.alive()?;
        Ok(made)
    }

    fn die(&mut self) {
        if self.left.is_none() {
            let mut random = self.random.take().unwrap_or_else(|| Random::new(0));
            self.left = Some(self.survivors(&mut random));
        }
    }

    fn survivors(&self, random: &mut Random) -> Image {
        let survival = match random.between(0, 9) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2..=5 => Survival::First,
            6 => Survival::Some(90),
            7 => Survival::Some(10),
            _ => Survival::Some(50),
        };
        // The folder is a journal: its first changes are there.
        let in_flight =
            self.files.values().filter_map(|file| file.changes.first()).map(|(number, _)| *number);
        let oldest = in_flight.chain(self.name_changes.first().map(|(number, _)| *number)).min();
        let first = random.between(oldest.unwrap_or(self.last_change), self.last_change + 1);
        let mut names = self.synced_names.clone();
        for (number, change) in &self.name_changes {
            let is_there = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::First | Survival::Some(_) => *number < first,
            };
            if is_there {
                change.apply(&mut names);
            }
        }
        let mut image = Image::new();
        for (name, file) in names {
            let contents = &self.files[&file];
            let mut bytes = contents.synced.clone();
            for (number, change) in &contents.changes {
                match survival {
                    Survival::Nothing => {}
                    Survival::Everything => change.apply(&mut bytes),
                    Survival::First if *number < first => change.apply(&mut bytes),
                    Survival::First if *number == first => change.tear(&mut bytes, random, 50),
                    Survival::First => {}
                    Survival::Some(percent) => change.tear(&mut bytes, random, percent),
                }
            }
            image.insert(name, bytes);
        }
        image
    }

    fn new_file(&mut self) -> u64 {
        self.last_file += 1;
        self.last_file
    }

    fn contents(&mut self, file: u64) -> &mut Contents {
        self.files.entry(file).or_default()
    }

    fn change(&mut self, file: u64, change: Change) {
        self.last_change += 1;
        let number = self.last_change;
        let contents = self.contents(file);
        change.apply(&mut contents.seen);
        contents.changes.push((number, change));
    }

    fn change_name(&mut self, change: NameChange) {
        self.last_change += 1;
        self.name_changes.push((self.last_change, change));
    }

    fn sync_names(&mut self) {
        self.synced_names.clone_from(&self.names);
        self.name_changes.clear();
    }

    /// Something else goes wrong from now on.
    pub(crate) fn add_fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, written) => put(bytes, *at, written),
            Change::Cut(size) => bytes.resize(*size, 0),
        }
    }

    /// Applies those sectors that chance keeps.
    fn tear(&self, bytes: &mut Vec<u8>, random: &mut Random, percent: u64) {
        match self {
            Change::Write(at, written) => {
                let mut from = 0;
                while from < written.len() {
                    let to = (from + SECTOR - (at + from) % SECTOR).min(written.len());
                    if random.between(0, 99) < percent {
                        put(bytes, at + from, &written[from..to]);
                    }
                    from = to;
                }
            }
            Change::Cut(size) if random.between(0, 99) < percent => bytes.resize(*size, 0),
            Change::Cut(_) => {}
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Made(name, file) => names.insert(name.clone(), *file),
            NameChange::Removed(name) => names.remove(name),
        };
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
    let end = at + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(written);
}
