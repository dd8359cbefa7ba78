//! Running the binary, and files for it.

#[path = "support/own_server.rs"]
mod own_server;
#[path = "support/server.rs"]
pub(crate) mod server;
#[path = "support/under_way.rs"]
pub(crate) mod under_way;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use self::own_server::OwnServer;

/// What the first line of a run says about where it is.
pub(crate) const IS_AT: &str = if crate::ON_SERVER { " runs on http://" } else { " is stored in " };

/// The exit code of what is refused.
pub(crate) const REFUSED: i32 = 5;

/// How the binary ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is written is UTF-8");
        let code = output.status.code().expect("it ends by itself");
        Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What stdout holds, as one JSON document.
    pub(crate) fn json(&self) -> Value {
        let Ran { stdout, stderr, .. } = self;
        serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}"))
    }
}

/// A store that goes away with the test, and the server that has it, where commands are sent to one.
pub(crate) struct Store(Folder, OnceLock<OwnServer>);

impl Store {
    pub(crate) fn new() -> Store {
        Store(Folder::new(), OnceLock::new())
    }

    /// Its folder, which is made by whoever uses it first.
    pub(crate) fn path(&self) -> String {
        self.0.path("store")
    }

    /// The folder that it is in, with the flow files.
    pub(crate) fn folder(&self) -> String {
        self.0.path("")
    }

    /// The id of the newest run.
    pub(crate) fn latest(&self) -> String {
        let document = self.unstuck(&["show", "@latest", "-o", "json"]).json();
        document["id"].as_str().expect("it is a text").to_owned()
    }

    /// A file beside the store.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        self.0.write(name, text)
    }

    /// What is in a file beside the store.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path(name)).expect("the file is there")
    }

    /// The binary on this store, in the folder of the repository, without what would change how its output looks.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
        command.current_dir(repository()).stdin(Stdio::null());
        for name in ["NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG", "UNSTUCK_LOG"] {
            command.env_remove(name);
        }
        command.env("UNSTUCK_STORE", self.path()).env("USER", "ada").env("TZ", "UTC");
        self.name_server(&mut command);
        command
    }

    /// Sends a command to the server of this store, which is started for the first one.
    fn name_server(&self, command: &mut Command) {
        if crate::ON_SERVER {
            let server = self.1.get_or_init(|| OwnServer::start(&self.folder(), &self.path()));
            command.env("UNSTUCK_SERVER", &server.url);
        }
    }

    /// Runs the binary with these arguments.
    pub(crate) fn unstuck(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command().args(arguments).output().expect("the binary starts"))
    }

    /// Runs the binary with something on stdin.
    pub(crate) fn unstuck_reading(&self, arguments: &[&str], stdin: &str) -> Ran {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut pipe = child.stdin.take().expect("stdin is a pipe");
        // A command that refuses at once does not read it.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        Ran::of(child.wait_with_output().expect("it ends"))
    }

    /// Runs a flow that is given as text.
    pub(crate) fn run_flow(&self, flow: &str, arguments: &[&str]) -> Ran {
        let path = self.write("flow.yaml", flow);
        self.unstuck(&[&["run", &path], arguments].concat())
    }
}

/// Runs the binary with these arguments, on a store of its own.
pub(crate) fn unstuck(arguments: &[&str]) -> Ran {
    Store::new().unstuck(arguments)
}

/// Runs the binary with something on stdin, on a store of its own.
pub(crate) fn unstuck_reading(arguments: &[&str], stdin: &str) -> Ran {
    Store::new().unstuck_reading(arguments, stdin)
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A folder with files that goes away with the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("there is room for a folder"))
    }

    /// A folder with one file in it, and the path of that.
    pub(crate) fn with(name: &str, text: impl AsRef<[u8]>) -> (Folder, String) {
        let folder = Folder::new();
        let path = folder.write(name, text);
        (folder, path)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }
}

/// Runs a flow that is given as text, on a store of its own.
pub(crate) fn run_flow(flow: &str, arguments: &[&str]) -> Ran {
    Store::new().run_flow(flow, arguments)
}
