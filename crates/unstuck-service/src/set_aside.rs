//! Runs that are set aside: why, and what to do.

use std::sync::Arc;

use unstuck_api as api;
use unstuck_core::explain::{Explanation, PossibleAction, Upcoming};
use unstuck_core::id::FlowId;
use unstuck_core::model::run::{Origin, Run};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::flow_unusable;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{Reader, StoreError};

use crate::owner::state_phrase;

/// Returns why nothing is decided about a run: the engine has set it aside, or its flow cannot be compiled. Nothing for
/// a run that has ended.
pub fn find_set_aside(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &RunSummary,
) -> Result<Option<api::SetAside>, StoreError> {
    if run.is_final() {
        return Ok(None);
    }
    if let Some(aside) = reader.set_aside_record(run.id) {
        return Ok(Some(api::SetAside {
            since: Some(aside.since.timestamp()),
            why: aside.why.to_string(),
            next_try: aside.next_try.map(Time::timestamp),
        }));
    }
    match flows.get(reader, run.flow) {
        Ok(_) => Ok(None),
        Err(EngineError::Store(error)) => Err(error),
        Err(error) => {
            Ok(Some(api::SetAside { since: None, why: flow_unusable(&error.to_string()), next_try: None }))
        }
    }
}

/// Returns the name and version of a run's flow, even if it cannot be compiled.
pub fn find_flow_name(
    reader: &dyn Reader,
    flows: &ReadFlows,
    flow: FlowId,
) -> Result<(Arc<str>, Arc<str>), StoreError> {
    if let Ok(flow) = flows.get(reader, flow) {
        return Ok((flow.name.clone(), flow.version.clone()));
    }
    let record = reader.flow(flow)?;
    Ok(record.map_or_else(|| (flow.to_string().into(), "?".into()), |record| (record.name, record.version)))
}

/// Builds the explanation of a run whose flow cannot be compiled.
pub(crate) fn explain_without_flow(run: &Run, now: Time, error: &EngineError) -> Explanation {
    Explanation {
        run: run.id,
        now,
        state: run.state(),
        is_idle: false,
        headline: format!(
            "{} is {}. It cannot be explained: {error}",
            run.id,
            state_phrase(run.state().word())
        ),
        notes: Vec::new(),
        happened: Vec::new(),
        earlier: 0,
        because: Vec::new(),
        policies_paused: None,
        next: Vec::new(),
        can: list_actions_without_flow(run),
    }
}

/// Lists what can be done with a run whose flow cannot be compiled.
fn list_actions_without_flow(run: &Run) -> Vec<PossibleAction> {
    let possible = |command: String, what: &str| PossibleAction { command, what: what.to_owned(), act: None };
    let show = possible(format!("unstuck show {}", run.id), "show its input, steps and outputs");
    let end = match (&run.origin, run.is_final()) {
        (_, false) => possible(
            format!("unstuck cancel {}", run.id),
            "end the run: stop its attempts and cancel children",
        ),
        (Origin::Root, true) => possible(
            format!("unstuck forget {} --yes", run.id),
            "delete the run with its children, history and key",
        ),
        (Origin::Child { parent, .. } | Origin::Handler { parent, .. }, true) => {
            possible(format!("unstuck explain {parent}"), "explain the run that this one is part of")
        }
    };
    vec![show, end]
}

/// Changes the explanation of a run that is set aside: says so first, and when it is tried again.
pub(crate) fn explain_set_aside(explanation: &mut Explanation, aside: &api::SetAside) {
    explanation.headline = format!("{} is set aside: {}", explanation.run, aside.why);
    explanation.next.clear();
    if let Some(since) = aside.since {
        let since = Time(since.as_millisecond());
        let span = Millis(explanation.now.0.saturating_sub(since.0).max(0).unsigned_abs());
        explanation.notes.push(format!("Set aside for {span}, since {since}."));
    }
    let next = aside.next_try.map(|at| Time(at.as_millisecond()));
    explanation
        .next
        .extend(next.map(|at| Upcoming { at: Some(at), what: "the engine retries it".to_owned() }));
}

#[cfg(test)]
mod tests {
    use unstuck_api::request::{Query, Request, RunOperation, RunRequest, RunsQuery};
    use unstuck_core::command::OnDuplicate;
    use unstuck_core::event::Actor;
    use unstuck_core::json::Json;
    use unstuck_core::time::Time;
    use unstuck_engine::engine::{Engine, Settings};
    use unstuck_engine::request::StartRun;
    use unstuck_engine::runtime::Runtime;
    use unstuck_store::contract::{FlowRecord, SetAside, Store};
    use unstuck_store::memory::MemoryStore;

    use super::*;
    use crate::service::Service;

    /// A store with a run that waits, whose flow does not compile any more.
    fn unusable() -> (MemoryStore, Service) {
        let compile = |_: &FlowRecord| Err("step `w` has no field `wait`".to_owned());
        let mut engine = Engine::new(MemoryStore::new(), Box::new(compile), Settings::default()).unwrap();
        let file = "flow: nightly\nsteps:\n  - {id: w, wait: 60s}\n";
        for flow in unstuck_flow::load(file, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        let start = StartRun {
            flow: "nightly".into(),
            version: None,
            key: None,
            input: Json::NULL,
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: Actor::Engine,
        };
        engine.submit(unstuck_engine::request::Request::Start { ticket: 1, start });
        engine.step(Time(1_800_000_000_000));
        let flows = ReadFlows::new(Arc::new(compile));
        (engine.into_store(), Service { flows, ..Service::default() })
    }

    #[test]
    fn runs_show_and_explain_say_that_a_run_is_set_aside_and_why() {
        let (mut store, service) = unusable();
        let reader = store.reader();
        let wanted = RunsQuery { limit: 9, ..RunsQuery::default() };
        let page = service.answer_query(&*reader, &Query::Runs(Box::new(wanted))).expect("lists");
        let explain = Query::ExplainPage { run: "@latest".into(), columns: None, without_happened: false };
        let explained = service.answer_query(&*reader, &explain).expect("explains");
        let show = Query::show("@latest");
        let shown = service.answer_query(&*reader, &show).expect("shows");
        for text in [&page, &explained, &shown] {
            let text = text.replace("\\n", " ");
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            assert!(text.contains("step `w` has no field `wait`"), "{text}");
            assert!(text.contains("Use the version of Unstuck that loaded this flow"), "{text}");
        }
        assert!(page.contains("\"flow\":\"nightly\""), "{page}");
        assert!(explained.contains("is set aside: "), "{explained}");
        for command in ["unstuck cancel run_", "unstuck show run_"] {
            assert!(explained.contains(command), "{explained}");
        }
        assert!(shown.contains("\"action\":\"nightly.w\",\"state\":\"waiting\""), "{shown}");
    }

    /// What `explain` offers is done as it is printed: the run is cancelled, then forgotten.
    #[test]
    fn a_run_whose_flow_cannot_be_used_is_cancelled_and_forgotten_as_explain_says() {
        let (store, service) = unusable();
        let compile = |_: &_| Err("step `w` has no field `wait`".to_owned());
        let engine = Engine::new(store, Box::new(compile), Settings::default()).unwrap();
        let runtime = Runtime::start(engine, Vec::new(), None);
        let handle = runtime.handle();
        let explain = || {
            Request::Query(Query::ExplainPage {
                run: "@latest".into(),
                columns: None,
                without_happened: false,
            })
        };
        let change = |what| {
            let change = RunRequest { run: "@latest".into(), by: "ada".into(), what };
            service.handle_request(&handle, Request::Change(change))
        };
        let refused = change(RunOperation::Forget).expect_err("it has not ended");
        assert!(format!("{refused:?}").contains("cancel"), "{refused:?}");
        assert!(
            service.handle_request(&handle, explain()).expect("explains").contains("unstuck cancel run_")
        );
        let cancelled = change(RunOperation::Cancel { reason: None }).expect("cancels");
        assert!(cancelled.contains("\"state\":\"cancelled\""), "{cancelled}");
        let page = service.handle_request(&handle, explain()).expect("explains");
        assert!(page.contains("--yes") && page.contains("unstuck forget run_"), "{page}");
        let forgotten = change(RunOperation::Forget).expect("forgets");
        assert!(forgotten.starts_with("{\"forgotten\":[\"run_"), "{forgotten}");
    }

    /// `setAside` is the same object in the documents of `runs`, `show` and `explain`.
    #[test]
    fn set_aside_is_in_the_documents_of_runs_show_and_explain_with_since_and_why() {
        let (mut store, _) = unusable();
        let reader = store.reader();
        let run = reader.list(&unstuck_store::contract::RunFilter::default(), None, 1).unwrap().remove(0);
        let (since, next_try) = (Time(1_800_000_000_000), Some(Time(1_800_000_060_000)));
        let service = Service::default();
        let read = || {
            let wanted = Query::Runs(Box::new(RunsQuery { limit: 9, ..RunsQuery::default() }));
            let readings = [wanted, Query::show("@latest"), Query::Explain { run: "@latest".into() }];
            let [runs, show, explain] = readings.map(|reading| {
                let text = service.answer_query(&*reader, &reading).expect("reads");
                serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
            });
            [runs["runs"][0].clone(), show["run"].clone(), explain]
        };
        for document in read() {
            assert_eq!(document.get("setAside"), None, "{document}");
        }
        store.set_aside(run.id, SetAside { since, why: "a bug".into(), next_try });
        for document in read() {
            let wanted = serde_json::json!({
                "since": "2027-01-15T08:00:00.000Z", "why": "a bug", "nextTry": "2027-01-15T08:01:00.000Z",
            });
            assert_eq!(document["setAside"], wanted, "{document}");
        }
    }

    #[test]
    fn a_run_that_the_engine_has_set_aside_says_why_with_its_flow() {
        let (mut store, _) = unusable();
        let reader = store.reader();
        let run = reader.list(&unstuck_store::contract::RunFilter::default(), None, 1).unwrap().remove(0);
        let why = "processing it failed 3 times (a bug). Please report this".into();
        store.set_aside(run.id, SetAside { since: run.created_at, why, next_try: None });
        let service = Service::default();
        for reading in [
            Query::ExplainPage { run: run.id.to_string(), columns: None, without_happened: false },
            Query::show(run.id.to_string()),
        ] {
            let text = service.answer_query(&*reader, &reading).expect("reads").replace("\\n", " ");
            assert!(text.contains("processing it failed 3 times"), "{text}");
        }
    }
}
