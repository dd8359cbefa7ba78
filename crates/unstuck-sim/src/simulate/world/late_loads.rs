//! What batches ask for comes late and in another order, as from a database on a network: several are under way at once.

use unstuck_core::time::Millis;
use unstuck_store::conformance::TestStore;

use super::{World, WorldEvent};

impl<S: TestStore> World<'_, S> {
    /// Before a step: what it asks for is given at once, or later.
    pub(super) fn hold_loads(&mut self) {
        let holds = !self.is_prompt && self.is_rough && self.chance(40).percent(75);
        if let Some(engine) = self.engine() {
            engine.store().hold_loads(holds);
        }
    }

    /// After it: a batch that waits for what it has asked for is given it some time later.
    pub(super) fn plan_load(&mut self) {
        let Some(engine) = self.engine() else { return };
        let (count, is_held) = (engine.batches_under_way(), engine.store().has_held_loads());
        if count > 1 {
            self.faults.count("several batches under way");
        }
        if !is_held || std::mem::replace(&mut self.nodes[self.here].load_is_planned, true) {
            return;
        }
        self.faults.count("a batch is loaded late");
        let delay = self.chance(41).between(0, 40);
        self.agenda.put(self.now + Millis(delay), WorldEvent::Load(self.here));
    }

    /// One of the batches that wait is given what it has asked for: rather the newest, so that it overtakes.
    pub(super) fn give_load(&mut self) {
        self.nodes[self.here].load_is_planned = false;
        if let Some(engine) = self.engine() {
            engine.store().give_newest_load();
        }
    }

    /// All of them are, and whatever is asked for from now on is given at once. Gives whether it was before.
    pub(super) fn give_loads_at_once(&mut self) -> bool {
        if let Some(engine) = self.engine() {
            while engine.store().give_newest_load() {}
        }
        std::mem::replace(&mut self.is_prompt, true)
    }
}
