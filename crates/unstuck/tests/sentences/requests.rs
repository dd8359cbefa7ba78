//! Why the attempts of HTTP requests fail, as the command itself tells it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::Line;

/// What a step asks for, where `SERVER` answers what its path says.
const CASES: [(&str, &str); 15] = [
    ("status", "{url: 'http://SERVER/status/500'}"),
    ("bad data", "{url: 'http://SERVER/status/422'}"),
    ("rate limit", "{url: 'http://SERVER/status/429'}"),
    ("cut off", "{url: 'http://SERVER/cut'}"),
    ("not HTTP", "{url: 'http://SERVER/garbage'}"),
    ("not TLS", "{url: 'https://SERVER/'}"),
    ("redirects", "{url: 'http://SERVER/loop'}"),
    ("redirect elsewhere", "{url: 'http://SERVER/file'}"),
    ("nobody there", "{url: 'http://127.0.0.1:9/'}"),
    ("an address that is refused", "{url: 'http://0.0.0.0/'}"),
    ("computed scheme", "{url: \"${'gopher'}://host/\"}"),
    ("computed url", "{url: \"${'host'}\"}"),
    ("computed method", "{url: 'http://SERVER/', method: \"${'FETCH'}\"}"),
    ("computed header", "{url: 'http://SERVER/', headers: {a: \"${['b']}\"}}"),
    ("missing secret", "{url: 'http://SERVER/${secrets.NOWHERE}'}"),
];

pub(crate) fn lines() -> Vec<Line> {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve();
    CASES.map(|(label, http)| (label.to_owned(), cause(folder.path(), http, server))).into()
}

/// How the attempt of a step that asks for this ends.
fn cause(folder: &Path, http: &str, server: SocketAddr) -> String {
    let http = http.replace("SERVER", &server.to_string());
    let flow = format!(
        "flow: media\nsteps:\n  - {{id: fetch, http: {http}, timeout: 1m, defer: {{delay: 1ms, limit: 0s}}}}\n"
    );
    fs::write(folder.join("flow.yaml"), flow).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
    command.arg("run").arg(folder.join("flow.yaml")).arg("--store").arg(folder.join("store"));
    let ran = command.args(["-o", "json"]).output().expect("the binary starts");
    let document: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{http}: {error}"));
    let attempt = &document["steps"][0]["attempts"][0];
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{http}: {document:#}")).to_owned();
    let cause = text(&attempt["error"]["cause"]).replace(&server.to_string(), "SERVER");
    format!("{}: {cause}", text(&attempt["state"]))
}

/// Answers for as long as the test runs, rightly or wrongly.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let answer = match path.strip_prefix("/status/") {
                Some(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 8\r\n\r\nno lamps"),
                None if path == "/cut" => "HTTP/1.1 200 X\r\ncontent-length: 8\r\n\r\nno".to_owned(),
                None if path == "/loop" => "HTTP/1.1 302 X\r\nlocation: /loop\r\n\r\n".to_owned(),
                None if path == "/file" => "HTTP/1.1 302 X\r\nlocation: file:///etc\r\n\r\n".to_owned(),
                None => "hello\r\n\r\n".to_owned(),
            };
            // Who does not wait for the answer does not get it.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}
