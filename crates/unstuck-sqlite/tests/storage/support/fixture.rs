//! A store under test: in a folder, or on a disk in memory whose power goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ffi;
use tempfile::TempDir;
use unstuck_core::time::Time;
use unstuck_sqlite::{Options, SqliteStore, WriteMode};
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::{Settled, Store as _, StoreError};
use unstuck_store::delegate_store;

use super::disk::{Disk, Image};
use super::faults::{Fault, Op};
use super::power::Power;
use super::vfs::Mounted;

/// A store that can be opened again where it is.
pub(crate) struct Fixture {
    store: Option<SqliteStore>,
    options: Options,
    place: Place,
    /// What has settled, and nobody has asked for yet.
    reports: Vec<Settled>,
    /// On a disk in memory no file has a time: when the engine was last alive.
    seen: Option<Time>,
}

enum Place {
    Folder(PathBuf, Option<Arc<TempDir>>),
    Disk(Box<(Mounted, Power)>),
}

impl Fixture {
    /// A new store in a folder that goes when it does.
    pub(crate) fn in_a_folder(options: Options) -> Fixture {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let fixture = Fixture::in_this_folder(folder.path(), options);
        let place = Place::Folder(folder.path().to_owned(), Some(folder));
        Fixture { place, ..fixture }
    }

    /// A store in this folder.
    pub(crate) fn in_this_folder(path: &Path, options: Options) -> Fixture {
        let store = SqliteStore::open_with(path, options.clone()).expect("opens");
        let place = Place::Folder(path.to_owned(), None);
        Fixture { store: Some(store), options, place, reports: Vec::new(), seen: None }
    }

    /// A new store on a disk whose power goes when `power` says so.
    pub(crate) fn on_a_disk(options: Options, power: Power) -> Fixture {
        let mut power = power;
        open_on(Mounted::new(power.plug_in(Image::new())), options, power)
    }

    pub(crate) fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("open")
    }

    /// The disk.
    pub(crate) fn disk(&self) -> &Disk {
        match &self.place {
            Place::Disk(place) => &place.0.disk,
            Place::Folder(..) => panic!("it is in a folder"),
        }
    }

    /// The same store once more, as another process would open it that no lock keeps away.
    pub(crate) fn beside(&self) -> Result<SqliteStore, StoreError> {
        match &self.place {
            Place::Disk(place) => open(&place.0, &self.options),
            Place::Folder(path, _) => SqliteStore::open_with(path, self.options.clone()),
        }
    }

    fn is_on_a_disk(&self) -> bool {
        matches!(self.place, Place::Disk(_))
    }

    /// Ends, for now.
    pub(crate) fn close(&mut self) {
        self.store = None;
        self.reports.clear();
    }

    /// The process dies: what a process sees on the disk stays, or (with `empty`) there is nothing yet. It is to be
    /// [opened again](Fixture::restart).
    pub(crate) fn lose_process(&mut self, empty: bool) {
        let image = if empty { Image::new() } else { self.disk().seen() };
        self.plug_in(image);
    }

    /// The power goes, and comes back.
    pub(crate) fn unplug(&mut self) -> Result<(), StoreError> {
        let image = self.disk().crash();
        self.plug_in(image);
        self.restart()
    }

    fn plug_in(&mut self, image: Image) {
        self.close();
        let Place::Disk(place) = &mut self.place else { panic!("it is in a folder") };
        place.0 = Mounted::new(place.1.plug_in(image));
    }

    /// Ends, and is opened again: what a process sees on the disk is what the next one finds.
    pub(crate) fn restart(&mut self) -> Result<(), StoreError> {
        self.close();
        self.store = Some(match &self.place {
            Place::Folder(path, _) => SqliteStore::open_with(path, self.options.clone())?,
            Place::Disk(place) => open(&place.0, &self.options)?,
        });
        Ok(())
    }
}

/// Opens the store on a disk.
fn open(mounted: &Mounted, options: &Options) -> Result<SqliteStore, StoreError> {
    let disk: Arc<dyn unstuck_sqlite::Disk> = mounted.disk.clone();
    SqliteStore::open_with(&mounted.path(), Options { disk: Some(disk), ..options.clone() })
}

/// Opens a store on a disk, again and again while the power goes meanwhile.
fn open_on(mut mounted: Mounted, options: Options, mut power: Power) -> Fixture {
    loop {
        match open(&mounted, &options) {
            Ok(store) => {
                let place = Place::Disk(Box::new((mounted, power)));
                return Fixture { store: Some(store), options, place, reports: Vec::new(), seen: None };
            }
            Err(_) if mounted.disk.is_dead() => {
                let left = power.unplug(&mounted.disk);
                mounted = Mounted::new(power.plug_in(left));
            }
            Err(_) if mounted.disk.has_failed() => power.go_on_after_a_failed_sync(&mounted.disk),
            Err(error) => panic!("what a crash leaves cannot be opened: {error}"),
        }
    }
}

impl TestStore for Fixture {
    fn reopen(self) -> Fixture {
        let Fixture { mut store, options, place, seen, .. } = self;
        let again = match place {
            Place::Folder(path, folder) => {
                drop(store.take());
                let again = Fixture::in_this_folder(&path, options);
                Fixture { place: Place::Folder(path, folder), ..again }
            }
            Place::Disk(place) => {
                let (mounted, mut power) = *place;
                let has_failed = mounted.disk.has_failed();
                if has_failed || power.ends_in_good_order(&mounted.disk) {
                    drop(store.take());
                }
                if has_failed && !mounted.disk.is_dead() {
                    power.go_on_after_a_failed_sync(&mounted.disk);
                    open_on(mounted, options, power)
                } else {
                    let image = power.unplug(&mounted.disk);
                    drop(store);
                    open_on(Mounted::new(power.plug_in(image)), options, power)
                }
            }
        };
        Fixture { seen, ..again }
    }

    fn make_durable(&mut self, n: usize) {
        while self.options.hand == WriteMode::Caller && self.reports.len() < n {
            let more = self.store().settle(true);
            if more.is_empty() {
                return;
            }
            self.reports.extend(more);
        }
    }

    /// The disk takes nothing for a while.
    fn fail_next(&mut self, error: &StoreError) -> usize {
        if !self.is_on_a_disk() || self.options.hand == WriteMode::Thread {
            return 0;
        }
        let Place::Disk(place) = &mut self.place else { return 0 };
        let after = place.1.writes_before_it_is_full();
        let refuse = Fault { op: Op::Write, which: None, after, times: usize::MAX, code: ffi::SQLITE_FULL };
        self.disk().inner().add_fault(refuse);
        let settled = self.store().settle(true);
        self.disk().inner().faults.remove(Op::Write);
        let mut failed = 0;
        for Settled { stage, result } in settled {
            let result = result.map_err(|_| error.clone());
            failed += usize::from(result.is_err());
            self.reports.push(Settled { stage, result });
        }
        if self.has_crashed() { 0 } else { failed }
    }

    fn has_crashed(&self) -> bool {
        self.is_on_a_disk() && (self.disk().is_dead() || self.disk().has_failed())
    }
}

delegate_store!(Fixture, store, but {
    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        if self.reports.is_empty() {
            return self.store().settle(wait);
        }
        std::mem::take(&mut self.reports)
    }

    fn record_alive(&mut self, now: Time) {
        self.seen = self.seen.max(Some(now));
        self.store().record_alive(now);
    }

    fn last_seen(&mut self) -> Result<Option<Time>, StoreError> {
        let told = self.store().last_seen()?;
        Ok(told.map(|told| self.seen.map_or(told, |seen| told.max(seen))))
    }
});
