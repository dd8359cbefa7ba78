//! Trying a policy: what it would take, from whom, when, and what it would not.

use unstuck_core::errors::{ErrorRecord, LedTo, OpenError};
use unstuck_core::id::RunId;
use unstuck_core::model::error::Reason;
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::unit::UnitRef;
use unstuck_core::policy::{Criteria, Policies, Policy, PolicyRef, SHOWN_ERRORS, Trial, TrialBuilder};
use unstuck_core::time::{Millis, Time};

fn policy(name: &str, text: &str, max_attempts: u32, priority: i32) -> Policy {
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        criteria: Criteria { error_substring: Some(text.into()), ..Criteria::default() },
        max_attempts,
        priority,
        is_priority_set: true,
        back_off: BackOff::fixed(Millis::seconds(60)),
        enabled: true,
        include_fatal: false,
        version: 1,
        age: 0,
    }
}

fn error(cause: &str, rounds: u32, at_s: i64) -> ErrorRecord {
    ErrorRecord {
        run: RunId(7),
        generation: 1,
        unit: UnitRef::step(StepIndex(0)),
        step: "a".into(),
        attempt: rounds,
        at: Time(at_s * 1_000),
        flow: "f".into(),
        root_flow: "f".into(),
        action: "f.a".into(),
        found_by: None,
        action_type: None,
        cause: cause.into(),
        fatal: false,
        rounds,
        minimum_delay: Millis(1_000),
        group: "err_1".into(),
        pattern: cause.into(),
        reason: Reason::Processing,
        fingerprint_version: 1,
        led_to: LedTo::Rest,
        policy: None,
    }
}

fn had_by(name: &str, record: ErrorRecord) -> ErrorRecord {
    let policy = PolicyRef { id: format!("id-{name}").into(), name: name.into(), version: 1 };
    ErrorRecord { led_to: LedTo::Policy, policy: Some(policy), ..record }
}

fn tried(policies: Vec<Policy>, name: &str, errors: &[ErrorRecord]) -> Trial {
    let policies = Policies::new(policies).expect("they do not collide");
    let mut trying = TrialBuilder::new(&policies, policies.by_name_or_id(name).expect("it is there"));
    for error in errors {
        trying.add_past_error(error);
    }
    trying.finish()
}

#[test]
fn each_error_is_judged_as_it_stood_then() {
    let errors = [
        error("reset", 1, 100),
        error("reset", 2, 200),
        error("reset", 3, 300),
        error("other", 1, 400),
        ErrorRecord { fatal: true, ..error("reset", 1, 500) },
        ErrorRecord { led_to: LedTo::Retry, ..error("reset", 1, 600) },
        ErrorRecord { led_to: LedTo::Hold, ..error("reset", 1, 700) },
        ErrorRecord { led_to: LedTo::Failed, ..error("reset", 1, 800) },
    ];
    let trial = tried(vec![policy("p", "reset", 3, 1)], "p", &errors);
    let taken: Vec<i64> = trial.errors.iter().map(|taken| taken.resume_at.0 / 1_000).collect();
    assert_eq!((trial.matched, taken), (3, vec![160, 260, 860]));
    assert_eq!((trial.exhausted, trial.shadowed_by.len()), (1, 0));
}

#[test]
fn what_an_earlier_policy_takes_is_counted_as_its_own() {
    let errors = [error("connection reset", 1, 0), error("connection reset", 2, 0), error("reset", 1, 0)];
    let policies = vec![policy("first", "connection", 2, 9), policy("p", "reset", 9, 1)];
    let trial = tried(policies, "p", &errors);
    assert_eq!(trial.matched, 2, "the first one is spent after one round");
    assert_eq!(trial.shadowed_by.get("first"), Some(&1));
}

#[test]
fn it_says_from_which_policy_it_would_take_an_error() {
    let errors = [had_by("old", error("reset", 1, 0)), had_by("p", error("reset", 1, 0))];
    let trial = tried(vec![policy("old", "rese", 9, 1), policy("p", "reset", 9, 5)], "p", &errors);
    let from: Vec<Option<&str>> = trial.errors.iter().map(|taken| taken.taken_from.as_deref()).collect();
    assert_eq!(from, [Some("old"), None]);
}

#[test]
fn what_is_open_is_resumed_from_now_on_and_what_is_acknowledged_is_not() {
    let policies = Policies::new(vec![policy("p", "reset", 9, 1)]).expect("one");
    let mut trying = TrialBuilder::new(&policies, policies.by_name_or_id("p").expect("it is there"));
    let open = |at_s, acknowledged| OpenError { record: error("reset", 1, at_s), resume: None, acknowledged };
    let now = Time(1_000_000);
    trying.add_open_error(&open(0, false), now);
    trying.add_open_error(&open(990, false), now);
    trying.add_open_error(&open(0, true), now);
    let trial = trying.finish();
    let at: Vec<i64> = trial.errors.iter().map(|taken| taken.resume_at.0 / 1_000).collect();
    assert_eq!((trial.matched, at), (2, vec![1_000, 1_050]));
}

#[test]
fn a_drawn_delay_is_a_span_and_a_growing_one_a_time() {
    let drawn =
        BackOff { random: true, max_delay: Some(Millis::seconds(90)), ..BackOff::fixed(Millis::seconds(30)) };
    let growing = BackOff { multiplier: Some(2.0), ..BackOff::fixed(Millis::seconds(10)) };
    for (back_off, rounds, wanted) in [(drawn, 1, (30, 90)), (growing, 3, (60, 60))] {
        let policy = Policy { back_off, ..policy("p", "reset", 9, 1) };
        let trial = tried(vec![policy], "p", &[error("reset", rounds, 0)]);
        let taken = &trial.errors[0];
        assert_eq!((taken.resume_at.0 / 1_000, taken.resume_by.0 / 1_000), wanted);
    }
}

#[test]
fn all_are_counted_and_only_the_first_are_shown() {
    let errors: Vec<ErrorRecord> = (0..2_500).map(|n| error("reset", 1, n)).collect();
    let trial = tried(vec![policy("p", "reset", 9, 1)], "p", &errors);
    assert_eq!((trial.matched, trial.errors.len()), (2_500, SHOWN_ERRORS));
}
