//! Flows and their versions.

use std::sync::Arc;

use unstuck_core::id::FlowId;

use crate::conformance::TestStore;
use crate::contract::{FlowRecord, NewFlow, PutFlowError};

/// A flow is found by its id and by its name, durable at once.
pub fn a_flow_is_kept<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    assert_eq!(store.newest_flow("f"), Ok(None));
    assert_eq!(store.flow(FlowId(77)), Ok(None));
    let kept = put(&mut store, "f", Some("1.0"), "source", "/here");
    let record = FlowRecord {
        id: kept.id,
        name: "f".into(),
        version: "1.0".into(),
        source: "source".into(),
        directory: "/here".into(),
        steps: Some(["a".into(), "b".into()].into()),
        applied: None,
        is_deleted: false,
    };
    assert_eq!(kept, record);
    let mut store = store.reopen();
    assert_eq!(store.flow(kept.id), Ok(Some(record.clone())));
    assert_eq!(store.newest_flow("f"), Ok(Some(record)));
}

/// The same content again is what is there, in the folder that it was last found in.
pub fn the_same_flow_again_is_the_same<S: TestStore>(make: &mut dyn FnMut() -> S) {
    for version in [None, Some("1.0")] {
        let mut store = make();
        let first = put(&mut store, "f", version, "source", "/here");
        assert_eq!(put(&mut store, "f", version, "source", "/here"), first);
        let moved = put(&mut store, "f", version, "source", "/there");
        assert_eq!(moved, FlowRecord { directory: "/there".into(), ..first.clone() });
        assert_eq!(store.flow(first.id), Ok(Some(moved.clone())));
        // The order of its steps is the one that its runs know.
        let other =
            NewFlow { steps: ["b".into(), "a".into()].into(), ..new("f", version, "source", "/there") };
        assert_eq!(store.put_flow(other), Ok(moved.clone()));
        assert_eq!(store.reopen().flow(first.id), Ok(Some(moved)));
    }
}

/// A version is not given another content; other flows have versions of their own.
pub fn a_version_does_not_change<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let first = put(&mut store, "f", Some("1.0"), "source", "/");
    let result = store.put_flow(new("f", Some("1.0"), "other", "/"));
    assert_eq!(result, Err(PutFlowError::VersionTaken { name: "f".into(), version: "1.0".into() }));
    assert_eq!(store.newest_flow("f"), Ok(Some(first.clone())));
    let other = put(&mut store, "g", Some("1.0"), "other", "/");
    assert_ne!(other.id, first.id);
    let second = put(&mut store, "f", Some("1.1"), "other", "/");
    assert_ne!(second.id, first.id);
    assert_eq!(store.newest_flow("f"), Ok(Some(second.clone())));
    assert_eq!(put(&mut store, "f", Some("1.0"), "source", "/"), first, "an old version can be kept again");
    assert_eq!(store.newest_flow("f"), Ok(Some(second)), "and is not the newest for that");
}

/// Without a version, a content that differs from the newest one gets the number after the highest.
pub fn versions_are_counted<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    let cases = [
        (None, "a", "1"),
        (None, "b", "2"),
        (None, "b", "2"),
        (None, "a", "3"),
        (Some("2024-05"), "c", "2024-05"),
        (None, "d", "4"),
        (Some("9"), "e", "9"),
        (Some("7"), "f", "7"),
        (None, "g", "10"),
    ];
    for (given, source, version) in cases {
        let kept = put(&mut store, "f", given, source, "/");
        assert_eq!(&*kept.version, version, "{source}");
        assert_eq!(store.newest_flow("f"), Ok(Some(kept)));
    }
    assert_eq!(&*put(&mut store, "g", None, "a", "/").version, "1");
}

/// Every version of every flow is listed in the order of their ids, in pages.
pub fn flows_are_listed<S: TestStore>(make: &mut dyn FnMut() -> S) {
    let mut store = make();
    assert_eq!(store.flows(None, 9), Ok(Vec::new()));
    let kept: Vec<FlowRecord> = [("f", "a"), ("g", "a"), ("f", "b")]
        .into_iter()
        .map(|(name, source)| put(&mut store, name, None, source, "/"))
        .collect();
    let mut store = store.reopen();
    assert_eq!(store.flows(None, 9), Ok(kept.clone()));
    assert_eq!(store.flows(None, 2), Ok(kept[..2].to_vec()));
    assert_eq!(store.flows(Some(kept[1].id), 2), Ok(kept[2..].to_vec()));
    assert_eq!(store.flows(Some(kept[2].id), 2), Ok(Vec::new()));
}

fn put<S: TestStore>(
    store: &mut S,
    name: &str,
    version: Option<&str>,
    source: &str,
    directory: &str,
) -> FlowRecord {
    store.put_flow(new(name, version, source, directory)).expect("is kept")
}

fn new(name: &str, version: Option<&str>, source: &str, directory: &str) -> NewFlow {
    let version = version.map(Arc::from);
    let steps = ["a".into(), "b".into()].into();
    NewFlow { name: name.into(), version, source: source.into(), directory: directory.into(), steps }
}
