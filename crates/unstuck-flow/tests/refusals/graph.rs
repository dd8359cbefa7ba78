//! Steps that wait for each other, and expressions that read what is not there yet.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "an unknown need",
        "\
flow: a
steps:
  - {id: fetch, set: 1}
  - {id: x, set: 1, needs: [fecth, other]}
",
        &[
            "4:29: steps.x.needs: there is no step `fecth` (did you mean `fetch`?)",
            "4:36: steps.x.needs: there is no step `other` (there is `fetch`)",
        ],
    ),
    (
        "a need that is no id",
        "\
flow: a
steps:
  - id: x
    set: 1
    needs: {y: 1}
",
        &["5:12: steps.x.needs: expected a step id, or a list of step ids, not a map"],
    ),
    (
        "a step that needs itself",
        "\
flow: a
steps:
  - id: x
    set: 1
    needs: x
",
        &["5:5: steps.x.needs: step `x` needs itself (remove it from its `needs`)"],
    ),
    (
        "a circle",
        "\
flow: a
steps:
  - {id: a, set: 1, needs: c}
  - {id: b, set: 1, needs: [a]}
  - {id: c, set: 1}
  - {id: d, set: 1}
",
        &[
            "3:21: steps.a.needs: the steps need each other in a cycle: a needs c needs b needs a (remove one of them from the `needs` of another; without `needs`, a step needs the one before it)",
        ],
    ),
    (
        "two circles",
        "\
flow: a
steps:
  - {id: a, set: 1, needs: b}
  - {id: b, set: 1}
  - {id: c, set: 1, needs: d}
  - {id: d, set: 1}
",
        &[
            "3:21: steps.a.needs: the steps need each other in a cycle: a needs b needs a (remove one of them from the `needs` of another; without `needs`, a step needs the one before it)",
            "5:21: steps.c.needs: the steps need each other in a cycle: c needs d needs c (remove one of them from the `needs` of another; without `needs`, a step needs the one before it)",
        ],
    ),
    (
        "a step that reads itself",
        "\
flow: a
steps:
  - id: x
    set: ${steps.x.output}
",
        &["4:12: steps.x.set: step `x` reads its own output, which does not exist yet"],
    ),
    (
        "a step that reads a later one",
        "\
flow: a
steps:
  - {id: x, set: '${steps.y.output}'}
  - {id: y, set: 1}
",
        &["3:21: steps.x.set: reads step `y`, which may not have run yet (`y` needs `x`, so it runs later)"],
    ),
    (
        "a step that reads one beside it",
        "\
flow: a
steps:
  - {id: x, set: 1}
  - id: y
    needs: []
    if: ${input.a && steps.x.output}
    set:
      deep: ['a', 'b ${steps.x.output}']
",
        &[
            "6:22: steps.y.if: reads step `x`, which may not have run yet (add `x` to the `needs` of `y`)",
            "8:24: steps.y.set: reads step `x`, which may not have run yet (add `x` to the `needs` of `y`)",
        ],
    ),
    (
        "an unknown step in an expression",
        "\
flow: a
steps:
  - id: x
    set: {a: [1, '${steps.y.output}']}
",
        &["4:27: steps.x.set.a[1]: there is no step `y` (the steps are `x`)"],
    ),
    (
        "an item without a forEach",
        "\
flow: a
steps:
  - id: x
    set: ${item}
",
        &[
            "4:12: steps.x.set: `item` exists only in a step with `forEach` (add `forEach: ${ ... }` to the step, or read from `input` or `steps`)",
        ],
    ),
];

#[test]
fn what_cannot_come_before_is_refused() {
    refused(CASES);
}
