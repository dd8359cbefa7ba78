//! Times of day, `now` and instants that have passed, with the real clock.

use jiff::{SignedDuration, Timestamp, tz};
use rustix::process::Signal;
use serde_json::json;

use crate::support::Store;
use crate::support::under_way::UnderWay;

#[test]
fn a_run_waits_until_a_time_of_day_in_a_zone_and_a_killed_engine_changes_nothing_about_it() {
    let store = Store::new();
    let now = Timestamp::from_second(Timestamp::now().as_second()).expect("in range");
    let due = now + SignedDuration::from_hours(3);
    let until = due.to_zoned(tz::TimeZone::fixed(tz::offset(5))).strftime("%H:%M:%S").to_string();
    let flow = json!({"flow": "f", "steps": [{"id": "night", "wait": {"until": until, "zone": "+05:00"}}]});
    let run = UnderWay::start(&store, &flow.to_string(), &[]);
    run.until("night: waiting 2h 59m");
    let told = || {
        let history = store.unstuck(&["history", "@latest"]).stdout;
        history.lines().find(|line| line.contains("night: waiting")).expect("it waits").to_owned()
    };
    let before = told();
    assert!(before.contains(&format!("until {due:.3}")), "{due} in {before}");
    run.send(Signal::KILL);
    run.wait();
    // Every state is made again from its history: nothing is computed by the clock of now.
    assert_eq!(store.unstuck(&["store", "check"]).code, 0);
    assert_eq!(told(), before);
    let shown = store.unstuck(&["explain", "@latest"]).stdout;
    assert!(shown.contains("the wait of `night` ends in 2h 59m"), "{shown}");
}

#[test]
fn an_instant_that_has_passed_is_told_by_check_if_it_is_written_and_by_the_history_if_it_is_computed() {
    let store = Store::new();
    let text =
        "flow: f\nsteps:\n  - {id: a, wait: 2020-01-01T00:00:00Z}\n  - {id: b, wait: 2999-01-01T00:00:00Z}\n";
    let file = store.write("old.yaml", text);
    let checked = store.unstuck(&["check", &file]);
    for part in [
        "warning: 2020-01-01T00:00:00.000Z is in the past",
        "old.yaml:3:19",
        "give a time of day",
        "ok (1 flow, 2 steps, 1 warning)",
    ] {
        assert!(checked.stdout.contains(part), "{part} in\n{}", checked.stdout);
    }
    assert_eq!(checked.code, 0);
    assert_eq!(store.unstuck(&["check", "--deny-warnings", &file]).code, 1);
    let flow = "flow: f\nsteps: [{id: past, wait: \"${timestamp(run.createdAt) - duration('1h')}\"}]\n";
    let ran = store.run_flow(flow, &[]);
    let said = "past: no wait: ";
    assert!(
        ran.code == 0 && ran.stdout.contains(said) && ran.stdout.contains(" has already passed"),
        "{}",
        ran.stdout
    );
    assert!(store.unstuck(&["history", "@latest"]).stdout.contains(said));
}
