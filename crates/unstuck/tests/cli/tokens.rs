//! Tokens of the API: made, listed, rotated and revoked from the command line; each is shown once.

use serde_json::Value;

use crate::support::{REFUSED, Ran, Store};

fn ok(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

fn json_of(store: &Store, arguments: &[&str]) -> Value {
    let ran = store.unstuck(&[arguments, &["-o", "json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.json()
}

fn token_in(said: &str) -> &str {
    said.lines().map(str::trim).find(|line| line.starts_with("ust_")).expect("it is shown")
}

#[test]
fn a_token_is_shown_once_and_kept_as_a_digest() {
    let store = Store::new();
    let said = ok(store.unstuck(&["token", "create", "ops", "--role", "operator", "--expires-in", "90d"]));
    assert!(said.starts_with("Created token `ops` (operator).\n"), "{said}");
    assert!(said.ends_with("This is shown once. Keep it where only its user reads it.\n"), "{said}");
    let token = token_in(&said).to_owned();
    let secret = token.rsplit('_').next().expect("a secret");
    assert_eq!((token.len(), secret.len()), (82, 64), "{token}");
    for arguments in [&["token", "list"][..], &["token", "list", "--all", "-o", "json"]] {
        let listed = ok(store.unstuck(arguments));
        assert!(listed.contains("ops") && !listed.contains(secret), "{listed}");
    }
    let listed = json_of(&store, &["token", "list"]);
    let view = &listed["tokens"][0];
    let told = ["name", "role", "state"].map(|field| view[field].as_str().unwrap_or_default());
    assert_eq!(told, ["ops", "operator", "active"]);
    assert_eq!((&view["lastUsedAt"], &view["payloads"]), (&Value::Null, &Value::Bool(true)));
    assert!(view["id"].as_str().is_some_and(|id| id.starts_with("tok_") && token.contains(&id[4..])));
    for entry in std::fs::read_dir(store.path()).expect("reads").flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "the secret is in {:?}", entry.path());
    }
}

#[test]
fn a_token_is_rotated_with_an_overlap_and_revoked_for_good() {
    let store = Store::new();
    let made = json_of(&store, &["token", "create", "ci", "--role", "client", "--flow", "nightly"]);
    assert_eq!((&made["what"], &made["flows"][0]), (&"created".into(), &"nightly".into()));
    let rotated = json_of(&store, &["token", "rotate", "ci", "--overlap", "1h"]);
    assert_eq!((&rotated["what"], &rotated["id"]), (&"rotated".into(), &made["id"]));
    assert!(rotated["oldSecretUntil"].is_string() && rotated["token"].is_string());
    assert_ne!(rotated["token"], made["token"]);
    let said = ok(store.unstuck(&["token", "rotate", "ci"]));
    assert!(said.starts_with("Token `ci` has a new secret.\nThe old one is good until "), "{said}");
    let said = ok(store.unstuck(&["token", "revoke", "ci", "--reason", "left the team"]));
    assert_eq!(said, "Revoked token `ci`. It lets nobody in from now on.\n");
    assert_eq!(ok(store.unstuck(&["token", "revoke", "ci"])), "Token `ci` was revoked already.\n");
    assert_eq!(ok(store.unstuck(&["token", "list"])), "No tokens.\n");
    assert_eq!(json_of(&store, &["token", "list", "--all"])["tokens"][0]["state"], "revoked");
    let ran = store.unstuck(&["token", "rotate", "ci"]);
    assert_eq!(ran.code, REFUSED, "{}", ran.stderr);
    assert!(ran.stderr.contains("token `ci` was revoked or has expired. Create a new one"), "{}", ran.stderr);
    json_of(&store, &["token", "create", "ci", "--role", "viewer", "--no-payloads"]);
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let store = Store::new();
    ok(store.unstuck(&["token", "create", "ops", "--role", "admin"]));
    let cases: [(&[&str], i32, &str); 5] = [
        (&["create", "ops", "--role", "admin"], REFUSED, "there is a token `ops` already"),
        (&["create", "o p", "--role", "admin"], REFUSED, "`o p` is no name for a token"),
        (&["create", "p", "--role", "peer"], REFUSED, "a token for a peer needs `origin`"),
        (&["create", "v", "--role", "viewer", "--flow", "f"], REFUSED, "a token for a viewer has no `flows`"),
        (&["revoke", "nobody"], REFUSED, "there is no token `nobody`; `unstuck token list` lists all"),
    ];
    for (arguments, code, said) in cases {
        let ran = store.unstuck(&[&["token"], arguments].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    }
}
