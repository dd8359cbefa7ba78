//! Running the binary, and files for it.

pub(crate) mod server;
pub(crate) mod under_way;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

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

/// A store that goes away with the test.
pub(crate) struct Store(Folder);

impl Store {
    pub(crate) fn new() -> Store {
        Store(Folder::new())
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
        command
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

    /// Runs a line of a shell that finds the binary, in the folder of the store.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let binary = Path::new(env!("CARGO_BIN_EXE_unstuck"));
        let folder = binary.parent().expect("it is in a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.folder()).env("PATH", path).stdin(Stdio::null());
        shell.env("UNSTUCK_STORE", self.path()).env("TZ", "UTC").env_remove("TERM");
        Ran::of(shell.output().expect("there is a shell"))
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
