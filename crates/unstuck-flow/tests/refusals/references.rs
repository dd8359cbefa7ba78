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
            "4:11: steps.x.flow: the flow `other` does not exist (write it as a further document of this file, after `---`, or load it first)",
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
            "5:23: steps.x.exceptionHandler: handlers in a circle: a -> a (an error there would be handled for ever: end the circle with a flow that has no handler)",
        ],
    ),
    (
        "handlers in a circle",
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
            "5:23: steps.x.exceptionHandler: handlers in a circle: a -> b -> c -> a (an error there would be handled for ever: end the circle with a flow that has no handler)",
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
            "5:23: steps.x.exceptionHandler: handlers in a circle: a -> b -> a (an error there would be handled for ever: end the circle with a flow that has no handler)",
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
            "4:11: steps.x.flow: starts itself without end: a -> a (give one of the steps an `if` that ends it)",
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
            "4:11: steps.x.flow: starts itself without end: a -> b -> a (give one of the steps an `if` that ends it)",
        ],
    ),
];

#[test]
fn flows_that_lead_nowhere_are_refused() {
    refused(CASES);
}
