//! The recovery ladder in words: every rung names its rule, the rungs that were passed over, and what follows.

use unstuck_core::event::{Choice, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::recovery::{BackOff, RetryStrategy};
use unstuck_core::time::Millis;

use crate::flows::{StepBuilder, flow, step};
use crate::saying::{choose, decisions, lacking_gpu};
use crate::support::{World, fatal, remote, stall};

/// A row: the step, what happens to it, and the last decision that is told.
struct Case {
    step: fn() -> StepBuilder,
    happens: fn(&mut World, RunId),
    told: &'static str,
}

fn check(cases: Vec<Case>) {
    for Case { step: make, happens, told } in cases {
        let flows = vec![flow("f", vec![make(), step("after")]), flow("clean", vec![step("sweep")])];
        let mut world = World::new(flows);
        let run = world.start("f");
        happens(&mut world, run);
        let all = decisions(&world, run);
        assert_eq!(all.last().map(String::as_str), Some(told));
    }
}

/// So many attempts of `a` stall, each when it is due.
fn stalls(world: &mut World, run: RunId, times: u32) {
    for _ in 0..times {
        world.attempt(run, "a", stall("reset"));
        world.pass(Millis::seconds(10));
    }
}

fn silent(world: &mut World, run: RunId) {
    world.claim(run, "a", &remote("w1")).expect("claimed");
    world.pass(Millis::seconds(40));
}

#[test]
fn rung_1_retry() {
    check(vec![
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| {
                world.attempt(run, "a", stall("connection reset"));
            },
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 3, backOff: 2s | attempt 1 stalled: \
                   connection reset. Retrying in 2s, at 2027-01-15T08:00:02.000Z: 1 of 3 attempts used in this round \
                   (2 left)",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| stalls(world, run, 2),
            told: "a#2 | retryStrategy | retryStrategy: retry, maxAttempts: 3, backOff: 2s | attempt 2 stalled: \
                   reset. Retrying in 2s, at 2027-01-15T08:00:12.000Z: 2 of 3 attempts used in this round (1 left)",
        },
        Case {
            step: || step("a").retry(None, 5),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: -1, backOff: 5s | attempt 1 stalled: \
                   reset. Retrying in 5s, at 2027-01-15T08:00:05.000Z: 1 attempt used in this round, no limit",
        },
        Case {
            step: || {
                let retry = RetryStrategy::Retry { max_attempts: Some(2), back_off: None };
                step("a").change(|step| step.retry = retry)
            },
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 2 | attempt 1 stalled: reset. Retrying \
                   in 1s (minimumDelay), at 2027-01-15T08:00:01.000Z: 1 of 2 attempts used in this round (1 left)",
        },
        Case {
            step: || {
                let (max_delay, multiplier) = (Some(Millis::minutes(5)), Some(1.5));
                let back_off = BackOff { max_delay, multiplier, ..BackOff::fixed(Millis::seconds(10)) };
                let retry = RetryStrategy::Retry { max_attempts: Some(4), back_off: Some(back_off) };
                step("a").change(|step| step.retry = retry)
            },
            happens: |world, run| {
                world.attempt(run, "a", stall("reset"));
            },
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 4, backOff: {delay: 10s, multiplier: \
                   1.5, maxDelay: 5m} | attempt 1 stalled: reset. Retrying in 15s, at 2027-01-15T08:00:15.000Z: 1 of \
                   4 attempts used in this round (3 left)",
        },
    ]);
}

#[test]
fn rung_1_hold() {
    check(vec![
        Case {
            step: || step("a").hold(None),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: hold | attempt 1 stalled: reset. Held until an operator \
                   chooses retry or none: retryStrategy is hold",
        },
        Case {
            step: || step("a").hold(Some(3)),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such codec"));
            },
            told: "a#1 | retryStrategy | retryStrategy: hold, maxAttempts: 3 | attempt 1 failed: no such codec. Held \
                   until an operator chooses retry or none: 1 of 3 attempts used in this round (2 left)",
        },
        Case {
            step: || step("a").hold(None).change(|step| step.limits.max_stuck = 1),
            happens: silent,
            told: "a#1 | retryStrategy | retryStrategy: hold | attempt 1 failed: stuck: not started within 30s \
                   (startTimeout). Held until an operator chooses retry or none: stuck 1 of 1 in this round; \
                   retryStrategy is hold",
        },
    ]);
}

#[test]
fn rung_2_fail_on_error() {
    check(vec![
        Case {
            step: || step("a").goes_on(),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | failOnError | failOnError: false | attempt 1 stalled: reset. Failed; the flow continues \
                   with output null: no retry strategy; failOnError is false",
        },
        Case {
            step: || step("a").retry(Some(2), 1).goes_on(),
            happens: |world, run| stalls(world, run, 2),
            told: "a#2 | failOnError | failOnError: false | attempt 2 stalled: reset. Failed; the flow continues \
                   with output null: 2 of 2 attempts used in this round; failOnError is false",
        },
        Case {
            step: || step("a").retry(Some(2), 1).goes_on(),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such file"));
            },
            told: "a#1 | failOnError | failOnError: false | attempt 1 failed: no such file. Failed; the flow \
                   continues with output null: a fatal error is not retried; failOnError is false",
        },
        Case {
            step: || step("a").hold(None).goes_on(),
            happens: |world, run| {
                stalls(world, run, 1);
                choose(world, run, "a", Choice::None);
            },
            told: "a#1 | failOnError | failOnError: false | attempt 1 stalled: reset. Failed; the flow continues \
                   with output null: operator chose none; failOnError is false",
        },
        Case {
            step: || step("a").for_each("[1,2]", 2).goes_on(),
            happens: |world, run| {
                world.attempt(run, "a[1]", stall("item is empty"));
            },
            told: "a[1]#1 | failOnError | failOnError: false | attempt 1 stalled: item is empty. Failed; the flow \
                   continues with null in its place: no retry strategy; failOnError is false",
        },
    ]);
}

#[test]
fn rung_4_exception_handler() {
    check(vec![
        Case {
            step: || step("a").handler("clean"),
            happens: |world, run| {
                world.attempt(run, "a", stall("reset"));
            },
            told: "a#1 | exceptionHandler | exceptionHandler: clean | attempt 1 stalled: reset. Remaining steps are \
                   dropped, exception handler `clean` runs, then the run fails: no retry or policy applies",
        },
        Case {
            step: || step("a").for_each("[1,2,3]", 3).handler("clean"),
            happens: |world, run| {
                world.begin(run, "a[0]");
                world.begin(run, "a[2]");
                world.attempt(run, "a[1]", fatal("no such codec"));
            },
            told: "a[1]#1 | exceptionHandler | exceptionHandler: clean | attempt 1 failed: no such codec. Remaining \
                   steps are dropped, exception handler `clean` runs when the 2 running attempts have ended, then \
                   the run fails: no retry or policy applies",
        },
        Case {
            step: || step("a").hold(Some(1)).handler("clean"),
            happens: |world, run| {
                world.attempt(run, "a", stall("reset"));
            },
            told: "a#1 | exceptionHandler | exceptionHandler: clean | attempt 1 stalled: reset. Remaining steps are \
                   dropped, exception handler `clean` runs, then the run fails: 1 of 1 attempt used in this round; \
                   no policy applies",
        },
        Case {
            step: || step("a").retry(Some(5), 1).handler("clean").change(|step| step.limits.max_stuck = 2),
            happens: |world, run| {
                silent(world, run);
                silent(world, run);
            },
            told: "a#2 | exceptionHandler | exceptionHandler: clean | attempt 2 failed: stuck: not started within \
                   30s (startTimeout). Remaining steps are dropped, exception handler `clean` runs, then the run \
                   fails: stuck 2 of 2 in this round; no policy applies",
        },
    ]);
}

#[test]
fn rung_5_rest_or_failed() {
    check(vec![
        Case {
            step: || step("a"),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: \
                   reset. Needs an operator: no retry, policy or exception handler applies",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| stalls(world, run, 3),
            told: "a#3 | rest | retryStrategy: retry, maxAttempts: 3, backOff: 2s, failOnError: true, no \
                   exceptionHandler | attempt 3 stalled: reset. Needs an operator: 3 of 3 attempts used in this \
                   round; no policy or exception handler applies",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such codec"));
            },
            told: "a#1 | failed | retryStrategy: retry, maxAttempts: 3, backOff: 2s, failOnError: true, no \
                   exceptionHandler | attempt 1 failed: no such codec. The run fails: a fatal error is not retried; \
                   no policy or exception handler applies",
        },
        Case {
            step: || step("a").hold(None),
            happens: |world, run| {
                stalls(world, run, 1);
                choose(world, run, "a", Choice::None);
            },
            told: "a#1 | failed | retryStrategy: hold, failOnError: true, no exceptionHandler | attempt 1 stalled: \
                   reset. The run fails: operator chose none; no exception handler applies",
        },
        Case {
            step: || step("a").change(|step| step.limits.max_stuck = 1),
            happens: silent,
            told: "a#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 failed: \
                   stuck: not started within 30s (startTimeout). The run fails: stuck 1 of 1 in this round; no \
                   policy or exception handler applies",
        },
        Case {
            step: || step("a").change(|step| step.limits.queue_timeout = Some(Millis::minutes(2))),
            happens: |world, _| world.pass(Millis::minutes(3)),
            told: "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 1 stalled: no \
                   worker took it within 2m (queueTimeout). Needs an operator: no retry, policy or exception handler \
                   applies",
        },
        Case {
            step: || step("a").change(|step| step.defer.limit = Millis::seconds(30)),
            happens: |world, run| {
                world.attempt(run, "a", lacking_gpu());
                world.pass(Millis::seconds(30));
                world.attempt(run, "a", lacking_gpu());
            },
            told: "a#2 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | attempt 2 stalled: \
                   deferred for longer than 30s (defer.limit): no GPU. Needs an operator: no retry, policy or \
                   exception handler applies",
        },
    ]);
}

#[test]
fn a_cause_that_an_older_version_wrote_is_known_as_a_limit_of_the_step() {
    let steps = vec![step("a").change(|step| step.limits.max_stuck = 1)];
    let mut world = World::new(vec![flow("f", steps)]);
    let run = world.start("f");
    silent(&mut world, run);
    let now = decisions(&world, run);
    for event in world.history.get_mut(&run).expect("a history") {
        for fact in &mut event.facts {
            if let Fact::Unit { fact: UnitFact::Ended { outcome: Outcome::Failed(error), .. }, .. } = fact {
                error.cause = "stuck: not started within startTimeout 30s".into();
            }
        }
    }
    let before: Vec<String> = decisions(&world, run);
    let renamed = |line: &String| {
        line.replace("not started within startTimeout 30s", "not started within 30s (startTimeout)")
    };
    assert_ne!(before, now);
    assert_eq!(before.iter().map(renamed).collect::<Vec<_>>(), now);
}
