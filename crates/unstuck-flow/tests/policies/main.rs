//! Policy files: what they become, what is refused with which sentence, and that what is written is read again.

mod export;
mod loading;
mod page;
mod refused;
mod robustness;

use unstuck_flow::Problem;
use unstuck_flow::policies::{LoadedPolicies, load};

/// The two examples that resume policies come from, as they are.
const PASSTHROUGH: &str = r#"{
  "id": "88bc7429-7adf-4bb1-b23f-3922993e0a1a",
  "name": "auto-resume-passthrough",
  "flow": "passthrough",
  "maxAttempts": 10,
  "priority": 50,
  "backOff": {
    "delay": 60,
    "maxDelay": 300,
    "multiplier": 1
  }
}"#;
const JSON_ERRORS: &str = r#"{
  "id": "a2b08968-866a-4080-bc28-1d7e7c81ada8",
  "name": "resume-json-errors",
  "errorSubstring": "JsonException",
  "actionType": "TRANSFORM",
  "maxAttempts": 4,
  "priority": 150,
  "backOff": {
    "delay": 60,
    "maxDelay": 120,
    "random": true
  }
}"#;

fn read(text: &str) -> Result<LoadedPolicies, Vec<Problem>> {
    load(text, "f")
}

/// Problems as `line:column: field: message (hint)`.
fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.to_string().trim_start_matches("f:").to_owned()).collect()
}
