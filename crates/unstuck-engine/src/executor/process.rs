//! The executor of local processes: each attempt a process group of its own, and a thread that watches it.

mod control;
mod environment;
mod group;
mod left_over;
mod output;
mod report;
mod result;
mod start;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use unstuck_core::command::Report;
use unstuck_core::model::attempt::AttemptId;
use unstuck_core::model::flow::Kind;

use self::control::{StopRequest, WatchControl};
pub use self::result::own_context;
use super::lock;
use super::{Executor, Job, LeftOver, ReportSink};
use crate::secrets::Secrets;

/// How long it may take to look at all processes. More than what others may hold the pipes of one that has exited.
const LOOK: Duration = Duration::from_secs(5);

/// Carries out the `run` steps of flows.
///
/// A process gets the product on its standard input and says how it went by its exit status, its standard output and
/// the lines that it writes to the file named by `UNSTUCK_REPORT`. It leads a process group: whatever ends it ends the
/// whole group, with `SIGTERM` first and `SIGKILL` two seconds later, and what it leaves running in its group when it
/// exits is ended as well. Where it is ended, rather than exits, so is what it has started outside of its group, as far
/// as that can be found (on Linux, by the token in its environment and by who started it). Being in a group of its own,
/// it does not get the `Ctrl-C` of the engine's terminal.
pub struct ProcessExecutor {
    max_load: u32,
    secrets: Secrets,
    stopped: bool,
    attempts: Arc<Attempts>,
}

/// The attempts that have not had their last word.
#[derive(Default)]
struct Attempts {
    under_way: Mutex<HashMap<AttemptId, Arc<WatchControl>>>,
    ended: Condvar,
}

/// The last word about an attempt.
enum LastReport {
    Says(Report),
    Lost,
    Freed,
}

impl ProcessExecutor {
    /// Takes so much load at once.
    pub fn new(max_load: u32) -> ProcessExecutor {
        ProcessExecutor { max_load, secrets: Secrets::default(), stopped: false, attempts: Arc::default() }
    }

    /// Puts these secrets into the inputs that refer to them.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> ProcessExecutor {
        self.secrets = secrets;
        self
    }

    /// What it takes to kill all that runs, without the executor.
    pub fn killer(&self) -> Killer {
        let under_way = lock(&self.attempts.under_way);
        let groups = under_way.values().filter_map(|control| control.process()).collect();
        let tokens = under_way.values().filter_map(|control| control.token()).collect();
        Killer { groups, tokens }
    }

    /// The attempts whose process runs, and its process id, which is the id of its process group too.
    pub fn running(&self) -> Vec<(AttemptId, u32)> {
        let under_way = lock(&self.attempts.under_way);
        let mut running: Vec<(AttemptId, u32)> =
            under_way.iter().filter_map(|(attempt, control)| Some((*attempt, control.process()?))).collect();
        running.sort_unstable();
        running
    }
}

/// Kills processes with all that they have started, without asking them first.
#[derive(Clone, Debug, Default)]
pub struct Killer {
    groups: Vec<u32>,
    tokens: Vec<String>,
}

impl Killer {
    /// Kills them, and returns when none lives.
    pub fn kill(&self) {
        let mut escaped = left_over::EscapedProcesses::of(self.tokens.iter().map(|token| &**token));
        let groups =
            self.groups.iter().filter_map(|group| i32::try_from(*group).ok().and_then(Pid::from_raw));
        let groups: Vec<Pid> = groups.collect();
        for group in &groups {
            escaped.remember_descendants(*group);
        }
        for group in groups {
            // It fails only where nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        escaped.kill();
        for token in &self.tokens {
            report::remove_left(token);
        }
    }
}

impl Executor for ProcessExecutor {
    fn name(&self) -> Arc<str> {
        "process".into()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        vec![Kind::PROCESS_QUEUE.into()]
    }

    fn max_load(&self) -> u32 {
        self.max_load
    }

    fn wants_product(&self) -> bool {
        true
    }

    fn execute(&mut self, job: Job, answers: &ReportSink) {
        let attempt = job.attempt;
        if self.stopped {
            return answers.report(attempt, Report::Release);
        }
        if let Err(error) = self.spawn_watch(job, answers) {
            let lacking = Some(format!("cannot watch a process: {error}").into());
            answers.report(attempt, Report::Defer { asked: None, lacking });
        }
    }

    fn interrupt(&mut self, attempt: AttemptId, _why: &str) {
        if let Some(control) = lock(&self.attempts.under_way).get(&attempt) {
            control.request_stop(StopRequest::Interrupt);
        }
    }

    fn catch_up(&mut self) {
        self.look_at_all()();
    }

    fn clean_up(&mut self, left: &[LeftOver]) {
        if !left.is_empty() {
            tracing::info!(attempts = left.len(), "ending what an earlier engine left running");
        }
        left_over::end(left.iter().map(|left| &*left.token));
        for left in left {
            report::remove_left(&left.token);
        }
    }

    fn stop(&mut self) {
        self.stopped = true;
        let under_way = lock(&self.attempts.under_way);
        for control in under_way.values() {
            control.request_stop(StopRequest::Stop);
        }
        let waited = self.attempts.ended.wait_while(under_way, |under_way| !under_way.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl ProcessExecutor {
    /// Has every process looked at that is under way. What this gives waits until all are: each that has exited has had
    /// its last word by then.
    pub fn look_at_all(&self) -> impl FnOnce() + use<> {
        let under_way = lock(&self.attempts.under_way);
        let looks: Vec<(Arc<WatchControl>, u64)> =
            under_way.values().map(|control| (Arc::clone(control), control.ask_look())).collect();
        move || {
            let until = Instant::now() + LOOK;
            for (control, look) in looks {
                control.await_look(look, until);
            }
        }
    }

    /// Hands the attempt to a thread of its own: even starting a process can take a while.
    fn spawn_watch(&self, job: Job, answers: &ReportSink) -> io::Result<()> {
        let (control, wakes) = WatchControl::new()?;
        let control = Arc::new(control);
        let leaving = AttemptGuard { attempts: Arc::clone(&self.attempts), attempt: job.attempt };
        lock(&self.attempts.under_way).insert(job.attempt, Arc::clone(&control));
        let (answers, secrets) = (answers.clone(), self.secrets.clone());
        thread::Builder::new().name("unstuck-process".to_owned()).spawn(move || {
            // Dropped after the last word, so that a stop waits for that too.
            let leaving = leaving;
            run_attempt(job, &secrets, &control, wakes, &answers);
            drop(leaving);
        })?;
        Ok(())
    }
}

fn run_attempt(
    mut job: Job,
    secrets: &Secrets,
    control: &Arc<WatchControl>,
    wakes: UnixStream,
    answers: &ReportSink,
) {
    let AttemptId { run, attempt, .. } = job.attempt;
    let _span = tracing::debug_span!("attempt", %run, step = %job.step().id, attempt).entered();
    let mut answers = answers.clone();
    let last = match job.put_in_secrets(secrets) {
        Ok(redactor) => {
            answers = answers.redacted(redactor.clone());
            let carry_out =
                AssertUnwindSafe(|| watch::carry_out(&mut job, &redactor, control, wakes, &answers));
            // Without this, a fault of ours would leave the attempt without a last word.
            catch_unwind(carry_out).unwrap_or(LastReport::Lost)
        }
        Err(says) => LastReport::Says(says),
    };
    control.ended();
    match last {
        // Whatever it came to, the attempt is no longer its own.
        _ if control.stop_requested() == StopRequest::Interrupt => answers.freed(job.attempt),
        LastReport::Freed => answers.freed(job.attempt),
        LastReport::Says(says) => answers.report(job.attempt, says),
        LastReport::Lost => answers.lost(job.attempt),
    }
    control.looked(u64::MAX);
}

/// Strikes the attempt off when its thread ends, or could not start.
struct AttemptGuard {
    attempts: Arc<Attempts>,
    attempt: AttemptId,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        lock(&self.attempts.under_way).remove(&self.attempt);
        self.attempts.ended.notify_all();
    }
}

impl Drop for ProcessExecutor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for ProcessExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessExecutor").field("running", &self.running()).finish_non_exhaustive()
    }
}
