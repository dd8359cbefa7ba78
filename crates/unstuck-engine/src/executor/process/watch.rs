//! The watch over one process: feeds it, listens to it, ends it when asked, and tells how it ended.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ChildStdin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unstuck_core::command::Says;
use unstuck_core::json::Json;
use unstuck_core::model::log::AttemptLog;
use unstuck_core::time::Millis;

use super::Last;
use super::control::{Asked, Control};
use super::group::{await_exit, has_exited};
use super::output::{Stderr, Stdout};
use super::start::{Started, start};
use super::verdict::{Left, verdict};
use crate::executor::{Answers, Job};

/// From `SIGTERM` to `SIGKILL`.
const GRACE: Duration = Duration::from_secs(2);
/// How long pipes are read that others hold open after the process has exited and its group was ended.
const AFTERMATH: Duration = Duration::from_secs(2);
/// How often the report is looked at, where the step asks for no more.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// What one read takes at most: what a pipe holds.
const PIECE: usize = 64 * 1024;

/// Carries an attempt out, from the start of its process until its group is no more.
pub(super) fn carry_out(job: &mut Job, control: &Arc<Control>, wakes: UnixStream, answers: &Answers) -> Last {
    match control.asked() {
        Asked::Nothing => {
            if let Some(product) = &job.product {
                control.starting(&product.token);
            }
            match start(job) {
                Ok(started) => attend(started, job, control, wakes, answers),
                Err(says) => Last::Says(says),
            }
        }
        Asked::Stop => Last::Says(Says::Release),
        Asked::Interrupt => Last::Freed,
    }
}

fn attend(started: Started, job: &Job, control: &Arc<Control>, wakes: UnixStream, answers: &Answers) -> Last {
    let leader = started.group.leader();
    control.started(u32::try_from(leader.as_raw_nonzero().get()).unwrap_or(0));
    let told = Arc::clone(control);
    let waiter = thread::Builder::new().name("unstuck-exit".to_owned()).stack_size(64 * 1024);
    let waiting = waiter.spawn(move || {
        await_exit(leader);
        told.exited();
    });
    if let Err(error) = waiting {
        // Dropping `started` ends the process.
        let lacking = Some(format!("no thread to watch the process: {error}").into());
        return Last::Says(Says::Defer { asked: None, lacking });
    }
    let mut watch = Watch::new(started, job, control, wakes, answers);
    watch.until_ended();
    watch.tell()
}

struct Watch<'a> {
    job: &'a Job,
    control: &'a Control,
    wakes: UnixStream,
    answers: &'a Answers,
    started: Started,
    /// How much of the product the process has.
    fed: usize,
    stdout: Stdout,
    stderr: Stderr,
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

impl<'a> Watch<'a> {
    fn new(
        started: Started,
        job: &'a Job,
        control: &'a Control,
        wakes: UnixStream,
        answers: &'a Answers,
    ) -> Watch<'a> {
        let lease = job.step().limits.heartbeat_timeout.map(Millis::duration);
        let report_every = lease.map_or(REPORT_EVERY, |lease| (lease / 3).min(REPORT_EVERY));
        Watch {
            job,
            control,
            wakes,
            answers,
            started,
            fed: 0,
            stdout: Stdout::new(),
            stderr: Stderr::new(),
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
            self.notice();
            if self.has_ended() {
                return;
            }
            for source in self.wait() {
                self.attend_to(source, &mut buffer);
            }
        }
    }

    /// Reacts to the exit, to what was asked, and to the time.
    fn notice(&mut self) {
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
        let unwanted = self.control.asked() != Asked::Nothing;
        if unwanted && self.exited_at.is_none() && self.kill_at.is_none() {
            // Whoever has left the group is found while the one that started it still lives.
            self.started.escaped.remember_descendants(self.started.group.leader());
            self.started.group.terminate();
            self.started.escaped.terminate();
            self.kill_at = Some(now + GRACE);
        }
        if self.kill_at.is_some_and(|kill_at| kill_at <= now) && !self.killed {
            self.kill();
        }
        if self.report_at <= now {
            let heard = self.started.report.follow();
            self.pass_on(heard.alive, heard.progress);
            self.report_at = now + self.report_every;
        }
        self.looked = look;
        if self.exited_at.is_none() {
            self.control.looked(look);
        }
    }

    fn kill(&mut self) {
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
        let unheard = self.control.asked() == Asked::Interrupt;
        silent || unheard || exited_at + AFTERMATH <= Instant::now()
    }

    fn pass_on(&self, alive: bool, progress: Option<Json>) {
        if alive && self.control.asked() == Asked::Nothing {
            self.answers.say(self.job.attempt, Says::Heartbeat { progress });
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

    fn attend_to(&mut self, source: Source, buffer: &mut [u8]) {
        match source {
            Source::Wakes => {
                // What there is to see is in `control`.
                let _ = self.wakes.read(buffer);
            }
            Source::Stdin => {
                feed(&mut self.started.stdin, &self.started.product, &mut self.fed);
                if self.started.stdin.is_none() {
                    self.started.product = Vec::new();
                }
            }
            Source::Stdout => self.stdout.add(hear(&mut self.started.stdout, buffer)),
            Source::Stderr => self.stderr.add(hear(&mut self.started.stderr, buffer)),
        }
    }

    /// The group is ended, then what it left is judged.
    fn tell(self) -> Last {
        let Watch { job, control, answers, started, stdout, stderr, kill_at, .. } = self;
        let Started { group, mut escaped, report, .. } = started;
        let status = group.end();
        // What a process that ended by itself has left in a session of its own was meant to stay.
        match kill_at {
            Some(kill_at) => escaped.end_by(kill_at),
            None if control.asked() == Asked::Interrupt => escaped.end_by(Instant::now() + GRACE),
            None => {}
        }
        let (heard, findings) = report.finish();
        if heard.progress.is_some() && kill_at.is_none() && control.asked() != Asked::Interrupt {
            answers.say(job.attempt, Says::Heartbeat { progress: heard.progress });
        }
        let log = AttemptLog {
            stderr: stderr.tail(),
            stdout: stdout.tail(),
            ignored: findings.ignored.clone(),
            more_ignored: findings.more_ignored,
        };
        if !log.is_empty() {
            answers.say(job.attempt, Says::Log(Box::new(log)));
        }
        if kill_at.is_some() {
            // Told to end, it may have cut itself short, whatever its exit status.
            return Last::Says(Says::Release);
        }
        match status {
            Ok(status) => Last::Says(verdict(Left { status, stdout, stderr, findings })),
            // Somebody else has taken the exit status.
            Err(_) => Last::Lost,
        }
    }
}

/// Writes what the pipe takes. A process need not read its input, so a broken pipe is no error.
fn feed(stdin: &mut Option<ChildStdin>, product: &[u8], fed: &mut usize) {
    let Some(pipe) = stdin else { return };
    match pipe.write(&product[*fed..]) {
        Ok(count) => *fed += count,
        Err(error) if is_no_end(&error) => return,
        Err(_) => *fed = product.len(),
    }
    if *fed == product.len() {
        *stdin = None;
    }
}

/// Reads a piece, and closes the pipe at its end.
fn hear<'b>(pipe: &mut Option<impl Read>, buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(open) = pipe else { return &[] };
    match open.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => return &buffer[..count],
        Err(error) if is_no_end(&error) => {}
        Err(_) => *pipe = None,
    }
    &[]
}

fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
