//! The recovery ladder in words: every rung names its rule, the rungs that were passed over, and what follows.

use unstuck_core::event::Choice;
use unstuck_core::id::RunId;
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
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 3, backOff: 2s | \
                   attempt 1 stalled: connection reset; 1 of 3 attempts of this round has stalled (2 \
                   left): tried again in 2s, at 2027-01-15T08:00:02.000Z",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| stalls(world, run, 2),
            told: "a#2 | retryStrategy | retryStrategy: retry, maxAttempts: 3, backOff: 2s | \
                   attempt 2 stalled: reset; 2 of 3 attempts of this round have stalled (1 left): tried \
                   again in 2s, at 2027-01-15T08:00:12.000Z",
        },
        Case {
            step: || step("a").retry(None, 5),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: -1, backOff: 5s | \
                   attempt 1 stalled: reset; 1 attempt of this round has stalled, without a limit: tried \
                   again in 5s, at 2027-01-15T08:00:05.000Z",
        },
        Case {
            step: || {
                let retry = RetryStrategy::Retry { max_attempts: Some(2), back_off: None };
                step("a").change(|step| step.retry = retry)
            },
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 2 | \
                   attempt 1 stalled: reset; 1 of 2 attempts of this round has stalled (1 left): tried \
                   again in 1s (minimumDelay), at 2027-01-15T08:00:01.000Z",
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
            told: "a#1 | retryStrategy | retryStrategy: retry, maxAttempts: 4, backOff: {delay: 10s, \
                   multiplier: 1.5, maxDelay: 5m} | \
                   attempt 1 stalled: reset; 1 of 4 attempts of this round has stalled (3 left): tried \
                   again in 15s, at 2027-01-15T08:00:15.000Z",
        },
    ]);
}

#[test]
fn rung_1_hold() {
    check(vec![
        Case {
            step: || step("a").hold(None),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | retryStrategy | retryStrategy: hold | \
                   attempt 1 stalled: reset; the retry strategy is hold: held until an operator chooses \
                   retry or none",
        },
        Case {
            step: || step("a").hold(Some(3)),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such codec"));
            },
            told: "a#1 | retryStrategy | retryStrategy: hold, maxAttempts: 3 | \
                   attempt 1 failed: no such codec; 1 of 3 attempts of this round is used (2 left): held \
                   until an operator chooses retry or none",
        },
        Case {
            step: || step("a").hold(None).change(|step| step.limits.max_stuck = 1),
            happens: silent,
            told: "a#1 | retryStrategy | retryStrategy: hold | \
                   attempt 1 failed: stuck: not started within startTimeout 30s; stuck 1 of 1 time in \
                   this round, the retry strategy is hold: held until an operator chooses retry or none",
        },
    ]);
}

#[test]
fn rung_2_fail_on_error() {
    check(vec![
        Case {
            step: || step("a").goes_on(),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | failOnError | failOnError: false | \
                   attempt 1 stalled: reset; no retry strategy, failOnError is false: the step stays \
                   failed, its output is null, and the flow goes on",
        },
        Case {
            step: || step("a").retry(Some(2), 1).goes_on(),
            happens: |world, run| stalls(world, run, 2),
            told: "a#2 | failOnError | failOnError: false | \
                   attempt 2 stalled: reset; 2 of 2 attempts of this round have stalled, failOnError is \
                   false: the step stays failed, its output is null, and the flow goes on",
        },
        Case {
            step: || step("a").retry(Some(2), 1).goes_on(),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such file"));
            },
            told: "a#1 | failOnError | failOnError: false | \
                   attempt 1 failed: no such file; a fatal error is not retried, failOnError is false: \
                   the step stays failed, its output is null, and the flow goes on",
        },
        Case {
            step: || step("a").hold(None).goes_on(),
            happens: |world, run| {
                stalls(world, run, 1);
                choose(world, run, "a", Choice::None);
            },
            told: "a#1 | failOnError | failOnError: false | \
                   attempt 1 stalled: reset; operator chose none, failOnError is false: the step stays \
                   failed, its output is null, and the flow goes on",
        },
        Case {
            step: || step("a").for_each("[1,2]", 2).goes_on(),
            happens: |world, run| {
                world.attempt(run, "a[1]", stall("item is empty"));
            },
            told: "a[1]#1 | failOnError | failOnError: false | \
                   attempt 1 stalled: item is empty; no retry strategy, failOnError is false: the item \
                   stays failed and leaves null in its place, and the flow goes on",
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
            told: "a#1 | exceptionHandler | exceptionHandler: clean | \
                   attempt 1 stalled: reset; no retry strategy, failOnError is true: the remaining steps \
                   are dropped, `clean` runs, and then the run is failed",
        },
        Case {
            step: || step("a").for_each("[1,2,3]", 3).handler("clean"),
            happens: |world, run| {
                world.begin(run, "a[0]");
                world.begin(run, "a[2]");
                world.attempt(run, "a[1]", fatal("no such codec"));
            },
            told: "a[1]#1 | exceptionHandler | exceptionHandler: clean | \
                   attempt 1 failed: no such codec; no retry strategy, failOnError is true: the \
                   remaining steps are dropped; once the 2 attempts under way have ended, `clean` runs, \
                   and then the run is failed",
        },
        Case {
            step: || step("a").hold(Some(1)).handler("clean"),
            happens: |world, run| {
                world.attempt(run, "a", stall("reset"));
            },
            told: "a#1 | exceptionHandler | exceptionHandler: clean | \
                   attempt 1 stalled: reset; 1 of 1 attempt of this round is used, failOnError is true: \
                   the remaining steps are dropped, `clean` runs, and then the run is failed",
        },
        Case {
            step: || step("a").retry(Some(5), 1).handler("clean").change(|step| step.limits.max_stuck = 2),
            happens: |world, run| {
                silent(world, run);
                silent(world, run);
            },
            told: "a#2 | exceptionHandler | exceptionHandler: clean | \
                   attempt 2 failed: stuck: not started within startTimeout 30s; stuck 2 of 2 times in \
                   this round, failOnError is true: the remaining steps are dropped, `clean` runs, and \
                   then the run is failed",
        },
    ]);
}

#[test]
fn rung_5_rest_or_failed() {
    check(vec![
        Case {
            step: || step("a"),
            happens: |world, run| stalls(world, run, 1),
            told: "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | \
                   attempt 1 stalled: reset; no retry strategy, failOnError is true, no resume policy takes it, no exception \
                   handler: it rests in error until somebody resumes it",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| stalls(world, run, 3),
            told: "a#3 | rest | retryStrategy: retry, maxAttempts: 3, backOff: 2s, failOnError: true, no \
                   exceptionHandler | \
                   attempt 3 stalled: reset; 3 of 3 attempts of this round have stalled, failOnError is \
                   true, no resume policy takes it, no exception handler: it rests in error until somebody resumes it",
        },
        Case {
            step: || step("a").retry(Some(3), 2),
            happens: |world, run| {
                world.attempt(run, "a", fatal("no such codec"));
            },
            told: "a#1 | failed | retryStrategy: retry, maxAttempts: 3, backOff: 2s, failOnError: true, \
                   no exceptionHandler | \
                   attempt 1 failed: no such codec; a fatal error is not retried, failOnError is true, \
                   no exception handler: the run is failed",
        },
        Case {
            step: || step("a").hold(None),
            happens: |world, run| {
                stalls(world, run, 1);
                choose(world, run, "a", Choice::None);
            },
            told: "a#1 | failed | retryStrategy: hold, failOnError: true, no exceptionHandler | \
                   attempt 1 stalled: reset; operator chose none, failOnError is true, no exception \
                   handler: the run is failed",
        },
        Case {
            step: || step("a").change(|step| step.limits.max_stuck = 1),
            happens: silent,
            told: "a#1 | failed | retryStrategy: none, failOnError: true, no exceptionHandler | \
                   attempt 1 failed: stuck: not started within startTimeout 30s; stuck 1 of 1 time in \
                   this round, failOnError is true, no exception handler: the run is failed",
        },
        Case {
            step: || step("a").change(|step| step.limits.queue_timeout = Some(Millis::minutes(2))),
            happens: |world, _| world.pass(Millis::minutes(3)),
            told: "a#1 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | \
                   attempt 1 stalled: nobody took it within queueTimeout 2m; no retry strategy, \
                   failOnError is true, no resume policy takes it, no exception handler: it rests in error until somebody resumes it",
        },
        Case {
            step: || step("a").change(|step| step.defer.limit = Millis::seconds(30)),
            happens: |world, run| {
                world.attempt(run, "a", lacking_gpu());
                world.pass(Millis::seconds(30));
                world.attempt(run, "a", lacking_gpu());
            },
            told: "a#2 | rest | retryStrategy: none, failOnError: true, no exceptionHandler | \
                   attempt 2 stalled: deferred for longer than defer.limit 30s: no GPU; no retry \
                   strategy, failOnError is true, no resume policy takes it, no exception handler: it rests in error until somebody \
                   resumes it",
        },
    ]);
}
