//! A batch in single steps, for cases that look at one thing at a time.

use std::sync::Arc;

use unstuck_core::command::Notice;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_core::offer::Offer;
use unstuck_core::time::Time;

use crate::contract::{BatchId, Candidate, Interrupt, Loaded, Locked, NoticeId, Store, StoreError, Wants};

/// Single steps of a batch, of a store that answers at once.
pub trait BatchSteps: Store {
    /// Begins a batch that wants this, and gives what was found.
    fn load(&mut self, wants: &Wants) -> Result<(BatchId, Loaded), StoreError> {
        let asked = self.ask(wants)?;
        let (batch, loaded) = self.loaded().expect("it answers at once");
        assert_eq!(batch, asked, "what is given belongs to the batch that was asked for");
        Ok((batch, loaded?))
    }

    /// Begins a batch that wants nothing yet.
    fn begin(&mut self) -> Result<BatchId, StoreError> {
        self.load(&Wants::default()).map(|(batch, _)| batch)
    }

    fn lock(&mut self, batch: BatchId, runs: &[RunId]) -> Result<Vec<Locked>, StoreError> {
        self.more(batch, runs, &[]).map(|more| more.runs)
    }

    /// What a batch is given that wants this and changes nothing.
    fn look_at(&mut self, wants: &Wants) -> Result<Loaded, StoreError> {
        let (batch, mut loaded) = self.load(wants)?;
        let given = std::mem::take(&mut loaded.runs).into_iter().map(|(_, locked)| locked);
        self.abandon(batch, runs_of(given));
        Ok(loaded)
    }

    fn candidates(&mut self, offers: &[Offer], limit: usize) -> Result<Vec<Candidate>, StoreError> {
        let wants = Wants { offers: offers.to_vec(), claims: limit, ..Wants::default() };
        self.look_at(&wants).map(|loaded| loaded.candidates)
    }

    fn highest_waiting_priority(&mut self, queues: &[Arc<str>]) -> Result<Option<i32>, StoreError> {
        let loaded = self.look_at(&Wants { queues: queues.to_vec(), ..Wants::default() })?;
        Ok(loaded.waiting.into_iter().map(|(_, priority)| priority).max())
    }

    /// Notices that are to be tried at `now`.
    fn due_notices(&mut self, now: Time, limit: usize) -> Result<Vec<(NoticeId, Notice)>, StoreError> {
        self.look_at(&Wants { now, notices: limit, ..Wants::default() }).map(|loaded| loaded.notices)
    }

    /// Those of these runs behind whose notices new ones wait at `now`.
    fn backlog(&mut self, now: Time, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        let wants = Wants { now, runs: runs.to_vec(), notices: usize::MAX, ..Wants::default() };
        self.look_at(&wants).map(|loaded| loaded.backlog)
    }

    fn has_notices_about(&mut self, runs: &[RunId]) -> Result<bool, StoreError> {
        let loaded = self.look_at(&Wants { about: runs.to_vec(), ..Wants::default() })?;
        Ok(!loaded.noticed.is_empty())
    }

    fn interrupts(&mut self) -> Result<Vec<Interrupt>, StoreError> {
        self.look_at(&Wants::default()).map(|loaded| loaded.interrupts)
    }
}

impl<S: Store> BatchSteps for S {}

/// The runs among what was given.
pub fn runs_of(locked: impl IntoIterator<Item = Locked>) -> Vec<Run> {
    let runs = locked.into_iter().filter_map(|locked| match locked {
        Locked::Here(run) => Some(*run),
        Locked::Absent | Locked::Busy | Locked::Damaged(_) => None,
    });
    runs.collect()
}
