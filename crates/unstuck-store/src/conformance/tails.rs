//! Tails: they tell every event that is durable once, in the order in which it became durable, from any cursor on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use unstuck_core::command::{Command, Report};
use unstuck_core::event::Event;
use unstuck_core::id::{AuditEntryId, RunId};
use unstuck_core::model::run::Run;

use crate::conformance::driver::{Driver, large, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::forgetting::forget;
use crate::conformance::restarts::settle_all;
use crate::conformance::sharing::SharedTestStore;
use crate::conformance::transactions::pause;
use crate::conformance::{TestStore, settle};
use crate::contract::{Cursor, OnChange, Reader, StoreError, TailError};

/// A tail tells every event once, those of a run in order, and whoever waits for more is told when there is some.
pub fn a_tail_tells_all_that_happens<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let reader = driver.store.reader();
    let begin = reader.cursor().expect("is there");
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let watcher: OnChange = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    reader.on_change(&watcher);
    let runs = some_events(&mut driver);
    assert!(told.load(Ordering::Relaxed) > 0, "whoever waits is told");
    let all = follow(&*reader, &begin, 99);
    assert_eq!(all.0.len(), 3 + 2 * 6);
    for run in &runs {
        assert_eq!(Ok(events_of(&all.0, *run)), reader.history(*run, 0, 99), "in order, nothing left out");
    }
    let starts: Vec<RunId> = all.0.iter().filter(|(_, event)| event.seq == 1).map(|(run, _)| *run).collect();
    assert_eq!(starts, runs, "in the order in which they became durable");
    assert_eq!(reader.cursor(), Ok(all.1.clone()), "that is all");
    assert_eq!(reader.ends(), Ok((all.1.clone(), AuditEntryId(0))), "and nobody changed anything else");
    assert_eq!(follow(&*reader, &all.1, 99), (Vec::new(), all.1.clone()), "there is no more");
    drop(watcher);
    let before = told.load(Ordering::Relaxed);
    driver.act(runs[0], pause());
    settle_all(&mut driver);
    assert_eq!(told.load(Ordering::Relaxed), before, "who is gone is told nothing");
}

/// However long its pages are, a tail tells the same, and a page is at its end only where there is no more.
pub fn a_page_has_no_more_than_was_asked_for<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let begin = driver.store.reader().cursor().expect("is there");
    some_events(&mut driver);
    let reader = driver.store.reader();
    let all = follow(&*reader, &begin, 99);
    for limit in 1..5 {
        assert_eq!(follow(&*reader, &begin, limit), all, "in pages of {limit}");
    }
    let whole = reader.tail(&begin, all.0.len()).expect("goes on");
    assert_eq!((whole.events, whole.next, whole.is_end), (all.0, all.1, true));
    let none = reader.tail(&begin, 0).expect("goes on");
    assert_eq!((none.events, none.next, none.is_end), (Vec::new(), begin, false));
}

/// What is staged is told once it is durable, and never if it fails.
pub fn a_tail_tells_nothing_that_is_not_durable<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = driver.start(&flow);
    settle_all(&mut driver);
    let reader = driver.store.reader();
    let cursor = reader.cursor().expect("is there");
    driver.act(run, pause());
    let shown = reader.tail(&cursor, 9);
    let failed = driver.store.fail_next(&StoreError::Away("the disk".into()));
    if failed > 0 {
        assert_eq!(shown.map(|page| (page.events, page.is_end)), Ok((Vec::new(), true)));
        assert_eq!(settle(&mut driver.store, failed).len(), failed);
        assert_eq!(follow(&*reader, &cursor, 9), (Vec::new(), cursor.clone()), "it never happened");
        driver.resume();
        driver.act(run, pause());
    }
    settle_all(&mut driver);
    let (told, _) = follow(&*reader, &cursor, 9);
    assert_eq!(told.iter().map(|(run, event)| (*run, event.seq)).collect::<Vec<_>>(), [(run, 2)]);
}

/// A cursor is kept as a text, and a tail goes on from there after the process has died.
pub fn a_tail_goes_on_after_a_restart<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let begin = driver.store.reader().cursor().expect("is there");
    let runs = some_events(&mut driver);
    let reader = driver.store.reader();
    let first = reader.tail(&begin, 4).expect("goes on");
    let all = follow(&*reader, &begin, 99);
    drop(reader);
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    driver.act(runs[0], Command::Cancel { by: user(), reason: None });
    settle_all(&mut driver);
    let reader = driver.store.reader();
    let cursor = |cursor: &Cursor| -> Cursor { cursor.to_string().parse().expect("as it was told") };
    let (later, _) = follow(&*reader, &cursor(&all.1), 99);
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].0, runs[0]);
    let (rest, _) = follow(&*reader, &cursor(&first.next), 3);
    let told: Vec<(RunId, Event)> = [first.events, rest].concat();
    assert_eq!(told, [all.0, later].concat(), "nothing is told twice, nothing is left out");
}

/// The events of a run that was forgotten are told no more, and what comes after them is.
pub fn who_is_forgotten_is_told_no_more<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let begin = driver.store.reader().cursor().expect("is there");
    let runs = some_events(&mut driver);
    driver.act(runs[2], Command::Cancel { by: user(), reason: None });
    settle_all(&mut driver);
    let all = follow(&*driver.store.reader(), &begin, 99);
    forget(&mut driver, runs[2]).expect("it is final");
    settle_all(&mut driver);
    let reader = driver.store.reader();
    let left: Vec<_> = all.0.iter().filter(|(run, _)| *run != runs[2]).cloned().collect();
    assert_eq!(follow(&*reader, &begin, 2).0, left);
    // Its last event was the last of all: the place of it is not given again.
    driver.act(runs[0], pause());
    settle_all(&mut driver);
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    let (later, _) = follow(&*driver.store.reader(), &all.1, 9);
    assert_eq!(later.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [runs[0]]);
}

/// A cursor of another store, or of a place where this one never was, is refused with a sentence that says what to do.
pub fn a_cursor_of_another_store_is_refused<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, mut other) = (Driver::new(make()), Driver::new(make()));
    some_events(&mut driver);
    some_events(&mut other);
    let (reader, theirs) = (driver.store.reader(), other.store.reader().cursor().expect("is there"));
    let ours = reader.cursor().expect("is there");
    let older = Cursor { epoch: ours.epoch + 1, ..ours.clone() };
    let ahead = Cursor { position: ours.position + 1, ..ours.clone() };
    for cursor in [theirs, older, ahead] {
        let refused = reader.tail(&cursor, 9).expect_err("it is no place of this store");
        assert_eq!(refused, TailError::Gone);
        assert!(refused.to_string().contains("list the runs again"), "{refused}");
    }
    assert_eq!(reader.tail(&ours, 9).map(|page| page.events), Ok(Vec::new()));
}

/// Others follow while it works: each is told all of it, once.
pub fn others_follow_meanwhile<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let is_over = AtomicBool::new(false);
    let readers: Vec<_> = (0..2).map(|_| driver.store.reader()).collect();
    let begin = readers[0].cursor().expect("is there");
    thread::scope(|scope| {
        let follow = |reader: &dyn Reader| follow_until(reader, &begin, &is_over);
        let followers: Vec<_> = readers.iter().map(|reader| scope.spawn(move || follow(&**reader))).collect();
        for _ in 0..20 {
            let run = driver.start(&flow);
            for step in 0..2 {
                driver.work(run, step);
                driver.say(run, step, Report::Complete { output: large("output") });
            }
            settle_all(&mut driver);
        }
        is_over.store(true, Ordering::Relaxed);
        let all = follow_all(&*driver.store.reader(), &begin);
        for follower in followers {
            assert_eq!(follower.join().expect("follows"), all);
        }
    });
}

/// Whichever server writes, a tail tells it once, in the order in which it became durable.
pub fn a_tail_tells_what_all_of_them_write<S: SharedTestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let readers = [driver.store.reader(), driver.store.another().reader()];
    let begin = readers[0].cursor().expect("is there");
    let (mut stores, mut runs, mut cursors) = (Vec::new(), Vec::new(), vec![begin.clone(); 2]);
    let (mut told, mut expected) = ([Vec::new(), Vec::new()], Vec::new());
    for turn in 0..12_u64 {
        let run = driver.start(&flow);
        runs.push(run);
        expected.push((run, 1));
        driver.act(runs[0], if turn % 2 == 0 { pause() } else { Command::Unpause { by: user() } });
        expected.push((runs[0], turn + 2));
        // What one has staged becomes durable while another one has its turn.
        let (mut store, rest) = driver.split();
        let other = store.another();
        store.make_durable(usize::MAX);
        stores.push(store);
        driver = rest.continue_with(other);
        for ((reader, cursor), told) in readers.iter().zip(&mut cursors).zip(&mut told) {
            let (events, next) = follow(&**reader, cursor, 3);
            told.extend(events.into_iter().map(|(run, event)| (run, event.seq)));
            *cursor = next;
        }
    }
    assert_eq!(told[0], expected);
    assert_eq!(told[1], expected);
}

/// A tail from the start tells the histories of these runs, and nothing else.
pub(crate) fn same_tail(reader: &dyn Reader, runs: &[Run]) {
    let end = reader.cursor().expect("is there");
    let (events, next) = follow(reader, &Cursor { position: 0, ..end.clone() }, 50);
    assert_eq!(next, end);
    let mut by_run: BTreeMap<RunId, Vec<Event>> = BTreeMap::new();
    for (run, event) in events {
        by_run.entry(run).or_default().push(event);
    }
    assert!(by_run.keys().eq(runs.iter().rev().map(|run| &run.id)));
    for (run, events) in by_run {
        assert_eq!(Ok(events), reader.history(run, 0, usize::MAX));
    }
}

/// Follows a tail to its end: what it tells, and where it goes on.
pub(crate) fn follow(reader: &dyn Reader, from: &Cursor, limit: usize) -> (Vec<(RunId, Event)>, Cursor) {
    try_to_follow(reader, from, limit).expect("goes on")
}

/// The same, of a store whose process may die.
pub(crate) fn try_to_follow(
    reader: &dyn Reader,
    from: &Cursor,
    limit: usize,
) -> Result<(Vec<(RunId, Event)>, Cursor), TailError> {
    let (mut all, mut cursor) = (Vec::new(), from.clone());
    loop {
        let page = reader.tail(&cursor, limit)?;
        assert!(page.events.len() <= limit);
        all.extend(page.events);
        cursor = page.next;
        if page.is_end {
            return Ok((all, cursor));
        }
    }
}

fn follow_all(reader: &dyn Reader, from: &Cursor) -> Vec<(RunId, Event)> {
    follow(reader, from, 99).0
}

fn follow_until(reader: &dyn Reader, from: &Cursor, is_over: &AtomicBool) -> Vec<(RunId, Event)> {
    let (mut all, mut cursor) = (Vec::new(), from.clone());
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        let (events, next) = follow(reader, &cursor, 7);
        all.extend(events);
        cursor = next;
        if is_last {
            return all;
        }
    }
}

/// Three runs whose events are between each other, all of them durable.
fn some_events<S: TestStore>(driver: &mut Driver<S>) -> Vec<RunId> {
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(driver.start(&flow));
        for run in &runs {
            driver.act(*run, pause());
            driver.act(*run, Command::Unpause { by: user() });
        }
    }
    settle_all(driver);
    runs
}

fn events_of(events: &[(RunId, Event)], run: RunId) -> Vec<Event> {
    events.iter().filter(|(id, _)| *id == run).map(|(_, event)| event.clone()).collect()
}
