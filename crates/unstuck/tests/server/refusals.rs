//! What is refused, and how that is said.

use serde_json::{Value, json};

use crate::client::Request;
use crate::support::Server;

#[test]
fn an_unknown_path_or_method_says_what_there_is() {
    let server = Server::start();
    let (status, kind, detail) = server.get("/v1/rums").problem();
    assert_eq!((status, kind.as_str()), (404, "not-found"));
    assert_eq!(detail, "there is no `/v1/rums` here; `/docs` lists every call");
    for (method, path, allowed) in [
        ("PUT", "/v1/runs", "POST, GET"),
        ("OPTIONS", "/v1/events", "GET"),
        ("PATCH", "/v1/flows/order", "GET, DELETE"),
        ("DELETE", "/health", "GET"),
    ] {
        let answer = server.ask(&Request::new(method, path));
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
        assert_eq!(answer.problem().1, "method-not-allowed");
    }
}

#[test]
fn every_answer_has_a_number_and_the_version() {
    let server = Server::start();
    for request in [
        Request::new("GET", "/health/live"),
        Request::new("GET", "/v1/rums"),
        Request::new("PUT", "/v1/runs"),
        Request::new("GET", "/v1/runs/%FF"),
        Request::new("GET", "/v1/runs?nothing=1"),
        Request::new("GET", "/v1/runs").for_host("example.com"),
    ] {
        let named = server.ask(&request.clone().header("Request-Id", "mine-17"));
        assert_eq!(named.header("request-id"), Some("mine-17"));
        assert!(named.header("unstuck-version").is_some());
        // One that could be mistaken for something else is not repeated.
        let unsafe_name = server.ask(&request.header("Request-Id", "<b>mine</b>"));
        let given = unsafe_name.header("request-id").expect("it has one").to_owned();
        assert!(!given.contains('<') && !given.is_empty(), "{given}");
        if unsafe_name.status >= 400 {
            assert_eq!(unsafe_name.json()["requestId"], given.as_str());
        }
    }
}

#[test]
fn a_bad_parameter_is_named_with_what_may_be_meant() {
    let server = Server::start();
    for (path, wanted) in [
        ("/v1/runs?sate=held", "`sate`: there is no such parameter; is `state` meant?"),
        ("/v1/runs?state=hold", "`state`: `hold` is not a state of a run; there are "),
        ("/v1/runs?limit=0", "`limit`: `0` is not a whole number from 1 to 1000"),
        ("/v1/runs?limit=1&limit=2", "`limit`: it is given twice; give it once"),
        ("/v1/runs?since=whenever", "`since`: `whenever` is not an instant such as"),
        ("/v1/runs?key=%ff", "`key`: it is not UTF-8; send it as UTF-8"),
        ("/v1/runs?label=billing", "`label`: `billing` has no value; write it as `label=team:billing`"),
        (
            "/v1/policies/audit?after=18446744073709551615",
            "`after`: `18446744073709551615` is not a whole number",
        ),
        ("/v1/status?x=1", "`x`: there is no such parameter; this call takes none"),
        ("/v1/events?after=zzz", "this is not a place in the events of a store"),
        ("/v1/errors?after=zzz", "`zzz` is not the end of a page; give `next` of the page before, as it is"),
        ("/v1/runs/%FF", "the path is not UTF-8; send it as UTF-8"),
    ] {
        let (status, _, detail) = server.get(path).problem();
        assert!(status == 400 && detail.starts_with(wanted), "{path}: {status} {detail}");
    }
}

#[test]
fn a_bad_body_is_refused_with_the_field_that_is_wrong() {
    let server = Server::start();
    let deep = format!(r#"{{"flow":"quick","input":{}1{}}}"#, "[".repeat(64), "]".repeat(64));
    for (body, field, wanted) in [
        (r#"{"flow":"quick","kye":"a"}"#.to_owned(), "kye", "is `key` meant?"),
        (r#"{"flow":7}"#.to_owned(), "flow", "invalid type: integer `7`, expected a string"),
        (r#"{"flow":"quick","onDuplicate":"x"}"#.to_owned(), "onDuplicate", "unknown variant `x`"),
        (r#"{"key":"a"}"#.to_owned(), "", "missing field `flow`"),
        (r#"{"flow":"quick","flow":"held"}"#.to_owned(), "", "duplicate field `flow`"),
        (r#"{"flow":"quick""#.to_owned(), "", "the body is not JSON: EOF while parsing"),
        (r#"{"flow":"quick"} {}"#.to_owned(), "", "the body is not JSON: trailing characters"),
        ("[]".to_owned(), "", "the body"),
        (deep, "", "the body is nested more than 64 deep"),
        (format!(r#"{{"{}":1}}"#, "x".repeat(1 << 20)), "", "..."),
    ] {
        let answer = server.ask(&Request::new("POST", "/v1/runs").body("application/json", body.clone()));
        let (status, kind, detail) = answer.problem();
        let shown = &body[..body.len().min(80)];
        assert_eq!((status, kind.as_str()), (400, "bad-request"), "{shown}: {detail}");
        assert!(detail.contains(wanted) && detail.len() < 2_500, "{shown}: {detail}");
        let problem = &answer.json()["problems"][0]["field"];
        assert!(field.is_empty() || problem == field, "{shown}: {problem}");
    }
    let bytes = b"{\"flow\":\"\xff\"}".to_vec();
    let (status, _, detail) =
        server.ask(&Request::new("POST", "/v1/runs").body("application/json", bytes)).problem();
    assert_eq!((status, detail.as_str()), (400, "the body is not UTF-8; send it as UTF-8"));
    assert_eq!(server.get("/v1/runs").with(200)["runs"], json!([]));
}

#[test]
fn null_means_the_same_as_absent() {
    let server = Server::start();
    let body = json!({"flow": "quick", "input": null, "key": null, "onDuplicate": null, "version": null,
        "priority": null, "deadline": null, "reason": null});
    let started = server.post("/v1/runs?wait=30s", &body).with(201);
    assert_eq!(started["document"]["input"], json!({}));
    let run = started["run"].as_str().expect("it is an id");
    server.post(&format!("/v1/runs/{run}/rerun"), &json!({"what": null, "steps": null})).problem();
    let order =
        json!({"action": "resume", "flow": "broken", "runs": null, "labels": null, "needsPerson": null});
    assert_eq!(server.post("/v1/bulk?dryRun=true", &order).with(200)["total"], 0);
}

#[test]
fn a_body_of_another_type_is_refused() {
    let server = Server::start();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/yaml"]
    {
        let request = Request::new("POST", "/v1/runs").body(kind, r#"{"flow":"quick"}"#);
        let (status, slug, detail) = server.ask(&request).problem();
        assert_eq!((status, slug.as_str()), (415, "unsupported-media-type"), "{detail}");
        assert_eq!(detail, format!("`{kind}` is not taken here; send `Content-Type: application/json`"));
    }
    let request =
        Request::new("POST", "/v1/runs").body("Application/JSON; charset=utf-8", r#"{"flow":"quick"}"#);
    assert_eq!(server.ask(&request).status, 201);
    let request = Request::new("POST", "/v1/flows").body("text/plain", "flow: x");
    assert_eq!(server.ask(&request).status, 415);
}

#[test]
fn what_is_too_large_is_refused_with_its_maximum() {
    let server = Server::start();
    let request = |bytes: usize| {
        let body = format!(r#"{{"flow":"quick","input":"{}"}}"#, "x".repeat(bytes));
        Request::new("POST", "/v1/runs").body("application/json", body)
    };
    let answer = server.ask(&request(5 << 20));
    let (status, kind, _) = answer.problem();
    assert_eq!((status, kind.as_str(), &answer.json()["max"]), (413, "too-large", &json!(4 << 20)));
    let flow = format!("flow: x\nsteps:\n  - {{id: a, set: 1}}\n{}", "#".repeat(1 << 20));
    let answer = server.apply(&flow);
    assert_eq!((answer.status, &answer.json()["what"]), (413, &json!("flow file")));
    // In pieces, without a length.
    let mut connection = server.connect();
    connection
        .send(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("it is sent");
    let piece = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..5 {
        connection.send(&piece).expect("it is sent");
    }
    connection.send(b"0\r\n\r\n").expect("it is sent");
    assert_eq!(connection.read_answer().expect("it is answered").status, 413);
    let head = Request::new("GET", "/v1/runs").header("X-Long", &"x".repeat(64 << 10));
    let status = server.connect().ask(&head).map(|answer| answer.status);
    assert!(matches!(status, Ok(431) | Err(_)), "{status:?}");
    assert_eq!(server.get("/health/live").status, 200);
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = Server::start();
    for host in ["example.com", "localhost.example.com", "127.0.0.1.nip.io", "0.0.0.0", ""] {
        let (status, kind, _) = server.ask(&Request::new("GET", "/v1/runs").for_host(host)).problem();
        assert_eq!((status, kind.as_str()), (403, "forbidden"), "{host}");
    }
    for origin in ["http://example.com", "null", "https://localhost.example.com", "file://"] {
        let request =
            Request::new("POST", "/v1/runs").header("Origin", origin).json(&json!({"flow": "quick"}));
        let (status, kind, _) = server.ask(&request).problem();
        assert_eq!((status, kind.as_str()), (403, "forbidden"), "{origin}");
    }
    for (host, origin) in [("127.0.0.1:7070", "http://127.0.0.1:7070"), ("[::1]", "http://localhost:3000")] {
        let request = Request::new("GET", "/v1/runs").for_host(host).header("Origin", origin);
        assert_eq!(server.ask(&request).status, 200, "{host} {origin}");
    }
    // The target of a request counts more than its header.
    let request = Request::new("GET", "http://example.com/v1/runs");
    assert_eq!(server.ask(&request).status, 403);
    assert_eq!(server.get("/v1/runs").with(200)["runs"], json!([]));
}

#[test]
fn things_that_are_not_there_are_named() {
    let server = Server::start();
    let request = |method: &str, path: &str, body: Option<Value>| {
        let request = Request::new(method, path);
        server.ask(&body.map_or(request.clone(), |body| request.json(&body)))
    };
    let run = "run_0000000000000";
    for (method, path, body, what) in [
        ("GET", format!("/v1/runs/{run}"), None, "run"),
        ("GET", format!("/v1/runs/{run}?wait=1s"), None, "run"),
        ("POST", format!("/v1/runs/{run}/cancel"), Some(json!({})), "run"),
        ("DELETE", format!("/v1/runs/{run}"), None, "run"),
        ("GET", "/v1/flows/order/keys/none".to_owned(), None, "run"),
        ("POST", "/v1/runs".to_owned(), Some(json!({"flow": "none"})), "flow"),
        ("GET", "/v1/policies/none".to_owned(), None, "policy"),
        ("GET", "/v1/bulk/bulk_0000000000000".to_owned(), None, "bulk"),
        ("GET", "/v1/schedules/order".to_owned(), None, "schedule"),
        ("POST", "/v1/schedules/order/fire".to_owned(), Some(json!({})), "schedule"),
        ("GET", "/problems/none".to_owned(), None, ""),
    ] {
        let answer = request(method, &path, body);
        let (status, kind, detail) = answer.problem();
        assert_eq!((status, kind.as_str()), (404, "not-found"), "{method} {path}: {detail}");
        assert!(what.is_empty() || answer.json()["what"] == what, "{method} {path}: {}", answer.body);
    }
    let unknown = json!({"flow": "order", "key": "none", "name": "approve"});
    assert_eq!(server.post("/v1/signals", &unknown).json()["state"], "unknown");
}
