//! `unstuck doctor`: a healthy installation has no problem, and what is wrong is told with what to type.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Server, Store};

/// What the doctor finds, by the name of the check, and its exit code.
fn examine(store: &Store, arguments: &[&str]) -> (i32, Value) {
    let (code, said) = store.run(&[&["doctor", "-o", "json"], arguments].concat());
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let checks = report["checks"].as_array().expect("it is a list");
    let name = |check: &Value| check["name"].as_str().expect("it is a text").to_owned();
    (code, checks.iter().map(|check| (name(check), check.clone())).collect())
}

#[test]
fn a_healthy_server_and_its_store_have_no_problem() {
    let server = Server::start();
    server.start_run("quick");
    let (code, found) = examine(&server.store, &[]);
    assert_eq!(code, 0, "{found}");
    for name in ["permissions", "owner", "schema", "log", "clock", "runs"] {
        assert_eq!(found[name]["status"], "ok", "{name}: {found}");
    }
    let url = format!("http://{}", server.address);
    let (code, found) = examine(&Store::new(), &["--server", &url]);
    assert_eq!(code, 0, "{found}");
    for name in ["version", "token", "clock"] {
        assert_eq!(found[name]["status"], "ok", "{name}: {found}");
    }
    assert_eq!(found["token"]["detail"], "you are `ada` with the role admin");
}

#[test]
fn what_is_wrong_with_a_store_is_told_with_what_to_type() {
    let (code, found) = examine(&Store::new(), &[]);
    assert_eq!((code, found["store"]["status"].as_str()), (0, Some("warning")), "{found}");
    let server = Server::start();
    server.start_run("held");
    let store = server.stop();
    std::fs::set_permissions(store.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let (code, found) = examine(&store, &[]);
    assert_eq!(code, 0, "warnings alone are no problem: {found}");
    assert_eq!(found["runs"]["command"], "unstuck status");
    let command = found["permissions"]["command"].as_str().expect("it is a text");
    assert!(command.starts_with("chmod -R go-rwx "), "{command}");
}

#[test]
fn what_is_wrong_with_a_server_is_a_problem() {
    let (code, found) = examine(&Store::new(), &["--server", "http://127.0.0.1:1"]);
    assert_eq!((code, found["reachable"]["status"].as_str()), (1, Some("problem")), "{found}");
    let server = Server::start();
    server.post("/v1/tokens", &json!({"name": "boss", "role": "admin"})).with(201);
    let (code, found) = examine(&Store::new(), &["--server", &format!("http://{}", server.address)]);
    assert_eq!((code, found["token"]["status"].as_str()), (1, Some("problem")), "{found}");
    let (code, said) = Store::new().run(&["doctor", "--server", "http://127.0.0.1:1"]);
    assert!(code == 1 && said.ends_with("\n\n1 problem, 0 warnings.\n"), "{said}");
}
