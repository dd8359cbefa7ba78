//! Rehearsals: what a plan brings about, what is told of it, and the weak points that are found.

mod auto;
mod behaviours;
mod doubts;
mod waits;
mod world;

use unstuck_core::json::Json;
use unstuck_core::policy::Policy;
use unstuck_core::time::Millis;
use unstuck_flow::plan;
use unstuck_sim::rehearse::{ExecutedPlan, Keep, Rehearsal, Report, execute_plan, report, timeline};

/// A rehearsal of the first flow of a file, by a plan, with policies.
fn rehearsal(flows: &str, plan: &str, policies: &str) -> Rehearsal {
    let flows = unstuck_flow::load(flows, "flows", ".", &|_| false).expect("the flows are right").flows;
    let plan =
        plan::load(plan, "plan", &flows).unwrap_or_else(|problems| panic!("{plan}: {problems:#?}")).plan;
    Rehearsal {
        flow: flows[0].name.clone(),
        policies: policies_of(policies),
        input: plan.input.clone().unwrap_or_else(|| Json::parse("{}").expect("it is JSON")),
        workers: plan.workers.count.unwrap_or(4),
        until: plan.until.unwrap_or(Millis::hours(30 * 24)),
        flows,
        plan,
        runs: 1,
        seed: 0,
        max_events: 100_000,
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

fn rehearse(rehearsal: &Rehearsal) -> (ExecutedPlan, Report) {
    let played = execute_plan(rehearsal).expect("it can be carried out");
    let report = report(rehearsal, &played);
    (played, report)
}

/// The timeline of the first run, a line each: seconds since the start, and what happened.
fn told(played: &ExecutedPlan) -> Vec<String> {
    let timeline = timeline(played, 1).expect("its history was kept");
    let line = |line: &unstuck_sim::rehearse::TimelineLine| {
        let path = if line.path.is_empty() { String::new() } else { format!("{} > ", line.path) };
        format!("{} {path}{}", line.after_ms.0 / 1_000, line.what)
    };
    timeline.lines.iter().map(line).collect()
}

/// How the first run ended, and after how many seconds.
fn end(report: &Report) -> (&'static str, u64) {
    let end = &report.each[0];
    (end.end.word(), end.after_ms.0 / 1_000)
}
