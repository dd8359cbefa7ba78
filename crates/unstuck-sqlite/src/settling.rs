//! What becomes of stages: reports of the writer are taken in, failures start over, and who has parked leaves memory.

use unstuck_store::contract::{Settled, StoreError};

use crate::error::broken_store;
use crate::hot_runs::Residency;
use crate::open;
use crate::store::SqliteStore;
use crate::writer::Patience;
use crate::writer_loop::keep_log;

impl SqliteStore {
    /// Takes the writer's report about one stage. After a failure memory must be loaded again, and one that is not
    /// transient stops the store.
    pub(crate) fn take_settled(&mut self, settled: Settled) {
        match &settled.result {
            Ok(()) => self.durable = settled.stage.0,
            Err(error) => {
                self.must_start_over = true;
                self.full |= matches!(error, StoreError::Full(_));
                if !error.is_transient() {
                    self.stop_after_failure(error.clone());
                }
            }
        }
        self.settled.push(settled);
    }

    /// Stops the store. Memory may show what never became durable, and a later sync that succeeds says nothing about
    /// pages that an earlier one lost.
    pub(crate) fn stop_after_failure(&mut self, error: StoreError) {
        tracing::error!(%error, "the store has stopped");
        keep_log(&self.reader);
        self.readers.published.stop(&error);
        self.broken.get_or_insert(error);
    }

    /// Stops the store if a write outside of stages failed for good; otherwise returns the result.
    pub(crate) fn check_written<T>(&mut self, written: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &written
            && !error.is_transient()
        {
            self.stop_after_failure(error.clone());
        }
        if written.is_ok() {
            // It is durable, and no stage tells of it.
            self.readers.published.watchers.tell();
        }
        written
    }

    /// Waits until everything that was staged has settled: then the file shows what we see. What has failed is gone.
    pub(crate) fn settle_all(&mut self) -> Result<(), StoreError> {
        self.end_reading();
        while let Some(settled) = self.writer.next_settled(Patience::Endless) {
            self.take_settled(settled);
        }
        if self.writer.outstanding() > 0 {
            self.stop_after_failure(broken_store("the writer has stopped"));
        }
        if self.must_start_over {
            self.reload_after_failure();
        }
        self.check_usable()
    }

    /// A stage has failed: whatever was staged on top of it is reported too, and memory shows what is durable.
    pub(crate) fn reload_after_failure(&mut self) {
        self.end_reading();
        while let Some(settled) = self.writer.next_settled(Patience::Endless) {
            self.take_settled(settled);
        }
        tracing::debug!("memory is read again from what is durable");
        self.must_start_over = false;
        self.leaving.clear();
        self.batch = None;
        if self.broken.is_none() {
            match open::load_state(&self.reader) {
                Ok(mut state) => {
                    state.things.fire_schedules_as(&self.state.things);
                    self.state = state;
                    self.versions.downtimes += 1;
                    self.aside.keys().for_each(|run| self.state.set_aside(*run));
                    self.writer.reset();
                }
                Err(error) => self.stop_after_failure(error),
            }
        }
    }

    /// Looks whether there is room again. It is looked for here rather than with the next stage, whose failure would cost
    /// reading all of memory again.
    pub(crate) fn probe_disk_space(&mut self) -> Result<(), StoreError> {
        match self.writer.probe() {
            Ok(()) => {
                tracing::debug!("there is space again");
                self.full = false;
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => self.stop_after_failure(error),
        }
        self.check_usable()
    }

    /// Runs whose rows are in the file leave memory, unless something has happened to them since.
    pub(crate) fn evict_parked_runs(&mut self) {
        while let Some((stage, run, seq)) = self.leaving.front().copied() {
            if stage > self.durable {
                return;
            }
            self.leaving.pop_front();
            let rests = self.state.hot.get(run).is_some_and(|hot| match &hot.run {
                Residency::Here(run) => run.seq == seq && hot.behind_since.is_none(),
                Residency::Out(_) => false,
            });
            if rests {
                tracing::debug!(%run, "run parked");
                self.state.hot.remove(run);
                self.state.timers.park(run);
                self.state.ready.park(run);
            }
        }
        self.state.payloads.trim(self.durable, self.options.payload_bytes);
        self.state.keys.trim(self.durable);
        self.state.calls.trim(self.durable);
        self.state.results.trim(self.durable);
    }
}
