//! Waiting in virtual time: for a time of day in a zone, for an instant that has passed, and what `now` is.

use unstuck_core::time::Millis;
use unstuck_sim::rehearse::Rehearsal;

use crate::{end, rehearsal, rehearse, told};

/// A Saturday at noon in Berlin; in the night clocks are set forward.
const START: &str = "start: 2026-03-28T11:00:00Z";

#[test]
fn a_time_of_day_in_a_zone_is_waited_for_in_virtual_time() {
    let cases = [
        (r#"{until: "02:00", zone: UTC}"#, "15h", "2026-03-29T02:00:00.000Z"),
        (r#"{until: "12:00", zone: Europe/Berlin}"#, "23h", "2026-03-29T10:00:00.000Z"),
        (r#"{until: "02:30", zone: Europe/Berlin}"#, "14h", "2026-03-29T01:00:00.000Z"),
        (r#"{until: "02:30", zone: Europe/Berlin, days: [mon, tue]}"#, "1d 13h", "2026-03-30T00:30:00.000Z"),
        (r#"{until: "06:00", zone: +05:30, days: saturday}"#, "6d 13h", "2026-04-04T00:30:00.000Z"),
    ];
    for (wait, span, until) in cases {
        let flow = format!("flow: f\nsteps: [{{id: night, wait: {wait}}}, {{id: one, action: a}}]\n");
        let (played, report) = rehearse(&rehearsal(&flow, START, ""));
        let told = told(&played);
        assert_eq!(end(&report).0, "completed", "{wait}: {told:#?}");
        let wanted = format!("0 night: waiting {span}, until {until}");
        assert!(told.contains(&wanted), "{wanted} in {told:#?}");
    }
}

#[test]
fn a_loop_of_nights_and_many_runs_wait_for_the_same_moment() {
    let flow = "flow: f\nsteps:\n  - {id: a, wait: {until: \"02:00\", zone: Europe/Berlin}}\n  - {id: b, wait: {until: \"02:00\", zone: Europe/Berlin}}\n";
    let many = Rehearsal { runs: 3, ..rehearsal(flow, &format!("{{{START}, every: 1h}}"), "") };
    let (_, report) = rehearse(&many);
    // The gap of this night, and 02:00 of the next: the second wait begins at the end of the first, and takes a day.
    let ends: Vec<u64> = report.each.iter().map(|end| end.after_ms.0 / 3_600_000).collect();
    assert_eq!(ends, [14 + 23, 14 + 23 - 1, 14 + 23 - 2]);
    assert_eq!(report.took_ms, Millis::hours(37));
}

#[test]
fn an_instant_that_has_passed_is_no_wait_and_says_so() {
    let flow = "flow: f\nsteps:\n  - {id: past, wait: \"${timestamp(run.createdAt) - duration('1h')}\"}\n  - {id: zero, wait: 0s}\n";
    let (played, report) = rehearse(&rehearsal(flow, START, ""));
    let told = told(&played);
    assert_eq!(end(&report), ("completed", 0), "{told:#?}");
    let wanted = "0 past: no wait: 2026-03-28T10:00:00.000Z has already passed";
    assert!(told.iter().any(|line| line == wanted), "{told:#?}");
    assert!(!told.iter().any(|line| line.contains("zero: no wait")), "{told:#?}");
}

#[test]
fn now_is_the_same_for_one_decision_and_moves_with_virtual_time() {
    let flow = r#"
flow: f
steps:
  - {id: a, set: {first: "${now}", second: "${string(now)}"}}
  - {id: b, set: "${now == timestamp(steps.a.output.first) && string(now) == steps.a.output.second}"}
  - {id: c, wait: "${now + duration('3h')}"}
  - {id: d, set: "${now - timestamp(steps.a.output.first) == duration('3h')}"}
  - {id: e, set: "${now.getHours('Europe/Berlin') == 15}"}
  - {id: f, action: a, if: "steps.b.output && steps.d.output && steps.e.output"}
"#;
    let (played, report) = rehearse(&rehearsal(flow, START, ""));
    assert_eq!((end(&report), report.attempts.total), (("completed", 10_800), 1), "{:#?}", told(&played));
}

#[test]
fn a_retry_keeps_the_now_of_the_first_attempt_and_replay_computes_nothing_again() {
    let flow = r#"
flow: f
steps:
  - {id: a, action: a, with: "${now}", retryStrategy: retry, backOff: 2h}
  - {id: b, action: b, if: "timestamp(steps.a.output) == timestamp('2026-03-28T11:00:00Z')"}
"#;
    // An emulated step puts out its input.
    let (played, report) =
        rehearse(&rehearsal(flow, &format!("{{{START}, steps: {{a: [stall, pass]}}}}"), ""));
    assert_eq!((end(&report), report.attempts.completed), (("completed", 7_200), 2), "{:#?}", told(&played));
}
