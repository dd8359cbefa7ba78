//! A preview and a backtest say what the policy then really does on the same errors.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::under_way::UnderWay;
use crate::support::{REFUSED, Store};

/// A flow with two steps that stall, for reasons of their own.
fn flow(name: &str, cause: &str) -> String {
    format!(
        "flow: {name}\ndefaults: {{timeout: 1m}}\nsteps:\n\
         \x20 - {{id: fetch, emulate: {{sequence: [stall], cause: {cause}}}}}\n\
         \x20 - {{id: other, needs: [], emulate: {{sequence: [stall], cause: disk is full}}}}\n"
    )
}

/// Runs that rest in error: three of them with what the policy is about.
fn in_error(store: &Store) {
    for (name, cause) in [
        ("nightly", "connection reset by 10.0.0.1"),
        ("nightly", "connection refused"),
        ("hourly", "connection reset by 10.0.0.2"),
        ("nightly", "connection reset by 10.0.0.3"),
    ] {
        assert_eq!(store.run_flow(&flow(name, cause), &[]).code, 1, "{name}");
    }
}

fn json_of(store: &Store, command: &[&str]) -> Value {
    let ran = store.unstuck(&[command, &["-o", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command:?}");
    ran.json()
}

/// The one trial that comes of a command.
fn trial_of(store: &Store, command: &[&str]) -> Value {
    let mut trials = json_of(store, command);
    assert_eq!(trials["trials"].as_array().map(Vec::len), Some(1), "{command:?}: {trials:#}");
    trials["trials"][0].take()
}

/// Which steps a trial takes, and when each would be resumed.
fn taken(trial: &Value) -> BTreeMap<(String, String), String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let runs = trial["runs"].as_array().expect("a list").iter();
    let taken: BTreeMap<_, _> =
        runs.map(|run| ((text(&run["run"]), text(&run["step"])), text(&run["resumeAt"]))).collect();
    assert_eq!(trial["matched"], json!(taken.len()), "{trial:#}");
    taken
}

/// Which steps are scheduled by this policy, and when each is resumed.
fn scheduled(store: &Store, policy: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for run in json_of(store, &["runs"])["runs"].as_array().expect("a list") {
        let run = run["id"].as_str().expect("an id");
        for step in json_of(store, &["show", run])["steps"].as_array().expect("a list") {
            if step["nextAutoResumeReason"] == policy {
                let text = |value: &Value| value.as_str().expect("a text").to_owned();
                found.insert((run.to_owned(), text(&step["id"])), text(&step["nextAutoResume"]));
            }
        }
    }
    found
}

const POLICY: &str = "{name: resets, errorSubstring: connection reset, flow: nightly, maxAttempts: 4, \
                      backOff: {delay: 1h, multiplier: 2}}";

#[test]
fn a_preview_and_a_backtest_agree_with_what_is_then_done() {
    let store = Store::new();
    in_error(&store);
    let file = store.write("resets.yaml", POLICY);
    let before = json_of(&store, &["runs"]);
    let preview = trial_of(&store, &["policy", "preview", &file]);
    let backtest = trial_of(&store, &["policy", "backtest", &file, "--since", "1h"]);
    assert_eq!(preview["policy"], "resets");
    assert_eq!(taken(&preview).len(), 2, "{preview:#}");
    assert_eq!(taken(&backtest), taken(&preview));
    assert_eq!(json_of(&store, &["runs"]), before, "neither changes anything");
    assert_eq!(json_of(&store, &["policy", "list"]), json!({"policies": [], "next": null, "version": 0}));

    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    assert!(scheduled(&store, "resets").is_empty(), "what is in error already stays as it is");
    let mut applied = json_of(&store, &["policy", "apply"]);
    assert!(applied["bulk"].take().is_string(), "a bulk action did it: {applied}");
    assert_eq!(applied, json!({"bulk": null, "moved": 2, "unscheduled": 0, "unchanged": 6}));
    assert_eq!(scheduled(&store, "resets"), taken(&preview), "to the millisecond");
    assert_eq!(json_of(&store, &["policy", "apply"]), json!({"moved": 0, "unscheduled": 0, "unchanged": 8}));

    // What fails from now on is taken as it fails, and a backtest of that tells the same.
    let since = json_of(&store, &["policy", "list"])["policies"][0]["lastHit"]
        .as_str()
        .expect("it has one")
        .to_owned();
    let run = UnderWay::start(&store, &flow("nightly", "connection reset by 10.0.0.4"), &[]);
    run.until("policy `resets` resumes it");
    run.send(Signal::INT);
    run.wait();
    let again = trial_of(&store, &["policy", "backtest", "resets", "--since", &since]);
    let new = taken(&again);
    assert_eq!(new.len(), 1, "{again:#}");
    let all = scheduled(&store, "resets");
    assert_eq!(all.len(), 3);
    for (step, at) in &new {
        assert_eq!(all.get(step), Some(at), "{step:?}");
    }
}

only_on_a_store! {
    "a server executes what is resumed at once";
#[test]
fn a_preview_tells_from_whom_and_who_comes_before_and_who_is_spent() {
    let store = Store::new();
    in_error(&store);
    let first = store.write("first.yaml", "{name: first, flow: hourly, maxAttempts: 4, backOff: 1h}");
    assert_eq!(store.unstuck(&["policy", "load", &first]).code, 0);
    assert_eq!(json_of(&store, &["policy", "apply"])["moved"], 2);
    let cases = [
        (
            "matches first",
            "{name: a, errorSubstring: connection reset, maxAttempts: 2, backOff: 1h}",
            3,
            json!({}),
            0,
            ["first"].as_slice(),
        ),
        (
            "comes after it",
            "{name: a, errorSubstring: connection reset, priority: 1, maxAttempts: 2, backOff: 1h}",
            2,
            json!({"first": 1}),
            0,
            &[],
        ),
        (
            "does not act on",
            "{name: a, errorSubstring: Connection reset, maxAttempts: 2, backOff: 1h}",
            0,
            json!({}),
            0,
            &[],
        ),
        (
            "one step of all",
            "{name: a, action: hourly.other, maxAttempts: 2, backOff: 1h}",
            1,
            json!({}),
            0,
            &["first"],
        ),
        ("in place of it", "{name: first, flow: hourly, maxAttempts: 4, backOff: 2h}", 2, json!({}), 0, &[]),
    ];
    for (what, policy, matched, shadowed_by, exhausted, from) in cases {
        let file = store.write("tried.yaml", policy);
        let trial = trial_of(&store, &["policy", "preview", &file]);
        assert_eq!(trial["matched"], matched, "{what}: {trial:#}");
        assert_eq!((&trial["shadowedBy"], &trial["exhausted"]), (&shadowed_by, &json!(exhausted)), "{what}");
        let runs = trial["runs"].as_array().expect("a list").iter();
        let taken_from: Vec<&str> = runs.filter_map(|run| run["takenFrom"].as_str()).collect();
        assert_eq!(taken_from, from, "{what}");
    }
    // Steps that have had two rounds already.
    let soon = store.write("soon.yaml", "{name: soon, action: nightly.fetch, maxAttempts: 2, backOff: 1ms}");
    assert_eq!(store.unstuck(&["policy", "load", &soon]).code, 0);
    assert_eq!(json_of(&store, &["policy", "apply", "soon"])["moved"], 3);
    assert_eq!(store.unstuck(&["run", "--continue"]).code, 1);
    let trial = trial_of(&store, &["policy", "preview", "soon"]);
    assert_eq!(trial["exhausted"], 1, "of the run that was gone on with: {trial:#}");
}
}

#[test]
fn several_policies_are_tried_as_if_all_of_them_were_loaded() {
    let store = Store::new();
    in_error(&store);
    let file = store.write(
        "all.yaml",
        "- {name: resets, errorSubstring: connection reset, maxAttempts: 3, backOff: {delay: 1h, maxDelay: 2h, random: true}}\n\
         - {name: rest, errorSubstring: connection, maxAttempts: 3, backOff: 1h}\n",
    );
    let trials = json_of(&store, &["policy", "preview", &file]);
    let told: Vec<(&Value, &Value, &Value)> = trials["trials"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|trial| (&trial["policy"], &trial["matched"], &trial["shadowedBy"]))
        .collect();
    assert_eq!(
        told,
        [(&json!("resets"), &json!(3), &json!({})), (&json!("rest"), &json!(1), &json!({"resets": 3})),]
    );
    let drawn = &trials["trials"][0]["runs"][0];
    let time =
        |name: &str| drawn[name].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()).expect("a time");
    assert_eq!(time("resumeBy").as_millisecond() - time("resumeAt").as_millisecond(), 3_600_000, "{drawn}");
    let text = store.unstuck(&["policy", "preview", &file]).stdout;
    assert!(text.starts_with("`resets` would match 3 steps in error now.\nRUN "), "{text}");
    assert!(text.contains("\n3 more that it matches would go to `resets`, which comes first.\n"), "{text}");
}

#[test]
fn what_cannot_be_tried_is_refused_with_a_sentence() {
    let store = Store::new();
    in_error(&store);
    let wrong = store.write("wrong.yaml", "{name: a, maxAttempts: 1, backOff: 1h, flow: f}");
    let cases: [(&[&str], &str); 6] = [
        (&["policy", "preview", "nope"], "there is no policy `nope`; `unstuck policy list` lists them"),
        (&["policy", "preview", "nope.yaml"], "there is no file nope.yaml; check the path"),
        (&["policy", "preview", &wrong], "wrong.yaml is refused: 1 error"),
        (&["policy", "backtest", "nope", "--since", "7d"], "there is no policy `nope`"),
        (&["policy", "backtest", &wrong, "--since", "yesterday"], "--since: `yesterday` is not a duration"),
        (
            &["policy", "backtest", &wrong, "--since", "1d", "--until", "2030-01-01"],
            "--until: `2030-01-01` has no time zone",
        ),
    ];
    for (command, wanted) in cases {
        let ran = store.unstuck(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command:?}");
        assert!(ran.stderr.contains(wanted), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_preview_of_a_disabled_policy_says_so_and_what_it_would_do() {
    let store = Store::new();
    in_error(&store);
    let file = store.write("resets.yaml", POLICY);
    let enabled = trial_of(&store, &["policy", "preview", &file]);
    assert_eq!(enabled.get("disabled"), None);
    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    assert_eq!(store.unstuck(&["policy", "disable", "resets"]).code, 0);
    let off = store.write("off.yaml", POLICY.replace("{name: resets", "{enabled: false, name: resets"));
    let on = store.write("on.yaml", POLICY.replace("{name: resets", "{enabled: true, name: resets"));
    for (tried, wanted) in [("resets", true), (&file, true), (&off, true), (&on, false)] {
        let preview = trial_of(&store, &["policy", "preview", tried]);
        assert_eq!(preview["matched"], 2, "{tried}: {preview:#}");
        assert_eq!(preview["disabled"].as_bool().unwrap_or(false), wanted, "{tried}: {preview:#}");
        let text = store.unstuck(&["policy", "preview", tried]).stdout;
        let begins = "`resets` is disabled. If it were enabled:\n`resets` would match 2 steps";
        assert_eq!(text.starts_with(begins), wanted, "{tried}: {text}");
    }
}

#[test]
fn applying_a_policy_by_name_says_what_keeps_it_from_taking_what_it_is_about() {
    let store = Store::new();
    in_error(&store);
    let file = store.write(
        "three.yaml",
        "- {name: first, errorSubstring: connection reset, flow: nightly, maxAttempts: 4, backOff: 1h}\n\
         - {name: second, errorSubstring: connection reset, priority: 1, maxAttempts: 3, backOff: 1h}\n\
         - {name: off, flow: hourly, enabled: false, maxAttempts: 4, backOff: 1h}\n",
    );
    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    let applied = json_of(&store, &["policy", "apply", "second"]);
    assert_eq!(applied["moved"], 1, "{applied:#}");
    assert_eq!(applied["outranked"], json!([{"policy": "second", "by": "first", "steps": 2}]), "{applied:#}");
    let text = store.unstuck(&["policy", "apply", "second"]).stdout;
    let said = "`second` is outranked on 2 steps: `first` matches first.\n";
    assert!(text.ends_with(said), "{text}");
    let applied = json_of(&store, &["policy", "apply", "off"]);
    assert_eq!(applied["disabled"], json!([{"policy": "off", "steps": 2}]), "{applied:#}");
    let text = store.unstuck(&["policy", "apply", "off"]).stdout;
    assert!(
        text.contains("`off` is disabled, but would match 2 steps. To enable it: unstuck policy enable off"),
        "{text}"
    );
    assert_eq!(json_of(&store, &["policy", "apply"]).get("outranked"), None, "all of them are applied");
}

#[test]
fn applying_a_policy_that_is_used_up_says_so() {
    let store = Store::new();
    let file = store.write("p.yaml", "{name: resets, errorSubstring: reset, maxAttempts: 2, backOff: 50ms}");
    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    let flow = "flow: f\nsteps:\n  - {id: a, timeout: 1m, minimumDelay: 0, \
                emulate: {sequence: [stall], cause: connection reset}}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 1);
    let applied = json_of(&store, &["policy", "apply", "resets"]);
    assert_eq!(applied["exhausted"], json!([{"policy": "resets", "steps": 1}]), "{applied:#}");
    let text = store.unstuck(&["policy", "apply", "resets"]).stdout;
    assert!(text.ends_with("`resets` is used up on 1 step. A manual resume resets its rounds.\n"), "{text}");
    let explained =
        store.unstuck(&["explain", "@latest"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = "Needs an operator: policy `resets` is used up (2 of 2 rounds); no retry, other policy or exception handler \
               applies; a manual resume resets the rounds of the policy";
    assert!(explained.contains(why), "{explained}");
    let decisions = json_of(&store, &["show", "@latest"])["decisions"].to_string();
    assert!(decisions.contains("policy `resets` is used up (2 of 2 rounds)"), "{decisions}");
}

#[test]
fn a_policy_that_is_to_replace_another_and_is_new_is_told_as_such() {
    let store = Store::new();
    let policy = |id: &str, name: &str| {
        format!("{{{id}name: {name}, errorSubstring: {name}, maxAttempts: 2, backOff: 1h}}")
    };
    let with_id = store.write("id.yaml", policy("id: pol_nope, ", "one"));
    let loaded = store.unstuck(&["policy", "load", &with_id, "--replace"]);
    let warning = "Added `one`.\nwarning: no policy has the id pol_nope or the name `one` yet: it was added, and nothing was \
                   replaced\n";
    assert!(loaded.code == 0 && loaded.stdout.starts_with(warning), "{}", loaded.stdout);
    let named = store.write("name.yaml", policy("", "two"));
    let loaded = json_of(&store, &["policy", "load", &named, "--replace"]);
    assert_eq!(loaded["notReplaced"], json!([{"policy": "two", "id": null}]), "{loaded:#}");
    // What is there is replaced without a warning, and what is only added has nothing to replace.
    let changed = store.write("changed.yaml", policy("id: pol_nope, ", "one").replace("1h", "2h"));
    let loaded = json_of(&store, &["policy", "load", &changed, "--replace"]);
    assert_eq!(
        (&loaded["changes"][0]["what"], loaded.get("notReplaced")),
        (&json!("changed"), None),
        "{loaded:#}"
    );
    let added = store.write("added.yaml", policy("id: pol_other, ", "three"));
    assert_eq!(json_of(&store, &["policy", "load", &added]).get("notReplaced"), None);
}
