//! Lists of runs by labels, keys, open work and time, in every order, page by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::command::{Amendment, Command, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::labels::Labels;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Policies, Policy};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user, worker};
use crate::conformance::flows::{action, graph};
use crate::conformance::notices::family;
use crate::conformance::policies::{fail, policy};
use crate::conformance::restarts::settle_all;
use crate::conformance::tails::follow;
use crate::conformance::transactions::pause;
use crate::contract::{
    Cursor, LabelFilter, Reader, RunFilter, RunPage, RunPlace, RunSort, StepMark, Store, next_resume_of,
};

/// Every order.
const SORTS: [RunSort; 3] = [RunSort::Created, RunSort::Updated, RunSort::NextResume];

/// Labels of a run.
pub(crate) fn labels(all: &[(&str, &str)]) -> Arc<Labels> {
    let all = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Arc::new(all.collect())
}

fn all() -> RunFilter {
    RunFilter::default()
}

/// A run has the labels that it was started with, and those of its flow that it does not give another value. A child has
/// none of its parent's.
pub fn runs_are_found_by_their_labels<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let (f, g) = (driver.keep(graph("f", vec![action("q")])), driver.keep(graph("g", vec![action("q")])));
    let one = driver.start_with(&f, |start| start.labels = Some(labels(&[("team", "a"), ("tier", "gold")])));
    let other = driver.start_with(&f, |start| start.labels = Some(labels(&[("team", "b")])));
    let without = driver.start(&g);
    let own = driver.start_with(&g, |start| start.labels = Some(labels(&[("team", "a")])));
    let root = driver.start_with(&parent, |start| start.labels = Some(labels(&[("team", "c")])));
    driver.deliver_all(9);
    fail(&mut driver, other, "no such file");
    // Its own labels stay in its next generation.
    driver.work(one, 0);
    driver.say(one, 0, Report::Complete { output: Json::NULL });
    driver.act(one, Command::rerun(unstuck_core::command::Rerun::All, user()));
    let label = |name: &str, values: &[&str], versions: &[_]| LabelFilter {
        name: name.into(),
        values: values.iter().map(|value| (*value).into()).collect(),
        versions: versions.to_vec(),
    };
    let of = |labels: Vec<LabelFilter>| RunFilter { labels, ..all() };
    let tier = || label("tier", &["gold"], &[]);
    let mut cases = vec![
        (of(vec![label("team", &["a"], &[])]), vec![own, one]),
        (of(vec![label("team", &["a", "b"], &[])]), vec![own, other, one]),
        (of(vec![label("team", &["a"], &[]), tier()]), vec![one]),
        (of(vec![label("team", &["b"], &[g.id])]), vec![without, other]),
        (of(vec![label("team", &["b"], &[g.id]), tier()]), vec![]),
        (of(vec![label("team", &["x"], &[])]), vec![]),
        (of(vec![label("team", &["c"], &[])]), vec![root]),
        (RunFilter { cause: Some("such".into()), ..of(vec![label("team", &["b"], &[g.id])]) }, vec![other]),
        (RunFilter { cause: Some("such".into()), flow: Some("f".into()), ..all() }, vec![other]),
        (RunFilter { cause: Some("such".into()), parent: Some(root), ..all() }, vec![]),
        (RunFilter { flow: Some("g".into()), ..of(vec![label("team", &["a"], &[])]) }, vec![own]),
        (RunFilter { states: vec![RunState::Paused], ..of(vec![label("team", &["a"], &[])]) }, vec![]),
    ];
    for _ in 0..2 {
        check(&mut driver, &cases);
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
    driver.act(other, Command::Cancel { by: user(), reason: None });
    crate::conformance::forgetting::forget(&mut driver, other).expect("it is final");
    cases.truncate(2);
    cases[1].1 = vec![own, one];
    check(&mut driver, &cases);
}

/// A run whose labels are changed is found by those that it has now, and by no others; when it is forgotten, by none.
pub fn runs_are_found_by_changed_labels<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(graph("f", vec![action("q")]));
    let one =
        driver.start_with(&flow, |start| start.labels = Some(labels(&[("team", "a"), ("tier", "gold")])));
    let other = driver.start(&flow);
    let amend = |driver: &mut Driver<S>, run: RunId, changes: &[(&str, Option<&str>)]| {
        let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
        let changes = Box::new(Amendment { labels: changes.collect(), ..Amendment::default() });
        driver.act(run, Command::Amend { changes, by: user(), reason: None });
    };
    amend(&mut driver, one, &[("team", Some("b")), ("tier", None)]);
    amend(&mut driver, one, &[("team", Some("c")), ("more", Some("x"))]);
    amend(&mut driver, other, &[("team", Some("a"))]);
    let has = |name: &str, value: &str| RunFilter {
        labels: vec![LabelFilter { name: name.into(), values: vec![value.into()], versions: vec![] }],
        ..all()
    };
    let mut cases = vec![
        (has("team", "a"), vec![other]),
        (has("team", "b"), vec![]),
        (has("team", "c"), vec![one]),
        (has("tier", "gold"), vec![]),
        (has("more", "x"), vec![one]),
    ];
    for _ in 0..2 {
        check(&mut driver, &cases);
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
    driver.act(one, Command::Cancel { by: user(), reason: None });
    crate::conformance::forgetting::forget(&mut driver, one).expect("it is final");
    for (_, found) in &mut cases[1..] {
        found.clear();
    }
    check(&mut driver, &cases);
}

/// A run that is moved to another version of its flow is found by that, is woken by it, and counts for it.
pub fn runs_are_found_by_the_version_that_they_were_moved_to<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let first = driver.keep(graph("f", vec![action("q")]));
    let (moved, other) = (driver.start(&first), driver.start(&first));
    let second = driver.keep(graph("f", vec![action("q"), action("r")]));
    driver.act(moved, Command::Migrate { to: second.id, by: user(), reason: None });
    let of = |version| RunFilter { versions: Some(vec![version]), flow: Some("f".into()), ..all() };
    let mut cases = vec![(of(first.id), vec![other]), (of(second.id), vec![moved])];
    for _ in 0..2 {
        check(&mut driver, &cases);
        let open = driver.store.reader().open_runs(&[first.id, second.id]).expect("they are counted");
        assert_eq!(open, [(first.id, 1), (second.id, 1)].into());
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
    for place in [0, 1] {
        driver.work(moved, place);
        driver.say(moved, place, Report::Complete { output: Json::NULL });
    }
    cases.push((RunFilter { states: vec![RunState::Completed], ..of(second.id) }, vec![moved]));
    check(&mut driver, &cases);
}

/// Runs are found by what their open attempts are of and who holds them, by marks of their steps, by policies, by the
/// beginning of a key, and by the time of their last event.
pub fn runs_are_found_by_their_open_work<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    driver.policies = Policies::new(vec![policy("resets", 1, "reset")]).expect("goes together");
    let flow = driver.keep(graph("f", vec![action("q"), action("r")]));
    let start = |driver: &mut Driver<S>, key: &str| {
        driver.pass(Millis(1_000));
        driver.start_with(&flow, |start| start.key = Some(key.into()))
    };
    let runs: Vec<RunId> = ["a-1", "a-2", "b-1", "ab"].iter().map(|key| start(&mut driver, key)).collect();
    let [scheduled, acknowledged, held_by, ended] = runs[..] else { panic!("{runs:?}") };
    driver.pass(Millis(1_000));
    let middle = driver.now;
    fail(&mut driver, scheduled, "connection reset");
    fail(&mut driver, acknowledged, "no such file");
    driver.act(acknowledged, Command::Acknowledge { unit: None, by: user(), reason: None });
    let unit = UnitRef::step(StepIndex(1));
    driver.act(held_by, Command::Claim { unit, worker: worker("v") });
    driver.act(ended, Command::Cancel { by: user(), reason: None });
    let has = |has: &[StepMark]| RunFilter { has: has.to_vec(), ..all() };
    let step = |place: u16| RunFilter { steps: Some(vec![(flow.id, StepIndex(place))]), ..all() };
    let texts = |texts: &[&str]| -> Vec<Arc<str>> { texts.iter().map(|text| (*text).into()).collect() };
    let prefix = |of: &[&str]| RunFilter { key_prefixes: texts(of), ..all() };
    let workers = |of: &[&str]| RunFilter { workers: texts(of), ..all() };
    let policies = |of: &[&str]| RunFilter { policies: texts(of), ..all() };
    let cases = vec![
        (has(&[StepMark::Error]), vec![acknowledged, scheduled]),
        (has(&[StepMark::Acknowledged]), vec![acknowledged]),
        (has(&[StepMark::Scheduled]), vec![scheduled]),
        (has(&[StepMark::Scheduled, StepMark::Acknowledged]), vec![acknowledged, scheduled]),
        (has(&[StepMark::Held]), vec![]),
        (policies(&["resets"]), vec![scheduled]),
        (policies(&["other", "id-resets"]), vec![scheduled]),
        (policies(&["other"]), vec![]),
        (step(0), vec![held_by, acknowledged, scheduled]),
        (step(1), vec![held_by, acknowledged, scheduled]),
        (RunFilter { states: vec![RunState::Running], ..step(1) }, vec![held_by, acknowledged, scheduled]),
        (RunFilter { states: vec![RunState::Cancelled], ..step(1) }, vec![]),
        (RunFilter { steps: Some(vec![]), ..all() }, vec![]),
        (workers(&["v"]), vec![held_by]),
        (workers(&["w"]), vec![]),
        (workers(&["w", "v"]), vec![held_by]),
        (prefix(&["a"]), vec![ended, acknowledged, scheduled]),
        (prefix(&["a-"]), vec![acknowledged, scheduled]),
        (prefix(&["b", "ab"]), vec![ended, held_by]),
        (prefix(&["c"]), vec![]),
        (RunFilter { key: Some("a-1".into()), ..prefix(&["a-"]) }, vec![scheduled]),
        (RunFilter { updated_since: Some(middle), ..all() }, runs.iter().rev().copied().collect()),
        (RunFilter { updated_since: Some(middle + Millis(1)), ..all() }, vec![]),
        (RunFilter { updated_since: Some(middle), until: Some(middle), ..workers(&["v"]) }, vec![held_by]),
    ];
    for _ in 0..2 {
        check(&mut driver, &cases);
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

/// All that is below a root is found, however deep, and the root itself is not.
pub fn what_is_below_a_root_is_found<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let (first, second) = (driver.start(&parent), driver.start(&parent));
    driver.deliver_all(99);
    let below = |driver: &mut Driver<S>, root: RunId| -> Vec<RunId> {
        let runs = driver.store.list(&all(), None, 99).expect("lists");
        let parents: BTreeMap<RunId, Option<RunId>> =
            runs.iter().map(|run| (run.id, run.origin.parent())).collect();
        let is_below = |run: &RunId| {
            let parent = |run: &RunId| parents[run];
            std::iter::successors(parent(run), parent).any(|above| above == root)
        };
        runs.iter().map(|run| run.id).filter(is_below).collect()
    };
    for _ in 0..2 {
        for root in [first, second] {
            let expected = below(&mut driver, root);
            assert!(!expected.is_empty());
            let filter = RunFilter { root: Some(root), ..all() };
            check(
                &mut driver,
                &[(filter.clone(), expected), (RunFilter { roots_only: true, ..filter }, vec![])],
            );
        }
        let child = below(&mut driver, first)[0];
        let below_child = below(&mut driver, child);
        check(&mut driver, &[(RunFilter { root: Some(child), ..all() }, below_child)]);
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

/// Lists in the order of the last event and of the next resume are read in pages of any size, and tell where they go on.
pub fn lists_have_an_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let later = Policy { back_off: BackOff::fixed(Millis::seconds(600)), ..policy("later", 2, "timeout") };
    driver.policies = Policies::new(vec![policy("resets", 1, "reset"), later]).expect("goes together");
    let flow = driver.keep(graph("f", vec![action("q"), action("r")]));
    let runs: Vec<RunId> = (0..6)
        .map(|_| {
            driver.pass(Millis(1_000));
            driver.start(&flow)
        })
        .collect();
    for (place, cause) in [(4, "timeout"), (0, "reset"), (5, "no such file"), (2, "reset"), (1, "timeout")] {
        driver.pass(Millis(1_000));
        fail(&mut driver, runs[place], cause);
    }
    driver.pass(Millis(1_000));
    driver.act(runs[3], Command::Cancel { by: user(), reason: None });
    driver.pass(Millis(1_000));
    driver.act(runs[2], pause());
    let updated = [2, 3, 1, 5, 0, 4].map(|place: usize| runs[place]);
    let resumed = [0, 4, 1].map(|place: usize| runs[place]);
    for _ in 0..2 {
        settle_all(&mut driver);
        let reader = driver.store.reader();
        assert_eq!(walk(&*reader, &all(), RunSort::Updated, 3), updated);
        assert_eq!(
            walk(&*reader, &all(), RunSort::NextResume, 3),
            resumed,
            "one that is paused is not resumed"
        );
        let running = RunFilter { states: vec![RunState::Running], ..all() };
        assert_eq!(
            walk(&*reader, &running, RunSort::Updated, 1),
            [1, 5, 0, 4].map(|place: usize| runs[place])
        );
        same_orders(&mut driver.store);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

/// Checks that these filters find these runs, in the store and by a reader, in pages of any size.
fn check<S: TestStore>(driver: &mut Driver<S>, cases: &[(RunFilter, Vec<RunId>)]) {
    settle_all(driver);
    let reader = driver.store.reader();
    for (filter, expected) in cases {
        let found = driver.store.list(filter, None, 99).expect("lists");
        assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), *expected, "{filter:?}");
        for size in 1..=expected.len() + 1 {
            assert_eq!(walk(&*reader, filter, RunSort::Created, size), *expected, "{filter:?} by {size}");
        }
    }
}

/// Reads a list to its end, by pages of this size.
pub(crate) fn walk(reader: &dyn Reader, filter: &RunFilter, sort: RunSort, size: usize) -> Vec<RunId> {
    let mut found: Vec<RunId> = Vec::new();
    let mut after: Option<RunPlace> = None;
    for _ in 0..100_000 {
        let RunPage { runs, next } = reader.page(filter, sort, after, size).expect("lists");
        assert!(runs.len() <= size, "{filter:?}");
        found.extend(runs.iter().map(|run| run.id));
        let Some(next) = next else { return found };
        assert_eq!(next.sort(), sort);
        assert!(after.is_none_or(|after| next.follows(&after)), "{filter:?}: {after:?}, then {next:?}");
        after = Some(next);
    }
    panic!("{filter:?} {sort:?} has no end")
}

/// A reader lists the runs of a store of which everything is durable in every order.
pub(crate) fn same_orders(store: &mut impl Store) {
    let reader = store.reader();
    let runs = store.list(&all(), None, usize::MAX).expect("lists");
    let end = reader.cursor().expect("is there");
    let (events, _) = follow(&*reader, &Cursor { position: 0, ..end }, 500);
    let last: BTreeMap<RunId, usize> =
        events.iter().enumerate().map(|(place, (run, _))| (*run, place)).collect();
    let mut summaries: Vec<RunSummary> = runs.iter().map(RunSummary::of).collect();
    let ids = |runs: &[RunSummary]| -> Vec<RunId> { runs.iter().map(|run| run.id).collect() };
    for sort in SORTS {
        match sort {
            RunSort::Created => {}
            RunSort::Updated => summaries.sort_by_key(|run| std::cmp::Reverse(last[&run.id])),
            RunSort::NextResume => {
                summaries.retain(|run| next_resume_of(run).is_some());
                summaries.sort_by_key(|run| (next_resume_of(run), run.id));
            }
        }
        for size in [1, 3, 1_000] {
            assert_eq!(walk(&*reader, &all(), sort, size), ids(&summaries), "{sort:?} by {size}");
        }
    }
}

/// Builds filters that this run fits, and some that it may not.
pub(crate) fn filters_like(run: &Run) -> Vec<RunFilter> {
    let summary = RunSummary::of(run);
    let mut filters = vec![
        RunFilter { updated_since: Some(run.updated_at), ..all() },
        RunFilter { root: Some(run.origin.parent().unwrap_or(run.id)), ..all() },
        RunFilter { workers: summary.workers.clone(), ..all() },
        RunFilter { steps: Some(summary.open_steps.iter().map(|step| (run.flow, *step)).collect()), ..all() },
        RunFilter { steps: Some(vec![(run.flow, StepIndex(1))]), workers: vec!["w".into()], ..all() },
        RunFilter { has: vec![StepMark::Acknowledged], ..all() },
        RunFilter { has: vec![StepMark::Scheduled, StepMark::Held], roots_only: true, ..all() },
    ];
    for (name, value) in run.labels.iter().flat_map(|labels| labels.iter()) {
        let label = LabelFilter {
            name: name.as_str().into(),
            values: vec![value.as_str().into()],
            versions: vec![run.flow],
        };
        filters.push(RunFilter { labels: vec![label.clone()], ..all() });
        let versions = Vec::new();
        let states = vec![run.state()];
        filters.push(RunFilter { labels: vec![LabelFilter { versions, ..label }], states, ..all() });
    }
    let beginning = run.key.as_ref().and_then(|key| key.get(..1));
    filters.extend(beginning.map(|key| RunFilter { key_prefixes: vec![key.into()], ..all() }));
    if let Some((_, policy)) = &summary.next_resume {
        filters.push(RunFilter { policies: vec![policy.name.clone()], ..all() });
    }
    filters
}
