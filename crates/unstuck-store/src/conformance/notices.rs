//! Notices: kept until they are delivered, in order, and gone once their delivery is staged.

use std::sync::Arc;

use unstuck_core::command::{Command, Notice, NoticeBody, Report};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Millis;

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, graph, sequence, step};
use crate::conformance::restarts::settle_all;
use crate::conformance::steps::BatchSteps;
use crate::contract::{NoticeId, SetAside, Stage};

/// A notice comes again and again until its delivery is staged, and then no more.
pub fn a_notice_comes_until_it_is_delivered<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let run = driver.start(&parent);
    let waiting = driver.store.notices(9).expect("reads");
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|(_, notice)| matches!(notice.body, NoticeBody::StartChild(_))));
    assert_eq!(driver.store.notices(9).expect("reads"), waiting);
    driver.begin().expect("begins");
    assert_eq!(driver.store.notices(9).expect("reads"), waiting);
    driver.rollback();
    assert_eq!(driver.store.notices(9).expect("reads"), waiting);
    assert_eq!(driver.deliver(1), 1);
    assert_eq!(driver.store.notices(9).expect("reads"), waiting[1..]);
    assert_eq!(driver.deliver(9), 1);
    assert_eq!(driver.store.notices(9).expect("reads"), []);
    let children = children(&mut driver, run);
    assert_eq!(children.len(), 2);
}

/// The oldest comes first; new ones are behind what waits; the same number is never given twice.
pub fn notices_keep_their_order<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let runs = [driver.start(&parent), driver.start(&parent), driver.start(&parent)];
    let all = driver.store.notices(usize::MAX).expect("reads");
    let parents: Vec<RunId> = all.iter().filter_map(|(_, notice)| parent_of(notice)).collect();
    assert_eq!(parents, runs.map(|run| [run, run]).concat());
    assert!(all.is_sorted_by_key(|(id, _)| *id));
    for limit in 0..=all.len() {
        assert_eq!(driver.store.notices(limit).expect("reads"), all[..limit]);
    }
    assert_eq!(driver.deliver(2), 2);
    driver.start(&parent);
    let later = driver.store.notices(usize::MAX).expect("reads");
    assert_eq!(later[..4], all[2..]);
    assert_eq!(later.len(), 6);
    assert!(later[4..].iter().all(|(id, _)| *id > all[5].0), "{later:?}");
}

/// What is on its way to a run, or begins a child of it, is known by the run, and of a run that is set aside nothing is.
pub fn what_is_on_its_way_is_known_by_run<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let (first, second) = (driver.start(&parent), driver.start(&parent));
    let all = driver.store.notices(9).expect("reads");
    let child = all[0].1.to.run().expect("it is to a run");
    let cases: [(&[RunId], bool); 5] =
        [(&[], false), (&[first], true), (&[child], true), (&[RunId(7), second], true), (&[RunId(7)], false)];
    for (runs, expected) in cases {
        assert_eq!(driver.store.has_notices_about(runs), Ok(expected), "{runs:?}");
    }
    driver.store.set_aside(child, SetAside { since: driver.now, why: "broken".into(), next_try: None });
    assert_eq!(driver.store.has_notices_about(&[child]), Ok(false));
    assert_eq!(driver.store.has_notices_about(&[first]), Ok(true), "its other child");
    driver.store.release(child);
    assert_eq!(driver.store.has_notices_about(&[child]), Ok(true));
    driver.deliver_all(9);
    assert_eq!(driver.store.has_notices_about(&[first, second, child]), Ok(false));
}

/// A receiver that cannot take its notice is tried again later, by a wait that grows; others are not held up, and nothing
/// overtakes what waits for it.
pub fn a_receiver_that_cannot_take_a_notice_holds_up_nobody_else<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let run = driver.start(&parent);
    let all = driver.store.notices(9).expect("reads");
    let (dead, other) = (all[0].1.to.run().expect("it is to a run"), all[1].0);
    let mut wait = 3;
    for tries in 1..=4 {
        let due = driver.store.due_notices(driver.now, 1).expect("reads");
        assert_eq!(due, all[..1], "the oldest, if it is its time");
        driver.begin().expect("begins");
        let postponed = vec![all[0].0];
        driver.stage(Stage { at: driver.now, postponed, ..Stage::default() }).expect("stages");
        let due = driver.store.due_notices(driver.now, 1).expect("reads");
        assert_eq!(due.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [other], "try {tries}");
        assert_eq!(driver.store.notices(9).expect("reads"), all, "all of them are on their way");
        assert_eq!(driver.store.has_notices_about(&[run]), Ok(true));
        assert_eq!(driver.store.backlog(driver.now, &[run, dead]), Ok(vec![dead]));
        let next = driver.now + Millis(wait);
        assert_eq!(driver.store.next_due(), Ok(Some(next)), "try {tries}");
        settle_all(&mut driver);
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
        assert_eq!(
            driver.store.due_notices(next.back(Millis(1)), 9).expect("reads").len(),
            1,
            "it is durable"
        );
        driver.now = next;
        wait *= 2;
    }
    driver.deliver_all(9);
    assert_eq!(children(&mut driver, run).len(), 2);
    assert_eq!(driver.store.backlog(driver.now, &[run, dead]), Ok(vec![]));
    assert_eq!(driver.store.next_due(), Ok(None));
}

/// A notice that was delivered before is passed over: it says nothing new.
pub fn a_notice_may_be_delivered_twice<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    driver.start(&parent);
    let (first, _) = driver.store.notices(9).expect("reads")[0].clone();
    for _ in 0..2 {
        driver.begin().expect("begins");
        let stage = Stage { at: driver.now, delivered: vec![first], ..Stage::default() };
        driver.stage(stage).expect("stages");
        assert_eq!(driver.store.notices(9).expect("reads").len(), 1);
    }
    driver.begin().expect("begins");
    let nobody = NoticeId(first.0 + 1_000);
    let stage = Stage { at: driver.now, delivered: vec![nobody], ..Stage::default() };
    driver.stage(stage).expect("stages");
    assert_eq!(driver.store.notices(9).expect("reads").len(), 1);
}

/// Parents and children tell each other everything through stored notices, and come to their end.
pub fn a_family_comes_to_its_end<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let (mut driver, parent) = family(make());
    let run = driver.start(&parent);
    let cancelled = driver.start(&parent);
    driver.deliver_all(2);
    driver.act(cancelled, Command::Cancel { by: user(), reason: None });
    for child in children(&mut driver, run) {
        driver.work(child, 0);
        driver.say(child, 0, Report::Complete { output: Json::NULL });
    }
    driver.deliver_all(1);
    assert_eq!(driver.run(run).state(), RunState::Completed);
    for child in children(&mut driver, cancelled) {
        assert_eq!(driver.run(child).state(), RunState::Cancelled);
    }
}

/// A flow with two children.
pub(crate) fn family<S: TestStore>(store: S) -> (Driver<S>, Arc<Flow>) {
    let mut driver = Driver::new(store);
    driver.keep(sequence("child", vec![action("q")]));
    let child = || Kind::Child("child".into());
    let parent = driver.keep(graph("parent", vec![step("a", child()), step("b", child())]));
    (driver, parent)
}

pub(crate) fn children<S: TestStore>(driver: &mut Driver<S>, parent: RunId) -> Vec<RunId> {
    let filter = crate::contract::RunFilter { parent: Some(parent), ..Default::default() };
    driver.store.list(&filter, None, usize::MAX).expect("lists").into_iter().map(|run| run.id).collect()
}

fn parent_of(notice: &Notice) -> Option<RunId> {
    match &notice.body {
        NoticeBody::StartChild(child) => child.origin.parent(),
        NoticeBody::ContinueChild { .. }
        | NoticeBody::CancelChild { .. }
        | NoticeBody::PauseChild
        | NoticeBody::UnpauseChild
        | NoticeBody::AmendChild { .. }
        | NoticeBody::ChildChanged { .. }
        | NoticeBody::ChildEnded { .. }
        | NoticeBody::TargetEnded { .. } => None,
    }
}
