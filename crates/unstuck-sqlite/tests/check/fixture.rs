//! A store in a folder that goes when it does, and how it is checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use unstuck_core::id::FlowId;
use unstuck_core::model::flow::Flow;
use unstuck_sqlite::verify::{CheckReport, check};
use unstuck_sqlite::{MemoryLimits, SqliteStore};
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::FlowRecord;
use unstuck_store::delegate_store;

/// A store in a folder that goes when it does.
pub(crate) struct Temporary {
    store: Option<SqliteStore>,
    room: MemoryLimits,
    closed: Closed,
}

/// The folder of a store that nobody has open.
pub(crate) struct Closed {
    folder: Arc<TempDir>,
}

impl Temporary {
    /// One that keeps its runs in memory until they end.
    pub(crate) fn new() -> Temporary {
        Temporary::with(MemoryLimits::default())
    }

    /// One whose runs all park, as soon as they can.
    pub(crate) fn parking() -> Temporary {
        Temporary::with(MemoryLimits { max_runs: 0, max_tail: 0 })
    }

    pub(crate) fn with(room: MemoryLimits) -> Temporary {
        let closed = Closed { folder: Arc::new(tempfile::tempdir().expect("a folder")) };
        let store = SqliteStore::open_with(closed.directory(), room).expect("opens");
        Temporary { store: Some(store), room, closed }
    }

    fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("open")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.closed.directory()
    }

    /// Ends in good order.
    pub(crate) fn close(self) -> Closed {
        drop(self.store);
        self.closed
    }
}

impl Closed {
    pub(crate) fn directory(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory().join("unstuck.db")
    }

    /// Checks the store as it is now.
    pub(crate) fn check(&self, flows: &BTreeMap<FlowId, Arc<Flow>>) -> CheckReport {
        let mut compile = |record: &FlowRecord| {
            flows.get(&record.id).map(|flow| (**flow).clone()).ok_or_else(|| "nobody knows it".to_owned())
        };
        check(self.directory(), &mut compile, &mut |_| {}).expect("the check can be made")
    }
}

delegate_store!(Temporary, store);

impl TestStore for Temporary {
    fn reopen(mut self) -> Temporary {
        drop(self.store.take());
        let store = SqliteStore::open_with(self.closed.directory(), self.room).expect("opens again");
        Temporary { store: Some(store), ..self }
    }

    fn look(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        let report = self.closed.check(flows);
        assert!(report.is_clean(), "{report:#?}");
    }
}
