//! `unstuck run` on a server: the same lines and the same end as in a process of its own, and a run that goes on when nobody watches.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Server, Store, wait_until};

const FAMILY: &str = "\
flow: parent
steps:
  - {id: one, set: 1}
  - {id: ask, flow: child}
  - {id: bad, emulate: fail, exceptionHandler: child, timeout: 5s}
---
flow: child
steps:
  - {id: slow, emulate: {sequence: [stall, pass]}, retryStrategy: retry, backOff: 10ms, minimumDelay: 10ms}
  - {id: x, set: hello}
output: '${steps.x.output}'
";

/// What is told, without what differs from run to run: ids, times, and where the run is.
fn story(text: &str) -> Vec<String> {
    let without_id = |word: &str| {
        let is_id = word.contains("run_");
        let is_time = word.ends_with("ms") || word.starts_with('+') || word.contains("20");
        if is_id || is_time { "*".to_owned() } else { word.to_owned() }
    };
    let lines = text.lines().skip(1);
    lines.map(|line| line.split_whitespace().map(without_id).collect::<Vec<_>>().join(" ")).collect()
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn write(store: &Store, name: &str, text: &str) -> String {
    let path = store.folder().join(name);
    std::fs::write(&path, text).expect("it can be written");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_run_is_told_on_a_server_as_it_is_told_here() {
    let (server, alone) = (Server::start(), Store::new());
    let held =
        "flow: held\nsteps:\n  - {id: upload, emulate: {sequence: [stall, pass]}, retryStrategy: hold}\n";
    let done = "flow: done\nsteps: [{id: a, set: {b: [1, 2]}}]\noutput: '${steps.a.output}'\n";
    for (flow, code) in [(FAMILY, 1), (held, 3), (done, 0)] {
        let file = write(&alone, "flow.yaml", flow);
        let here = alone.run(&["run", &file]);
        let there = alone.run(&["run", &file, "--server", &url(&server)]);
        let owned = server.store.run(&["run", &file]);
        assert_eq!((here.0, there.0, owned.0), (code, code, code), "{}\n{}\n{}", here.1, there.1, owned.1);
        let (wanted, told) =
            (story(&here.1), story(&there.1.replace(&format!(" --server {}", url(&server)), "")));
        assert_eq!(told, wanted, "{}\n{}", there.1, here.1);
        assert_eq!(story(&owned.1), wanted, "{}\n{}", owned.1, here.1);
        let first = there.1.lines().next().unwrap_or_default().to_owned();
        assert!(first.ends_with(&format!(" runs on {}", url(&server))), "{first}");
    }
}

#[test]
fn the_document_of_a_run_is_the_same_and_goes_to_stdout() {
    let (server, alone) = (Server::start(), Store::new());
    let file = write(&alone, "flow.yaml", "flow: done\nsteps: [{id: a, set: 1}]\noutput: 2\n");
    let document = |arguments: &[&str]| -> Value {
        let all = [&["run", &file, "-o", "json", "--key", "k", "--label", "a=b"], arguments].concat();
        let output = alone.command(&all).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    };
    let (mut here, mut there) = (document(&[]), document(&["--server", &url(&server)]));
    for document in [&mut here, &mut there] {
        for field in ["id", "createdAt", "updatedAt", "decisions"] {
            assert!(document[field].take() != Value::Null, "{field}");
        }
    }
    assert_eq!(there, here);
}

/// `unstuck run` that is under way, and what it has written to stdout.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    said: String,
}

impl Watching {
    fn start(store: &Store, arguments: &[&str]) -> Watching {
        let mut command = store.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        Watching { child, lines, said: String::new() }
    }

    fn until(&mut self, part: &str) {
        while !self.said.contains(part) {
            let line = self.lines.next().unwrap_or_else(|| panic!("never {part}: {}", self.said));
            self.said += &(line.expect("it is UTF-8") + "\n");
        }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("it is an id");
        kill_process(id, signal).expect("it is there");
    }

    fn end(mut self) -> (Option<i32>, String) {
        for line in self.lines.by_ref() {
            self.said += &(line.expect("it is UTF-8") + "\n");
        }
        let mut stderr = String::new();
        let mut stream = self.child.stderr.take().expect("it is a pipe");
        stream.read_to_string(&mut stderr).expect("it can be read");
        (self.child.wait().expect("it ends").code(), self.said + &stderr)
    }
}

const SIGNALLED: &str = "\
flow: signalled
steps:
  - {id: first, signal: first}
  - {id: second, signal: second}
output: '${steps.second.output}'
";

#[test]
fn ctrl_c_leaves_the_run_alone_and_says_how_to_watch_it() {
    let server = Server::start();
    let file = write(&server.store, "flow.yaml", SIGNALLED);
    let mut watching = Watching::start(&server.store, &["run", &file, "--server", &url(&server)]);
    watching.until("waiting for signal `first`");
    watching.signal(Signal::INT);
    let (code, said) = watching.end();
    assert_eq!(code, Some(130), "{said}");
    let id = server.get("/v1/runs/@latest").with(200)["id"].as_str().expect("it is a text").to_owned();
    let option = format!("--server {}", url(&server));
    for part in [
        format!("detached (Ctrl-C); the run goes on at {}, where it is waiting\n", url(&server)),
        format!("  watch it:   unstuck run --continue {id} {option}\n"),
        format!("  cancel it:  unstuck cancel {id} {option}\n"),
    ] {
        assert!(said.contains(&part), "{part} in\n{said}");
    }
    // It can be watched again, by name or because it is the newest that has not ended.
    let mut again = Watching::start(&server.store, &["run", "--continue", "--server", &url(&server)]);
    again.until(&format!("{id} runs on"));
    for signal in ["first", "second"] {
        server.post(&format!("/v1/runs/{id}/signal"), &json!({"name": signal, "payload": signal})).with(200);
    }
    let (code, said) = again.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the run completed") && said.ends_with("\n\"second\"\n"), "{said}");
    let (code, said) = server.store.run(&["run", "--continue", "--server", &url(&server)]);
    assert!(code == 5 && said.contains("every run on http://"), "{said}");
}

#[test]
fn a_stream_that_is_cut_goes_on_where_it_stopped() {
    let server = Server::start();
    let (address, option) = (server.address.to_string(), url(&server));
    let file = write(&server.store, "flow.yaml", SIGNALLED);
    let mut watching = Watching::start(&server.store, &["run", &file, "--server", &option]);
    watching.until("waiting for signal `first`");
    let store = server.kill();
    watching.until("trying to reach it again");
    // What happens while nobody is told is told later.
    let again = Server::start_at(&address, &store, &[]);
    for signal in ["first", "second"] {
        again.post("/v1/runs/@latest/signal", &json!({"name": signal})).with(200);
    }
    let (code, said) = watching.end();
    assert_eq!(code, Some(0), "{said}");
    for part in [
        "of flow `signalled` started",
        "waiting for signal `first`",
        "waiting for signal `second`",
        "the run completed",
    ] {
        assert_eq!(said.matches(part).count(), 1, "{part} in\n{said}");
    }
    drop(again);
}

#[test]
fn what_a_server_does_not_do_is_refused_and_starts_nothing() {
    let server = Server::start();
    let store = Store::new();
    let (url, command) =
        (url(&server), write(&store, "run.yaml", "flow: r\nsteps: [{id: a, run: ls, timeout: 5s}]\n"));
    let broken = write(&store, "broken.yaml", "flow: b\nsteps: [{id: a, flow: nowhere}]\n");
    let good = write(
        &store,
        "good.yaml",
        "flow: g\ninput: {type: object, required: [n]}\nsteps: [{id: a, set: 1}]\n",
    );
    for (arguments, part) in [
        (vec!["run", &command], "this server executes none. Start it with --allow-run"),
        (vec!["run", &broken], "broken.yaml is refused: 1 error"),
        (vec!["run", &good], "\"n\" is a required property"),
        (vec!["run", &good, "--flow", "other"], "has no flow `other`; it has `g`"),
        (vec!["run", &good, "--max-load", "2"], "--max-load is for a run in this process"),
        (vec!["run", "--continue", "run_nope"], "there is no run"),
    ] {
        let (code, said) = store.run(&[&arguments[..], &["--server", &url]].concat());
        assert!(code == 5 && said.contains(part), "{arguments:?}: {code} {said}");
    }
    assert_eq!(server.get("/v1/runs").with(200)["runs"], json!([]));
    let (code, said) = store.run(&["run", &good, "--server", "http://127.0.0.1:9"]);
    assert!(code == 6 && said.contains("no server answers at http://127.0.0.1:9"), "{said}");
}

#[test]
fn who_may_not_apply_flows_runs_what_is_there_and_nothing_else() {
    let server = Server::start();
    let store = Store::new();
    let file =
        write(&store, "flow.yaml", "flow: shared\nsteps: [{id: a, set: 1}]\noutput: '${steps.a.output}'\n");
    server.apply(&std::fs::read_to_string(&file).expect("it is there")).with(200);
    let token = |role: &str| {
        let made = server.store.run(&["token", "create", role, "--role", role, "-o", "json"]);
        let made: Value = serde_json::from_str(&made.1).expect("it is JSON");
        made["token"].as_str().expect("it is shown once").to_owned()
    };
    let run = |token: &str, file: &str| {
        let mut command = store.command(&["run", file, "--server", &url(&server)]);
        let output = command.env("UNSTUCK_TOKEN", token).output().expect("it runs");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("it is UTF-8");
        (output.status.code(), said)
    };
    let (operator, client) = (token("operator"), token("client"));
    let (code, said) = run(&operator, &file);
    assert!(code == Some(0) && said.contains("a: completed") && said.ends_with("\n1\n"), "{said}");
    // A client may not read events, and still sees the end.
    let (code, said) = run(&client, &file);
    assert!(code == Some(0) && said.contains("may not read events") && said.ends_with("\n1\n"), "{said}");
    let other = write(&store, "other.yaml", "flow: shared\nsteps: [{id: a, set: 2}]\n");
    let (code, said) = run(&operator, &other);
    assert!(code == Some(5) && said.contains("does not have flow `shared` as it is in"), "{said}");
    let (code, said) = run("ust_nope", &file);
    assert!(code == Some(5) && said.contains("a valid token is needed"), "{said}");
    wait_until("the runs are there", || {
        let runs = server.store.run(&["runs", "-o", "json"]).1;
        serde_json::from_str::<Value>(&runs).expect("it is JSON")["runs"].as_array().map(Vec::len) == Some(2)
    });
}

#[test]
fn the_owner_of_the_store_needs_no_token_on_its_socket() {
    let server = Server::start();
    let file = write(
        &server.store,
        "flow.yaml",
        "flow: mine\nsteps: [{id: a, set: 1}]\noutput: '${steps.a.output}'\n",
    );
    assert_eq!(server.store.run(&["token", "create", "ops", "--role", "viewer"]).0, 0);
    assert_eq!(server.get("/v1/runs").status, 401);
    let (code, said) = server.store.run(&["run", &file]);
    assert!(code == 0 && said.contains("a: completed") && said.ends_with("\n1\n"), "{said}");
    let (code, said) = server.store.run(&["start", "mine", "--wait", "-o", "json"]);
    let document: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &document["state"]), (0, &json!("completed")));
    // The same routes, and whoever may open the socket is admin.
    let path = server.store.path().join("http");
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("somebody listens");
    let request =
        "GET /v1/server HTTP/1.1\r\nHost: localhost\r\nUnstuck-User: ada\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("it has a body");
    let you = &serde_json::from_str::<Value>(body).expect("it is JSON")["you"];
    assert_eq!((&you["name"], &you["role"]), (&json!("ada"), &json!("admin")));
    let store = server.stop();
    assert!(!store.path().join("http").exists(), "it goes away with the server");
}
