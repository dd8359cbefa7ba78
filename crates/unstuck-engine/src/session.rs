//! The session of an engine on its store: what those before it left behind, how it is kept, and the time in which nobody took
//! answers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use unstuck_core::downtime::{Downtime, record_downtime, shift_downtimes};
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::session::{renewal_deadline, renewal_interval, subtract_other_servers};
use unstuck_core::time::{Millis, Time};
use unstuck_store::contract::{EndedSession, NewSession, Session, Store, StoreError};

use crate::engine::STORE_RETRY;
use crate::executor::LeftOver;
use crate::request::Request;
use crate::token::Signer;

/// Shorter than this, nobody has noticed.
const SHORTEST_DOWNTIME: Millis = Millis(500);

/// What an engine knows of its own session.
pub(crate) struct EngineSession {
    /// Which session of the store this is.
    pub(crate) incarnation: u64,
    /// The node bits of its ids.
    pub(crate) node: u16,
    /// How long it lasts without being renewed, if others have sessions too.
    pub(crate) lease: Option<Millis>,
    /// What the clock of the store said when it began, if the store has one.
    pub(crate) store_time: Option<Time>,
    /// When it was last renewed, and when that was last tried, by the clock of this server.
    renewed: Option<Time>,
    tried: Option<Time>,
    /// Makes the tokens of this store.
    pub(crate) signer: Signer,
    /// What the sessions before it left, on this host or elsewhere.
    left: Vec<EndedSession>,
    /// When no server could take answers lately, by the clock of the store.
    pub(crate) downtimes: Vec<Downtime>,
    /// When answers were last taken, if they are not taken now, or have only just been again.
    pub(crate) down_since: Option<Time>,
}

impl EngineSession {
    /// Begins, on a store on which an engine was last alive at `down_since`.
    pub(crate) fn begin(
        store: &mut impl Store,
        new: NewSession,
        down_since: Option<Time>,
    ) -> Result<EngineSession, StoreError> {
        let downtimes = store.downtimes()?;
        let Session { epoch, token_key, incarnation, node, lease, now } = store.open_session(new)?;
        let left = store.ended_sessions()?;
        let signer = Signer::new(token_key, epoch);
        Ok(EngineSession {
            incarnation,
            node,
            lease,
            store_time: now,
            renewed: None,
            tried: None,
            signer,
            left,
            downtimes,
            down_since,
        })
    }

    /// The losses that the sessions before it have left.
    pub(crate) fn first_losses(&self) -> VecDeque<Request> {
        self.left.iter().flat_map(losses).collect()
    }

    /// What an executor of this name left behind on this host.
    pub(crate) fn left_over(&self, worker: &Arc<str>) -> Vec<LeftOver> {
        let here = self.left.iter().filter(|session| session.is_on_this_host);
        let mine = here.flat_map(|session| &session.attempts).filter(|(_, left)| left.name == *worker);
        mine.map(|(attempt, _)| self.left_over_attempt(*attempt)).collect()
    }

    fn left_over_attempt(&self, attempt: AttemptId) -> LeftOver {
        LeftOver { attempt, token: self.signer.sign(attempt) }
    }

    /// What executors of a session that has just been found to have ended left behind, by the name of each.
    pub(crate) fn left_behind(&self, session: &EndedSession) -> BTreeMap<Arc<str>, Vec<LeftOver>> {
        let mut left: BTreeMap<Arc<str>, Vec<LeftOver>> = BTreeMap::new();
        for (attempt, worker) in session.attempts.iter().filter(|_| session.is_on_this_host) {
            left.entry(worker.name.clone()).or_default().push(self.left_over_attempt(*attempt));
        }
        left
    }

    /// When it is to be renewed next: at once in the beginning, and soon where that did not work.
    pub(crate) fn next_renewal(&self) -> Option<Time> {
        let lease = self.lease?;
        let wait = if self.renewed == self.tried { renewal_interval(lease) } else { STORE_RETRY };
        Some(self.tried.map_or(Time(i64::MIN), |tried| tried + wait))
    }

    /// It is tried to renew it now.
    pub(crate) fn try_renewal(&mut self, now: Time) {
        self.tried = Some(now);
        // From then on it is known since when it does not work.
        self.renewed.get_or_insert(now.back(Millis(1)));
    }

    /// That worked.
    pub(crate) fn record_renewal(&mut self) {
        self.renewed = self.tried;
    }

    /// The clock that all go by was set by so many milliseconds, forward or (negative) back.
    pub(crate) fn correct_clock(&mut self, by: i64) {
        shift_downtimes(&mut self.downtimes, by);
        self.down_since = self.down_since.map(|since| since.shifted(by));
    }

    /// The clock of this server was.
    pub(crate) fn correct_own_clock(&mut self, by: i64) {
        for time in [&mut self.renewed, &mut self.tried] {
            *time = time.map(|time| time.shifted(by));
        }
    }

    /// Whether it could not be renewed for so long that what its executors have is to be ended.
    pub(crate) fn must_give_up(&self, now: Time) -> bool {
        let expires = self.lease.zip(self.renewed);
        expires.is_some_and(|(lease, renewed)| now.since(renewed) >= renewal_deadline(lease))
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
    /// know of it, if it is worth it. Another server may have taken answers, the last at `taken`.
    pub(crate) fn end_downtime(&mut self, now: Time, taken: Option<Time>) -> Option<Downtime> {
        let from = self.down_since.take()?;
        let down = subtract_other_servers(Downtime { from, to: now }, taken)?;
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

/// Every attempt that executors of a session had is lost, each with whether its worker had others too.
pub(crate) fn losses(session: &EndedSession) -> Vec<Request> {
    let mut of_worker: HashMap<&Worker, usize> = HashMap::new();
    for (_, worker) in &session.attempts {
        *of_worker.entry(worker).or_default() += 1;
    }
    let loss = |(attempt, worker): &(AttemptId, Worker)| Request::Lost {
        attempt: *attempt,
        with_others: of_worker[worker] > 1,
    };
    session.attempts.iter().map(loss).collect()
}

/// Whether it is worth recording.
pub(crate) fn is_worth_recording(down: &Downtime) -> bool {
    down.to.since(down.from) >= SHORTEST_DOWNTIME
}
