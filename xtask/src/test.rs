//! `cargo xtask test`: every check of the project in order, and at the end one line that says how it went.

mod tally;

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::tidy;
use crate::tools::{self, Tool};
use tally::{Outcome, Tally};

/// Runs everything, whatever fails on the way. The last line is `N passed, N failed`.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut outcome = Outcome::default();
    outcome.check("fmt", step("fmt", &[Tool::Rustfmt], root, || fmt(root)));
    outcome.check("tidy", step("tidy", &[], root, || tidy::check(root)));
    outcome.check("clippy", step("clippy", &[Tool::Clippy, Tool::CCompiler], root, || clippy(root)));
    outcome.check("doc", step("doc", &[Tool::CCompiler], root, || doc(root)));
    match step("tests", &[Tool::CCompiler], root, || tests(root)) {
        Ok(tally) => outcome.tests(tally),
        Err(why) => outcome.check("tests", Err(why)),
    }
    finish(&outcome)
}

/// One step with its heading. A step whose tools are missing is not tried: the line that says so would drown in
/// what the compiler has to say about it.
fn step<T>(
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

fn fmt(root: &Path) -> Result<(), String> {
    succeed(
        tools::cargo(root).args(["fmt", "--all", "--check"]),
        "the format differs (see above); run `cargo fmt --all`",
    )
}

fn clippy(root: &Path) -> Result<(), String> {
    let mut command = tools::cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    succeed(&mut command, "see its warnings and errors above")
}

fn doc(root: &Path) -> Result<(), String> {
    let mut command = tools::cargo(root);
    command.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    succeed(&mut command, "see its warnings and errors above")
}

fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(otherwise.to_owned()),
        Err(error) => Err(format!("{} could not be started: {error}", command.get_program().display())),
    }
}

/// Every test, with what it prints passed on as it comes and counted on the way.
fn tests(root: &Path) -> Result<Tally, String> {
    let mut command = tools::cargo(root);
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.args(["--color", "always"]);
    }
    // One pipe for both streams keeps their order: which target a result belongs to follows from it.
    stream(command).map_err(|error| format!("`cargo test` could not be run: {error}"))
}

fn stream(mut command: Command) -> io::Result<Tally> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing end too, and the pipe would stay open for as long as it does.
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

fn finish(outcome: &Outcome) -> ExitCode {
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
