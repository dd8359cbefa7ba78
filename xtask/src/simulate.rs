//! `cargo xtask simulate`: the engine under faults, on a virtual clock, in release mode and on all cores.

use std::path::Path;
use std::process::ExitCode;

use crate::tools;

/// Runs the simulator with these arguments: `--seeds N --from S` for many seeds, `--seed N` for the story of one.
pub(crate) fn run(root: &Path, args: &[&str]) -> ExitCode {
    let mut command = tools::cargo(root);
    command.args(["run", "--release", "--locked", "-p", "unstuck-sim"]);
    command.args(["--features", "simulate", "--bin", "simulate", "--"]);
    match command.args(args).status() {
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("simulate: cargo could not be started ({error}); is Rust installed?");
            ExitCode::FAILURE
        }
    }
}
