//! Times: people read them in their own zone, with its name; programs get them in UTC.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::support::{Ran, Store};

const ERROR: &str =
    "flow: f\nsteps: [{id: a, type: HTTP, emulate: {sequence: [stall], cause: reset}, timeout: 1m}]\n";
const POLICY: &str = "{name: resets, actionType: HTTP, maxAttempts: 3, backOff: 1h}";

/// A zone with half an hour in its offset, and without summer time.
fn in_india(store: &Store, arguments: &[&str]) -> Ran {
    Ran::of(store.command().args(arguments).env("TZ", "Asia/Kolkata").output().expect("the binary starts"))
}

fn india() -> TimeZone {
    TimeZone::fixed(Offset::from_seconds(19_800).expect("an offset"))
}

only_on_a_store! {
    "pages of a server are written in the zone of the server";
#[test]
fn text_has_the_local_zone_and_json_has_utc() {
    let store = Store::new();
    assert_eq!(store.run_flow(ERROR, &[]).code, 1);
    let file = store.write("policy.yaml", POLICY);
    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    let document = in_india(&store, &["show", "@latest", "-o", "json"]).json();
    let created = document["createdAt"].as_str().expect("a time");
    assert!(created.ends_with('Z'), "{created}");
    let created: Timestamp = created.parse().expect("an instant");
    let local = |format: &str| created.to_zoned(india()).strftime(format).to_string();
    let errors = store.unstuck(&["errors", "-o", "json"]).json();
    let group = errors["groups"][0]["group"].as_str().expect("a name");
    for (command, part) in [
        (&["show", "@latest"][..], local("  created    %F %T IST (")),
        (&["show", "@latest"], "\nDECISIONS (IST)\n".to_owned()),
        (&["history", "@latest"], local("%F IST\n    1  %T%.3f  ")),
        (&["explain", "@latest"], local("\nWhat happened (IST)\n  %T  ")),
        (&["errors", "show", group], " IST (".to_owned()),
        (&["errors", "show", group], " SINCE (IST) ".to_owned()),
        (&["policy", "audit"], "WHEN (IST) ".to_owned()),
        (&["policy", "preview", "resets"], " RESUMES (IST) ".to_owned()),
        (&["policy", "backtest", "resets", "--since", "1d"], " IST.\n".to_owned()),
    ] {
        let said = in_india(&store, command);
        assert!(said.stdout.contains(&part), "{part} in {command:?}\n{}{}", said.stdout, said.stderr);
        assert!(!said.stdout.contains("UTC"), "{command:?}\n{}", said.stdout);
    }
    assert!(in_india(&store, &["policy", "audit", "-o", "json"]).stdout.contains("Z\""));
}
}

#[test]
fn a_zone_that_nobody_knows_is_utc() {
    let store = Store::new();
    assert_eq!(store.run_flow(ERROR, &[]).code, 1);
    let mut command = store.command();
    let said = Ran::of(
        command.args(["history", "@latest"]).env("TZ", "Nowhere/At_All").output().expect("it starts"),
    );
    assert!(
        said.code == 0 && said.stdout.lines().next().is_some_and(|line| line.ends_with(" UTC")),
        "{}",
        said.stdout
    );
}

#[test]
fn a_pause_is_said_where_there_is_no_policy_yet() {
    let store = Store::new();
    assert_eq!(store.run_flow(ERROR, &[]).code, 1);
    assert_eq!(
        store.unstuck(&["policy", "list"]).stdout,
        "No policies yet. To load some: unstuck policy load FILE\n"
    );
    assert_eq!(store.unstuck(&["policy", "pause", "--reason", "an outage"]).code, 0);
    let said = in_india(&store, &["policy", "list"]).stdout;
    assert!(
        said.contains("Automatic resumes are paused by ada since ") && said.contains(" IST: an outage.\n"),
        "{said}"
    );
    assert!(said.ends_with("To unpause them: unstuck policy unpause\n"), "{said}");
}
