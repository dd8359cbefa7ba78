//! Several handles on one store, as several servers have: what one has locked is busy for the others.
//!
//! These cases are for stores that can be shared. Which store is one is said by its type, so that no case can pass by
//! having nothing to do.

use unstuck_core::bulk::{Bulk, BulkAction, BulkCommand, Pace, Target, TargetResult, change_bulk};
use unstuck_core::command::Command;
use unstuck_core::decide::Withheld;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::session::{SESSION_LEASE, renewal_interval};
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::{Millis, Time};

use crate::conformance::driver::{Driver, user, worker};
use crate::conformance::due::waits;
use crate::conformance::flows::{action, graph, sequence};
use crate::conformance::sessions::session;
use crate::conformance::steps::{BatchSteps, runs_of};
use crate::conformance::transactions::pause;
use crate::conformance::{TestStore, settle};
use crate::contract::{Interrupt, Locked, LockedThing, SetAside, Stage, StoreError, Wants};
use crate::memory::{DurableStage, MemoryStore, SharedStore};

pub use crate::conformance::tails::a_tail_tells_what_all_of_them_write;

/// A store that several can have open.
pub trait SharedTestStore: TestStore {
    /// Another handle on the same data, as another server has.
    #[must_use]
    fn another(&mut self) -> Self;

    /// So much time passes by the clock of the store.
    fn pass(&mut self, span: Millis);
}

impl SharedTestStore for SharedStore {
    fn another(&mut self) -> SharedStore {
        SharedStore::new_handle(self)
    }

    fn pass(&mut self, span: Millis) {
        let now = self.time();
        self.set_time(now + span);
    }
}

impl TestStore for SharedStore {
    fn reopen(self) -> SharedStore {
        self.crash()
    }

    fn make_durable(&mut self, n: usize) {
        MemoryStore::make_durable(&mut self.store(), n);
    }

    fn fail_next(&mut self, error: &StoreError) -> usize {
        MemoryStore::fail_next(&mut self.store(), error)
    }

    fn refuse_stage(&mut self, error: StoreError) -> bool {
        MemoryStore::refuse_stage(&mut self.store(), error);
        true
    }

    fn lose_next_answer(&mut self, happens: bool) -> bool {
        self.store().lose_next_answer(happens);
        true
    }

    fn keep_next_answer(&mut self) -> bool {
        self.store().keep_next_answer()
    }

    fn look_up_outcomes(&mut self) -> usize {
        self.store().look_up_outcomes()
    }

    fn is_awaiting_disk(&mut self) -> bool {
        self.store().is_awaiting_disk()
    }

    fn new_handle(&mut self) -> Option<SharedStore> {
        Some(SharedStore::new_handle(self))
    }

    fn replace_handle(self) -> SharedStore {
        SharedStore::new_handle(&self)
    }

    fn set_time(&mut self, now: Time) {
        SharedStore::set_time(self, now);
    }

    fn take_durable(&mut self) -> Vec<DurableStage> {
        MemoryStore::take_durable(&mut self.store())
    }
}

/// A run that another server has locked is busy, and is not waited for; nor does anybody get it twice.
pub fn a_run_that_somebody_else_has_is_busy<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let (first, second) = (driver.start(&flow), driver.start(&flow));
    // What is on its way to the disk is its server's until it is there.
    driver.store.make_durable(usize::MAX);
    let mut other = driver.store.another();
    let batch = other.begin().expect("begins");
    let theirs = other.lock(batch, &[first]).expect("locks");
    assert!(matches!(theirs[0], Locked::Here(_)));
    driver.begin().expect("begins");
    let ours = driver.lock(&[first, second]).expect("locks");
    assert_eq!(ours[0], Locked::Busy);
    assert!(matches!(ours[1], Locked::Here(_)));
    assert_eq!(other.lock(batch, &[second]), Ok(vec![Locked::Busy]));
    driver.abandon(runs_of(ours));
    other.abandon(batch, runs_of(theirs));
    driver.begin().expect("begins");
    let ours = driver.lock(&[first]).expect("locks");
    assert!(matches!(ours[0], Locked::Here(_)));
    driver.abandon(runs_of(ours));
}

/// What one server does for all of them is the oldest session's, until that has ended: by itself, or by not being renewed.
pub fn each_knows_whether_a_session_is_older<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut first = make();
    first.open_session(session([1; 32])).expect("opens");
    let mut second = first.another();
    second.open_session(session([2; 32])).expect("opens");
    let mut third = second.another();
    third.open_session(session([3; 32])).expect("opens");
    let has_older = |store: &mut S| {
        let batch = store.ask(&Wants::default()).expect("asks");
        let (_, loaded) = store.loaded().expect("is there");
        store.abandon(batch, Vec::new());
        loaded.expect("loads").has_older_session
    };
    assert_eq!([&mut first, &mut second, &mut third].map(has_older), [false, true, true]);
    first.end_session();
    assert_eq!([&mut second, &mut third].map(has_older), [false, true]);
    third.pass(SESSION_LEASE.plus(Millis(1)));
    third.renew_session().expect("nobody has found that it has ended");
    third.ended_sessions().expect("looks");
    assert!(!has_older(&mut third), "the second was not renewed");
}

/// Whoever reads a run that somebody else has locked sees it as it was before.
pub fn a_busy_run_is_read_as_it_was<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let before = driver.run(run);
    let mut other = driver.store.another();
    let batch = other.begin().expect("begins");
    let theirs = other.lock(batch, &[run]).expect("locks");
    assert_eq!(driver.run(run), before);
    assert_eq!(driver.store.list(&crate::contract::RunFilter::default(), None, 9), Ok(vec![before]));
    other.abandon(batch, runs_of(theirs));
}

/// What one has staged the other sees; each is told what came of its own stages, and not of the other's.
pub fn each_is_told_of_its_own_stages<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    driver.store.make_durable(usize::MAX);
    let (mut store, driver) = driver.split();
    let other = store.another();
    let mut driver = driver.continue_with(other);
    driver.act(run, pause());
    assert_eq!(store.run(run).expect("reads").map(|run| run.seq), Some(driver.run(run).seq));
    driver.store.make_durable(9);
    assert_eq!(settle(&mut driver.store, 1), []);
    assert_eq!(settle(&mut store, 1), []);
    assert!(store.settle(false).is_empty() && driver.store.settle(false).is_empty());
}

/// A server that dies lets go of what it has locked.
pub fn who_is_gone_holds_nothing<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    driver.store.make_durable(usize::MAX);
    let mut other = driver.store.another();
    let batch = other.begin().expect("begins");
    assert!(matches!(other.lock(batch, &[run]).expect("locks")[0], Locked::Here(_)));
    drop(other);
    driver.act(run, Command::Cancel { by: user(), reason: None });
}

/// Sessions that live side by side give out ids that differ; bits that are free again are given to the next.
pub fn sessions_side_by_side_have_ids_of_their_own<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut first = make();
    let (mut second, mut third) = (first.another(), first.another());
    let opened = [
        first.open_session(session([1; 32])).expect("begins"),
        second.open_session(session([2; 32])).expect("begins"),
    ];
    assert_eq!((opened[0].node, opened[1].node), (0, 1));
    assert_eq!((opened[0].incarnation, opened[1].incarnation), (1, 2));
    assert_eq!(opened[0].token_key, opened[1].token_key, "all of them sign alike");
    assert_eq!(opened[0].lease, Some(SESSION_LEASE));
    first.end_session();
    let next = third.open_session(session([3; 32])).expect("begins");
    assert_eq!((next.node, next.incarnation), (0, 3));
}

/// A session that is renewed lives, whatever others do; one that is not has ended after its lease, and only then are the
/// attempts of its executors lost.
pub fn only_a_session_that_has_ended_loses_its_attempts<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, attempt, worker) = with_local_attempt(make());
    let mut other = driver.store.another();
    other.open_session(session([2; 32])).expect("begins");
    for _ in 0..30 {
        other.pass(renewal_interval(SESSION_LEASE));
        driver.store.renew_session().expect("it lives");
        other.renew_session().expect("it lives");
        assert_eq!(other.ended_sessions(), Ok(Vec::new()));
    }
    for _ in 0..10 {
        other.pass(renewal_interval(SESSION_LEASE));
        other.renew_session().expect("it lives");
        assert_eq!(other.ended_sessions(), Ok(Vec::new()), "its lease is not over");
    }
    other.pass(Millis(1));
    let ended = other.ended_sessions().expect("reads");
    assert_eq!(ended.iter().map(|session| session.incarnation).collect::<Vec<_>>(), [worker.incarnation]);
    assert_eq!(ended[0].attempts, [(attempt, worker)]);
    assert_eq!(driver.store.renew_session(), Err(StoreError::SessionEnded));
}

/// A session that has ended is given to one of the others; to the next one where that has ended too.
pub fn an_ended_session_is_given_to_one<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, attempt, worker) = with_local_attempt(make());
    let (mut second, mut third) = (driver.store.another(), driver.store.another());
    second.open_session(session([2; 32])).expect("begins");
    let elsewhere = crate::contract::NewSession { host: "elsewhere".into(), ..session([3; 32]) };
    third.open_session(elsewhere).expect("begins");
    driver.store.end_session();
    let given = second.ended_sessions().expect("reads");
    assert_eq!(given[0].attempts, [(attempt, worker)]);
    assert!(given[0].is_on_this_host, "its processes are on this machine");
    assert_eq!(second.ended_sessions(), Ok(Vec::new()), "once");
    assert_eq!(third.ended_sessions(), Ok(Vec::new()), "to one");
    second.end_session();
    let given = third.ended_sessions().expect("reads");
    assert_eq!(given[0].attempts.len(), 1);
    assert!(!given[0].is_on_this_host);
    assert_eq!(third.ended_sessions(), Ok(Vec::new()), "once");
}

/// Whoever was taken for dead begins no transaction, ends none and keeps nothing; with a new session it goes on.
pub fn a_session_that_has_ended_changes_nothing<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, attempt, _) = with_local_attempt(make());
    driver.store.make_durable(usize::MAX);
    let mut other = driver.store.another();
    other.open_session(session([2; 32])).expect("begins");
    driver.begin().expect("begins");
    let locked = runs_of(driver.lock(&[attempt.run]).expect("locks"));
    other.pass(Millis(SESSION_LEASE.0 + 1));
    other.renew_session().expect("it lives");
    assert_eq!(other.ended_sessions().expect("reads").len(), 1);
    let stage = Stage { at: driver.now, unchanged: locked, ..Stage::default() };
    assert_eq!(driver.stage(stage).err(), Some(StoreError::SessionEnded));
    assert_eq!(driver.begin(), Err(StoreError::SessionEnded));
    assert_eq!(driver.store.put_targets(BulkId(7), Vec::new()), Err(StoreError::SessionEnded));
    // Nothing stays locked.
    let batch = other.begin().expect("begins");
    let locked = other.lock(batch, &[attempt.run]).expect("locks");
    assert!(matches!(locked[0], Locked::Here(_)));
    other.abandon(batch, runs_of(locked));
    driver.store.open_session(session([1; 32])).expect("begins");
    driver.act(attempt.run, pause());
}

/// An interrupt of another server's executor is given to that server, once, when it is durable; one for a session that has
/// ended is given to nobody.
pub fn an_interrupt_reaches_the_session_that_has_the_worker<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, attempt, worker) = with_local_attempt(make());
    let mut other = driver.store.another();
    other.open_session(session([2; 32])).expect("begins");
    let interrupt = Interrupt { worker, attempt, why: "it was cancelled".to_owned() };
    let stage = |now| Stage { at: now, interrupts: vec![interrupt.clone()], ..Stage::default() };
    let batch = other.begin().expect("begins");
    other.stage(batch, stage(driver.now)).expect("stages");
    other.make_durable(9);
    assert_eq!(settle(&mut other, 1), []);
    assert_eq!(other.interrupts(), Ok(Vec::new()));
    assert_eq!(driver.store.interrupts(), Ok(vec![interrupt.clone()]));
    assert_eq!(driver.store.interrupts(), Ok(Vec::new()));
    driver.store.end_session();
    let batch = other.begin().expect("begins");
    other.stage(batch, stage(driver.now)).expect("stages");
    other.make_durable(9);
    assert_eq!(settle(&mut other, 1), []);
    driver.store.open_session(session([1; 32])).expect("begins");
    assert_eq!(driver.store.interrupts(), Ok(Vec::new()));
}

/// A thing that another server has locked is busy, and is as that one leaves it once its transaction has ended.
pub fn a_thing_that_somebody_else_has_is_busy<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let id = BulkId(driver.new_id().0);
    driver.store.put_targets(id, targets()).expect("puts");
    driver.store.put_bulk(bulk(id)).expect("puts");
    let address = ThingRef::Bulk(id);
    let mut other = driver.store.another();
    driver.begin().expect("begins");
    let mut thing = driver.lock_bulk(id).expect("locks").expect("it is there");
    let batch = other.begin().expect("begins");
    assert_eq!(other.lock_things(batch, &[address]), Ok(vec![LockedThing::Busy]));
    let due = other.due_things(Time(i64::MAX), 9).expect("reads");
    assert_eq!(due.iter().map(Thing::address).collect::<Vec<_>>(), [address], "it is due for both");
    other.rollback(batch);
    let bulk = thing.bulk_mut().expect("a bulk action");
    change_bulk(bulk, BulkCommand::Pause, &driver.bulk_context()).expect("it is paused");
    let stage = Stage { at: driver.now, things: vec![thing.clone()], ..Stage::default() };
    driver.stage(stage).expect("stages");
    // What is on its way to the disk is its server's until it is there.
    driver.store.make_durable(usize::MAX);
    let batch = other.begin().expect("begins");
    assert_eq!(other.lock_things(batch, &[address]), Ok(vec![LockedThing::Here(thing)]));
    driver.begin().expect("begins");
    assert_eq!(driver.lock_things(&[address]), Ok(vec![LockedThing::Busy]));
    drop(other);
    assert!(driver.lock_bulk(id).expect("locks").is_some(), "who is gone holds nothing");
    driver.rollback();
}

/// What a server has put of a bulk action outlives the start of others, and not its own session.
pub fn drafts_belong_to_their_session<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut first = make();
    first.open_session(session([1; 32])).expect("begins");
    let (mut second, mut third) = (first.another(), first.another());
    first.put_targets(BulkId(1), targets()).expect("puts");
    second.open_session(session([2; 32])).expect("begins");
    second.put_targets(BulkId(2), targets()).expect("puts");
    second.end_session();
    third.open_session(session([3; 32])).expect("begins");
    first.put_bulk(bulk(BulkId(1))).expect("its targets are there");
    assert!(matches!(third.put_bulk(bulk(BulkId(2))), Err(StoreError::Conflict(_))));
}

/// What one server leaves out of what is due, or sets aside, is its own affair.
pub fn what_one_sets_aside_or_withholds_others_are_given<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![waits(10)]));
    let (first, second, third) = (driver.start(&flow), driver.start(&flow), driver.start(&flow));
    let mut other = driver.store.another();
    let all = driver.store.due(Time(i64::MAX), 9).expect("reads");
    assert_eq!(all.iter().map(|due| due.run).collect::<Vec<_>>(), [first, second, third]);
    driver.store.withhold(&all[0], Withheld::ForHome);
    driver.store.withhold(&all[1], Withheld::ForTurn);
    driver.store.set_aside(third, SetAside { since: driver.now, why: "broken".into(), next_try: None });
    for _ in 0..2 {
        assert_eq!(other.due(Time(i64::MAX), 9).expect("reads"), all);
        assert_eq!(other.next_due(), Ok(Some(all[0].due)));
        assert_eq!(other.set_aside_record(third), None);
        assert_eq!(driver.store.due(Time(i64::MAX), 9).expect("reads"), []);
        assert_eq!(driver.store.next_due(), Ok(None));
    }
    assert_eq!(driver.store.release_withheld(9), 1);
    assert_eq!(driver.store.due(Time(i64::MAX), 9).expect("reads"), all[1..2]);
    driver.store.release(third);
    assert_eq!(driver.store.due(Time(i64::MAX), 9).expect("reads"), all[1..]);
}

/// A server whose executor has an attempt.
fn with_local_attempt<S: SharedTestStore>(mut store: S) -> (Driver<S>, AttemptId, Worker) {
    let opened = store.open_session(session([1; 32])).expect("begins");
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("f", vec![action("a"), action("b")]));
    let run = driver.start(&flow);
    let mine = Worker { local: true, incarnation: opened.incarnation, ..worker("mine") };
    let unit = UnitRef::step(StepIndex(0));
    driver.act(run, Command::Claim { unit, worker: mine.clone() });
    let attempt = driver.attempt(run, unit);
    (driver, attempt, mine)
}

fn targets() -> Vec<Target> {
    vec![Target { place: 0, run: RunId(1), unit: None, result: TargetResult::Pending }]
}

fn bulk(id: BulkId) -> Bulk {
    let now = Time(1_800_000_000_000);
    Bulk::new(id, BulkAction::Cancel, (user(), None), "one".into(), Pace::default(), 1, now)
}
