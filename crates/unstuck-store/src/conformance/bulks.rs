//! Bulk actions: kept whole with their targets, and gone on with in the transactions of the runs.

use std::sync::Arc;

use unstuck_core::bulk::{
    Bulk, BulkAction, BulkCounts, BulkRef, BulkRerun, BulkState, Pace, ResultKind, Target, TargetResult,
    record_acted,
};
use unstuck_core::command::Report;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Flow, StepIndex};
use unstuck_core::model::unit::UnitRef;
use unstuck_core::thing::{Thing, ThingRef};
use unstuck_core::time::Millis;

use crate::conformance::contents::contents;
use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::conformance::sessions::session;
use crate::conformance::{TestStore, settle};
use crate::contract::{LockedThing, Stage, Store, StoreError};

/// It is not there before it is put, and then with all of its targets, which may have come in parts.
pub fn a_bulk_action_is_there_once_it_is_put<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let (bulk, targets) = resume_of(&mut driver, &[RunId(1), RunId(2), RunId(3)]);
    assert_eq!(driver.store.bulk(bulk.id), Ok(None));
    driver.store.put_targets(bulk.id, targets[..2].to_vec()).expect("puts");
    driver.store.put_targets(bulk.id, targets[2..].to_vec()).expect("puts");
    assert_eq!(driver.store.bulk(bulk.id), Ok(None), "nobody sees it before it is whole");
    assert_eq!(driver.store.bulks(false, None, 9), Ok(vec![]));
    assert_eq!(driver.store.targets(bulk.id, None, 0, 9), Ok(vec![]));
    driver.store.put_bulk(bulk.clone()).expect("puts");
    assert_eq!(driver.store.bulk(bulk.id), Ok(Some(bulk.clone())));
    assert_eq!(driver.store.bulks(false, None, 9), Ok(vec![bulk.clone()]));
    assert_eq!(driver.store.targets(bulk.id, None, 0, 9), Ok(targets));
    assert!(driver.store.last_id().expect("reads") >= bulk.id.0, "its id is not given out again");
    let mut store = driver.store.reopen();
    assert_eq!(store.bulk(bulk.id), Ok(Some(bulk)), "it is durable");
}

/// Targets come in order and without gaps, and a bulk action has as many as it says; it is put once.
pub fn targets_follow_each_other<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let (bulk, targets) = resume_of(&mut driver, &[RunId(1), RunId(2), RunId(3)]);
    driver.store.put_targets(bulk.id, targets[..1].to_vec()).expect("puts");
    is_conflict(&driver.store.put_targets(bulk.id, targets[2..].to_vec()));
    is_conflict(&driver.store.put_bulk(bulk.clone()));
    driver.store.put_targets(bulk.id, targets[1..].to_vec()).expect("puts");
    driver.store.put_bulk(bulk.clone()).expect("puts");
    is_conflict(&driver.store.put_bulk(bulk.clone()));
    is_conflict(&driver.store.put_targets(bulk.id, Vec::new()));
    driver.begin().expect("begins");
    let (other, targets) = resume_of(&mut driver, &[RunId(1)]);
    is_conflict(&driver.store.put_targets(other.id, targets));
    is_conflict(&driver.store.put_bulk(other));
    driver.rollback();
}

/// Who died while the targets were put has ordered nothing.
pub fn targets_without_a_bulk_action_are_gone_with_their_session<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let (bulk, targets) = resume_of(&mut driver, &[RunId(1), RunId(2)]);
    driver.store.put_targets(bulk.id, targets.clone()).expect("puts");
    let mut store = driver.store.reopen();
    store.open_session(session([1; 32])).expect("begins");
    assert_eq!(store.bulks(false, None, 9), Ok(vec![]));
    is_conflict(&store.put_bulk(bulk.clone()));
    store.put_targets(bulk.id, targets).expect("they are put again");
    store.put_bulk(bulk).expect("puts");
}

/// What it does to runs, what it counts and what becomes of its targets are one transaction, and so is how it comes out.
pub fn a_bulk_action_goes_on_with_the_runs<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, bulk, runs) = in_error(make(), 3);
    driver.go_on(bulk, 2).expect("stages");
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!((found.next, found.counts), (2, BulkCounts { under_way: 2, ..BulkCounts::default() }));
    assert_eq!(results(&mut driver, bulk), [ResultKind::Resumed, ResultKind::Resumed, ResultKind::Pending]);
    let next = driver.store.next_targets(bulk, found.next, 9).expect("reads");
    assert_eq!(next.iter().map(|target| target.run).collect::<Vec<_>>(), [runs[2]]);
    driver.go_on(bulk, 9).expect("stages");
    for (run, says) in runs.iter().zip([done(), broken("still broken"), done()]) {
        driver.work(*run, 0);
        driver.say(*run, 0, says);
    }
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!(found.counts.under_way, 3, "it is told by notices");
    contents(&mut driver.store, driver.flows.values()).check();
    driver.deliver_all(2);
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!((found.state, found.counts), (BulkState::Done, counts(2, 1)));
    let targets = driver.store.targets(bulk, None, 0, 9).expect("reads");
    assert_eq!(targets[1].result, TargetResult::FailedAgain { cause: "still broken".into() });
    contents(&mut driver.store, driver.flows.values()).check();
}

/// A bulk action that is not there, comes twice, or has no such target: nothing of the stage happens.
pub fn a_stage_that_does_not_fit_changes_nothing<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, id, _) = in_error(make(), 2);
    settle_all(&mut driver);
    let before = contents(&mut driver.store, driver.flows.values());
    let bulk = driver.store.bulk(id).expect("reads").expect("it is there");
    let next = |bulk: &Bulk| Thing { version: 2, ..Thing::of_bulk(bulk.clone()) };
    let passed = |place| vec![(BulkRef { bulk: id, place }, TargetResult::Passed)];
    let unknown = Bulk { id: BulkId(id.0 + 1), ..bulk.clone() };
    let smaller = Bulk { total: 1, ..bulk.clone() };
    let cases = [
        ("not there", vec![next(&bulk), next(&unknown)], passed(0)),
        ("twice", vec![next(&bulk), next(&bulk)], passed(1)),
        ("no such target", vec![next(&bulk)], passed(2)),
        ("another total", vec![next(&smaller)], passed(0)),
        ("a result of nobody", vec![], passed(0)),
        ("an older version", vec![Thing::of_bulk(bulk.clone())], passed(0)),
        ("a later version", vec![Thing { version: 3, ..next(&bulk) }], passed(0)),
    ];
    for (case, things, results) in cases {
        driver.begin().expect("begins");
        driver.lock_things(&[ThingRef::Bulk(id)]).expect("locks");
        let result = driver.stage(Stage { at: driver.now, things, results, ..Stage::default() });
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{case}: {result:?}");
        assert_eq!(contents(&mut driver.store, driver.flows.values()), before, "{case}");
    }
    driver.begin().expect("begins");
    let result = driver.stage(Stage { at: driver.now, things: vec![next(&bulk)], ..Stage::default() });
    assert!(matches!(result, Err(StoreError::Conflict(_))), "nobody has locked it: {result:?}");
    driver.go_on(id, 1).expect("it is free again");
}

/// A bulk action is due when its pace says so, in one order of time with all else, until it is over.
pub fn a_bulk_action_is_due_by_its_pace<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let (bulk, targets) = resume_of(&mut driver, &[RunId(1), RunId(2)]);
    let id = put(&mut driver, bulk.clone(), targets);
    let due = |driver: &mut Driver<S>| {
        let things = driver.store.due_things(driver.now, 9).expect("reads");
        (driver.store.next_due().expect("reads"), things.iter().map(Thing::address).collect::<Vec<_>>())
    };
    assert_eq!(due(&mut driver), (Some(bulk.created_at), vec![ThingRef::Bulk(id)]));
    assert_eq!(driver.store.due_things(bulk.created_at.back(Millis(1)), 9), Ok(vec![]), "not before");
    driver.go_on(id, 1).expect("stages");
    let next = driver.now + Millis(20);
    assert_eq!(due(&mut driver), (Some(next), vec![]), "50 a second");
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    driver.now = next;
    assert_eq!(due(&mut driver), (Some(next), vec![ThingRef::Bulk(id)]), "it is found again");
    driver.go_on(id, 1).expect("stages");
    assert_eq!((due(&mut driver), driver.open_bulks()), ((None, vec![]), vec![]), "it is over");
    driver.begin().expect("begins");
    assert_eq!(driver.lock_things(&[ThingRef::Bulk(id)]), Ok(vec![LockedThing::Absent]));
    driver.rollback();
}

/// What is told twice is told once, however late: what became of a target is known to whoever asks.
pub fn what_became_of_a_target_is_known_at_once<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, bulk, runs) = in_error(make(), 2);
    driver.go_on(bulk, 2).expect("stages");
    let known = |driver: &mut Driver<S>| driver.store.target_results(bulk, &[1, 0]).expect("reads");
    assert_eq!(known(&mut driver), [TargetResult::Resumed, TargetResult::Resumed]);
    driver.work(runs[1], 0);
    driver.say(runs[1], 0, done());
    let told = driver.store.notices(9).expect("reads");
    assert_eq!(told.iter().map(|(_, notice)| notice.to).collect::<Vec<_>>(), [ThingRef::Bulk(bulk)]);
    driver.deliver_all(9);
    driver.begin().expect("begins");
    let again = Stage { at: driver.now, notices: vec![told[0].1.clone()], ..Stage::default() };
    driver.stage(again).expect("stages");
    assert_eq!(known(&mut driver), [TargetResult::Passed, TargetResult::Resumed]);
    driver.deliver_all(9);
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!(found.counts, BulkCounts { passed: 1, under_way: 1, ..BulkCounts::default() });
    settle_all(&mut driver);
    let mut store = driver.store.reopen();
    assert_eq!(store.target_results(bulk, &[0, 1]), Ok(vec![TargetResult::Resumed, TargetResult::Passed]));
}

/// Those that are not over are found without the others, newest first, in pages.
pub fn what_is_open_is_listed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let ids: Vec<BulkId> = (0..4)
        .map(|_| {
            let (bulk, targets) = resume_of(&mut driver, &[RunId(1)]);
            put(&mut driver, bulk, targets)
        })
        .collect();
    for id in [ids[1], ids[3]] {
        driver.go_on(id, 1).expect("stages");
    }
    let listed = |driver: &mut Driver<S>, open_only, before, limit| -> Vec<BulkId> {
        let found = driver.store.bulks(open_only, before, limit).expect("lists");
        found.iter().map(|bulk| bulk.id).collect()
    };
    assert_eq!(listed(&mut driver, true, None, 9), [ids[2], ids[0]]);
    assert_eq!(listed(&mut driver, false, None, 9), [ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(listed(&mut driver, false, Some(ids[2]), 1), [ids[1]]);
    assert_eq!(listed(&mut driver, true, Some(ids[2]), 9), [ids[0]]);
}

/// From a place on, so many, and only those with such a result where that is wanted.
pub fn targets_are_read_in_pages<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let runs: Vec<RunId> = (1..=5).map(RunId).collect();
    let (bulk, targets) = resume_of(&mut driver, &runs);
    let id = put(&mut driver, bulk, targets);
    driver.go_on(id, 3).expect("stages");
    let cases: [(Option<ResultKind>, u64, usize, &[u64]); 6] = [
        (None, 0, 9, &[0, 1, 2, 3, 4]),
        (None, 1, 2, &[1, 2]),
        (None, 5, 9, &[]),
        (Some(ResultKind::Refused), 1, 9, &[1, 2]),
        (Some(ResultKind::Pending), 0, 1, &[3]),
        (Some(ResultKind::Passed), 0, 9, &[]),
    ];
    for (only, from, limit, places) in cases {
        let found = driver.store.targets(id, only, from, limit).expect("reads");
        let found: Vec<u64> = found.iter().map(|target| target.place).collect();
        assert_eq!(found, places, "{only:?} from {from}, {limit} of them");
    }
    assert_eq!(driver.store.targets(BulkId(id.0 + 1), None, 0, 9), Ok(vec![]));
    driver.begin().expect("begins");
    let next = driver.store.next_targets(id, 3, 9).expect("reads, in a transaction too");
    assert_eq!(next.iter().map(|target| target.place).collect::<Vec<_>>(), [3, 4]);
    driver.rollback();
}

/// A stage that does not become durable has neither resumed anything nor counted it.
pub fn a_failed_stage_takes_its_results_back<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, bulk, _) = in_error(make(), 2);
    settle_all(&mut driver);
    let durable = contents(&mut driver.store, driver.flows.values());
    driver.go_on(bulk, 1).expect("stages");
    let error = StoreError::Away("the disk".into());
    if driver.store.fail_next(&error) == 0 {
        return;
    }
    assert_eq!(settle(&mut driver.store, 1), [error]);
    assert_eq!(contents(&mut driver.store, driver.flows.values()), durable);
    driver.resume();
    driver.go_on(bulk, 9).expect("stages");
    assert_eq!(results(&mut driver, bulk), [ResultKind::Resumed, ResultKind::Resumed]);
}

/// What was durable is found again, and it goes on from there.
pub fn a_bulk_action_goes_on_after_a_restart<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, bulk, runs) = in_error(make(), 3);
    driver.go_on(bulk, 2).expect("stages");
    settle_all(&mut driver);
    let before = contents(&mut driver.store, driver.flows.values());
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    assert_eq!(contents(&mut driver.store, driver.flows.values()), before);
    driver.go_on(bulk, 9).expect("stages");
    for run in runs {
        driver.work(run, 0);
        driver.say(run, 0, done());
    }
    driver.deliver_all(9);
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!((found.state, found.counts), (BulkState::Done, counts(3, 0)));
}

/// A run that was started again remembers its target, also after a restart, and tells how it comes out.
pub fn a_rerun_comes_out_after_a_restart<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let runs: Vec<RunId> = (0..2).map(|_| one_that_ends(&mut driver, &flow)).collect();
    let (bulk, mut targets) = resume_of(&mut driver, &runs);
    for target in &mut targets {
        target.unit = None;
    }
    let action = BulkAction::Rerun { again: BulkRerun::Continue, input: None, step_input: None };
    let bulk = put(&mut driver, Bulk { action, ..bulk }, targets);
    driver.go_on(bulk, 9).expect("stages");
    assert_eq!(results(&mut driver, bulk), [ResultKind::Rerun, ResultKind::Rerun]);
    settle_all(&mut driver);
    let (store, driver) = driver.split();
    let mut driver = driver.continue_with(store.reopen());
    contents(&mut driver.store, driver.flows.values()).check();
    for (run, says) in runs.iter().zip([done(), broken("still broken")]) {
        driver.work(*run, 0);
        driver.say(*run, 0, says);
    }
    driver.deliver_all(9);
    assert_eq!(results(&mut driver, bulk), [ResultKind::Passed, ResultKind::FailedAgain]);
    let found = driver.store.bulk(bulk).expect("reads").expect("it is there");
    assert_eq!((found.state, found.counts), (BulkState::Done, counts(1, 1)));
    contents(&mut driver.store, driver.flows.values()).check();
}

/// A run that is gone carries no result: the target does, from the same transaction on.
pub fn a_forgotten_run_leaves_its_result<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let run = one_that_ends(&mut driver, &flow);
    let (bulk, targets) = resume_of(&mut driver, &[run]);
    let id = put(&mut driver, Bulk { action: BulkAction::Forget, left_out: 4, ..bulk }, targets);
    driver.begin().expect("begins");
    driver.lock(&[run]).expect("locks");
    let mut thing = driver.lock_bulk(id).expect("locks").expect("it is there");
    let bulk = thing.bulk_mut().expect("a bulk action");
    record_acted(bulk, &TargetResult::Forgotten.into(), &driver.bulk_context());
    let results = vec![(BulkRef { bulk: id, place: 0 }, TargetResult::Forgotten)];
    let stage =
        Stage { at: driver.now, forgotten: vec![run], things: vec![thing], results, ..Stage::default() };
    driver.stage(stage).expect("stages");
    settle_all(&mut driver);
    let mut store = driver.store.reopen();
    assert_eq!(store.run(run), Ok(None));
    let kept = store.targets(id, Some(ResultKind::Forgotten), 0, 9).expect("reads");
    assert_eq!(kept.iter().map(|target| target.run).collect::<Vec<_>>(), [run]);
    let found = store.bulk(id).expect("reads").expect("it is there");
    assert_eq!((found.state, found.left_out), (BulkState::Done, 4));
}

/// Whatever becomes of a target is read as it was written.
pub fn every_result_is_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let runs: Vec<RunId> = (1..=17).map(RunId).collect();
    let (bulk, targets) = resume_of(&mut driver, &runs);
    let id = put(&mut driver, bulk, targets);
    let all = ResultKind::ALL.map(|kind| TargetResult::of(kind, || "so".into()));
    driver.begin().expect("begins");
    let things = vec![driver.lock_bulk(id).expect("locks").expect("it is there")];
    let results =
        (0..).zip(all.clone()).map(|(place, result)| (BulkRef { bulk: id, place }, result)).collect();
    driver.stage(Stage { at: driver.now, things, results, ..Stage::default() }).expect("stages");
    settle_all(&mut driver);
    let mut store = driver.store.reopen();
    let kept = store.targets(id, None, 0, 99).expect("reads").into_iter().map(|target| target.result);
    assert_eq!(kept.collect::<Vec<_>>(), all);
    for kind in ResultKind::ALL {
        assert_eq!(store.targets(id, Some(kind), 0, 99).expect("reads").len(), 1, "{kind:?}");
    }
}

/// A run that has failed for good.
fn one_that_ends<S: TestStore>(driver: &mut Driver<S>, flow: &Arc<Flow>) -> RunId {
    let run = driver.start(flow);
    driver.work(run, 0);
    driver.say(run, 0, Report::Fail { error: Box::new(Error::new("it broke")), fatal: true });
    run
}

/// So many runs in error, and a bulk action that resumes them.
pub fn in_error<S: TestStore>(store: S, count: usize) -> (Driver<S>, BulkId, Vec<RunId>) {
    let mut driver = Driver::new(store);
    let flow = driver.keep(sequence("f", vec![action("q")]));
    let runs: Vec<RunId> = (0..count).map(|_| one_in_error(&mut driver, &flow)).collect();
    let (bulk, targets) = resume_of(&mut driver, &runs);
    let id = put(&mut driver, bulk, targets);
    (driver, id, runs)
}

fn one_in_error<S: TestStore>(driver: &mut Driver<S>, flow: &Arc<Flow>) -> RunId {
    let run = driver.start(flow);
    driver.work(run, 0);
    driver.say(run, 0, broken("it broke"));
    run
}

/// A bulk action that resumes the first steps of these runs, which need not be there.
fn resume_of<S: Store>(driver: &mut Driver<S>, runs: &[RunId]) -> (Bulk, Vec<Target>) {
    let id = BulkId(driver.new_id().0);
    let unit = Some(UnitRef::step(StepIndex(0)));
    let target = |(place, run): (u64, &RunId)| {
        let result = TargetResult::Pending;
        Target { place, run: *run, unit, result }
    };
    let targets: Vec<Target> = (0..).zip(runs).map(target).collect();
    let action = BulkAction::Resume { input: None, step_input: None };
    let by = (user(), Some("it is mended".into()));
    let bulk = Bulk::new(id, action, by, "some".into(), Pace::default(), runs.len() as u64, driver.now);
    (bulk, targets)
}

fn put<S: Store>(driver: &mut Driver<S>, bulk: Bulk, targets: Vec<Target>) -> BulkId {
    let id = bulk.id;
    driver.store.put_targets(id, targets).expect("puts");
    driver.store.put_bulk(bulk).expect("puts");
    id
}

fn results<S: Store>(driver: &mut Driver<S>, bulk: BulkId) -> Vec<ResultKind> {
    let targets = driver.store.targets(bulk, None, 0, 99).expect("reads");
    targets.iter().map(|target| target.result.kind()).collect()
}

fn counts(passed: u64, failed: u64) -> BulkCounts {
    BulkCounts { passed, failed, ..BulkCounts::default() }
}

fn done() -> Report {
    Report::Complete { output: Json::NULL }
}

fn broken(cause: &str) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal: false }
}

fn is_conflict(result: &Result<(), StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
}
