//! The socket of an owner: nothing that is sent to it hurts, and what it says is JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::support::Store;
use crate::support::under_way::UnderWay;

const WAITS: &str = "flow: a\nsteps:\n  - {id: one, signal: go}\n";

/// What a line is answered with; nothing where the other end hangs up.
fn answer(socket: &str, line: &[u8]) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    stream.write_all(line).expect("it is taken");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it can be read");
    (!answer.is_empty()).then(|| serde_json::from_str(&answer).expect("it is JSON"))
}

#[test]
fn nonsense_is_refused_and_hurts_nobody() {
    let store = Store::new();
    let run = UnderWay::start(&store, WAITS, &[]);
    run.until("waiting for signal");
    let socket = format!("{}/socket", store.path());
    let mode = std::fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let cases: [(&[u8], &str); 7] = [
        (b"\n", "this is not a request"),
        (b"hello\n", "this is not a request"),
        (b"\xff\xfe\x00\n", "this is not a request"),
        (b"{\"version\": 1}\n", "the request uses version 1 of the protocol, not 3"),
        (b"{\"version\": 3}\n", "cannot read the request"),
        (b"{\"version\": 3, \"request\": {\"query\": \"everything\"}}\n", "cannot read the request"),
        (b"{\"version\":3,\"request\":{\"query\":{\"show\":{\"run\":\"\\u0000\"}}}}\n", "there is no run"),
    ];
    for (line, part) in cases {
        let said = answer(&socket, line).expect("it answers");
        let refused = said["refused"].as_str().unwrap_or_default();
        assert!(refused.contains(part), "{}: {said}", String::from_utf8_lossy(line));
    }
    // What the application refuses has a type too.
    let unknown = answer(&socket, b"{\"version\":3,\"request\":{\"query\":{\"show\":{\"run\":\"nope\"}}}}\n");
    assert_eq!(unknown.expect("it answers")["problem"]["type"], "/problems/not-found");
    // Somebody who sends half a line, or nothing, and hangs up or not.
    let _half = UnixStream::connect(&socket).and_then(|mut stream| stream.write_all(b"{\"version\""));
    let silent: Vec<UnixStream> = (0..20).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let busy = answer(&socket, b"");
    assert_eq!(busy.map(|said| said["busy"].clone()), Some(json!(true)));
    drop(silent);
    let mut endless = UnixStream::connect(&socket).expect("somebody listens");
    let piece = vec![b'x'; 1 << 20];
    let sent = (0..64).take_while(|_| endless.write_all(&piece).is_ok()).count();
    assert!(sent < 64, "nobody listens to a line without an end");
    let mut rest = String::new();
    let _ = endless.read_to_string(&mut rest);

    let ran = store.unstuck(&["signal", "@latest", "go"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(run.wait().code, 0);
}

#[test]
fn several_questions_may_come_on_one_connection() {
    let store = Store::new();
    let run = UnderWay::start(&store, WAITS, &[]);
    run.until("waiting for signal");
    let mut stream = UnixStream::connect(format!("{}/socket", store.path())).expect("somebody listens");
    let question = b"{\"version\":3,\"request\":{\"query\":\"owner\"}}\n";
    stream.write_all(&question.repeat(3)).expect("it is taken");
    let mut lines = BufReader::new(stream).lines();
    for _ in 0..3 {
        let said: Value =
            serde_json::from_str(&lines.next().expect("it answers").expect("in UTF-8")).expect("JSON");
        assert_eq!(said, json!({"version": 3, "answer": run.id()}));
    }
    assert_eq!(store.unstuck(&["cancel", "@latest"]).code, 0);
    run.wait();
}

#[test]
fn a_store_with_a_long_path_has_a_socket_too() {
    let elsewhere = Store::new();
    let deep = format!("{}/{}/{}", elsewhere.path(), "d".repeat(100), "e".repeat(100));
    let run = UnderWay::start(&elsewhere, WAITS, &["--store", &deep]);
    run.until("waiting for signal");
    let ran = elsewhere.unstuck(&["signal", "@latest", "go", "--store", &deep]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(run.wait().code, 0);
}

#[test]
fn what_a_killed_owner_left_is_no_hindrance() {
    let store = Store::new();
    let run = UnderWay::start(&store, WAITS, &[]);
    run.until("waiting for signal");
    run.send(rustix::process::Signal::KILL);
    run.wait();
    let socket = format!("{}/socket", store.path());
    assert!(std::fs::exists(&socket).expect("it can be looked for"), "the socket is left");
    let ran = store.unstuck(&["signal", "@latest", "go"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains("completed just now"), "no executor is needed for it: {}", ran.stdout);
    let again = UnderWay::start(&store, WAITS, &[]);
    again.until("waiting for signal");
    assert_eq!(store.unstuck(&["cancel", "@latest"]).code, 0);
    again.wait();
}
