//! Flows that are applied and deleted as a whole, and listed with the runs that they have.

use std::sync::Arc;

use unstuck_core::command::Command;
use unstuck_core::event::Actor;
use unstuck_core::id::FlowId;
use unstuck_core::time::Time;

use crate::conformance::TestStore;
use crate::conformance::driver::{Driver, user};
use crate::conformance::flows::{action, sequence};
use crate::conformance::restarts::settle_all;
use crate::contract::{
    Applied, FlowChange, FlowChangeKind, FlowRecord, NewFlow, OpenRuns, PutFlowError, StoreError,
};

/// What a plan says is what is kept, all of it or nothing, durable at once, with who applied it.
pub fn a_file_is_kept_as_a_whole<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let file = [new("f", None, "a"), new("g", Some("1.0"), "b"), new("f", Some("x"), "c")];
    let planned = store.plan_flows(&file).expect("can be planned");
    let words: Vec<&str> = planned.iter().map(|flow| flow.what.word()).collect();
    assert_eq!(words, ["added", "added", "changed"]);
    assert_eq!(store.flows(None, 9), Ok(Vec::new()), "a plan changes nothing");
    let kept = apply(&mut store, &file).expect("is kept");
    assert!(kept.iter().all(|flow| flow.applied == Some(Applied { at: Time(7), by: ada() })));
    let mut store = store.reopen();
    assert_eq!(store.flows(None, 9), Ok(kept.clone()));
    assert_eq!(store.flow_version("g", "1.0"), Ok(Some(kept[1].clone())));
    assert_eq!(store.flow_version("g", "1.1"), Ok(None));

    // One that cannot be kept takes the others with it.
    let file = [new("h", None, "a"), new("g", Some("1.0"), "other")];
    let taken = PutFlowError::VersionTaken { name: "g".into(), version: "1.0".into() };
    assert_eq!(store.plan_flows(&file), Err(taken));
    let mut other = kept[0].clone();
    other.source = "other".into();
    let fresh = FlowRecord { id: FlowId(4), name: "h".into(), ..kept[0].clone() };
    let made_on = store.versions().expect("reads").flows;
    let change = FlowChange { records: vec![other, fresh], ..FlowChange::default() };
    assert!(matches!(store.change_flows(change, made_on), Err(StoreError::Conflict(_))));
    assert_eq!(store.flows(None, 9), Ok(kept.clone()));

    // Planned on what somebody else has changed since.
    let planned = store.plan_flows(&[new("i", None, "a")]).expect("can be planned");
    store.put_flow(new("j", None, "a")).expect("is kept");
    let records = planned.into_iter().map(|flow| flow.record).collect();
    let refused = store.change_flows(FlowChange { records, ..FlowChange::default() }, made_on);
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.newest_flow("i"), Ok(None));

    // The same again is unchanged, and applied by whoever was first.
    let again = [new("f", Some("x"), "c"), new("g", Some("1.0"), "b")];
    let planned = store.plan_flows(&again).expect("can be planned");
    assert!(planned.iter().all(|flow| flow.what == FlowChangeKind::Unchanged));
    let records: Vec<FlowRecord> =
        planned.into_iter().map(|flow| flow.into_record(Time(99), &user())).collect();
    assert_eq!(records, [kept[2].clone(), kept[1].clone()]);
}

/// What is deleted is there for its runs and is not started; the version before it is the newest then. Who applies it again
/// has it again.
pub fn a_deleted_version_is_not_the_newest<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let kept = apply(&mut store, &[new("f", None, "a"), new("f", None, "b")]).expect("is kept");
    let delete = |store: &mut S, record: &FlowRecord| {
        let made_on = store.versions().expect("reads").flows;
        let record = FlowRecord { is_deleted: true, ..record.clone() };
        store
            .change_flows(FlowChange { records: vec![record.clone()], ..FlowChange::default() }, made_on)
            .expect("is deleted");
        record
    };
    let second = delete(&mut store, &kept[1]);
    let mut store = store.reopen();
    assert_eq!(store.newest_flow("f"), Ok(Some(kept[0].clone())));
    assert_eq!(store.flow(second.id), Ok(Some(second.clone())), "its runs need it");
    assert_eq!(store.flow_versions("f"), Ok(vec![kept[0].clone(), second.clone()]));
    let reader = store.reader();
    assert_eq!(reader.flow_versions("f", None, 9), Ok(vec![second.clone(), kept[0].clone()]));
    assert_eq!(reader.flow_versions("f", Some(second.id), 9), Ok(vec![kept[0].clone()]));
    assert_eq!(reader.flow_versions("f", None, 1), Ok(vec![second.clone()]));
    let first = delete(&mut store, &kept[0]);
    assert_eq!(store.newest_flow("f"), Ok(None));
    assert_eq!(store.reader().flow_names(None, 9), Ok(Vec::new()));

    let again = apply(&mut store, &[new("f", Some("1"), "a")]).expect("is kept again");
    assert_eq!(again, [FlowRecord { is_deleted: false, ..first }]);
    let planned = store.plan_flows(&[new("f", Some("2"), "b"), new("f", None, "c")]).expect("can be planned");
    assert_eq!(planned[0].what, FlowChangeKind::Changed, "it is not there, and another version is");
    assert_eq!(&*planned[1].record.version, "3", "a number is given once");
    assert_eq!(store.put_flow(new("f", Some("2"), "b")).map(|flow| flow.is_deleted), Ok(false));
    assert_eq!(store.reopen().newest_flow("f").map(|flow| flow.map(|flow| flow.id)), Ok(Some(second.id)));
}

/// Flows are listed by name, in pages, each with its newest version and how many runs are open; so are versions.
pub fn flows_are_listed_with_their_open_runs<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut driver = Driver::new(make());
    let old = driver.keep(sequence("b", vec![action("q")]));
    let mut second = sequence("b", vec![action("q"), action("r")]);
    second.source = "another".into();
    let new = driver.keep(second);
    let other = driver.keep(sequence("a", vec![action("q")]));
    driver.keep(sequence("c", vec![action("q")]));
    let ended = driver.start(&old);
    driver.start(&old);
    driver.start(&new);
    driver.start(&new);
    driver.start(&other);
    driver.act(ended, Command::Cancel { by: user(), reason: None });
    let all = [old.id, new.id, other.id, FlowId(4)];
    let expected = OpenRuns::from([(old.id, 1), (new.id, 2), (other.id, 1)]);
    assert_eq!(driver.store.open_runs(&all), Ok(expected.clone()));
    assert_eq!(driver.store.open_runs(&[new.id]), Ok(OpenRuns::from([(new.id, 2)])));
    settle_all(&mut driver);
    for _ in 0..2 {
        let reader = driver.store.reader();
        assert_eq!(reader.open_runs(&all), Ok(expected.clone()));
        let listed = reader.flow_names(None, 9).expect("lists");
        let told = listed.iter().map(|flow| (&*flow.name, flow.newest.id, flow.versions, flow.open));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [("a", other.id, 1, 1), ("b", new.id, 2, 3), ("c", FlowId(4), 1, 0)]
        );
        assert_eq!(reader.flow_names(None, 2), Ok(listed[..2].to_vec()));
        assert_eq!(reader.flow_names(Some("a"), 1), Ok(listed[1..2].to_vec()));
        assert_eq!(reader.flow_names(Some("c"), 1), Ok(Vec::new()));
        let (store, rest) = driver.split();
        driver = rest.continue_with(store.reopen());
    }
}

fn apply<S: TestStore>(store: &mut S, flows: &[NewFlow]) -> Result<Vec<FlowRecord>, PutFlowError> {
    let planned = store.plan_flows(flows)?;
    let records: Vec<FlowRecord> =
        planned.into_iter().map(|flow| flow.into_record(Time(7), &ada())).collect();
    let made_on = store.versions()?.flows;
    store.change_flows(FlowChange { records: records.clone(), ..FlowChange::default() }, made_on)?;
    Ok(records)
}

fn new(name: &str, version: Option<&str>, source: &str) -> NewFlow {
    let version = version.map(Arc::from);
    let steps = ["a".into(), "b".into()].into();
    NewFlow { name: name.into(), version, source: source.into(), directory: "/".into(), steps }
}

fn ada() -> Actor {
    Actor::User("ada".into())
}
