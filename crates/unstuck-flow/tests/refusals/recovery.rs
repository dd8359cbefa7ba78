//! Recovery fields that cannot be, or contradict each other.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "an unknown strategy",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retyr
    maxAttempts: 3
",
        &[
            "5:20: steps.x.retryStrategy: expected `none`, `retry` or `hold`, not `retyr` (did you mean `retry`?)",
        ],
    ),
    (
        "no attempts",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    maxAttempts: 0
",
        &["6:18: steps.x.maxAttempts: expected a whole number of at least 1, or -1 for no limit, not `0`"],
    ),
    (
        "attempts below nothing",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    maxAttempts: -2
",
        &["6:18: steps.x.maxAttempts: expected a whole number of at least 1, or -1 for no limit, not `-2`"],
    ),
    (
        "attempts without end and without a back-off",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    maxAttempts: -1
",
        &[
            "6:18: steps.x.maxAttempts: unlimited attempts need a `backOff` (add for example `backOff: {delay: 10s, multiplier: 2, maxDelay: 10m}`)",
        ],
    ),
    (
        "a handler that never runs",
        "\
flow: a
steps:
  - id: x
    action: work
    failOnError: false
    exceptionHandler: known
",
        &[
            "6:23: steps.x.exceptionHandler: the exception handler would never run: `failOnError: false` ignores the error (remove one of the two)",
        ],
    ),
    (
        "a back-off without its delay",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {maxDelay: 1s}
",
        &["6:14: steps.x.backOff: `backOff` needs a `delay` (for example `delay: 10s`)"],
    ),
    (
        "a random back-off without its end",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {delay: 1s, random: true}
",
        &[
            "6:26: steps.x.backOff.random: `random` needs a `maxDelay` (the delay is chosen at random between `delay` and `maxDelay`)",
        ],
    ),
    (
        "a back-off that ends before it starts",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {delay: 10s, maxDelay: 5s}
",
        &["6:37: steps.x.backOff.maxDelay: `maxDelay` (5s) is below `delay` (10s)"],
    ),
    (
        "a back-off that shrinks",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {delay: 10s, multiplier: 0.5}
",
        &["6:39: steps.x.backOff.multiplier: expected a number of at least 1, not `0.5`"],
    ),
    (
        "a negative back-off",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: -10s
",
        &["6:14: steps.x.backOff: `-10s` is negative: write the duration without the sign"],
    ),
    (
        "an unknown field of a back-off",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {delay: 1s, factor: 2}
",
        &["6:26: steps.x.backOff.factor: `backOff` has no field `factor`"],
    ),
    (
        "a bad deferral",
        "\
flow: a
steps:
  - id: x
    action: work
    defer: {delay: 1m, maxDelay: 1s, multiplier: 0, limit: x}
",
        &[
            "5:34: steps.x.defer.maxDelay: `maxDelay` (1s) is below `delay` (1m)",
            "5:50: steps.x.defer.multiplier: expected a number of at least 1, not `0`",
            "5:60: steps.x.defer.limit: `x` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
        ],
    ),
    (
        "a deferral that is no map",
        "\
flow: a
steps:
  - id: x
    action: work
    defer: 30s
",
        &["5:12: steps.x.defer: `defer` is a map, not text (write `delay: ...`)"],
    ),
];

#[test]
fn recovery_that_cannot_be_is_refused() {
    refused(CASES);
}
