//! What is doubted about a flow and its policies, before anything has gone wrong.

use unstuck_sim::rehearse::doubts;

use crate::rehearsal;

/// The fields of the flow, its step, the policies, and what is doubted.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

const REST: &str =
    "a run can stay in error until an operator resumes it: step `one` has no policy and no exceptionHandler";

const CASES: &[Case] = &[
    ("", "action: a, failOnError: false", "", &[]),
    ("", "action: a", "", &[REST]),
    ("", "action: a, retryStrategy: retry", "", &[REST]),
    (
        "deadline: 1d",
        "action: a",
        "",
        &["a run can stay in error until its deadline: step `one` has no policy and no exceptionHandler"],
    ),
    ("", "action: a", "{name: p, action: f.a, maxAttempts: 2, backOff: 1}", &[]),
    ("", "action: a", "{name: p, errorSubstring: x, maxAttempts: 2, backOff: 1}", &[]),
    ("", "action: a", "{name: p, action: f.b, maxAttempts: 2, backOff: 1}", &[REST]),
    ("", "action: a", "{name: p, flow: other, maxAttempts: 2, backOff: 1}", &[REST]),
    ("", "action: a", "{name: p, flow: f, enabled: false, maxAttempts: 2, backOff: 1}", &[REST]),
    ("", "action: a, type: T", "{name: p, actionType: T, maxAttempts: 2, backOff: 1}", &[]),
    (
        "",
        "run: x, timeout: 6h, failOnError: false",
        "",
        &[
            "a stuck attempt of `one` is noticed only after 6h (timeout); set heartbeatTimeout, or a shorter timeout",
        ],
    ),
    ("", "run: x, timeout: 6h, heartbeatTimeout: 1m, failOnError: false", "", &[]),
    ("", "run: x, timeout: 5m, failOnError: false", "", &[]),
    (
        "",
        "action: a, heartbeatTimeout: 1h, failOnError: false",
        "",
        &[
            "a stuck attempt of `one` is noticed only after 1h (heartbeatTimeout); set a shorter heartbeatTimeout",
        ],
    ),
    (
        "",
        "action: a, retryStrategy: retry, maxAttempts: -1, backOff: 1m",
        "",
        &[
            "retries of `one` never end (maxAttempts: -1), and the run has no deadline: no policy or handler is ever reached",
        ],
    ),
    ("deadline: 1d", "action: a, retryStrategy: retry, maxAttempts: -1, backOff: 1m", "", &[]),
    (
        "",
        "action: a, retryStrategy: retry, maxAttempts: 8, backOff: 2h, failOnError: false",
        "",
        &["retries of `one` take 14h before a policy or handler is reached"],
    ),
    (
        "",
        "action: a, retryStrategy: hold",
        "",
        &["`one` is held for an operator after an error, and the run has no deadline: it may wait forever"],
    ),
    ("deadline: 1d", "action: a, retryStrategy: hold", "", &[]),
    (
        "",
        "signal: go",
        "",
        &["`one` waits for signal `go` without a timeout, and the run has no deadline: it may wait forever"],
    ),
    ("", "signal: go, timeout: 1d", "", &[]),
    (
        "",
        "action: a",
        "[{name: x, flow: f, action: f.a, maxAttempts: 2, backOff: 1, priority: 1}, {name: y, flow: f, maxAttempts: 9, backOff: 1, priority: 2}]",
        &["policy `x` can never match: `y` matches the same errors first"],
    ),
];

#[test]
fn every_doubt_is_a_sentence() {
    for (of_flow, step, policies, wanted) in CASES {
        let flow = format!("flow: f\n{of_flow}\nsteps: [{{id: one, {step}}}]\n");
        assert_eq!(doubts(&rehearsal(&flow, "{}", policies)), *wanted, "{of_flow} {step} {policies}");
    }
}

#[test]
fn steps_are_told_of_together_and_handlers_do_not_rest() {
    let flows = "
flow: f
steps:
  - {id: a, action: a}
  - {id: b, action: a}
  - {id: c, flow: child}
  - {id: d, action: d, exceptionHandler: alert}
---
flow: child
steps: [{id: x, action: x}]
---
flow: alert
steps: [{id: page, action: page}]
";
    let wanted = [
        "a run can stay in error until an operator resumes it: steps `a` and `b` have no policy and no exceptionHandler",
        "a run can stay in error until an operator resumes it: step `child.x` has no policy and no exceptionHandler",
    ];
    assert_eq!(doubts(&rehearsal(flows, "{}", "")), wanted);
}

#[test]
fn too_few_workers_are_noticed() {
    let flow = "flow: f\nsteps: [{id: one, action: a, failOnError: false}]\n";
    let plan = "{steps: {one: {duration: 30m}}, workers: {count: 1, maxLoad: 1}}";
    let many = unstuck_sim::rehearse::Rehearsal { runs: 3, ..rehearsal(flow, plan, "") };
    let (_, report) = crate::rehearse(&many);
    assert_eq!(
        report.warnings,
        ["an attempt of `one` waited 1h for a worker: 1 workers with maxLoad 1 are too few"]
    );
}
