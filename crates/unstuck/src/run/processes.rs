//! The local processes of a run, so that they can be ended at once when somebody asks twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use unstuck_core::model::attempt::AttemptId;
use unstuck_engine::executor::process::ProcessExecutor;
use unstuck_engine::executor::{Answers, Executor, Job, LeftOver};

/// The executor of local processes, shared with whoever may have to end them.
#[derive(Clone)]
pub(super) struct Processes {
    executor: Arc<Mutex<ProcessExecutor>>,
    /// The process groups that a stop waits for, during which the executor itself cannot be asked.
    stopping: Arc<Mutex<Option<Vec<u32>>>>,
}

impl Processes {
    pub(super) fn new(max_load: u32) -> Processes {
        let executor = Arc::new(Mutex::new(ProcessExecutor::new(max_load)));
        Processes { executor, stopping: Arc::default() }
    }

    /// Ends them, with all that they have started, without asking them first.
    pub(super) fn kill(&self) {
        for group in self.groups() {
            if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
                // It fails only where nobody is left.
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

impl Processes {
    fn groups(&self) -> Vec<u32> {
        loop {
            if let Some(groups) = lock(&self.stopping).clone() {
                return groups;
            }
            // Whoever has it has it for a moment, or begins to stop it.
            match self.executor.try_lock() {
                Ok(executor) => return groups(&executor),
                Err(TryLockError::Poisoned(executor)) => return groups(&executor.into_inner()),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }
}

impl Executor for Processes {
    fn name(&self) -> Arc<str> {
        lock(&self.executor).name()
    }

    fn queues(&self) -> Vec<Arc<str>> {
        lock(&self.executor).queues()
    }

    fn max_load(&self) -> u32 {
        lock(&self.executor).max_load()
    }

    fn wants_product(&self) -> bool {
        lock(&self.executor).wants_product()
    }

    fn execute(&mut self, job: Job, answers: &Answers) {
        lock(&self.executor).execute(job, answers);
    }

    fn interrupt(&mut self, attempt: AttemptId, why: &str) {
        lock(&self.executor).interrupt(attempt, why);
    }

    fn catch_up(&mut self) {
        // Whoever asks twice to stop need not wait for this.
        let wait = lock(&self.executor).look();
        wait();
    }

    fn clean_up(&mut self, left: &[LeftOver]) {
        lock(&self.executor).clean_up(left);
    }

    fn stop(&mut self) {
        let mut executor = lock(&self.executor);
        *lock(&self.stopping) = Some(groups(&executor));
        executor.stop();
        *lock(&self.stopping) = None;
    }
}

fn groups(executor: &ProcessExecutor) -> Vec<u32> {
    executor.running().into_iter().map(|(_, group)| group).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
