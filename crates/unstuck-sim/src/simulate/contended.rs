//! A store in which somebody else has a run now and then: it cannot be locked, for so many tries.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::Flow;
use unstuck_core::model::run::Run;
use unstuck_core::time::Time;
use unstuck_store::conformance::TestStore;
use unstuck_store::contract::{BatchId, Locked, StoreError};
use unstuck_store::delegate_store;
use unstuck_store::memory::DurableStage;

/// A store beside the runs that somebody else has.
pub(crate) struct Contended<S> {
    inner: S,
    /// How often each cannot be locked.
    busy: BTreeMap<RunId, u32>,
    /// Those that a batch has locked and was not given: they come back with it.
    held: Vec<(BatchId, Run)>,
}

impl<S> Contended<S> {
    /// Nobody has anything yet.
    pub(crate) fn new(inner: S) -> Contended<S> {
        Contended { inner, busy: BTreeMap::new(), held: Vec::new() }
    }

    fn inner(&mut self) -> &mut S {
        &mut self.inner
    }

    fn is_busy(&mut self, run: RunId) -> bool {
        let Some(tries) = self.busy.get_mut(&run) else { return false };
        *tries -= 1;
        if *tries == 0 {
            self.busy.remove(&run);
        }
        true
    }

    /// Keeps back a run that somebody else has.
    fn contend(&mut self, batch: BatchId, run: RunId, locked: &mut Locked) {
        if self.is_busy(run)
            && let Locked::Here(run) = std::mem::replace(locked, Locked::Busy)
        {
            self.held.push((batch, *run));
        }
    }

    /// What was kept back from a batch, which ends.
    fn take_held(&mut self, batch: BatchId) -> Vec<Run> {
        self.held.extract_if(.., |(of, _)| *of == batch).map(|(_, run)| run).collect()
    }
}

delegate_store!([<S: Store>] Contended<S>, inner, but loads {
    fn loaded(&mut self) -> Option<(BatchId, Result<Loaded, StoreError>)> {
        let (batch, mut loaded) = self.inner.loaded()?;
        for (run, locked) in loaded.iter_mut().flat_map(|loaded| &mut loaded.runs) {
            self.contend(batch, *run, locked);
        }
        Some((batch, loaded))
    }

    fn more(&mut self, batch: BatchId, runs: &[RunId], payloads: &[PayloadId]) -> Result<More, StoreError> {
        let mut more = self.inner.more(batch, runs, payloads)?;
        for (run, locked) in runs.iter().zip(&mut more.runs) {
            self.contend(batch, *run, locked);
        }
        Ok(more)
    }

    fn stage(&mut self, batch: BatchId, mut stage: Stage) -> Result<StageId, StoreError> {
        stage.unchanged.append(&mut self.take_held(batch));
        self.inner.stage(batch, stage)
    }

    fn abandon(&mut self, batch: BatchId, mut unchanged: Vec<Run>) {
        unchanged.append(&mut self.take_held(batch));
        self.inner.abandon(batch, unchanged);
    }

    fn rollback(&mut self, batch: BatchId) {
        self.take_held(batch);
        self.inner.rollback(batch);
    }
});

impl<S: TestStore> TestStore for Contended<S> {
    fn reopen(self) -> Contended<S> {
        Contended::new(self.inner.reopen())
    }

    fn make_durable(&mut self, n: usize) {
        self.inner.make_durable(n);
    }

    fn fail_next(&mut self, error: &StoreError) -> usize {
        self.inner.fail_next(error)
    }

    fn refuse_stage(&mut self, error: StoreError) -> bool {
        self.inner.refuse_stage(error)
    }

    fn lose_next_answer(&mut self, happens: bool) -> bool {
        self.inner.lose_next_answer(happens)
    }

    fn keep_next_answer(&mut self) -> bool {
        self.inner.keep_next_answer()
    }

    fn look_up_outcomes(&mut self) -> usize {
        self.inner.look_up_outcomes()
    }

    fn hold_loads(&mut self, holds: bool) -> bool {
        self.inner.hold_loads(holds)
    }

    fn give_newest_load(&mut self) -> bool {
        self.inner.give_newest_load()
    }

    fn has_held_loads(&mut self) -> bool {
        self.inner.has_held_loads()
    }

    fn is_awaiting_disk(&mut self) -> bool {
        self.inner.is_awaiting_disk()
    }

    fn make_busy(&mut self, run: RunId, tries: u32) -> bool {
        self.busy.insert(run, tries.max(1));
        true
    }

    fn new_handle(&mut self) -> Option<Contended<S>> {
        self.inner.new_handle().map(Contended::new)
    }

    fn replace_handle(self) -> Contended<S> {
        Contended::new(self.inner.replace_handle())
    }

    fn set_time(&mut self, now: Time) {
        self.inner.set_time(now);
    }

    fn take_durable(&mut self) -> Vec<DurableStage> {
        self.inner.take_durable()
    }

    fn has_crashed(&self) -> bool {
        self.inner.has_crashed()
    }

    fn look(&mut self, flows: &BTreeMap<FlowId, Arc<Flow>>) {
        self.inner.look(flows);
    }
}

#[cfg(test)]
mod tests {
    use unstuck_core::clock::ClockCorrection;
    use unstuck_core::command::{Command, OnDuplicate};
    use unstuck_core::event::Actor;
    use unstuck_core::json::Json;
    use unstuck_core::model::attempt::Worker;
    use unstuck_core::model::run::Run;
    use unstuck_core::offer::Offer;
    use unstuck_core::time::{Millis, Time};
    use unstuck_engine::engine::Settings;
    use unstuck_engine::request::{Output, Request, StartRun};
    use unstuck_store::contract::{FlowRecord, RunFilter, Store};
    use unstuck_store::memory::MemoryStore;

    use super::*;
    use crate::machine::Machine;

    const FLOWS: &str = "flow: one\nsteps:\n  - {id: a, action: work}\n---\n\
        flow: parent\nsteps:\n  - {id: a, flow: one}\n---\n\
        flow: waits\nsteps:\n  - {id: a, wait: 1m}\n";

    fn machine() -> Machine<Contended<MemoryStore>> {
        let flows = unstuck_flow::load(FLOWS, "test.yaml", "", &|_| false).expect("a good file").flows;
        let known = flows.clone();
        let compile = Box::new(move |record: &FlowRecord| {
            let flow = known.iter().find(|flow| flow.name == record.name).cloned();
            flow.ok_or_else(|| "another flow".to_owned())
        });
        let store = Contended::new(MemoryStore::new());
        let mut machine =
            Machine::start(store, compile, Settings::default(), Time(1_800_000_000_000)).expect("opens");
        for flow in flows {
            machine.engine.put_flow(flow).expect("kept");
        }
        machine
    }

    fn ada() -> Actor {
        Actor::User("ada".into())
    }

    fn start(machine: &mut Machine<Contended<MemoryStore>>, flow: &str) -> Vec<Output> {
        let start = StartRun {
            flow: flow.into(),
            version: None,
            key: None,
            input: Json::NULL,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by: ada(),
        };
        machine.engine.submit(Request::Start { ticket: 1, start });
        work(machine)
    }

    /// Works until there is nothing more to do for a while: what is busy is tried again after a wait that grows.
    fn work(machine: &mut Machine<Contended<MemoryStore>>) -> Vec<Output> {
        let mut outputs = machine.work();
        while let Some(at) = machine.next_at().filter(|at| at.since(machine.now()) < Millis::seconds(1)) {
            machine.set_clock(at);
            outputs.extend(machine.work());
        }
        outputs
    }

    /// The runs that there are, oldest first.
    fn runs(machine: &mut Machine<Contended<MemoryStore>>) -> Vec<Run> {
        let mut runs = machine.engine.store().list(&RunFilter::default(), None, 10).expect("reads");
        runs.reverse();
        runs
    }

    fn register(machine: &mut Machine<Contended<MemoryStore>>) {
        let worker = Worker { name: "w".into(), incarnation: 1, local: true };
        let queues: Arc<[Arc<str>]> = Arc::new(["work".into()]);
        machine.engine.register(Offer { worker, queues, free: 1, max_load: 1 }, false);
    }

    #[test]
    fn an_attempt_of_a_busy_run_is_handed_out_later_and_takes_no_room_until_then() {
        let mut machine = machine();
        start(&mut machine, "one");
        let run = runs(&mut machine)[0].id;
        machine.engine.store().make_busy(run, 3);
        register(&mut machine);
        let outputs = work(&mut machine);
        let handed_out = outputs.iter().filter(|output| matches!(output, Output::Dispatch { .. })).count();
        assert_eq!(handed_out, 1, "{outputs:?}");
    }

    #[test]
    fn a_run_that_is_busy_while_the_clock_is_set_back_is_looked_at_again() {
        for tries in 1..4 {
            let mut machine = machine();
            start(&mut machine, "waits");
            let run = runs(&mut machine)[0].id;
            let from = machine.now();
            let to = from.back(Millis::hours(9));
            machine.engine.store().make_busy(run, tries);
            machine.engine.record_correction(ClockCorrection { from, to });
            machine.set_clock(to);
            work(&mut machine);
            assert_eq!(machine.next_at(), Some(to + Millis::minutes(1)), "busy for {tries} tries");
        }
    }

    #[test]
    fn notices_to_a_busy_run_arrive_all_and_in_order() {
        for tries in 1..8 {
            let mut machine = machine();
            register(&mut machine);
            start(&mut machine, "parent");
            let (parent, child) = (runs(&mut machine)[0].id, runs(&mut machine)[1].id);
            machine.engine.store().make_busy(child, tries);
            let commands = [
                Command::Pause { by: ada(), reason: None },
                Command::Unpause { by: ada() },
                Command::Pause { by: ada(), reason: None },
            ];
            for (ticket, command) in (2..).zip(commands) {
                machine.engine.submit(Request::Command { ticket, run: parent, command });
                machine.engine.step(machine.now());
            }
            work(&mut machine);
            let paused: Vec<bool> = runs(&mut machine).iter().map(|run| run.paused.is_some()).collect();
            assert_eq!(paused, [true, true], "busy for {tries} tries");
            assert!(machine.engine.store().notices(1).expect("reads").is_empty(), "busy for {tries} tries");
        }
    }
}
