//! Several servers: who is here, what one hears of the others, who takes answers, and workers that go to another one.

use std::sync::atomic::Ordering;

use unstuck_core::model::attempt::Worker;
use unstuck_core::time::{Millis, Time};
use unstuck_engine::drive::Drive as _;
use unstuck_engine::engine::NextStep;
use unstuck_engine::request::Request;
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::Store;

use super::host::Host;
use super::node::{Node, Process};
use super::workers::{SimulatedWorker, WorkerEvent};
use super::{World, WorldEvent};
use crate::simulate::plan::Plan;
use crate::simulate::promises::Broken;
use crate::simulate::trace::BEGIN;

/// A server that sleeps wakes up at least as often as it renews its session: shorter than this, it may not notice that it was
/// stopped.
const UNNOTICED: Millis = Millis::seconds(4);
/// Whoever was taken for dead is known to be after this.
pub(super) const SESSION_IS_OVER: Millis = Millis::seconds(40);

/// The servers of a plan on this store, as many as can share it, and a handle of nobody's.
pub(super) fn of_plan<S: TestStore>(plan: &Plan, mut store: S) -> (Vec<Node<S>>, Option<S>) {
    let mut handles = Vec::new();
    for _ in 1..plan.nodes.len() {
        handles.extend(store.new_handle());
    }
    let mut watch = if handles.is_empty() { None } else { store.new_handle() };
    if let Some(watch) = &mut watch {
        watch.set_time(BEGIN);
        watch.take_durable();
    }
    let hosts = plan.nodes.iter().map(|node| node.host.clone());
    let stores = std::iter::once(store).chain(handles);
    (stores.zip(hosts).map(|(store, host)| Node::new(store, host)).collect(), watch)
}

/// The workers of a plan: those of a server are at every server.
pub(super) fn workers_of(plan: &Plan, count: usize) -> Vec<SimulatedWorker> {
    let mut workers = Vec::new();
    for planned in &plan.workers {
        if planned.local {
            workers.extend((0..count).map(|node| SimulatedWorker::new(planned, node)));
        } else {
            workers.push(SimulatedWorker::new(planned, planned.node % count));
        }
    }
    workers
}

impl<S: Store> Node<S> {
    /// When it has something to do, if nothing comes.
    pub(super) fn due(&mut self, now: Time) -> Option<Time> {
        let (is_up, is_planned) = (self.is_up(), self.step_is_planned);
        self.running_host().filter(|_| is_up)?.due(now, is_planned)
    }
}

impl<S: Store> Host<S> {
    /// The same, where it may be that nothing but its session keeps it awake.
    pub(super) fn due_but_renewal(&mut self, at: Time) -> Option<Time> {
        match self.engine.next_renewal() {
            // What is due may be busy: then it is tried again after the renewal, and not at once.
            Some(renewal)
                if renewal == at && self.engine.trouble().is_none() && !self.engine.waits_for_locks() =>
            {
                let due = self.engine.store().next_due().ok().flatten();
                due.map(|due| self.engine.to_own_time(due))
            }
            _ => Some(at),
        }
    }
}

impl<S: TestStore> World<'_, S> {
    /// What follows is about this server.
    pub(super) fn go_to(&mut self, place: usize) {
        self.here = place;
        self.promises.go_to(place);
    }

    /// Somebody asks this server, or another one where it does not answer; what breaks, breaks where it was to.
    pub(super) fn go_to_asked(&mut self, planned: usize, is_fault: bool) {
        let count = self.nodes.len();
        let places = (0..count).map(|next| (planned + next) % count);
        let place = places.into_iter().find(|place| is_fault || self.nodes[*place].is_up());
        self.go_to(place.unwrap_or(planned % count));
    }

    /// Whether several servers share the store.
    pub(super) fn is_shared(&self) -> bool {
        self.watch.is_some()
    }

    /// Steps every server that has something to do now.
    pub(super) fn step_due(&mut self) -> Result<(), Broken> {
        for place in 0..self.nodes.len() {
            let now = self.now;
            if !self.is_shared() || self.nodes[place].due(now).is_some_and(|at| at <= now) {
                self.go_to(place);
                self.step()?;
            }
        }
        self.pass_news();
        Ok(())
    }

    /// Steps each server, or lets more come in before.
    pub(super) fn step_all_sometime(&mut self) -> Result<(), Broken> {
        for place in 0..self.nodes.len() {
            self.go_to(place);
            self.step_sometime()?;
        }
        self.pass_news();
        Ok(())
    }

    /// Whoever is told that another server has changed something looks at it soon; now and then nobody is told.
    pub(super) fn pass_news(&mut self) {
        if !self.is_shared() {
            return;
        }
        let here = self.here;
        for place in 0..self.nodes.len() {
            let node = &mut self.nodes[place];
            if !node.is_up() || !node.take_news() {
                continue;
            }
            self.here = place;
            let mut chance = self.chance(19);
            let is_told = !self.is_rough || chance.percent(85);
            let node = &mut self.nodes[place];
            if let (true, Some(host)) = (is_told, node.running_host()) {
                host.engine.look_again();
                if !std::mem::replace(&mut node.step_is_planned, true) {
                    self.agenda.put(self.now + Millis(chance.between(0, 30)), WorldEvent::Step(place));
                }
            }
        }
        self.go_to(here);
    }

    /// A server that has opened the store is told what others do.
    pub(super) fn listen(&mut self) {
        let node = &mut self.nodes[self.here];
        let news = node.news.clone();
        if let Some(host) = node.running_host() {
            host.engine.store().on_news(Box::new(move || news.store(true, Ordering::Relaxed)));
        }
    }

    /// Who watches is told what has become durable.
    pub(super) fn collect_durable(&mut self) {
        if let Some(watch) = &mut self.watch {
            self.promises.record_durable(watch.take_durable());
        }
    }

    /// A server has gone, or is stopped: there may be none that takes answers.
    pub(super) fn record_silence(&mut self) {
        if self.is_shared() && !self.nodes.iter().any(Node::is_up) {
            self.unanswered_since.get_or_insert(self.now);
        }
    }

    /// A server has taken answers.
    pub(super) fn record_answers(&mut self) {
        let Some(since) = self.unanswered_since.take() else { return };
        if self.now.since(since) > UNNOTICED {
            self.faults.count("no server takes answers");
            self.promises.stopped(since.since(BEGIN), self.now.since(BEGIN));
        }
    }

    /// Whether another server has a run that this one was to do something about.
    pub(super) fn count_busy(&mut self) {
        if self.is_shared() && self.engine().is_some_and(|engine| engine.waits_for_locks()) {
            self.faults.count("a run that another server has");
        }
    }

    /// The process gets to its work late, and again.
    pub(super) fn fall_behind(&mut self) {
        let delay = Millis(self.chance(20).between(300, 2_500));
        self.nodes[self.here].frozen = Some(self.now);
        self.agenda.put(self.now + delay, WorldEvent::Thaw(self.here));
        self.record_silence();
        self.leave_stages();
    }

    /// What this server has staged becomes durable without it.
    pub(super) fn leave_stages(&mut self) {
        if self.is_shared() {
            self.promises.record_orphans(true);
            self.agenda.put(self.now + Millis(self.chance(31).between(0, 60)), WorldEvent::Disk);
        }
    }

    /// Whoever is connected to this server looks for another one, some time after it answers no more.
    pub(super) fn lose_connections(&mut self) {
        if !self.is_shared() {
            return;
        }
        for place in 0..self.workers.len() {
            if !self.workers[place].is_local && self.workers[place].node == self.here {
                let mut chance = self.chance(21 + place as u64);
                let at = self.now + Millis(chance.between(200, 15_000));
                self.agenda.put(at, WorldEvent::Worker(place, WorkerEvent::Moves));
            }
        }
    }

    /// A worker goes to another server, with all that it has, if its own does not answer.
    pub(super) fn move_worker(&mut self, place: usize) {
        if self.workers[place].is_local || self.nodes[self.workers[place].node].is_up() {
            return;
        }
        let up: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up()).collect();
        let Some(node) = up.get(self.chance(30 + place as u64).below(up.len())).copied() else {
            let at = self.now + Millis::seconds(3);
            self.agenda.put(at, WorldEvent::Worker(place, WorkerEvent::Moves));
            return;
        };
        self.faults.count("a worker goes to another server");
        let who = self.workers[place].worker();
        if let Some(host) = self.running_host() {
            host.engine.dismiss(&who);
        }
        self.workers[place].node = node;
        self.go_to(node);
        self.say(format_args!("  {} comes to this server", who.name));
        self.offer_if_there(place);
    }

    /// A worker says something to the server that it is connected to, whichever has answered it.
    pub(super) fn tell_server_of(&mut self, place: usize, request: Request) {
        let (here, node) = (self.here, self.workers[place].node);
        self.go_to(node);
        self.ask(request);
        if node != here && !std::mem::replace(&mut self.nodes[node].step_is_planned, true) {
            self.agenda.put(self.now, WorldEvent::Step(node));
        }
        self.go_to(here);
    }

    /// The place of a worker that this server speaks of: its own executors have the names of others'.
    pub(super) fn place_of(&self, who: &Worker) -> Option<usize> {
        let here = self.here;
        self.workers
            .iter()
            .position(|worker| worker.name == who.name && (!worker.is_local || worker.node == here))
    }

    /// A time in which nothing happens but that servers renew their sessions goes by at once.
    pub(super) fn fast_forward(&mut self, to: Time) {
        self.set_time(to);
        let now = self.now;
        for node in self.nodes.iter_mut().filter(|node| node.is_up()) {
            let Some(host) = node.running_host() else { continue };
            // Whoever has a session can renew it.
            let _ = host.engine.store().renew_session();
            host.timer().wake();
            host.go_to_sleep(now);
        }
        self.promises.record_renewals(self.moment());
    }

    /// Whether each server that is there has nothing to do but to renew its session.
    pub(super) fn is_asleep(&mut self) -> bool {
        self.nodes.iter_mut().all(|node| match &mut node.process {
            Process::Up(host) => {
                matches!(host.engine.next_step(), NextStep::At(_) | NextStep::Idle) && host.mailbox.is_empty()
            }
            Process::Down(_) | Process::Changing => true,
        })
    }
}
