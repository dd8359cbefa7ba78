//! The local processes of a run, which a second Ctrl-C kills at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use unstuck_core::model::attempt::AttemptId;
use unstuck_engine::executor::process::{Killer, ProcessExecutor};
use unstuck_engine::executor::{Executor, Job, LeftOver, ReportSink};
use unstuck_engine::secrets::Secrets;

/// The executor of local processes, shared with the signal handler that may have to kill them.
#[derive(Clone)]
pub(crate) struct Processes {
    executor: Arc<Mutex<ProcessExecutor>>,
    /// The killer to use while the executor is locked by its own stop.
    stopping: Arc<Mutex<Option<Killer>>>,
}

impl Processes {
    pub(crate) fn new(max_load: u32, secrets: Secrets) -> Processes {
        let executor = ProcessExecutor::new(max_load).with_secrets(secrets);
        let executor = Arc::new(Mutex::new(executor));
        Processes { executor, stopping: Arc::default() }
    }

    /// Kills the processes and everything they have started, without a warning.
    pub(crate) fn kill(&self) {
        self.find_killer().kill();
    }

    /// Returns the killer, from the executor or from its stop under way.
    fn find_killer(&self) -> Killer {
        loop {
            if let Some(killer) = lock(&self.stopping).clone() {
                return killer;
            }
            // Another thread has the lock for a moment, or begins to stop the executor.
            match self.executor.try_lock() {
                Ok(executor) => return executor.killer(),
                Err(TryLockError::Poisoned(executor)) => return executor.into_inner().killer(),
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

    fn execute(&mut self, job: Job, answers: &ReportSink) {
        lock(&self.executor).execute(job, answers);
    }

    fn interrupt(&mut self, attempt: AttemptId, why: &str) {
        lock(&self.executor).interrupt(attempt, why);
    }

    fn catch_up(&mut self) {
        // Waits without the lock, so that a second Ctrl-C is not delayed.
        let wait = lock(&self.executor).look_at_all();
        wait();
    }

    fn clean_up(&mut self, left: &[LeftOver]) {
        lock(&self.executor).clean_up(left);
    }

    fn stop(&mut self) {
        let mut executor = lock(&self.executor);
        *lock(&self.stopping) = Some(executor.killer());
        executor.stop();
        *lock(&self.stopping) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
