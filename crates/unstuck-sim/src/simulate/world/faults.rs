//! What breaks, and how it comes back.

use unstuck_core::time::Millis;
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::StoreError;

use super::{Coming, Process, World};
use crate::machine::Machine;
use crate::simulate::plan::{Crash, Fault, Trouble};
use crate::simulate::promises::Broken;

/// What a store says when it has this trouble.
pub(super) fn error(trouble: Trouble) -> StoreError {
    let why = "so the plan wants it".to_owned();
    match trouble {
        Trouble::Full => StoreError::Full(why),
        Trouble::Away => StoreError::Away(why),
        Trouble::Conflict => StoreError::Conflict(why),
        Trouble::Broken => StoreError::Broken(why),
    }
}

impl<S: TestStore> World<'_, S> {
    /// Something breaks. Where there is nothing to break, nothing is counted.
    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), Broken> {
        let has_fired = match fault {
            Fault::ClockForward(span) => self.set_skew(span, 1),
            Fault::ClockBack(span) => self.set_skew(span, -1),
            Fault::KillWorker { nth, noticed, back, cut_off } => {
                self.some_worker(nth).map(|place| self.kill(place, noticed, back, cut_off)).is_some()
            }
            Fault::Deafen { nth, span } => {
                self.some_worker(nth).map(|place| self.deafen(place, span)).is_some()
            }
            Fault::Release { nth, back } => {
                let count = self.workers.len() as u64;
                let place = usize::try_from(nth % count).unwrap_or(0);
                let is_there = self.workers[place].is_local || self.elsewhere().contains(&place);
                is_there.then(|| self.release(place, back)).is_some()
            }
            _ if !matches!(self.process, Process::Up(_)) => false,
            Fault::Crash { at, down, again } => self.crash_at(at, down, again)?,
            Fault::Stop { down } => self.stop(down)?,
            Fault::RefuseStage(trouble) => self.refuse(trouble),
            Fault::FailStage(trouble) => self.fail(trouble)?,
            Fault::FailHearing(trouble) => self.fail_hearing(trouble),
            Fault::Busy { nth, tries } => self.make_busy(nth, tries),
            Fault::Outage { why, span } => {
                self.outage = Some(why);
                self.agenda.put(self.now + span, Coming::OutageEnds);
                true
            }
            Fault::LongPause(span) => {
                let is_new = self.frozen.is_none();
                if is_new {
                    self.frozen = Some(self.clock());
                    self.agenda.put(self.now + span, Coming::Thaw);
                }
                is_new
            }
        };
        if has_fired && !matches!(fault, Fault::FailHearing(_)) {
            self.faults.count(fault.words());
        }
        Ok(())
    }

    fn set_skew(&mut self, span: Millis, direction: i64) -> bool {
        self.skew += direction * i64::try_from(span.0).unwrap_or(0);
        self.advance(self.now);
        true
    }

    fn some_worker(&self, nth: u64) -> Option<usize> {
        let there = self.elsewhere();
        let place = usize::try_from(nth % there.len().max(1) as u64).unwrap_or(0);
        there.get(place).copied()
    }

    fn deafen(&mut self, place: usize, span: Millis) {
        self.workers[place].is_deaf = true;
        let hears = super::workers::Event::Hears;
        self.agenda.put(self.now + span, Coming::Worker(place, hears));
    }

    fn refuse(&mut self, trouble: Trouble) -> bool {
        self.engine().is_some_and(|engine| engine.store().refuse_stage(error(trouble)))
    }

    /// The oldest stage that is on its way fails.
    fn fail(&mut self, trouble: Trouble) -> Result<bool, Broken> {
        self.stage_something()?;
        Ok(self.engine().is_some_and(|engine| engine.store().fail_next(&error(trouble)) > 0))
    }

    /// A step without a disk: what is in line is on its way afterwards.
    fn stage_something(&mut self) -> Result<(), Broken> {
        if self.frozen.is_none() {
            self.step_once()?;
        }
        Ok(())
    }

    fn crash_at(&mut self, at: Crash, down: Millis, again: u64) -> Result<bool, Broken> {
        match at {
            Crash::BeforeStage => {}
            Crash::Staged(durable) => {
                for _ in 0..=durable {
                    self.stage_something()?;
                }
                let durable = usize::try_from(durable).unwrap_or(0);
                if let Some(engine) = self.engine() {
                    engine.store().make_durable(durable);
                }
            }
            Crash::Untold => {
                self.stage_something()?;
                if let Some(engine) = self.engine() {
                    engine.store().make_durable(usize::MAX);
                }
            }
        }
        self.say(format_args!("the process dies: {at:?}"));
        self.crash(down, again);
        Ok(true)
    }

    /// The process dies now; another one opens the store later, and dies again so many times.
    pub(super) fn crash(&mut self, down: Millis, again: u64) {
        self.promises.time_is(self.clock());
        let process = std::mem::replace(&mut self.process, Process::Changing);
        self.process = match process {
            Process::Up(machine) => Process::Down(machine.engine.into_store().reopen()),
            other => other,
        };
        self.frozen = None;
        self.tickets.clear();
        self.forget_local_attempts();
        self.agenda.retain(|coming| !matches!(coming, Coming::Thaw | Coming::Open(_)));
        self.agenda.put(self.now + down, Coming::Open(again));
    }

    /// A process opens the store.
    pub(super) fn open(&mut self, again: u64) -> Result<(), Broken> {
        let process = std::mem::replace(&mut self.process, Process::Changing);
        let Process::Down(store) = process else {
            self.process = process;
            return Ok(());
        };
        let machine = Machine::start(store, self.compile(), self.settings(), self.clock());
        let machine =
            machine.map_err(|error| super::never_rests(&format!("the store does not open: {error}")))?;
        self.process = Process::Up(machine);
        let now = self.clock();
        self.say(format_args!("the process opens the store"));
        if std::mem::take(&mut self.is_unsure_of_policies) {
            self.tell_policies();
        }
        if let Process::Up(machine) = &mut self.process {
            self.promises.after_crash(&mut machine.engine, now)?;
        }
        self.find_runs();
        self.tell_policies();
        self.offer_all();
        if again > 0 {
            self.faults.count("crash right after the start");
            let at = if again == 1 { Crash::Staged(1) } else { Crash::BeforeStage };
            self.crash_at(at, Millis(again * 100), again - 1)?;
        }
        Ok(())
    }

    /// The process stops in good order: its executors give back what they have, and that is made durable.
    fn stop(&mut self, down: Millis) -> Result<bool, Broken> {
        if self.frozen.is_some() || self.outage.is_some() {
            return Ok(false);
        }
        self.say(format_args!("the process stops"));
        for place in 0..self.workers.len() {
            if self.workers[place].is_local {
                self.release(place, Millis::ZERO);
            }
        }
        if let Some(engine) = self.engine() {
            engine.dismiss_executors();
        }
        self.step()?;
        if let Some(engine) = self.engine() {
            engine.store().make_durable(usize::MAX);
        }
        self.step()?;
        self.crash(down, 0);
        Ok(true)
    }

    /// Somebody steps the engine again, who knows that nobody has.
    pub(super) fn thaw(&mut self) {
        if let Some(since) = self.frozen.take() {
            self.say(format_args!("the process goes on after a long pause"));
            if let Some(engine) = self.engine() {
                engine.was_stopped(since);
            }
        }
    }
}
