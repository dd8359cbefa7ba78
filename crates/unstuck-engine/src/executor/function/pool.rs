//! The threads that functions are called in: few, started when needed, with a queue before them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use unstuck_core::command::Report;
use unstuck_core::model::attempt::AttemptId;

use super::{Call, Function, call};
use crate::executor::lock;
use crate::executor::{Job, ReportSink};

/// How long a stop waits for functions that are under way. One that goes on for longer is given up on.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A function to call.
pub(super) struct Task {
    pub(super) job: Job,
    pub(super) function: Function,
    pub(super) answers: ReportSink,
}

pub(super) struct Pool {
    max_threads: u32,
    state: Mutex<State>,
    /// Something is in the queue, or the pool closes, or a thread has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    /// Whoever takes an attempt out of here says its last word.
    running: HashMap<AttemptId, Running>,
    threads: u32,
    idle: u32,
    closed: bool,
}

struct Running {
    interrupted: Arc<AtomicBool>,
    /// Whether it was interrupted for its own sake, and not because everything stops.
    lost_its_attempt: bool,
    answers: ReportSink,
}

impl Pool {
    pub(super) fn new(max_load: u32) -> Pool {
        Pool { max_threads: max_load.max(1), state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn add(self: &Arc<Pool>, task: Task) {
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            return task.answers.report(task.job.attempt, Report::Release);
        }
        if state.queue.len() >= state.idle as usize && state.threads < self.max_threads {
            let pool = Arc::clone(self);
            match thread::Builder::new().name("unstuck-function".to_owned()).spawn(move || pool.work()) {
                Ok(_) => state.threads += 1,
                // The threads that there are will come to it.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    drop(state);
                    let lacking = Some(format!("no thread to call the function: {error}").into());
                    return task.answers.report(task.job.attempt, Report::Defer { asked: None, lacking });
                }
            }
        }
        state.queue.push_back(task);
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn interrupt(&self, attempt: AttemptId) {
        let mut state = lock(&self.state);
        if let Some(running) = state.running.get_mut(&attempt) {
            running.lost_its_attempt = true;
            running.interrupted.store(true, Ordering::Release);
        } else if let Some(place) = state.queue.iter().position(|task| task.job.attempt == attempt) {
            let task = state.queue.remove(place);
            drop(state);
            if let Some(task) = task {
                task.answers.freed(attempt);
            }
        }
    }

    /// Tells what is under way to end, and gives back what is not; threads end as they become free.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        for running in state.running.values() {
            running.interrupted.store(true, Ordering::Release);
        }
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        self.changed.notify_all();
        for task in waiting {
            task.answers.report(task.job.attempt, Report::Release);
        }
    }

    /// Closes, and waits until everything has ended. A thread ends after its last word.
    pub(super) fn stop(&self) {
        self.close();
        let busy = |state: &mut State| state.threads > 0;
        let waited = self.changed.wait_timeout_while(lock(&self.state), STOP_GRACE, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let given_up = std::mem::take(&mut state.running);
        drop(state);
        for (attempt, running) in given_up {
            running.answers.lost(attempt);
        }
    }

    fn work(&self) {
        while let Some((task, interrupted)) = self.next() {
            let Task { job, function, answers } = task;
            let attempt = job.attempt;
            let says = call(&function, Call::new(job, &answers, Some(interrupted)));
            let mut state = lock(&self.state);
            let running = state.running.remove(&attempt);
            let closed = state.closed;
            drop(state);
            match running {
                None => {}
                Some(running) if running.lost_its_attempt => answers.freed(attempt),
                // It may have cut itself short when it was told to end.
                Some(_) if closed => answers.report(attempt, Report::Release),
                Some(_) => answers.report(attempt, says),
            }
        }
        lock(&self.state).threads -= 1;
        self.changed.notify_all();
    }

    /// Waits for a task; `None` when the pool is closed.
    fn next(&self) -> Option<(Task, Arc<AtomicBool>)> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(task) = state.queue.pop_front() {
                let interrupted = Arc::new(AtomicBool::new(false));
                let running = Running {
                    interrupted: Arc::clone(&interrupted),
                    lost_its_attempt: false,
                    answers: task.answers.clone(),
                };
                state.running.insert(task.job.attempt, running);
                return Some((task, interrupted));
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}
