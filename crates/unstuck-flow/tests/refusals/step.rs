//! What is wrong with a step, whatever it does.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "no id",
        "\
flow: a
steps:
  - set: 1
",
        &["3:5: steps[0].id: the step has no id (write `id: <name>`)"],
    ),
    (
        "a bad id",
        "\
flow: a
steps:
  - {id: 1st try, set: 1}
",
        &[
            "3:10: steps[0].id: `1st try` is not a valid step id: start with a letter, then use letters, digits, `_` and `-` (for example `st-try`)",
        ],
    ),
    (
        "an id that is no text",
        "\
flow: a
steps:
  - {id: 7, set: 1}
",
        &["3:10: steps[0].id: expected text, not `7`"],
    ),
    (
        "the same id twice",
        "\
flow: a
steps:
  - {id: x, set: 1}
  - {id: x, set: 2}
",
        &[
            "4:10: steps.x.id: the id `x` is already used by the step on line 3 (each step of a flow needs its own id)",
        ],
    ),
    (
        "no kind",
        "\
flow: a
steps:
  - id: x
    timeout: 1s
",
        &[
            "3:5: steps.x: the step does not say what it does (give it one of `action`, `run`, `http`, `flow`, `wait`, `signal`, `set` or `emulate`)",
        ],
    ),
    (
        "two kinds",
        "\
flow: a
steps:
  - id: x
    action: work
    run: [ls]
",
        &["5:5: steps.x: a step can do only one thing, not `action` and `run` (split it into several steps)"],
    ),
    (
        "a step that is no map",
        "\
flow: a
steps:
  - work
",
        &["3:5: steps[0]: a step is a map, not text (write `id: ...`)"],
    ),
    (
        "unknown fields, with what was meant",
        "\
flow: a
steps:
  - id: x
    action: work
    timout: 1s
    depends_on: y
    retries: 3
    zzz: 1
",
        &[
            "5:5: steps.x.timout: a step has no field `timout` (did you mean `timeout`?)",
            "6:5: steps.x.depends_on: a step has no field `depends_on` (did you mean `needs`?)",
            "7:5: steps.x.retries: a step has no field `retries` (did you mean `maxAttempts`?)",
            "8:5: steps.x.zzz: a step has no field `zzz`",
        ],
    ),
    (
        "a field under two names",
        "\
flow: a
steps:
  - id: x
    action: work
    maxAttempts: 2
    max-attempts: 3
    retryStrategy: retry
",
        &["6:5: steps.x.max-attempts: `maxAttempts` is given twice, under two different names"],
    ),
    (
        "fields without a meaning for the kind",
        "\
flow: a
steps:
  - id: x
    set: 1
    retryStrategy: retry
    timeout: 1s
    with: 2
    load: 3
",
        &[
            "5:5: steps.x.retryStrategy: `retryStrategy` does not apply to a `set` step (it applies to `action`, `run`, `http`, `flow`, `wait`, `signal` and `emulate` steps)",
            "6:5: steps.x.timeout: `timeout` does not apply to a `set` step (it applies to `action`, `run`, `http`, `flow`, `wait`, `signal` and `emulate` steps)",
            "7:5: steps.x.with: `with` does not apply to a `set` step (it applies to `action`, `run`, `flow` and `emulate` steps)",
            "8:5: steps.x.load: `load` does not apply to a `set` step (it applies to `action`, `run`, `http` and `emulate` steps)",
        ],
    ),
    (
        "a signal for each item",
        "\
flow: a
steps:
  - id: x
    signal: go
    forEach: [1, 2]
",
        &[
            "5:5: steps.x.forEach: `forEach` cannot be used with `signal`: a signal belongs to the run, not to an item (wait for the signal in a step before the `forEach`, or start a child flow for each item)",
        ],
    ),
    (
        "wrong sorts of values",
        "\
flow: a
steps:
  - id: x
    action: work
    timeout: [1]
    maxStuck: many
    load: -1
    priority: 1.5
    failOnError: yes
    type: {}
    if: 3
    forEach: 3
",
        &[
            "5:14: steps.x.timeout: a list is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
            "6:15: steps.x.maxStuck: expected a whole number of at least 1, not `many`",
            "7:11: steps.x.load: expected a whole number of at least 0, not `-1`",
            "8:15: steps.x.priority: expected a whole number, not `1.5`",
            "9:18: steps.x.failOnError: expected `true` or `false`, not `yes` (write `true`)",
            "10:11: steps.x.type: expected text, not a map",
            "11:9: steps.x.if: expected an expression such as `${input.ready}`, not `3`",
            "12:14: steps.x.forEach: expected a list, or an expression such as `${input.files}`, not `3`",
        ],
    ),
    (
        "quotes around what is no text",
        "\
flow: a
steps:
  - id: x
    action: work
    failOnError: 'true'
    maxStuck: '3'
    load: \"2\"
",
        &[
            "5:18: steps.x.failOnError: expected `true` or `false`, not `\"true\"` (remove the quotes)",
            "6:15: steps.x.maxStuck: expected a whole number of at least 1, not `\"3\"` (remove the quotes)",
            "7:11: steps.x.load: expected a whole number of at least 0, not `\"2\"` (remove the quotes)",
        ],
    ),
    (
        "bad durations",
        "\
flow: a
steps:
  - id: x
    action: work
    timeout: 5 parsecs
    startTimeout: -3s
    heartbeatTimeout: 0
    queueTimeout: P1M
    minimumDelay: -1
",
        &[
            "5:14: steps.x.timeout: `5 parsecs` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
            "6:19: steps.x.startTimeout: `-3s` is negative: write the duration without the sign",
            "7:23: steps.x.heartbeatTimeout: must be longer than zero (remove the field to use the default)",
            "8:19: steps.x.queueTimeout: `P1M` uses months or years, whose lengths vary: write days instead, such as `30d`",
            "9:19: steps.x.minimumDelay: `-1` is negative: write the duration without the sign",
        ],
    ),
    (
        "an expression where none is possible",
        "\
flow: a
steps:
  - id: x
    action: work
    timeout: ${input.t}
    maxStuck: ${input.n}
",
        &[
            "5:14: steps.x.timeout: expected a duration, not `${input.t}` (expressions are not allowed here, only in `with`, `http`, `set`, `if`, `forEach`, `wait`, `output` and `key`)",
            "6:15: steps.x.maxStuck: expected a whole number of at least 1, not `${input.n}` (expressions are not allowed here, only in `with`, `http`, `set`, `if`, `forEach`, `wait`, `output` and `key`)",
        ],
    ),
    (
        "forEach without items",
        "\
flow: a
steps:
  - id: x
    action: work
    forEach: {parallel: 0}
",
        &[
            "5:14: steps.x.forEach: `forEach` has no `items` (for example `items: ${input.files}`)",
            "5:25: steps.x.forEach.parallel: expected a whole number of at least 1, not `0`",
        ],
    ),
    (
        "more items than there may be",
        "\
flow: a
steps:
  - id: x
    action: work
    forEach: {items: [1, 2, 3], maxItems: 2}
",
        &["5:22: steps.x.forEach.items: 3 items; the limit is 2 (raise `maxItems`)"],
    ),
    (
        "an empty description",
        "\
flow: a
steps:
  - id: x
    action: work
    description: ''
",
        &["5:18: steps.x.description: must not be empty"],
    ),
];

#[test]
fn a_wrong_step_is_refused_with_every_place() {
    refused(CASES);
}
