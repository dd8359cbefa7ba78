//! Schedules in a batch: locked with it, made and changed by the core's decisions, and staged in the next version.

use unstuck_core::id::ScheduleId;
use unstuck_core::schedule::Schedule;
use unstuck_core::thing::{Thing, ThingBody, ThingRef};

use super::{Batch, BatchContext, Undecided};

impl Batch {
    /// A schedule as this batch leaves it; none where there is none.
    pub(crate) fn lock_schedule(
        &mut self,
        tools: &mut BatchContext<'_>,
        id: ScheduleId,
    ) -> Result<Option<Schedule>, Undecided> {
        let address = ThingRef::Schedule(id);
        self.lock_things(tools, &[address])?;
        if self.things.is_busy(address) {
            return Err(Undecided::Busy);
        }
        Ok(self.things.schedule(id).filter(|schedule| !schedule.is_removed).cloned())
    }

    /// Keeps a schedule that this batch has locked as it is from now on, or makes it.
    pub(crate) fn keep_schedule(&mut self, schedule: Schedule) {
        self.things.keep_schedule(schedule);
    }
}

impl super::BatchThings {
    pub(super) fn is_busy(&self, thing: ThingRef) -> bool {
        self.busy.contains(&thing)
    }

    fn schedule(&self, id: ScheduleId) -> Option<&Schedule> {
        let (_, thing) = self.here.get(&ThingRef::Schedule(id))?.as_ref()?;
        thing.schedule()
    }

    fn keep_schedule(&mut self, schedule: Schedule) {
        let address = ThingRef::Schedule(schedule.id);
        // What is not there is as good as removed: its first version follows that.
        let absent = || {
            let body = Schedule { is_removed: true, ..schedule.clone() };
            let thing = Thing { version: 0, body: ThingBody::Schedule(Box::new(body)) };
            (thing.clone(), thing)
        };
        let (_, now) = self.here.entry(address).or_default().get_or_insert_with(absent);
        now.body = ThingBody::Schedule(Box::new(schedule));
    }
}
