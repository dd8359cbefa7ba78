//! Flows that are applied, started by version and deleted while an engine runs, and many runs that are started at once.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::Flow;
use unstuck_core::refusal::Refusal;
use unstuck_engine::apply_flows::{ApplyFlows, DeleteFlow, FlowCommand, FlowsOutcome};
use unstuck_engine::engine::{Engine, Settings};
use unstuck_engine::request::{EngineError, StartRun};
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_store::contract::FlowRecord;
use unstuck_store::memory::MemoryStore;

const ONE: &str = "flow: f\nsteps:\n  - {id: a, action: work}\n---\nflow: g\nversion: '1.0'\nsteps:\n  - {id: a, action: work}\n";
const TWO: &str = "flow: f\nsteps:\n  - {id: a, action: work}\n  - {id: b, action: work}\n";

fn flows(text: &str) -> Vec<Flow> {
    unstuck_flow::load(text, "test.yaml", "", &|_| false).expect("a good file").flows
}

fn engine() -> Runtime {
    let compile = |record: &FlowRecord| {
        let loaded = unstuck_flow::load(&record.source, "test.yaml", "", &|_| true);
        Ok(loaded.expect("a good flow").flows.remove(0))
    };
    let engine = Engine::new(MemoryStore::new(), Box::new(compile), Settings::default()).expect("opens");
    Runtime::start(engine, Vec::new(), None)
}

fn ada() -> Actor {
    Actor::User("ada".into())
}

fn apply(handle: &Handle, text: &str, is_dry_run: bool) -> Result<FlowsOutcome, EngineError> {
    let apply = ApplyFlows { flows: flows(text), by: ada(), reason: None, is_dry_run };
    handle.change_flows(FlowCommand::Apply(apply))
}

fn delete(handle: &Handle, flow: &str, version: Option<&str>) -> Result<Vec<String>, EngineError> {
    let version = version.map(Arc::from);
    let delete = DeleteFlow { flow: flow.into(), version, by: ada(), reason: None };
    let outcome = handle.change_flows(FlowCommand::Delete(delete))?;
    Ok(outcome.deleted.iter().map(|record| record.version.to_string()).collect())
}

fn what(outcome: &FlowsOutcome) -> Vec<(String, &'static str)> {
    let each = outcome.applied.iter();
    each.map(|(record, what)| (format!("{} {}", record.name, record.version), what.word())).collect()
}

fn start_of(flow: &str, version: Option<&str>) -> StartRun {
    StartRun {
        flow: flow.into(),
        version: version.map(Into::into),
        key: None,
        input: Json::NULL,
        labels: None,
        priority: 0,
        deadline: None,
        on_duplicate: OnDuplicate::Return,
        home: None,
        by: ada(),
    }
}

fn start(handle: &Handle, flow: &str, version: Option<&str>) -> Result<RunId, EngineError> {
    match handle.start(start_of(flow, version))? {
        Answer::Started(run) => Ok(run),
        other => panic!("{other:?}"),
    }
}

fn steps_of(handle: &Handle, run: RunId) -> usize {
    handle.reader().run(run).expect("reads").expect("is there").steps.len()
}

#[test]
fn flows_are_applied_while_the_engine_runs_and_started_by_version() {
    let runtime = engine();
    let handle = runtime.handle();
    assert_eq!(start(&handle, "f", None), Err(EngineError::UnknownFlow("f".into())));
    let planned = apply(&handle, ONE, true).expect("can be planned");
    assert_eq!(what(&planned), [("f 1".to_owned(), "added"), ("g 1.0".to_owned(), "added")]);
    assert_eq!(start(&handle, "f", None), Err(EngineError::UnknownFlow("f".into())), "it was a dry run");
    let applied = apply(&handle, ONE, false).expect("is applied");
    assert_eq!(what(&applied), what(&planned));
    let by = applied.applied[0].0.applied.as_ref().map(|applied| applied.by.clone());
    assert_eq!(by, Some(ada()));
    let first = start(&handle, "f", None).expect("starts");
    assert_eq!(what(&apply(&handle, TWO, false).expect("is applied")), [("f 2".to_owned(), "changed")]);
    assert_eq!(what(&apply(&handle, TWO, false).expect("is applied")), [("f 2".to_owned(), "unchanged")]);
    let (newest, second) = (start(&handle, "f", None), start(&handle, "f", Some("1")));
    let [newest, second] = [newest.expect("starts"), second.expect("starts")];
    assert_eq!([first, newest, second].map(|run| steps_of(&handle, run)), [1, 2, 1]);
    let unknown = EngineError::UnknownVersion { flow: "f".into(), version: "3".into() };
    assert_eq!(start(&handle, "f", Some("3")), Err(unknown));

    // A version with other content: nothing of the file is kept.
    let taken = format!(
        "{}---\n{}",
        TWO.replace("flow: f", "flow: new"),
        ONE.split("---\n").nth(1).unwrap_or_default()
    );
    let taken = taken.replace("{id: a, action: work}\n", "{id: z, action: work}\n");
    let refused = apply(&handle, &taken, false);
    assert_eq!(refused, Err(EngineError::VersionTaken { flow: "g".into(), version: "1.0".into() }));
    assert_eq!(start(&handle, "new", None), Err(EngineError::UnknownFlow("new".into())));
}

#[test]
fn a_flow_is_deleted_once_no_run_of_it_is_open() {
    let runtime = engine();
    let handle = runtime.handle();
    for text in [ONE, TWO] {
        apply(&handle, text, false).expect("is applied");
    }
    let run = start(&handle, "f", Some("1")).expect("starts");
    let in_use = |version: Option<&str>| {
        Err(EngineError::FlowInUse { flow: "f".into(), version: version.map(Into::into), runs: 1 })
    };
    assert_eq!(delete(&handle, "f", Some("1")), in_use(Some("1")));
    assert_eq!(delete(&handle, "f", None), in_use(None));
    assert_eq!(delete(&handle, "f", Some("2")), Ok(vec!["2".to_owned()]), "no run of it is open");
    let older = start(&handle, "f", None).expect("the version before it is the newest now");
    assert_eq!(steps_of(&handle, older), 1);
    let gone = EngineError::UnknownVersion { flow: "f".into(), version: "2".into() };
    assert_eq!(start(&handle, "f", Some("2")), Err(gone));
    for run in [run, older] {
        handle.command(run, Command::Cancel { by: ada(), reason: None }).expect("is cancelled");
    }
    assert_eq!(delete(&handle, "f", None), Ok(vec!["1".to_owned()]));
    assert_eq!(delete(&handle, "f", None), Ok(Vec::new()), "it is deleted already");
    assert_eq!(start(&handle, "f", None), Err(EngineError::UnknownFlow("f".into())));
    assert_eq!(delete(&handle, "nobody", None), Err(EngineError::UnknownFlow("nobody".into())));
    assert_eq!(steps_of(&handle, run), 1, "its runs are there");
    assert_eq!(what(&apply(&handle, TWO, false).expect("is applied")), [("f 2".to_owned(), "added")]);
    start(&handle, "f", None).expect("it can be started again");
}

#[test]
fn many_runs_are_started_in_one_message_and_answered_once_in_order() {
    let runtime = engine();
    let handle = runtime.handle();
    apply(&handle, ONE, false).expect("is applied");
    let keyed = |on_duplicate| StartRun { key: Some("k".into()), on_duplicate, ..start_of("f", None) };
    let mut starts = vec![keyed(OnDuplicate::Return), start_of("nobody", None)];
    starts.extend([keyed(OnDuplicate::Return), keyed(OnDuplicate::Refuse)]);
    starts.extend((0..1_000).map(|_| start_of("f", None)));
    let (sender, receiver) = sync_channel(1);
    handle.start_many(starts, move |results| drop(sender.send(results)));
    let results = receiver.recv_timeout(Duration::from_mins(1)).expect("is answered").expect("runs");
    assert_eq!(results.len(), 1_004);
    let Ok(Answer::Started(first)) = results[0] else { panic!("{:?}", results[0]) };
    assert_eq!(results[1], Err(EngineError::UnknownFlow("nobody".into())));
    assert_eq!(results[2], Ok(Answer::Exists(first)));
    assert_eq!(results[3], Err(EngineError::Refused(Refusal::KeyExists { key: "k".into(), run: first })));
    let mut runs: Vec<RunId> = Vec::new();
    for result in &results[4..] {
        let Ok(Answer::Started(run)) = result else { panic!("{result:?}") };
        runs.push(*run);
    }
    assert!(runs.is_sorted(), "they are decided in order");
    assert!(runs.iter().all(|run| handle.reader().run(*run).is_ok_and(|run| run.is_some())));
    assert!(receiver.recv().is_err(), "it is answered once");
}
