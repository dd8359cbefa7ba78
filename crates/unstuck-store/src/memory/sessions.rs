//! Sessions in memory: who has one, until when, and what each is to be told. All of it is durable at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::Ids;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::session::is_expired;
use unstuck_core::time::{Millis, Time};

use crate::contract::{EndedSession, Interrupt, NewSession, Session, StoreError};

/// The sessions of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    token_key: Option<[u8; 32]>,
    /// The number of the last one.
    last: u64,
    all: BTreeMap<u64, SessionRecord>,
    /// How long one lasts without being renewed; without it, there is one at a time.
    pub(super) lease: Option<Millis>,
    /// What the clock of the store says.
    pub(super) now: Time,
}

#[derive(Clone, Debug)]
struct SessionRecord {
    node: u16,
    host: Arc<str>,
    renewed: Time,
    has_ended: bool,
    /// Who has been given the attempts that its executors had.
    taken_by: Option<u64>,
    interrupts: Vec<Interrupt>,
}

impl Sessions {
    /// Begins a session in place of the handle's session `before`, which ends.
    pub(super) fn open(&mut self, new: NewSession, before: Option<u64>) -> Result<Session, StoreError> {
        self.end(before);
        if self.lease.is_none() {
            self.all.values_mut().for_each(|session| session.has_ended = true);
        }
        self.expire();
        let taken: Vec<u16> = self.live().map(|session| session.node).collect();
        let node = (0..Ids::NODES)
            .find(|node| !taken.contains(node))
            .ok_or_else(|| StoreError::Conflict(format!("{} servers have a session already", taken.len())))?;
        self.last += 1;
        let record = SessionRecord {
            node,
            host: new.host,
            renewed: self.now,
            has_ended: false,
            taken_by: None,
            interrupts: Vec::new(),
        };
        self.all.insert(self.last, record);
        let token_key = *self.token_key.get_or_insert(new.token_key);
        Ok(Session { epoch: 1, token_key, incarnation: self.last, node, lease: self.lease, now: None })
    }

    /// Returns whether a session exists and has not ended.
    pub(super) fn is_live(&self, session: u64) -> bool {
        self.all.get(&session).is_some_and(|session| !session.has_ended)
    }

    /// Returns whether an older session than this is live: only the oldest gives out turns.
    pub(super) fn has_older(&self, session: u64) -> bool {
        self.all.range(..session).any(|(_, older)| !older.has_ended)
    }

    pub(super) fn renew(&mut self, session: u64) {
        let now = self.now;
        if let Some(session) = self.all.get_mut(&session) {
            session.renewed = session.renewed.max(now);
        }
    }

    pub(super) fn end(&mut self, session: Option<u64>) {
        if let Some(session) = session.and_then(|session| self.all.get_mut(&session)) {
            session.has_ended = true;
        }
    }

    /// Ends sessions that were not renewed for a whole lease.
    pub(super) fn expire(&mut self) {
        let Some(lease) = self.lease else { return };
        for session in self.all.values_mut() {
            session.has_ended |= is_expired(session.renewed, lease, self.now);
        }
    }

    /// Groups the attempts of ended sessions by session. Each session is given to one handle, once; one without
    /// attempts left is forgotten.
    pub(super) fn take_ended(
        &mut self,
        me: Option<u64>,
        local_attempts: Vec<(AttemptId, Worker)>,
    ) -> Vec<EndedSession> {
        let mut of_session: BTreeMap<u64, Vec<(AttemptId, Worker)>> = BTreeMap::new();
        for (attempt, worker) in local_attempts {
            if !self.is_live(worker.incarnation) {
                of_session.entry(worker.incarnation).or_default().push((attempt, worker));
            }
        }
        self.all.retain(|incarnation, session| !session.has_ended || of_session.contains_key(incarnation));
        let here = me.and_then(|me| self.all.get(&me)).map(|session| session.host.clone());
        let mut given = Vec::new();
        for (incarnation, attempts) in of_session {
            let record = self.all.get(&incarnation);
            let is_taken = record.and_then(|record| record.taken_by).is_some_and(|by| self.is_live(by));
            if is_taken {
                continue;
            }
            // Of a session that the store knows nothing of, the machine is this one: it is older than machines are known.
            let is_on_this_host = record.is_none_or(|record| Some(&record.host) == here.as_ref());
            if let Some(record) = self.all.get_mut(&incarnation) {
                record.taken_by = me;
            }
            given.push(EndedSession { incarnation, is_on_this_host, attempts });
        }
        given
    }

    /// Leaves word for sessions whose executors have lost an attempt.
    pub(super) fn interrupt(&mut self, interrupts: Vec<Interrupt>) {
        for interrupt in interrupts {
            let session = self.all.get_mut(&interrupt.worker.incarnation);
            if let Some(session) = session.filter(|session| !session.has_ended) {
                session.interrupts.push(interrupt);
            }
        }
    }

    /// Returns, once, which attempts the executors of a session have lost.
    pub(super) fn take_interrupts(&mut self, session: u64) -> Vec<Interrupt> {
        let session = self.all.get_mut(&session);
        session.map(|session| std::mem::take(&mut session.interrupts)).unwrap_or_default()
    }

    fn live(&self) -> impl Iterator<Item = &SessionRecord> {
        self.all.values().filter(|session| !session.has_ended)
    }
}
