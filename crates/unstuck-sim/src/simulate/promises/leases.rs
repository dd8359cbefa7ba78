//! Leases: nobody is called stuck before a limit has passed in which answers were taken, and nobody is left longer.

use std::collections::{BTreeMap, BTreeSet};

use unstuck_core::command::Report;
use unstuck_core::downtime::Downtime;
use unstuck_core::event::{Actor, Event};
use unstuck_core::model::attempt::{AttemptId, Outcome, StuckLimit, Worker};
use unstuck_core::model::flow::Step;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{AttemptPhase, UnitState};
use unstuck_core::time::{Millis, Time};

use super::recount::Recount;
use super::{Broken, Promise};

/// How long a worker may be silent where its step says nothing.
const LEASE: Millis = Millis::seconds(30);

/// Signs of life, losses, and the times in which there was no engine.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Heartbeats that may not be durable yet, with the session that was told and the least time that its engine can have
    /// heard them at.
    said: Vec<Said>,
    /// Attempts that may have been heard of since the engine was last at rest.
    fresh: BTreeSet<AttemptId>,
    /// The last heartbeat of an attempt that the engine must know of, and the last that it may.
    known: BTreeMap<AttemptId, Time>,
    possible: BTreeMap<AttemptId, Time>,
    /// Attempts whose worker somebody has said is gone.
    gone: BTreeSet<AttemptId>,
    /// Those of them that an engine must have heard of, with its session.
    told_gone: BTreeMap<AttemptId, u64>,
    /// When there was no engine, or none that took answers. Times are paced.
    away: Vec<Downtime>,
    /// When a worker has ended an attempt, and has said so or would have, had it been asked.
    ended: BTreeMap<AttemptId, (u64, Time)>,
}

/// A heartbeat that was told to a session.
#[derive(Debug)]
struct Said {
    attempt: AttemptId,
    session: u64,
    heard: Option<Time>,
}

impl Leases {
    /// A worker says something to the server that has this session.
    pub(super) fn said(&mut self, session: u64, attempt: AttemptId, says: &Report, at: Time) {
        match says {
            Report::Heartbeat { .. } => {
                self.said.push(Said { attempt, session, heard: None });
                self.fresh.insert(attempt);
            }
            Report::Start | Report::Log(_) => {}
            Report::Complete { .. } | Report::Fail { .. } | Report::Defer { .. } | Report::Release => {
                self.had_ended(session, attempt, at);
            }
        }
    }

    /// A worker has ended an attempt, and says so to this session or would, had it been asked.
    pub(super) fn had_ended(&mut self, session: u64, attempt: AttemptId, at: Time) {
        self.ended.entry(attempt).or_insert((session, at));
    }

    /// What a worker has said last was not taken.
    pub(super) fn end_refused(&mut self, attempt: AttemptId) {
        self.ended.remove(&attempt);
    }

    /// Nobody took answers in this time.
    pub(super) fn was_stopped(&mut self, from: Time, to: Time) {
        self.away.push(Downtime { from, to });
    }

    /// The engine was stepped at this time: what is in line is heard now, or later.
    pub(super) fn stepped(&mut self, session: u64, now: Time) {
        for said in self.said.iter_mut().filter(|said| said.session == session) {
            said.heard.get_or_insert(now);
        }
    }

    /// The engine has said that it knows of a heartbeat: the oldest one that it has not said so of.
    pub(super) fn acknowledged(&mut self, session: u64, attempt: AttemptId) {
        if let Some(Said { heard: Some(heard), .. }) = self.take_said(session, attempt) {
            self.know(attempt, heard);
        }
    }

    /// The oldest heartbeat that this session was told of.
    fn take_said(&mut self, session: u64, attempt: AttemptId) -> Option<Said> {
        let is_it = |said: &Said| said.attempt == attempt && said.session == session;
        self.said.iter().position(is_it).map(|place| self.said.remove(place))
    }

    /// The engine has said that it does not take a heartbeat: the oldest one that it has said nothing of.
    pub(super) fn refused(&mut self, session: u64, attempt: AttemptId) {
        self.take_said(session, attempt);
    }

    fn know(&mut self, attempt: AttemptId, heard: Time) {
        let known = self.known.entry(attempt).or_insert(heard);
        *known = heard.max(*known);
    }

    /// Whatever was said so far is taken in and durable.
    pub(super) fn all_known(&mut self, now: Time) {
        for Said { attempt, heard, .. } in std::mem::take(&mut self.said) {
            if let Some(heard) = heard {
                self.know(attempt, heard);
            }
        }
        self.all_possible(now);
    }

    fn all_possible(&mut self, now: Time) {
        for attempt in std::mem::take(&mut self.fresh) {
            self.possible.insert(attempt, now);
        }
    }

    /// Somebody says that the worker of an attempt is gone.
    pub(super) fn lost(&mut self, session: u64, attempt: AttemptId) {
        self.gone.insert(attempt);
        self.told_gone.insert(attempt, session);
    }

    /// The server whose executor has this attempt is dead.
    pub(super) fn lost_with_session(&mut self, attempt: AttemptId) {
        self.gone.insert(attempt);
    }

    /// Whether somebody has said that the worker of an attempt is gone.
    pub(super) fn is_lost(&self, attempt: AttemptId) -> bool {
        self.gone.contains(&attempt)
    }

    /// The attempts whose loss the engine has been told of and must act on.
    pub(super) fn losses_told(&self) -> impl Iterator<Item = AttemptId> {
        self.told_gone.keys().copied()
    }

    /// The server with this session died: what it was told last may have been lost with it.
    pub(super) fn died(&mut self, session: u64, at: Time) {
        self.said.retain(|said| said.session != session);
        self.ended.retain(|_, (told, _)| *told != session);
        self.told_gone.retain(|_, told| *told != session);
        self.all_possible(at);
        // What the others were told they may hear later.
        self.fresh.extend(self.said.iter().map(|said| said.attempt));
    }

    /// The engine died then, and what was said last may have been lost with it.
    pub(super) fn crashed(&mut self, at: Time) {
        self.said.clear();
        self.ended.clear();
        self.told_gone.clear();
        self.all_possible(at);
    }

    /// There was no engine in this time.
    pub(super) fn was_away(&mut self, from: Time, to: Time) {
        // The clock of the next engine may be behind: for that one, what is to come has not been.
        for down in &mut self.away {
            down.to = down.to.min(to);
        }
        self.away.retain(|down| down.from < down.to);
        // Before the first engine there was none to be away; and shorter than a second, nobody has noticed.
        if from > Time(i64::MIN) && to.since(from) >= Millis::seconds(1) {
            self.away.push(Downtime { from, to });
        }
    }

    /// The attempt of this unit ended, as this session has decided: if it was called stuck, was its limit over?
    #[expect(clippy::too_many_arguments, reason = "each is another thing")]
    pub(super) fn check_end(
        &self,
        id: AttemptId,
        before: &Run,
        step: &Step,
        (event, at): (&Event, Time),
        outcome: &Outcome,
        recount: &Recount,
        decided_by: u64,
    ) -> Result<(), Broken> {
        let Some(state) = before.unit(id.unit).map(|unit| &unit.state) else { return Ok(()) };
        let broken =
            |what: String| Err(Broken::of(Promise::Leases, id.run, format!("event {}: {what}", event.seq)));
        if let (UnitState::Ready(_), Outcome::Stalled(error), Actor::Engine) = (state, outcome, &event.by)
            && error.cause.starts_with("no worker took it")
        {
            let Some(limit) = step.limits.queue_timeout else {
                return broken("there is no queueTimeout, and it was over".to_owned());
            };
            return self.check_over("queueTimeout", recount.queued_at, limit, at).or_else(broken);
        }
        let UnitState::Active(live) = state else { return Ok(()) };
        let Some(limit) = stuck_by(outcome, step, &live.doing, &event.by) else { return Ok(()) };
        // What another server was told, this one need not know.
        if let (Some((told, ended)), false) = (self.ended.get(&id), limit == StuckLimit::Gone)
            && (*told, *ended < at) == (decided_by, true)
        {
            return broken(format!("called stuck at {at}, and its worker had ended it at {ended}"));
        }
        let heard = self.known.get(&id).map_or(recount.heard_at, |known| recount.heard_at.max(*known));
        let result = match limit {
            StuckLimit::Gone if self.gone.contains(&id) => Ok(()),
            StuckLimit::Gone => Err("its worker is called gone, and nobody has said so".to_owned()),
            StuckLimit::Start(_) => {
                self.check_over("startTimeout", recount.dequeued_at, step.limits.start_timeout, at)
            }
            StuckLimit::Heartbeat(_) => match lease_of(step, &live.doing) {
                Some(limit) => self.check_over("heartbeatTimeout", heard, limit, at),
                None => Err("it holds its lease as long as it lives, and was called stuck".to_owned()),
            },
            StuckLimit::Total(_) => match step.limits.timeout {
                Some(limit) if recount.started_at + limit <= at => Ok(()),
                Some(limit) => Err(format!("it began at {}, and {limit} is not over", recount.started_at)),
                None => Err("it has no timeout, and was over it".to_owned()),
            },
        };
        result.or_else(broken)
    }

    fn check_over(&self, which: &str, from: Time, limit: Millis, at: Time) -> Result<(), String> {
        if uptime(from, at, &self.away) >= limit {
            return Ok(());
        }
        Err(format!("called over {which} {limit} at {at}, and the last sign of life was at {from}"))
    }

    /// A lease that a sign of life has moved: the attempt that holds it has given one by then.
    pub(super) fn check_moved(
        &self,
        id: AttemptId,
        recount: &Recount,
        moved: Option<Time>,
    ) -> Result<(), Broken> {
        let Some(moved) = moved else { return Ok(()) };
        // Before it has begun, it was heard of when it was handed out.
        let known = recount.heard_at.max(recount.dequeued_at);
        let last = self.possible.get(&id).map_or(known, |heard| known.max(*heard));
        if moved <= last {
            return Ok(());
        }
        let what = format!(
            "the lease of attempt {} of step #{} counts from {moved}, and its last sign of life was at {last}",
            id.attempt, id.unit.step.0
        );
        Err(Broken::of(Promise::Leases, id.run, what))
    }

    /// An attempt under way, in an engine that has nothing more to do now: no limit of it is over.
    pub(super) fn check_live(
        &self,
        id: AttemptId,
        step: &Step,
        doing: &AttemptPhase,
        recount: &Recount,
        downtimes: &[Downtime],
        now: Time,
    ) -> Result<(), Broken> {
        let heard = self.possible.get(&id).map_or(recount.heard_at, |heard| recount.heard_at.max(*heard));
        let total = step.limits.timeout.map(|limit| (recount.started_at, limit, false));
        let limits = match doing {
            AttemptPhase::Dequeued { .. } => {
                [Some((recount.dequeued_at, step.limits.start_timeout, true)), None]
            }
            AttemptPhase::Working { .. } => [lease_of(step, doing).map(|limit| (heard, limit, true)), total],
            AttemptPhase::Child { .. } => [None, total],
        };
        for (from, limit, is_spared) in limits.into_iter().flatten() {
            let passed = if is_spared { uptime(from, now, downtimes) } else { now.since(from) };
            if passed > limit {
                let what = format!(
                    "attempt {} of step #{} is {passed} over the last sign of life at {from}, its limit is {limit}, and \
                     nobody does anything about it",
                    id.attempt, id.unit.step.0
                );
                return Err(Broken::of(Promise::Leases, id.run, what));
            }
        }
        Ok(())
    }
}

/// The time from one moment to another in which somebody took answers. What is in two downtimes counts once: an engine may have been
/// stopped in a time in which, as the next one sees it, nothing was taken anyway.
fn uptime(from: Time, to: Time, away: &[Downtime]) -> Millis {
    let mut away: Vec<Downtime> = away.to_vec();
    away.sort_unstable_by_key(|down| down.from);
    let (mut lost, mut known) = (0, from);
    for down in away {
        lost += down.to.min(to).since(down.from.max(known)).0;
        known = known.max(down.to);
    }
    Millis(to.since(from).0.saturating_sub(lost))
}

fn lease_of(step: &Step, doing: &AttemptPhase) -> Option<Millis> {
    let worker = worker_of(doing)?;
    step.limits.heartbeat_timeout.or(if worker.local { None } else { Some(LEASE) })
}

/// The worker of an attempt, if it is a worker's.
pub(super) fn worker_of(doing: &AttemptPhase) -> Option<&Worker> {
    match doing {
        AttemptPhase::Dequeued { worker, .. } | AttemptPhase::Working { worker, .. } => Some(worker),
        AttemptPhase::Child { .. } => None,
    }
}

/// The limit that an attempt was called stuck by, the last time of `maxStuck` included.
pub(super) fn stuck_by(
    outcome: &Outcome,
    step: &Step,
    doing: &AttemptPhase,
    by: &Actor,
) -> Option<StuckLimit> {
    match outcome {
        Outcome::Stuck(stuck) => Some(stuck.limit),
        Outcome::Failed(error) if *by == Actor::Engine => {
            let text = error.cause.strip_prefix("stuck: ")?;
            if error.found_by.is_some() || worker_of(doing).is_none() {
                return None;
            }
            [
                Some(StuckLimit::Gone),
                Some(StuckLimit::Start(step.limits.start_timeout)),
                lease_of(step, doing).map(StuckLimit::Heartbeat),
                step.limits.timeout.map(StuckLimit::Total),
            ]
            .into_iter()
            .flatten()
            .find(|limit| limit.to_string() == text)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use unstuck_core::id::RunId;
    use unstuck_core::model::flow::StepIndex;
    use unstuck_core::model::unit::UnitRef;

    use super::*;

    /// Seed 633, when answers to commits began to be lost.
    #[test]
    fn a_sign_of_life_may_be_heard_after_another_server_has_died() {
        let unit = UnitRef::step(StepIndex(0));
        let id = AttemptId { run: RunId(1), generation: 1, unit, attempt: 1 };
        let mut leases = Leases::default();
        leases.said(1, id, &Report::Heartbeat { progress: None }, Time(100));
        leases.died(2, Time(100));
        leases.stepped(1, Time(106));
        leases.all_known(Time(110));
        let recount = Recount::default();
        assert_eq!(leases.check_moved(id, &recount, Some(Time(106))), Ok(()));
        assert!(leases.check_moved(id, &recount, Some(Time(111))).is_err(), "nobody has said anything since");
        leases.said(1, id, &Report::Heartbeat { progress: None }, Time(120));
        leases.died(1, Time(120));
        leases.all_known(Time(130));
        assert!(leases.check_moved(id, &recount, Some(Time(126))).is_err(), "it was told to the dead");
    }

    #[test]
    fn only_time_in_which_answers_were_taken_counts() {
        type Span = (i64, i64);
        let cases: [(Span, &[Span], u64); 5] = [
            ((100, 150), &[], 50),
            ((100, 150), &[(10, 90)], 50),
            ((100, 150), &[(120, 130)], 40),
            ((100, 150), &[(50, 130)], 20),
            ((100, 150), &[(110, 120), (140, 900)], 30),
        ];
        for ((from, to), away, wanted) in cases {
            let away: Vec<Downtime> =
                away.iter().map(|(from, to)| Downtime { from: Time(*from), to: Time(*to) }).collect();
            assert_eq!(uptime(Time(from), Time(to), &away), Millis(wanted), "{from} {to} {away:?}");
        }
    }
}
