//! Waits until a run rests or ends, without asking again and again while nothing happens.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use unstuck_core::id::RunId;
use unstuck_core::model::run::RunState;

use crate::app::App;
use crate::dispatch::{run_blocking, take_turn};
use crate::problem::Problem;
use crate::run_waiters::RunWaiter;

/// A run is looked at again after this time, whether something happened to it or not.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing happens to it by itself at once: it is final, held, in error or paused.
    Rest,
    /// It never changes again.
    Final,
}

impl Until {
    fn is_reached(self, state: RunState) -> bool {
        match state {
            RunState::Completed | RunState::Failed | RunState::Cancelled | RunState::Superseded => true,
            RunState::Error | RunState::Held | RunState::Paused => self == Until::Rest,
            RunState::Queued | RunState::Running | RunState::Waiting => false,
        }
    }
}

/// Waits until the run is as wanted, or is gone, or the time is over, or the server stops.
pub(crate) async fn wait_for_run(
    app: &Arc<App>,
    run: RunId,
    until: Until,
    patience: Duration,
) -> Result<(), Problem> {
    let end = Instant::now() + patience.min(app.settings.limits.longest_wait);
    let mut stopping = app.stopping.subscribe();
    let waiter = RunWaiter::enter(app, run);
    loop {
        // Before it is looked at: what changes after that is told.
        let mut changed = pin!(waiter.changed.notified());
        changed.as_mut().enable();
        let turn = take_turn(app, &app.queries).await?;
        let asked = app.clone();
        let state = run_blocking(turn, move || {
            let found = asked.reader().run(run)?;
            Ok(found.map(|run| run.state()))
        })
        .await?;
        if state.is_none_or(|state| until.is_reached(state)) {
            return Ok(());
        }
        tokio::select! {
            () = &mut changed => {}
            // A run that was forgotten has no event that tells of it.
            () = sleep(BETWEEN_LOOKS) => {}
            () = sleep_until(end) => return Ok(()),
            _ = stopping.wait_for(|stops| *stops) => return Ok(()),
        }
    }
}
