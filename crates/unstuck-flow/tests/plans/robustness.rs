//! Whatever a file has in it, loading it gives a plan or problems, and never a panic.

use proptest::prelude::*;
use unstuck_flow::Severity;

use crate::read;

const PLAN: &str = r#"plan: everything
start: 2026-03-02T01:50:00Z
every: 10m
steps:
  fetch: {sequence: [{stall: "connection: refused", after: 5s, times: 3}, pass], duration: [1m, 5m]}
  "encode[3]": {odds: {stall: 1, pass: 9}, cause: 'x'}
  rollout.p*: [{wait: 2026-03-03T00:00:00Z}, {drag: 2h}, choke]
actions: {media/*: {fail: broken, context: |
  several
  lines
  }}
outages:
  - {steps: [fetch], from: 02:00, to: 05:00, does: stick}
workers: {count: 4, deaths: [{at: 2h}, {every: 6h}]}
signals: [{name: approval, after: 1h}]
operator: {after: 2h, choose: retry}
"#;

fn check(text: &str) {
    match read(text) {
        Ok(loaded) => {
            assert!(loaded.warnings.iter().all(|problem| problem.severity == Severity::Warning));
        }
        Err(problems) => {
            assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "{text}");
            // YAML takes a carriage return alone for the end of a line, too.
            let lines = u32::try_from(text.split(['\n', '\r']).count()).unwrap_or(u32::MAX);
            for problem in problems {
                assert!((1..=lines + 1).contains(&problem.line) && problem.column >= 1, "{problem}");
            }
        }
    }
}

#[test]
fn the_beginning_of_a_plan_is_no_trouble() {
    for (end, _) in PLAN.char_indices() {
        check(&PLAN[..end]);
    }
}

proptest! {
    #[test]
    fn anything_can_be_read(text in ".{0,200}") {
        check(&text);
    }

    #[test]
    fn a_plan_with_something_else_in_it_can_be_read(at in 0..PLAN.len(), put in "[ -~\n]{0,8}", without in 0usize..12) {
        let end = (at + without).min(PLAN.len());
        check(&format!("{}{put}{}", &PLAN[..at], &PLAN[end..]));
    }
}
