//! Who may do what: tokens and roles, every route with every role and with none, as the server itself describes them.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::support::{FLOWS, Server, Store};

/// Each role, and the roles whose calls it may make.
const ROLES: [(&str, &[&str]); 6] = [
    ("viewer", &["viewer"]),
    ("client", &["client"]),
    ("worker", &["worker"]),
    ("operator", &["viewer", "client", "operator"]),
    ("admin", &["viewer", "client", "worker", "operator", "admin", "peer"]),
    ("peer", &["peer"]),
];

/// Makes a token on the machine of the store.
fn create_token(server: &Server, name: &str, options: &[&str]) -> String {
    let arguments = [&["token", "create", name, "-o", "json"], options].concat();
    let (code, said) = server.store.run(&arguments);
    assert_eq!(code, 0, "{said}");
    let made: Value = serde_json::from_str(&said).expect("it is JSON");
    made["token"].as_str().expect("it is a text").to_owned()
}

fn role_token(server: &Server, role: &str) -> String {
    let origin: &[&str] = if role == "peer" { &["--origin", "media"] } else { &[] };
    create_token(server, role, &[&["--role", role], origin].concat())
}

fn with_token(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

fn get_as(server: &Server, token: &str, path: &str) -> Answer {
    server.ask(&with_token(Request::new("GET", path), token))
}

fn post_as(server: &Server, token: &str, path: &str, body: &Value) -> Answer {
    server.ask(&with_token(Request::new("POST", path).json(body), token))
}

/// A path of the description with something in place of its parts. The stream of events is asked for a cursor that is none, so
/// that it answers and ends.
fn fill_path(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part }).collect();
    let path = parts.join("/");
    if path == "/v1/events" { format!("{path}?after=x") } else { path }
}

#[test]
fn every_route_lets_in_whom_it_says_and_nobody_else() {
    let server = Server::start();
    let api = server.get("/openapi.json").with(200);
    let tokens: Vec<(&str, &[&str], String)> =
        ROLES.iter().map(|(role, may)| (*role, *may, role_token(&server, role))).collect();
    let mut walked = 0;
    for (path, operations) in api["paths"].as_object().expect("there are paths") {
        for (method, operation) in operations.as_object().expect("there are operations") {
            let request = Request::new(&method.to_uppercase(), &fill_path(path));
            let what = format!("{method} {path}");
            let Some(needed) = operation["security"][0]["token"].as_array() else {
                assert_ne!(server.ask(&request).status, 401, "{what} is for everybody");
                continue;
            };
            assert_eq!(server.ask(&request).status, 401, "{what} without a token");
            let unknown = with_token(request.clone(), &tokens[0].2.replace("ust_", "ust_z"));
            assert_eq!(server.ask(&unknown).status, 401, "{what} with an unknown token");
            for (role, may, token) in &tokens {
                let is_allowed = needed.iter().any(|role| may.iter().any(|may| role == may));
                let answer = server.ask(&with_token(request.clone(), token));
                assert_eq!(!matches!(answer.status, 401 | 403), is_allowed, "{what} as {role}: {answer:?}");
                if !is_allowed {
                    assert_eq!(answer.json()["needs"], json!(needed), "{what} as {role}");
                }
                walked += 1;
            }
        }
    }
    assert!(walked > 200, "{walked}");
    server.stop().assert_clean();
}

#[test]
fn the_first_token_shuts_out_whoever_has_none() {
    let server = Server::start();
    server.get("/v1/runs").with(200);
    let admin = role_token(&server, "admin");
    assert_eq!(server.get("/v1/runs").problem().1, "unauthenticated");
    get_as(&server, &admin, "/v1/runs").with(200);
    // The names of this machine matter only where there are no tokens.
    let elsewhere = with_token(Request::new("GET", "/v1/runs").for_host("unstuck.example"), &admin);
    server.ask(&elsewhere).with(200);
    // Over a restart, too.
    let server = Server::start_on(&server.stop(), &[]);
    assert_eq!(server.get("/v1/runs").status, 401);
    get_as(&server, &admin, "/v1/runs").with(200);
}

#[test]
fn a_revoked_token_is_refused_at_once_and_a_rotated_one_for_a_while_is_not() {
    let server = Server::start();
    let (admin, ops) = (role_token(&server, "admin"), role_token(&server, "operator"));
    let rotated = post_as(&server, &admin, "/v1/tokens/operator/rotate", &json!({"overlap": "1h"})).with(200);
    let renewed = rotated["token"].as_str().expect("it is shown once").to_owned();
    for token in [&ops, &renewed] {
        get_as(&server, token, "/v1/runs").with(200);
    }
    post_as(&server, &admin, "/v1/tokens/operator/rotate", &json!({"overlap": 0.0})).problem();
    let again = post_as(&server, &admin, "/v1/tokens/operator/rotate", &json!({"overlap": "0s"})).with(200);
    assert_eq!(get_as(&server, &renewed, "/v1/runs").status, 401, "there was no overlap");
    let last = again["token"].as_str().expect("it is shown once").to_owned();
    get_as(&server, &last, "/v1/runs").with(200);
    let revoke = with_token(Request::new("DELETE", "/v1/tokens/operator?reason=lost"), &admin);
    server.ask(&revoke).with(200);
    assert_eq!(get_as(&server, &last, "/v1/runs").status, 401);
    let listed = get_as(&server, &admin, "/v1/tokens?all=true").with(200).to_string();
    for secret in [&admin, &ops, &renewed, &last] {
        let secret = secret.rsplit('_').next().expect("it has parts");
        assert!(!listed.contains(secret), "secrets are shown once");
    }
}

#[test]
fn a_client_is_for_its_flows() {
    let server = Server::start();
    let other = server.start_run("quick");
    let client = create_token(&server, "shop", &["--role", "client", "--flow", "order"]);
    let you = get_as(&server, &client, "/v1/server").with(200)["you"].clone();
    assert_eq!((&you["role"], &you["flows"]), (&json!("client"), &json!(["order"])), "{you}");
    assert!(you["token"].as_str().is_some_and(|id| id.starts_with("tok_")), "{you}");
    let order = json!({"flow": "order", "input": {"amount": 1}, "key": "k"});
    let started = post_as(&server, &client, "/v1/runs", &order).with(201);
    let run = started["run"].as_str().expect("it is an id");
    get_as(&server, &client, &format!("/v1/runs/{run}")).with(200);
    get_as(&server, &client, &format!("/v1/runs/{run}/payload?of=input")).with(200);
    get_as(&server, &client, "/v1/flows/order/keys/k").with(200);
    get_as(&server, &client, "/v1/runs?flow=order").with(200);
    let signal = json!({"name": "approve", "payload": true});
    post_as(&server, &client, &format!("/v1/runs/{run}/signal"), &signal).with(200);
    let batch = json!({"runs": [{"flow": "quick"}, {"flow": "order", "input": {"amount": 2}}]});
    let results = post_as(&server, &client, "/v1/runs/batch", &batch).with(200);
    assert_eq!(results["results"][0]["status"], 403);
    assert_eq!(results["results"][1]["already"], false);
    for refused in [
        post_as(&server, &client, "/v1/runs", &json!({"flow": "quick"})),
        get_as(&server, &client, "/v1/runs"),
        get_as(&server, &client, "/v1/runs?flow=quick"),
        get_as(&server, &client, &format!("/v1/runs/{other}")),
        get_as(&server, &client, &format!("/v1/runs/{other}/payload?of=input")),
        get_as(&server, &client, "/v1/flows/quick/keys/k"),
        post_as(&server, &client, &format!("/v1/runs/{other}/signal"), &signal),
        post_as(&server, &client, "/v1/signals", &json!({"flow": "quick", "key": "k", "name": "go"})),
    ] {
        assert_eq!(refused.problem().1, "forbidden", "{refused:?}");
    }
}

#[test]
fn whoever_may_not_read_payloads_does_not_get_them() {
    let server = Server::start();
    let run = server.start_order("k");
    let viewer = create_token(&server, "looker", &["--role", "viewer", "--no-payloads"]);
    let admin = role_token(&server, "admin");
    let path = format!("/v1/runs/{run}");
    let all = get_as(&server, &admin, &path).with(200);
    assert_eq!((&all["input"]["amount"], &all["steps"][0]["output"]), (&json!(21), &json!(42)));
    let seen = get_as(&server, &viewer, &path).with(200);
    assert_eq!((&seen["input"], &seen["steps"][0]["output"]), (&Value::Null, &Value::Null));
    assert_eq!(seen["state"], all["state"]);
    get_as(&server, &admin, &format!("{path}/payload?of=input")).with(200);
    assert_eq!(get_as(&server, &viewer, &format!("{path}/payload?of=input")).problem().1, "forbidden");
    let fan = "flow: fan\nsteps: [{id: each, forEach: [1, 2], set: secret}]\n";
    let apply = Request::new("POST", "/v1/flows").body("application/yaml", fan);
    server.ask(&with_token(apply, &admin)).with(200);
    post_as(&server, &admin, "/v1/runs?wait=30s", &json!({"flow": "fan", "key": "f"})).with(201);
    for (token, wanted) in [(&admin, json!("secret")), (&viewer, Value::Null)] {
        let items = get_as(&server, token, "/v1/runs/f/items").with(200);
        assert_eq!(items["items"][1]["output"], wanted);
    }
}

#[test]
fn without_a_token_only_this_machine_is_listened_to() {
    let store = Store::new();
    let (code, said) = store.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("without tokens everybody who reaches it could do everything"), "{said}");
    assert!(said.contains("unstuck token create NAME --role admin"), "{said}");
    assert!(FLOWS.contains("order"));
}
