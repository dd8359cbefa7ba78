//! What is wrong with a flow besides its steps.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "no name and no steps",
        "version: 1\n",
        &[
            "1:1: flow: the flow has no name (write `flow: <name>`)",
            "1:1: steps: the flow has no steps (write `steps:` and a list below it)",
        ],
    ),
    (
        "a bad name",
        "\
flow: my flow
steps: [{id: x, set: 1}]
",
        &[
            "1:7: flow: `my flow` is not a valid flow name: start with a letter, then use letters, digits, `_` and `-` (for example `my-flow`)",
        ],
    ),
    (
        "a name with a dot",
        "\
flow: my.flow
steps: [{id: x, set: 1}]
",
        &[
            "1:7: flow: `my.flow` is not a valid flow name: start with a letter, then use letters, digits, `_` and `-` (for example `my-flow`)",
        ],
    ),
    (
        "no steps in the list",
        "\
flow: a
steps: []
",
        &["2:8: steps: the flow has no steps (add at least one step)"],
    ),
    (
        "steps that are no list",
        "\
flow: a
steps: {x: 1}
",
        &["2:8: steps: expected a list of steps, not a map"],
    ),
    (
        "unknown fields",
        "\
flow: a
verison: 1
banana: 2
name: b
steps: [{id: x, set: 1}]
",
        &[
            "2:1: verison: a flow has no field `verison` (did you mean `version`?)",
            "3:1: banana: a flow has no field `banana`",
            "4:1: name: a flow has no field `name` (did you mean `flow`?)",
        ],
    ),
    (
        "two flows of one name",
        "\
flow: a
steps: [{id: x, set: 1}]
---
flow: a
steps: [{id: x, set: 1}]
",
        &["4:7: flow: the name `a` is already used by the flow on line 1 (give each flow its own name)"],
    ),
    (
        "a bad deadline",
        "\
flow: a
deadline: soon
steps: [{id: x, set: 1}]
",
        &[
            "2:11: deadline: `soon` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds (or an instant, such as `2030-01-31T08:30:00Z`)",
        ],
    ),
    (
        "a deadline without its zone",
        "\
flow: a
deadline: 2030-01-31T08:30:00
steps: [{id: x, set: 1}]
",
        &[
            "2:11: deadline: `2030-01-31T08:30:00` has no time zone: add `Z` for UTC, as in `2030-01-31T08:30:00Z`, or an offset, as in `2030-01-31T08:30:00+02:00`",
        ],
    ),
    (
        "a deadline of zero",
        "\
flow: a
deadline: 0
steps: [{id: x, set: 1}]
",
        &["2:11: deadline: must be longer than zero (remove it for no deadline)"],
    ),
    (
        "a bad version",
        "\
flow: a
version: [1]
steps: [{id: x, set: 1}]
",
        &["2:10: version: expected a version, such as `3` or `2026-11`, not a list"],
    ),
    (
        "bad labels",
        "\
flow: a
labels: {team: [x]}
steps: [{id: x, set: 1}]
",
        &["2:16: labels.team: expected text, not a list"],
    ),
    (
        "no concurrency",
        "\
flow: a
concurrency: 0
steps: [{id: x, set: 1}]
",
        &["2:14: concurrency: expected a whole number of at least 1, not `0`"],
    ),
    (
        "concurrency without its limit",
        "\
flow: a
concurrency: {strict: yes}
steps: [{id: x, set: 1}]
",
        &[
            "2:14: concurrency: `concurrency` has no `limit` (for example `limit: 1`)",
            "2:23: concurrency.strict: expected `true` or `false`, not `yes` (write `true`)",
        ],
    ),
    (
        "a key that reads a step",
        "\
flow: a
concurrency: {limit: 1, key: \"${steps.x.output}\"}
steps: [{id: x, set: 1}]
",
        &[
            "2:33: concurrency.key: reads step `x`, but is evaluated before any step runs (only `input` and `run` are known here)",
        ],
    ),
    (
        "bad schemas of the input, all of them",
        "\
flow: a
input:
  type: objekt
  properties: {n: {minimum: x}}
steps: [{id: x, set: 1}]
",
        &[
            "3:9: input.type: JSON has no type `objekt` (did you mean `object`?)",
            "4:29: input.properties.n.minimum: not a JSON Schema: \"x\" is not of type \"number\" (`input` must be a JSON Schema of draft 2020-12)",
        ],
    ),
    (
        "a schema elsewhere",
        "\
flow: a
input: {$ref: 'https://example.com/s.json'}
steps: [{id: x, set: 1}]
",
        &[
            "2:8: input: not a JSON Schema: Resource 'https://example.com/s.json' is not present in a registry (schemas are not downloaded: put this one under `$defs`)",
        ],
    ),
    (
        "a schema with a bad pattern",
        "\
flow: a
input:
  properties:
    n: {pattern: '(?=x)y'}
steps: [{id: x, set: 1}]
",
        &[
            "4:18: input.properties.n.pattern: not a JSON Schema: \"(?=x)y\" is not a \"regex\" (patterns cannot use look-around or back-references, and their size is limited)",
        ],
    ),
    (
        "an input that is no schema",
        "\
flow: a
input: name
steps: [{id: x, set: 1}]
",
        &["2:8: input: expected a JSON Schema (a map), not `name`"],
    ),
    (
        "an unknown default",
        "\
flow: a
defaults: {id: y, tiemout: 1s}
steps: [{id: x, set: 1}]
",
        &[
            "2:12: defaults.id: `defaults` has no field `id`",
            "2:19: defaults.tiemout: `defaults` has no field `tiemout` (did you mean `timeout`?)",
        ],
    ),
    (
        "a bad default, told once",
        "\
flow: a
defaults: {timeout: never, load: -1}
steps: [{id: x, action: w}, {id: y, action: w}]
",
        &[
            "2:21: defaults.timeout: `never` is not a duration: write for example `30s`, `1h 30m`, `1d`, `PT30M` or a number of seconds",
            "2:34: defaults.load: expected a whole number of at least 0, not `-1`",
        ],
    ),
    (
        "contradicting defaults",
        "\
flow: a
defaults: {failOnError: false, exceptionHandler: known}
steps: [{id: x, action: w}]
",
        &[
            "2:50: defaults.exceptionHandler: the exception handler would never run: `failOnError: false` ignores the error (remove one of the two)",
        ],
    ),
    (
        "an output of an unknown step",
        "\
flow: a
output: ${steps.y.output}
steps: [{id: x, set: 1}]
",
        &["2:17: output: there is no step `y` (the steps are `x`)"],
    ),
];

#[test]
fn a_wrong_flow_is_refused_with_every_place() {
    refused(CASES);
}

#[test]
fn labels_have_bounds() {
    let flow = |labels: &str| format!("flow: a\nlabels: {{{labels}}}\nsteps: [{{id: x, set: 1}}]\n");
    let long = |n: usize| "x".repeat(n);
    let many = |n: usize| (0..n).map(|n| format!("l{n}: x")).collect::<Vec<_>>().join(", ");
    let cases = [
        (format!("team: {}", long(512)), None),
        (format!("team: {}", long(513)), Some("a label can have at most 512 bytes, not 513")),
        (format!("{}: x", long(200)), None),
        (format!("{}: x", long(201)), Some("the name of a label must have 1 to 200 bytes")),
        (many(64), None),
        (many(65), Some("a flow can have at most 64 labels, not 65")),
    ];
    for (labels, refused) in cases {
        let result = unstuck_flow::load(&flow(&labels), "f", "/flows", &|_| false);
        let problems = result.err().unwrap_or_default();
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages, refused.into_iter().collect::<Vec<_>>());
    }
}
