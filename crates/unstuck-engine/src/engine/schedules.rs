//! Schedules: they follow the newest versions of their flows, and start runs when they are due, each time once: a run and
//! the schedule that has started it are one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unstuck_core::command::OnDuplicate;
use unstuck_core::decide::Answer;
use unstuck_core::event::Actor;
use unstuck_core::id::{FlowId, RunId, ScheduleId};
use unstuck_core::model::schedule::ScheduleSpec;
use unstuck_core::schedule::{Firing, Schedule, ScheduleCommand, firing_key};
use unstuck_core::thing::Thing;
use unstuck_core::time::Time;
use unstuck_store::contract::{FlowRecord, Store, StoreError};

use super::Engine;
use crate::batch::{Batch, Undecided};
use crate::request::{EngineError, Request, StartRun};

/// What an engine knows of schedules.
#[derive(Default)]
pub(crate) struct EngineSchedules {
    /// The version of the flows that all schedules follow.
    followed: Option<u64>,
    /// Of the runs that schedules which are due have started, whether they have not ended.
    open: FxHashMap<RunId, bool>,
}

/// What came of starting a run for a time.
enum Started {
    Now(RunId),
    Before(RunId),
    Refused(Arc<str>),
    /// The next batch tries again.
    Later,
}

impl<S: Store> Engine<S> {
    /// Flows may have changed: what is scheduled is looked at again.
    pub(crate) fn flows_changed(&mut self) {
        if self.settings.fires_schedules {
            self.more = true;
        }
    }

    /// The clock was set: times that were computed before may be much too late.
    pub(crate) fn schedules_to_follow_again(&mut self) {
        self.schedules.followed = None;
        self.flows_changed();
    }

    /// Looks whether the runs that keep this schedule from starting another have ended, before the batch that fires it.
    pub(crate) fn find_open_runs(&mut self, schedule: &Schedule) -> Result<(), StoreError> {
        for run in &schedule.active {
            let is_open = match self.store.run(*run) {
                Ok(found) => found.is_some_and(|found| !found.is_final()),
                // Whoever has it now does something with it.
                Err(StoreError::Conflict(_)) => true,
                // It cannot be said to have ended.
                Err(StoreError::Damaged(_)) => true,
                Err(error) => return Err(error),
            };
            self.schedules.open.insert(*run, is_open);
        }
        Ok(())
    }

    pub(crate) fn forget_open_runs(&mut self) {
        self.schedules.open.clear();
    }

    /// Makes, changes and removes schedules as the newest versions of flows say, if any may have changed since that was done.
    pub(super) fn follow_flows(&mut self, batch: &mut Batch, requests: &[Request]) -> Result<(), StoreError> {
        let is_asked = || requests.iter().any(|request| matches!(request, Request::Schedule { .. }));
        let flows = self.known.flows;
        if self.schedules.followed == Some(flows) || !(self.settings.fires_schedules || is_asked()) {
            return Ok(());
        }
        let mut wanted = self.find_scheduled()?;
        for schedule in self.store.things()?.iter().filter_map(Thing::schedule) {
            wanted.entry(schedule.id).or_insert((schedule.flow.clone(), Scheduled::Not));
        }
        let now = self.store_time();
        let mut is_done = true;
        for (id, (flow, scheduled)) in wanted {
            let known = match batch.lock_schedule(&mut self.batch_context(), id) {
                Ok(known) => known,
                Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
                Err(Undecided::Busy | Undecided::Lacking | Undecided::Aside | Undecided::Error(_)) => {
                    is_done = false;
                    continue;
                }
            };
            match (known, scheduled) {
                (Some(mut known), Scheduled::By(spec)) => {
                    known.follow(Some(&spec), now);
                    batch.keep_schedule(known);
                }
                (Some(mut known), Scheduled::Not) => {
                    known.follow(None, now);
                    batch.keep_schedule(known);
                }
                (None, Scheduled::By(spec)) => batch.keep_schedule(Schedule::new(id, flow, &spec, now)),
                (None, Scheduled::Not) | (_, Scheduled::Unknown) => {}
            }
        }
        self.schedules.followed = is_done.then_some(flows);
        Ok(())
    }

    /// The flows whose newest version may have a schedule, by the address of that.
    fn find_scheduled(&mut self) -> Result<BTreeMap<ScheduleId, (Arc<str>, Scheduled)>, StoreError> {
        let mut newest: BTreeMap<Arc<str>, (FlowId, Option<FlowRecord>)> = BTreeMap::new();
        for record in self.store.flows(None, usize::MAX)? {
            let (_, known) = newest.entry(record.name.clone()).or_insert((record.id, None));
            if !record.is_deleted {
                *known = Some(record);
            }
        }
        let mut found = BTreeMap::new();
        for (name, (first, newest)) in newest {
            // Most flows have none, and need not be compiled to know that.
            let Some(record) = newest.filter(|record| record.source.contains("\"schedule\"")) else {
                continue;
            };
            let scheduled = match self.flows.get(&mut self.store, record.id) {
                Ok(flow) => flow.schedule.clone().map_or(Scheduled::Not, Scheduled::By),
                Err(EngineError::Store(error)) => return Err(error),
                Err(_) => Scheduled::Unknown,
            };
            found.insert(ScheduleId(first.0), (name, scheduled));
        }
        Ok(found)
    }

    /// Starts the run of a schedule that is due, or says why there is none.
    pub(crate) fn fire_schedule(&mut self, batch: &mut Batch, id: ScheduleId) -> Result<(), StoreError> {
        let mut schedule = match batch.lock_schedule(&mut self.batch_context(), id) {
            Ok(Some(schedule)) => schedule,
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Ok(None) | Err(Undecided::Busy | Undecided::Lacking | Undecided::Aside | Undecided::Error(_)) => {
                return Ok(());
            }
        };
        let now = self.store_time();
        // What another server has fired since is looked at before the next batch.
        let are_known = schedule.active.iter().all(|run| self.schedules.open.contains_key(run));
        if schedule.due().is_none_or(|due| due > now) || !are_known {
            return Ok(());
        }
        let spec = match self.flows.newest(&mut self.store, &schedule.flow) {
            Ok(flow) => flow.schedule.clone(),
            Err(EngineError::UnknownFlow(_)) => None,
            Err(EngineError::Store(error)) => return Err(error),
            Err(error) => {
                schedule.postpone(error.to_string().into(), now);
                batch.keep_schedule(schedule);
                return Ok(());
            }
        };
        schedule.follow(spec.as_deref(), now);
        let open = &self.schedules.open;
        let at = spec
            .as_deref()
            .and_then(|spec| schedule.take_due(spec, |run| open.get(&run).copied().unwrap_or(true), now));
        if let (Some(spec), Some(at)) = (spec, at) {
            match self.start_for(batch, &schedule.flow, &spec, at, Actor::Engine)? {
                Started::Now(run) => schedule.record_fired(&spec, Firing { at, run }, true),
                Started::Before(run) => schedule.record_fired(&spec, Firing { at, run }, false),
                Started::Refused(why) => schedule.record_refused(at, why),
                Started::Later => return Ok(()),
            }
        }
        batch.keep_schedule(schedule);
        Ok(())
    }

    /// Starts the run for a time, which its key makes the only one.
    fn start_for(
        &mut self,
        batch: &mut Batch,
        flow: &Arc<str>,
        spec: &ScheduleSpec,
        at: Time,
        by: Actor,
    ) -> Result<Started, StoreError> {
        let key = firing_key(at);
        let known = batch.run_of_key(flow, &key);
        let known = known.map_or_else(|| self.store.run_of_key(flow, &key), |run| Ok(Some(run)))?;
        if let Some(run) = known {
            return Ok(Started::Before(run));
        }
        let start = StartRun {
            flow: flow.clone(),
            version: None,
            key: Some(key),
            input: spec.input.clone(),
            labels: None,
            priority: 0,
            deadline: None,
            on_duplicate: OnDuplicate::Return,
            home: None,
            by,
        };
        Ok(match self.decide_start(batch, start) {
            Ok(Answer::Started(run)) => Started::Now(run),
            Ok(Answer::Exists(run)) => Started::Before(run),
            Ok(Answer::Done | Answer::Already | Answer::Scheduled(_) | Answer::Unscheduled)
            | Err(Undecided::Busy | Undecided::Lacking | Undecided::Aside) => Started::Later,
            Err(Undecided::Error(EngineError::Store(error))) => return Err(error),
            Err(Undecided::Error(error)) => Started::Refused(error.to_string().into()),
        })
    }

    /// Somebody pauses a schedule, lets it go on, or starts a run of it now.
    pub(super) fn change_schedule(
        &mut self,
        batch: &mut Batch,
        flow: &Arc<str>,
        command: ScheduleCommand,
    ) -> Result<Answer, Undecided> {
        let spec = self.flows.newest(&mut self.store, flow).map_err(Undecided::Error)?.schedule.clone();
        let unscheduled = || Undecided::Error(EngineError::NoSchedule(flow.clone()));
        let (Some(spec), Some(first)) = (spec, self.store.flow_versions(flow)?.into_iter().next()) else {
            return Err(unscheduled());
        };
        let id = ScheduleId(first.id.0);
        let mut schedule = batch.lock_schedule(&mut self.batch_context(), id)?.ok_or_else(unscheduled)?;
        let now = self.store_time();
        let answer = match command {
            ScheduleCommand::Pause { by, reason } => schedule.pause(by, reason, now),
            ScheduleCommand::Unpause => schedule.unpause(&spec, now),
            ScheduleCommand::Fire { by } => match self.start_for(batch, flow, &spec, now, by)? {
                Started::Now(run) => {
                    schedule.record_fired(&spec, Firing { at: now, run }, true);
                    Answer::Started(run)
                }
                Started::Before(run) => Answer::Exists(run),
                Started::Refused(why) => return Err(Undecided::Error(EngineError::NotFired(why))),
                Started::Later => return Err(Undecided::Busy),
            },
        };
        batch.keep_schedule(schedule);
        Ok(answer)
    }
}

/// What the newest version of a flow says.
enum Scheduled {
    By(Arc<ScheduleSpec>),
    Not,
    /// It cannot be used: nothing changes until it can.
    Unknown,
}
