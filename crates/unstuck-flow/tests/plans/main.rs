//! Plan files: what they become, and what is refused with which sentence.

mod loading;
mod page;
mod refused;
mod robustness;

use unstuck_core::model::flow::Flow;
use unstuck_flow::Problem;
use unstuck_flow::plan::{LoadedPlan, load};

/// A flow with a step of every kind, and its child.
const FLOWS: &str = "
flow: publish
steps:
  - {id: fetch, action: fetch, type: INGRESS}
  - {id: encode, action: media/encode, type: TRANSFORM, forEach: '${input.files}'}
  - {id: notify, run: 'true', timeout: 1m}
  - {id: pause, wait: 1h}
  - {id: approved, signal: approval}
  - {id: title, set: '${input.title}'}
  - {id: deploy, flow: rollout}
  - {id: played, emulate: pass, timeout: 1m}
---
flow: rollout
steps:
  - {id: push, action: push}
  - {id: fetch, action: fetch}
";

fn flows() -> Vec<Flow> {
    unstuck_flow::load(FLOWS, "flows", ".", &|_| false).expect("the flows are right").flows
}

fn read(text: &str) -> Result<LoadedPlan, Vec<Problem>> {
    load(text, "f", &flows())
}

/// Problems as `line:column: field: message (hint)`.
fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.to_string().trim_start_matches("f:").to_owned()).collect()
}
