//! Reading: runs, their history, payloads, and lists with filters and pages.

use std::collections::BTreeMap;

use unstuck_core::command::{Command, Report, StartInput};
use unstuck_core::evolve::replay;
use unstuck_core::id::{PayloadId, RunId};
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::flow::Step;
use unstuck_core::model::recovery::RetryStrategy;
use unstuck_core::model::run::RunState;
use unstuck_core::time::{Millis, Time};

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, large, user};
use crate::conformance::flows::{action, graph, sequence};
use crate::conformance::notices::{children, family};
use crate::conformance::policies::fail;
use crate::conformance::restarts::settle_all;
use crate::contract::{ErrorFilter, RunFilter};

/// What is not there is not there.
pub fn an_empty_store_is_empty<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    assert_eq!(store.run(RunId(1)), Ok(None));
    assert_eq!(store.history(RunId(1), 0, 9), Ok(vec![]));
    assert_eq!(store.list(&RunFilter::default(), None, 9), Ok(vec![]));
    assert_eq!(store.payloads(&[PayloadId(1)]), Ok(vec![None]));
    assert_eq!(store.payloads(&[]), Ok(vec![]));
    assert_eq!(store.notices(9), Ok(vec![]));
    assert_eq!(store.admissible_runs(9), Ok(vec![]));
    assert_eq!(store.next_due(), Ok(None));
    assert!(store.settle(true).is_empty());
}

/// The history has every event, without gaps, in pages of any size, and gives the state of the run.
pub fn a_history_is_read_in_pages<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a"), action("b")]));
    let run = driver.start(&flow);
    driver.start(&flow);
    for step in 0..2 {
        driver.work(run, step);
        driver.say(run, step, Report::Complete { output: large("output") });
    }
    driver.act(run, Command::rerun(unstuck_core::command::Rerun::All, user()));
    let all = driver.store.history(run, 0, usize::MAX).expect("reads");
    assert!(all.iter().map(|event| event.seq).eq(1..=8));
    assert_eq!(all.last().map(|event| event.generation), Some(2));
    assert_eq!(replay(&all), Some(driver.run(run)));
    for limit in 0..=9 {
        for after in 0..=9_usize {
            let page = driver.store.history(run, after as u64, limit).expect("reads");
            let expected: Vec<_> = all.iter().skip(after).take(limit).cloned().collect();
            assert_eq!(page, expected, "{limit} after {after}");
        }
    }
}

/// Payloads are given in the order that was asked for, as they came, as often as somebody asks.
pub fn payloads_are_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let texts = [
        large("one"),
        large("two \\u00e9"),
        Json::parse(&format!("[1, {}2.50]", " ".repeat(200))).expect("ok"),
    ];
    let mut ids = Vec::new();
    for text in &texts {
        let run = driver.start_with(&flow, |start| start.input = StartInput::New(text.clone()));
        let Payload::Stored(id) = driver.run(run).input else { panic!("a large input is stored apart") };
        ids.push(id);
    }
    let wanted = [ids[2], PayloadId(1), ids[0], ids[1], ids[2]];
    let [one, two, three] = texts;
    let expected = vec![Some(three.clone()), None, Some(one), Some(two), Some(three)];
    assert_eq!(driver.store.payloads(&wanted), Ok(expected));
}

/// Runs are listed newest first, in pages, by state, flow and parent.
pub fn runs_are_listed_newest_first<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let other = driver.keep(sequence("other", vec![action("q")]));
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(driver.start(&parent));
        driver.deliver_all(9);
        all.push(driver.start(&other));
    }
    let paused = all[1];
    driver.act(paused, crate::conformance::transactions::pause());
    let first = all[0];
    let born = children(&mut driver, first);
    assert_eq!(born.len(), 2);
    let everything = list(&mut driver, &RunFilter::default(), None, 99);
    assert_eq!(everything.len(), 12);
    assert!(everything.is_sorted_by(|newer, older| newer > older), "{everything:?}");

    let by_flow = RunFilter { flow: Some("other".into()), ..RunFilter::default() };
    assert_eq!(list(&mut driver, &by_flow, None, 99), [all[5], all[3], all[1]]);
    let by_state = RunFilter { states: vec![RunState::Paused], ..RunFilter::default() };
    assert_eq!(list(&mut driver, &by_state, None, 99), [paused]);
    let by_parent = RunFilter { parent: Some(first), ..RunFilter::default() };
    assert_eq!(list(&mut driver, &by_parent, None, 99), born);
    let roots = RunFilter { roots_only: true, ..RunFilter::default() };
    let oldest_last: Vec<RunId> = all.iter().rev().copied().collect();
    assert_eq!(list(&mut driver, &roots, None, 99), oldest_last);
    pages(&mut driver, &roots, &oldest_last);
    let both = RunFilter { states: vec![RunState::Running], ..by_flow };
    assert_eq!(list(&mut driver, &both, None, 99), [all[5], all[3]]);
    let nobody = RunFilter { flow: Some("nobody's".into()), ..RunFilter::default() };
    assert_eq!(list(&mut driver, &nobody, None, 99), []);
    pages(&mut driver, &RunFilter::default(), &everything);
    pages(&mut driver, &both, &[all[5], all[3]]);
}

/// The new version of a flow has the same name: its runs are listed with those of the old one.
pub fn versions_are_listed_together<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let old = driver.keep(sequence("f", vec![action("a")]));
    let first = driver.start(&old);
    let new = driver.keep(sequence("f", vec![action("b")]));
    let second = driver.start(&new);
    let filter = RunFilter { flow: Some("f".into()), ..RunFilter::default() };
    assert_eq!(list(&mut driver, &filter, None, 9), [second, first]);
}

/// A run with a step in error or held is found by that state, whatever else goes on in it; and by its key, its version, the
/// time of its start, and its errors, open or past. Also after a restart.
pub fn runs_are_found_by_what_they_have<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![action("q"), action("r")]));
    let held = Step { retry: RetryStrategy::Hold { max_attempts: None }, ..action("q") };
    let holding = driver.keep(graph("g", vec![held, action("r")]));
    let mut runs = Vec::new();
    for flow in [&flow, &holding, &flow, &flow] {
        let key = format!("k{}", runs.len() / 2 * 2 + runs.len() / 3);
        runs.push(driver.start_with(flow, |start| start.key = Some(key.into())));
        driver.pass(Millis(1_000));
    }
    let [erring, holds, ended, other] = runs[..] else { panic!("{runs:?}") };
    let times: Vec<Time> = runs.iter().map(|run| driver.run(*run).created_at).collect();
    for run in [erring, holds] {
        driver.work(run, 1);
        fail(&mut driver, run, "connection reset");
    }
    fail(&mut driver, ended, "no such file /a/1");
    driver.act(ended, Command::Cancel { by: user(), reason: None });
    let group = driver.store.errors(&ErrorFilter::default(), None, 1).expect("reads")[0].1.group.clone();

    let all = RunFilter::default;
    let states = |states: &[RunState]| RunFilter { states: states.to_vec(), ..RunFilter::default() };
    let cause = |cause: &str| RunFilter { cause: Some(cause.into()), ..RunFilter::default() };
    let both = RunFilter { group: Some(group.clone()), ..cause("no such") };
    let cases: Vec<(RunFilter, Vec<RunId>)> = vec![
        (states(&[RunState::Error]), vec![erring]),
        (states(&[RunState::Held]), vec![holds]),
        (states(&[RunState::Running]), vec![other, holds, erring]),
        (states(&[RunState::Held, RunState::Error]), vec![holds, erring]),
        (states(&[RunState::Cancelled, RunState::Error]), vec![ended, erring]),
        (states(&[RunState::Cancelled, RunState::Completed]), vec![ended]),
        (states(&[RunState::Paused, RunState::Waiting]), vec![]),
        (RunFilter { key: Some("k0".into()), ..all() }, vec![holds, erring]),
        (RunFilter { key: Some("k0".into()), until: Some(times[1]), ..all() }, vec![erring]),
        (RunFilter { key: Some("k9".into()), ..all() }, vec![]),
        (RunFilter { versions: Some(vec![holding.id]), ..all() }, vec![holds]),
        (RunFilter { versions: Some(vec![]), ..all() }, vec![]),
        (RunFilter { since: Some(times[2]), ..all() }, vec![other, ended]),
        (RunFilter { until: Some(times[2]), ..all() }, vec![holds, erring]),
        (RunFilter { since: Some(times[1]), until: Some(times[3]), ..all() }, vec![ended, holds]),
        (RunFilter { group: Some(group), ..all() }, vec![erring]),
        (both, vec![]),
        (cause("connection"), vec![holds, erring]),
        (RunFilter { states: vec![RunState::Held], ..cause("connection") }, vec![holds]),
        (cause("no such file /a"), vec![ended]),
        (cause("Connection"), vec![]),
    ];
    let counts = |states: [(RunState, u64); 2]| Ok(BTreeMap::from(states));
    for _ in 0..2 {
        for (filter, expected) in &cases {
            assert_eq!(list(&mut driver, filter, None, 99), *expected, "{filter:?}");
            pages(&mut driver, filter, expected);
        }
        let everything = counts([(RunState::Running, 3), (RunState::Cancelled, 1)]);
        assert_eq!(driver.store.count_runs(Time(0)), everything);
        assert_eq!(driver.store.count_runs(times[2]), everything);
        let open = BTreeMap::from([(RunState::Running, 3)]);
        assert_eq!(driver.store.count_runs(times[3]), Ok(open), "what has ended is older");
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

fn pages<S: TestStore>(driver: &mut Driver<S>, filter: &RunFilter, expected: &[RunId]) {
    for size in 1..=expected.len() + 1 {
        let mut found: Vec<RunId> = Vec::new();
        loop {
            let before = found.last().copied();
            let page = list(driver, filter, before, size);
            assert!(page.len() <= size && page.iter().all(|run| before.is_none_or(|before| *run < before)));
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected, "in pages of {size}");
    }
    assert_eq!(list(driver, filter, None, 0), []);
}

fn list<S: TestStore>(
    driver: &mut Driver<S>,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Vec<RunId> {
    driver.store.list(filter, before, limit).expect("lists").into_iter().map(|run| run.id).collect()
}
