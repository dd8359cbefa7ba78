//! Starting a process, and the sentences for when it does not start.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command as Program, Stdio};

use rustix::io::{Errno, ioctl_fionbio};
use unstuck_core::command::Report;
use unstuck_core::model::error::Error;
use unstuck_core::model::flow::{Kind, ProcessCommand};

use super::environment;
use super::group::ProcessGroup;
use super::left_over::EscapedProcesses;
use super::report::ReportFile;
use crate::executor::Job;
use crate::secrets::Redactor;

/// A process that runs, with the engine's ends of its pipes, none of which block.
pub(super) struct Started {
    pub(super) group: ProcessGroup,
    /// What has left the group.
    pub(super) escaped: EscapedProcesses,
    pub(super) report: ReportFile,
    /// What it gets on its standard input.
    pub(super) product: Vec<u8>,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

/// Starts the process of an attempt, or says why the attempt ends here.
pub(super) fn start(job: &mut Job, redactor: &Redactor) -> Result<Started, Report> {
    // What it is made from may be large, and the process may run for long.
    let product = job.product();
    job.details = None;
    let Kind::Process(command) = &job.step().kind else {
        return Err(failed(
            format!("step `{}` has no `run`: there is no process to start", job.step().id),
            true,
        ));
    };
    let Some(product) = product else {
        return Err(failed("the process got no product of its attempt".to_owned(), true));
    };
    let mut program = program(command)?;
    let directory = Path::new(&*job.flow.directory);
    if !job.flow.directory.is_empty() {
        program.current_dir(directory);
    }
    let mut text = serde_json::to_vec(&product)
        .map_err(|error| failed(format!("the product cannot be written as JSON: {error}"), true))?;
    text.push(b'\n');
    let report = ReportFile::new(&product.token, redactor.clone()).map_err(|error| {
        let folder = std::env::temp_dir();
        let cause = format!("cannot create the report file in `{}`: {error}", folder.display());
        stalled_or_deferred(cause, &error)
    })?;
    for name in environment::secret_variables() {
        program.env_remove(name);
    }
    for (name, value) in environment::variables(job, &product, report.path()) {
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = program.spawn().map_err(|error| refused(why_not(&program, directory, &error), &error))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = ProcessGroup::of(child);
    do_not_block(stdin.as_ref())
        .and(do_not_block(stdout.as_ref()))
        .and(do_not_block(stderr.as_ref()))
        .map_err(|error| refused(format!("cannot communicate with the process: {error}"), &error))?;
    let escaped = EscapedProcesses::of([&*product.token]);
    Ok(Started { group, escaped, report, product: text, stdin, stdout, stderr })
}

fn program(command: &ProcessCommand) -> Result<Program, Report> {
    match command {
        ProcessCommand::Argv(argv) => {
            let (name, arguments) = argv
                .split_first()
                .ok_or_else(|| failed("the step's `run` names no program".to_owned(), true))?;
            let mut program = Program::new(name);
            program.args(arguments);
            Ok(program)
        }
        ProcessCommand::Shell(line) => {
            let mut program = Program::new("sh");
            program.arg("-c").arg(line);
            Ok(program)
        }
    }
}

fn do_not_block(pipe: Option<&impl AsFd>) -> io::Result<()> {
    pipe.map_or(Ok(()), |pipe| Ok(ioctl_fionbio(pipe, true)?))
}

/// The end of an attempt whose process did not start: a program that is not there does not appear by itself.
fn refused(cause: String, error: &io::Error) -> Report {
    let for_good = matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename
            | ErrorKind::ArgumentListTooLong
    ) || is_one_of(error, &[Errno::NOEXEC, Errno::LOOP]);
    if for_good { failed(cause, true) } else { stalled_or_deferred(cause, error) }
}

/// Deferred where the system lacks something.
fn stalled_or_deferred(cause: String, error: &io::Error) -> Report {
    let lacking =
        matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
            || is_one_of(error, &[Errno::AGAIN, Errno::MFILE, Errno::NFILE]);
    if lacking { Report::Defer { asked: None, lacking: Some(cause.into()) } } else { failed(cause, false) }
}

fn is_one_of(error: &io::Error, errnos: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| errnos.contains(&errno))
}

fn failed(cause: String, fatal: bool) -> Report {
    Report::Fail { error: Box::new(Error::new(cause)), fatal }
}

/// What is wrong, where, and what to do.
fn why_not(program: &Program, directory: &Path, error: &io::Error) -> String {
    let name = program.get_program().to_string_lossy();
    let given = !directory.as_os_str().is_empty();
    let here =
        if given { format!("`{}`", directory.display()) } else { "the engine's own folder".to_owned() };
    let cannot = format!("cannot start `{name}` in {here}");
    if given && !directory.is_dir() {
        return format!("{cannot}: there is no such folder");
    }
    match error.kind() {
        ErrorKind::NotFound if name.contains('/') => {
            format!("{cannot}: there is no such program, or the interpreter in its `#!` line is missing")
        }
        ErrorKind::NotFound => {
            format!(
                "{cannot}: it is not in PATH; install it, or write its path (`./{name}` if it is in this folder)"
            )
        }
        ErrorKind::PermissionDenied => {
            format!("{cannot}: it is not executable; `chmod +x` makes a file executable")
        }
        _ if is_one_of(error, &[Errno::NOEXEC]) => {
            format!("{cannot}: it is not a program; a script needs a first line such as `#!/bin/sh`")
        }
        _ => format!("{cannot}: {error}"),
    }
}
