//! Who waits for which run: a commit wakes those whose run it changes, and nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use unstuck_core::id::RunId;
use unstuck_store::contract::Cursor;

use crate::app::App;

/// So many events are looked at in one go.
const PAGE: usize = 1_024;
/// The log is read again after this time at the earliest, however much happens in the store.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct RunWaiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    runs: HashMap<RunId, Waiters>,
    /// Whether somebody reads the log for them.
    is_followed: bool,
}

#[derive(Debug, Default)]
struct Waiters {
    count: usize,
    changed: Arc<Notify>,
}

/// One who waits for a run, until it is dropped.
pub(crate) struct RunWaiter {
    app: Arc<App>,
    run: RunId,
    pub(crate) changed: Arc<Notify>,
}

impl RunWaiter {
    /// Waits for a run from now on: what becomes durable after this wakes it.
    pub(crate) fn enter(app: &Arc<App>, run: RunId) -> RunWaiter {
        let mut waiting = app.run_waiters.lock();
        let waiters = waiting.runs.entry(run).or_default();
        waiters.count += 1;
        let changed = waiters.changed.clone();
        let begins = !std::mem::replace(&mut waiting.is_followed, true);
        drop(waiting);
        if begins {
            tokio::spawn(follow_log(app.clone()));
        }
        RunWaiter { app: app.clone(), run, changed }
    }
}

impl Drop for RunWaiter {
    fn drop(&mut self) {
        let mut waiting = self.app.run_waiters.lock();
        if let Some(waiters) = waiting.runs.get_mut(&self.run) {
            waiters.count -= 1;
            if waiters.count == 0 {
                waiting.runs.remove(&self.run);
            }
        }
    }
}

impl RunWaiters {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, runs: impl Iterator<Item = RunId>) {
        let waiting = self.lock();
        for run in runs {
            if let Some(waiters) = waiting.runs.get(&run) {
                waiters.changed.notify_waiters();
            }
        }
    }

    fn wake_all(&self) {
        self.lock().runs.values().for_each(|waiters| waiters.changed.notify_waiters());
    }

    /// Returns whether nobody waits any more, so that the log is read no more.
    fn ends(&self) -> bool {
        let mut waiting = self.lock();
        let is_over = waiting.runs.is_empty();
        waiting.is_followed &= !is_over;
        is_over
    }
}

/// Reads the log for all who wait, for as long as somebody does.
async fn follow_log(app: Arc<App>) {
    let mut commits = app.commits.clone();
    let mut stopping = app.stopping.subscribe();
    let mut cursor: Option<Cursor> = None;
    while !app.run_waiters.ends() {
        commits.mark_unchanged();
        cursor = wake_changed(app.clone(), cursor).await;
        tokio::select! {
            changed = commits.changed() => if changed.is_err() { return app.run_waiters.wake_all() },
            _ = stopping.wait_for(|stops| *stops) => return app.run_waiters.wake_all(),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Wakes those whose runs have changed after the cursor, and returns where the log ends. Where that is not known, all look.
async fn wake_changed(app: Arc<App>, after: Option<Cursor>) -> Option<Cursor> {
    let read = tokio::task::spawn_blocking(move || {
        let Some(mut cursor) = after else {
            let end = app.reader().cursor().ok();
            app.run_waiters.wake_all();
            return end;
        };
        loop {
            let Ok(page) = app.reader().tail(&cursor, PAGE) else {
                app.run_waiters.wake_all();
                return None;
            };
            app.run_waiters.wake(page.events.iter().map(|(run, _)| *run));
            cursor = page.next;
            if page.is_end {
                return Some(cursor);
            }
        }
    });
    read.await.ok().flatten()
}
