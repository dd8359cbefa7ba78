//! Requests on real sockets: what each answer comes to, and what is never called or sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use serde_json::{Value, json};
use unstuck_core::decide::MAX_PAYLOAD_BYTES;
use unstuck_core::model::flow::{Flow, Kind};
use unstuck_core::model::http::{HttpOutcome, StatusPattern, StatusRules};
use unstuck_engine::executor::http::address::{AddressRules, Network};
use unstuck_engine::executor::http::{HttpExecutor, HttpSettings};
use unstuck_engine::executor::{Executor, ExecutorReport};
use unstuck_engine::secrets::Secrets;

use crate::http_server::{Reply, Server, is_reachable, response, tls_file};
use crate::support::{Ear, LONG, context, flow_with_secrets, job_of, line, outcome};

/// An executor that may call this machine, with these secrets.
fn executor(secrets: &[(&str, &str)]) -> HttpExecutor {
    HttpExecutor::new(HttpSettings {
        addresses: AddressRules { allow_private: true, allowed: Vec::new() },
        secrets: Secrets::of_values(secrets.iter().copied()),
        ..HttpSettings::new(8)
    })
}

/// The flow of one `http` step that uses these secrets.
fn http_flow(rules: &[(&str, HttpOutcome)], secrets: &[&str]) -> Arc<Flow> {
    let rules = rules.iter().filter_map(|(text, outcome)| Some((StatusPattern::parse(text)?, *outcome)));
    flow_with_secrets(Kind::Http(StatusRules(rules.collect())), secrets)
}

/// Makes one request, and gives how it ended.
fn request(executor: &mut HttpExecutor, input: &Value) -> ExecutorReport {
    outcome(executor, job_of(&http_flow(&[], &[]), 1, &input.to_string())).1
}

#[test]
fn every_status_ends_the_attempt_as_it_should() {
    let server = Server::new(|path| {
        let (status, headers) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let headers = if headers.is_empty() { String::new() } else { format!("retry-after: {headers}\r\n") };
        response(status.parse().expect("a status"), &headers, "said")
    });
    let mut executor = executor(&[]);
    let from = |path: &str| format!("from {}", server.url(path));
    let cases = [
        ("/200", r#"completed {"status":200,"headers":{},"body":"said"}"#.to_owned()),
        ("/299", r#"completed {"status":299,"headers":{},"body":"said"}"#.to_owned()),
        ("/304", format!("failed HTTP 304 {}", from("/304"))),
        ("/302", format!("failed HTTP 302 {}: said", from("/302"))),
        ("/400", format!("failed (data) HTTP 400 {}: said", from("/400"))),
        ("/401", format!("failed HTTP 401 {}: said", from("/401"))),
        ("/404", format!("failed HTTP 404 {}: said", from("/404"))),
        ("/408", format!("stalled HTTP 408 {}: said", from("/408"))),
        ("/422", format!("failed (data) HTTP 422 {}: said", from("/422"))),
        ("/429", format!("deferred - HTTP 429 {}: said", from("/429"))),
        ("/429/90", format!("deferred 1m 30s HTTP 429 {}: said", from("/429/90"))),
        ("/500", format!("stalled HTTP 500 {}: said", from("/500"))),
        ("/503", format!("stalled HTTP 503 {}: said", from("/503"))),
        ("/503/2", format!("deferred 2s HTTP 503 {}: said", from("/503/2"))),
    ];
    for (path, expected) in cases {
        let ended = request(&mut executor, &json!({"url": server.url(path)}));
        assert_eq!(line(&ended), expected, "{path}");
    }
    let flow = http_flow(&[("404", HttpOutcome::Completed), ("5xx", HttpOutcome::Failed)], &[]);
    for (path, expected) in [("/404", "completed"), ("/500", "failed"), ("/503/2", "failed")] {
        let input = json!({"url": server.url(path)}).to_string();
        let ended = outcome(&mut executor, job_of(&flow, 1, &input)).1;
        assert!(line(&ended).starts_with(expected), "{path}: {}", line(&ended));
    }
}

#[test]
fn a_request_is_what_the_input_says() {
    let server = Server::new(|_| response(204, "", ""));
    let mut executor = executor(&[]);
    let inputs = [
        json!({"url": server.url("/a b?c=ü")}),
        json!({"url": server.url("/b"), "body": {"n": 1}, "headers": {"X-Count": 3, "Accept": "text/csv", "Gone": null}}),
        json!({"url": server.url("/c"), "method": "put", "body": "plain", "headers": {"Idempotency-Key": "mine"}}),
        json!({"url": server.url("/d").replace("http://", "http://user:p%40ss@"), "method": "DELETE"}),
    ];
    for input in &inputs {
        assert!(line(&request(&mut executor, input)).starts_with("completed "), "{input}");
    }
    let seen = server.requests();
    let host = server.address;
    let key = "idempotency-key: run_";
    assert!(seen[0].starts_with("GET /a%20b?c=%C3%BC HTTP/1.1\n"), "{}", seen[0]);
    assert!(
        seen[0].contains(&format!("\nhost: {host}\n")) && seen[0].contains("\nuser-agent: unstuck/"),
        "{}",
        seen[0]
    );
    assert!(seen[0].contains(key) && seen[0].contains("/1/work\n"), "{}", seen[0]);
    assert!(seen[1].starts_with("POST /b ") && seen[1].ends_with("\n\n{\"n\":1}"), "{}", seen[1]);
    assert!(
        seen[1].contains("\ncontent-type: application/json\n") && seen[1].contains("\nx-count: 3\n"),
        "{}",
        seen[1]
    );
    assert!(seen[1].contains("\naccept: text/csv\n") && !seen[1].contains("gone"), "{}", seen[1]);
    assert!(seen[2].starts_with("PUT /c ") && seen[2].ends_with("\n\nplain"), "{}", seen[2]);
    assert!(seen[2].contains("\nidempotency-key: mine\n") && !seen[2].contains(key), "{}", seen[2]);
    assert!(
        seen[3].starts_with("DELETE /d ") && seen[3].contains("\nauthorization: Basic dXNlcjpwQHNz\n"),
        "{}",
        seen[3]
    );
}

#[test]
fn an_input_that_is_no_request_has_failed() {
    let mut executor = executor(&[]);
    let cases = [
        (json!(null), "the input of an `http` step is a map with a `url`"),
        (json!({"url": 7}), "the `url` of the request is not a text"),
        (json!({"url": "ftp://host/"}), "the scheme `ftp` is not supported: use `https` or `http`"),
        (
            json!({"url": "http://127.0.0.1/", "method": "FETCH"}),
            "the `method` of the request is none of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS",
        ),
        (json!({"url": "http://127.0.0.1/", "headers": {"a b": "c"}}), "`a b` is not the name of a header"),
        (
            json!({"url": "http://127.0.0.1/", "headers": {"a": "b\r\nc: d"}}),
            "the value of header `a` is not one line of text",
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(line(&request(&mut executor, &input)), format!("failed (data) {expected}"), "{input}");
    }
}

#[test]
fn what_breaks_on_the_way_is_stalled() {
    let server = Server::new(|path| match path {
        "/cut" => Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec()),
        "/chunk" => Reply::Bytes(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab".to_vec()),
        "/nothing" => Reply::Bytes(Vec::new()),
        _ => Reply::Bytes(b"hello\r\n\r\n".to_vec()),
    });
    let mut executor = executor(&[]);
    for path in ["/cut", "/chunk", "/nothing"] {
        let url = server.url(path);
        let expected = format!("stalled the connection was closed before the response was complete ({url})");
        assert_eq!(line(&request(&mut executor, &json!({"url": url}))), expected);
    }
    let garbage = line(&request(&mut executor, &json!({"url": server.url("/garbage")})));
    assert!(
        garbage.starts_with(&format!("stalled {} does not answer in HTTP: ", server.url("/garbage"))),
        "{garbage}"
    );
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it has one");
    assert!(!is_reachable(free));
    let refused = line(&request(&mut executor, &json!({"url": format!("http://{free}/")})));
    assert_eq!(refused, format!("stalled connection refused by {free}"));
    // A label that is too long is looked up nowhere.
    let host = format!("{}.invalid", "x".repeat(64));
    let unknown = line(&request(&mut executor, &json!({"url": format!("http://{host}/")})));
    assert!(unknown.starts_with(&format!("stalled cannot find the address of `{host}`: ")), "{unknown}");
}

#[test]
fn a_response_has_a_limit() {
    let server = Server::new(|path| {
        let length = MAX_PAYLOAD_BYTES + 1;
        let head = match path {
            "/told" => format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"),
            _ => "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned(),
        };
        Reply::Bytes([head.into_bytes(), vec![b'x'; length]].concat())
    });
    for path in ["/told", "/untold"] {
        let ended = line(&request(&mut executor(&[]), &json!({"url": server.url(path)})));
        let expected =
            format!("failed (data) the response from {} is too large for an output", server.url(path));
        assert!(ended.starts_with(&expected), "{ended}");
    }
}

#[test]
fn a_request_that_loses_its_attempt_is_cut_off() {
    let server = Server::new(|path| match path {
        "/body" => Reply::Silence(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec()),
        _ => Reply::Silence(Vec::new()),
    });
    let mut executor = executor(&[]);
    let ear = Ear::new();
    for (number, path) in (1..).zip(["/head", "/body"]) {
        let input = json!({"url": server.url(path)}).to_string();
        let job = job_of(&http_flow(&[], &[]), number, &input);
        let attempt = job.attempt;
        executor.execute(job, &ear.answers);
        while server.requests().len() < usize::try_from(number).expect("a few") {
            std::thread::yield_now();
        }
        executor.catch_up();
        assert!(ear.is_silent());
        executor.interrupt(attempt, "over its timeout");
        assert_eq!(line(&ear.last()), "freed", "{path}");
        server.hung_up.recv_timeout(LONG).expect("the connection is closed");
    }
    let job = job_of(&http_flow(&[], &[]), 9, &json!({"url": server.url("/stop")}).to_string());
    executor.execute(job, &ear.answers);
    while server.requests().len() < 3 {
        std::thread::yield_now();
    }
    executor.stop();
    assert_eq!(line(&ear.last()), "released");
    server.hung_up.recv_timeout(LONG).expect("the connection is closed");
    executor.execute(job_of(&http_flow(&[], &[]), 10, "{}"), &ear.answers);
    assert_eq!(line(&ear.last()), "released");
    assert!(ear.is_silent());
}

#[test]
fn redirects_are_followed_five_times() {
    let server = Server::new(|path| match path.split_at(2) {
        ("/r", "5") => response(200, "", "there"),
        ("/r", number) => {
            let next = number.parse::<u32>().expect("a number") + 1;
            response(302, &format!("location: /r{next}\r\n"), "")
        }
        ("/l", _) => response(307, "location: /loop\r\n", ""),
        ("/s", _) => response(303, "location: /r5\r\n", ""),
        ("/p", _) => response(308, "location: /r5\r\n", ""),
        _ => response(302, "location: file:///etc/passwd\r\n", ""),
    });
    let mut executor = executor(&[]);
    let there = r#"completed {"status":200,"headers":{},"body":"there"}"#;
    assert_eq!(line(&request(&mut executor, &json!({"url": server.url("/r0")}))), there);
    assert_eq!(server.requests().len(), 6);
    let looped = line(&request(&mut executor, &json!({"url": server.url("/loop")})));
    assert_eq!(looped, format!("failed more than 5 redirects, the last one from {}", server.url("/loop")));
    let elsewhere = line(&request(&mut executor, &json!({"url": server.url("/x")})));
    assert!(elsewhere.contains("the scheme `file` is not supported"), "{elsewhere}");
    let before = server.requests().len();
    for path in ["/see", "/permanent"] {
        assert_eq!(
            line(&request(&mut executor, &json!({"url": server.url(path), "body": "sent"}))),
            there,
            "{path}"
        );
    }
    let seen = &server.requests()[before..];
    assert!(
        seen[1].starts_with("GET /r5 ") && !seen[1].contains("sent") && !seen[1].contains("content-type")
    );
    assert!(seen[3].starts_with("POST /r5 ") && seen[3].ends_with("\n\nsent"));
    let flow = http_flow(&[("302", HttpOutcome::Completed)], &[]);
    let input = json!({"url": server.url("/r4")}).to_string();
    let kept = line(&outcome(&mut executor, job_of(&flow, 1, &input)).1);
    assert_eq!(kept, r#"completed {"status":302,"headers":{"location":"/r5"},"body":null}"#);
}

#[test]
fn addresses_that_are_not_public_are_not_called() {
    let server = Server::new(|_| response(200, "", "reached"));
    let port = server.address.port();
    let mut executor = HttpExecutor::new(HttpSettings::new(8));
    let cases = [
        ("127.0.0.1", "127.0.0.1 is an address of this machine"),
        ("2130706433", "`2130706433` is at 127.0.0.1, an address of this machine"),
        ("localhost", "`localhost` is at "),
        ("[::1]", "::1 is an address of this machine"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1 is an address of this machine"),
        ("[::ffff:7f00:1]", "is an address of this machine"),
        ("0.0.0.0", "0.0.0.0 is an unspecified address"),
        ("10.0.0.1", "10.0.0.1 is a private address"),
        ("169.254.169.254", "169.254.169.254 is a link-local address"),
        ("[fd00::1]", "fd00::1 is a private address"),
    ];
    for (host, expected) in cases {
        let ended = line(&request(&mut executor, &json!({"url": format!("http://{host}:{port}/")})));
        assert!(ended.starts_with("failed (data) ") && ended.contains(expected), "{host}: {ended}");
        assert!(ended.ends_with(": requests to such addresses are not allowed here"), "{ended}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_redirect_does_not_lead_where_a_request_may_not_go() {
    let server = Server::new(|path| match path {
        "/name" => response(302, "location: http://[::1]:9/\r\n", ""),
        _ => response(302, "location: http://127.0.0.2:9/\r\n", ""),
    });
    let allowed = vec![Network::parse("127.0.0.1").expect("an address")];
    let settings =
        HttpSettings { addresses: AddressRules { allow_private: false, allowed }, ..HttpSettings::new(8) };
    let mut executor = HttpExecutor::new(settings);
    for (path, expected) in [("/name", "::1 is an address"), ("/number", "127.0.0.2 is an address")] {
        let ended = line(&request(&mut executor, &json!({"url": server.url(path)})));
        assert!(ended.starts_with(&format!("failed (data) {expected} of this machine")), "{ended}");
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_host() {
    let other = Server::new(|_| response(200, "", "there"));
    let to = other.url("/there");
    let server = Server::new(move |path| match path {
        "/away" => response(307, &format!("location: {to}\r\n"), ""),
        _ => response(307, "location: /away\r\n", ""),
    });
    let mut executor = executor(&[("KEY", "s3cret-key")]);
    let flow = http_flow(&[], &["KEY"]);
    let headers = json!({"Authorization": "Bearer plain", "X-Key": "${secrets.KEY}", "X-Plain": "kept"});
    let input = json!({"url": server.url("/start"), "headers": headers, "body": "sent"});
    let ended = outcome(&mut executor, job_of(&flow, 1, &input.to_string())).1;
    assert_eq!(line(&ended), r#"completed {"status":200,"headers":{},"body":"there"}"#);
    let (own, away) = (server.requests(), other.requests());
    for request in &own {
        assert!(
            request.contains("\nauthorization: Bearer plain\n") && request.contains("\nx-key: s3cret-key\n")
        );
    }
    assert!(!away[0].contains("Bearer") && !away[0].contains("s3cret-key"), "{}", away[0]);
    assert!(away[0].contains("\nx-plain: kept\n") && away[0].ends_with("\n\nsent"), "{}", away[0]);
    let input = json!({"url": server.url("/start"), "body": {"key": "${secrets.KEY}"}});
    let ended = line(&outcome(&mut executor, job_of(&flow, 1, &input.to_string())).1);
    assert!(ended.starts_with("failed ") && ended.contains("the body contains a secret"), "{ended}");
    assert_eq!(other.requests().len(), 1);
}

#[test]
fn secrets_are_sent_and_not_told() {
    let server = Server::new(|path| match path {
        "/echo" => response(500, "", "you sent s3cret/key and czNjcmV0OnMzY3JldC9rZXk="),
        path => response(
            200,
            "content-type: application/json\r\n",
            &json!({"path": path, "key": "s3cret/key"}).to_string(),
        ),
    });
    let mut executor = executor(&[("KEY", "s3cret/key"), ("URL", &server.url("")), ("USER", "s3cret")]);
    let flow = http_flow(&[], &["KEY", "URL", "USER", "NONE"][..3]);
    let input = json!({"url": "${secrets.URL}/a/${secrets.KEY}?price=$$5", "body": ["$$${secrets.KEY}"]});
    let ended = outcome(&mut executor, job_of(&flow, 1, &input.to_string())).1;
    assert_eq!(
        line(&ended),
        r#"completed {"body":{"key":"***","path":"/a/***?price=$5"},"headers":{"content-type":"application/json"},"status":200}"#
    );
    let seen = server.requests();
    assert!(
        seen[0].starts_with("POST /a/s3cret%2Fkey?price=$5 ") && seen[0].ends_with("\n\n[\"$s3cret/key\"]"),
        "{}",
        seen[0]
    );
    let url = server.url("/echo").replace("http://", "http://${secrets.USER}:${secrets.KEY}@");
    let ended = outcome(&mut executor, job_of(&flow, 1, &json!({"url": url}).to_string())).1;
    assert_eq!(line(&ended), "stalled HTTP 500 from ***/echo: you sent *** and ***");
    assert_eq!(context(&ended), "you sent *** and ***");
    let missing = outcome(&mut executor, job_of(&http_flow(&[], &["NONE"]), 1, &input.to_string())).1;
    assert_eq!(line(&missing), "failed (data) secret `NONE` is missing: this program gives no such secret");
}

/// A server that answers before it is asked, and not in TLS.
fn impatient_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // It stays until the other side goes away.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    address
}

#[test]
fn tls_is_spoken_with_whom_is_trusted() {
    let plain = impatient_server();
    let server = Server::with_tls(|_| response(200, "", "private"));
    let url = |host: &str, port: u16| json!({"url": format!("https://{host}:{port}/")});
    let port = server.address.port();
    let mut strict = executor(&[]);
    let unknown = line(&request(&mut strict, &url("127.0.0.1", port)));
    assert!(
        unknown.starts_with(&format!("stalled TLS with 127.0.0.1:{port} failed: "))
            && unknown.contains("its certificate is not trusted: UnknownIssuer"),
        "{unknown}"
    );
    let garbage = line(&request(&mut strict, &url("127.0.0.1", plain.port())));
    assert!(garbage.ends_with("failed: it does not answer in TLS; is it an `http://` url?"), "{garbage}");
    let trusting = |file: &str| {
        HttpExecutor::new(HttpSettings {
            addresses: AddressRules { allow_private: true, allowed: Vec::new() },
            roots_file: Some(tls_file(file)),
            ..HttpSettings::new(8)
        })
    };
    let mut trusting_authority = trusting("authority.pem");
    let ended = line(&request(&mut trusting_authority, &url("127.0.0.1", port)));
    assert_eq!(ended, r#"completed {"status":200,"headers":{},"body":"private"}"#);
    let mistaken = line(&request(&mut trusting_authority, &url("127.0.0.2", port)));
    assert!(mistaken.starts_with("stalled "), "{mistaken}");
    let none = line(&request(&mut trusting("none.pem"), &url("127.0.0.1", port)));
    assert!(
        none.starts_with("failed the certificates in `") && none.contains("(SSL_CERT_FILE) cannot be used"),
        "{none}"
    );
}
