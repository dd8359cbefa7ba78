//! The embedded store keeps the contract, and agrees with the store in memory.

use std::path::Path;

use std::sync::Arc;
use tempfile::TempDir;
use unstuck_core::command::Notice;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::Event;
use unstuck_core::id::{FlowId, PayloadId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::run::Run;
use unstuck_core::offer::Offer;
use unstuck_core::time::Time;
use unstuck_sqlite::{Room, SqliteStore};
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::{
    Candidate, Due, Filter, FlowRecord, Life, Locked, NewFlow, NoticeId, PutFlowError, Settled, Stage,
    StageId, Store, StoreError,
};
use unstuck_store::differential::agree;
use unstuck_store::memory::MemoryStore;

/// A store in a folder that goes when it does.
struct Temporary {
    store: Option<SqliteStore>,
    folder: Arc<TempDir>,
    room: Room,
}

/// Room for nearly nothing: every run parks as soon as it can.
const CROWDED: Room = Room { max_runs: 1, max_tail: 3 };

fn make() -> Temporary {
    make_with(Room::default())
}

fn make_with(room: Room) -> Temporary {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    Temporary { store: Some(open(&folder.path().join("store"), room)), folder, room }
}

fn open(path: &Path, room: Room) -> SqliteStore {
    SqliteStore::open_with(path, room).expect("opens")
}

impl Temporary {
    fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("open")
    }
}

impl TestStore for Temporary {
    fn reopen(mut self) -> Temporary {
        drop(self.store.take());
        let path = self.folder.path().join("store");
        Temporary { store: Some(open(&path, self.room)), folder: self.folder, room: self.room }
    }
}

macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Store for Temporary {
            $(fn $name(&mut self $(, $argument: $type)*) -> $result {
                self.store().$name($($argument),*)
            })*
        }
    };
}

delegate! {
    begin() -> Result<(), StoreError>;
    lock(runs: &[RunId]) -> Result<Vec<Locked>, StoreError>;
    run_of_key(flow: &str, key: &str) -> Result<Option<RunId>, StoreError>;
    payloads(ids: &[PayloadId]) -> Result<Vec<Option<Json>>, StoreError>;
    candidates(offers: &[Offer], limit: usize) -> Result<Vec<Candidate>, StoreError>;
    highest_waiting(queues: &[Arc<str>]) -> Result<Option<i32>, StoreError>;
    admissible(limit: usize) -> Result<Vec<RunId>, StoreError>;
    due(now: Time, limit: usize) -> Result<Vec<Due>, StoreError>;
    notices(limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError>;
    stage(stage: Stage) -> Result<StageId, StoreError>;
    abandon(locked: Vec<Run>) -> ();
    rollback() -> ();
    settle(wait: bool) -> Vec<Settled>;
    begin_life(fresh_key: [u8; 32]) -> Result<Life, StoreError>;
    local_attempts() -> Result<Vec<(AttemptId, Worker)>, StoreError>;
    downtimes() -> Result<Vec<Downtime>, StoreError>;
    alive(now: Time) -> ();
    last_seen() -> Result<Option<Time>, StoreError>;
    next_due() -> Result<Option<Time>, StoreError>;
    last_time() -> Result<Option<Time>, StoreError>;
    last_id() -> Result<u64, StoreError>;
    run(run: RunId) -> Result<Option<Run>, StoreError>;
    history(run: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    list(filter: &Filter, before: Option<RunId>, limit: usize) -> Result<Vec<Run>, StoreError>;
    put_flow(flow: NewFlow) -> Result<FlowRecord, PutFlowError>;
    flow(flow: FlowId) -> Result<Option<FlowRecord>, StoreError>;
    newest_flow(name: &str) -> Result<Option<FlowRecord>, StoreError>;
}

unstuck_store::conformance_tests!(make);

mod crowded {
    use super::{CROWDED, Temporary, make_with};

    fn make() -> Temporary {
        make_with(CROWDED)
    }

    unstuck_store::conformance_tests!(make);
}

#[test]
fn it_agrees_with_the_store_in_memory() {
    for seed in 0..40 {
        agree(MemoryStore::deferred, make, seed, 120);
    }
}

#[test]
fn it_agrees_when_there_is_room_for_nearly_nothing() {
    for seed in 0..40 {
        agree(MemoryStore::deferred, || make_with(CROWDED), seed, 120);
    }
}
