//! The switch for all automatic resumes, watched from outside: nothing resumes while it is paused, and what was due by the
//! unpause resumes one after the other, no faster than was asked for.

use unstuck_core::event::UnitFact;
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::ResumedBy;
use unstuck_core::policy::{PoliciesUnpaused, PolicySwitch, SwitchState};
use unstuck_core::time::{Millis, Time};

use super::dues::Due;
use super::{Broken, Promise};

/// Where the switch stood when.
#[derive(Debug, Default)]
pub(super) struct Switch {
    /// Since when, paced.
    stands: Vec<(Time, SwitchPosition)>,
    /// When what had waited was resumed, paced.
    turns: Vec<Time>,
    last: PolicySwitch,
    /// Whoever gives out turns may be dead, and not known to be.
    is_orphaned: bool,
}

/// Where it stands, in paced time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwitchPosition {
    On,
    Paused,
    /// What was due by then resumes at most once in so long.
    Unpaused(Time, Millis),
}

impl Switch {
    /// Somebody has turned it, or something else of the policies was changed.
    pub(super) fn change(&mut self, switch: &PolicySwitch, now: Time) {
        let stand = match &switch.state {
            SwitchState::On => SwitchPosition::On,
            SwitchState::Paused(_) => SwitchPosition::Paused,
            SwitchState::Unpaused(PoliciesUnpaused { at, clock, rate }) => {
                SwitchPosition::Unpaused(at.shifted(clock.saturating_neg()), Millis(1_000 / u64::from(*rate)))
            }
        };
        self.last = switch.clone();
        let (from, before) = self.stands.last().copied().unwrap_or((Time(i64::MIN), SwitchPosition::On));
        if stand != before {
            self.stands.push((now.max(from), stand));
        }
    }

    /// Another engine goes on with it as it stands, and its clock may be behind.
    pub(super) fn restart(&mut self) {
        if let Some((_, last)) = self.stands.pop() {
            self.stands = vec![(Time(i64::MIN), last)];
        }
    }

    /// Turns are given out by one server, which may be dead without anybody knowing it, or is there.
    pub(super) fn set_orphaned(&mut self, is_orphaned: bool) {
        self.is_orphaned = is_orphaned;
    }

    /// As it was acknowledged last.
    pub(super) fn last(&self) -> &PolicySwitch {
        &self.last
    }

    /// A policy resumes only what may resume, in its turn.
    pub(super) fn check(
        &mut self,
        run: RunId,
        waits: Option<Due>,
        fact: &UnitFact,
        at: Time,
    ) -> Result<(), Broken> {
        match (fact, waits) {
            (UnitFact::Resumed { by: ResumedBy::Policy, .. }, Some(Due::After(due))) => {
                self.check_resume(run, due, at)
            }
            _ => Ok(()),
        }
    }

    /// However many servers share the store, there is one pace.
    fn check_resume(&mut self, run: RunId, due: Time, at: Time) -> Result<(), Broken> {
        let stands = self.at(at);
        let waits = |stand: &SwitchPosition| match *stand {
            SwitchPosition::On => None,
            SwitchPosition::Paused => Some(None),
            SwitchPosition::Unpaused(from, span) => (due <= from).then_some(Some(span)),
        };
        let waiting: Vec<Option<Millis>> = stands.iter().filter_map(waits).collect();
        if waiting.len() < stands.len() {
            return Ok(());
        }
        let Some(span) = waiting.into_iter().flatten().min() else {
            let what = format!("a policy resumes it at {at}, and automatic resumes are paused");
            return Err(Broken::of(Promise::PausedPolicies, run, what));
        };
        let near = |other: &&Time| at.since(**other).max(other.since(at)) < span;
        if let Some(other) = self.turns.iter().find(near) {
            let what = format!(
                "a policy resumes it at {at}, another was resumed at {other}: less than {span} apart"
            );
            return Err(Broken::of(Promise::PausedPolicies, run, what));
        }
        self.turns.push(at);
        Ok(())
    }

    /// When a resume that is due then must happen at the latest, if it must.
    pub(super) fn latest(&self, due: Time, now: Time) -> Option<Time> {
        match self.stands.last().map_or(SwitchPosition::On, |(_, stand)| *stand) {
            SwitchPosition::Paused => None,
            SwitchPosition::Unpaused(from, _) if due <= from && self.is_orphaned => None,
            SwitchPosition::Unpaused(from, span) if due <= from => Some(due.max(now) + span + Millis(1)),
            SwitchPosition::On | SwitchPosition::Unpaused(..) => Some(due),
        }
    }

    /// Every position in which it was at some moment of this time.
    fn at(&self, at: Time) -> Vec<SwitchPosition> {
        let later = self.stands.partition_point(|(from, _)| *from <= at);
        let first = self.stands.partition_point(|(from, _)| *from < at);
        let mut stands: Vec<SwitchPosition> =
            self.stands[first..later].iter().map(|(_, stand)| *stand).collect();
        stands.push(first.checked_sub(1).map_or(SwitchPosition::On, |before| self.stands[before].1));
        stands
    }
}
