//! One session of an engine on its store: what the one before left behind, and the time in which nobody took answers.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

use unstuck_core::downtime::{Downtime, record_downtime};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::time::{Millis, Time};
use unstuck_store::contract::{Store, StoreError};

use crate::executor::LeftOver;
use crate::request::Request;
use crate::token::Signer;

/// Shorter than this, nobody has noticed.
const SHORTEST_DOWNTIME: Millis = Millis(500);

/// What an engine knows of its own session.
pub(crate) struct EngineSession {
    /// Which start of an engine this is.
    pub(crate) incarnation: u64,
    /// Makes the tokens of this store.
    pub(crate) signer: Signer,
    /// The attempts that executors of an earlier engine had, with their workers.
    left: Vec<(AttemptId, Worker)>,
    /// When it could not take answers lately.
    pub(crate) downtimes: Vec<Downtime>,
    /// When answers were last taken, if they are not taken now, or have only just been again.
    pub(crate) down_since: Option<Time>,
}

impl EngineSession {
    /// Begins, on a store on which an engine was last alive at `down_since`.
    pub(crate) fn begin(
        store: &mut impl Store,
        fresh_key: [u8; 32],
        down_since: Option<Time>,
    ) -> Result<EngineSession, StoreError> {
        let left = store.local_attempts()?;
        let downtimes = store.downtimes()?;
        let session = store.open_session(fresh_key)?;
        let signer = Signer::new(session.token_key, session.epoch);
        Ok(EngineSession { incarnation: session.incarnation, signer, left, downtimes, down_since })
    }

    /// The loss of every worker of the engine before: each had some attempts, or one.
    pub(crate) fn losses(&self) -> VecDeque<Request> {
        let mut of_worker: HashMap<&Worker, usize> = HashMap::new();
        for (_, worker) in &self.left {
            *of_worker.entry(worker).or_default() += 1;
        }
        let loss = |(attempt, worker): &(AttemptId, Worker)| Request::Lost {
            attempt: *attempt,
            with_others: of_worker[worker] > 1,
        };
        self.left.iter().map(loss).collect()
    }

    /// What an executor of this name left behind.
    pub(crate) fn left_over(&self, worker: &Arc<str>) -> Vec<LeftOver> {
        let mine = self.left.iter().filter(|(_, left)| left.name == *worker);
        mine.map(|(attempt, _)| LeftOver { attempt: *attempt, token: self.signer.sign(*attempt) }).collect()
    }

    /// Whether there is a time without answers that is not recorded yet. Whoever follows must find its beginning.
    pub(crate) fn is_down(&self) -> bool {
        self.down_since.is_some()
    }

    /// Since `from`, no answers are taken.
    pub(crate) fn begin_downtime(&mut self, from: Time) {
        self.down_since.get_or_insert(from);
    }

    /// Answers may be taken again: the time since they were, until it is known whether they are. Decisions from now on
    /// know of it, if it is worth it.
    pub(crate) fn end_downtime(&mut self, now: Time) -> Option<Downtime> {
        let from = self.down_since.take()?;
        let down = Downtime { from, to: now };
        if is_worth_recording(&down) {
            tracing::info!(
                ms = down.to.since(down.from).0,
                "no reports were taken for a while; no limit counts that time"
            );
            record_downtime(&mut self.downtimes, down);
        }
        Some(down)
    }

    /// It could not be recorded: it is not over.
    pub(crate) fn restore_downtime(&mut self, down: Option<Downtime>) {
        if let Some(down) = down {
            self.downtimes.retain(|known| *known != down);
            self.down_since = Some(down.from.min(self.down_since.unwrap_or(down.from)));
        }
    }
}

/// Whether it is worth recording.
pub(crate) fn is_worth_recording(down: &Downtime) -> bool {
    down.to.since(down.from) >= SHORTEST_DOWNTIME
}
