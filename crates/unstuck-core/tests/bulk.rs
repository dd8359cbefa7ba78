//! Bulk actions by themselves: the pace, the waves, what stops them, and what they have come to.

use std::sync::Arc;

use unstuck_core::bulk::{
    Acted, Bulk, BulkAction, BulkCommand, BulkContext, BulkCounts, BulkProgress, BulkRefusal, BulkRerun,
    BulkState, Pace, TargetResult, change_bulk, due_targets, fold_result, record_acted, result_of,
};
use unstuck_core::decide::Answer;
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

fn at(now: Time) -> BulkContext {
    BulkContext { now, latest: now, clock: 0 }
}

/// How many targets it would act on at this time, of so many.
fn allowance(bulk: &mut Bulk, now: Time, limit: usize) -> u64 {
    let targets = due_targets(bulk, limit, &at(now));
    assert_eq!(targets.start, bulk.next);
    targets.end - targets.start
}

/// Acts on as many as are allowed at this time, each with this result.
fn act(bulk: &mut Bulk, now: Time, result: &TargetResult) -> u64 {
    let allowed = allowance(bulk, now, usize::MAX);
    for n in 1..=allowed {
        let goes_on = record_acted(bulk, &result.clone().into(), &at(now));
        assert!(goes_on || n == allowed || bulk.state != BulkState::Running, "it stops before its time");
    }
    allowed
}

/// One of its targets that was under way comes out.
fn tell(bulk: &mut Bulk, result: &TargetResult) {
    let known = bulk.action.result_of_acting();
    assert!(fold_result(bulk, &known, result, &at(BEGIN + Millis::hours(9))), "it is news");
}

fn ask(bulk: &mut Bulk, command: BulkCommand, now: Time) -> Result<Answer, String> {
    change_bulk(bulk, command, &at(now)).map_err(|BulkRefusal(sentence)| sentence)
}

#[test]
fn nobody_acts_at_a_time_before_others_have_acted() {
    let mut bulk = bulk(9, 2, None);
    let now = BEGIN + Millis::seconds(1);
    assert!(act(&mut bulk, now, &TargetResult::Resumed) > 0);
    let before = bulk.clone();
    // A batch that was loaded half a second before that, and decides after it.
    let stale = BulkContext { now: now.back(Millis(500)), latest: now + Millis(100), clock: 0 };
    assert_eq!(due_targets(&mut bulk, 9, &stale).count(), 0);
    assert_eq!(bulk, before, "nothing is earned twice");
    assert_eq!(allowance(&mut bulk, now + Millis(500), 9), 1, "it goes on at its pace");
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
    assert_eq!(allowance(&mut bulk, BEGIN + Millis::hours(6), 7), 7, "and never more than is asked for");
}

#[test]
fn it_says_when_to_look_again() {
    let mut bulk = bulk(3, 4, None);
    assert_eq!(bulk.due(), Some(BEGIN));
    act(&mut bulk, BEGIN, &TargetResult::Resumed);
    assert_eq!(bulk.due(), Some(BEGIN + Millis(250)));
    assert_eq!(allowance(&mut bulk, BEGIN + Millis(249), 9), 0);
    assert_eq!(allowance(&mut bulk, BEGIN + Millis(250), 9), 1);
    act(&mut bulk, BEGIN + Millis(250), &TargetResult::Resumed);
    act(&mut bulk, BEGIN + Millis(500), &TargetResult::Resumed);
    assert_eq!((bulk.due(), bulk.state.word()), (None, "acted"));
    for _ in 0..3 {
        tell(&mut bulk, &TargetResult::Passed);
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
        assert_eq!(allowance(&mut bulk, now + Millis::hours(1), 999), 0, "it waits for its results");
        for _ in 0..acted {
            tell(&mut bulk, &TargetResult::Passed);
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
        tell(&mut bulk, &result);
    }
    let why: Arc<str> = "1 step of wave 1 failed again; the remaining 990 were not changed".into();
    assert_eq!(bulk.state, BulkState::Stopped { why }, "at the first, before the others are known");
    assert_eq!(bulk.counts, BulkCounts { passed: 7, failed: 3, ..BulkCounts::default() });
    assert_eq!(allowance(&mut bulk, BEGIN + Millis::hours(1), 9), 0);
    // Somebody decides that it is worth it.
    assert_eq!(ask(&mut bulk, BulkCommand::Unpause, BEGIN + Millis::hours(1)), Ok(Answer::Done));
    assert_eq!(act(&mut bulk, BEGIN + Millis::hours(1), &TargetResult::Resumed), 20);
}

#[test]
fn a_canary_of_runs_speaks_of_runs() {
    let again = BulkAction::Rerun { again: BulkRerun::Continue, input: None, step_input: None };
    let mut bulk = Bulk { action: again, ..bulk(9, 1_000_000, Some(2)) };
    assert_eq!(act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Rerun), 2);
    tell(&mut bulk, &TargetResult::Passed);
    tell(&mut bulk, &failed());
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
        (later(BulkAction::ApplyPolicies { only: None }), ("apply", false)),
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
    for new in ["leftOut", "turns", "clock", "unchanged"] {
        assert!(!again.contains(new), "and written as it was: {again}");
    }
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
    use BulkCommand::{Cancel, Pause, Unpause};
    let stopped = BulkState::Stopped { why: "1 step of wave 1 failed again".into() };
    let states = [
        BulkState::Running,
        BulkState::Paused,
        BulkState::Acted,
        BulkState::Done,
        stopped,
        BulkState::Cancelled,
    ];
    let done = || Ok(Answer::Done);
    let already = || Ok(Answer::Already);
    let no = |state: &BulkState, what: &str| {
        Err(format!("the bulk action is {}, so it cannot {what}", state.word()))
    };
    for state in states {
        let wanted = match &state {
            BulkState::Running => [done(), already(), done()],
            BulkState::Paused => [already(), done(), done()],
            BulkState::Stopped { .. } => [no(&state, "be paused"), done(), done()],
            BulkState::Cancelled => [no(&state, "be paused"), no(&state, "continue"), already()],
            BulkState::Acted | BulkState::Done => {
                [no(&state, "be paused"), no(&state, "continue"), no(&state, "be cancelled")]
            }
        };
        for (command, wanted) in [Pause, Unpause, Cancel].into_iter().zip(wanted) {
            let mut bulk = Bulk { state: state.clone(), ..bulk(10, 1, None) };
            let before = bulk.clone();
            assert_eq!(ask(&mut bulk, command, BEGIN), wanted, "{command:?} of {state:?}");
            assert_eq!(bulk == before, wanted != Ok(Answer::Done), "{command:?} of {state:?}");
            let goes_on = bulk.state == BulkState::Running;
            assert_eq!((allowance(&mut bulk, BEGIN, 9), bulk.due().is_some()), (u64::from(goes_on), goes_on));
        }
    }
    assert_eq!(bulk(0, 1, None).state, BulkState::Done, "nothing to do");
}

#[test]
fn what_comes_out_is_counted_once_however_often_it_is_told() {
    let under_way = [TargetResult::Resumed, TargetResult::Rerun, TargetResult::Retried];
    let over = [
        TargetResult::Pending,
        TargetResult::Passed,
        failed(),
        TargetResult::Cancelled,
        TargetResult::Refused { why: "it is final".into() },
    ];
    let mut bulk = bulk(3, 1_000, None);
    act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Resumed);
    let context = at(BEGIN + Millis::seconds(2));
    for known in &over {
        let before = bulk.clone();
        assert!(!fold_result(&mut bulk, known, &TargetResult::Passed, &context), "{known:?} was told before");
        assert_eq!(bulk, before);
    }
    assert!(!fold_result(&mut bulk, &under_way[0], &under_way[1], &context), "that is no end");
    for (left, known) in [2, 1, 0].into_iter().zip(under_way) {
        assert!(fold_result(&mut bulk, &known, &TargetResult::Passed, &context));
        assert_eq!((bulk.counts.under_way, bulk.is_settled()), (left, left == 0));
    }
    assert_eq!(bulk.counts.passed, 3);
}

#[test]
fn a_clock_that_is_set_neither_stops_it_nor_hurries_it() {
    for by in [-3_600_000, 3_600_000] {
        let mut bulk = bulk(100, 4, None);
        act(&mut bulk, BEGIN, &TargetResult::Acknowledged);
        let context = |after: u64| BulkContext { clock: by, ..at((BEGIN + Millis(after)).shifted(by)) };
        let due = [249, 250, 499].map(|after| due_targets(&mut bulk.clone(), 9, &context(after)).count());
        assert_eq!(due, [0, 1, 1], "set by {by}");
        assert_eq!(change_bulk(&mut bulk, BulkCommand::Pause, &context(100)), Ok(Answer::Done));
        assert_eq!(change_bulk(&mut bulk, BulkCommand::Unpause, &context(200)), Ok(Answer::Done));
        assert_eq!(bulk.due(), Some((BEGIN + Millis(450)).shifted(by)), "a pause earns nothing");
    }
}

#[test]
fn policies_are_applied_at_once_and_what_is_due_resumes_at_the_pace() {
    let only = Some(vec!["p".into()]);
    let mut bulk = Bulk { action: BulkAction::ApplyPolicies { only }, ..bulk(8, 2, None) };
    assert_eq!(allowance(&mut bulk, BEGIN, 5), 5, "as many as fit into a batch");
    let context = at(BEGIN);
    let later = BEGIN + Millis::hours(2);
    // What the run answers; whether its resume takes a turn, and how long the next one after it waits for its own.
    let cases = [
        (Answer::Scheduled(BEGIN), TargetResult::Scheduled, true, 500),
        (Answer::Scheduled(later), TargetResult::Scheduled, false, 500),
        (Answer::Unscheduled, TargetResult::Unscheduled, false, 500),
        (Answer::Scheduled(BEGIN + Millis(500)), TargetResult::Scheduled, true, 1_000),
        (Answer::Already, TargetResult::Unchanged, false, 1_000),
        (Answer::Scheduled(BEGIN + Millis(1_000)), TargetResult::Scheduled, true, 1_500),
    ];
    for (answer, result, takes_turn, next) in cases {
        let acted = result_of(&bulk, answer, BEGIN);
        assert_eq!(acted, Acted { result, takes_turn }, "{answer:?}");
        assert!(record_acted(&mut bulk, &acted, &context), "nothing keeps it from the next");
        assert_eq!(bulk.turns.next_wait(2, BEGIN), Millis(next), "{answer:?}");
    }
    assert_eq!(bulk.due(), Some(BEGIN), "it is not over");
    for _ in 0..2 {
        let refused = TargetResult::Refused { why: "it is final".into() };
        record_acted(&mut bulk, &refused.into(), &context);
    }
    let counts = BulkCounts { passed: 4, refused: 2, unscheduled: 1, unchanged: 1, ..BulkCounts::default() };
    assert_eq!((bulk.state, bulk.counts), (BulkState::Done, counts));
}

#[test]
fn a_pause_does_not_lose_results_of_what_is_under_way() {
    let mut bulk = bulk(2, 1, None);
    act(&mut bulk, BEGIN, &TargetResult::Resumed);
    ask(&mut bulk, BulkCommand::Pause, BEGIN).expect("paused");
    tell(&mut bulk, &TargetResult::Passed);
    assert_eq!((bulk.counts.passed, bulk.counts.under_way), (1, 0));
    ask(&mut bulk, BulkCommand::Unpause, BEGIN).expect("goes on");
    act(&mut bulk, BEGIN + Millis::seconds(1), &TargetResult::Resumed);
    tell(&mut bulk, &failed());
    assert_eq!(bulk.state, BulkState::Done);
}

#[test]
fn what_it_does_by_itself_is_told_once_and_in_order() {
    let mut bulk = bulk(4, 50, Some(1));
    let mut last = bulk.clone();
    let mut progress = |bulk: &Bulk| {
        let since = bulk.progress_since(&last);
        last = bulk.clone();
        since
    };
    let passed = TargetResult::Passed;
    let later = BEGIN + Millis::seconds(5);
    assert_eq!(act(&mut bulk, later, &passed), 1);
    assert_eq!(progress(&bulk), [BulkProgress::Wave { number: 2 }]);
    assert_eq!(progress(&bulk), []);
    assert_eq!(act(&mut bulk, later, &passed), 2);
    assert_eq!(act(&mut bulk, later, &passed), 1);
    assert_eq!(progress(&bulk), [BulkProgress::Wave { number: 3 }, BulkProgress::Done]);

    let mut bulk = self::bulk(4, 50, Some(1));
    let before = bulk.clone();
    assert_eq!(act(&mut bulk, later, &failed()), 1);
    let stopped = bulk.progress_since(&before);
    assert!(matches!(&stopped[..], [BulkProgress::Stopped { .. }]), "{stopped:?}");
    let before = bulk.clone();
    assert_eq!(ask(&mut bulk, BulkCommand::Cancel, later), Ok(Answer::Done));
    assert_eq!(bulk.progress_since(&before), [], "somebody did that");
}
