//! Errors: each is recorded once, in order of time; what is open is known, and what is alike is counted together.

use std::sync::Arc;

use unstuck_core::command::{Command, Report};
use unstuck_core::errors::{ErrorRecord, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Flow, Step, StepIndex};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::PolicySwitch;
use unstuck_core::time::{Millis, Time};

use crate::conformance::contents::contents;
use crate::conformance::driver::{Ask, Driver, user, worker};
use crate::conformance::flows::{action, each, graph, sequence};
use crate::conformance::policies::{complete, fail, policy};
use crate::conformance::restarts::settle_all;
use crate::conformance::{TestStore, settle};
use crate::contract::{
    ErrorFilter, ErrorGroup, ErrorId, GroupFilter, OpenErrorFilter, PolicyChange, Stage, StoreError,
};

/// Every error, oldest first, by any filter, in pages of any size, also after a restart.
pub fn errors_are_recorded_in_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy(make());
    let all = driver.store.errors(&ErrorFilter::default(), None, usize::MAX).expect("reads");
    let causes: Vec<&str> = all.iter().map(|(_, error)| &*error.cause).collect();
    assert_eq!(causes, ["connection reset", "no such file /a/1", "connection reset", "no such file /a/2"]);
    assert!(all.is_sorted_by(|(a, earlier), (b, later)| a < b && earlier.at <= later.at));
    let whole = |filter: &ErrorFilter, error: &ErrorRecord| {
        filter.since.is_none_or(|since| error.at >= since)
            && filter.until.is_none_or(|until| error.at < until)
            && filter.group.as_ref().is_none_or(|group| error.group == *group)
            && filter.flow.as_ref().is_none_or(|flow| error.root_flow == *flow)
            && filter.action.as_ref().is_none_or(|action| error.action == *action)
    };
    for _ in 0..2 {
        for filter in filters(&all) {
            let expected: Vec<_> = all.iter().filter(|(_, error)| whole(&filter, error)).cloned().collect();
            for limit in 1..6 {
                assert_eq!(pages(&mut driver, &filter, limit), expected, "{filter:?} in pages of {limit}");
            }
            assert_eq!(driver.store.errors(&filter, None, 0), Ok(vec![]));
        }
        settle_all(&mut driver);
        for filter in filters(&all) {
            let newest_first: Vec<_> =
                all.iter().rev().filter(|(_, error)| whole(&filter, error)).cloned().collect();
            for limit in 1..6 {
                let found = pages_before(&mut driver, &filter, limit);
                assert_eq!(found, newest_first, "{filter:?} in pages of {limit}, newest first");
            }
        }
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

/// All pages of what is durable, newest first.
fn pages_before<S: TestStore>(
    driver: &mut Driver<S>,
    filter: &ErrorFilter,
    limit: usize,
) -> Vec<(ErrorId, ErrorRecord)> {
    let reader = driver.store.reader();
    let mut found: Vec<(ErrorId, ErrorRecord)> = Vec::new();
    loop {
        let before = found.last().map(|(id, _)| *id);
        let page = reader.errors_before(filter, before, limit).expect("reads");
        assert!(page.len() <= limit);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

/// Every filter that could tell these errors apart, and some that find nothing.
fn filters(all: &[(ErrorId, ErrorRecord)]) -> Vec<ErrorFilter> {
    let mut filters = vec![ErrorFilter::default()];
    let nothing: Arc<str> = "nothing".into();
    let times = all.iter().map(|(_, error)| error.at);
    for time in times.chain([Time(0), Time(i64::MAX)]) {
        let (since, until) = (Some(time), Some(time));
        filters.push(ErrorFilter { since, ..ErrorFilter::default() });
        filters.push(ErrorFilter { until, ..ErrorFilter::default() });
        filters.push(ErrorFilter { since, until: Some(time + Millis(1)), ..ErrorFilter::default() });
    }
    for error in all.iter().map(|(_, error)| Some(error)).chain([None]) {
        let group = Some(error.map_or(&nothing, |error| &error.group).clone());
        let flow = Some(error.map_or(&nothing, |error| &error.root_flow).clone());
        let action = Some(error.map_or(&nothing, |error| &error.action).clone());
        let since = error.map(|error| error.at);
        filters.push(ErrorFilter { group: group.clone(), ..ErrorFilter::default() });
        filters.push(ErrorFilter { flow: flow.clone(), ..ErrorFilter::default() });
        filters.push(ErrorFilter { action: action.clone(), ..ErrorFilter::default() });
        filters.push(ErrorFilter { group, flow, action, since, until: None });
    }
    filters
}

fn pages<S: TestStore>(
    driver: &mut Driver<S>,
    filter: &ErrorFilter,
    limit: usize,
) -> Vec<(ErrorId, ErrorRecord)> {
    let mut found: Vec<(ErrorId, ErrorRecord)> = Vec::new();
    loop {
        let after = found.last().map(|(id, _)| *id);
        let page = driver.store.errors(filter, after, limit).expect("reads");
        assert!(page.len() <= limit);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

/// A step is open while it is in error, with what will become of it.
pub fn what_is_in_error_is_open<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q"), action("r")]));
    let run = driver.start(&flow);
    assert_eq!(open(&mut driver), []);
    fail(&mut driver, run, "connection reset");
    let shown = |error: &OpenError| (error.resume.is_some(), error.acknowledged);
    let opened = open(&mut driver);
    assert_eq!(opened.iter().map(shown).collect::<Vec<_>>(), [(false, false)]);
    assert_eq!(opened[0].record, driver.store.errors(&ErrorFilter::default(), None, 9).expect("reads")[0].1);
    let by = user;
    driver.act(run, Command::Acknowledge { unit: None, by: by(), reason: None });
    assert_eq!(open(&mut driver).iter().map(shown).collect::<Vec<_>>(), [(false, true)]);
    let resume = || Command::Resume { unit: None, by: by(), reason: None, changes: Box::default() };
    driver.act(run, resume());
    assert_eq!(open(&mut driver), [], "it has been resumed");
    let policies = vec![policy("p", 1, "reset")];
    driver
        .put_policies(PolicyChange {
            policies,
            switch: PolicySwitch::default(),
            changes: vec![],
            ..PolicyChange::default()
        })
        .expect("kept");
    fail(&mut driver, run, "connection reset");
    assert_eq!(open(&mut driver).iter().map(shown).collect::<Vec<_>>(), [(true, false)]);
    driver.act(run, resume());
    complete(&mut driver, run);
    assert_eq!(open(&mut driver), []);
    let unit = UnitRef::step(StepIndex(1));
    driver.work(run, 1);
    let attempt = driver.attempt(run, unit);
    let says = Report::Fail { error: Box::new(Error::new("broke")), fatal: false };
    driver.act(run, Command::Report { attempt, report: says });
    assert_eq!(open(&mut driver).len(), 1);
    driver.act(run, Command::Cancel { by: by(), reason: None });
    assert_eq!(open(&mut driver), [], "it is over");
    contents(&mut driver.store, driver.flows.values()).check();
}

/// Open errors are found by any filter, by run and unit, in pages of any size, also after a restart.
pub fn open_errors_are_read_in_pages<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy(make());
    let flow = driver.keep(graph("g", vec![Step { queue: "q".into(), ..each("e", 3) }, action("q")]));
    let run = driver.start(&flow);
    for unit in driver.run(run).units_where(|_| true) {
        driver.act(run, Command::Claim { unit, worker: worker("w") });
        let attempt = driver.attempt(run, unit);
        let says = Report::Fail { error: Box::new(Error::new("connection reset")), fatal: false };
        driver.act(run, Command::Report { attempt, report: says });
    }
    let all = open(&mut driver);
    let place = |error: &OpenError| (error.record.run, error.record.unit);
    assert_eq!(all.iter().filter(|error| error.record.run == run).count(), 4, "each item, and the step");
    assert!(all.is_sorted_by(|a, b| place(a) < place(b)));
    for _ in 0..2 {
        for filter in open_filters(&all) {
            let wanted = |error: &&OpenError| {
                let policy = error.resume.as_ref().map(|(_, policy)| &policy.id);
                filter.group.as_ref().is_none_or(|group| error.record.group == *group)
                    && filter.flow.as_ref().is_none_or(|flow| error.record.root_flow == *flow)
                    && filter.action.as_ref().is_none_or(|action| error.record.action == *action)
                    && filter.policy.as_ref().is_none_or(|wanted| policy == Some(wanted))
                    && filter.run.is_none_or(|run| error.record.run == run)
            };
            let expected: Vec<OpenError> = all.iter().filter(wanted).cloned().collect();
            for limit in 1..8 {
                let mut found: Vec<OpenError> = Vec::new();
                loop {
                    let page = driver.store.open_errors(&filter, found.last().map(place), limit);
                    let page = page.expect("reads");
                    if page.is_empty() {
                        break;
                    }
                    assert!(page.len() <= limit);
                    found.extend(page);
                }
                assert_eq!(found, expected, "{filter:?} in pages of {limit}");
            }
        }
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

fn open_filters(all: &[OpenError]) -> Vec<OpenErrorFilter> {
    let none = OpenErrorFilter::default;
    let mut filters = vec![
        none(),
        OpenErrorFilter { group: Some("nothing".into()), ..none() },
        OpenErrorFilter { policy: Some("nobody".into()), ..none() },
        OpenErrorFilter { run: Some(RunId(1)), ..none() },
    ];
    for OpenError { record, resume, .. } in all {
        let (group, flow, action) =
            (Some(record.group.clone()), Some(record.root_flow.clone()), Some(record.action.clone()));
        let policy = resume.as_ref().map(|(_, policy)| policy.id.clone());
        let run = Some(record.run);
        filters.extend([
            OpenErrorFilter { group: group.clone(), ..none() },
            OpenErrorFilter { flow: flow.clone(), ..none() },
            OpenErrorFilter { action: action.clone(), ..none() },
            OpenErrorFilter { policy: policy.clone(), ..none() },
            OpenErrorFilter { run, ..none() },
            OpenErrorFilter { group, flow, action, policy, run },
        ]);
    }
    filters
}

/// What is alike is counted together, with what is open of it; the group that was seen last comes first.
pub fn errors_are_grouped<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy(make());
    for _ in 0..2 {
        let groups = driver.store.error_groups(&GroupFilter::default(), 9).expect("reads");
        let shown: Vec<_> = groups.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                ("f.q", 2, vec![("f", 2)], (2, 2, 0), vec![]),
                ("f.q", 1, vec![("f", 1)], (1, 1, 0), vec![("p", 1)]),
                ("g.q", 1, vec![("g", 1)], (0, 0, 1), vec![]),
            ]
        );
        assert!(groups[0].pattern.starts_with("no such file"), "{}", groups[0].pattern);
        assert_eq!(groups[0].last, driver.now);
        assert!(groups[0].first < groups[0].last);
        let examples: Vec<&str> = groups[0].examples.iter().map(|error| &*error.cause).collect();
        assert_eq!(examples, ["no such file /a/2", "no such file /a/1"], "newest first");
        let none = GroupFilter::default;
        let cases = [
            (GroupFilter { group: Some(groups[1].group.clone()), ..none() }, vec![1]),
            (GroupFilter { flow: Some("f".into()), ..none() }, vec![0, 1]),
            (GroupFilter { action: Some("g.q".into()), ..none() }, vec![2]),
            (GroupFilter { since: Some(groups[1].last), ..none() }, vec![0, 1]),
            (GroupFilter { since: Some(groups[0].last), ..none() }, vec![0]),
            (GroupFilter { since: Some(groups[0].last + Millis(1)), ..none() }, vec![]),
            (GroupFilter { flow: Some("f".into()), action: Some("g.q".into()), ..none() }, vec![]),
        ];
        for (filter, places) in cases {
            let expected: Vec<ErrorGroup> =
                places.into_iter().map(|place: usize| groups[place].clone()).collect();
            assert_eq!(driver.store.error_groups(&filter, 9), Ok(expected), "{filter:?}");
        }
        for limit in 0..3 {
            let some = driver.store.error_groups(&none(), limit);
            assert_eq!(some, Ok(groups[..limit].to_vec()));
        }
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

type Shown<'a> = (&'a str, u64, Vec<(&'a str, u64)>, (u64, u64, u64), Vec<(&'a str, u64)>);

fn shown(group: &ErrorGroup) -> Shown<'_> {
    (
        &group.action,
        group.count,
        group.flows.iter().map(|(name, count)| (&**name, *count)).collect(),
        (group.open, group.runs, group.acknowledged),
        group.scheduled.iter().map(|(name, count)| (&**name, *count)).collect(),
    )
}

/// A group shows a few of its errors, the newest; runs are counted once, however many of their steps are in error.
pub fn a_group_shows_some_of_many<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("g", vec![Step { queue: "q".into(), ..each("e", 7) }]));
    let run = driver.start(&flow);
    for unit in driver.run(run).units_where(|_| true) {
        driver.act(run, Command::Claim { unit, worker: worker("w") });
        let attempt = driver.attempt(run, unit);
        let cause = format!("{} is wrong", attempt.unit.item.unwrap_or(0));
        let says = Report::Fail { error: Box::new(Error::new(cause)), fatal: false };
        driver.act(run, Command::Report { attempt, report: says });
    }
    let groups = driver.store.error_groups(&GroupFilter::default(), 9).expect("reads");
    let causes: Vec<&str> = groups[0].examples.iter().map(|error| &*error.cause).collect();
    assert_eq!(causes, ["6 is wrong", "5 is wrong", "4 is wrong", "3 is wrong", "2 is wrong"]);
    assert_eq!((groups[0].open, groups[0].runs, groups.len()), (7, 1, 1));
}

/// What a forgotten run had of errors is gone, and what was counted stays; no id is given twice.
pub fn a_forgotten_run_takes_its_errors_with_it<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let runs: Vec<RunId> = (0..2).map(|_| driver.start(&flow)).collect();
    for run in &runs {
        fail(&mut driver, *run, "connection reset");
        driver.act(*run, Command::Cancel { by: user(), reason: None });
    }
    let before = driver.store.errors(&ErrorFilter::default(), None, 9).expect("reads");
    let group = driver.store.error_groups(&GroupFilter::default(), 9).expect("reads").remove(0);
    driver.begin().expect("begins");
    driver.lock(&runs[1..]).expect("locks");
    let stage = Stage { at: driver.now, forgotten: vec![runs[1]], ..Stage::default() };
    driver.stage(stage).expect("it is final");
    settle_all(&mut driver);
    let (store, rest) = driver.split();
    let mut driver = rest.continue_with(store.reopen());
    assert_eq!(driver.store.errors(&ErrorFilter::default(), None, 9), Ok(before[..1].to_vec()));
    let left = ErrorGroup { examples: vec![before[0].1.clone()], ..group };
    assert_eq!(driver.store.error_groups(&GroupFilter::default(), 9), Ok(vec![left]));
    let next = driver.start(&flow);
    fail(&mut driver, next, "connection reset");
    let after = driver.store.errors(&ErrorFilter::default(), None, 9).expect("reads");
    assert!(after[1].0 > before[1].0, "{after:?} after {before:?}");
}

/// A stage that fails takes its errors with it; one that tells of an error elsewhere is refused.
pub fn errors_come_with_their_stage<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy(make());
    let flow = driver.flows.values().next().expect("a flow").clone();
    let (run, other) = (driver.start(&flow), driver.start(&flow));
    driver.work(run, 0);
    settle_all(&mut driver);
    let before = contents(&mut driver.store, driver.flows.values());
    let attempt = driver.attempt(run, UnitRef::step(StepIndex(0)));
    let says = Report::Fail { error: Box::new(Error::new("connection reset")), fatal: false };
    let ask = Ask { run, command: Command::Report { attempt, report: says }, flow: None };
    driver.begin().expect("begins");
    let mut stage = driver.decide(vec![ask.clone()]).expect("decides").stage;
    stage.errors[0].run = other;
    let refused = driver.stage(stage);
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before, "what is refused changes nothing");
    driver.all(vec![ask]);
    let failed = driver.store.fail_next(&StoreError::Away("the disk".into()));
    if failed > 0 {
        assert_eq!(settle(&mut driver.store, failed).len(), failed);
        assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    }
}

/// Nothing is unexamined in a store that has always kept open errors.
pub fn nothing_is_unexamined<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = busy(make());
    assert_eq!(driver.store.needs_backfill(None, 9), Ok(vec![]));
}

fn open<S: TestStore>(driver: &mut Driver<S>) -> Vec<OpenError> {
    driver.store.open_errors(&OpenErrorFilter::default(), None, usize::MAX).expect("reads")
}

/// A store with two flows, four runs in error (one of them acknowledged, one scheduled) and one that is done.
fn busy<S: TestStore>(store: S) -> Driver<S> {
    let mut driver = Driver::new(store);
    let flows: Vec<Arc<Flow>> =
        ["f", "g"].into_iter().map(|name| driver.keep(sequence(name, vec![action("q")]))).collect();
    let policies = vec![policy("p", 1, "reset")];
    let done = driver.start(&flows[0]);
    complete(&mut driver, done);
    let acknowledged = driver.start(&flows[1]);
    fail(&mut driver, acknowledged, "connection reset");
    driver.act(acknowledged, Command::Acknowledge { unit: None, by: user(), reason: None });
    driver
        .put_policies(PolicyChange {
            policies,
            switch: PolicySwitch::default(),
            changes: vec![],
            ..PolicyChange::default()
        })
        .expect("kept");
    for cause in ["no such file /a/1", "connection reset", "no such file /a/2"] {
        driver.pass(Millis(5));
        let run = driver.start(&flows[0]);
        fail(&mut driver, run, cause);
    }
    driver
}
