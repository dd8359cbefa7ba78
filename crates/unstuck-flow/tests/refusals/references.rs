//! Flows that speak of flows that do not exist, or of themselves without end.

use crate::{Case, refused};

const CASES: &[Case] = &[
    (
        "a missing child",
        "\
flow: a
steps:
  - id: x
    flow: other
",
        &[
            "4:11: steps.x.flow: the flow `other` does not exist (add it to this file as another document, after `---`, or run it once to load it)",
        ],
    ),
    (
        "a missing handler, nearly right",
        "\
flow: a
steps:
  - id: x
    action: work
    exceptionHandler: celan-up
---
flow: clean-up
steps: [{id: x, set: 1}]
",
        &[
            "5:23: steps.x.exceptionHandler: the exception handler `celan-up` does not exist (did you mean `clean-up`?)",
        ],
    ),
    (
        "a flow that handles itself",
        "\
flow: a
steps:
  - id: x
    action: work
    exceptionHandler: a
",
        &[
            "5:23: steps.x.exceptionHandler: exception handlers in a cycle: a -> a (an error would be handled forever; end the cycle with a flow that has no handler)",
        ],
    ),
    (
        "exception handlers in a cycle",
        "\
flow: a
steps:
  - id: x
    action: work
    exceptionHandler: b
---
flow: b
steps: [{id: x, action: w, exceptionHandler: c}]
---
flow: c
steps: [{id: x, action: w, exceptionHandler: a}]
",
        &[
            "5:23: steps.x.exceptionHandler: exception handlers in a cycle: a -> b -> c -> a (an error would be handled forever; end the cycle with a flow that has no handler)",
        ],
    ),
    (
        "a handler that starts what it handles",
        "\
flow: a
steps:
  - id: x
    action: work
    exceptionHandler: b
---
flow: b
steps: [{id: x, flow: a}]
",
        &[
            "5:23: steps.x.exceptionHandler: exception handlers in a cycle: a -> b -> a (an error would be handled forever; end the cycle with a flow that has no handler)",
        ],
    ),
    (
        "a flow that starts itself",
        "\
flow: a
steps:
  - id: x
    flow: a
",
        &[
            "4:11: steps.x.flow: starts itself endlessly: a -> a (give one of the steps an `if` that stops it)",
        ],
    ),
    (
        "flows that start each other",
        "\
flow: a
steps:
  - id: x
    flow: b
---
flow: b
steps: [{id: x, flow: a}]
",
        &[
            "4:11: steps.x.flow: starts itself endlessly: a -> b -> a (give one of the steps an `if` that stops it)",
        ],
    ),
];

#[test]
fn flows_that_lead_nowhere_are_refused() {
    refused(CASES);
}
