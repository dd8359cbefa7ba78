//! Stores of older schemas: they are brought up to date when they are opened, and nothing of them is lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use unstuck_core::bulk::Bulk;
use unstuck_core::command::{Command, Report};
use unstuck_core::errors::open_error;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::json::Json;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Flow, Kind, StepIndex};
use unstuck_core::model::log::{AttemptLog, LogRecord, Tail};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::slot::slot_claim;
use unstuck_core::thing::Thing;
use unstuck_core::time::Millis;
use unstuck_sqlite::verify::check;
use unstuck_sqlite::{MemoryLimits, Options, SqliteStore, StoredKind};
use unstuck_store::conformance::driver::{Driver, user};
use unstuck_store::conformance::flows::{action, graph, sequence, step};
use unstuck_store::conformance::schedules::{scheduled, stage_schedule};
use unstuck_store::conformance::steps::BatchSteps;
use unstuck_store::contract::{
    ErrorFilter, FlowRecord, Locked, NewFlow, OpenErrorFilter, RunChange, RunFilter, RunLogs, Stage,
    StepMark, Store,
};

const SCHEMA_1: &str = include_str!("older/schema-1.sql");
const SCHEMA_3: &str = include_str!("older/schema-3.sql");
/// Runs in every state that the command line reaches, with policies, a bulk action, logs and a second generation.
const SCHEMA_7: &str = include_str!("older/schema-7.sql");
/// Bulk actions in the middle, paused and done, and notices that nobody has delivered.
const SCHEMA_8: &str = include_str!("older/schema-8.sql");
/// Runs in error (acknowledged, and with a resume that a policy has scheduled), held, waiting and completed, before runs had
/// labels.
const SCHEMA_10: &str = include_str!("older/schema-10.sql");
/// Rows of schema 7, a kind and a text each: every variant and every field of what was ever written is in one of them.
const ROWS_7: &str = include_str!("older/rows-7.tsv");
/// What rows of schema 12 have besides: labels of a run.
const ROWS_12: &str = include_str!("older/rows-12.tsv");
/// What rows of schema 14 have besides: schedules.
const ROWS_14: &str = include_str!("older/rows-14.tsv");

/// A folder with a store of the first schema.
fn old_store() -> TempDir {
    store_of(SCHEMA_1)
}

fn store_of(sql: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    connection.execute_batch(sql).expect("the file is made");
    connection.close().expect("closes");
    folder
}

/// The flows of that store.
fn flows(store: &mut SqliteStore) -> BTreeMap<FlowId, Arc<Flow>> {
    let flows =
        [sequence("plain", vec![action("q"), action("r")]), graph("both", vec![action("q"), action("r")])];
    let known = flows.map(|flow| {
        let record = store.newest_flow(&flow.name).expect("reads").expect("is kept");
        (record.id, Arc::new(Flow { id: record.id, version: record.version, ..flow }))
    });
    known.into_iter().collect()
}

fn assert_clean(folder: &Path, flows: &BTreeMap<FlowId, Arc<Flow>>) {
    let mut compile = |record: &FlowRecord| Ok((*flows[&record.id]).clone());
    let report = check(folder, &mut compile, &mut |_| {}).expect("the check can be made");
    assert!(report.is_clean(), "{report:#?}");
}

/// What an engine does when it starts: it looks at the runs that nobody has looked at yet, here at most so many.
fn examine(driver: &mut Driver<SqliteStore>, most: usize) {
    let runs = driver.store.needs_backfill(None, most).expect("reads");
    driver.begin().expect("begins");
    let mut stage = Stage { at: driver.now, backfilled: runs.clone(), ..Stage::default() };
    for locked in driver.lock(&runs).expect("locks") {
        let Locked::Here(run) = locked else { panic!("it is there") };
        let flow = driver.flow_of(&run).clone();
        let units = run.units_where(|unit| matches!(unit.state, UnitState::Error { .. }));
        stage.runs.push(RunChange {
            slot: slot_claim(&run, &flow),
            open_errors: units.into_iter().map(|unit| (unit, open_error(&run, &flow, unit))).collect(),
            run,
            flow: flow.name.clone(),
            events: vec![],
            payloads: vec![],
            wakeups: vec![],
            replaces_all: false,
            leases: vec![],
        });
    }
    driver.stage(stage).expect("stages");
}

fn open(driver: &mut Driver<SqliteStore>) -> Vec<(RunId, String)> {
    let open = driver.store.open_errors(&OpenErrorFilter::default(), None, 99).expect("reads");
    open.into_iter().map(|error| (error.record.run, error.record.action.to_string())).collect()
}

#[test]
fn what_was_in_error_before_is_found_once_somebody_has_looked() {
    for room in [MemoryLimits::default(), MemoryLimits { max_runs: 0, max_tail: 0 }] {
        let folder = old_store();
        let reopen = || SqliteStore::open_with(folder.path(), room).expect("opens");
        let mut store = reopen();
        let flows = flows(&mut store);
        let mut driver = Driver::new(store);
        driver.flows.clone_from(&flows);
        driver.resume();
        let all = driver.store.list(&RunFilter::default(), None, 99).expect("lists");
        assert_eq!(all.len(), 10);
        let switch = driver.store.policy_switch();
        assert_eq!(switch, Ok(unstuck_core::policy::PolicySwitch::default()), "nobody had paused there");
        let live: Vec<RunId> = all.iter().rev().filter(|run| !run.is_final()).map(|run| run.id).collect();
        let unexamined = driver.store.needs_backfill(None, 99).expect("reads");
        assert!(live.iter().all(|run| unexamined.contains(run)), "{unexamined:?}");
        assert_eq!(driver.store.needs_backfill(Some(unexamined[1]), 2), Ok(unexamined[2..4].to_vec()));
        assert_eq!(open(&mut driver), []);
        assert_clean(folder.path(), &flows);

        // One after the other, with a restart between.
        for left in (0..unexamined.len()).rev() {
            examine(&mut driver, 1);
            let (store, rest) = driver.split();
            drop(store);
            driver = rest.continue_with(reopen());
            assert_eq!(driver.store.needs_backfill(None, 99).map(|runs| runs.len()), Ok(left));
            assert_clean(folder.path(), &flows);
        }
        let in_error = |state: RunState| all.iter().rev().filter(move |run| run.state() == state);
        let mut expected: Vec<(RunId, String)> =
            in_error(RunState::Error).map(|run| (run.id, "plain.q".to_owned())).collect();
        let branches = in_error(RunState::Running).filter(|run| driver.flow_of(run).name.as_ref() == "both");
        expected.extend(branches.map(|run| (run.id, "both.q".to_owned())));
        expected.sort();
        assert_eq!(open(&mut driver), expected);
        assert_eq!(
            driver.store.errors(&ErrorFilter::default(), None, 9),
            Ok(vec![]),
            "nobody has recorded them"
        );

        let (run, _) = expected[0];
        let (by, changes) = (user(), Box::default());
        driver.act(run, Command::Resume { unit: None, by, reason: None, changes });
        assert_eq!(open(&mut driver), expected[1..], "from now on it is as with any other run");
        driver.work(run, 0);
        driver.say(run, 0, Report::Fail { error: Box::new(Error::new("connection reset")), fatal: false });
        assert_eq!(driver.store.errors(&ErrorFilter::default(), None, 9).map(|all| all.len()), Ok(1));
        drop(driver);
        assert_clean(folder.path(), &flows);
    }
}

#[test]
fn a_run_that_is_forgotten_need_not_be_looked_at() {
    let folder = old_store();
    let mut store = SqliteStore::open_with(folder.path(), Options::default()).expect("opens");
    let flows = flows(&mut store);
    let mut driver = Driver::new(store);
    driver.flows = flows;
    driver.resume();
    let unexamined = driver.store.needs_backfill(None, 99).expect("reads");
    let run = unexamined[0];
    driver.act(run, Command::Cancel { by: user(), reason: None });
    driver.begin().expect("begins");
    driver.lock(&[run]).expect("locks");
    driver.stage(Stage { at: driver.now, forgotten: vec![run], ..Stage::default() }).expect("forgets");
    assert_eq!(driver.store.needs_backfill(None, 99), Ok(unexamined[1..].to_vec()));
}

fn compile(record: &FlowRecord) -> Result<Flow, String> {
    let loaded = unstuck_flow::load(&record.source, &record.name, &record.directory, &|_| true);
    loaded.map_err(|problems| format!("{problems:?}")).map(|mut loaded| loaded.flows.remove(0))
}

/// The sums of a table, one for each row.
fn sums(folder: &Path, table: &str) -> Vec<Option<i64>> {
    let connection = rusqlite::Connection::open(folder.join("unstuck.db")).expect("opens");
    let mut statement = connection.prepare(&format!("SELECT sum FROM {table}")).expect("reads");
    let found = statement.query_map([], |row| row.get(0)).expect("reads");
    found.collect::<Result<_, _>>().expect("reads")
}

#[test]
fn rows_from_before_checksums_are_read_and_those_after_have_one() {
    let folder = store_of(SCHEMA_3);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let all = store.list(&RunFilter::default(), None, 9).expect("lists");
    assert_eq!(all.iter().map(|run| run.state().word()).collect::<Vec<_>>(), ["waiting", "completed"]);
    let mut payloads = Vec::new();
    for event in store.history(all[1].id, 0, 9).expect("reads") {
        event.for_each_payload(|payload| payloads.push(payload));
    }
    assert_eq!(payloads.len(), 2);
    assert!(store.payloads(&payloads).expect("reads").iter().all(Option::is_some));
    assert_eq!(sums(folder.path(), "event"), [None, None]);
    let mut driver = Driver::new(store);
    let record = driver.store.newest_flow("stops").expect("reads").expect("is kept");
    let flow = compile(&record).expect("compiles");
    driver.flows.insert(record.id, Arc::new(Flow { id: record.id, version: record.version, ..flow }));
    driver.resume();
    driver.act(all[0].id, Command::Cancel { by: user(), reason: None });
    drop(driver);
    let found = sums(folder.path(), "event");
    assert!(matches!(found[..], [None, None, Some(_)]), "{found:?}");
    let report = check(folder.path(), &mut compile, &mut |_| {}).expect("the check can be made");
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_store_from_before_logs_keeps_them_from_now_on() {
    let folder = store_of(SCHEMA_3);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let run = store.list(&RunFilter::default(), None, 9).expect("lists")[1].id;
    assert_eq!(store.logs(run), Ok(RunLogs::default()));
    let batch = store.begin().expect("begins");
    let Some(Locked::Here(locked)) = store.lock(batch, &[run]).expect("locks").pop() else {
        panic!("it is there")
    };
    let unit = UnitRef::step(StepIndex(0));
    let attempt = AttemptId { run, generation: locked.generation, unit, attempt: 1 };
    let stdout = Tail { text: "printed".into(), bytes: 8, cut: false };
    let at = store.last_time().expect("reads").expect("there is one");
    let record = LogRecord { attempt, at, log: AttemptLog { stdout, ..AttemptLog::default() } };
    let (logs, last_id) = (vec![record.clone()], store.last_id().expect("reads"));
    let stage = Stage { at, logs, unchanged: vec![*locked], last_id, ..Stage::default() };
    store.stage(batch, stage).expect("stages");
    drop(store);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    assert_eq!(store.logs(run), Ok(RunLogs { dropped: 0, kept: vec![record] }));
    drop(store);
    let report = check(folder.path(), &mut compile, &mut |_| {}).expect("the check can be made");
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_flow_from_before_the_order_of_steps_was_kept_gets_it_when_it_is_put_again() {
    let folder = store_of(SCHEMA_3);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let record = store.newest_flow("older").expect("reads").expect("is kept");
    assert_eq!(record.steps, None);
    let steps = compile(&record).expect("compiles").step_ids();
    assert_eq!(steps[..], ["fetch".into(), "report".into()]);
    let FlowRecord { name, version, source, directory, .. } = record.clone();
    let new = NewFlow { name, version: Some(version), source, directory, steps: steps.clone() };
    assert_eq!(store.put_flow(new), Ok(FlowRecord { steps: Some(steps.clone()), ..record.clone() }));
    drop(store);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    assert_eq!(store.flow(record.id).expect("reads").expect("is kept").steps, Some(steps));
    assert!(matches!(sums(folder.path(), "flow")[..], [Some(_), None]));
}

/// Its index of what is open was written in other words.
#[test]
fn a_store_of_schema_5_still_lists_what_is_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let room = MemoryLimits { max_runs: 0, max_tail: 0 };
    let mut driver = Driver::new(SqliteStore::open_with(folder.path(), room).expect("opens"));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let flows = driver.flows.clone();
    drop(driver);
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    let older = "ALTER TABLE bulk DROP COLUMN version;
        ALTER TABLE notice DROP COLUMN tries;
        ALTER TABLE notice DROP COLUMN due;
        DROP TABLE attempt_log;
        DROP TABLE run_snapshot;
        DROP TABLE run_label;
        DROP TABLE flow_status;
        DROP TABLE idempotency;
        DROP TABLE token;
        DROP TABLE token_use;
        DROP TABLE audit;
        DROP TABLE run_count;
        DROP TABLE event_mark;
        DROP TABLE error_open;
        DROP TABLE error_open_policy;
        DROP INDEX run_list;
        DROP INDEX run_rests;
        DROP INDEX run_unversioned;
        DROP INDEX run_rests_unknown;
        DROP INDEX wake_due;
        DROP INDEX error_grp_run;
        DROP INDEX error_group_order;
        ALTER TABLE run DROP COLUMN version;
        ALTER TABLE run DROP COLUMN summary;
        DELETE FROM meta WHERE name IN ('number', 'stage', 'end');
        CREATE INDEX error_group_last ON error_group (last);
        CREATE INDEX run_open ON run (id) WHERE state NOT IN ('completed', 'failed', 'cancelled', 'superseded');
        CREATE INDEX run_not_completed ON run (id) WHERE state <> 'completed';
        DROP TABLE schedule;
        PRAGMA user_version = 5;";
    connection.execute_batch(older).expect("written");
    drop(connection);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let states = RunState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let open = store.list(&RunFilter { states, ..RunFilter::default() }, None, 9).expect("lists");
    assert_eq!(open.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    drop(store);
    assert_clean(folder.path(), &flows);
}

/// It had an index by state and one by version, and one of each for runs with a step in error or held.
#[test]
fn a_store_of_schema_12_lists_runs_by_state_and_flow_as_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let room = MemoryLimits { max_runs: 0, max_tail: 0 };
    let mut driver = Driver::new(SqliteStore::open_with(folder.path(), room).expect("opens"));
    let flows = [graph("both", vec![action("a"), action("a")]), sequence("one", vec![action("a")])];
    let [both, one] = flows.map(|flow| driver.keep(flow));
    let fail = || Report::Fail { error: Box::new(Error::new("no".to_owned())), fatal: false };
    // A step of it is in error, and it is running; it is in error as a whole; it waits for somebody; it is over.
    let runs = [&both, &one, &one, &one].map(|flow| driver.start(flow));
    for run in &runs[..2] {
        driver.work(*run, 0);
        driver.say(*run, 0, fail());
    }
    driver.work(runs[3], 0);
    driver.say(runs[3], 0, Report::Complete { output: Json::NULL });
    let flows = driver.flows.clone();
    drop(driver);
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    let older = "DROP INDEX run_list;
        DROP INDEX run_rests;
        CREATE INDEX run_state ON run (state, (parent IS NOT NULL));
        CREATE INDEX run_version ON run (version, state, (parent IS NOT NULL)) WHERE version IS NOT NULL;
        CREATE INDEX run_rests ON run (rests, (parent IS NOT NULL)) WHERE rests > 0;
        CREATE INDEX run_version_rests ON run (version, rests, (parent IS NOT NULL)) WHERE rests > 0;
        DROP TABLE schedule;
        PRAGMA user_version = 12;";
    connection.execute_batch(older).expect("written");
    drop(connection);
    let mut store = SqliteStore::open_with(folder.path(), room).expect("opens");
    let mut list = |flow: Option<&str>, state: RunState| {
        let filter = RunFilter { flow: flow.map(Into::into), states: vec![state], ..RunFilter::default() };
        let found = store.list(&filter, None, 9).expect("lists");
        found.iter().rev().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, RunState::Error), runs[..2]);
    assert_eq!(list(Some("both"), RunState::Error), runs[..1]);
    assert_eq!(list(Some("one"), RunState::Error), runs[1..2]);
    assert_eq!(list(None, RunState::Running), [runs[0], runs[2]]);
    assert_eq!(list(None, RunState::Completed), runs[3..]);
    assert_eq!(list(Some("both"), RunState::Completed), []);
    drop(store);
    assert_clean(folder.path(), &flows);
}

#[test]
fn a_store_of_schema_7_is_whole_and_shows_what_it_showed() {
    let folder = store_of(SCHEMA_7);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let runs = store.list(&RunFilter::default(), None, 99).expect("lists");
    let states: Vec<&str> = runs.iter().map(|run| run.state().word()).collect();
    let expected = [
        "running",
        "error",
        "error",
        "running",
        "paused",
        "running",
        "completed",
        "completed",
        "failed",
        "completed",
        "completed",
        "completed",
        "held",
        "running",
    ];
    assert_eq!(states, expected);
    let generations: u32 = runs.iter().map(|run| run.generation).sum();
    assert_eq!(generations, 15, "one of them was rerun");
    let open = store.open_errors(&OpenErrorFilter::default(), None, 99).expect("reads");
    assert_eq!(open.iter().filter(|error| error.resume.is_some()).count(), 1);
    assert_eq!(store.policies().expect("reads").len(), 2);
    assert!(store.policy_switch().expect("reads").paused().is_some());
    drop(store);
    let report = check(folder.path(), &mut compile, &mut |_| {}).expect("the check can be made");
    assert!(report.is_clean(), "{report:#?}");
}

/// How a target came out was written into the bulk action itself then, and is told by a notice now.
#[test]
fn bulk_actions_and_notices_of_schema_8_go_on() {
    let folder = store_of(SCHEMA_8);
    let mut driver = Driver::new(SqliteStore::open(folder.path()).expect("opens"));
    let child = || Kind::Child("plain".into());
    for flow in [sequence("plain", vec![action("q")]), graph("parent", vec![step("c", child())])] {
        driver.keep(flow);
    }
    driver.resume();
    let flows = driver.flows.clone();
    let things = driver.store.things().expect("reads");
    let bulks: Vec<&Bulk> = things.iter().filter_map(Thing::bulk).collect();
    let [running, paused] = bulks[..] else { panic!("two are not over: {things:?}") };
    assert_eq!((running.state.word(), running.next, running.counts.under_way), ("running", 2, 1));
    assert_eq!((paused.state.word(), paused.next), ("paused", 0));
    assert!(things.iter().all(|thing| thing.version == 1));
    let running = running.id;
    let due = driver.store.due_notices(driver.now, 9).expect("reads");
    assert_eq!(due.len(), 2, "nobody has tried them in vain");

    let (runs, now) = (driver.store.targets(running, None, 0, 9).expect("reads"), driver.now);
    driver.now = now + Millis::seconds(1);
    driver.go_on(running, 9).expect("stages");
    driver.say(runs[1].run, 0, Report::Complete { output: Json::NULL });
    for target in &runs[2..] {
        driver.work(target.run, 0);
        driver.say(target.run, 0, Report::Complete { output: Json::NULL });
    }
    driver.deliver_all(9);
    let ended = driver.store.bulk(running).expect("reads").expect("it is there");
    assert_eq!((ended.state.word(), ended.counts.passed), ("done", 4));
    let parents =
        driver.store.list(&RunFilter { flow: Some("parent".into()), ..RunFilter::default() }, None, 9);
    let states: Vec<RunState> = parents.expect("lists").iter().map(Run::state).collect();
    assert_eq!(states, [RunState::Running, RunState::Completed], "one child is started, one has ended");
    drop(driver);
    assert_clean(folder.path(), &flows);
}

/// The runs that a filter finds, by flow, newest first.
fn found(store: &mut SqliteStore, filter: &RunFilter) -> Vec<String> {
    let reader = store.reader();
    let runs = reader.list(filter, None, 99).expect("lists");
    let name = |flow| reader.flow(flow).expect("reads").expect("is kept").name.to_string();
    runs.iter().map(|run| name(run.flow)).collect()
}

#[test]
fn runs_of_schema_10_are_found_by_filters_that_came_later() {
    let folder = store_of(SCHEMA_10);
    let has = |mark: StepMark| RunFilter { has: vec![mark], ..RunFilter::default() };
    let step =
        |flow: u64| RunFilter { steps: Some(vec![(FlowId(flow), StepIndex(0))]), ..RunFilter::default() };
    let cases = [
        (RunFilter::default(), vec!["waits", "errs", "done", "parent", "holds", "done", "errs"]),
        (has(StepMark::Error), vec!["errs", "errs"]),
        (has(StepMark::Held), vec!["holds"]),
        (has(StepMark::Acknowledged), vec!["errs"]),
        (has(StepMark::Scheduled), vec!["errs"]),
        (RunFilter { policies: vec!["resets".into()], ..RunFilter::default() }, vec!["errs"]),
        (
            RunFilter { key_prefixes: vec!["k-".into()], ..RunFilter::default() },
            vec!["parent", "holds", "done", "errs"],
        ),
        (step(1), vec!["errs", "errs"]),
        (step(2), vec![]),
    ];
    let check_all = |store: &mut SqliteStore, when: &str| {
        for (filter, expected) in &cases {
            assert_eq!(found(store, filter), *expected, "{when}: {filter:?}");
        }
    };
    let assert_whole = || {
        let report = check(folder.path(), &mut compile, &mut |_| {}).expect("the check can be made");
        assert!(report.is_clean(), "{report:#?}");
    };
    check_all(&mut SqliteStore::open(folder.path()).expect("opens"), "as it was");
    assert_whole();

    // Now every run has a row, which says less where it is from before.
    let room = MemoryLimits { max_runs: 0, max_tail: 0 };
    let mut store = SqliteStore::open_with(folder.path(), room).expect("opens");
    let batch = store.begin().expect("begins");
    let (at, last_id) =
        (store.last_time().expect("reads").expect("there is one"), store.last_id().expect("reads"));
    store.stage(batch, Stage { at, last_id, ..Stage::default() }).expect("stages");
    check_all(&mut store, "with rows");
    drop(store);
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM run WHERE state <> 'completed'", [], |row| row.get(0))
        .expect("reads");
    assert_eq!(rows, 4, "those that are not final have rows too");
    let older = "DROP TABLE run_label;
        UPDATE run SET summary = json_remove(summary, '$.s', '$.a', '$.x');
        DROP INDEX run_list;
        DROP INDEX run_rests;
        CREATE INDEX run_state ON run (state, (parent IS NOT NULL));
        CREATE INDEX run_version ON run (version, state, (parent IS NOT NULL)) WHERE version IS NOT NULL;
        CREATE INDEX run_rests ON run (rests, (parent IS NOT NULL)) WHERE rests > 0;
        CREATE INDEX run_version_rests ON run (version, rests, (parent IS NOT NULL)) WHERE rests > 0;
        DROP TABLE schedule;
        PRAGMA user_version = 11;";
    connection.execute_batch(older).expect("written");
    drop(connection);
    check_all(&mut SqliteStore::open(folder.path()).expect("opens"), "with rows from before");
    assert_whole();
}

#[test]
fn rows_of_older_schemas_are_read_and_written_as_they_were() {
    let mut seen = Vec::new();
    for line in ROWS_7.lines().chain(ROWS_12.lines()).chain(ROWS_14.lines()) {
        let (kind, text) = line.split_once('\t').expect("a kind and a text");
        let known =
            StoredKind::ALL.into_iter().find(|known| format!("{known:?}") == kind).expect("a known kind");
        assert_eq!(known.read_and_write(text).as_deref(), Ok(text), "{kind}");
        seen.push(known);
    }
    assert!(StoredKind::ALL.iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

#[test]
fn what_is_recorded_of_requests_begins_with_the_first_change_after_the_update() {
    use unstuck_store::contract::{AdminStore, AuditChange, AuditFilter, AuditId, PolicyChange};
    let folder = store_of(SCHEMA_7);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    let reader = store.reader();
    assert_eq!(reader.audit(&AuditFilter::default(), None, 9), Ok(Vec::new()));
    assert_eq!((store.tokens(), reader.token_uses()), (Ok(Vec::new()), Ok(Vec::new())));
    assert_eq!(store.idempotency("anybody", "anything"), Ok(None));
    let flows = store.flows(None, 99).expect("reads");
    assert!(!flows.is_empty() && flows.iter().all(|flow| flow.applied.is_none() && !flow.is_deleted));
    let before = reader.policy_audit(None, 99).expect("reads");
    let (last, change) = before.first().expect("policies were changed there").clone();
    let (policies, switch) = (store.policies().expect("reads"), store.policy_switch().expect("reads"));
    let change = PolicyChange { policies, switch, changes: vec![change], ..PolicyChange::default() };
    store.put_policies(change, 0).expect("puts");
    let entries = reader.audit(&AuditFilter::default(), None, 9).expect("lists");
    let [(_, entry)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(entry.change, AuditChange::Policy(AuditId(last.0 + 1)), "it follows those that were there");
    assert_eq!(reader.policy_audit(None, 99).map(|all| all.len()), Ok(before.len() + 1));
}

/// A store of schema 13 has no schedules: its table is made when it is opened, and they are kept from then on.
#[test]
fn a_store_of_schema_13_keeps_schedules_from_now_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut driver = Driver::new(SqliteStore::open(folder.path()).expect("opens"));
    let flow = driver.keep(sequence("f", vec![action("a")]));
    let run = driver.start(&flow);
    let flows = driver.flows.clone();
    drop(driver);
    let connection = rusqlite::Connection::open(folder.path().join("unstuck.db")).expect("opens");
    connection.execute_batch("DROP TABLE schedule; PRAGMA user_version = 13;").expect("written");
    drop(connection);
    let mut driver = Driver::new(SqliteStore::open(folder.path()).expect("is brought up to date"));
    assert!(driver.store.run(run).expect("reads").is_some(), "what was there is there");
    let schedule = scheduled(&flow);
    stage_schedule(&mut driver, &Thing::of_schedule(schedule.clone()));
    drop(driver);
    let mut store = SqliteStore::open(folder.path()).expect("opens");
    assert_eq!(store.things(), Ok(vec![Thing::of_schedule(schedule.clone())]));
    assert_eq!(store.reader().schedules(), Ok(vec![schedule]));
    drop(store);
    assert_clean(folder.path(), &flows);
}
