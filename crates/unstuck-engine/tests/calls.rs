//! What comes with requests: conditions, keys under which they may be repeated, and the audit.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use unstuck_core::api_token::{NewToken, Role, SecretDigest, TokenChangeKind, TokenCommand};
use unstuck_core::command::{Command, OnDuplicate};
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::{BulkId, RunId};
use unstuck_core::json::Json;
use unstuck_core::policy::{Criteria, DraftBackOff, PolicyDraft};
use unstuck_core::refusal::Refusal;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::apply_flows::{ApplyFlows, DeleteFlow, FlowCommand};
use unstuck_engine::bulk::{BulkCommand, BulkFilter, BulkRequest, Selection};
use unstuck_engine::call::{AuditContext, Call, RunMark, key_of_item};
use unstuck_engine::engine::{Engine, NextStep, Settings};
use unstuck_engine::policies::PolicyCommand;
use unstuck_engine::request::{EngineError, Output, Request, StartRun};
use unstuck_engine::runtime::{Handle, Reply, Runtime};
use unstuck_engine::tokens::TokenOrder;
use unstuck_store::contract::{
    AuditChange, AuditFilter, AuditRecord, CallOrigin, CallOutcome, FlowChangeKind, FlowRecord,
    IdempotencyKey, Store,
};
use unstuck_store::memory::{MemoryStore, SharedStore};

const FLOW: &str = "flow: f\nsteps:\n  - {id: a, action: work}\n";
const BEGIN: Time = Time(1_800_000_000_000);

fn compile(record: &FlowRecord) -> Result<unstuck_core::model::flow::Flow, String> {
    let loaded = unstuck_flow::load(&record.source, "test.yaml", "", &|_| true);
    loaded.map(|mut loaded| loaded.flows.remove(0)).map_err(|problems| format!("{problems:?}"))
}

fn engine() -> Runtime {
    let mut engine = Engine::new(MemoryStore::new(), Box::new(compile), Settings::default()).expect("opens");
    for flow in unstuck_flow::load(FLOW, "test.yaml", "", &|_| false).expect("a good file").flows {
        engine.put_flow(flow).expect("kept");
    }
    Runtime::start(engine, Vec::new(), None)
}

fn ada() -> Actor {
    Actor::User("ada".into())
}

fn start_of(key: Option<&str>) -> StartRun {
    StartRun {
        flow: "f".into(),
        version: None,
        key: key.map(Into::into),
        input: Json::NULL,
        labels: None,
        priority: 0,
        deadline: None,
        on_duplicate: OnDuplicate::Return,
        home: None,
        by: ada(),
    }
}

fn key(name: &str, digest: u8) -> IdempotencyKey {
    IdempotencyKey { scope: "tok".into(), key: name.into(), digest: [digest; 32] }
}

fn keyed(name: &str) -> Call {
    Call { idempotency: Some(key(name, 1)), ..Call::default() }
}

/// With an entry in the audit.
fn audited(call: Call) -> Call {
    let origin =
        CallOrigin { user: Some("eve".into()), from: Some("::1".into()), request_id: Some("r".into()) };
    Call { audit: Some(AuditContext { by: ada(), reason: Some("so".into()), origin }), ..call }
}

fn wait<T: Send + 'static>(ask: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> T {
    let (sender, receiver) = sync_channel(1);
    ask(Box::new(move |result| drop(sender.send(result))));
    receiver.recv_timeout(Duration::from_mins(1)).expect("is answered")
}

fn start(handle: &Handle, start: StartRun, call: Call) -> Reply {
    wait(|reply| handle.start_as(start, call, reply))
}

fn command(handle: &Handle, run: RunId, command: Command, call: Call) -> Reply {
    wait(|reply| handle.command_as(run, command, call, reply))
}

fn pause() -> Command {
    Command::Pause { by: ada(), reason: Some("wait".into()) }
}

fn replayed<T>(outcome: CallOutcome) -> Result<T, EngineError> {
    Err(EngineError::Replayed(Box::new(outcome)))
}

fn audit(handle: &Handle) -> Vec<AuditRecord> {
    let mut entries = handle.reader().audit(&AuditFilter::default(), None, 99).expect("lists");
    entries.reverse();
    entries.into_iter().map(|(_, entry)| entry).collect()
}

#[test]
fn a_command_that_expects_another_event_is_refused_and_changes_nothing() {
    let runtime = engine();
    let handle = runtime.handle();
    let Ok(Answer::Started(run)) = handle.start(start_of(None)) else { panic!("it starts") };
    let mark = |handle: &Handle| {
        let run = handle.reader().run(run).expect("reads").expect("is there");
        RunMark { generation: run.generation, seq: run.seq }
    };
    let first = mark(&handle);
    let expecting = |expected| Call { expected: Some(expected), ..Call::default() };
    for wrong in [RunMark { seq: 9, ..first }, RunMark { generation: 2, ..first }] {
        let refused = command(&handle, run, pause(), expecting(wrong));
        assert_eq!(refused, Err(EngineError::Changed(run)));
        assert_eq!(mark(&handle), first, "nothing has happened");
    }
    assert_eq!(command(&handle, run, pause(), expecting(first)), Ok(Answer::Done));
    assert_eq!(command(&handle, run, pause(), expecting(first)), Err(EngineError::Changed(run)));
    let unknown = RunId(7);
    let refused = command(&handle, unknown, pause(), expecting(first));
    assert_eq!(refused, Err(EngineError::Refused(Refusal::UnknownRun(unknown))));
}

#[test]
fn a_repeat_is_answered_with_what_was_done_and_does_nothing() {
    let runtime = engine();
    let handle = runtime.handle();
    let Ok(Answer::Started(run)) = start(&handle, start_of(None), keyed("s")) else { panic!("it starts") };
    let outcome = CallOutcome::Started { run, already: false };
    assert_eq!(start(&handle, start_of(None), keyed("s")), replayed(outcome.clone()));
    let other = Call { idempotency: Some(key("s", 2)), ..Call::default() };
    assert_eq!(start(&handle, start_of(None), other), Err(EngineError::KeyReused("s".into())));
    let elsewhere = IdempotencyKey { scope: "other".into(), ..key("s", 1) };
    let elsewhere = Call { idempotency: Some(elsewhere), ..Call::default() };
    assert!(matches!(start(&handle, start_of(None), elsewhere), Ok(Answer::Started(_))));

    assert_eq!(command(&handle, run, pause(), keyed("p")), Ok(Answer::Done));
    let unpause = Command::Cancel { by: ada(), reason: None };
    command(&handle, run, unpause, Call::default()).expect("is cancelled");
    let outcome = CallOutcome::Changed { run, already: false };
    assert_eq!(command(&handle, run, pause(), keyed("p")), replayed(outcome), "though it is final now");
    let refused = command(&handle, run, pause(), keyed("refused"));
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Final(_)))), "{refused:?}");
    assert_eq!(handle.reader().idempotency("tok", "refused"), Ok(None), "a refusal is not recorded");

    assert_eq!(handle.forget_as(run, Some(&keyed("f"))), Ok(vec![run]));
    let outcome = CallOutcome::Forgotten { runs: vec![run] };
    assert_eq!(handle.forget_as(run, Some(&keyed("f"))), replayed(outcome));
}

#[test]
fn a_key_that_comes_twice_at_once_is_decided_once() {
    let store = MemoryStore::new();
    let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
    for flow in unstuck_flow::load(FLOW, "test.yaml", "", &|_| false).expect("a good file").flows {
        engine.put_flow(flow).expect("kept");
    }
    for ticket in 1..=3 {
        engine.submit_call(Request::Start { ticket, start: start_of(None) }, keyed("s"));
    }
    let mut replies = Vec::new();
    for output in engine.step(BEGIN) {
        if let Output::Reply { ticket, result } = output {
            replies.push((ticket, result));
        }
    }
    let Ok(Answer::Started(run)) = replies[0].1 else { panic!("{replies:?}") };
    let again = replayed(CallOutcome::Started { run, already: false });
    assert_eq!(replies, [(1, Ok(Answer::Started(run))), (2, again.clone()), (3, again)]);
    assert_eq!(engine.store().count_runs(Time(0)).expect("counts").values().sum::<u64>(), 1);
}

#[test]
fn of_two_servers_one_carries_it_out_and_the_other_is_told() {
    let first = SharedStore::new(MemoryStore::deferred());
    let second = first.new_handle();
    let mut servers: Vec<Engine<SharedStore>> = Vec::new();
    for store in [first, second] {
        store.set_time(BEGIN);
        let mut engine = Engine::new(store, Box::new(compile), Settings::default()).expect("opens");
        for flow in unstuck_flow::load(FLOW, "test.yaml", "", &|_| false).expect("a good file").flows {
            engine.put_flow(flow).expect("kept");
        }
        servers.push(engine);
    }
    for server in &mut servers {
        server.submit_call(Request::Start { ticket: 1, start: start_of(None) }, keyed("s"));
    }
    let mut replies = Vec::new();
    for turn in 0..50 {
        for (place, server) in servers.iter_mut().enumerate() {
            for output in server.step(BEGIN + Millis(turn * 40)) {
                if let Output::Reply { result, .. } = output {
                    replies.push((place, result));
                }
            }
            if server.next_step() == NextStep::Settling {
                server.store().store().make_durable(1);
            }
        }
    }
    let [(_, Ok(Answer::Started(run))), (_, second)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(*second, replayed(CallOutcome::Started { run: *run, already: false }));
    let counts = servers[0].store().count_runs(Time(0)).expect("counts");
    assert_eq!(counts.values().sum::<u64>(), 1, "one run was started");
}

#[test]
fn each_of_many_is_repeated_by_itself() {
    let runtime = engine();
    let handle = runtime.handle();
    let base = key("batch", 1);
    let starts = |flows: [&str; 3]| -> Vec<(StartRun, Option<Call>)> {
        let each = flows.iter().enumerate().map(|(place, flow)| {
            let call = Call { idempotency: Some(key_of_item(&base, place)), ..Call::default() };
            (StartRun { flow: (*flow).into(), ..start_of(None) }, Some(call))
        });
        each.collect()
    };
    let many = |starts| wait(|reply| handle.start_many_as(starts, reply)).expect("runs");
    let first: Vec<Reply> = many(starts(["f", "nobody", "f"]));
    let [Ok(Answer::Started(one)), Err(EngineError::UnknownFlow(_)), Ok(Answer::Started(two))] = &first[..]
    else {
        panic!("{first:?}")
    };
    let again = many(starts(["f", "nobody", "f"]));
    let outcome = |run: &RunId| replayed(CallOutcome::Started { run: *run, already: false });
    assert_eq!((&again[0], &again[2]), (&outcome(one), &outcome(two)));
    assert_eq!(again[1], first[1], "what was refused is decided again");
}

#[test]
fn changes_between_batches_are_repeated_and_recorded_too() {
    let runtime = engine();
    let handle = runtime.handle();
    let flows = unstuck_flow::load("flow: g\nsteps:\n  - {id: a, action: work}\n", "g.yaml", "", &|_| false);
    let flows = flows.expect("a good file").flows;
    let apply = || {
        FlowCommand::Apply(ApplyFlows { flows: flows.clone(), by: ada(), reason: None, is_dry_run: false })
    };
    let applied = handle.change_flows_as(apply(), audited(keyed("a"))).expect("is applied");
    let id = applied.applied[0].0.id;
    let outcome = CallOutcome::FlowsApplied { flows: vec![(id, FlowChangeKind::Added)] };
    assert_eq!(handle.change_flows_as(apply(), audited(keyed("a"))), replayed(outcome));
    let delete =
        || FlowCommand::Delete(DeleteFlow { flow: "g".into(), version: None, by: ada(), reason: None });
    for (name, flows) in [("d", vec![id]), ("e", Vec::new())] {
        handle.change_flows_as(delete(), audited(keyed(name))).expect("is deleted");
        let outcome = CallOutcome::FlowsDeleted { flows };
        assert_eq!(handle.change_flows_as(delete(), audited(keyed(name))), replayed(outcome));
    }

    let draft = PolicyDraft {
        name: Some("resets".into()),
        criteria: Criteria { error_substring: Some("reset".into()), ..Criteria::default() },
        max_attempts: Some(3),
        back_off: Some(DraftBackOff { delay: Some(1_000), ..DraftBackOff::default() }),
        ..PolicyDraft::default()
    };
    let load = || PolicyCommand::Load { drafts: vec![draft.clone()], replace: false, by: ada() };
    handle.change_policies_as(load(), audited(keyed("l"))).expect("is loaded");
    let again = handle.change_policies_as(load(), audited(keyed("l")));
    let Err(EngineError::Replayed(outcome)) = again else { panic!("{again:?}") };
    let change = handle.reader().policy_audit(None, 1).expect("lists")[0].0;
    assert_eq!(*outcome, CallOutcome::PoliciesChanged { changes: vec![change], unchanged: Vec::new() });

    let what: Vec<String> = audit(&handle).iter().map(|entry| entry.what.to_string()).collect();
    assert_eq!(what, ["flow.added", "flow.deleted", "policy.added"]);
    let entry = audit(&handle).pop().expect("is there");
    assert_eq!((entry.change, entry.origin.user), (AuditChange::Policy(change), Some("eve".into())));
}

#[test]
fn every_change_has_an_entry_with_who_why_and_where_it_leads() {
    let runtime = engine();
    let handle = runtime.handle();
    let call = || audited(Call::default());
    let Ok(Answer::Started(run)) = start(&handle, start_of(Some("k")), call()) else { panic!("it starts") };
    start(&handle, start_of(Some("k")), call()).expect("it is there");
    command(&handle, run, pause(), call()).expect("is paused");
    assert_eq!(command(&handle, run, pause(), call()), Ok(Answer::Already));
    command(&handle, run, Command::Cancel { by: ada(), reason: None }, call()).expect("is cancelled");
    assert!(command(&handle, run, pause(), call()).is_err());
    let entries = audit(&handle);
    let told: Vec<(&str, Option<RunId>, Option<&str>)> =
        entries.iter().map(|entry| (&*entry.what, entry.run, entry.reason.as_deref())).collect();
    let expected = [("run.start", Some("so")), ("run.pause", Some("wait")), ("run.cancel", Some("so"))];
    assert_eq!(
        told,
        expected.map(|(what, reason)| (what, Some(run), reason)),
        "what changed nothing is not there"
    );
    let history = handle.reader().history(run, 0, 9).expect("reads");
    for (entry, event) in entries.iter().zip(&history) {
        assert_eq!(entry.change, AuditChange::Event(event.seq));
        assert_eq!((&entry.by, entry.origin.from.as_deref()), (&ada(), Some("::1")));
    }
    handle.forget_as(run, Some(&call())).expect("is forgotten");
    let last = audit(&handle).pop().expect("is there");
    assert_eq!((&*last.what, last.run), ("run.forget", Some(run)), "it outlives its run");
}

#[test]
fn a_bulk_action_is_recorded_when_it_begins_and_is_changed() {
    let runtime = engine();
    let handle = runtime.handle();
    let runs: Vec<RunId> = (0..3)
        .map(|_| match handle.start(start_of(None)) {
            Ok(Answer::Started(run)) => run,
            other => panic!("{other:?}"),
        })
        .collect();
    let order = |selection| BulkRequest {
        action: unstuck_core::bulk::BulkAction::Cancel,
        selection,
        words: "three".into(),
        max: None,
        pace: unstuck_core::bulk::Pace { rate: 1, canary: None },
        by: ada(),
        reason: Some("why".into()),
    };
    let all = || order(Selection::Runs(runs.clone()));
    let (begun, _) = handle.start_bulk_as(all(), audited(keyed("b"))).expect("begins");
    let bulk: BulkId = begun.expect("there are targets").id;
    let again = handle.start_bulk_as(all(), audited(keyed("b")));
    assert_eq!(again, replayed(CallOutcome::BulkBegun { bulk: Some(bulk), left_out: 0 }));
    let paused = handle.change_bulk_as(bulk, BulkCommand::Pause, Some(audited(keyed("p"))));
    assert_eq!(paused, Ok(Answer::Done));
    let again = handle.change_bulk_as(bulk, BulkCommand::Pause, Some(audited(keyed("p"))));
    assert_eq!(again, replayed(CallOutcome::BulkChanged { bulk, already: false }));
    let nothing = || {
        order(Selection::Common {
            common: BulkFilter { flow: Some("none".into()), ..BulkFilter::default() },
            group: None,
        })
    };
    assert_eq!(handle.start_bulk_as(nothing(), keyed("n")).map(|(begun, _)| begun), Ok(None));
    let again = handle.start_bulk_as(nothing(), keyed("n"));
    assert_eq!(again, replayed(CallOutcome::BulkBegun { bulk: None, left_out: 0 }));
    let entries = audit(&handle);
    let told: Vec<(&str, Option<&str>)> =
        entries.iter().map(|entry| (&*entry.what, entry.reason.as_deref())).collect();
    assert_eq!(told, [("bulk.begin", Some("why")), ("bulk.pause", Some("so"))]);
    assert!(entries.iter().all(|entry| entry.thing.as_deref() == Some(&*bulk.to_string())));
    let AuditChange::Values { before: Some(before), after: Some(after) } = &entries[1].change else {
        panic!("{entries:?}")
    };
    assert_eq!((before.text(), after.text()), (r#"{"state":"running"}"#, r#"{"state":"paused"}"#));
}

#[test]
fn tokens_are_made_rotated_and_revoked_with_an_entry_each() {
    let runtime = engine();
    let handle = runtime.handle();
    let order = |command, call| TokenOrder { command, by: ada(), reason: Some("new team".into()), call };
    let create = |name: &str| {
        TokenCommand::Create(Box::new(NewToken {
            name: name.into(),
            role: Role::Operator,
            actions: Vec::new(),
            flows: Vec::new(),
            origin: None,
            payloads: true,
            expires_in: Some(Millis(60_000)),
            digest: SecretDigest([1; 32]),
        }))
    };
    let before = handle.tokens_version();
    let made = handle.change_tokens(order(create("ops"), keyed("t"))).expect("is made").after;
    assert!(handle.tokens_version() > before, "whoever keeps tokens reads them again");
    assert_eq!(handle.reader().tokens(), Ok(vec![made.clone()]));
    let again = handle.change_tokens(order(create("ops"), keyed("t")));
    assert_eq!(again, replayed(CallOutcome::Token { token: made.id }));
    let refused = handle.change_tokens(order(create("ops"), Call::default()));
    assert!(matches!(refused, Err(EngineError::BadToken(_))), "{refused:?}");
    let name: Arc<str> = made.id.to_string().into();
    let digest = SecretDigest([2; 32]);
    let rotate = TokenCommand::Rotate { token: name.clone(), digest, overlap: Millis(10) };
    handle.change_tokens(order(rotate, Call::default())).expect("is rotated");
    for what in [TokenChangeKind::Revoked, TokenChangeKind::Unchanged] {
        let revoke = TokenCommand::Revoke { token: name.clone() };
        assert_eq!(handle.change_tokens(order(revoke, Call::default())).map(|change| change.what), Ok(what));
    }
    assert!(handle.reader().tokens().expect("reads")[0].revoked_at.is_some());
    let entries = audit(&handle);
    let what: Vec<&str> = entries.iter().map(|entry| &*entry.what).collect();
    assert_eq!(what, ["token.created", "token.rotated", "token.revoked"]);
    let told = format!("{entries:?}");
    assert!(!told.contains("digest") && !told.contains("0101"), "{told}");
    assert!(entries.iter().all(|entry| entry.thing.as_deref() == Some("ops")));

    handle.record_token_use(made.id);
    // Whoever is answered was decided about after that.
    handle.start(start_of(None)).expect("starts");
    let uses = handle.reader().token_uses().expect("reads");
    assert_eq!(uses.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [made.id]);
}
