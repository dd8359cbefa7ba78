//! Where several servers share a store: the session is renewed, others that have ended lose their attempts, and executors of
//! this one hear what others have decided.

use rustc_hash::FxHashSet;
use unstuck_core::model::attempt::{AttemptId, Worker};
use unstuck_core::time::Time;
use unstuck_store::contract::{Interrupt, Store, StoreError};

use super::Engine;
use crate::request::Output;
use crate::session::losses;

impl<S: Store> Engine<S> {
    /// Whether this is an executor of another session, which may still live.
    pub(super) fn is_elsewhere(&self, worker: &Worker) -> bool {
        self.session.lease.is_some() && worker.local && worker.incarnation != self.session.incarnation
    }

    /// Renews the session when it is time. A server that cannot renew it for too long
    /// stops, as one does that was taken for dead.
    pub(super) fn keep_session(&mut self, outputs: &mut Vec<Output>) {
        if self.session.lease.is_none() || self.stopped.is_some() {
            return;
        }
        let now = self.now;
        let mut kept = Ok(());
        if self.session.next_renewal().is_some_and(|at| at <= now) {
            kept = self.renew_session(outputs);
        }
        match kept {
            Ok(()) => {}
            Err(StoreError::SessionEnded) => self.lose_session(outputs),
            Err(error) if self.session.must_give_up(now) => {
                tracing::error!(%error, "the session cannot be renewed: this server stops");
                self.lose_session(outputs);
            }
            Err(error) => tracing::warn!(%error, "the session was not renewed"),
        }
    }

    fn renew_session(&mut self, outputs: &mut Vec<Output>) -> Result<(), StoreError> {
        self.session.try_renewal(self.now);
        self.store.renew_session()?;
        self.session.record_renewal();
        self.record_alive(self.now);
        for ended in self.store.ended_sessions()? {
            tracing::warn!(incarnation = ended.incarnation, "another server's session has ended");
            for (worker, left) in self.session.left_behind(&ended) {
                outputs.push(Output::CleanUp { worker, left });
            }
            self.inbox.extend(losses(&ended));
        }
        Ok(())
    }

    /// The session is over: what executors of this server have is somebody else's, and nothing it says is believed.
    pub(super) fn lose_session(&mut self, outputs: &mut Vec<Output>) {
        if self.stopped.is_some() {
            return;
        }
        tracing::error!("this server's session has ended");
        // What was about to be handed out when the batch was durable is nobody's to end: that is not known any more.
        let pending: FxHashSet<AttemptId> =
            self.outstanding.iter().flat_map(|batch| &batch.handed_out).map(|(id, _, _)| *id).collect();
        let mine = self.handed_out.iter().filter(|(id, (worker, _))| worker.local && !pending.contains(*id));
        let mut mine: Vec<_> = mine.collect();
        mine.sort_unstable_by_key(|(attempt, _)| **attempt);
        for (attempt, (worker, _)) in mine {
            let why = "this server was taken for dead, and others took over its work".to_owned();
            outputs.push(Output::Interrupt { worker: worker.clone(), attempt: *attempt, why });
        }
        self.stopped = Some(StoreError::SessionEnded);
    }

    /// When the session is to be renewed next, if others have sessions on the same store: where nothing else is to come, this is.
    pub fn next_renewal(&self) -> Option<Time> {
        self.session.next_renewal()
    }

    /// The session ends in good order, after everything that executors had to say is durable.
    pub fn end_session(&mut self) {
        self.store.end_session();
    }
}

pub(super) fn interrupt(Interrupt { worker, attempt, why }: Interrupt) -> Output {
    Output::Interrupt { worker, attempt, why }
}
