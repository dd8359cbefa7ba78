//! Every command that asks for what cannot be done, and the sentence for it.

use serde_json::{Value, json};

use crate::support::{REFUSED, Store};

const RESTS: &str = "flow: rests
steps:
  - {id: hold, emulate: stall, retryStrategy: hold, timeout: 5s}
  - {id: rest, needs: [], emulate: stall, timeout: 5s}
  - {id: each, needs: [], forEach: [a, b], emulate: stall, retryStrategy: hold, timeout: 5s}
  - {id: none, needs: [], forEach: [], set: 1}
  - {id: done, needs: [], set: 1}
";

#[test]
fn commands_that_do_not_fit_are_refused_with_a_sentence() {
    let store = Store::new();
    assert_eq!(store.run_flow(RESTS, &[]).code, 3);
    let id = store.latest();
    let names = "`hold`, `rest`, `each`, `none`, `done`";
    let cases: [(&[&str], String); 14] = [
        (&["choose", &id, "nope", "retry"], format!("flow `rests` has no step `nope`; it has {names}")),
        (
            &["choose", &id, "rest", "retry"],
            format!("{id}: step `rest` is in error, not held; only a held step has a choice ..."),
        ),
        (
            &["choose", &id, "hold[0]", "retry"],
            "step `hold` has no items; name it without the brackets".to_owned(),
        ),
        (
            &["choose", &id, "each", "retry"],
            "step `each` has 2 items; name one: each[0] (held), each[1] (held)".to_owned(),
        ),
        (
            &["choose", &id, "each[2]", "retry"],
            "step `each` has 2 items, the last of which is `each[1]`".to_owned(),
        ),
        (
            &["choose", &id, "each[x]", "retry"],
            "`each[x]` is not an item: the number in brackets starts at 0".to_owned(),
        ),
        (&["choose", &id, "none[0]", "retry"], "step `none` has no items".to_owned()),
        (
            &["resume", &id, "hold"],
            format!("{id}: step `hold` is held, not in error; only a step in error ..."),
        ),
        (
            &["resume", &id, "done"],
            format!("{id}: step `done` is completed, not in error; only a step in error ..."),
        ),
        (&["rerun", &id], format!("{id}: the run is held, so it cannot be rerun; cancel it first")),
        (&["rerun", &id, "--steps", "hold,nope"], format!("flow `rests` has no step `nope`; it has {names}")),
        (
            &["signal", &id, "go", "{"],
            "the payload of the signal is not JSON: line 1, column 1: EOF while parsing an object".to_owned(),
        ),
        (&["signal", &id, "go", "@nowhere.json"], "there is no file nowhere.json; check the path".to_owned()),
        (
            &["forget", &id],
            format!("{id} of flow `rests` would be deleted, with its history and key. Confirm with --yes"),
        ),
    ];
    check(&store, &cases);
    let forget = store.unstuck(&["forget", &id, "--yes"]);
    assert!(forget.code == REFUSED && forget.stderr.contains("held"), "{}", forget.stderr);

    store.unstuck(&["cancel", &id]);
    let is_final = format!("{id}: the run is cancelled and final; a rerun starts its next generation");
    let cases: [(&[&str], String); 5] = [
        (&["choose", &id, "hold", "retry"], is_final.clone()),
        (&["resume", &id], is_final.clone()),
        (&["pause", &id], is_final.clone()),
        (&["unpause", &id], is_final.clone()),
        (&["signal", &id, "go"], is_final),
    ];
    check(&store, &cases);
}

/// What ends with ` ...` is only the beginning of the sentence.
fn check(store: &Store, cases: &[(&[&str], String)]) {
    let before = store.unstuck(&["history", "@latest", "-o", "json"]).json();
    for (command, wanted) in cases {
        let ran = store.unstuck(command);
        assert_eq!((ran.code, ran.stdout.as_str()), (REFUSED, ""), "{command:?}");
        let sentence = ran.stderr.trim_end().strip_prefix("error: ").expect("it is an error");
        match wanted.strip_suffix(" ...") {
            Some(start) => assert!(sentence.starts_with(start), "{command:?}: {sentence}"),
            None => assert_eq!(sentence, wanted, "{command:?}"),
        }
        let ran = store.unstuck(&[command, &["-o", "json"][..]].concat());
        let error: Value = serde_json::from_str(&ran.stderr).expect("it is JSON");
        assert_eq!((ran.code, &error["detail"]), (REFUSED, &json!(sentence)), "{command:?}");
        let kind = error["type"].as_str().expect("it is a text");
        let of_the_command = [
            "bad-request",
            "not-found",
            "final",
            "wrong-state",
            "belongs-to-run",
            "key-taken",
            "ambiguous",
            "invalid",
            "too-large",
            "too-many-signals",
        ];
        assert!(of_the_command.contains(&kind.trim_start_matches("/problems/")), "{command:?}: {error}");
        assert!(
            error["title"].is_string() && error["status"].as_u64().is_some_and(|status| status < 500),
            "{error}"
        );
    }
    assert_eq!(store.unstuck(&["history", "@latest", "-o", "json"]).json(), before, "nothing was changed");
}

#[test]
fn a_part_of_a_run_is_not_rerun() {
    let store = Store::new();
    let flow = "flow: a\nsteps:\n  - {id: ask, flow: b}\n---\nflow: b\nsteps:\n  - {id: one, emulate: fail, timeout: 5s}\n";
    assert_eq!(store.run_flow(flow, &[]).code, 1);
    let runs = store.unstuck(&["runs", "--all", "-o", "json"]).json();
    let (child, parent) = (&runs["runs"][0]["id"], &runs["runs"][1]["id"]);
    let ran = store.unstuck(&["rerun", child.as_str().expect("a text")]);
    let (child, parent) = (text(child), text(parent));
    let wanted = format!(
        "error: {child} is a child of {parent}, which decides when it runs again; rerun {parent} instead\n"
    );
    assert_eq!((ran.code, ran.stderr), (REFUSED, wanted));
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is a text")
}

only_on_a_store! {
    "a server has made its store";
#[test]
fn every_command_without_a_store_says_so_and_makes_none() {
    let store = Store::new();
    let wanted = format!(
        "error: there is no store at {}. `unstuck run FILE` creates it; --store PATH or UNSTUCK_STORE names another\n",
        store.path()
    );
    let commands: [&[&str]; 14] = [
        &["runs"],
        &["show", "@latest"],
        &["explain", "@latest"],
        &["history", "@latest"],
        &["choose", "@latest", "a", "retry"],
        &["resume", "@latest"],
        &["pause", "@latest"],
        &["unpause", "@latest"],
        &["cancel", "@latest"],
        &["signal", "@latest", "go"],
        &["rerun", "@latest"],
        &["forget", "@latest", "--yes"],
        &["store", "info"],
        &["store", "check"],
    ];
    for command in commands {
        let ran = store.unstuck(command);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (REFUSED, "", wanted.as_str()),
            "{command:?}"
        );
        assert!(!std::fs::exists(store.path()).expect("it can be looked for"), "{command:?}");
    }
}
}

only_on_a_store! {
    "the store is in a folder that cannot be used";
#[test]
fn a_store_that_cannot_be_used_is_refused() {
    let store = Store::new();
    let file = store.write("file", "");
    let flow = store.write("flow.yaml", "flow: a\nsteps:\n  - {id: one, set: 1}\n");
    let ran = store.unstuck(&["run", &flow, "--store", &file]);
    let wanted = format!("error: {file} is not a folder; move it away, or give another store\n");
    assert_eq!((ran.code, ran.stderr), (REFUSED, wanted));
    let ran = store
        .command()
        .args(["runs"])
        .env_remove("UNSTUCK_STORE")
        .env_remove("HOME")
        .env_remove("XDG_DATA_HOME")
        .output();
    let stderr = String::from_utf8(ran.expect("it ends").stderr).expect("in UTF-8");
    let wanted =
        "error: no folder for the store: HOME is not set. Name one with --store PATH or UNSTUCK_STORE\n";
    assert_eq!(stderr, wanted);
}
}

only_on_a_store! {
    "the files of a store that nobody has open are damaged";
#[test]
fn a_damaged_store_is_found_out() {
    let store = Store::new();
    assert_eq!(store.run_flow(RESTS, &[]).code, 3);
    let clean = store.unstuck(&["store", "check"]);
    assert!(clean.code == 0 && clean.stdout.starts_with("No problems found. (1 run, "), "{}", clean.stdout);
    let database = format!("{}/unstuck.db", store.path());
    let mut bytes = std::fs::read(&database).expect("it is there");
    let place =
        bytes.windows(9).position(|window| window == b"\"Started\"").expect("the first event is there");
    bytes[place + 1] = b'X';
    std::fs::write(&database, bytes).expect("it can be written");
    let found = store.unstuck(&["store", "check"]);
    assert_eq!(found.code, 1, "{}", found.stdout);
    assert!(found.stdout.contains(" found. (") && !found.stdout.contains("No problems"), "{}", found.stdout);
    let found = store.unstuck(&["store", "check", "-o", "json"]);
    assert!(found.code == 1 && found.json()["findings"][0]["hint"].is_string(), "{}", found.stdout);
}
}
