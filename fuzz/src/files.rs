//! Flow files, policy files and plan files.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use unstuck_core::model::flow::{Flow, Kind, WaitFor};
use unstuck_core::policy::Policy;
use unstuck_core::random::Random;
use unstuck_core::time::{Millis, Time};
use unstuck_flow::plan::{self, Plan};
use unstuck_flow::policies::{self, document, export_json, export_yaml};
use unstuck_flow::{Problem, Severity, check_input, load};

/// A flow file.
pub(crate) fn flow(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    match load(text, "file", "/flows", &|_| false) {
        Ok(loaded) => {
            assert!(!loaded.flows.is_empty(), "a file without a flow is refused");
            places(text, &loaded.warnings_at(Time(i64::MAX)), Severity::Warning);
            let waits =
                loaded.flows.iter().flat_map(|flow| &flow.steps).filter_map(|step| match &step.kind {
                    Kind::Wait(WaitFor::Next(next)) => Some(next),
                    _ => None,
                });
            for next in waits {
                for after in [0, 1_774_746_000_000, 4_102_444_800_000].map(Time) {
                    let at = next.next(after).expect("the calendar goes on");
                    assert!(
                        at > after && at.since(after) <= Millis::hours(9 * 24),
                        "{next} after {after} is {at}"
                    );
                }
            }
            for flow in &loaded.flows {
                for input in [Value::Null, json!({"a": [1, "x", null], "b": {"c": -0.5}})] {
                    let problems = check_input(flow, &input).err().unwrap_or_default();
                    assert!(
                        problems.len() <= 20 && problems.iter().all(|problems| !problems.is_empty()),
                        "{problems:?}"
                    );
                }
                let again = load(&flow.source, "source", "/flows", &|_| true);
                let again = again.unwrap_or_else(|problems| panic!("{}: {problems:#?}", flow.source));
                assert_eq!(again.flows[0].source, flow.source, "what is kept is the same flow");
                assert_eq!(again.flows[0].version, flow.version, "and the same version");
            }
        }
        Err(problems) => places(text, &problems, Severity::Error),
    }
}

/// A policy file.
pub(crate) fn policies(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let loaded = match policies::load(text, "file") {
        Ok(loaded) => loaded,
        Err(problems) => return places(text, &problems, Severity::Error),
    };
    assert!(!loaded.policies.is_empty(), "a file without a policy is refused");
    places(text, &loaded.warnings, Severity::Warning);
    let fresh: Arc<str> = Arc::from("fresh");
    let check = |policy: &policies::LoadedPolicy| {
        policy.draft.check(&fresh, 0).expect("a policy that loads is right by itself")
    };
    let checked: Vec<Policy> = loaded.policies.iter().map(check).collect();
    // One at a time: those without an id would all be given the same.
    for policy in &checked {
        let written = [document(policy)];
        for exported in [export_yaml(&written), export_json(&written)] {
            let again = policies::load(&exported, "exported")
                .unwrap_or_else(|problems| panic!("{exported}\n{problems:#?}"));
            assert_eq!(check(&again.policies[0]), *policy, "{exported}");
        }
    }
}

/// The plan of a rehearsal.
pub(crate) fn plan(bytes: &[u8]) {
    static FLOWS: OnceLock<Vec<Flow>> = OnceLock::new();
    let flows =
        FLOWS.get_or_init(|| load(PLANNED, "planned", "/flows", &|_| false).expect("it is right").flows);
    let text = &*String::from_utf8_lossy(bytes);
    match plan::load(text, "file", flows) {
        Ok(loaded) => {
            places(text, &loaded.warnings, Severity::Warning);
            for flow in flows {
                follow(&loaded.plan, flow);
            }
        }
        Err(problems) => places(text, &problems, Severity::Error),
    }
}

/// What plans are for here.
const PLANNED: &str = "
flow: import
steps:
  - {id: fetch, action: get, type: HTTP}
  - {id: each, forEach: '${input.list}', run: [encode]}
  - {id: ask, signal: go}
  - {id: store, emulate: {odds: {stall: 1, pass: 9}}}
  - {id: tell, flow: other}
---
flow: other
steps: [{id: fetch, action: get}, {id: nap, wait: 5s}]
";

/// A plan can be asked about every step at any time, and says the same for the same seed.
fn follow(plan: &Plan, flow: &Flow) {
    let later = [0, 1, 86_400_000, 3_650 * 86_400_000].map(|ms| plan.start + Millis(ms));
    for (step, item) in flow.steps.iter().zip([None, Some(0), None, Some(u32::MAX), None]) {
        if let Some(rule) = plan.rule(&flow.name, step, item) {
            for attempt in [1, 2, 3, u32::MAX] {
                let turn = rule.to_attempt(attempt, &mut Random::new(7));
                assert_eq!(
                    rule.to_attempt(attempt, &mut Random::new(7)),
                    turn,
                    "the same seed, the same turn"
                );
            }
        }
        if let Some(example) = plan.example(&flow.name, step, item) {
            assert!(example.target.includes_unit(&flow.name, step, item), "{example:?} is of another step");
        }
        for outage in plan.outages.iter().filter(|outage| outage.strikes(&flow.name, step, item)) {
            outage.to_attempt(&mut Random::new(7));
            for at in later {
                if let Some(window) = outage.window(plan.start, at) {
                    assert!(window.from <= window.to && window.to >= at, "{window:?} at {at:?}");
                }
            }
        }
    }
}

/// Every problem has a place in the text and says something; one at least is as bad as this.
fn places(text: &str, problems: &[Problem], worst: Severity) {
    assert!(worst == Severity::Warning || problems.iter().any(|problem| problem.severity == worst));
    // YAML's lines end with any of these.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let lengths: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
    for problem in problems {
        let length = (problem.line as usize).checked_sub(1).and_then(|line| lengths.get(line).copied());
        let length =
            length.unwrap_or_else(|| panic!("line {} of {}: {problem}", problem.line, lengths.len()));
        assert!((1..=length + 1).contains(&(problem.column as usize)), "column of {length}: {problem}");
        assert!(problem.severity >= worst, "{problem}");
        assert!(!problem.message.is_empty() && !problem.message.contains("gave up"), "{problem}");
    }
}
