//! Every fault at every step: the planted weak points are found, and a flow without any has none.

use unstuck_flow::plan::SignalPlan;
use unstuck_sim::rehearse::Rehearsal;
use unstuck_sim::rehearse::auto::{Demand, FaultKind, Findings, StepLocation, find_weak_points};

use crate::rehearsal;

fn find(flows: &str, policies: &str, demands: &[Demand], max_pairs: usize) -> Findings {
    let mut asked = rehearsal(flows, "{}", policies);
    asked.plan.signals = SignalPlan::AsAwaited;
    find_weak_points(&asked, demands, max_pairs).expect("it can be rehearsed")
}

/// The faults of a step that are not survived once, or in pairs.
fn not_survived(found: &Findings, step: &str) -> Vec<String> {
    let point = found.weak_points.iter().find(|point| point.step == step);
    let faults = point.map_or(&[][..], |point| &point.faults);
    faults
        .iter()
        .filter(|bad| !bad.is_always)
        .map(|bad| format!("{}: {}", bad.fault, bad.end.word()))
        .collect()
}

const ROBUST: &str = "retryStrategy: retry, maxAttempts: 4, backOff: 1m";
/// Fatal errors of the steps around the weak one are taken care of.
const FOR_THE_OTHERS: &str = "[{name: before, action: f.b, includeFatal: true, maxAttempts: 5, backOff: 1m}, {name: after, action: f.c, includeFatal: true, maxAttempts: 5, backOff: 1m}]";

#[test]
fn a_planted_weak_point_is_found() {
    let cases: [(&str, &[&str]); 6] = [
        ("action: a", &["stall once: in error"]),
        ("action: a, maxStuck: 1", &["stall once: in error"]),
        ("action: a, retryStrategy: hold", &["stall once: held"]),
        ("action: a, retryStrategy: retry, maxAttempts: 2", &["stall, then stall: in error"]),
        (
            "action: a, timeout: 30m, maxStuck: 1, retryStrategy: retry, maxAttempts: 9",
            &["fail once: failed", "crash once: failed", "stick once: failed", "drag once: failed"],
        ),
        ("action: a, failOnError: false", &[]),
    ];
    for (weak, wanted) in cases {
        let flow = format!(
            "flow: f\nsteps:\n  - {{id: before, action: b, {ROBUST}}}\n  - {{id: weak, {weak}}}\n  - {{id: after, action: c, {ROBUST}}}\n"
        );
        let found = find(&flow, FOR_THE_OTHERS, &[], 500);
        let seen = not_survived(&found, "weak");
        for one in wanted {
            assert!(seen.iter().any(|seen| seen == one), "{weak}: {one} in {seen:#?}");
        }
        if wanted.is_empty() {
            assert!(seen.is_empty(), "{weak}: {seen:#?}");
        }
    }
}

#[test]
fn a_robust_flow_has_no_weak_point_but_what_lasts() {
    let flow = format!(
        "flow: f\nsteps:\n  - {{id: one, action: a, {ROBUST}}}\n  - {{id: two, action: b, {ROBUST}}}\n"
    );
    let found = find(&flow, FATAL_FOR_ALL, &every(false), 1_000);
    assert_eq!((found.once.tried, found.once.survived), (12, 12), "{found:#?}");
    assert_eq!((found.pairs.tried, found.pairs.survived, found.pairs.left_out), (72 + 36, 72 + 36, 0));
    assert!(found.not_survived.is_empty());
    let bounded = find(&flow, FATAL_FOR_ALL, &[], 10);
    assert_eq!((bounded.pairs.tried, bounded.pairs.left_out), (10, 98));
}

const FATAL_FOR_ALL: &str = "{name: all, flow: f, includeFatal: true, maxAttempts: 5, backOff: 1m}";

fn every(always: bool) -> Vec<Demand> {
    FaultKind::ALL.into_iter().map(|kind| Demand::Single { kind, always, location: None }).collect()
}

#[test]
fn what_must_be_survived_and_is_not_is_told() {
    let flow = "flow: f\nsteps:\n  - {id: one, action: a, retryStrategy: retry}\n  - {id: two, action: b}\n";
    let at = |kind, step: &str| Demand::Single {
        kind,
        always: false,
        location: Some(StepLocation { flow: None, step: step.into() }),
    };
    let anywhere = |kind| Demand::Single { kind, always: false, location: None };
    let lost = "`two` does not survive stall once: the run is in error (`two` is in error: emulated stall)";
    let cases: [(Demand, &[&str]); 4] = [
        (anywhere(FaultKind::Stall), &[lost]),
        (at(FaultKind::Stall, "one"), &[]),
        (at(FaultKind::Stall, "two"), &[lost]),
        (anywhere(FaultKind::Crash), &[]),
    ];
    for (demand, wanted) in cases {
        let found = find(flow, "", std::slice::from_ref(&demand), 0);
        let told: Vec<&str> = found.not_survived.iter().map(|lost| lost.what.as_str()).collect();
        assert_eq!(told, wanted, "{demand:?}");
    }
}

#[test]
fn every_plan_that_is_given_brings_the_same_about() {
    let flows = "
flow: f
steps:
  - {id: ok, signal: approval}
  - {id: one, action: a}
  - {id: sub, flow: child}
---
flow: child
steps: [{id: inner, run: x, timeout: 10m}]
";
    let found = find(flows, "", &[], 100);
    assert_eq!(found.steps, 2);
    let mut count = 0;
    for bad in found.weak_points.iter().flat_map(|point| &point.faults) {
        let again = Rehearsal { max_events: 20_000, ..rehearsal(flows, &bad.plan, "") };
        let (_, report) = crate::rehearse(&again);
        assert_eq!((report.each[0].end, report.each[0].after_ms), (bad.end, bad.after_ms), "{}", bad.plan);
        count += 1;
    }
    assert!(count > 10, "{found:#?}");
}

#[test]
fn a_flow_that_ends_badly_by_itself_is_told_and_nothing_is_tried() {
    let flow = "flow: f\nsteps: [{id: one, emulate: fail, timeout: 1m}]\n";
    let found = find(flow, "", &every(false), 100);
    assert_eq!(found.once.tried, 0);
    assert_eq!(found.not_survived[0].what, "without any fault the run is failed (`one`: emulated failure)");
}
