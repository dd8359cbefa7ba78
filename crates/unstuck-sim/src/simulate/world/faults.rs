//! What breaks, and how it comes back.

use unstuck_core::model::attempt::AttemptId;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::engine::Engine;
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::StoreError;

use super::host::Host;
use super::node::Process;
use super::{World, WorldEvent};
use crate::simulate::plan::{Crash, Fault, StoreFault};
use crate::simulate::promises::Broken;
use crate::simulate::trace::BEGIN;

/// A stop no longer than this may go unnoticed while somebody works for the engine, and while nobody does.
const UNNOTICED: Millis = Millis::seconds(1);
const UNNOTICED_ASLEEP: Millis = Millis(10_500);

/// What a store says when it has this trouble.
pub(super) fn error(trouble: StoreFault) -> StoreError {
    let why = "so the plan wants it".to_owned();
    match trouble {
        StoreFault::Full => StoreError::Full(why),
        StoreFault::Away => StoreError::Away(why),
        StoreFault::Conflict => StoreError::Conflict(why),
        StoreFault::Broken => StoreError::Broken(why),
    }
}

impl<S: TestStore> World<'_, S> {
    /// Something breaks. Where there is nothing to break, nothing is counted.
    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), Broken> {
        let has_fired = match fault {
            Fault::ClockForward(span) => {
                self.set_wall(self.nodes[self.here].skew.saturating_add_unsigned(span.0))
            }
            Fault::ClockBack(span) => {
                self.set_wall(self.nodes[self.here].skew.saturating_sub_unsigned(span.0))
            }
            Fault::ClockRight => self.set_wall(0),
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
                self.go_to(self.workers[place].node);
                is_there.then(|| self.release(place, back)).is_some()
            }
            _ if !matches!(self.nodes[self.here].process, Process::Up(_)) => false,
            Fault::Crash { at, down, again } => self.crash_at(at, down, again)?,
            Fault::Stop { down } => self.stop(down)?,
            Fault::RefuseStage(trouble) => self.refuse(trouble),
            Fault::FailStage(trouble) => self.fail(trouble)?,
            Fault::FailHearing(trouble) => self.fail_hearing(trouble),
            Fault::Busy { nth, tries } => self.make_busy(nth, tries),
            Fault::LoseAnswer(lost) => {
                // It is counted when it is looked up.
                self.nodes[self.here].loses_answer = Some(lost);
                false
            }
            Fault::Outage { why, span } => {
                self.outage = Some(why);
                self.agenda.put(self.now + span, WorldEvent::OutageEnds);
                true
            }
            Fault::LongPause(span) => {
                let is_new = self.is_up();
                if is_new {
                    self.nodes[self.here].frozen = Some(self.now);
                    self.agenda.put(self.now + span, WorldEvent::Thaw(self.here));
                    self.record_silence();
                    self.lose_connections();
                    self.leave_stages();
                }
                is_new
            }
            Fault::FallBehind(span) => {
                let is_new = self.is_up();
                if is_new {
                    self.nodes[self.here].lags_until = self.now + span;
                    self.fall_behind();
                }
                is_new
            }
            Fault::SlowSync(span) => {
                self.slow_until = self.now + span;
                false
            }
        };
        if has_fired && !matches!(fault, Fault::FailHearing(_)) {
            self.faults.count(fault.words());
        }
        Ok(())
    }

    /// Somebody sets the clock on the wall; nobody tells the engine.
    fn set_wall(&mut self, skew: i64) -> bool {
        let is_new = self.nodes[self.here].skew != skew;
        self.nodes[self.here].skew = skew;
        self.set_time(self.now);
        if is_new && !matches!(self.nodes[self.here].process, Process::Up(_)) {
            self.faults.count("clock set while there is no engine");
        }
        is_new
    }

    /// Somebody sets it right.
    pub(super) fn set_wall_right(&mut self) {
        self.set_wall(0);
    }

    fn some_worker(&mut self, nth: u64) -> Option<usize> {
        let there = self.elsewhere();
        let place = usize::try_from(nth % there.len().max(1) as u64).unwrap_or(0);
        let place = there.get(place).copied()?;
        self.go_to(self.workers[place].node);
        Some(place)
    }

    fn deafen(&mut self, place: usize, span: Millis) {
        self.workers[place].is_deaf = true;
        let hears = super::workers::WorkerEvent::Hears;
        self.agenda.put(self.now + span, WorldEvent::Worker(place, hears));
    }

    fn refuse(&mut self, trouble: StoreFault) -> bool {
        self.engine().is_some_and(|engine| engine.store().refuse_stage(error(trouble)))
    }

    /// The oldest stage that is on its way fails.
    fn fail(&mut self, trouble: StoreFault) -> Result<bool, Broken> {
        self.stage_something()?;
        Ok(self.engine().is_some_and(|engine| engine.store().fail_next(&error(trouble)) > 0))
    }

    /// A step without a disk: what is in line is on its way afterwards.
    fn stage_something(&mut self) -> Result<(), Broken> {
        if self.is_up() {
            self.step_once(None)?;
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
        self.collect_durable();
        self.promises.died(self.moment());
        let (here, is_shared) = (self.here, self.is_shared());
        let node = &mut self.nodes[here];
        let process = std::mem::replace(&mut node.process, Process::Changing);
        node.process = match process {
            Process::Up(host) if is_shared => Process::Down(host.engine.into_store().replace_handle()),
            Process::Up(host) => Process::Down(host.engine.into_store().reopen()),
            other => other,
        };
        (node.frozen, node.blocked, node.lags_until) = (None, None, self.now);
        (node.loses_answer, node.load_is_planned) = (None, false);
        self.tickets.retain(|_, (asked, _)| *asked != here);
        self.forget_local_attempts();
        self.agenda.retain(
            |coming| !matches!(coming, WorldEvent::Thaw(node) | WorldEvent::Open(node, _) if *node == here),
        );
        self.agenda.put(self.now + down, WorldEvent::Open(here, again));
        if is_shared {
            self.record_silence();
            self.lose_connections();
            self.leave_stages();
        }
    }

    /// A process opens the store.
    pub(super) fn open(&mut self, again: u64) -> Result<(), Broken> {
        let process = std::mem::replace(&mut self.nodes[self.here].process, Process::Changing);
        let Process::Down(store) = process else {
            self.nodes[self.here].process = process;
            return Ok(());
        };
        let engine = Engine::new(store, self.compile(), self.settings());
        let engine =
            engine.map_err(|error| super::never_rests(&format!("the store does not open: {error}")))?;
        let clocks = self.nodes[self.here].clocks.clone();
        self.nodes[self.here].process = Process::Up(Host::new(engine, clocks));
        let now = self.moment();
        self.say(format_args!("the process opens the store"));
        self.listen();
        self.collect_durable();
        if std::mem::take(&mut self.nodes[self.here].is_unsure_of_policies) {
            self.tell_policies();
        }
        if let Process::Up(host) = &mut self.nodes[self.here].process {
            self.promises.after_crash(&mut host.engine, now)?;
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
        if !self.is_up() || self.outage.is_some() {
            return Ok(false);
        }
        self.say(format_args!("the process stops"));
        for place in 0..self.workers.len() {
            if self.workers[place].is_local && self.workers[place].node == self.here {
                self.release(place, Millis::ZERO);
            }
        }
        if let Some(engine) = self.engine() {
            engine.dismiss_executors();
        }
        let was_prompt = self.give_loads_at_once();
        self.step()?;
        if let Some(engine) = self.engine() {
            engine.store().make_durable(usize::MAX);
        }
        self.step()?;
        if let Some(engine) = self.engine() {
            engine.end_session();
        }
        self.is_prompt = was_prompt;
        self.promises.record_session_end();
        self.crash(down, 0);
        Ok(true)
    }

    /// The process goes on. Whether that is noticed is its own business; where it must be, who watches is told.
    pub(super) fn thaw(&mut self) {
        let Some(since) = self.nodes[self.here].frozen.take() else { return };
        self.say(format_args!("the process goes on after a stop"));
        let (from, to) = (since.since(BEGIN), self.moment().uptime);
        let Some(host) = self.running_host() else { return };
        let is_awaited = host.engine.has_live_workers();
        let unsaid: Vec<(Time, Option<AttemptId>)> =
            host.unsaid.iter().map(|(at, word)| (*at, word.ended_attempt())).collect();
        let unnoticed = if is_awaited { UNNOTICED } else { UNNOTICED_ASLEEP };
        if to.0.saturating_sub(from.0) <= unnoticed.0 {
            return;
        }
        self.faults.count("stopped for seconds");
        if !self.is_shared() {
            self.promises.stopped(from, to);
        }
        for (at, attempt) in unsaid {
            if let Some(attempt) = attempt {
                self.faults.count("work ended in a stop");
                self.promises.had_ended(attempt, at.since(BEGIN));
            }
        }
    }

    /// If stages are on their way to the disk, something will become of them.
    pub(super) fn plan_disk(&mut self) {
        if self.disk_is_planned || !self.awaits_disk() {
            return;
        }
        self.disk_is_planned = true;
        let mut chance = self.chance(8);
        let delay = if chance.percent(60) { 0 } else { chance.between(1, 40) };
        self.agenda.put(self.slow_until.max(self.now + Millis(delay)), WorldEvent::Disk);
    }

    /// The engine waits for its disk, or does not. While that is quick, it is stepped for whatever comes all the same.
    pub(super) fn waits_for_disk(&mut self, waits: bool) {
        if waits && self.slow_until > self.now && self.is_rough && self.awaits_own_disk() {
            self.nodes[self.here].blocked = Some(self.now);
            self.record_silence();
        }
    }

    /// Whether a server that is not stopped has stages on their way to the disk.
    fn awaits_disk(&mut self) -> bool {
        let is_shared = self.is_shared();
        // Who is about to be stepped may have nothing on its way any more.
        let going = self
            .nodes
            .iter_mut()
            .filter(|node| node.frozen.is_none() && !(is_shared && node.step_is_planned));
        going.into_iter().any(|node| node.running_host().is_some_and(awaits_disk))
    }

    /// Whether this server has: it may wait for what a batch has asked for, or for an answer that is lost.
    fn awaits_own_disk(&mut self) -> bool {
        self.running_host().is_some_and(awaits_disk)
    }

    /// Some stages become durable.
    pub(super) fn disk(&mut self) -> Result<(), Broken> {
        self.disk_is_planned = false;
        if self.slow_until > self.now && self.is_rough {
            self.plan_disk();
            return Ok(());
        }
        let mut count = self.chance(9).weighed(&[(60, usize::MAX), (25, 1), (15, 2)]);
        if self.is_shared() && !self.awaits_disk() {
            // What is on its way is of those who are gone or stopped.
            count = usize::MAX;
        }
        self.make_stages_durable(count)
    }

    /// All stages become durable.
    pub(super) fn make_all_durable(&mut self) -> Result<(), Broken> {
        self.make_stages_durable(usize::MAX)
    }

    fn make_stages_durable(&mut self, count: usize) -> Result<(), Broken> {
        match &mut self.watch {
            Some(watch) => watch.make_durable(count),
            None => {
                if let Some(engine) = self.engine() {
                    engine.store().make_durable(count);
                }
            }
        }
        self.collect_durable();
        if count == usize::MAX {
            self.promises.record_orphans(false);
        }
        for place in 0..self.nodes.len() {
            self.go_to(place);
            self.stop_waiting_for_disk()?;
        }
        Ok(())
    }

    /// The disk is there again for a server that waits for it.
    fn stop_waiting_for_disk(&mut self) -> Result<(), Broken> {
        if self.nodes[self.here].frozen.is_some() {
            return Ok(());
        }
        let Some(since) = self.nodes[self.here].blocked.take() else { return Ok(()) };
        self.say(format_args!("the disk is there again"));
        let (from, to) = (since.since(BEGIN), self.moment().uptime);
        if to.0.saturating_sub(from.0) > UNNOTICED.0 {
            self.faults.count("a sync takes seconds");
            if !self.is_shared() {
                self.promises.stopped(from, to);
            }
        }
        let outputs = self.engine().map(Engine::wait).unwrap_or_default();
        self.collect_durable();
        self.hear(outputs)?;
        let Process::Up(host) = &mut self.nodes[self.here].process else { return Ok(()) };
        self.promises.settled_meanwhile(&mut host.engine)
    }
}

fn awaits_disk<S: TestStore>(host: &mut Host<S>) -> bool {
    host.engine.outstanding() > 0 && host.engine.store().is_awaiting_disk()
}
