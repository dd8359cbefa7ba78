//! Servers that cannot start say why, and those that can say where they are.

use std::net::TcpListener;

use serde_json::json;

use crate::support::{Server, Store};

#[test]
fn an_address_that_others_can_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, said) = Store::new().run(&["serve", "--listen", address]);
        let wanted = format!(
            "error: {address} is not an address of this machine alone, and without tokens everybody who reaches it could do everything. Make a token first (`unstuck token create NAME --role admin`), or listen on 127.0.0.1 or [::1]\n"
        );
        assert_eq!((code, said.as_str()), (5, wanted.as_str()));
    }
    let (code, said) = Store::new().run(&["serve", "--listen", "here"]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_port_that_is_taken_is_told_with_another_one() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it has an address");
    let (code, said) = Store::new().run(&["serve", "--listen", &address.to_string()]);
    let wanted = format!(
        "error: another process listens on {address}. Stop it, or use another port with --listen 127.0.0.1:{}\n",
        address.port() + 1
    );
    assert_eq!((code, said.as_str()), (5, wanted.as_str()));
}

#[test]
fn a_store_that_is_open_elsewhere_is_not_served() {
    let server = Server::start();
    let (code, said) = server.store.run(&["serve", "--listen", "127.0.0.1:0"]);
    let wanted = format!(
        "error: another process has the store {} open, and only one at a time executes its runs. `unstuck status` says which one; stop it, or use another store\n",
        server.store.path().display()
    );
    assert_eq!((code, said.as_str()), (6, wanted.as_str()));
    // The commands of this machine reach the server through the store.
    server.start_run("held");
    let (code, said) = server.store.run(&["runs", "-o", "json"]);
    assert!(code == 0 && said.contains("\"held\""), "{said}");
    let (code, said) = server.store.run(&["choose", "@latest", "upload", "retry"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(server.get("/v1/runs/@latest?wait=30s").with(200)["state"], "completed");
}

#[test]
fn a_server_is_alive_and_ready() {
    let server = Server::start();
    assert_eq!(server.get("/health/live").with(200)["status"], "ok");
    assert_eq!(server.get("/health/ready").with(200)["status"], "ok");
    let health = server.get("/health").with(200);
    let checks = health["checks"].as_array().expect("it is a list");
    assert!(!checks.is_empty() && checks.iter().all(|check| check["status"] == "ok"), "{health}");
    let about = server.get("/v1/server").with(200);
    assert_eq!((about["api"].as_str(), about["you"]["role"].as_str()), (Some("v1"), Some("admin")));
    assert_eq!((&about["store"], &about["features"]), (&json!("embedded"), &json!([])));
}

#[test]
fn a_server_without_json_says_where_it_is_in_a_sentence() {
    use std::io::{BufRead, BufReader};
    let store = Store::new();
    let mut command = store.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it can be read");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    assert!(line.starts_with("Serving on http://127.0.0.1:"), "{line}");
    assert!(line.ends_with("/docs lists every call). Ctrl-C stops it.\n"), "{line}");
}
