//! The switch for all automatic resumes: while it is paused nothing resumes; afterwards the resumes that waited take
//! turns.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Actor;
use crate::time::{Millis, Time};

/// Whether policies resume anything. It is kept beside the policies, as a part of the same snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySwitch {
    /// The number of changes; 0 if it was never paused.
    pub version: u32,
    /// As it stands.
    pub state: SwitchState,
}

/// Where the switch stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SwitchState {
    /// It was never paused.
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
    /// Resumes that were due by then take turns.
    pub at: Time,
    /// What all corrections of the clock had come to by then, in milliseconds.
    pub clock: i64,
    /// The highest number of turns per second.
    pub rate: u32,
}

/// What the switch lets a due resume do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueVerdict {
    /// It happens now.
    Resumes,
    /// It happens when it gets a turn; the rate is in turns per second.
    TakesTurn(u32),
    /// It waits until policies are unpaused.
    Waits,
}

impl PolicySwitch {
    /// Returns since when and why automatic resumes are paused, if they are.
    pub fn paused(&self) -> Option<&PoliciesPaused> {
        match &self.state {
            SwitchState::Paused(paused) => Some(paused),
            SwitchState::On | SwitchState::Unpaused(_) => None,
        }
    }

    /// Returns how many turns a second are given, if resumes take turns.
    pub fn rate(&self) -> Option<u32> {
        match &self.state {
            SwitchState::Unpaused(unpaused) => Some(unpaused.rate),
            SwitchState::On | SwitchState::Paused(_) => None,
        }
    }

    /// Decides what a resume that came due at `due` does. `clock` is the sum of all clock corrections now, because `at`
    /// was recorded by the clock of that time.
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

    /// Returns the switch in the paused position, unless it is paused already.
    pub(crate) fn pause(&self, since: Time, by: Actor, reason: Arc<str>) -> Option<PolicySwitch> {
        let paused = SwitchState::Paused(PoliciesPaused { since, by, reason });
        self.paused().is_none().then(|| self.with_next_state(paused))
    }

    /// Returns the switch in the unpaused position, if it is paused.
    pub(crate) fn unpause(&self, at: Time, clock: i64, rate: u32) -> Option<PolicySwitch> {
        let unpaused = SwitchState::Unpaused(PoliciesUnpaused { at, clock, rate: rate.max(1) });
        self.paused().map(|_| self.with_next_state(unpaused))
    }

    fn with_next_state(&self, state: SwitchState) -> PolicySwitch {
        PolicySwitch { version: self.version.saturating_add(1), state }
    }
}

/// Gives out turns at a limited rate; unused turns do not add up. Where servers share a store, one of them gives out all
/// turns. It keeps them in memory, so that the first turn comes only after an interval: another engine may just have given
/// out the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumePacer {
    /// When the last ones were handed out, and how many.
    last: Option<(Time, u32)>,
    is_elsewhere: bool,
}

impl ResumePacer {
    /// Begins again: the next turn comes after an interval. `is_elsewhere` is whether another server gives out turns.
    pub fn restart(&mut self, is_elsewhere: bool) {
        *self = ResumePacer { last: None, is_elsewhere };
    }

    /// Returns whether another server gives out turns.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Takes a turn if there is one, and returns whether there was.
    pub fn take(&mut self, now: Time, rate: u32) -> bool {
        let has_turn = self.ready(now, rate) > 0;
        if let (true, Some((at, taken))) = (has_turn, &mut self.last) {
            *taken = if *at + interval_of_turns(rate) <= now { 1 } else { *taken + 1 };
            if *taken == 1 {
                *at = now;
            }
        }
        has_turn
    }

    /// Returns how many turns there are now.
    pub fn ready(&mut self, now: Time, rate: u32) -> u32 {
        if self.is_elsewhere {
            return 0;
        }
        let (at, taken) = self.last.get_or_insert((now, u32::MAX));
        // After the clock was set back, turns must not wait until it reaches the old time again.
        if *at > now {
            (*at, *taken) = (now, u32::MAX);
        }
        if *at + interval_of_turns(rate) <= now {
            turns_per_interval(rate)
        } else {
            turns_per_interval(rate).saturating_sub(*taken)
        }
    }

    /// Returns the time of the next turn, at the earliest `now`, if turns are given out here.
    pub fn next(&mut self, now: Time, rate: u32) -> Option<Time> {
        if self.ready(now, rate) > 0 {
            return Some(now);
        }
        self.last.map(|(at, _)| at + interval_of_turns(rate))
    }
}

/// Returns the time between turns, rounded up so that the rate is never exceeded.
fn interval_of_turns(rate: u32) -> Millis {
    Millis(1_000_u64.div_ceil(u64::from(rate.max(1))))
}

/// Returns how many turns one interval gives: more than one only above 1000 a second.
fn turns_per_interval(rate: u32) -> u32 {
    (rate / 1_000).max(1)
}
