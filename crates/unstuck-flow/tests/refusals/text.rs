//! Text that cannot be read at all, or only one way too many.

use crate::{Case, refused};

const CASES: &[Case] = &[
    ("no flow at all", "", &["1:1: the file contains no flow (start with `flow: <name>` and `steps:`)"]),
    ("not a map", "just text\n", &["1:1: a flow is a map, not text (write `flow: ...`)"]),
    (
        "a policy",
        "name: a\nflow: f\nmaxAttempts: 3\nbackOff: {delay: 60}\n",
        &["1:1: this is a policy, not a flow (load policies with `unstuck policy load`)"],
    ),
    (
        "broken YAML",
        "\
flow: a
steps: [
",
        &["2:8: unclosed bracket '['"],
    ),
    (
        "a tab",
        "flow: a\nsteps:\n\t- id: x\n",
        &["3:2: tabs disallowed within this context (block indentation) (indent with spaces)"],
    ),
    (
        "an unquoted expression in braces",
        "\
flow: a
steps:
  - {id: x, set: {a: ${input.b}}}
",
        &[
            "3:23: while parsing a flow mapping, did not find expected ',' or '}' (a `${...}` inside `{ }` or `[ ]`, or with `: ` in it, needs quotes: `\"${input.a}\"`)",
        ],
    ),
    (
        "an unquoted choice",
        "\
flow: a
steps:
  - id: x
    set: ${input.a ? 1 : 2}
",
        &[
            "4:24: mapping values are not allowed in this context (a `${...}` inside `{ }` or `[ ]`, or with `: ` in it, needs quotes: `\"${input.a}\"`)",
        ],
    ),
    (
        "keys given twice, at several places",
        "\
flow: a
steps:
  - id: x
    set: {b: 1, b: 2}
    set: 3
flow: b
",
        &[
            "4:17: steps[0].set.b: given twice; the first is on line 4 (keep one of the two)",
            "5:5: steps[0].set: given twice; the first is on line 4 (keep one of the two)",
            "6:1: flow: given twice; the first is on line 1 (keep one of the two)",
        ],
    ),
    (
        "a number as a key twice",
        "\
flow: a
steps:
  - id: x
    set:
      1: a
      1: b
",
        &["6:7: `1` is given twice (keep one of the two)"],
    ),
    (
        "an alias of itself",
        "\
flow: a
steps:
  - id: x
    set: &loop [*loop]
",
        &["4:17: an anchor contains an alias of itself (remove the alias: it would expand without end)"],
    ),
    (
        "an alias of nothing",
        "\
flow: a
steps:
  - id: x
    set: *nothing
",
        &["4:10: the alias has no anchor (write `&name` before the value that `*name` stands for)"],
    ),
    (
        "too deep",
        "a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
        &["1:67: nested deeper than 64 levels (write it flatter, or split it into several documents)"],
    ),
    (
        "not a finite number",
        "\
flow: a
steps:
  - id: x
    set: .inf
",
        &["4:10: `.inf` is not a finite number (quote it if it is text)"],
    ),
    (
        "an unknown tag",
        "\
flow: a
steps:
  - id: x
    set: !thing 3
",
        &["4:17: unsupported tag `!thing`"],
    ),
    (
        "a map as a key",
        "\
flow: a
steps:
  - id: x
    set: {? {a: 1} : 2}
",
        &["4:13: a key must be text"],
    ),
    (
        "JSON that stops",
        "{\"flow\": \"a\", \"steps\": [{\"id\": \"x\", \"set\": 1}",
        &["1:24: unclosed bracket '['"],
    ),
    (
        "a list of things that are no flows",
        "[1, {flow: a, steps: [{id: x, set: 1}]}]",
        &["1:2: a flow is a map, not a number (write `flow: ...`)"],
    ),
];

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    refused(CASES);
}
