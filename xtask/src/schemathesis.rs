//! `cargo xtask schemathesis`: requests by the thousand, made from the description of the HTTP API, against a server with some runs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use serde_json::Value;

use crate::tools;

const VERSION: &str = "schemathesis==4.32.5";
/// So many requests are drawn for each operation, besides those that its description leads to.
const EXAMPLES: &str = "5";
/// What must hold of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method";

/// Flows in every state that a run can rest in.
const FLOWS: &str = "\
flow: order
steps:
  - {id: approve, signal: approve}
---
flow: held
steps:
  - {id: upload, emulate: stall, retryStrategy: hold}
---
flow: broken
steps:
  - {id: fetch, emulate: stall}
";

/// Names of what is there, and of what is not, for the parts of paths.
const NAMES: &str = "\
[parameters]
\"path.run\" = [\"@latest\", \"run_0s87qa6w80000\"]
\"path.flow\" = [\"order\", \"none\"]
\"path.key\" = [\"o-1\", \"none\"]
";

/// Runs it, and says how it went.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Checks that a server answers whatever it is asked as its description says.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let folder = root.join("target/schemathesis");
    let program = install(&folder)?;
    build_binary(root)?;
    let work = folder.join("work");
    // What an earlier run has left.
    let _ = std::fs::remove_dir_all(&work);
    let write =
        |name: &str, text: &str| std::fs::write(work.join(name), text).map_err(|error| error.to_string());
    std::fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    write("flows.yaml", FLOWS)?;
    write("names.toml", NAMES)?;
    let server = Server::start(root, &work)?;
    for arguments in [
        &["flow", "apply", "flows.yaml"][..],
        &["start", "held"],
        &["start", "broken"],
        &["start", "order", "--key", "o-1"],
    ] {
        run_command(binary(root, &work).args(arguments).stdout(Stdio::null()), "the server has no runs")?;
    }
    let mut command = Command::new(program);
    command.current_dir(&work).args([
        "--config-file",
        "names.toml",
        "run",
        &format!("{}/openapi.json", server.url),
    ]);
    // A stream has no end, and after the first token every request would need one.
    command.args(["--exclude-path", "/v1/events", "--exclude-operation-id", "createToken"]);
    // Its workers share caches that are not safe for threads.
    command.args(["--workers", "1", "--seed", "1", "--max-examples", EXAMPLES, "--checks", CHECKS]);
    command.args(["--phases", "examples,coverage,fuzzing", "--warnings", "off"]);
    run_command(&mut command, "the server does not answer as it describes itself; see above")
}

/// Installs schemathesis where it is not there yet.
fn install(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("bin/schemathesis");
    if program.exists() {
        return Ok(program);
    }
    let missing =
        "schemathesis cannot be installed; it needs python3 with venv (`apt install python3-venv`) and PyPI";
    run_command(Command::new("python3").args(["-m", "venv"]).arg(folder), missing)?;
    run_command(Command::new(folder.join("bin/pip")).args(["install", "--quiet", VERSION]), missing)?;
    Ok(program)
}

/// The binary of the tests, built by their command: by any other, crates would be compiled once more with other features.
fn build_binary(root: &Path) -> Result<(), String> {
    let mut command = tools::cargo(root);
    command.args(["test", "--workspace", "--no-run", "--quiet", "--locked"]);
    run_command(&mut command, "the binary cannot be built; see above")
}

/// The binary on the store of this check.
fn binary(root: &Path, work: &Path) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut command = Command::new(target.join("debug/unstuck"));
    command.current_dir(work).env("UNSTUCK_STORE", work.join("store")).env_remove("UNSTUCK_SERVER");
    command
}

fn run_command(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => Err(otherwise.to_owned()),
    }
}

/// A server that ends with the check.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(root: &Path, work: &Path) -> Result<Server, String> {
        let mut command = binary(root, work);
        command.args(["serve", "--listen", "127.0.0.1:0", "-o", "json"]).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("the server cannot be started: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = said["url"].as_str().unwrap_or_default().to_owned();
        let server = Server { child, url };
        if server.url.is_empty() {
            Err("the server does not say where it listens".to_owned())
        } else {
            Ok(server)
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
