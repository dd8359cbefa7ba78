//! Lists of runs and errors: what is found, and what is seen of it on terminals of 80 and 40 columns.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::under_way::{UnderWay, wait_until};
use crate::support::{IS_AT, Store};
use crate::terminal::on_terminal;

const CAUSE: &str = "the clearing house at clearing.example:8443 refused the batch with code 4711";

/// One step is held, and one in error: the run is held.
fn both() -> String {
    format!(
        "flow: payout\nlabels: {{team: billing, tier: gold}}\nsteps:\n\
         - {{id: transfer, needs: [], emulate: {{sequence: [stall], cause: the bank is closed}}, retryStrategy: hold}}\n\
         - {{id: statistics, needs: [], emulate: {{sequence: [stall], cause: '{CAUSE}'}}}}\n"
    )
}

const FINE: &str = "flow: fine\nsteps:\n  - {id: one, set: 1}\n";
const FATAL: &str = "flow: fatal\nlabels: {team: billing}\nsteps:\n  - {id: one, emulate: {sequence: [fail], cause: no such file}}\n";

fn ids(store: &Store, arguments: &[&str]) -> Vec<String> {
    let listed = store.unstuck(&[&["runs", "-o", "json"], arguments].concat());
    assert_eq!(listed.code, 0, "{arguments:?}: {}", listed.stderr);
    let runs = listed.json();
    let runs = runs["runs"].as_array().expect("it is a list").iter();
    runs.map(|run| run["id"].as_str().expect("it is a text").to_owned()).collect()
}

#[test]
fn runs_with_an_error_or_a_hold_are_found_whatever_their_state() {
    let store = Store::new();
    store.run_flow(&both(), &[]);
    let id = store.latest();
    let shown = store.unstuck(&["runs", "-o", "json"]).json();
    assert_eq!(
        (&shown["runs"][0]["state"], &shown["runs"][0]["has"]),
        (&json!("held"), &json!(["error", "held"]))
    );
    for state in ["held", "error", "error,held", "completed,error"] {
        assert_eq!(ids(&store, &["--state", state]), [&*id], "{state}");
    }
    assert!(store.unstuck(&["runs"]).stdout.contains("held (error)"), "the list says so too");
    assert_eq!(store.unstuck(&["pause", &id]).code, 0);
    for state in ["paused", "held", "error"] {
        assert_eq!(ids(&store, &["--state", state]), [&*id], "{state}");
    }
    assert_eq!(ids(&store, &["--state", "running,completed"]), [""; 0]);
    store.unstuck(&["cancel", &id]);
    assert_eq!(ids(&store, &["--state", "error,held"]), [""; 0], "a final run needs nobody");
}

#[test]
fn runs_are_filtered_by_key_states_label_time_group_and_cause() {
    let store = Store::new();
    store.run_flow(FINE, &["--key", "k-1"]);
    let fine = store.latest();
    store.run_flow(FATAL, &["--key", "k-2"]);
    let fatal = store.latest();
    let between = store.unstuck(&["show", &fatal, "-o", "json"]).json()["createdAt"].clone();
    let between = between.as_str().expect("it is a text").to_owned();
    store.run_flow(&both(), &[]);
    let open = store.latest();
    let groups = store.unstuck(&["errors", "-o", "json"]).json();
    let groups = groups["groups"].as_array().expect("there are groups").clone();
    let of = |cause: &str| {
        let found =
            groups.iter().find(|group| group["pattern"].as_str().is_some_and(|text| text.contains(cause)));
        found.and_then(|group| group["group"].as_str()).expect("it has a group").to_owned()
    };
    let (group, begins) = (of("no such file"), of("the bank"));
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["--key", "k-1"], vec![&fine]),
        (vec!["--key", "k-9"], vec![]),
        (vec!["--state", "failed", "--state", "completed"], vec![&fatal, &fine]),
        (vec!["--label", "team=billing"], vec![&open, &fatal]),
        (vec!["--label", "team:billing", "--label", "tier=gold"], vec![&open]),
        (vec!["--label", "team=payments"], vec![]),
        (vec!["--since", &between], vec![&open, &fatal]),
        (vec!["--until", &between], vec![&fine]),
        (vec!["--since", "1h", "--state", "failed"], vec![&fatal]),
        (vec!["--group", &group], vec![&fatal]),
        (vec!["--group", &begins[..8]], vec![&open]),
        (vec!["--cause", "no such"], vec![&fatal]),
        (vec!["--cause", "refused the batch"], vec![&open]),
        (vec!["--cause", "refused the batch", "--state", "failed"], vec![]),
    ];
    for (arguments, wanted) in cases {
        assert_eq!(ids(&store, &arguments), wanted, "{arguments:?}");
    }
    let page = store.unstuck(&["runs", "--limit", "1", "--label", "team=billing", "--cause", "e"]);
    assert!(page.stdout.contains("More: unstuck runs --after page.c."), "{}", page.stdout);
    assert!(page.stdout.contains(" --label 'team=billing' --cause e --limit 1"), "{}", page.stdout);
    assert!(page.stdout.contains("team=billing, tier=gold"), "labels are shown: {}", page.stdout);
    let shown = store.unstuck(&["show", &open, "-o", "json"]).json();
    assert_eq!(shown["labels"], json!({"team": "billing", "tier": "gold"}));
    let wrong = store.unstuck(&["runs", "--label", "billing"]);
    assert!(wrong.stderr.contains("write NAME=VALUE, as in team=billing"), "{}", wrong.stderr);
    let wrong = store.unstuck(&["runs", "--until", "soon"]);
    assert!(wrong.stderr.contains("--until: `soon` is not a duration"), "{}", wrong.stderr);
}

#[test]
fn runs_are_found_by_labels_keys_actions_and_marks_of_their_steps() {
    let store = Store::new();
    store.run_flow(FINE, &["--key", "order-1", "--label", "team=media", "--label", "tier=gold"]);
    let fine = store.latest();
    store.run_flow(FATAL, &["--key", "order-2"]);
    let fatal = store.latest();
    store.run_flow(FATAL, &["--label", "team=media"]);
    let own = store.latest();
    store.run_flow(&both(), &["--key", "x"]);
    let open = store.latest();
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["--label", "team=media"], vec![&own, &fine]),
        (vec!["--label", "team=billing"], vec![&open, &fatal]),
        (vec!["--label", "team=media", "--label", "team=billing"], vec![&open, &own, &fatal, &fine]),
        (vec!["--label", "team=media", "--label", "tier=gold"], vec![&fine]),
        (vec!["--key-prefix", "order-"], vec![&fatal, &fine]),
        (vec!["--key-prefix", "x", "--key-prefix", "order-2"], vec![&open, &fatal]),
        (vec!["--has", "error"], vec![&open]),
        (vec!["--has", "held,scheduled"], vec![&open]),
        (vec!["--has", "acknowledged"], vec![]),
        (vec!["--action", "statistics"], vec![&open]),
        (vec!["--action", "payout.statistics", "--state", "held"], vec![&open]),
        (vec!["--action", "payout.transfer"], vec![]),
        (vec!["--action", "nothing"], vec![]),
        (vec!["--worker", "nobody"], vec![]),
        (vec!["--policy", "nothing"], vec![]),
        (vec!["--flow-version", "1", "--flow", "fine"], vec![&fine]),
        (vec!["--flow-version", "2"], vec![]),
        (vec!["--updated-since", "1h"], vec![&open, &own, &fatal, &fine]),
        (vec!["--root", &open], vec![]),
        (vec!["--parent", &open], vec![]),
        (vec!["--sort", "nextAutoResume"], vec![]),
    ];
    for (arguments, wanted) in cases {
        assert_eq!(ids(&store, &arguments), wanted, "{arguments:?}");
    }
    let shown = store.unstuck(&["show", &own, "-o", "json"]).json();
    assert_eq!(shown["labels"], json!({"team": "media"}), "its own value counts");
    assert_eq!(store.unstuck(&["ack", &open, "--reason", "known"]).code, 0);
    assert_eq!(ids(&store, &["--has", "acknowledged"]), [&*open]);
    assert_eq!(ids(&store, &["--sort", "-updated", "--limit", "1"]), [&*open]);
    let refused = store.run_flow(FINE, &["--label", "team= "]);
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    assert!(refused.stderr.contains("the value of a label is blank"), "{}", refused.stderr);
}

#[test]
fn a_list_goes_on_where_its_page_has_ended_and_nowhere_else() {
    let store = Store::new();
    for _ in 0..3 {
        store.run_flow(FINE, &[]);
    }
    for sort in ["-created", "-updated"] {
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut arguments = vec!["runs", "-o", "json", "--limit", "1", "--sort", sort];
            arguments.extend(after.iter().flat_map(|after| ["--after", after]));
            let page = store.unstuck(&arguments).json();
            found.extend(page["runs"].as_array().expect("a list").iter().map(|run| run["id"].clone()));
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
            let next = after.as_deref().unwrap_or_default();
            let other = store.unstuck(&["runs", "--sort", sort, "--flow", "fine", "--after", next]);
            assert_ne!(other.code, 0);
            assert!(other.stderr.contains("is the end of a page of another list"), "{}", other.stderr);
        }
        assert_eq!(found, ids(&store, &[]), "{sort}");
    }
    let newest = ids(&store, &[])[0].clone();
    assert_eq!(ids(&store, &["--after", &newest]).len(), 2, "after a run, as ever");
    let wrong = store.unstuck(&["runs", "--sort", "-updated", "--after", &newest, "-o", "json"]);
    assert!(wrong.stdout.contains("bad-cursor") || wrong.stderr.contains("bad-cursor"), "{}", wrong.stdout);
}

#[test]
fn runs_are_counted_by_state_flow_group_and_action() {
    let store = Store::new();
    for _ in 0..2 {
        store.run_flow(FINE, &["--label", "team=media"]);
    }
    store.run_flow(FATAL, &[]);
    store.run_flow(&both(), &[]);
    let counts = |arguments: &[&str]| {
        let counted = store.unstuck(&[&["runs", "-o", "json", "--count-by"], arguments].concat()).json();
        assert_eq!(counted["complete"], json!(true), "{counted}");
        counted["counts"].clone()
    };
    let by_state = json!([
        {"state": "completed", "count": 2}, {"state": "failed", "count": 1}, {"state": "held", "count": 1}
    ]);
    assert_eq!(counts(&["state"]), by_state);
    assert_eq!(counts(&["state", "--all"]), by_state, "one by one");
    assert_eq!(counts(&["state", "--label", "team=media"]), json!([{"state": "completed", "count": 2}]));
    assert_eq!(counts(&["flow", "--state", "failed,completed"])[0], json!({"flow": "fine", "count": 2}));
    assert_eq!(counts(&["state", "--state", "error"]), json!([{"state": "held", "count": 1}]));
    assert_eq!(counts(&["action"]), json!([{"action": "payout.statistics", "count": 1}]));
    let groups = counts(&["group"]);
    assert!(groups[0]["group"].as_str().is_some_and(|group| group.starts_with("err_")), "{groups}");
    let text = store.unstuck(&["runs", "--count-by", "state"]).stdout;
    assert!(text.starts_with("STATE      RUNS\ncompleted  2\n"), "{text}");
}

/// What a screen says, without where its lines end.
fn words(screen: &str) -> String {
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_cause_is_never_what_is_cut() {
    let store = Store::new();
    store.run_flow(&both(), &[]);
    let groups = store.unstuck(&["errors", "-o", "json"]).json().to_string();
    let pattern = "the clearing house at clearing.example:<n> refused the batch with code <n>";
    let pattern = if groups.contains(pattern) { pattern } else { "the clearing house at" };
    let group: Value = serde_json::from_str(&groups).expect("it is JSON");
    let group = group["groups"].as_array().expect("groups");
    let clearing =
        group.iter().find(|group| group["pattern"].as_str().is_some_and(|text| text.contains("clearing")));
    let name = clearing.and_then(|group| group["group"].as_str()).expect("it is there").to_owned();
    for width in [100, 80, 40] {
        let errors = on_terminal(&store, &["errors"], width);
        assert!(words(&errors).contains(pattern), "at {width}:\n{errors}");
        for arguments in [vec!["errors", "show", &name], vec!["show", "@latest"], vec!["explain", "@latest"]]
        {
            let shown = on_terminal(&store, &arguments, width);
            assert!(words(&shown).contains(CAUSE), "{arguments:?} at {width}:\n{shown}");
        }
        let runs = on_terminal(&store, &["runs"], width);
        assert!(words(&runs).contains("the bank is closed"), "at {width}:\n{runs}");
    }
}

#[test]
fn explain_offers_one_command_for_many_items_and_shows_their_errors() {
    let store = Store::new();
    let numbers: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let flow = format!(
        "flow: many\nsteps:\n\
         - {{id: each, forEach: [{}], emulate: {{sequence: [stall], cause: no route to host}}}}\n\
         - {{id: fine, needs: [], forEach: [{}], wait: 300ms}}\n",
        numbers.join(", "),
        numbers.join(", ")
    );
    store.run_flow(&flow, &[]);
    let id = store.latest();
    let explained = store.unstuck(&["explain", &id, "-o", "json"]).json();
    let commands: Vec<&str> = explained["can"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|can| can["command"].as_str())
        .collect();
    let resumes: Vec<&&str> =
        commands.iter().filter(|command| command.starts_with("unstuck resume")).collect();
    assert_eq!(resumes, [&&*format!("unstuck resume {id}")], "{commands:?}");
    assert_eq!(commands[0], format!("unstuck resume {id}"));
    let page = store.unstuck(&["explain", &id]).stdout;
    let (happened, _) = page.split_once("Where its steps are").expect("there are steps");
    assert!(happened.contains("stalled: no route to host"), "{page}");
    let (_, left_out) = happened.split_once("... ").expect("something is left out");
    assert!(left_out.split_whitespace().next().is_some_and(|n| n.parse::<u32>().is_ok()), "{page}");
}

#[test]
fn explain_offers_a_signal_that_does_not_fail_the_run() {
    let store = Store::new();
    let flow = "flow: asks\nsteps:\n\
        - {id: ask, signal: approve}\n\
        - {id: pay, if: '${steps.ask.output.approved}', set: '${steps.ask.output.amount}'}\n";
    let under_way = UnderWay::start(&store, flow, &[]);
    under_way.until(IS_AT);
    wait_until(|| ids(&store, &["--state", "waiting"]).len() == 1);
    let explained = store.unstuck(&["explain", "@latest", "-o", "json"]).json();
    let commands: Vec<&str> = explained["can"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|can| can["command"].as_str())
        .collect();
    let id = explained["run"].as_str().expect("it is a text");
    let wanted = format!("unstuck signal {id} approve '{{\"amount\": false, \"approved\": false}}'");
    assert!(commands.contains(&&*wanted), "{commands:?}");
    // As printed, it does what it says.
    let payload = "{\"amount\": false, \"approved\": false}";
    assert_eq!(store.unstuck(&["signal", id, "approve", payload]).code, 0);
    assert_eq!(under_way.wait().code, 0);
}

only_on_a_store! {
    "the status says that a server executes";
#[test]
fn status_says_what_needs_a_person_who_executes_what_comes_next_and_how_many_there_are() {
    let store = Store::new();
    store.run_flow(FINE, &[]);
    let calm = store.unstuck(&["status"]);
    let wanted = "Nothing needs a person.\n\nNo process is executing runs of this store.\n\n  open      none\n  last 24h  1 completed\n";
    assert_eq!((calm.code, calm.stdout.as_str()), (0, wanted), "{}", calm.stderr);

    store.run_flow(FATAL, &[]);
    store.run_flow(&both(), &[]);
    let id = store.latest();
    let waits = "flow: waits\nsteps:\n  - {id: nap, wait: 1h}\n";
    let under_way = UnderWay::start(&store, waits, &[]);
    under_way.until(IS_AT);
    wait_until(|| ids(&store, &["--state", "waiting"]).len() == 1);
    let status = store.unstuck(&["status", "-o", "json"]).json();
    assert_eq!(status["needsPersonCount"], 1);
    assert_eq!(
        (&status["needsPerson"][0]["run"], &status["needsPerson"][0]["state"]),
        (&json!(id), &json!("held"))
    );
    assert_eq!(status["executes"]["process"], under_way.id());
    assert!(
        status["next"][0]["what"].as_str().is_some_and(|what| what.contains("the wait of `nap` ends")),
        "{status}"
    );
    assert_eq!(status["open"], json!({"held": 1, "waiting": 1}));
    assert_eq!(status["ended"], json!({"completed": 1, "failed": 1}));
    for width in [80, 40] {
        let shown = on_terminal(&store, &["status"], width);
        let said = words(&shown);
        for part in ["1 run needs a person", "the bank is closed", "What comes next", "1 held, 1 waiting"] {
            assert!(said.contains(part), "{part} at {width}:\n{shown}");
        }
        assert!(said.contains(&format!("What you can do: unstuck explain {id}")), "at {width}:\n{shown}");
    }
}
}

only_on_a_store! {
    "no run is idle on a server";
#[test]
fn status_counts_a_run_that_nobody_executes_as_idle_and_never_as_running() {
    let store = Store::new();
    let flow = "flow: stops\nsteps:\n  - {id: work, run: 'echo begun; sleep 1000', timeout: 1h}\n";
    let under_way = UnderWay::start(&store, flow, &[]);
    under_way.until("attempt 1 started");
    assert!(words(&store.unstuck(&["status"]).stdout).contains("open 1 running"));
    under_way.send(Signal::INT);
    under_way.wait();
    let shown = store.unstuck(&["status"]).stdout;
    assert!(
        words(&shown).contains("1 run is idle") && words(&shown).contains("open 1 idle last 24h"),
        "{shown}"
    );
    let status = store.unstuck(&["status", "-o", "json"]).json();
    assert_eq!((&status["open"], &status["idleStates"]), (&json!({"running": 1}), &json!({"running": 1})));
}
}

#[test]
fn lists_and_histories_are_broken_between_words_and_keep_the_whole_cause_on_any_terminal() {
    let store = Store::new();
    let cause =
        "the archive refused the transfer because its quota for recordings of this semester is exhausted";
    let flow = format!(
        "flow: archive\nsteps:\n  - {{id: upload, type: HTTP, emulate: {{sequence: [stall], cause: {cause}}}, timeout: 1m}}\n"
    );
    store.run_flow(&flow, &[]);
    let policy = format!("{{name: wait, errorSubstring: {cause}, maxAttempts: 3, backOff: 1h}}");
    let file = store.write("policy.yaml", policy);
    assert_eq!(store.unstuck(&["policy", "load", &file]).code, 0);
    let lists: [&[&str]; 6] = [
        &["runs"],
        &["errors"],
        &["policy", "list"],
        &["history", "@latest"],
        &["explain", "@latest"],
        &["policy", "preview", "wait"],
    ];
    for columns in [80, 40] {
        for list in lists {
            let shown = on_terminal(&store, list, columns);
            assert!(words(&shown).contains(cause), "{list:?} at {columns}:\n{shown}");
            // What is to be typed is one line, however long.
            let typed = |line: &str| line.trim_start().starts_with("unstuck ");
            let broken =
                shown.lines().find(|line| line.chars().count() > usize::from(columns) && !typed(line));
            assert!(broken.is_none() || list[0] == "explain", "{list:?} at {columns}: {broken:?}\n{shown}");
        }
    }
    let history = on_terminal(&store, &["history", "@latest"], 40);
    assert!(
        history.contains("\n       upload: attempt 1 stalled: the"),
        "it stands in below when and who:\n{history}"
    );
}
