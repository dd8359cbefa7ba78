//! The process of the engine: the engine, the real timekeeper on clocks of ours, and what has come and is not taken in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use unstuck_core::time::{Millis, Time};
use unstuck_engine::clock::{EngineTimer, TimeSource, Wake};
use unstuck_engine::drive::{Drive, Rest};
use unstuck_engine::engine::{Engine, NextStep};
use unstuck_engine::executor::ExecutorReport;
use unstuck_engine::request::Request;
use unstuck_store::contract::Store;

use crate::simulate::promises::Moment;

/// The clocks of the machine: one that only goes on, and one that anybody sets.
#[derive(Clone, Debug)]
pub(super) struct Clocks(Arc<(AtomicI64, AtomicU64)>);

impl Clocks {
    pub(super) fn new(wall: Time) -> Clocks {
        Clocks(Arc::new((AtomicI64::new(wall.0), AtomicU64::new(0))))
    }

    pub(super) fn set(&self, moment: Moment) {
        self.0.0.store(moment.wall.0, Ordering::Relaxed);
        self.0.1.store(moment.uptime.0, Ordering::Relaxed);
    }
}

impl TimeSource for Clocks {
    fn wall(&mut self) -> Time {
        Time(self.0.0.load(Ordering::Relaxed))
    }

    fn uptime(&mut self) -> Millis {
        Millis(self.0.1.load(Ordering::Relaxed))
    }
}

/// The process of the engine.
pub(super) struct Host<S> {
    pub(super) engine: Engine<S>,
    keeper: EngineTimer<Clocks>,
    /// What has come and is not taken in.
    pub(super) mailbox: VecDeque<Request>,
    /// What workers beside the engine had to say while nobody passed it on, and since when.
    pub(super) unsaid: Vec<(Time, ExecutorReport)>,
    /// What of that is to be passed on, for who watches.
    pub(super) passed_on: Vec<ExecutorReport>,
    /// When it wakes up by itself, if nothing comes.
    pub(super) wakes_at: Option<Time>,
}

impl<S: Store> Drive for Host<S> {
    type Store = S;
    type Clocks = Clocks;

    fn engine(&mut self) -> &mut Engine<S> {
        &mut self.engine
    }

    fn timer(&mut self) -> &mut EngineTimer<Clocks> {
        &mut self.keeper
    }

    fn collect_ended(&mut self) {
        self.deliver_local_reports();
    }

    fn take_messages(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(request) = self.mailbox.pop_front() else { return true };
            self.engine.submit(request);
        }
        true
    }
}

impl<S: Store> Host<S> {
    pub(super) fn new(engine: Engine<S>, clocks: Clocks) -> Host<S> {
        let keeper = EngineTimer::new(clocks);
        let (mailbox, unsaid, passed_on) = (VecDeque::new(), Vec::new(), Vec::new());
        Host { engine, keeper, mailbox, unsaid, passed_on, wakes_at: None }
    }

    /// Workers beside the engine say what they had to say.
    pub(super) fn deliver_local_reports(&mut self) {
        for (_, word) in self.unsaid.drain(..) {
            self.passed_on.push(word.clone());
            self.mailbox.push_back(Request::Executor(word));
        }
    }

    /// When it has something to do, if nothing comes.
    pub(super) fn due(&mut self, now: Time, is_planned: bool) -> Option<Time> {
        match self.engine.next_step() {
            NextStep::At(at) => {
                let due = self.due_but_renewal(at)?;
                Some(now + due.since(self.keeper.now()))
            }
            NextStep::Now if !is_planned => Some(now),
            NextStep::Now | NextStep::Settling | NextStep::Idle => None,
        }
    }

    /// Goes to sleep, if there is nothing else to do.
    pub(super) fn go_to_sleep(&mut self, now: Time) -> Rest {
        let rest = if self.mailbox.is_empty() { self.next_rest() } else { Rest::Again };
        self.wakes_at = match rest {
            Rest::Sleep(patience) => patience.map(|patience| now + patience),
            Rest::Again | Rest::Settle => None,
        };
        rest
    }

    /// Goes to sleep again, if it was woken for nothing.
    pub(super) fn go_back_to_sleep(&mut self, wake: Wake, now: Time) -> bool {
        let is_nothing = wake.correction.is_none() && wake.down_since.is_none() && self.mailbox.is_empty();
        is_nothing && matches!(self.go_to_sleep(now), Rest::Sleep(patience) if patience != Some(Millis::ZERO))
    }
}
