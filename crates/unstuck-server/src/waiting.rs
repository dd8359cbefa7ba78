//! Waits until a run rests or ends, without asking again and again while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use unstuck_core::id::RunId;
use unstuck_core::model::run::RunState;

use crate::app::App;
use crate::dispatch::{run_blocking, take_turn};
use crate::problem::Problem;

/// A run is looked at again after this time at the earliest, however much happens in the store.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

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
    let (mut commits, mut stopping) = (app.commits.clone(), app.stopping.subscribe());
    loop {
        commits.mark_unchanged();
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
        let woken = tokio::select! {
            woken = timeout_at(end, commits.changed()) => woken.is_ok(),
            _ = stopping.wait_for(|stops| *stops) => false,
        };
        if !woken {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS.min(end.saturating_duration_since(Instant::now()))).await;
    }
}
