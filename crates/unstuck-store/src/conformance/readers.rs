//! Readers: they show what is durable and only that, to any thread, and whatever somebody was told of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use unstuck_core::command::{Command, Report, StartInput};
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::model::run::{Run, RunState, Slot};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::{Millis, Time};

use crate::conformance::driver::{Driver, large, user};
use crate::conformance::flows::{action, limited, sequence};
use crate::conformance::forgetting::forget;
use crate::conformance::lists::{filters_like, same_orders};
use crate::conformance::notices::family;
use crate::conformance::policies::fail;
use crate::conformance::restarts::settle_all;
use crate::conformance::tails::same_tail;
use crate::conformance::transactions::pause;
use crate::conformance::{TestStore, settle};
use crate::contract::{
    ErrorFilter, ErrorGroup, GroupFilter, GroupPlace, OpenErrorFilter, Reader, RunFilter, SetAside, Store,
    StoreError,
};

/// Whoever was told that a stage is durable reads it; what nobody was told of may be there whole, or not at all.
pub fn who_was_answered_reads_what_was_done<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let reader = driver.store.reader();
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    assert_eq!(reader.flow(flow.id).map(|flow| flow.map(|flow| flow.name)), Ok(Some("f".into())));
    let run = driver.start_with(&flow, |start| start.key = Some("k".into()));
    assert_eq!(settle(&mut driver.store, 1), []);
    assert_eq!(reader.run(run), Ok(Some(driver.run(run))));
    assert_eq!(reader.run_of_key("f", "k"), Ok(Some(run)));
    for step in 0..2 {
        driver.work(run, step);
        driver.say(run, step, Report::Complete { output: large("output") });
        settle_all(&mut driver);
        let expected = driver.run(run);
        assert_eq!(reader.run(run), Ok(Some(expected.clone())));
        let listed = reader.list(&RunFilter::default(), None, 9).expect("lists");
        assert_eq!(listed, [RunSummary::of(&expected)]);
        assert_eq!(reader.last_time(), driver.store.last_time());
    }
    assert_eq!(reader.count_runs(Time(0)), Ok(BTreeMap::from([(("f".into(), RunState::Completed), 1)])));
    same_as_store(&mut driver.store);
}

/// What has failed was never shown, and is not shown later.
pub fn what_is_not_durable_is_not_shown<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let reader = driver.store.reader();
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let run = driver.start(&flow);
    settle_all(&mut driver);
    let durable = driver.run(run);
    driver.work(run, 0);
    driver.say(run, 0, Report::Complete { output: large("lost") });
    let other = driver.start_with(&flow, |start| start.key = Some("k".into()));
    // Before it has failed: here it is known that none of it is durable.
    let shown = (reader.run(run), reader.run(other), reader.run_of_key("f", "k"));
    let failed = driver.store.fail_next(&StoreError::Away("the disk".into()));
    if failed == 0 {
        return;
    }
    assert_eq!(shown, (Ok(Some(durable.clone())), Ok(None), Ok(None)));
    assert_eq!(settle(&mut driver.store, failed).len(), failed);
    assert_eq!(reader.run(run), Ok(Some(durable.clone())));
    assert_eq!(reader.run(other), Ok(None));
    assert_eq!(reader.history(run, 0, 99).map(|events| events.len() as u64), Ok(durable.seq));
    assert_eq!(reader.list(&RunFilter::default(), None, 9), Ok(vec![RunSummary::of(&durable)]));
    same_as_store(&mut driver.store);
}

/// Whatever a reader has shown is there after the process has died.
pub fn what_was_shown_survives_a_crash<S: TestStore>(make: &mut dyn FnMut() -> S) {
    for stages in 0..6 {
        let mut driver = Driver::new(make());
        let reader = driver.store.reader();
        let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
        let runs: Vec<RunId> = (0..3).map(|_| driver.start(&flow)).collect();
        for run in &runs {
            driver.work(*run, 0);
            driver.say(*run, 0, Report::Complete { output: large("output") });
        }
        driver.store.make_durable(stages);
        let shown: Vec<RunSummary> = reader.list(&RunFilter::default(), None, 9).expect("lists");
        let store = driver.split().0.reopen();
        let mut driver = Driver::new(store);
        for run in shown {
            let found = driver.run(run.id);
            assert!(found.seq >= run.seq, "{run:?} was shown, and is {found:?} now");
        }
        same_as_store(&mut driver.store);
    }
}

/// A reader sees all that the store does once everything is durable: runs at rest and under way, children, errors, slots.
pub fn a_reader_sees_all_that_is_there<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let reader = driver.store.reader();
    let flow = driver.keep(limited(sequence("g", vec![action("q"), action("r")]), 2));
    for place in 0..5 {
        let input = StartInput::New(large("input"));
        let run = driver.start_with(&flow, |start| {
            start.input = input;
            start.key = Some(format!("k{place}").into());
        });
        driver.start(&parent);
        driver.deliver_all(9);
        if place < 2 {
            driver.act(run, Command::Admit);
        }
        driver.pass(Millis(1_000));
    }
    settle_all(&mut driver);
    same_as_store(&mut driver.store);
    let first = driver.store.run_of_key("g", "k0").expect("reads").expect("is there");
    fail(&mut driver, first, "connection reset");
    driver.act(first, pause());
    let aside = SetAside { since: driver.now, why: "a bug".into(), next_try: None };
    driver.store.set_aside(first, aside.clone());
    assert_eq!(reader.set_aside_record(first), Some(aside));
    driver.store.release(first);
    assert_eq!(reader.set_aside_record(first), None);
    driver.act(first, Command::Cancel { by: user(), reason: None });
    settle_all(&mut driver);
    same_as_store(&mut driver.store);
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    same_as_store(&mut driver.store);
    forget(&mut driver, first).expect("it is final");
    settle_all(&mut driver);
    assert_eq!(driver.store.reader().run(first), Ok(None));
    same_as_store(&mut driver.store);
}

/// A long history is read in pages from anywhere.
pub fn a_long_history_is_read_from_its_middle<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let (run, other) = (driver.start(&flow), driver.start(&flow));
    for _ in 0..100 {
        for id in [run, other] {
            driver.act(id, pause());
            driver.act(id, Command::Unpause { by: user() });
        }
    }
    settle_all(&mut driver);
    let reader = driver.store.reader();
    let all = reader.history(run, 0, usize::MAX).expect("reads");
    assert_eq!(all.len(), 201);
    for after in [0, 1, 62, 63, 64, 65, 127, 128, 190, 200, 201, 300] {
        for limit in [0, 1, 2, 63, 64, 65, 300] {
            let page: Vec<_> = all.iter().skip(after).take(limit).cloned().collect();
            assert_eq!(reader.history(run, after as u64, limit), Ok(page), "{limit} after {after}");
        }
    }
}

/// Others read while it works: what they see of a run only grows, and nothing is in their way.
pub fn others_read_meanwhile<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let is_over = AtomicBool::new(false);
    let readers: Vec<_> = (0..2).map(|_| driver.store.reader()).collect();
    thread::scope(|scope| {
        for reader in &readers {
            scope.spawn(|| watch(&**reader, &is_over));
        }
        for _ in 0..20 {
            let run = driver.start(&flow);
            for step in 0..2 {
                driver.work(run, step);
                driver.say(run, step, Report::Complete { output: large("output") });
            }
            settle_all(&mut driver);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    same_as_store(&mut driver.store);
}

fn watch(reader: &dyn Reader, is_over: &AtomicBool) {
    let mut seen: BTreeMap<RunId, u64> = BTreeMap::new();
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        let listed = reader.list(&RunFilter::default(), None, 99).expect("lists");
        assert!(listed.is_sorted_by(|newer, older| newer.id > older.id));
        assert!(listed.len() >= seen.len(), "nothing is forgotten here");
        for run in listed {
            let history = reader.history(run.id, 0, 99).expect("reads");
            assert!(history.iter().map(|event| event.seq).eq(1..=history.len() as u64));
            assert!(history.len() as u64 >= run.seq);
            let before = seen.insert(run.id, run.seq);
            assert!(before.is_none_or(|before| before <= run.seq), "{run:?} was at {before:?}");
        }
        if is_last {
            return;
        }
    }
}

/// A reader shows all that a store of which everything is durable does.
pub fn same_as_store<S: Store>(store: &mut S) {
    same_as_store_in(store, |_| true);
}

/// The same, with those of the filters of lists that are chosen by their places.
pub fn same_as_store_in<S: Store>(store: &mut S, is_chosen: impl Fn(usize) -> bool) {
    let reader = store.reader();
    let all = store.list(&RunFilter::default(), None, usize::MAX).expect("lists");
    let summaries: Vec<RunSummary> = all.iter().map(RunSummary::of).collect();
    assert_eq!(reader.list(&RunFilter::default(), None, usize::MAX), Ok(summaries));
    let mut payloads: Vec<PayloadId> = Vec::new();
    for run in &all {
        let id = run.id;
        assert_eq!(reader.run(id), Ok(Some(run.clone())));
        let history = store.history(id, 0, usize::MAX).expect("reads");
        for (after, limit) in [(0, 3), (run.seq / 2, 2), (run.seq.saturating_sub(1), 9), (run.seq, 9)] {
            assert_eq!(reader.history(id, after, limit), store.history(id, after, limit));
        }
        for event in &history {
            event.for_each_payload(|payload| payloads.push(payload));
        }
        assert_eq!(reader.history(id, 0, usize::MAX), Ok(history.clone()));
        let whole = reader.run(id).expect("reads").map(|run| (run, history));
        assert_eq!((reader.has_run(RunId(0)), reader.has_run(id)), (Ok(false), Ok(true)), "{id}");
        assert_eq!(reader.runs_with_history(&[RunId(0), id]), Ok(vec![None, whole]), "{id}");
        assert_eq!(reader.logs(id), store.logs(id));
        if let Slot::Taken(limit) | Slot::Wanted(limit) = &run.slot {
            assert_eq!(reader.slot_holders(&limit.name, 9), store.slot_holders(&limit.name, 9));
        }
    }
    assert_eq!(reader.payloads(&payloads), store.payloads(&payloads));
    same_lists(store, &*reader, is_chosen);
    same_orders(store);
    same_errors(store, &*reader);
    same_tail(&*reader, &all);
    let mut due: BTreeMap<RunId, Time> = BTreeMap::new();
    for timer in store.timers(None, usize::MAX).expect("reads") {
        due.entry(timer.run).or_insert(timer.due);
    }
    let upcoming: BTreeMap<RunId, Time> =
        reader.upcoming(usize::MAX).expect("reads").into_iter().map(|(time, run)| (run, time)).collect();
    assert!(upcoming.keys().eq(due.keys()), "{upcoming:?} for {due:?}");
    assert!(due.iter().all(|(run, due)| upcoming[run] <= *due), "{upcoming:?} for {due:?}");
    assert_eq!(reader.clock(), store.clock());
    assert_eq!(reader.last_time(), store.last_time());
}

fn same_lists(store: &mut impl Store, reader: &dyn Reader, is_chosen: impl Fn(usize) -> bool) {
    let flows = store.flows(None, usize::MAX).expect("reads");
    let mut filters: Vec<RunFilter> = Vec::new();
    let all = RunFilter::default;
    filters.push(RunFilter { roots_only: true, ..all() });
    for state in RunState::ALL {
        filters.push(RunFilter { states: vec![state], ..all() });
        filters.push(RunFilter { states: vec![state, RunState::Error], roots_only: true, ..all() });
        filters.extend(flows.iter().take(3).map(|flow| RunFilter {
            states: vec![state],
            flow: Some(flow.name.clone()),
            ..all()
        }));
    }
    for flow in &flows {
        filters.push(RunFilter { flow: Some(flow.name.clone()), ..all() });
        filters.push(RunFilter { versions: Some(vec![flow.id]), ..all() });
    }
    let listed = store.list(&all(), None, usize::MAX).expect("lists");
    for run in listed.iter().take(5) {
        filters.push(RunFilter { parent: Some(run.id), ..all() });
        filters.push(RunFilter { key: run.key.clone(), ..all() });
        filters.push(RunFilter { since: Some(run.created_at), ..all() });
        filters.push(RunFilter { until: Some(run.created_at), roots_only: true, ..all() });
        filters.extend(filters_like(run));
    }
    let (oldest, newest) = (listed.last().map(|run| run.id), listed.first().map(|run| run.id));
    let middle = listed.get(listed.len() / 2).map(|run| run.id);
    for (_, filter) in (0..).zip(filters).filter(|(place, _)| is_chosen(*place)) {
        for before in [None, oldest, middle, newest] {
            for limit in [2, usize::MAX] {
                let expected = store.list(&filter, before, limit).expect("lists");
                let expected: Vec<RunSummary> = expected.iter().map(RunSummary::of).collect();
                let found = reader.list(&filter, before, limit);
                assert_eq!(found, Ok(expected), "{filter:?} before {before:?}, {limit}");
            }
        }
    }
    for since in [Time(0), listed.get(listed.len() / 2).map_or(Time(1), |run| run.created_at)] {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        let first = RunId::first_at(since);
        let is_counted = |run: &&Run| run.origin.parent().is_none() && (!run.is_final() || run.id >= first);
        for run in listed.iter().filter(is_counted) {
            let flow = flows.iter().find(|flow| flow.id == run.flow).expect("is kept");
            *counts.entry((flow.name.clone(), run.state())).or_default() += 1;
        }
        assert_eq!(reader.count_runs(since), Ok(counts.clone()));
        let mut by_state: BTreeMap<RunState, u64> = BTreeMap::new();
        for ((_, state), count) in counts {
            *by_state.entry(state).or_default() += count;
        }
        assert_eq!(store.count_runs(since), Ok(by_state));
    }
    let known = reader.flows(None, usize::MAX).expect("reads");
    assert_eq!(known, flows);
    let second = reader.flows(known.first().map(|flow| flow.id), 1);
    assert_eq!(second, Ok(known.iter().skip(1).take(1).cloned().collect()));
    assert!(known.iter().all(|flow| reader.flow(flow.id) == Ok(Some(flow.clone()))));
}

fn same_errors(store: &mut impl Store, reader: &dyn Reader) {
    let (errors, open, groups) = (ErrorFilter::default(), OpenErrorFilter::default(), GroupFilter::default());
    let most = usize::MAX;
    assert_eq!(reader.errors(&errors, None, most), store.errors(&errors, None, most));
    assert_eq!(reader.open_errors(&open, None, most), store.open_errors(&open, None, most));
    let all = store.error_groups(&groups, most).expect("reads");
    let mut found: Vec<ErrorGroup> = Vec::new();
    loop {
        let after = found.last().map(|last| GroupPlace { last: last.last, group: last.group.clone() });
        let page = reader.error_groups(&groups, after.as_ref(), 2).expect("reads");
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, all, "in pages of two");
    assert_eq!(reader.policy_hits(), store.policy_hits());
    assert_eq!(reader.policy_audit(None, most), store.policy_audit(None, most));
    let kept = (store.policies().expect("reads"), store.policy_switch().expect("reads"));
    assert_eq!(reader.policies(), Ok(kept));
    for open_only in [true, false] {
        let bulks = store.bulks(open_only, None, most);
        assert_eq!(reader.bulks(open_only, None, most), bulks);
        for bulk in bulks.expect("reads") {
            assert_eq!(reader.targets(bulk.id, None, 0, most), store.targets(bulk.id, None, 0, most));
            assert_eq!(reader.bulk(bulk.id), Ok(Some(bulk)));
        }
    }
}
