//! Rung 3: when a policy resumes a step, which one, what becomes of its schedule, and what is recorded.

use std::sync::Arc;

use crate::flows::{StepBuilder, child, flow, step};
use crate::support::{BEGIN, World, done, fatal, operator, stall};
use unstuck_core::command::Command;
use unstuck_core::decide::Answer;
use unstuck_core::errors::{LedTo, open_error};
use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::ResumedBy;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::run::RunState;
use unstuck_core::model::unit::UnitState;
use unstuck_core::policy::{Criteria, Policies, Policy};
use unstuck_core::time::Millis;

fn policy(name: &str, text: &str, max_attempts: u32, delay_s: u64) -> Policy {
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        criteria: Criteria { error_substring: Some(text.into()), ..Criteria::default() },
        max_attempts,
        priority: 50,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(delay_s)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age: 0,
    }
}

fn world(steps: Vec<StepBuilder>, policies: Vec<Policy>) -> (World, RunId) {
    let mut world = World::new(vec![flow("f", steps), flow("h", vec![step("clean")])]);
    world.policies = Policies::new(policies).expect("they do not collide");
    let run = world.start("f");
    (world, run)
}

/// When a step is resumed by itself, in seconds from the beginning, and by which policy.
fn scheduled(world: &World, run: RunId, step: &str) -> Option<(u64, String)> {
    match &world.unit(run, step).state {
        UnitState::Error { resume: Some(resume), .. } => {
            Some((resume.due.since(BEGIN).0 / 1_000, resume.policy.name.to_string()))
        }
        _ => None,
    }
}

#[test]
fn an_error_that_passes_on_the_third_try() {
    let (mut world, run) = world(vec![step("a"), step("b")], vec![policy("p", "reset", 10, 60)]);
    for n in 1..=2 {
        world.attempt(run, "a", stall("connection reset"));
        assert_eq!(scheduled(&world, run, "a"), Some((60 * n, "p".to_owned())));
        assert_eq!(world.state(run), RunState::Error);
        world.pass(Millis(59_999));
        assert_eq!(world.step(run, "a"), "error", "not a millisecond sooner");
        world.pass(Millis(1));
        assert_eq!(world.step(run, "a"), "ready");
        let UnitState::Ready(queued) = &world.unit(run, "a").state else { panic!("ready") };
        assert_eq!(queued.resumed_by, Some(ResumedBy::Policy));
    }
    world.attempt(run, "a", done());
    world.attempt(run, "b", done());
    assert_eq!(world.state(run), RunState::Completed);
}

#[test]
fn a_spent_policy_falls_through_to_the_next_and_then_it_rests() {
    let first = Policy { priority: 90, ..policy("first", "reset", 3, 1) };
    let second = policy("second", "connection", 4, 100);
    let (mut world, run) = world(vec![step("a")], vec![first, second]);
    let mut taken = Vec::new();
    while let Some((_, name)) = {
        world.attempt(run, "a", stall("connection reset"));
        scheduled(&world, run, "a")
    } {
        taken.push(name);
        world.pass(Millis::seconds(100));
    }
    assert_eq!(taken, ["first", "first", "second"], "three rounds in all, and four attempts");
    assert_eq!(world.step(run, "a"), "error");
    // A manual resume gives every policy its budget back.
    world.resume(run, "a").expect("resumed");
    world.attempt(run, "a", stall("connection reset"));
    assert_eq!(scheduled(&world, run, "a").map(|(_, name)| name), Some("first".to_owned()));
}

#[test]
fn the_ladder_comes_first_and_the_policy_before_the_handler() {
    let p = || vec![policy("p", "x", 5, 60)];
    let with_fatal = || vec![Policy { include_fatal: true, ..policy("p", "x", 5, 60) }];
    let off = || vec![Policy { enabled: false, ..policy("p", "x", 5, 60) }];
    let cases = [
        ("the retry strategy", step("a").retry(Some(2), 5), p(), stall("x"), "waiting", LedTo::Retry),
        ("held", step("a").hold(None), p(), stall("x"), "held", LedTo::Hold),
        ("failOnError: false", step("a").goes_on(), p(), stall("x"), "failed", LedTo::Ignored),
        ("a policy", step("a"), p(), stall("x"), "error", LedTo::Policy),
        ("a policy before the handler", step("a").handler("h"), p(), stall("x"), "error", LedTo::Policy),
        ("another error", step("a"), p(), stall("y"), "error", LedTo::Rest),
        ("a policy that is off", step("a"), off(), stall("x"), "error", LedTo::Rest),
        ("a fatal error", step("a"), p(), fatal("x"), "failed", LedTo::Failed),
        ("a fatal error that is included", step("a"), with_fatal(), fatal("x"), "error", LedTo::Policy),
        ("the handler", step("a").handler("h"), p(), stall("y"), "failed", LedTo::Failed),
    ];
    for (name, make, policies, says, state, led_to) in cases {
        let (mut world, run) = world(vec![make], policies);
        world.attempt(run, "a", says);
        assert_eq!(world.step(run, "a"), state, "{name}");
        assert_eq!(scheduled(&world, run, "a").is_some(), led_to == LedTo::Policy, "{name}");
        let recorded: Vec<LedTo> = world.errors.iter().map(|error| error.led_to).collect();
        assert_eq!(recorded, [led_to], "{name}: each error is recorded once");
    }
}

#[test]
fn an_operators_none_is_not_overruled() {
    let (mut world, run) = world(vec![step("a").hold(None)], vec![policy("p", "x", 5, 60)]);
    world.attempt(run, "a", stall("x"));
    world.choose(run, "a", Choice::None).expect("chosen");
    assert_eq!(world.state(run), RunState::Failed);
}

#[test]
fn retries_of_the_step_do_not_use_the_policy_up() {
    let (mut world, run) = world(vec![step("a").retry(Some(3), 1)], vec![policy("p", "x", 2, 60)]);
    for _ in 0..3 {
        world.attempt(run, "a", stall("x"));
        world.pass(Millis::seconds(1));
    }
    let rounds: Vec<u32> = world.errors.iter().map(|error| error.rounds).collect();
    assert_eq!(rounds, [1, 1, 1]);
    assert_eq!(scheduled(&world, run, "a").map(|(_, name)| name), Some("p".to_owned()));
    world.pass(Millis::seconds(60));
    for _ in 0..3 {
        world.attempt(run, "a", stall("x"));
        world.pass(Millis::seconds(1));
    }
    assert_eq!(scheduled(&world, run, "a"), None, "two rounds: spent");
}

#[test]
fn only_the_step_that_is_due_is_resumed() {
    let steps = vec![step("a").needs(&[]), step("b").needs(&[]), step("c").needs(&[])];
    let policies = vec![policy("slow", "slow", 5, 100), policy("quick", "quick", 5, 10)];
    let (mut world, run) = world(steps, policies);
    world.attempt(run, "a", stall("slow"));
    world.attempt(run, "b", stall("quick"));
    world.attempt(run, "c", stall("other"));
    world.pass(Millis::seconds(10));
    let states = ["a", "b", "c"].map(|step| world.step(run, step));
    assert_eq!(states, ["error", "ready", "error"]);
    world.pass(Millis::seconds(90));
    let states = ["a", "b", "c"].map(|step| world.step(run, step));
    assert_eq!(states, ["ready", "ready", "error"]);
}

#[test]
fn a_due_resume_whose_policy_is_off_or_gone_is_matched_anew_from_now() {
    let other = || policy("other", "x", 9, 30);
    // What the policies are when it comes due; who has it then, and when.
    let cases = [
        (vec![], None),
        (vec![Policy { enabled: false, ..policy("p", "x", 5, 60) }], None),
        (vec![Policy { enabled: false, ..policy("p", "x", 5, 60) }, other()], Some((90, "other"))),
        (vec![other()], Some((90, "other"))),
    ];
    for (then, wanted) in cases {
        let (mut world, run) = world(vec![step("a")], vec![policy("p", "x", 5, 60)]);
        world.attempt(run, "a", stall("x"));
        world.policies = Policies::new(then).expect("they do not collide");
        assert_eq!(scheduled(&world, run, "a"), Some((60, "p".to_owned())), "until it is due");
        world.pass(Millis::seconds(60));
        assert_eq!(world.step(run, "a"), "error");
        assert_eq!(scheduled(&world, run, "a"), wanted.map(|(due, name)| (due, name.to_owned())));
    }
}

#[test]
fn a_change_of_a_policy_leaves_what_it_has_scheduled() {
    let (mut world, run) = world(vec![step("a")], vec![policy("p", "x", 5, 60)]);
    world.attempt(run, "a", stall("x"));
    let changed = Policy { version: 2, ..policy("p", "y", 5, 5) };
    world.policies = Policies::new(vec![changed]).expect("one");
    world.pass(Millis::seconds(59));
    assert_eq!(world.step(run, "a"), "error");
    world.pass(Millis::seconds(1));
    assert_eq!(world.step(run, "a"), "ready");
}

#[test]
fn acknowledged_errors_are_left_alone_until_somebody_resumes_them() {
    let (mut world, run) = world(vec![step("a")], vec![policy("p", "x", 5, 60)]);
    world.attempt(run, "a", stall("x"));
    let acknowledge = || Command::Acknowledge { unit: None, by: operator(), reason: Some("known".into()) };
    assert_eq!(world.ask(run, acknowledge()), Ok(Answer::Done));
    assert_eq!(world.ask(run, acknowledge()), Ok(Answer::Already));
    assert_eq!(scheduled(&world, run, "a"), None);
    world.pass(Millis::hours(1));
    assert_eq!(world.step(run, "a"), "error");
    let open = open_error(&world.runs[&run], &world.flow_of(&world.runs[&run]), world.unit_ref(run, "a"));
    assert!(open.expect("in error").acknowledged);
    world.resume(run, "a").expect("resumed");
    world.attempt(run, "a", stall("x"));
    assert!(scheduled(&world, run, "a").is_some(), "a resume clears the acknowledgement");
}

#[test]
fn applying_policies_to_what_is_in_error_already() {
    let apply = |world: &mut World, run: RunId, only: Option<&[&str]>, earliest_s: u64| {
        let only = only.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        let unit = world.unit_ref(run, "a");
        let after =
            Millis((BEGIN + Millis::seconds(earliest_s)).0.saturating_sub(world.now.0).unsigned_abs());
        world.ask(run, Command::ApplyPolicies { unit, only, after, by: operator() })
    };
    // The delay of the policy, for how long it has been in error, the pace's turn; when it is resumed.
    for (delay, waited, earliest, wanted) in [(100, 10, 15, 100), (100, 100, 170, 170), (100, 500, 507, 507)]
    {
        let (mut world, run) = world(vec![step("a")], vec![]);
        world.attempt(run, "a", stall("x"));
        world.pass(Millis::seconds(waited));
        world.policies = Policies::new(vec![policy("p", "x", 5, delay)]).expect("one");
        assert_eq!(apply(&mut world, run, Some(&["other"]), earliest), Ok(Answer::Already));
        let due = BEGIN + Millis::seconds(wanted);
        assert_eq!(apply(&mut world, run, Some(&["p"]), earliest), Ok(Answer::Scheduled(due)));
        assert_eq!(scheduled(&world, run, "a"), Some((wanted, "p".to_owned())));
        assert_eq!(apply(&mut world, run, None, earliest + 9), Ok(Answer::Already), "it is where it belongs");
        world.policies = Policies::default();
        assert_eq!(apply(&mut world, run, None, earliest), Ok(Answer::Unscheduled));
        assert_eq!(scheduled(&world, run, "a"), None, "no policy takes it any more");
        let acknowledge = Command::Acknowledge { unit: None, by: operator(), reason: None };
        world.ask(run, acknowledge).expect("acknowledged");
        world.policies = Policies::new(vec![policy("p", "x", 5, delay)]).expect("one");
        assert_eq!(
            apply(&mut world, run, None, earliest),
            Ok(Answer::Already),
            "acknowledged ones are left out"
        );
    }
}

#[test]
fn pause_waits_and_the_deadline_does_not() {
    let (mut world, run) = world(vec![step("a")], vec![policy("p", "x", 5, 60)]);
    world.attempt(run, "a", stall("x"));
    world.pause(run).expect("paused");
    world.pass(Millis::hours(1));
    assert_eq!(world.step(run, "a"), "error");
    world.unpause(run).expect("unpaused");
    world.pass(Millis::ZERO);
    assert_eq!(world.step(run, "a"), "ready");
}

#[test]
fn a_childs_error_is_judged_by_the_flow_of_the_root_and_the_action_of_its_own() {
    let flows = vec![flow("root", vec![child("c", "inner")]), flow("inner", vec![step("a")])];
    let by = |flow: Option<&str>, action: Option<&str>| {
        let criteria =
            Criteria { flow: flow.map(Into::into), action: action.map(Into::into), ..Criteria::default() };
        Policy { criteria, ..policy("p", "x", 5, 60) }
    };
    let cases = [
        (by(Some("root"), None), true),
        (by(Some("inner"), None), false),
        (by(None, Some("inner.a")), true),
        (by(None, Some("root.a")), false),
    ];
    for (policy, taken) in cases {
        let mut world = World::new(flows.clone());
        let criteria = policy.criteria.clone();
        world.policies = Policies::new(vec![policy]).expect("one");
        let run = world.start("root");
        let inner = world.child(run);
        world.attempt(inner, "a", stall("x"));
        assert_eq!(scheduled(&world, inner, "a").is_some(), taken, "{criteria:?}");
        assert_eq!(world.errors.len(), 1, "the parent's step has not ended");
    }
}

#[test]
fn what_is_recorded_of_an_error_is_what_a_policy_saw() {
    let make = step("a").change(|step| step.action_type = Some("TRANSFORM".into()));
    let (mut world, run) = world(vec![make], vec![policy("p", "HTTP", 5, 60)]);
    world.attempt(run, "a", stall("HTTP 503 from 10.0.0.7"));
    let error = &world.errors[0];
    let told = (&*error.step, &*error.action, error.action_type.as_deref(), &*error.root_flow, &*error.cause);
    assert_eq!(told, ("a", "f.a", Some("TRANSFORM"), "f", "HTTP 503 from 10.0.0.7"));
    assert_eq!((error.attempt, error.rounds, error.fatal, error.at), (1, 1, false, BEGIN));
    assert_eq!(&*error.pattern, "HTTP 503 from <address>");
    assert_eq!(error.policy.as_ref().map(|policy| (&*policy.name, policy.version)), Some(("p", 1)));
    let open = open_error(&world.runs[&run], &world.flow_of(&world.runs[&run]), world.unit_ref(run, "a"));
    let open = open.expect("it is in error");
    assert_eq!(open.record, *error, "what is open is what was recorded");
    assert_eq!(open.resume.map(|(due, _)| due), Some(BEGIN + Millis::seconds(60)));
}

#[test]
fn what_goes_wrong_in_a_run_that_is_failing_says_nothing_about_policies() {
    let steps = vec![step("a").needs(&[]), step("b").needs(&[])];
    let (mut world, run) = world(steps, vec![policy("p", "x", 5, 60)]);
    let late = world.begin(run, "b");
    world.attempt(run, "a", fatal("gone"));
    world.say(late, stall("x")).expect("it is recorded");
    let led_to: Vec<LedTo> = world.errors.iter().map(|error| error.led_to).collect();
    assert_eq!(led_to, [LedTo::Failed, LedTo::Nothing]);
    assert!(!LedTo::Nothing.has_reached_policies());
}

#[test]
fn what_the_engine_found_keeps_the_action_of_its_step_and_is_matched_by_either_name() {
    let late = |step: StepBuilder| step.change(|step| step.limits.queue_timeout = Some(Millis::seconds(10)));
    let by = |action: &str| {
        let criteria = Criteria { action: Some(action.into()), ..Criteria::default() };
        Policy { criteria, ..policy("p", "x", 5, 60) }
    };
    for (action, taken) in [("f.a", true), ("AwaitAction", true), ("f.b", false), ("DeferAction", false)] {
        let (mut world, run) = world(vec![late(step("a"))], vec![by(action)]);
        world.pass(Millis::seconds(10));
        assert_eq!(scheduled(&world, run, "a").is_some(), taken, "{action}");
        let [error] = &world.errors[..] else { panic!("{:?}", world.errors) };
        assert_eq!((&*error.action, error.found_by.as_deref()), ("f.a", Some("AwaitAction")));
        assert!(error.is_of_action("f.a") && error.is_of_action("AwaitAction") && !error.is_of_action("f"));
    }
    // So each flow has a group of its own.
    let mut worlds = ["f", "g"].map(|name| {
        let mut world = World::new(vec![flow(name, vec![late(step("a"))])]);
        world.start(name);
        world.pass(Millis::seconds(10));
        world
    });
    let [f, g] = &mut worlds;
    assert_ne!(f.errors[0].group, g.errors[0].group);
    assert_eq!(f.errors[0].pattern, g.errors[0].pattern);
}
