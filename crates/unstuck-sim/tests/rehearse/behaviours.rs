//! What each behaviour comes to, by the step's own rules and by policies.

use crate::{end, rehearsal, rehearse, told};

/// What the step says, the plan of it, how the run ends and after how many seconds.
type Case = (&'static str, &'static str, &'static str, u64);

const ON_A_WORKER: &[Case] = &[
    ("", "pass", "completed", 0),
    ("", "{duration: 2h}", "completed", 7_200),
    ("", "stall", "in error", 0),
    ("", "fail", "failed", 0),
    ("", "[{stall: x, after: 5s}, pass]", "in error", 5),
    ("retryStrategy: retry, maxAttempts: 3, backOff: 1m", "[stall, stall, pass]", "completed", 120),
    ("retryStrategy: retry, maxAttempts: 3, backOff: 1m", "stall", "in error", 120),
    ("retryStrategy: hold", "stall", "held", 0),
    ("failOnError: false", "fail", "completed", 0),
    // A worker that died is back after five seconds, and tells what was lost.
    ("", "[crash, pass]", "completed", 6),
    ("", "crash", "failed", 17),
    ("", "[stick, pass]", "completed", 31),
    ("heartbeatTimeout: 5m", "[stick, pass]", "completed", 301),
    ("", "stick", "failed", 92),
    // Slow is not stuck, until the timeout says so.
    ("", "drag", "completed", 45),
    ("timeout: 10m", "[{drag: 2h}, pass]", "completed", 601),
    ("", "[choke, choke, pass]", "completed", 90),
    ("defer: {limit: 1m}", "choke", "in error", 60),
    ("", "[{wait: 3h}]", "completed", 10_800),
    ("", "[{wait: 2026-01-01T01:00:00Z}]", "completed", 3_600),
];

const BESIDE_THE_ENGINE: &[Case] = &[
    ("", "{duration: 2h}", "completed", 7_200),
    // A process that a signal ends is stalled, which its own rules decide about; a silent one is found by its limits.
    ("", "[crash, pass]", "in error", 0),
    ("retryStrategy: retry, backOff: 1m", "[crash, pass]", "completed", 60),
    ("retryStrategy: retry, backOff: 1m", "crash", "in error", 60),
    ("failOnError: false", "crash", "completed", 0),
    ("retryStrategy: hold", "{duration: 5m, sequence: [crash]}", "held", 300),
    ("timeout: 6h", "[stick, pass]", "completed", 21_601),
    ("heartbeatTimeout: 1m", "[stick, pass]", "completed", 61),
    ("heartbeatTimeout: 1m", "{duration: 2h}", "completed", 7_200),
];

#[test]
fn every_behaviour_comes_to_what_the_step_says() {
    for (kind, cases) in [("action: a", ON_A_WORKER), ("run: 'true'", BESIDE_THE_ENGINE)] {
        for (says, plan, wanted, after) in cases {
            let flow = format!("flow: f\nsteps: [{{id: one, {kind}, {says}}}]\n");
            let (played, report) = rehearse(&rehearsal(&flow, &format!("steps: {{one: {plan}}}"), ""));
            assert_eq!(end(&report), (*wanted, *after), "{kind}, {says}: {plan}\n{:#?}", told(&played));
        }
    }
}

#[test]
fn a_flow_with_emulated_steps_plays_them_and_a_plan_overrules_them() {
    let flow = "flow: f\nsteps: [{id: one, emulate: {sequence: [stall, pass], cause: x}, retryStrategy: retry, timeout: 1m}]\n";
    let cases =
        [("{}", "completed", 2), ("steps: {one: pass}", "completed", 1), ("steps: {one: fail}", "failed", 1)];
    for (plan, wanted, attempts) in cases {
        let (_, report) = rehearse(&rehearsal(flow, plan, ""));
        assert_eq!((end(&report).0, report.attempts.total), (wanted, attempts), "{plan}");
    }
}

#[test]
fn a_policy_brings_a_step_through_on_the_third_try() {
    let flow = "flow: f\nsteps: [{id: one, action: a}]\n";
    let policy = "{name: again, errorSubstring: refused, maxAttempts: 5, backOff: 10m}";
    let plan = "steps: {one: [{stall: connection refused, times: 2}, pass]}";
    let (played, report) = rehearse(&rehearsal(flow, plan, policy));
    assert_eq!(end(&report), ("completed", 1_200));
    let used = &report.policies[0];
    assert_eq!((used.used, used.spent, used.runs, used.completed), (2, 0, 1, 1));
    assert_eq!(report.recovery.map(|spread| spread.max_ms.0), Some(1_200_000));
    let told = told(&played).join("\n");
    assert!(told.contains("policy `again` resumes it in 10m (round 1 of 5)"), "{told}");
    let spent = rehearse(&rehearsal(flow, "steps: {one: {stall: connection refused}}", policy)).1;
    assert_eq!((end(&spent).0, spent.policies[0].used, spent.policies[0].spent), ("in error", 4, 1));
    let other = rehearse(&rehearsal(flow, "steps: {one: {stall: disk full}}", policy)).1;
    assert_eq!(other.policies[0].used, 0);
    assert!(other.never_reached.contains(&"policy `again`".to_owned()), "{:?}", other.never_reached);
}

#[test]
fn children_and_handlers_are_rehearsed_too() {
    let flows = "
flow: outer
steps:
  - {id: first, flow: inner, exceptionHandler: alert}
---
flow: inner
steps: [{id: one, action: a}]
---
flow: alert
steps: [{id: page, action: page}]
";
    let (played, report) = rehearse(&rehearsal(flows, "steps: {inner.one: {fail: broken}}", ""));
    assert_eq!(end(&report).0, "failed");
    let told = told(&played);
    for part in ["first > one: attempt 1 failed: broken", "exceptionHandler > page: attempt 1 completed"] {
        assert!(told.iter().any(|line| line.contains(part)), "{part} in {told:#?}");
    }
    assert!(report.each[0].is_handled && report.never_reached.is_empty(), "{report:#?}");
}

#[test]
fn a_child_that_goes_on_in_its_next_generation_goes_on_in_its_sequence() {
    let flows = "
flow: outer
steps: [{id: first, flow: inner, retryStrategy: retry, maxAttempts: 3}]
---
flow: inner
steps: [{id: one, action: a}]
";
    let (played, report) = rehearse(&rehearsal(flows, "steps: {inner.one: [fail, pass]}", ""));
    // A child that failed makes its step *failed*, which is not retried; one that rests in error waits.
    assert_eq!(end(&report).0, "failed", "{:#?}", told(&played));
    let operator = "{steps: {inner.one: [stall, stall, pass]}, operator: {after: 1h, resume: true}}";
    assert_eq!(end(&rehearse(&rehearsal(flows, operator, "")).1), ("completed", 7_200));
}

#[test]
fn items_have_their_own_attempts() {
    let flow =
        "flow: f\nsteps: [{id: one, action: a, forEach: '${input.n}', retryStrategy: retry, backOff: 1m}]\n";
    let plan = "{input: {n: [1, 2, 3]}, steps: {'one[1]': [stall, pass]}}";
    let (played, report) = rehearse(&rehearsal(flow, plan, ""));
    assert_eq!((end(&report), report.attempts.total), (("completed", 60), 4), "{:#?}", told(&played));
}
