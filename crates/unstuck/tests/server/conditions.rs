//! Tags: what has not changed is not sent again.

use serde_json::json;

use crate::client::Request;
use crate::support::Server;

#[test]
fn what_is_known_already_is_not_sent_again() {
    let server = Server::start();
    let run = server.start_order("o-1");
    for path in [format!("/v1/runs/{run}"), "/v1/flows/order/keys/o-1".into(), "/v1/flows/order".into()] {
        let first = server.get(&path);
        let etag = first.header("etag").expect("it has a tag").to_owned();
        let ask = |known: &str| server.ask(&Request::new("GET", &path).header("If-None-Match", known));
        for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
            let again = ask(&known);
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{path} {known}");
            assert_eq!(again.header("etag"), Some(etag.as_str()));
        }
        assert_eq!(ask("\"other\"").status, 200, "{path}");
    }
}

#[test]
fn a_change_of_a_run_changes_its_tag() {
    let server = Server::start();
    let run = server.start_order("o-1");
    let path = format!("/v1/runs/{run}");
    let etag = server.get(&path).header("etag").expect("it has a tag").to_owned();
    server.post(&format!("{path}/pause"), &json!({})).with(200);
    let changed = server.ask(&Request::new("GET", &path).header("If-None-Match", &etag));
    assert_eq!((changed.status, &changed.json()["state"]), (200, &json!("paused")));
    assert_ne!(changed.header("etag"), Some(etag.as_str()));
}

#[test]
fn a_head_is_answered_without_a_body() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(&Request::new("HEAD", "/v1/runs").bytes()).expect("it is sent");
    let (status, headers) = connection.read_head().expect("it is answered");
    assert_eq!(status, 200);
    assert!(headers.iter().any(|(name, _)| name == "unstuck-events"));
    // The connection is at the next answer, not in the middle of a body.
    assert_eq!(connection.ask(&Request::new("GET", "/health/live")).expect("it is answered").status, 200);
    connection.send(&Request::new("HEAD", "/v1/events").bytes()).expect("it is sent");
    assert_eq!(connection.read_head().expect("it is answered").0, 200);
}
