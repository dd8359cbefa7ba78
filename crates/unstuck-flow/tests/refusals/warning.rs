//! What is accepted with a warning, and what without.

use crate::{Case, accepted};

const SUSPICIOUS: &[Case] = &[
    (
        "attempts without effect",
        "\
flow: a
steps:
  - id: x
    action: work
    maxAttempts: 2
    retryStrategy: none
    failOnError: true
",
        &[
            "5:5: steps.x.maxAttempts: `maxAttempts` has no effect: nothing is retried with `retryStrategy: none` (set `retryStrategy: retry`, or remove it)",
        ],
    ),
    (
        "names from elsewhere",
        "\
flow: a
steps:
  - id: x
    action: work
    retry-strategy: none
    max-attempts: 2
    fail-on-error: true
    exception-handler-workflow: known
    description: Failing operation
",
        &[
            "6:5: steps.x.maxAttempts: `maxAttempts` has no effect: nothing is retried with `retryStrategy: none` (set `retryStrategy: retry`, or remove it)",
        ],
    ),
    (
        "attempts without a strategy",
        "\
flow: a
steps:
  - id: x
    action: work
    max-attempts: 2
",
        &[
            "5:5: steps.x.maxAttempts: `maxAttempts` has no effect: nothing is retried with `retryStrategy: none` (set `retryStrategy: retry`, or remove it)",
        ],
    ),
    (
        "a back-off without a strategy",
        "\
flow: a
steps:
  - id: x
    action: work
    backOff: 3s
",
        &[
            "5:5: steps.x.backOff: `backOff` has no effect: nothing is retried with `retryStrategy: none` (set `retryStrategy: retry`, or remove it)",
        ],
    ),
    (
        "a back-off for an operator",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: hold
    backOff: 3s
",
        &[
            "6:5: steps.x.backOff: `backOff` has no effect: a held step waits for an operator (set `retryStrategy: retry`, or remove it)",
        ],
    ),
    (
        "a retry without a second attempt",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    maxAttempts: 1
",
        &["6:18: steps.x.maxAttempts: with one attempt nothing is retried (2 means one try and one retry)"],
    ),
    (
        "a multiplier without effect",
        "\
flow: a
steps:
  - id: x
    action: work
    retryStrategy: retry
    backOff: {delay: 1s, maxDelay: 2s, random: true, multiplier: 2}
",
        &["6:54: steps.x.backOff.multiplier: `multiplier` has no effect together with `random: true`"],
    ),
    (
        "a step that never runs",
        "\
flow: a
steps:
  - id: x
    set: 1
    if: false
",
        &["5:9: steps.x.if: the step never runs (its output is null, and the steps that need it continue)"],
    ),
    (
        "a list with nothing in it",
        "\
flow: a
steps:
  - id: x
    set: 1
    forEach: []
",
        &["5:14: steps.x.forEach: the list is empty: the step never runs (its output is an empty list)"],
    ),
    (
        "a need listed twice",
        "\
flow: a
steps:
  - {id: x, set: 1}
  - {id: y, set: 1, needs: [x, x]}
",
        &["4:32: steps.y.needs: `x` is listed twice"],
    ),
    (
        "processes that may hang for hours, in one warning",
        "\
flow: a
steps:
  - {id: x, run: [make]}
  - {id: y, run: [make], timeout: 10m}
  - {id: z, run: [make], timeout: 2h}
  - {id: w, run: [make], heartbeatTimeout: 1m}
  - {id: v, emulate: stick}
  - {id: u, emulate: pass}
  - {id: t, action: work}
",
        &[
            "3:5: steps.x: a hanging attempt is noticed only after 12h: `x`, `z` and `v` (set a shorter `timeout`, here or in `defaults`, or a `heartbeatTimeout` if the step reports progress)",
        ],
    ),
    (
        "defaults that nobody uses",
        "\
flow: a
defaults: {maxAttempts: 3, backOff: 1s}
steps: [{id: x, action: w}]
",
        &[
            "2:12: defaults.maxAttempts: `maxAttempts` has no effect: no step has a retry strategy (set `retryStrategy: retry`, or remove it)",
            "2:28: defaults.backOff: `backOff` has no effect: no step has a retry strategy (set `retryStrategy: retry`, or remove it)",
        ],
    ),
];

const QUIET: &[Case] = &[
    (
        "a process with a timeout",
        "\
flow: a
steps:
  - id: x
    run: [make]
    timeout: 10m
",
        &[],
    ),
    (
        "a process in a flow with a deadline",
        "\
flow: a
deadline: 10m
steps: [{id: x, run: [make]}]
",
        &[],
    ),
    (
        "a step overrules the defaults",
        "\
flow: a
defaults: {retryStrategy: retry, maxAttempts: 3, backOff: 1s, exceptionHandler: known, timeout: 5m}
steps:
  - {id: x, run: [make]}
  - {id: y, action: w, retryStrategy: none, failOnError: false}
  - {id: z, set: 1}
  - {id: w, wait: 2h}
",
        &[],
    ),
    (
        "a walk down a tree",
        "\
flow: a
steps:
  - id: x
    flow: a
    forEach: ${input.children}
    with: ${item}
",
        &[],
    ),
    (
        "a recursion that may end",
        "\
flow: a
steps:
  - id: x
    flow: a
    if: ${input.n > 0}
    with: {n: '${input.n - 1}'}
",
        &[],
    ),
    (
        "quoted keys that look like others",
        "{\"flow\": \"a\", \"steps\": [{\"id\": \"x\", \"set\": {\"<<\": {\"a\": 1}, \"~\": 1, \"null\": 2, \"1\": 3, \"01\": 4, \"\": 5}}]}",
        &[],
    ),
    (
        "many uses of one anchor",
        "\
flow: a
steps:
  - {id: s0, action: w, <<: &r {timeout: 1s, retryStrategy: retry}}
  - {id: s1, action: w, <<: *r}
  - {id: s2, action: w, <<: *r}
",
        &[],
    ),
];

#[test]
fn what_is_suspicious_is_accepted_with_a_warning() {
    accepted(SUSPICIOUS);
}

#[test]
fn what_is_on_purpose_is_accepted_without_one() {
    accepted(QUIET);
}
