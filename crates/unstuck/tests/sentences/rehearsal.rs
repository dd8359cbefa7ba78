//! What a rehearsal says: how runs end, what decided, what is doubtful, where the weak points are, what helps.

use unstuck_core::json::Json;
use unstuck_core::policy::Policy;
use unstuck_core::time::Millis;
use unstuck_flow::plan;
use unstuck_sim::rehearse::auto::{Demand, FaultKind, find_weak_points};
use unstuck_sim::rehearse::{EndKind, Keep, Rehearsal, execute_plan, report, timeline};

/// Where a sentence comes from, and the sentence.
type Line = (String, String);

pub(crate) fn lines() -> Vec<Line> {
    let mut lines: Vec<Line> = ENDS.iter().map(|end| line("end of a run", end.word())).collect();
    for (label, flows, policies) in FLOWS {
        let rehearsal = rehearsal(flows, "{}", policies);
        let played = execute_plan(&rehearsal).expect("it can be carried out");
        let warnings = report(&rehearsal, &played).warnings;
        lines.extend(warnings.iter().map(|said| line(&format!("warning: {label}"), said)));
        let every = FaultKind::ALL.map(|kind| Demand::Single { kind, always: false, location: None });
        let found = find_weak_points(&rehearsal, &every, 0).expect("faults can be tried");
        for point in &found.weak_points {
            lines.extend(point.faults.iter().filter_map(|bad| Some(line(&bad.fault, bad.why.as_ref()?))));
            lines.extend(point.helps.iter().map(|said| line(&format!("fix: {label}"), said)));
        }
        lines.extend(found.not_survived.iter().map(|lost| line("not survived", &lost.what)));
    }
    lines.extend(of_a_plan());
    once(lines)
}

/// What is said of a plan that is played: notes of the timeline, decisions, and what was never reached.
fn of_a_plan() -> Vec<Line> {
    let rehearsal = rehearsal(PLAYED, PLAN, "{name: later, action: f.down, maxAttempts: 2, backOff: 1m}");
    let played = execute_plan(&rehearsal).expect("it can be carried out");
    let report = report(&rehearsal, &played);
    let told = timeline(&played, 1).expect("its history was kept");
    let notes = told.lines.iter().filter(|line| line.what.starts_with("worker-"));
    let mut lines: Vec<Line> = notes.map(|note| line("timeline", &note.what)).collect();
    lines.extend(report.rungs.iter().map(|rung| line("decision", &format!("{} ({})", rung.what, rung.rung))));
    lines.extend(report.never_reached.iter().map(|said| line("never reached", said)));
    lines.extend(report.warnings.iter().map(|said| line("warning", said)));
    lines.extend(report.each.iter().filter_map(|end| Some(line(end.end.word(), end.why.as_ref()?))));
    lines
}

fn line(label: &str, said: &str) -> Line {
    (label.to_owned(), said.to_owned())
}

/// Each line once.
fn once(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        if !kept.contains(&line) {
            kept.push(line);
        }
    }
    kept
}

fn rehearsal(flows: &str, plan: &str, policies: &str) -> Rehearsal {
    let flows = unstuck_flow::load(flows, "flows", ".", &|_| false).expect("the flows are right").flows;
    let plan = plan::load(plan, "plan", &flows).expect("the plan is right").plan;
    Rehearsal {
        flow: flows[0].name.clone(),
        policies: policies_of(policies),
        input: Json::parse("{}").expect("it is JSON"),
        workers: plan.workers.count.unwrap_or(4),
        until: Millis::hours(24),
        flows,
        plan,
        runs: 1,
        seed: 0,
        max_events: 5_000,
        keep: Keep::All,
    }
}

fn policies_of(text: &str) -> Vec<Policy> {
    if text.is_empty() {
        return Vec::new();
    }
    let loaded = unstuck_flow::policies::load(text, "policies").expect("the policies are right").policies;
    let check = |(age, policy): (u64, &unstuck_flow::policies::LoadedPolicy)| {
        policy.draft.check(&format!("policy-{age}").into(), age).expect("it is right by itself")
    };
    (0..).zip(&loaded).map(check).collect()
}

const ENDS: [EndKind; 8] = [
    EndKind::Completed,
    EndKind::Failed,
    EndKind::Cancelled,
    EndKind::Error,
    EndKind::Held,
    EndKind::Waiting,
    EndKind::Queued,
    EndKind::GoingOn,
];

/// What a flow is an example of, the flow, and policies.
const FLOWS: &[(&str, &str, &str)] = &[
    ("nothing set up", "flow: f\nsteps: [{id: one, action: a}, {id: two, action: b}]\n", ""),
    ("with a deadline", "flow: f\ndeadline: 1h\nsteps: [{id: one, action: a}]\n", ""),
    ("retries", "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: 2}]\n", ""),
    (
        "long retries",
        "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: 50, backOff: 1h}]\n",
        "",
    ),
    (
        "endless retries",
        "flow: f\nsteps: [{id: one, action: a, retryStrategy: retry, maxAttempts: -1, backOff: 1h}]\n",
        "",
    ),
    ("hold", "flow: f\nsteps: [{id: one, action: a, retryStrategy: hold}]\n", ""),
    ("process", "flow: f\nsteps: [{id: one, run: x, timeout: 2h, maxStuck: 1}]\n", ""),
    ("silent worker", "flow: f\nsteps: [{id: one, action: a, heartbeatTimeout: 3h, maxStuck: 1}]\n", ""),
    ("slow", "flow: f\nsteps: [{id: one, action: a, timeout: 10m, maxStuck: 1}]\n", ""),
    ("signal", "flow: f\nsteps: [{id: ok, signal: approval}]\n", ""),
    (
        "handler",
        "flow: f\nsteps: [{id: one, action: a, exceptionHandler: h}]\n---\nflow: h\nsteps: [{id: page, action: b}]\n",
        "",
    ),
    (
        "policy that never matches",
        "flow: f\nsteps: [{id: one, action: a}]\n",
        "- {name: all, flow: f, maxAttempts: 5, priority: 200, backOff: 1m}\n- {name: none, flow: f, errorSubstring: x, maxAttempts: 3, backOff: 1m}\n",
    ),
];

const PLAYED: &str = "
flow: f
steps:
  - {id: again, action: a, retryStrategy: retry}
  - {id: dies, action: b}
  - {id: optional, action: c, failOnError: false}
  - {id: busy, action: d}
  - {id: unused, action: e, retryStrategy: retry}
  - {id: down, action: g, exceptionHandler: h}
---
flow: h
steps: [{id: page, action: p}]
";

const PLAN: &str = "
workers: {count: 1, deaths: [{at: 1s}]}
steps:
  again: {sequence: [stall, pass], duration: 1m}
  dies: [crash, pass]
  optional: fail
  busy: [choke, pass]
  down: stall
";
