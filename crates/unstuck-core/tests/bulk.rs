//! Bulk actions by themselves: the pace, the waves, what stops them, and what they have come to.

use std::sync::Arc;

use unstuck_core::bulk::{Bulk, BulkAction, BulkCounts, BulkRerun, BulkState, Pace, TargetResult};
use unstuck_core::event::{Actor, Choice};
use unstuck_core::id::BulkId;
use unstuck_core::json::Json;
use unstuck_core::time::{Millis, Time};

const BEGIN: Time = Time(1_800_000_000_000);

fn bulk(total: u64, rate: u32, canary: Option<u32>) -> Bulk {
    let action = BulkAction::Resume { input: None, step_input: None };
    let by = (Actor::User("ada".into()), Some(Arc::from("the disk is larger now")));
    Bulk::new(BulkId(1), action, by, "group err_1".into(), Pace { rate, canary }, total, BEGIN)
}

fn failed() -> TargetResult {
    TargetResult::FailedAgain { cause: "again".into() }
}

/// Acts on as many as are allowed at this time, each with this result.
fn act(bulk: &mut Bulk, now: Time, result: &TargetResult) -> u64 {
    let allowed = bulk.allowance(now, u64::MAX);
    for _ in 0..allowed {
        bulk.record_acted(result, now);
    }
    allowed
}

#[test]
fn the_pace_is_kept_whenever_somebody_looks() {
    for (rate, step_ms) in [(1, 100), (7, 13), (50, 5), (50, 1_000), (3_000, 10), (20_000, 1), (20_000, 700)]
    {
        let mut bulk = bulk(u64::MAX, rate, None);
        let mut done = 0;
        let mut now = BEGIN;
        while now < BEGIN + Millis::seconds(20) {
            done += act(&mut bulk, now, &TargetResult::Acknowledged);
            now = now + Millis(step_ms);
        }
        let wanted = u64::from(rate) * 20;
        let slack = u64::from(rate) * step_ms / 1_000 + 2;
        assert!(done.abs_diff(wanted) <= slack, "{rate} a second, looked at every {step_ms} ms: {done}");
    }
}

#[test]
fn who_comes_late_makes_up_for_a_second_at_most() {
    let mut bulk = bulk(1_000_000, 100, None);
    assert_eq!(act(&mut bulk, BEGIN, &TargetResult::Cancelled), 1);
    assert_eq!(act(&mut bulk, BEGIN + Millis::hours(5), &TargetResult::Cancelled), 100);
    assert_eq!(bulk.allowance(BEGIN + Millis::hours(6), 7), 7, "and never more than is asked for");
}

#[test]
fn it_says_when_to_look_again() {
    let mut bulk = bulk(3, 4, None);
    assert_eq!(bulk.due(), Some(BEGIN));
    act(&mut bulk, BEGIN, &TargetResult::Resumed);
    assert_eq!(bulk.due(), Some(BEGIN + Millis(250)));
    assert_eq!(bulk.allowance(BEGIN + Millis(249), 9), 0);
    assert_eq!(bulk.allowance(BEGIN + Millis(250), 9), 1);
    act(&mut bulk, BEGIN + Millis(250), &TargetResult::Resumed);
    act(&mut bulk, BEGIN + Millis(500), &TargetResult::Resumed);
    assert_eq!((bulk.due(), bulk.state.word()), (None, "acted"));
    for _ in 0..3 {
        bulk.record_result(&TargetResult::Passed);
    }
    assert_eq!(bulk.state, BulkState::Done);
}

#[test]
fn each_wave_waits_for_the_one_before_and_is_twice_as_large() {
    let mut bulk = bulk(100, 1_000_000, Some(10));
    let mut now = BEGIN;
    let mut waves = Vec::new();
    while bulk.state == BulkState::Running {
        now = now + Millis::seconds(1);
        let acted = act(&mut bulk, now, &TargetResult::Resumed);
        waves.push(acted);
        assert_eq!(bulk.allowance(now + Millis::hours(1), 999), 0, "it waits for its results");
        for _ in 0..acted {
            bulk.record_result(&TargetResult::Passed);
        }
    }
    assert_eq!(waves, [10, 20, 40, 30]);
    assert_eq!(bulk.state, BulkState::Done);
    assert_eq!(bulk.counts, BulkCounts { passed: 100, ..BulkCounts::default() });
}

#[test]
fn a_canary_that_fails_stops_the_rest_and_says_so() {
    let mut bulk = bulk(1_000, 1_000_000, Some(10));
    act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Resumed);
    for n in 0..10 {
        let result = if n < 3 { failed() } else { TargetResult::Passed };
        bulk.record_result(&result);
    }
    let why: Arc<str> = "1 step of wave 1 failed again; the remaining 990 were not changed".into();
    assert_eq!(bulk.state, BulkState::Stopped { why }, "at the first, before the others are known");
    assert_eq!(bulk.counts, BulkCounts { passed: 7, failed: 3, ..BulkCounts::default() });
    assert_eq!(bulk.allowance(BEGIN + Millis::hours(1), 9), 0);
    // Somebody decides that it is worth it.
    assert_eq!(bulk.unpause(BEGIN + Millis::hours(1)), Ok(true));
    assert_eq!(act(&mut bulk, BEGIN + Millis::hours(1), &TargetResult::Resumed), 20);
}

#[test]
fn a_canary_of_runs_speaks_of_runs() {
    let again = BulkAction::Rerun { again: BulkRerun::Continue, input: None, step_input: None };
    let mut bulk = Bulk { action: again, ..bulk(9, 1_000_000, Some(2)) };
    assert_eq!(act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Rerun), 2);
    bulk.record_result(&TargetResult::Passed);
    bulk.record_result(&failed());
    let why: Arc<str> = "1 run of wave 1 failed again; the remaining 7 were not changed".into();
    assert_eq!(bulk.state, BulkState::Stopped { why });
}

#[test]
fn what_is_done_at_once_needs_no_waves() {
    let later = |action: BulkAction| (action.verb(), action.has_later_result());
    let json = || Json::parse("1").expect("is JSON");
    let cases = [
        (later(BulkAction::Resume { input: None, step_input: None }), ("resume", true)),
        (later(BulkAction::Rerun { again: BulkRerun::All, input: None, step_input: None }), ("rerun", true)),
        (later(BulkAction::Choose { choice: Choice::Retry, step: None }), ("choose", true)),
        (later(BulkAction::Choose { choice: Choice::None, step: None }), ("choose", false)),
        (later(BulkAction::Acknowledge), ("ack", false)),
        (later(BulkAction::Cancel), ("cancel", false)),
        (later(BulkAction::Signal { name: "go".into(), payload: json() }), ("signal", false)),
        (later(BulkAction::Skip { step: "a".into() }), ("skip", false)),
        (later(BulkAction::Complete { step: "a".into(), output: json() }), ("complete", false)),
        (later(BulkAction::Forget), ("forget", false)),
    ];
    for (is, wanted) in cases {
        assert_eq!(is, wanted);
    }
}

#[test]
fn a_record_from_before_there_were_more_verbs_is_read() {
    let kept = r#"{"id":1,"action":{"resume":{}},"by":{"User":"ada"},"selection":"flow f","pace":{"rate":50},
        "createdAt":1800000000000,"state":"running","total":3,"next":1,
        "counts":{"underWay":1,"passed":0,"failed":0,"refused":0},
        "wave":{"number":1,"end":3,"failed":0},"credit":0,"creditedAt":1800000000000}"#;
    let bulk: Bulk = serde_json::from_str(kept).expect("is read");
    assert_eq!((bulk.left_out, bulk.action.result_of_acting()), (0, TargetResult::Resumed));
    let again = serde_json::to_string(&bulk).expect("is written");
    assert!(!again.contains("leftOut"), "and written as it was: {again}");
}

#[test]
fn without_a_canary_nothing_stops_it() {
    let mut bulk = bulk(30, 1_000_000, None);
    act(&mut bulk, BEGIN, &failed());
    act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Refused { why: "it is final".into() });
    assert_eq!(bulk.state, BulkState::Done);
    assert_eq!((bulk.counts.failed, bulk.counts.refused), (1, 29));
}

#[test]
fn orders_about_it() {
    let told = |result: Result<bool, unstuck_core::bulk::BulkRefusal>| result.map_err(|refusal| refusal.0);
    let mut one = bulk(10, 1, None);
    assert_eq!(told(one.pause()), Ok(true));
    assert_eq!(told(one.pause()), Ok(false), "it is paused already");
    assert_eq!((one.allowance(BEGIN + Millis::hours(1), 9), one.due()), (0, None));
    assert_eq!(told(one.unpause(BEGIN)), Ok(true));
    assert_eq!(told(one.cancel()), Ok(true));
    assert_eq!(told(one.cancel()), Ok(false));
    let refused = |what: &str| Err(format!("the bulk action is cancelled, so it cannot {what}"));
    assert_eq!((told(one.pause()), told(one.unpause(BEGIN))), (refused("be paused"), refused("continue")));
    assert_eq!(bulk(0, 1, None).state, BulkState::Done, "nothing to do");
}

#[test]
fn a_pause_does_not_lose_results_of_what_is_under_way() {
    let mut bulk = bulk(2, 1, None);
    act(&mut bulk, BEGIN, &TargetResult::Resumed);
    bulk.pause().expect("paused");
    bulk.record_result(&TargetResult::Passed);
    assert_eq!((bulk.counts.passed, bulk.counts.under_way), (1, 0));
    bulk.unpause(BEGIN).expect("goes on");
    act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Resumed);
    bulk.record_result(&failed());
    assert_eq!(bulk.state, BulkState::Done);
}
