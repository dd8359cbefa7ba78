//! The watch over one process: feeds it, listens to it, ends it when asked, and tells how it ended.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ChildStdin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unstuck_core::command::Report;
use unstuck_core::json::Json;
use unstuck_core::model::log::AttemptLog;
use unstuck_core::time::Millis;

use super::LastReport;
use super::control::{StopRequest, WatchControl};
use super::group::{await_exit, has_exited};
use super::output::{Stderr, Stdout};
use super::result::{ProcessResult, report_of_result};
use super::start::{Started, start};
use crate::executor::{Job, ReportSink};
use crate::secrets::{Redactor, StreamRedactor};

/// From `SIGTERM` to `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);
/// How long pipes are read that others hold open after the process has exited and its group was ended.
const AFTERMATH: Duration = Duration::from_secs(2);
/// How often the report is looked at, where the step asks for no more.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// What one read takes at most: what a pipe holds.
const PIECE: usize = 64 * 1024;

/// Carries an attempt out, from the start of its process until its group is no more.
pub(super) fn carry_out(
    job: &mut Job,
    redactor: &Redactor,
    control: &Arc<WatchControl>,
    wakes: UnixStream,
    answers: &ReportSink,
) -> LastReport {
    match control.stop_requested() {
        StopRequest::Nothing => {
            if let Some(token) = job.token() {
                control.starting(&token);
            }
            match start(job, redactor) {
                Ok(started) => watch_process(started, (job, redactor), control, wakes, answers),
                Err(says) => {
                    tracing::debug!("process not started");
                    LastReport::Says(says)
                }
            }
        }
        StopRequest::Stop => LastReport::Says(Report::Release),
        StopRequest::Interrupt => LastReport::Freed,
    }
}

fn watch_process(
    started: Started,
    (job, redactor): (&Job, &Redactor),
    control: &Arc<WatchControl>,
    wakes: UnixStream,
    answers: &ReportSink,
) -> LastReport {
    let leader = started.group.leader();
    tracing::debug!(pid = leader.as_raw_nonzero().get(), "process started");
    control.started(u32::try_from(leader.as_raw_nonzero().get()).unwrap_or(0));
    let notified = Arc::clone(control);
    let waiter = thread::Builder::new().name("unstuck-exit".to_owned()).stack_size(64 * 1024);
    let waiting = waiter.spawn(move || {
        await_exit(leader);
        notified.exited();
    });
    if let Err(error) = waiting {
        // Dropping `started` ends the process.
        let lacking = Some(format!("no thread to watch the process: {error}").into());
        return LastReport::Says(Report::Defer { asked: None, lacking });
    }
    let mut watch = ProcessWatch::new(started, (job, redactor), control, wakes, answers);
    watch.until_ended();
    watch.finish()
}

struct ProcessWatch<'a> {
    job: &'a Job,
    control: &'a WatchControl,
    wakes: UnixStream,
    answers: &'a ReportSink,
    started: Started,
    /// How much of the product the process has.
    fed: usize,
    stdout: Stdout,
    stderr: Stderr,
    /// What keeps secrets out of both.
    redactors: (StreamRedactor, StreamRedactor),
    report_every: Duration,
    report_at: Instant,
    exited_at: Option<Instant>,
    /// Set once the group was asked to end: when it is killed.
    kill_at: Option<Instant>,
    killed: bool,
    /// Up to which time of asking it has looked.
    looked: u64,
}

/// What can be worth a look.
#[derive(Clone, Copy)]
enum Source {
    Wakes,
    Stdin,
    Stdout,
    Stderr,
}

impl<'a> ProcessWatch<'a> {
    fn new(
        started: Started,
        (job, redactor): (&'a Job, &Redactor),
        control: &'a WatchControl,
        wakes: UnixStream,
        answers: &'a ReportSink,
    ) -> ProcessWatch<'a> {
        let lease = job.step().limits.heartbeat_timeout.map(Millis::duration);
        let report_every = lease.map_or(REPORT_EVERY, |lease| (lease / 3).min(REPORT_EVERY));
        ProcessWatch {
            job,
            control,
            wakes,
            answers,
            started,
            fed: 0,
            stdout: Stdout::new(),
            stderr: Stderr::new(),
            redactors: (redactor.stream(), redactor.stream()),
            report_every: report_every.max(Duration::from_millis(5)),
            report_at: Instant::now() + report_every,
            exited_at: None,
            kill_at: None,
            killed: false,
            looked: 0,
        }
    }

    fn until_ended(&mut self) {
        let mut buffer = vec![0; PIECE];
        loop {
            self.react();
            if self.has_ended() {
                return;
            }
            for source in self.wait() {
                self.handle_source(source, &mut buffer);
            }
        }
    }

    /// Reacts to the exit, to what was asked, and to the time.
    fn react(&mut self) {
        let now = Instant::now();
        let look = self.control.looks();
        if look > self.looked {
            // The thread that waits for the exit may not have come to it yet.
            if self.exited_at.is_none() && has_exited(self.started.group.leader()) {
                self.control.exited();
            }
            self.report_at = now;
        }
        if self.exited_at.is_none() && self.control.has_exited() {
            self.exited_at = Some(now);
            self.started.stdin = None;
            if self.kill_at.is_none() {
                // What it leaves running in its group ends with it.
                self.kill();
            }
        }
        let unwanted = self.control.stop_requested() != StopRequest::Nothing;
        if unwanted && self.exited_at.is_none() && self.kill_at.is_none() {
            // Whoever has left the group is found while the one that started it still lives.
            self.started.escaped.remember_descendants(self.started.group.leader());
            tracing::debug!("process asked to end (SIGTERM)");
            self.started.group.terminate();
            self.started.escaped.terminate();
            self.kill_at = Some(now + GRACE);
        }
        if self.kill_at.is_some_and(|kill_at| kill_at <= now) && !self.killed {
            self.kill();
        }
        if self.report_at <= now {
            let heard = self.started.report.follow();
            self.report_heartbeat(heard.alive, heard.progress);
            self.report_at = now + self.report_every;
        }
        self.looked = look;
        if self.exited_at.is_none() {
            self.control.looked(look);
        }
    }

    fn kill(&mut self) {
        if self.exited_at.is_none() {
            tracing::debug!("process killed (SIGKILL)");
        }
        self.started.group.kill();
        self.killed = true;
    }

    /// Once the process has exited, its output is read to the end, for a while. A group that was asked to end may use
    /// its time for as long as some of it holds the pipes.
    fn has_ended(&self) -> bool {
        let Some(exited_at) = self.exited_at else { return false };
        let silent = self.started.stdout.is_none() && self.started.stderr.is_none();
        if self.kill_at.is_some() {
            return silent || self.killed;
        }
        let unheard = self.control.stop_requested() == StopRequest::Interrupt;
        silent || unheard || exited_at + AFTERMATH <= Instant::now()
    }

    fn report_heartbeat(&self, alive: bool, progress: Option<Json>) {
        if alive && self.control.stop_requested() == StopRequest::Nothing {
            self.answers.report(self.job.attempt, Report::Heartbeat { progress });
        }
    }

    /// Sleeps until something happens or is due.
    fn wait(&self) -> Vec<Source> {
        let started = &self.started;
        let mut sources: Vec<(Source, BorrowedFd<'_>, PollFlags)> =
            vec![(Source::Wakes, self.wakes.as_fd(), PollFlags::IN)];
        sources.extend(started.stdin.as_ref().map(|pipe| (Source::Stdin, pipe.as_fd(), PollFlags::OUT)));
        sources.extend(started.stdout.as_ref().map(|pipe| (Source::Stdout, pipe.as_fd(), PollFlags::IN)));
        sources.extend(started.stderr.as_ref().map(|pipe| (Source::Stderr, pipe.as_fd(), PollFlags::IN)));
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|(_, pipe, events)| PollFd::from_borrowed_fd(*pipe, *events)).collect();
        let aftermath = self.exited_at.map(|at| at + AFTERMATH);
        let kill_at = self.kill_at.filter(|_| !self.killed);
        let until = [aftermath, kill_at].into_iter().flatten().fold(self.report_at, Instant::min);
        let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        if poll(&mut polled, timeout.as_ref()).is_err() {
            // Interrupted by a signal, or short of memory: look again.
            return Vec::new();
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty());
        sources.iter().zip(ready).filter_map(|((source, ..), ready)| ready.then_some(*source)).collect()
    }

    fn handle_source(&mut self, source: Source, buffer: &mut [u8]) {
        match source {
            Source::Wakes => {
                // What there is to see is in `control`.
                let _ = self.wakes.read(buffer);
            }
            Source::Stdin => {
                write_stdin(&mut self.started.stdin, &self.started.product, &mut self.fed);
                if self.started.stdin.is_none() {
                    self.started.product = Vec::new();
                }
            }
            Source::Stdout => {
                let piece = read_piece(&mut self.started.stdout, buffer);
                self.stdout.add(&self.redactors.0.pass(piece));
            }
            Source::Stderr => {
                let piece = read_piece(&mut self.started.stderr, buffer);
                self.stderr.add(&self.redactors.1.pass(piece));
            }
        }
    }

    /// The group is ended, then what it left is judged.
    fn finish(mut self) -> LastReport {
        self.stdout.add(&self.redactors.0.finish());
        self.stderr.add(&self.redactors.1.finish());
        let ProcessWatch { job, control, answers, started, stdout, stderr, kill_at, .. } = self;
        let Started { group, mut escaped, report, .. } = started;
        let status = group.end();
        match &status {
            Ok(status) => tracing::debug!(%status, "process ended"),
            Err(error) => tracing::warn!(%error, "process ended, and its exit status is unknown"),
        }
        // What a process that ended by itself has left in a session of its own was meant to stay.
        match kill_at {
            Some(kill_at) => escaped.end_by(kill_at),
            None if control.stop_requested() == StopRequest::Interrupt => {
                escaped.end_by(Instant::now() + GRACE);
            }
            None => {}
        }
        let (heard, findings) = report.finish();
        if heard.progress.is_some() && kill_at.is_none() && control.stop_requested() != StopRequest::Interrupt
        {
            answers.report(job.attempt, Report::Heartbeat { progress: heard.progress });
        }
        let log = AttemptLog {
            stderr: stderr.tail(),
            stdout: stdout.tail(),
            ignored: findings.ignored.clone(),
            more_ignored: findings.more_ignored,
        };
        if !log.is_empty() {
            answers.report(job.attempt, Report::Log(Box::new(log)));
        }
        if kill_at.is_some() {
            // Told to end, it may have cut itself short, whatever its exit status.
            return LastReport::Says(Report::Release);
        }
        match status {
            Ok(status) => {
                LastReport::Says(report_of_result(ProcessResult { status, stdout, stderr, findings }))
            }
            // Somebody else has taken the exit status.
            Err(_) => LastReport::Lost,
        }
    }
}

/// Writes what the pipe takes. A process need not read its input, so a broken pipe is no error.
fn write_stdin(stdin: &mut Option<ChildStdin>, product: &[u8], fed: &mut usize) {
    let Some(pipe) = stdin else { return };
    match pipe.write(&product[*fed..]) {
        Ok(count) => *fed += count,
        Err(error) if may_read_again(&error) => return,
        Err(_) => *fed = product.len(),
    }
    if *fed == product.len() {
        *stdin = None;
    }
}

/// Reads a piece, and closes the pipe at its end.
fn read_piece<'b>(pipe: &mut Option<impl Read>, buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(open) = pipe else { return &[] };
    match open.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => return &buffer[..count],
        Err(error) if may_read_again(&error) => {}
        Err(_) => *pipe = None,
    }
    &[]
}

fn may_read_again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
