//! A server on a store of its own, and what is asked of it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{Answer, Connection, PATIENCE, Request};

/// What most stories need: a flow that waits for a signal, one that is held, and one that ends in error; both go well when they
/// are tried again.
pub(crate) const FLOWS: &str = "\
flow: order
version: '1'
labels: {team: billing}
steps:
  - {id: total, set: '${input.amount * 2}'}
  - {id: approve, signal: approve}
  - {id: ship, set: '${steps.approve.output}'}
output: '${steps.ship.output}'
---
flow: held
steps:
  - {id: upload, emulate: {sequence: [stall, pass]}, retryStrategy: hold}
---
flow: broken
steps:
  - {id: fetch, emulate: {sequence: [stall, pass]}}
---
flow: quick
steps:
  - {id: only, set: 1}
";

/// A folder with a store in it, which goes away with the last that uses it.
#[derive(Clone)]
pub(crate) struct Store(Arc<tempfile::TempDir>);

impl Store {
    pub(crate) fn new() -> Store {
        Store(Arc::new(tempfile::tempdir().expect("there is room for a folder")))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// The binary on this store.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
        command.args(arguments).current_dir(self.folder()).stdin(Stdio::null()).env_remove("UNSTUCK_LOG");
        command.env("UNSTUCK_STORE", self.path()).env("USER", "ada").env("TZ", "UTC");
        // Nobody's own configuration.
        command.env("XDG_CONFIG_HOME", self.folder().join("no-config")).env_remove("UNSTUCK_CONFIG");
        command
    }

    /// How a command ends, and what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().expect("the binary starts");
        let text = [output.stdout, output.stderr].concat();
        let code = output.status.code().expect("it ends by itself");
        (code, String::from_utf8(text).expect("what is written is UTF-8"))
    }

    /// Looks at every promise that data can keep.
    pub(crate) fn assert_clean(&self) {
        let (code, said) = self.run(&["store", "check"]);
        assert_eq!(code, 0, "{said}");
    }
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) store: Store,
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server that has [`FLOWS`].
    pub(crate) fn start() -> Server {
        let server = Server::start_on(&Store::new(), &[]);
        server.apply(FLOWS).with(200);
        server
    }

    pub(crate) fn start_on(store: &Store, arguments: &[&str]) -> Server {
        let listen: &[&str] =
            if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        Server::start_with(store, &[listen, arguments].concat())
    }

    /// Starts a server at an address that others know already.
    pub(crate) fn start_at(address: &str, store: &Store, arguments: &[&str]) -> Server {
        Server::start_with(store, &[&["--listen", address], arguments].concat())
    }

    fn start_with(store: &Store, arguments: &[&str]) -> Server {
        let all = [&["serve", "-o", "json"], arguments].concat();
        let mut command = store.command(&all);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            let mut why = String::new();
            let _ = child.stderr.take().expect("stderr is a pipe").read_to_string(&mut why);
            panic!("it does not serve: {line}{why}");
        };
        let url = said["url"].as_str().expect("it is a text");
        let (_, address) = url.split_once("://").expect("it is a url");
        let address = address.parse().expect("it is an address");
        Server { store: store.clone(), child, address }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub(crate) fn ask(&self, request: &Request) -> Answer {
        self.connect().ask(request).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&Request::new("GET", path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(&Request::new("POST", path).json(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask(&Request::new("DELETE", path))
    }

    /// Applies a file of flows.
    pub(crate) fn apply(&self, flows: &str) -> Answer {
        self.ask(&Request::new("POST", "/v1/flows").body("application/yaml", flows))
    }

    /// Starts a run, waits until it rests, and returns its id.
    pub(crate) fn start_run(&self, flow: &str) -> String {
        let started =
            self.post("/v1/runs?wait=30s", &json!({"flow": flow, "input": {"amount": 21}})).with(201);
        started["run"].as_str().expect("it is an id").to_owned()
    }

    /// Starts a run that waits for a signal.
    pub(crate) fn start_order(&self, key: &str) -> String {
        let body = json!({"flow": "order", "input": {"amount": 21}, "key": key});
        self.post("/v1/runs", &body).with(201)["run"].as_str().expect("it is an id").to_owned()
    }

    /// The run, when it rests.
    pub(crate) fn rest(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}?wait=30s")).with(200)
    }

    /// The child of the first step of a run, once it has one.
    pub(crate) fn rest_child(&self, run: &str) -> String {
        let child = || self.get(&format!("/v1/runs/{run}")).with(200)["steps"][0]["child"].clone();
        wait_until("it has a child", || {
            let child = child();
            child.as_str().is_some_and(|child| self.get(&format!("/v1/runs/{child}")).status == 200)
        });
        child().as_str().expect("it is an id").to_owned()
    }

    /// How many sockets its process has open.
    pub(crate) fn open_sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs");
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// How much memory its process has taken, in KiB.
    pub(crate) fn resident_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse().expect("it is a number")
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("it is a process id");
        kill_process(id, signal).expect("it is there");
    }

    /// Lets it do nothing at all, as a machine that sleeps.
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it continue after that.
    pub(crate) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to stop, without waiting for it.
    pub(crate) fn begin_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended, and returns its exit code and what it has written to stderr.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        let mut stream = self.child.stderr.take().expect("stderr is a pipe");
        stream.read_to_string(&mut stderr).expect("it can be read");
        (self.child.wait().expect("it ends").code(), stderr)
    }

    /// Stops it in good order.
    pub(crate) fn stop(self) -> Store {
        let store = self.store.clone();
        self.begin_to_stop();
        let (code, stderr) = self.wait();
        assert_eq!(code, Some(0), "{stderr}");
        store
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) -> Store {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ends");
        self.store.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until it is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
