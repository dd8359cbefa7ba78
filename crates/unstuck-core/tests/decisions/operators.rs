//! What operators do: pause and unpause, cancel, signals, resumes, and what each is refused for.

use std::sync::Arc;

use crate::flows::{flow, flow_with, step, step_of};
use crate::support::{BEGIN, World, done, fatal, lacking, local, operator, output, stall};
use unstuck_core::command::{Changes, Command, Rerun};
use unstuck_core::decide::{Answer, MAX_PAYLOAD_BYTES};
use unstuck_core::event::{Actor, Choice, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::attempt::{AttemptId, Cancelled, Outcome, ResumedBy};
use unstuck_core::model::flow::{Deadline, Flow, Kind, StepIndex, WaitFor};
use unstuck_core::model::run::{KEPT_SIGNAL_NAMES, KEPT_SIGNALS, Phase, RunEnd, RunOutcome, RunState};
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::outline::can_decide_by_outline;
use unstuck_core::time::Millis;
use unstuck_core::wakeup::wakeups;

/// A run with something of everything: `a` is active, `b` is ready, `r` waits for its retry, `d` is deferred, `w`
/// waits for a timer, `s` for a signal.
fn busy() -> (World, RunId, AttemptId) {
    let steps = vec![
        step("a").needs(&[]),
        step("next"),
        step("b").needs(&[]),
        step("r").needs(&[]).retry(Some(2), 5),
        step("d").needs(&[]),
        step_of("w", Kind::Wait(WaitFor::Span(Millis::seconds(20)))).needs(&[]),
        step_of("s", Kind::Signal("go".into())).needs(&[]).change(|step| step.limits.timeout = None),
    ];
    let flow = flow_with("f", steps, |flow| flow.deadline = Some(Deadline::After(Millis::hours(10))));
    let mut world = World::new(vec![flow]);
    let run = world.start("f");
    let a = world.begin(run, "a");
    world.attempt(run, "r", stall("x"));
    world.attempt(run, "d", lacking());
    (world, run, a)
}

const ALL: [&str; 7] = ["a", "next", "b", "r", "d", "w", "s"];

#[test]
fn a_paused_run_lets_active_attempts_finish_and_dispatches_nothing() {
    let (mut world, run, a) = busy();
    assert_eq!(world.pause(run), Ok(Answer::Done));
    assert_eq!(world.pause(run), Ok(Answer::Already));
    assert_eq!(world.state(run), RunState::Paused);
    let refusal = world.claim(run, "b", &local("w")).expect_err("nothing is dispatched");
    assert_eq!(
        refusal.to_string(),
        "the run is paused, so it cannot hand out an attempt; claim it when the run continues"
    );
    // The attempt under way is recorded; what it makes possible waits, and so does every timer but the deadline.
    world.say(a, done()).expect("recorded");
    world.signal(run, "go", "1").expect("kept");
    world.pass(Millis::hours(1));
    let paused = ["completed", "pending", "ready", "waiting", "waiting", "waiting", "waiting"];
    assert_eq!(world.steps(run, ALL), paused);
    let places: Vec<_> =
        wakeups(&world.runs[&run], &world.flows["f"]).into_iter().map(|(unit, _)| unit).collect();
    assert_eq!(places, [None], "only the deadline is left");

    // Whatever came due meanwhile is done at once.
    assert_eq!(world.unpause(run), Ok(Answer::Done));
    world.pass(Millis(0));
    let going = ["completed", "ready", "ready", "ready", "ready", "completed", "completed"];
    assert_eq!(world.steps(run, ALL), going);
    assert_eq!(world.state(run), RunState::Running);
    assert_eq!(world.unpause(run), Ok(Answer::Already));
}

#[test]
fn a_paused_run_still_has_its_deadline_and_its_recovery() {
    let (mut world, run, _) = busy();
    world.pause(run).expect("paused");
    world.pass(Millis::hours(10));
    assert_eq!(world.state(run), RunState::Failed);

    // What an attempt under way comes to while the run is paused climbs the ladder.
    let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(2), 5)])]);
    let run = world.start("f");
    let attempt = world.begin(run, "a");
    world.pause(run).expect("paused");
    world.say(attempt, stall("x")).expect("recorded");
    world.pass(Millis::hours(1));
    assert_eq!((world.step(run, "a"), world.state(run)), ("waiting", RunState::Paused));
    world.unpause(run).expect("goes on");
    world.pass(Millis(0));
    assert_eq!(world.step(run, "a"), "ready");
}

#[test]
fn operators_may_decide_for_a_paused_run_and_it_acts_on_that_later() {
    let steps = vec![step("h").hold(None).needs(&[]), step("e").needs(&[])];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "h", stall("x"));
    world.attempt(run, "e", stall("x"));
    world.pause(run).expect("paused");
    world.choose(run, "h", Choice::Retry).expect("chosen");
    world.resume(run, "e").expect("resumed");
    assert_eq!((world.steps(run, ["h", "e"]), world.state(run)), (["ready", "ready"], RunState::Paused));
    assert!(world.wakeup(run, "h").ready.is_none() && world.wakeup(run, "e").ready.is_none());
    world.unpause(run).expect("goes on");
    assert!(world.wakeup(run, "h").ready.is_some() && world.wakeup(run, "e").ready.is_some());
}

#[test]
fn a_cancelled_run_is_final_at_once_and_its_attempts_are_void_and_interrupted() {
    let (mut world, run, _) = busy();
    let reason = Some("no longer needed".into());
    world.ask(run, Command::Cancel { by: operator(), reason }).expect("cancelled");
    assert_eq!(world.steps(run, ALL), ["cancelled"; 7]);
    let Phase::Ended(RunEnd { at, how: RunOutcome::Cancelled { reason } }) = &world.runs[&run].phase else {
        panic!("cancelled")
    };
    assert_eq!((*at, reason.as_deref()), (BEGIN, Some("no longer needed")));
    let past = &world.unit(run, "a").past[0];
    assert_eq!(past.outcome, Outcome::Cancelled(Cancelled::RunCancelled));
    let told: Vec<_> =
        world.interrupted().into_iter().map(|(attempt, why)| (attempt.unit.step, why)).collect();
    assert_eq!(told, [(StepIndex(0), "the run was cancelled".to_owned())]);
    assert!(wakeups(&world.runs[&run], &world.flows["f"]).is_empty());
    assert_eq!(world.cancel(run), Ok(Answer::Already));
}

#[test]
fn a_run_is_cancelled_from_any_state_that_is_not_final() {
    type Bring = fn(&mut World, RunId);
    let cases: [(&str, Bring); 5] = [
        ("held", |world, run| {
            world.attempt(run, "a", stall("x"));
        }),
        ("error", |world, run| {
            world.attempt(run, "a", done());
            world.attempt(run, "b", stall("x"));
        }),
        ("waiting", |world, run| {
            world.attempt(run, "a", lacking());
        }),
        ("paused", |world, run| {
            world.pause(run).expect("done");
        }),
        ("running", |_, _| {}),
    ];
    for (state, bring) in cases {
        let mut world = World::new(vec![flow("f", vec![step("a").hold(None), step("b")])]);
        let run = world.start("f");
        bring(&mut world, run);
        assert_eq!(world.state(run).word(), state);
        world.cancel(run).expect(state);
        assert_eq!(world.state(run), RunState::Cancelled, "{state}");
    }
}

#[test]
fn signals_are_kept_per_name_first_in_first_out_and_consumed_once() {
    let waits = |id: &str, name: &str| step_of(id, Kind::Signal(name.into()));
    let steps =
        vec![step("a"), waits("first", "go"), waits("second", "go"), waits("other", "stop"), step("z")];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    // They come before anybody waits for them.
    for payload in ["1", "2", "3"] {
        world.signal(run, "go", payload).expect("kept");
    }
    assert_eq!(world.step(run, "first"), "pending");
    world.attempt(run, "a", done());
    assert_eq!(world.steps(run, ["first", "second", "other"]), ["completed", "completed", "waiting"]);
    let outputs = ["first", "second"].map(|step| {
        let place = world.unit_ref(run, step).step;
        world.json(world.runs[&run].step(place).output().unwrap()).text().to_owned()
    });
    assert_eq!(outputs, ["1", "2"]);
    assert_eq!(world.runs[&run].signals["go"].len(), 1, "the third is kept");
    world.signal(run, "stop", "null").expect("taken");
    assert_eq!(world.step(run, "z"), "ready");
    world.attempt(run, "z", done());
    assert!(world.runs[&run].signals.is_empty(), "nobody will ask for it any more");
}

#[test]
fn there_is_a_limit_to_the_signals_that_are_kept_and_to_their_size() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    for n in 0..KEPT_SIGNALS {
        world.signal(run, "go", &n.to_string()).expect("kept");
    }
    let seq = world.runs[&run].seq;
    let refusal = world.signal(run, "go", "1").expect_err("too many");
    assert_eq!(
        refusal.to_string(),
        "1000 signals `go` are waiting already; send more after the run has consumed some"
    );
    let large = format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES));
    let refusal = world.signal(run, "stop", &large).expect_err("too large");
    assert_eq!(
        refusal.to_string(),
        "the signal is too large (16777218 bytes, at most 16777216); store it elsewhere and pass a reference"
    );
    assert_eq!(world.runs[&run].seq, seq);
    world.signal(run, "stop", "1").expect("another name has its own room");
}

#[test]
fn there_is_a_limit_to_the_names_of_signals_unless_a_step_waits_for_them() {
    let steps = vec![step("a"), step_of("s", Kind::Signal("go".into()))];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    for n in 0..KEPT_SIGNAL_NAMES {
        world.signal(run, &format!("n{n}"), "1").expect("kept");
    }
    let seq = world.runs[&run].seq;
    let refusal = world.signal(run, "og", "1").expect_err("too many");
    assert_eq!(
        refusal.to_string(),
        "signals of 100 names are waiting already, and no step of the flow waits for `og`; check the name"
    );
    assert_eq!(world.runs[&run].seq, seq);
    world.signal(run, "n7", "2").expect("a name that is kept already");
    world.signal(run, "go", "1").expect("a name that a step waits for");
    world.attempt(run, "a", done());
    assert_eq!(world.state(run), RunState::Completed);
}

#[test]
fn a_signal_that_does_not_come_in_time_is_stalled() {
    let waits =
        step_of("s", Kind::Signal("go".into())).change(|step| step.limits.timeout = Some(Millis::minutes(5)));
    let mut world = World::new(vec![flow("f", vec![waits])]);
    let run = world.start("f");
    world.pass(Millis::minutes(5));
    assert_eq!((world.step(run, "s"), world.state(run)), ("error", RunState::Error));
    let error = world.unit(run, "s").last_error().unwrap();
    assert_eq!(&*error.cause, "signal `go` did not arrive within 5m");
    // A late one is kept for the next round.
    world.signal(run, "go", "7").expect("kept");
    world.resume(run, "s").expect("resumed");
    assert_eq!((world.state(run), world.output(run).as_str()), (RunState::Completed, "7"));
}

#[test]
fn one_of_several_errors_is_resumed_or_all_of_them() {
    let steps = || vec![step("a").needs(&[]), step("b").needs(&[]), step("c").needs(&[])];
    let mut world = World::new(vec![flow("f", steps())]);
    let run = world.start("f");
    for step in ["a", "b", "c"] {
        world.attempt(run, step, stall("x"));
    }
    world.resume(run, "b").expect("resumed");
    assert_eq!(world.steps(run, ["a", "b", "c"]), ["error", "ready", "error"]);
    assert_eq!(world.state(run), RunState::Running);
    world.attempt(run, "b", output("2"));
    assert_eq!(world.state(run), RunState::Error);
    world
        .ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() })
        .expect("resumed");
    assert_eq!(world.steps(run, ["a", "b", "c"]), ["ready", "completed", "ready"]);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_sentence_and_changes_nothing() {
    let steps = vec![step("a").needs(&[]), step("e").needs(&[]), step("h").hold(None).needs(&[])];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "e", stall("x"));
    world.attempt(run, "h", stall("x"));
    let unit = |place: u16| UnitRef::step(StepIndex(place));
    let resume =
        |unit| Command::Resume { unit: Some(unit), by: operator(), reason: None, changes: Box::default() };
    let choose = |unit| Command::Choose { unit, choice: Choice::Retry, by: operator(), bulk: None };
    let rerun = |what| Command::rerun(what, operator());
    let open = [
        (
            resume(unit(0)),
            "step `a` is ready, not in error; only a step in error can be resumed or acknowledged; for a held step, \
             choose retry or none",
        ),
        (
            resume(unit(2)),
            "step `h` is held, not in error; only a step in error can be resumed or acknowledged; for a held step, \
             choose retry or none",
        ),
        (resume(unit(9)), "the run has no step `#9`"),
        (resume(UnitRef::item(StepIndex(0), 4)), "the run has no step `a[4]`"),
        (
            choose(unit(1)),
            "step `e` is in error, not held; only a held step has a choice; resume a step in error instead",
        ),
        (choose(unit(9)), "the run has no step `#9`"),
        (
            Command::Claim { unit: unit(1), worker: local("w") },
            "step `e` is in error, not ready; another worker was faster, or the run stopped",
        ),
        (Command::Claim { unit: unit(9), worker: local("w") }, "the run has no step `#9`"),
        (rerun(Rerun::Continue), "the run is running, so it cannot be rerun; cancel it first"),
    ];
    refused(&mut world, run, open);
    world.resume(run, "e").expect("resumed");
    world.attempt(run, "a", fatal("x"));
    assert_eq!(world.state(run), RunState::Failed);
    let last = "the run is failed and final; a rerun starts its next generation";
    let signal =
        Command::Signal { name: "go".into(), payload: unstuck_core::json::Json::NULL, by: operator() };
    let finals = [
        (resume(unit(1)), last),
        (Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() }, last),
        (choose(unit(2)), last),
        (Command::Pause { by: operator(), reason: None }, last),
        (Command::Unpause { by: operator() }, last),
        (Command::Cancel { by: operator(), reason: None }, last),
        (signal, last),
        (rerun(Rerun::Steps(vec![StepIndex(9)])), "the run has no step `#9`"),
    ];
    refused(&mut world, run, finals);
    let nobody = RunId(5);
    assert_eq!(world.pause(nobody).expect_err("unknown").to_string(), format!("there is no run {nobody}"));
}

fn refused<const N: usize>(world: &mut World, run: RunId, cases: [(Command, &str); N]) {
    let before = world.runs.clone();
    for (command, says) in cases {
        let what = format!("{command:?}");
        let refusal = world.ask(run, command).expect_err(&what);
        assert_eq!(refusal.to_string(), says, "{what}");
        assert_eq!(world.runs, before, "{what}");
    }
}

#[test]
fn a_run_with_no_step_in_error_cannot_be_resumed() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let refusal = world
        .ask(run, Command::Resume { unit: None, by: operator(), reason: None, changes: Box::default() })
        .expect_err("refused");
    assert_eq!(
        refusal.to_string(),
        "the run is running, so it cannot be resumed; none of its steps is in error"
    );
}

#[test]
fn a_resume_tries_what_waits_for_a_retry_or_a_deferral_now_in_a_new_round() {
    type Bring = fn(&mut World, RunId);
    let stalls: Bring = |world, run| {
        world.attempt(run, "a", stall("x"));
    };
    let defers: Bring = |world, run| {
        world.attempt(run, "a", lacking());
    };
    let gone: Bring = |world, run| {
        let attempt = world.begin(run, "a");
        world.ask(run, Command::Lost { attempt, with_others: false }).expect("lost");
    };
    let cases: [(&str, Bring); 3] = [("a retry", stalls), ("a deferral", defers), ("stuck", gone)];
    for (name, bring) in cases {
        for named in [false, true] {
            let mut world = World::new(vec![flow("f", vec![step("a").retry(Some(2), 3_600)])]);
            let run = world.start("f");
            bring(&mut world, run);
            assert_eq!(world.step(run, "a"), "waiting", "{name}");
            let (unit, reason) = (named.then(|| world.unit_ref(run, "a")), Some("it is back".into()));
            let resume = Command::Resume { unit, by: operator(), reason, changes: Box::default() };
            assert_eq!(world.ask(run, resume), Ok(Answer::Done), "{name}");
            let unit = world.unit(run, "a");
            let UnitState::Ready(queued) = &unit.state else { panic!("{name}: {unit:?}") };
            assert_eq!((queued.attempt, queued.resumed_by), (2, Some(ResumedBy::Operator)), "{name}");
            assert_eq!((unit.round.number, unit.round.stalled, unit.round.deferrals), (2, 0, 0), "{name}");
            let last = world.history[&run].last().expect("an event");
            assert_eq!(last.by, operator(), "{name}");
            let said = |fact: &Fact| matches!(fact, Fact::Unit { fact: UnitFact::Resumed { reason: Some(said), .. }, .. } if **said == *"it is back");
            assert!(last.facts.iter().any(said), "{name}: {last:?}");
            world.attempt(run, "a", done());
            assert_eq!(world.state(run), RunState::Completed, "{name}");
        }
    }
}

#[test]
fn a_resume_of_a_run_takes_what_is_in_error_before_what_waits_and_a_bulk_action_only_that() {
    let steps = vec![step("a").needs(&[]), step("b").needs(&[]).retry(Some(2), 3_600)];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    world.attempt(run, "a", stall("x"));
    world.attempt(run, "b", stall("x"));
    let resume = |changes: Changes| Command::Resume {
        unit: None,
        by: operator(),
        reason: None,
        changes: Box::new(changes),
    };
    world.ask(run, resume(Changes::default())).expect("resumed");
    assert_eq!(world.steps(run, ["a", "b"]), ["ready", "waiting"]);
    let bulk = Some(unstuck_core::bulk::BulkRef { bulk: unstuck_core::id::BulkId(1), place: 0 });
    let refused = world.ask(run, resume(Changes { bulk, ..Changes::default() })).expect_err("refused");
    assert!(refused.to_string().ends_with("none of its steps is in error"), "{refused}");
    // What waits for a timer or a signal of the flow waits for that.
    let mut world = World::new(vec![flow("f", vec![step_of("w", Kind::Signal("go".into()))])]);
    let run = world.start("f");
    let refused = world.ask(run, resume(Changes::default())).expect_err("refused");
    assert!(refused.to_string().ends_with("none of its steps is in error"), "{refused}");
}

/// Whatever door a command comes through, its words are bounded: a reason has 1,000 characters, a name 200 bytes.
#[test]
fn a_reason_or_the_name_of_a_user_that_is_too_long_is_refused_and_changes_nothing() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let user = |bytes: usize| Actor::User("u".repeat(bytes).into());
    let pause = |by: Actor, reason: String| Command::Pause { by, reason: Some(reason.into()) };
    let unit = world.unit_ref(run, "a");
    let long = || Some("x".repeat(1_001).into());
    let cases = [
        (
            pause(user(200), "\u{1f600}".repeat(1_001)),
            "the reason is too long (1001 characters, at most 1000); shorten it",
        ),
        (pause(user(201), "why".into()), "the name of the user is too long (201 bytes, at most 200)"),
        (Command::Cancel { by: user(1), reason: long() }, "the reason is too long (1001 characters"),
        (Command::Skip { unit, by: user(1), reason: long() }, "the reason is too long (1001 characters"),
        (
            Command::Complete { unit, output: Json::NULL, by: user(1), reason: long() },
            "the reason is too long (1001",
        ),
        (
            Command::Acknowledge { unit: None, by: user(1), reason: long() },
            "the reason is too long (1001 characters",
        ),
        (
            Command::Resume { unit: None, by: user(1), reason: long(), changes: Box::default() },
            "the reason is too long (1001 characters",
        ),
        (Command::rerun(Rerun::All, user(999)), "the name of the user is too long (999 bytes"),
        (Command::Unpause { by: user(999) }, "the name of the user is too long (999 bytes"),
    ];
    let seq = world.runs[&run].seq;
    for (command, wanted) in cases {
        let refused = world.ask(run, command).expect_err("it is too long").to_string();
        assert!(refused.starts_with(wanted), "{refused}");
        assert_eq!(world.runs[&run].seq, seq);
    }
    let start = world.try_start("f", |start| start.by = user(201)).expect_err("it is too long").to_string();
    assert!(start.contains("the name of the user is too long (201 bytes"), "{start}");
    // What is as long as it may be is taken.
    world.ask(run, pause(user(200), "\u{1f600}".repeat(1_000))).expect("paused");
}

/// A run whose flow cannot be compiled any more is cancelled by the outline of it, exactly as by the flow itself.
#[test]
fn a_run_is_cancelled_by_the_outline_of_its_flow_as_by_the_flow() {
    let (mut by_flow, run, _) = busy();
    let (mut by_outline, ..) = busy();
    let whole = by_flow.flows["f"].clone();
    let state = by_outline.runs[&run].clone();
    let cancel = || Command::Cancel { by: operator(), reason: Some("gone".into()) };
    assert!(can_decide_by_outline(&state, &cancel()));
    let pause = Command::Pause { by: operator(), reason: None };
    assert!(!can_decide_by_outline(&state, &pause), "what comes next is the flow's");
    let ids = whole.step_ids();
    let outline = Flow::outline(&state, whole.name.clone(), whole.version.clone(), Some(&ids));
    assert_eq!(outline.step_ids(), ids);
    by_outline.flows.insert("f".into(), Arc::new(outline));
    for world in [&mut by_flow, &mut by_outline] {
        world.ask(run, cancel()).expect("cancelled");
    }
    assert_eq!(by_outline.runs[&run], by_flow.runs[&run]);
    assert_eq!(by_outline.history[&run].last(), by_flow.history[&run].last());
    assert_eq!(wakeups(&by_outline.runs[&run], &by_outline.flows["f"]), []);
    // Names that do not fit the run are not used.
    let unnamed = Flow::outline(&state, "f".into(), "1".into(), Some(&ids[1..]));
    assert_eq!((unnamed.steps.len(), &*unnamed.steps[1].id), (ids.len(), "#1"));
}
