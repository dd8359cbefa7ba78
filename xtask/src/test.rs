//! `cargo xtask test`: every check of the project in order, and at the end one line that says how it went.

mod tally;

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::tools::{self, Tool};
use crate::{schemathesis, tidy};
use tally::{Outcome, Tally};

/// Runs every check, even after a failure. The last line is `N passed, N failed`.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut outcome = Outcome::default();
    outcome.check("fmt", run_step("fmt", &[Tool::Rustfmt], root, || check_format(root)));
    outcome.check("tidy", run_step("tidy", &[], root, || tidy::check(root)));
    outcome.check("clippy", run_step("clippy", &[Tool::Clippy, Tool::CCompiler], root, || run_clippy(root)));
    outcome.check("doc", run_step("doc", &[Tool::CCompiler], root, || build_docs(root)));
    match run_step("tests", &[Tool::CCompiler], root, || run_tests(root)) {
        Ok(tally) => outcome.tests(tally),
        Err(why) => outcome.check("tests", Err(why)),
    }
    let needs = [Tool::CCompiler];
    outcome.check("schemathesis", run_step("schemathesis", &needs, root, || schemathesis::check(root)));
    report_outcome(&outcome)
}

/// Runs one step under its heading. A step whose tools are missing is not tried, because the compiler's output would
/// hide the line that says so.
fn run_step<T>(
    name: &str,
    needs: &[Tool],
    root: &Path,
    body: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    println!("== {name}");
    if let Some(missing) = needs.iter().find_map(|tool| tool.missing(root)) {
        println!("{missing}");
        return Err(missing);
    }
    let started = Instant::now();
    let result = body();
    println!("-- {name}: {:.1} s", started.elapsed().as_secs_f64());
    result
}

fn check_format(root: &Path) -> Result<(), String> {
    run_command(
        tools::cargo(root).args(["fmt", "--all", "--check"]),
        "the format differs (see above); run `cargo fmt --all`",
    )
}

fn run_clippy(root: &Path) -> Result<(), String> {
    let mut command = tools::cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    run_command(&mut command, "see its warnings and errors above")
}

fn build_docs(root: &Path) -> Result<(), String> {
    let mut command = tools::cargo(root);
    command.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    run_command(&mut command, "see its warnings and errors above")
}

fn run_command(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(otherwise.to_owned()),
        Err(error) => Err(format!("{} could not be started: {error}", command.get_program().display())),
    }
}

/// Runs every test, forwarding and counting its output as it comes.
fn run_tests(root: &Path) -> Result<Tally, String> {
    let mut command = tools::cargo(root);
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.args(["--color", "always"]);
    }
    // One pipe for both streams keeps their order, which tells the target of each result.
    stream_tests(command).map_err(|error| format!("`cargo test` could not be run: {error}"))
}

/// Runs a command, forwards its output and counts the tests in it.
fn stream_tests(mut command: Command) -> io::Result<Tally> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing end too, which would keep the pipe open.
    drop(command);
    let mut tally = Tally::default();
    let mut pending = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let length = match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        io::stdout().write_all(&chunk[..length])?;
        io::stdout().flush()?;
        pending.extend_from_slice(&chunk[..length]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            tally.line(&String::from_utf8_lossy(&line));
        }
    }
    tally.line(&String::from_utf8_lossy(&pending));
    tally.end(child.wait()?.success());
    Ok(tally)
}

fn report_outcome(outcome: &Outcome) -> ExitCode {
    println!();
    if !outcome.failures.is_empty() {
        println!("What failed:");
        for failure in &outcome.failures {
            println!("  {failure}");
        }
    }
    println!("{}", outcome.last_line());
    if outcome.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
