//! Commits whose answers are lost: nobody knows whether they happened, until that is looked up.

use unstuck_core::time::Millis;
use unstuck_store::conformance::TestStore;

use super::node::Process;
use super::{World, WorldEvent};
use crate::simulate::plan::{Fault, LostAnswer};
use crate::simulate::promises::Broken;

/// How long nobody is there after a process has died that did not know.
const DOWN: Millis = Millis::seconds(2);

impl<S: TestStore> World<'_, S> {
    /// Before a step: if the answer to what it stages is to be lost, the store is told.
    pub(super) fn lose_answer(&mut self) {
        let node = &mut self.nodes[self.here];
        node.loses_answer = node.loses_answer.filter(|_| self.is_rough);
        if let (Some(lost), Process::Up(host)) = (node.loses_answer, &mut node.process) {
            host.engine.store().lose_next_answer(lost.happens);
        }
    }

    /// After it: if one was lost, it is looked up some time later.
    pub(super) fn plan_look_up(&mut self) {
        let (here, now) = (self.here, self.now);
        let node = &mut self.nodes[here];
        let (Some(lost), Process::Up(host)) = (node.loses_answer, &mut node.process) else { return };
        if host.engine.store().keep_next_answer() {
            return;
        }
        node.loses_answer = None;
        self.say(format_args!("  the answer to a commit is lost: {lost:?}"));
        self.agenda.put(now + lost.span, WorldEvent::LookUp(lost));
        if let Some(dies) = lost.dies {
            self.agenda.put(now + dies, WorldEvent::DiesUnknowing(here));
        }
    }

    /// It is looked up what became of all that nobody knows of. What is committed is durable by then.
    pub(super) fn look_up_outcomes(&mut self, lost: LostAnswer) -> Result<(), Broken> {
        if self.slow_until > self.now && self.is_rough {
            self.agenda.put(self.slow_until, WorldEvent::LookUp(lost));
            return Ok(());
        }
        self.make_all_durable()?;
        let found = self.watch.as_mut().map_or(0, TestStore::look_up_outcomes);
        if found > 0 {
            self.faults.count(Fault::LoseAnswer(lost).words());
            self.say(format_args!("it is looked up what became of {found} commits"));
        }
        self.promises.record_look_up();
        Ok(())
    }

    /// The process dies that does not know what became of its commit.
    pub(super) fn die_unknowing(&mut self) {
        if self.is_rough && self.is_up() {
            self.faults.count("crash before a commit is looked up");
            self.say(format_args!("the process dies, and does not know what became of a commit"));
            self.crash(DOWN, 0);
        }
    }
}
