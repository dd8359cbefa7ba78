//! The switch for all automatic resumes: nothing resumes while they are paused, and what has waited then takes turns.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Actor;
use crate::time::{Millis, Time};

/// Whether policies resume anything. It is kept beside the policies, as a part of the same snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySwitch {
    /// Which change of it this is; 0 where nobody has ever paused.
    pub version: u32,
    /// As it stands.
    pub state: SwitchState,
}

/// Where the switch stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SwitchState {
    /// Nobody has ever paused.
    #[default]
    On,
    /// Nothing resumes automatically.
    Paused(PoliciesPaused),
    /// Automatic resumes happen again.
    Unpaused(PoliciesUnpaused),
}

/// Since when and why nothing resumes automatically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoliciesPaused {
    /// Since then.
    pub since: Time,
    /// Who paused.
    pub by: Actor,
    pub reason: Arc<str>,
}

/// How what has waited resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoliciesUnpaused {
    /// Whatever was due by then takes turns.
    pub at: Time,
    /// What all corrections of the clock had come to by then, in milliseconds.
    pub clock: i64,
    /// At most so many turns a second.
    pub rate: u32,
}

/// What a resume that has come due does, as far as the switch has a say in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueVerdict {
    /// It happens now.
    Resumes,
    /// It happens when it has a turn, of which there are at most so many a second.
    TakesTurn(u32),
    /// It waits until somebody unpauses.
    Waits,
}

impl PolicySwitch {
    /// Since when and why nothing resumes automatically, if so.
    pub fn paused(&self) -> Option<&PoliciesPaused> {
        match &self.state {
            SwitchState::Paused(paused) => Some(paused),
            SwitchState::On | SwitchState::Unpaused(_) => None,
        }
    }

    /// At most so many turns a second are given, where there are turns.
    pub fn rate(&self) -> Option<u32> {
        match &self.state {
            SwitchState::Unpaused(unpaused) => Some(unpaused.rate),
            SwitchState::On | SwitchState::Paused(_) => None,
        }
    }

    /// What a resume that came due at `due` does. `clock` is what all corrections of the clock come to now.
    pub fn judge(&self, due: Time, clock: i64) -> DueVerdict {
        match &self.state {
            SwitchState::On => DueVerdict::Resumes,
            SwitchState::Paused(_) => DueVerdict::Waits,
            SwitchState::Unpaused(PoliciesUnpaused { at, clock: then, rate }) => {
                let has_waited = due <= at.shifted(clock.saturating_sub(*then));
                if has_waited { DueVerdict::TakesTurn(*rate) } else { DueVerdict::Resumes }
            }
        }
    }

    /// Paused, unless it is already.
    pub(crate) fn pause(&self, since: Time, by: Actor, reason: Arc<str>) -> Option<PolicySwitch> {
        let paused = SwitchState::Paused(PoliciesPaused { since, by, reason });
        self.paused().is_none().then(|| self.next(paused))
    }

    /// Unpaused, if it is paused.
    pub(crate) fn unpause(&self, at: Time, clock: i64, rate: u32) -> Option<PolicySwitch> {
        let unpaused = SwitchState::Unpaused(PoliciesUnpaused { at, clock, rate: rate.max(1) });
        self.paused().map(|_| self.next(unpaused))
    }

    fn next(&self, state: SwitchState) -> PolicySwitch {
        PolicySwitch { version: self.version.saturating_add(1), state }
    }
}

/// Hands out turns: at most so many a second, and none in advance for a time in which nobody took any. It is known to one
/// engine only. The first turn of an engine comes after a wait, for another one may just have handed out the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumePacer {
    /// When the last ones were handed out, and how many.
    last: Option<(Time, u32)>,
}

impl ResumePacer {
    /// Takes a turn, if there is one.
    pub fn take(&mut self, now: Time, rate: u32) -> bool {
        let has_turn = self.ready(now, rate) > 0;
        if let (true, Some((at, taken))) = (has_turn, &mut self.last) {
            *taken = if *at + span(rate) <= now { 1 } else { *taken + 1 };
            if *taken == 1 {
                *at = now;
            }
        }
        has_turn
    }

    /// How many turns there are now.
    pub fn ready(&mut self, now: Time, rate: u32) -> u32 {
        let (at, taken) = self.last.get_or_insert((now, u32::MAX));
        // A clock that was set back must not make everything wait until it is as late again.
        if *at > now {
            (*at, *taken) = (now, u32::MAX);
        }
        if *at + span(rate) <= now { at_once(rate) } else { at_once(rate).saturating_sub(*taken) }
    }

    /// When the next turn is, seen from `now`.
    pub fn next(&mut self, now: Time, rate: u32) -> Time {
        if self.ready(now, rate) > 0 {
            return now;
        }
        self.last.map_or(now, |(at, _)| at + span(rate))
    }
}

/// The time between turns. Rounded up: never more than the rate.
fn span(rate: u32) -> Millis {
    Millis(1_000_u64.div_ceil(u64::from(rate.max(1))))
}

/// So many turns are handed out at the same millisecond.
fn at_once(rate: u32) -> u32 {
    (rate / 1_000).max(1)
}
