//! Starting a run: its key names it once, its input is checked, its deadline is set.

use std::sync::Arc;

use serde_json::Value;

use crate::flows::{flow, flow_with, step};
use crate::support::{BEGIN, World, done, fatal, operator, stall};
use unstuck_core::command::{Changes, Command, OnDuplicate, Rerun, StartInput};
use unstuck_core::decide::{Answer, MAX_PAYLOAD_BYTES};
use unstuck_core::digest::digest;
use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::flow::{CheckInput, Concurrency, Deadline};
use unstuck_core::model::labels::Labels;
use unstuck_core::model::run::RunState;
use unstuck_core::refusal::Refusal;
use unstuck_core::time::Millis;

/// Brings a fresh run into this state.
type Bring = fn(&mut World, RunId);

fn every_state() -> [(RunState, Bring); 8] {
    [
        (RunState::Running, |_, _| {}),
        (RunState::Waiting, |world, run| {
            world.attempt(run, "a", crate::support::lacking());
        }),
        (RunState::Error, |world, run| {
            world.attempt(run, "a", done());
            world.attempt(run, "b", stall("x"));
        }),
        (RunState::Held, |world, run| {
            world.attempt(run, "a", stall("x"));
        }),
        (RunState::Paused, |world, run| {
            world.pause(run).expect("paused");
        }),
        (RunState::Completed, |world, run| {
            world.attempt(run, "a", done());
            world.attempt(run, "b", done());
        }),
        (RunState::Failed, |world, run| {
            world.attempt(run, "a", done());
            world.attempt(run, "b", fatal("x"));
        }),
        (RunState::Cancelled, |world, run| {
            world.cancel(run).expect("cancelled");
        }),
    ]
}

fn world() -> World {
    World::new(vec![flow("f", vec![step("a").hold(None), step("b")])])
}

#[test]
fn a_key_names_one_run_in_every_state() {
    for (state, bring) in every_state() {
        let mut world = world();
        let run = world.start_with("f", Some("k"), "{\"x\": 1}").expect("starts");
        bring(&mut world, run);
        assert_eq!(world.state(run), state);
        let before = world.runs.clone();
        // The same again, in whatever order its keys are written.
        for input in ["{\"x\": 1}", "{ \"x\" : 1 }"] {
            assert_eq!(world.start_with("f", Some("k"), input), Ok(run), "{state:?}");
        }
        let refusal = world.start_with("f", Some("k"), "{\"x\": 2}").expect_err("another input");
        assert_eq!(refusal.code(), "key-taken");
        assert_eq!(world.runs, before, "{state:?}: nothing is started");
        assert_ne!(world.start_with("f", Some("other"), "{\"x\": 2}"), Ok(run), "another key is another run");
    }
}

#[test]
fn a_run_has_the_labels_that_it_was_started_with() {
    let labels = |all: &[(&str, &str)]| -> Option<Arc<Labels>> {
        Some(Arc::new(all.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()))
    };
    let mut world = world();
    let given = labels(&[("team", "media"), ("tier", "gold")]);
    let Ok(Answer::Started(run)) = world.try_start("f", |start| {
        (start.key, start.labels) = (Some("k".into()), given.clone());
    }) else {
        panic!("it starts")
    };
    assert_eq!(world.runs[&run].labels, given);
    for other in [None, labels(&[("team", "other")])] {
        let again = world.try_start("f", |start| (start.key, start.labels) = (Some("k".into()), other));
        assert_eq!(again, Ok(Answer::Exists(run)));
    }
    world.cancel(run).expect("cancelled");
    let restarted = world.try_start("f", |start| {
        (start.key, start.labels) = (Some("k".into()), labels(&[("team", "other")]));
        start.on_duplicate = OnDuplicate::RestartIfFinal;
    });
    assert!(restarted.is_ok(), "{restarted:?}");
    assert_eq!(
        (world.runs[&run].generation, world.runs[&run].labels.clone()),
        (2, given),
        "it keeps its own"
    );
    let Ok(Answer::Started(bare)) = world.try_start("f", |start| start.labels = labels(&[])) else {
        panic!("it starts")
    };
    assert_eq!(world.runs[&bare].labels, None);
}

#[test]
fn labels_have_bounds() {
    let many: Labels = (0..33).map(|place| (format!("l{place}"), "x".to_owned())).collect();
    let of = |name: &str, value: &str| Labels::from([(name.to_owned(), value.to_owned())]);
    let cases = [
        (many, "the run has too many labels (33, at most 32)"),
        (of(" ", "x"), "the name of a label is blank"),
        (of("team", ""), "the value of a label is blank"),
        (of(&"n".repeat(201), "x"), "the name of a label is too long (201 bytes, at most 200)"),
        (of("team", &"v".repeat(513)), "the value of a label is too long (513 bytes, at most 512)"),
    ];
    for (labels, expected) in cases {
        let mut world = world();
        let refused = world.try_start("f", |start| start.labels = Some(Arc::new(labels)));
        let refused = refused.expect_err("refused");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert_eq!(refused.code(), "bad-request");
        assert!(world.runs.is_empty(), "nothing is started");
    }
}

#[test]
fn another_input_is_refused_with_both_digests_whatever_the_order_of_keys() {
    let mut world = world();
    let run = world.start_with("f", Some("k"), r#"{"a": {"b": 1, "c": 2}, "d": [1]}"#).expect("starts");
    assert_eq!(world.start_with("f", Some("k"), r#"{"d":[1],"a":{"c":2,"b":1}}"#), Ok(run));
    let refusal = world.start_with("f", Some("k"), r#"{"d": [2]}"#).expect_err("refused");
    let of = |text: &str| digest(&serde_json::from_str(text).unwrap());
    let (theirs, ours) = (of(r#"{"a": {"b": 1, "c": 2}, "d": [1]}"#), of(r#"{"d": [2]}"#));
    assert_eq!(
        refusal.to_string(),
        format!(
            "key `k` already belongs to {run}, which has a different input (its digest is {theirs}, yours is {ours}); \
             use another key or the same input"
        )
    );
}

#[test]
fn restart_if_final_starts_the_next_generation_of_a_final_run_only() {
    for (state, bring) in every_state() {
        let mut world = world();
        let run = world.start_with("f", Some("k"), "1").expect("starts");
        bring(&mut world, run);
        let again = world.start_again("f", Some("k"), "1", OnDuplicate::RestartIfFinal);
        assert_eq!(again, Ok(run), "{state:?}");
        let generation = if state.is_final() { 2 } else { 1 };
        assert_eq!(world.runs[&run].generation, generation, "{state:?}");
        if state.is_final() {
            assert_eq!(world.steps(run, ["a", "b"]), ["ready", "pending"], "all of it, from the start");
        }
        let other = world.start_again("f", Some("k"), "2", OnDuplicate::RestartIfFinal);
        assert_eq!(other.expect_err("another input").code(), "key-taken", "{state:?}");
    }
}

#[test]
fn restart_if_final_takes_the_new_input_of_a_final_run_and_the_key_goes_with_it_from_then_on() {
    let again =
        |world: &mut World, input| world.start_again("f", Some("k"), input, OnDuplicate::RestartIfFinal);
    for (state, bring) in every_state() {
        let mut world = world();
        let run = world.start_with("f", Some("k"), "1").expect("starts");
        bring(&mut world, run);
        let answer = again(&mut world, "2");
        if !state.is_final() {
            assert_eq!(answer.expect_err("not final").code(), "key-taken", "{state:?}");
            assert_eq!(world.runs[&run].generation, 1, "{state:?}");
            continue;
        }
        assert_eq!((answer, world.runs[&run].generation), (Ok(run), 2), "{state:?}");
        assert_eq!(world.json(&world.runs[&run].input).text(), "2", "{state:?}");
        assert_eq!(world.start_again("f", Some("k"), "2", OnDuplicate::Return), Ok(run), "{state:?}");
        let old = world.start_again("f", Some("k"), "1", OnDuplicate::Return);
        assert_eq!(old.expect_err("another input by now").code(), "key-taken", "{state:?}");
    }
}

#[test]
fn a_restart_has_the_input_that_it_is_given_also_where_an_operator_has_changed_it() {
    let mut world = world();
    let run = world.start_with("f", Some("k"), "1").expect("starts");
    world.cancel(run).expect("cancelled");
    let changes = Changes { input: Some(Json::parse("7").expect("is JSON")), ..Changes::default() };
    let rerun = Command::Rerun { what: Rerun::All, changes: Box::new(changes), by: operator() };
    world.ask(run, rerun).expect("started again");
    world.cancel(run).expect("cancelled");
    assert_eq!(world.start_again("f", Some("k"), "1", OnDuplicate::RestartIfFinal), Ok(run));
    assert_eq!(world.json(&world.runs[&run].input).text(), "1");
}

#[test]
fn without_a_key_every_start_is_a_run_and_a_start_that_is_repeated_is_not() {
    let mut world = world();
    let (first, second) = (world.start("f"), world.start("f"));
    assert_ne!(first, second);
    assert_eq!(world.try_start("f", |start| start.run = second), Ok(Answer::Exists(second)));
}

/// Wants a number under `count`, and nothing else.
struct WantsCount;

impl CheckInput for WantsCount {
    fn check(&self, input: &Value) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        match input.get("count") {
            None => problems.push("input: `count` is missing".to_owned()),
            Some(count) if !count.is_number() => problems.push(format!("input.count: {count} is no number")),
            Some(_) => {}
        }
        if input.get("color").is_some() {
            problems.push("input: unknown field `color`".to_owned());
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

#[test]
fn an_input_that_does_not_fit_is_refused_with_every_problem_and_nothing_starts() {
    let checks = || flow_with("f", vec![step("a")], |flow| flow.input = Some(Arc::new(WantsCount)));
    let cases = [
        ("{}", "the input does not match the flow: input: `count` is missing"),
        (
            r#"{"count": "x", "color": 1}"#,
            "the input does not match the flow: input.count: \"x\" is no number; input: unknown field `color`",
        ),
    ];
    for (input, says) in cases {
        let mut world = World::new(vec![checks()]);
        let refusal = world.start_with("f", Some("k"), input).expect_err("refused");
        assert_eq!((refusal.code(), refusal.to_string().as_str()), ("invalid", says));
        assert!(world.runs.is_empty());
        // The key is still free.
        world.start_with("f", Some("k"), r#"{"count": 1}"#).expect("starts");
    }
}

#[test]
fn an_input_that_is_too_large_is_refused() {
    let mut world = world();
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    world.start_with("f", None, &text(MAX_PAYLOAD_BYTES)).expect("just fits");
    let refusal = world.start_with("f", None, &text(MAX_PAYLOAD_BYTES + 1)).expect_err("too large");
    assert_eq!(
        refusal.to_string(),
        "the input is too large (16777217 bytes, at most 16777216); store it elsewhere and pass a reference"
    );
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn a_concurrency_key_that_cannot_be_computed_is_an_input_that_does_not_fit() {
    let fails = || {
        crate::flows::expression(crate::flows::reads_input(), |scope| {
            scope.input.get("tenant").cloned().ok_or_else(|| "no such key: tenant".to_owned())
        })
    };
    let limited = flow_with("f", vec![step("a")], |flow| {
        flow.concurrency = Some(Concurrency { limit: 1, key: Some(fails()), strict: false });
    });
    let mut world = World::new(vec![limited]);
    let refusal = world.start_with("f", None, "{}").expect_err("refused");
    assert_eq!(
        refusal,
        Refusal::BadInput(vec!["concurrency.key: no such key: tenant".to_owned()]),
        "{refusal}"
    );
}

#[test]
fn a_deadline_is_the_starts_own_or_else_the_flows() {
    let soon = BEGIN + Millis::minutes(1);
    let own = BEGIN + Millis::hours(1);
    let cases = [
        (None, None, None),
        (Some(Deadline::After(Millis::minutes(1))), None, Some(soon)),
        (Some(Deadline::At(soon)), None, Some(soon)),
        (Some(Deadline::After(Millis::minutes(1))), Some(own), Some(own)),
        (None, Some(own), Some(own)),
    ];
    for (of_flow, of_start, expected) in cases {
        let mut world = World::new(vec![flow_with("f", vec![step("a")], |flow| flow.deadline = of_flow)]);
        world.try_start("f", |start| start.deadline = of_start).expect("starts");
        let run = *world.runs.keys().next().unwrap();
        assert_eq!(world.runs[&run].deadline, expected, "{of_flow:?} {of_start:?}");
        let Some(deadline) = expected else { continue };
        world.pass(Millis(deadline.since(BEGIN).0 - 1));
        assert_eq!(world.state(run), RunState::Running);
        world.pass(Millis(1));
        assert_eq!(world.state(run), RunState::Failed);
    }
}

#[test]
fn a_restart_has_the_deadline_that_it_is_given() {
    let mut world = world();
    let restart = |world: &mut World, deadline| {
        let answer = world.try_start("f", |start| {
            start.key = Some("k".into());
            start.input = StartInput::New(Json::NULL);
            start.deadline = deadline;
            start.on_duplicate = OnDuplicate::RestartIfFinal;
        });
        let Ok(Answer::Started(run)) = answer else { panic!("a new generation: {answer:?}") };
        let deadline = world.runs[&run].deadline;
        world.cancel(run).expect("cancelled");
        deadline
    };
    let (first, second) = (BEGIN + Millis::minutes(1), BEGIN + Millis::minutes(2));
    assert_eq!(restart(&mut world, Some(first)), Some(first));
    assert_eq!(restart(&mut world, Some(second)), Some(second));
    assert_eq!(restart(&mut world, None), None, "an absolute deadline must be given again");
}

#[test]
fn a_key_is_not_blank_and_has_at_most_512_bytes() {
    let long = |n: usize| "k".repeat(n);
    let cases = [
        (long(512), None),
        (
            long(513),
            Some("the key is too long (513 bytes, at most 512); use a shorter one, such as a digest"),
        ),
        (String::new(), Some("the key is blank; give at least one letter, or leave it out")),
        (" \t".to_owned(), Some("the key is blank; give at least one letter, or leave it out")),
    ];
    for (key, refused) in cases {
        let mut world = World::new(vec![flow("f", vec![step("a")])]);
        let result = world.start_with("f", Some(&key), "null");
        assert_eq!(result.err().map(|refusal| refusal.to_string()).as_deref(), refused, "{key:?}");
        assert_eq!(world.runs.len(), usize::from(refused.is_none()));
    }
}

#[test]
fn a_signal_has_a_name_of_at_most_200_bytes() {
    let mut world = World::new(vec![flow("f", vec![step("a")])]);
    let run = world.start("f");
    let mut send = |name: &str| {
        let by = unstuck_core::event::Actor::Engine;
        let payload = unstuck_core::json::Json::NULL;
        world.ask(run, unstuck_core::command::Command::Signal { name: name.into(), payload, by })
    };
    assert!(send(&"s".repeat(200)).is_ok());
    let refusal = send(&"s".repeat(201)).expect_err("too long").to_string();
    assert_eq!(
        refusal,
        "the name of the signal is too long (201 bytes, at most 200); use a shorter one, such as a digest"
    );
    assert!(send(" ").is_err());
}
