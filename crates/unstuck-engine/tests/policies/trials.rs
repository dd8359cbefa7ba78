//! Preview and backtest say what really happens, and change nothing; apply does what it says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use unstuck_core::command::Command;
use unstuck_core::decide::Answer;
use unstuck_core::errors::OpenError;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::policy::{DraftBackOff, PolicyDraft};
use unstuck_core::time::Time;
use unstuck_engine::apply::ApplyResult;
use unstuck_engine::executor::function::{FunctionError, FunctionExecutor};
use unstuck_engine::request::{EngineError, StartRun};
use unstuck_engine::runtime::{Handle, Runtime};
use unstuck_engine::trials::{PolicyToTry, PolicyTrial};
use unstuck_store::contract::{ErrorFilter, OpenErrorFilter};
use unstuck_store::memory::MemoryStore;

use crate::support::{draft, engine, load, start, user};

/// A running engine whose steps fail with what their run was given, for good where that begins with `fatal`.
fn runtime() -> Runtime {
    let work = FunctionExecutor::new("work", 4).on("work", |call| {
        let cause = call.input.value().as_str().unwrap_or_default().to_owned();
        let is_fatal = cause.starts_with("fatal");
        Err(if is_fatal { FunctionError::fatal(cause) } else { FunctionError::stalled(cause) })
    });
    Runtime::start(engine(MemoryStore::new()), vec![Box::new(work)], None)
}

/// Starts runs that fail, and waits until all have.
fn fail(handle: &Handle, flow: &str, causes: &[&str]) -> Vec<RunId> {
    let before = errors(handle);
    let mut runs = Vec::new();
    for cause in causes {
        let input = Json::parse(&format!("\"{cause}\"")).expect("is JSON");
        match handle.start(StartRun { input, ..start(flow) }) {
            Ok(Answer::Started(run)) => runs.push(run),
            other => panic!("{other:?}"),
        }
    }
    let patience = Instant::now() + Duration::from_secs(30);
    while errors(handle) < before + causes.len() {
        assert!(Instant::now() < patience, "they do not fail");
        std::thread::yield_now();
    }
    runs
}

fn errors(handle: &Handle) -> usize {
    let read = handle.read(|store, _| store.errors(&ErrorFilter::default(), None, usize::MAX));
    read.expect("runs").expect("reads").len()
}

fn open(handle: &Handle) -> Vec<OpenError> {
    let read = handle.read(|store, _| store.open_errors(&OpenErrorFilter::default(), None, usize::MAX));
    read.expect("runs").expect("reads")
}

/// When each run is resumed, and by whom.
fn schedule(handle: &Handle) -> BTreeMap<RunId, (Time, String)> {
    let resume = |error: OpenError| Some((error.record.run, error.resume?));
    let named = open(handle).into_iter().filter_map(resume);
    named.map(|(run, (due, policy))| (run, (due, policy.name.to_string()))).collect()
}

fn try_draft(draft: &PolicyDraft) -> PolicyToTry {
    PolicyToTry::Draft(Box::new(draft.clone()))
}

const CAUSES: [&str; 5] =
    ["connection reset", "no such file", "reset by peer", "fatal reset", "connection reset"];

#[test]
fn a_preview_says_what_applying_does() {
    let back_off = |delay_s, max_s: Option<i64>, multiplier, random| {
        let (delay, max_delay) = (Some(delay_s * 1_000), max_s.map(|max| max * 1_000));
        Some(DraftBackOff { delay, max_delay, multiplier, random })
    };
    let hour = 3_600;
    let cases = [
        ("a fixed delay", back_off(hour, None, None, false)),
        ("one that grows", back_off(hour, Some(9 * hour), Some(3.0), false)),
        ("one that is drawn", back_off(hour, Some(2 * hour), None, true)),
    ];
    for (what, back_off) in cases {
        let runtime = runtime();
        let handle = runtime.handle();
        let runs = fail(&handle, "one", &CAUSES);
        let draft = PolicyDraft { back_off, ..draft("p", "reset", 0) };
        let before = open(&handle);
        let PolicyTrial { policy, trial, .. } = handle.preview(try_draft(&draft)).expect("is tried");
        assert_eq!((&*policy.name, trial.matched, trial.exhausted), ("p", 3, 0), "{what}");
        assert_eq!(open(&handle), before, "{what}: a preview changes nothing");
        assert_eq!(handle.policies().expect("runs").len(), 0, "{what}");

        handle.change_policies(load([draft], false)).expect("loads");
        assert_eq!(open(&handle), before, "{what}: nor does loading");
        let applied = handle.apply(None, 50, &user()).expect("applies");
        assert_eq!(counts(&applied), [3, 0, 1], "{what}");
        let after = schedule(&handle);
        let taken: Vec<RunId> = trial.errors.iter().map(|taken| taken.record.run).collect();
        assert_eq!(taken, [runs[0], runs[2], runs[4]], "{what}");
        assert!(after.keys().eq(&taken), "{what}: the same runs");
        for taken in trial.errors {
            let (due, by) = &after[&taken.record.run];
            assert!(
                (taken.resume_at..=taken.resume_by).contains(due),
                "{what}: {due:?} is not as in {taken:?}"
            );
            assert_eq!((by.as_str(), taken.taken_from.is_none()), ("p", true));
        }
        let again = handle.apply(None, 50, &user()).expect("applies");
        assert_eq!((counts(&again), again.bulk), ([0, 0, 4], None), "{what}: all is where it belongs");
    }
}

#[test]
fn a_preview_among_others_says_whom_it_takes_from_and_who_is_before_it() {
    let runtime = runtime();
    let handle = runtime.handle();
    let hour = 3_600;
    let first = PolicyDraft { priority: Some(80), ..draft("first", "by peer", hour) };
    let later = PolicyDraft { priority: Some(10), ..draft("later", "connection", hour) };
    let off = PolicyDraft { enabled: Some(false), ..draft("off", "no such", hour) };
    handle.change_policies(load([first, later, off], false)).expect("loads");
    let runs = fail(&handle, "one", &CAUSES);
    let PolicyTrial { trial, .. } =
        handle.preview(try_draft(&draft("new", "reset", hour))).expect("is tried");
    assert_eq!((trial.matched, trial.shadowed_by.get("first")), (2, Some(&1)));
    assert!(trial.errors.iter().all(|taken| taken.taken_from.as_deref() == Some("later")));
    let PolicyTrial { trial, .. } = handle.preview(PolicyToTry::Named("off".into())).expect("is tried");
    assert_eq!(trial.errors.iter().map(|taken| taken.record.run).collect::<Vec<_>>(), [runs[1]]);
    let spent = PolicyDraft { max_attempts: Some(2), ..draft("new", "file", hour) };
    assert_eq!(handle.preview(try_draft(&spent)).map(|tried| tried.trial.matched), Ok(1));
    let unknown = handle.preview(PolicyToTry::Named("nobody".into()));
    assert!(matches!(unknown, Err(EngineError::BadPolicies(_))), "{unknown:?}");
    let bad = handle.preview(try_draft(&PolicyDraft::default()));
    assert!(matches!(bad, Err(EngineError::BadPolicies(_))), "{bad:?}");
}

#[test]
fn a_backtest_agrees_with_what_a_policy_did() {
    let runtime = runtime();
    let handle = runtime.handle();
    let hour = 3_600;
    let policy = draft("p", "reset", hour);
    handle.change_policies(load([policy.clone()], false)).expect("loads");
    fail(&handle, "one", &CAUSES);
    let did = schedule(&handle);
    let far = Time(i64::MAX);
    for tried in [PolicyToTry::Named("p".into()), try_draft(&policy)] {
        let PolicyTrial { trial, .. } = handle.backtest(tried, Time(0), None).expect("is tried");
        assert_eq!(trial.matched, 3);
        let would: BTreeMap<RunId, (Time, String)> =
            trial.errors.iter().map(|taken| (taken.record.run, (taken.resume_at, "p".to_owned()))).collect();
        assert_eq!(would, did);
    }
    let fatal = PolicyDraft { include_fatal: Some(true), ..draft("q", "fatal", hour) };
    let PolicyTrial { trial, .. } = handle.backtest(try_draft(&fatal), Time(0), Some(far)).expect("is tried");
    assert_eq!(trial.matched, 1, "what has failed for good is of the past too");
    assert_eq!(handle.preview(try_draft(&fatal)).map(|tried| tried.trial.matched), Ok(0));
    let record = open(&handle)[0].record.clone();
    for (since, until, matched) in
        [(far, None, 0), (Time(0), Some(Time(1)), 0), (Time(0), Some(record.at), 0), (record.at, None, 3)]
    {
        let tried = handle.backtest(PolicyToTry::Named("p".into()), since, until).expect("is tried");
        assert_eq!(tried.trial.matched, matched, "from {since} to {until:?}");
    }
    assert_eq!(schedule(&handle), did, "nothing is changed");
}

#[test]
fn what_would_be_due_already_is_spread() {
    let runtime = runtime();
    let handle = runtime.handle();
    let runs = fail(&handle, "two", &["reset"; 41]);
    // So that nothing is resumed while somebody looks.
    for run in &runs {
        handle.command(*run, Command::Pause { by: user(), reason: None }).expect("pauses");
    }
    handle.change_policies(load([draft("p", "reset", 0)], false)).expect("loads");
    let acknowledge = Command::Acknowledge { unit: None, by: user(), reason: None };
    handle.command(runs[40], acknowledge).expect("is acknowledged");
    let begun = Instant::now();
    let applied = handle.apply(Some(vec!["p".into()]), 2, &user()).expect("applies");
    let took = i64::try_from(begun.elapsed().as_millis()).expect("moments") + 1;
    assert_eq!(counts(&applied), [40, 0, 0]);
    let id = applied.bulk.expect("it is a bulk action");
    let bulk =
        handle.read(move |store, _| store.bulk(id)).expect("runs").expect("reads").expect("it is there");
    assert_eq!((bulk.state.word(), bulk.total, bulk.pace.rate), ("done", 40, 2));
    let dues: Vec<i64> = schedule(&handle).into_values().map(|(due, _)| due.0).collect();
    let spans: Vec<i64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Each is due so long after it was decided, and that takes a moment.
    assert!(spans.iter().all(|span| *span >= 500), "two a second at most: {spans:?}");
    assert!(dues[39] - dues[0] <= 39 * 500 + took, "two a second at least: {spans:?}");
}

#[test]
fn apply_takes_back_what_nobody_takes_any_more() {
    let runtime = runtime();
    let handle = runtime.handle();
    let hour = 3_600;
    handle
        .change_policies(load([draft("p", "reset", hour), draft("q", "no such", hour)], false))
        .expect("loads");
    let runs = fail(&handle, "one", &["reset", "no such file", "else"]);
    let disable = unstuck_engine::policies::PolicyCommand::Disable { names: vec!["p".into()], by: user() };
    handle.change_policies(disable).expect("is done");
    let only = handle.apply(Some(vec!["q".into()]), 50, &user()).expect("applies");
    assert_eq!(counts(&only), [0, 0, 3], "others are none of its business");
    assert_eq!(schedule(&handle).len(), 2);
    let all = handle.apply(None, 50, &user()).expect("applies");
    assert_eq!(counts(&all), [0, 1, 2]);
    assert!(schedule(&handle).keys().eq([&runs[1]]));
    let refused = handle.apply(Some(vec!["nobody".into()]), 50, &user());
    assert!(matches!(refused, Err(EngineError::BadPolicies(_))), "{refused:?}");
}

/// How many steps were moved, unscheduled and left as they were.
fn counts(applied: &ApplyResult) -> [u64; 3] {
    [applied.moved, applied.unscheduled, applied.unchanged]
}
