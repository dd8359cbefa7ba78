//! Errors as things of their own: groups of the same trouble, and a policy for one of them.

use serde_json::{Value, json};

use crate::support::{REFUSED, Ran, Store};

fn flow(name: &str, step: &str) -> String {
    format!("flow: {name}\ndefaults: {{timeout: 1m}}\nsteps:\n  - {{id: fetch, {step}}}\n")
}

fn stall(name: &str, cause: &str) -> String {
    flow(name, &format!("emulate: {{sequence: [stall], cause: \"{cause}\"}}"))
}

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

/// Three of one kind, in two flows that share a child; one of another, that is fatal.
fn troubled() -> Store {
    let store = Store::new();
    for cause in ["connection reset by 10.0.0.1:443", "connection reset by 10.0.0.2:443"] {
        assert_eq!(store.run_flow(&stall("nightly", cause), &[]).code, 1);
    }
    let parent = format!(
        "flow: monthly\nsteps: [{{id: part, flow: nightly}}]\n---\n{}",
        stall("nightly", "connection reset by 10.0.0.3:443")
    );
    assert_eq!(store.run_flow(&parent, &[]).code, 1);
    assert_eq!(
        store
            .run_flow(&flow("hourly", "emulate: {sequence: [fail], cause: the file 'a b' is broken}"), &[])
            .code,
        1
    );
    store
}

fn groups(store: &Store, options: &[&str]) -> Vec<Value> {
    let ran = store.unstuck(&[&["errors", "-o", "json"], options].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()["groups"].as_array().expect("a list").clone()
}

#[test]
fn errors_are_listed_by_trouble_and_chosen_by_flow_action_and_time() {
    let store = troubled();
    let all = groups(&store, &[]);
    let told: Vec<(&Value, &Value, &Value, &Value)> = all
        .iter()
        .map(|group| (&group["action"], &group["pattern"], &group["count"], &group["open"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("hourly.fetch"), &json!("the file '…' is broken"), &json!(1), &json!(0)),
            (&json!("nightly.fetch"), &json!("connection reset by <address>"), &json!(3), &json!(3)),
        ]
    );
    assert_eq!(all[1]["flows"], json!([{"flow": "nightly", "count": 2}, {"flow": "monthly", "count": 1}]));
    let cases: [(&[&str], usize); 7] = [
        (&["--flow", "monthly"], 1),
        (&["--flow", "nope"], 0),
        (&["--action", "hourly.fetch"], 1),
        (&["--since", "1h"], 2),
        (&["--since", "2100-01-01T00:00:00Z"], 0),
        (&["--limit", "1"], 1),
        (&["--flow", "nightly", "--action", "hourly.fetch"], 0),
    ];
    for (options, count) in cases {
        assert_eq!(groups(&store, options).len(), count, "{options:?}");
    }
    let text = ok(store.unstuck(&["errors"]));
    assert!(text.starts_with("GROUP             ERRORS  OPEN  SCHEDULED  LAST"), "{text}");
    assert_eq!(ok(store.unstuck(&["errors", "--flow", "nope"])), "No errors match.\n");
}

#[test]
fn a_group_is_shown_with_what_is_in_error_and_what_becomes_of_it() {
    let store = troubled();
    let group =
        groups(&store, &["--action", "nightly.fetch"])[0]["group"].as_str().expect("a name").to_owned();
    let file = store.write("p.yaml", "{name: monthly only, flow: monthly, maxAttempts: 3, backOff: 1h}");
    ok(store.unstuck(&["policy", "load", &file]));
    ok(store.unstuck(&["policy", "apply"]));
    let of_first = store.unstuck(&["errors", "show", &group, "-o", "json"]).json();
    let first = of_first["now"][0]["run"].as_str().expect("a run").to_owned();
    ok(store.unstuck(&["ack", &first, "--reason", "known"]));
    for name in [&*group, &group[..9], group.trim_start_matches("err_")] {
        let page = store.unstuck(&["errors", "show", name, "-o", "json"]).json();
        assert_eq!((&page["open"], &page["acknowledged"]), (&json!(2), &json!(1)), "{page:#}");
        assert_eq!(page["scheduled"], json!([{"policy": "monthly only", "count": 1}]));
        let now = page["now"].as_array().expect("a list");
        assert_eq!(
            (now.len(), &now[0]["acknowledged"], &now[2]["nextAutoResumeReason"]),
            (3, &json!(true), &json!("monthly only"))
        );
        assert_eq!(page["examples"].as_array().map(Vec::len), Some(3));
    }
    let text = ok(store.unstuck(&["errors", "show", &group]));
    for line in [
        &format!("{group} of action `nightly.fetch`\n"),
        "  cause   connection reset by <address>\n",
        "  errors  3 (2 in nightly, 1 in monthly)\n",
        "  now     2 steps in error, of 2 runs; 1 scheduled by policy `monthly only`; 1 acknowledged\n",
        &format!("\nTo write a policy for it: unstuck policy suggest {group}\n"),
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    for (name, wanted) in [("nope", "there is no group of errors `nope`"), ("", "there is no ")] {
        let ran = store.unstuck(&["errors", "show", name]);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{name}");
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
    }
}

#[test]
fn a_policy_is_suggested_that_takes_the_group_and_loads_as_it_is() {
    let store = troubled();
    let all = groups(&store, &[]);
    let name = |place: usize| all[place]["group"].as_str().expect("a name").to_owned();
    let suggested = store.unstuck(&["policy", "suggest", &name(1)]);
    assert_eq!(suggested.code, 0, "{}", suggested.stderr);
    assert!(
        suggested.stdout.starts_with(&format!("# {}: connection reset by <address>\n# 3 errors", name(1))),
        "{}",
        suggested.stdout
    );
    assert!(
        suggested.stdout.ends_with(
            "name: resume-connection-reset-by\nerrorSubstring: connection reset by\naction: nightly.fetch\nmaxAttempts: 5\n\
             backOff: {delay: 1m, maxDelay: 10m, multiplier: 2}\n"
        ),
        "{}",
        suggested.stdout
    );
    assert!(
        suggested.stderr.starts_with("`resume-connection-reset-by` would match 3 steps in error now.\n"),
        "{}",
        suggested.stderr
    );
    ok(store.unstuck_reading(&["policy", "load", "-"], &suggested.stdout));
    assert_eq!(store.unstuck(&["policy", "apply", "-o", "json"]).json()["moved"], 3);
    // A second one has a name of its own; it would match the same, which is refused.
    let again = store.unstuck(&["policy", "suggest", &name(1)]);
    assert_eq!(again.code, REFUSED, "{}", again.stdout);
    assert!(
        again.stderr.contains("it matches the same errors as policy `resume-connection-reset-by`"),
        "{}",
        again.stderr
    );
}

#[test]
fn status_and_exit_codes_make_groups_of_their_own() {
    let store = Store::new();
    for cause in [
        "HTTP 401 from 10.0.0.1",
        "HTTP 404 from 10.0.0.2",
        "HTTP 503 from 10.0.0.3",
        "HTTP 503 from 10.0.0.4",
    ] {
        assert_eq!(store.run_flow(&stall("call", cause), &[]).code, 1);
    }
    for code in [3, 4] {
        assert_eq!(store.run_flow(&flow("work", &format!("run: exit {code}")), &[]).code, 1);
    }
    let groups = groups(&store, &[]);
    let mut patterns: Vec<(&str, u64)> = groups
        .iter()
        .map(|group| (group["pattern"].as_str().expect("a text"), group["count"].as_u64().expect("a number")))
        .collect();
    patterns.sort_unstable();
    let wanted = [
        ("HTTP 401 from <address>", 1),
        ("HTTP 404 from <address>", 1),
        ("HTTP 503 from <address>", 2),
        ("exit status 3", 1),
        ("exit status 4", 1),
    ];
    assert_eq!(patterns, wanted);
}

#[test]
fn no_policy_is_suggested_where_retrying_cannot_help_and_it_says_why() {
    let cases = [
        ("emulate: {sequence: [fail], cause: no such bucket}", "the worker reports these errors as fatal"),
        (
            "emulate: {sequence: [stall], cause: 'TypeError: x is not a function'}",
            "`TypeError` is a bug in the program",
        ),
        ("run: exit 65", "the input is wrong"),
    ];
    for (step, wanted) in cases {
        let store = Store::new();
        assert_eq!(store.run_flow(&flow("a", step), &[]).code, 1, "{step}");
        let group = groups(&store, &[])[0]["group"].as_str().expect("a name").to_owned();
        let refused = store.unstuck(&["policy", "suggest", &group]);
        assert_eq!((refused.code, refused.stdout.as_str()), (REFUSED, ""), "{step}");
        let start = format!("error: no policy would help with {group}: {wanted}");
        assert!(refused.stderr.starts_with(&start), "{}", refused.stderr);
        let shown = ok(store.unstuck(&["errors", "show", &group]));
        assert!(shown.contains(&format!("No policy would help: {wanted}")), "{shown}");
    }
}
