//! Runs that are set aside, as they are shown: why, and what to do.

use std::sync::Arc;

use unstuck_core::model::run::Run;
use unstuck_engine::engine::flow_unusable;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_store::contract::{Store, StoreError};

/// Why nothing is decided about a run, if so: the engine has set it aside, or its flow cannot be used.
pub(crate) fn why_aside(
    store: &mut dyn Store,
    flows: &mut Flows,
    run: &Run,
) -> Result<Option<String>, StoreError> {
    if let Some(why) = store.why_aside(run.id) {
        return Ok(Some(why.to_string()));
    }
    match flows.get(store, run.flow) {
        Ok(_) => Ok(None),
        Err(EngineError::Store(error)) => Err(error),
        Err(error) => Ok(Some(flow_unusable(&error.to_string()))),
    }
}

/// The name and the version of the flow of a run, whether it can be used or not.
pub(crate) fn flow_of(store: &mut dyn Store, run: &Run) -> Result<(Arc<str>, Arc<str>), StoreError> {
    let record = store.flow(run.flow)?;
    Ok(record
        .map_or_else(|| (run.flow.to_string().into(), "?".into()), |record| (record.name, record.version)))
}

#[cfg(test)]
mod tests {
    use unstuck_core::command::OnDuplicate;
    use unstuck_core::event::Actor;
    use unstuck_core::json::Json;
    use unstuck_core::time::Time;
    use unstuck_engine::engine::{Engine, Settings};
    use unstuck_engine::request::{Request, StartRun};
    use unstuck_store::memory::MemoryStore;

    use super::*;
    use crate::desk::Desk;
    use crate::desk::asked::{Reading, Wanted};

    /// A store with a run that waits, whose flow does not compile any more.
    fn unusable() -> (MemoryStore, Flows) {
        let compile = |_: &_| Err("step `w` has no field `wait`".to_owned());
        let mut engine = Engine::new(MemoryStore::new(), Box::new(compile), Settings::default()).unwrap();
        let file = "flow: nightly\nsteps:\n  - {id: w, wait: 60s}\n";
        for flow in unstuck_flow::load(file, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        let start = StartRun {
            flow: "nightly".into(),
            key: None,
            input: Json::NULL,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: Actor::Engine,
        };
        engine.submit(Request::Start { ticket: 1, start });
        engine.step(Time(1_800_000_000_000));
        (engine.into_store(), Flows::new(Box::new(compile)))
    }

    #[test]
    fn runs_show_and_explain_say_that_a_run_is_set_aside_and_why() {
        let (mut store, mut flows) = unusable();
        let desk = Desk::default();
        let wanted = Wanted { limit: 9, ..Wanted::default() };
        let page = desk.read(&mut store, &mut flows, &Reading::Runs(wanted)).expect("lists");
        let explain = Reading::ExplainPage { run: "@latest".into(), columns: None };
        let explained = desk.read(&mut store, &mut flows, &explain).expect("explains");
        let show = Reading::Show { run: "@latest".into() };
        let shown = format!("{:?}", desk.read(&mut store, &mut flows, &show).expect_err("cannot be shown"));
        for text in [&page, &explained, &shown] {
            let text = text.replace("\\n", " ");
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            assert!(text.contains("step `w` has no field `wait`"), "{text}");
            assert!(text.contains("Use the version of Unstuck that loaded this flow"), "{text}");
        }
        assert!(page.contains("\"flow\":\"nightly\""), "{page}");
        assert!(explained.contains("is set aside: "), "{explained}");
    }

    #[test]
    fn a_run_that_the_engine_has_set_aside_says_why_with_its_flow() {
        let (mut store, _) = unusable();
        let mut flows = crate::engine::flows();
        let run = store.list(&unstuck_store::contract::Filter::default(), None, 1).unwrap().remove(0);
        store.set_aside(run.id, "deciding about it failed 3 times (a bug). Please report this".into());
        let desk = Desk::default();
        for reading in [
            Reading::ExplainPage { run: run.id.to_string(), columns: None },
            Reading::Show { run: run.id.to_string() },
        ] {
            let text = desk.read(&mut store, &mut flows, &reading).expect("reads").replace("\\n", " ");
            assert!(text.contains("deciding about it failed 3 times"), "{text}");
        }
    }
}
