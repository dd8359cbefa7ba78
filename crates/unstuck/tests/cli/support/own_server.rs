//! The server of a store, for tests whose commands are sent to one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// `unstuck serve` on the store of a test, for as long as that is there.
pub(crate) struct OwnServer {
    child: Child,
    pub(crate) url: String,
}

impl OwnServer {
    /// Starts it in the folder that has the flow files, so that relative paths mean the same as in a run without a server.
    pub(crate) fn start(folder: &str, store: &str) -> OwnServer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstuck"));
        command.args(["serve", "--listen", "127.0.0.1:0", "-o", "json", "--allow-run"]);
        command.args(["--allow-address", "127.0.0.0/8"]);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("UNSTUCK_STORE", store).env("USER", "ada").env("TZ", "UTC").env_remove("UNSTUCK_LOG");
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        let said: serde_json::Value = serde_json::from_str(&line).expect("it serves");
        let url = said["url"].as_str().expect("it is a text").to_owned();
        OwnServer { child, url }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
