//! Explains why a run is where it is: what happened, what comes next and when, and what an operator could do now.

mod headline;
mod output_fields;
mod page;
mod possible_actions;
mod unit_reasons;
mod upcoming;

use std::collections::BTreeSet;

pub use self::unit_reasons::why_still_queued;
use crate::event::Event;
use crate::id::RunId;
use crate::model::flow::{Flow, Step};
use crate::model::run::{Limit, Run, RunState};
use crate::model::unit::{AttemptPhase, LiveAttempt, Unit, UnitRef, UnitState};
use crate::policy::PoliciesPaused;
use crate::reason::{self, DecisionLine, StoryLine, phrases};
use crate::time::Time;

/// How many sentences of the history are shown; the document of the run has every decision.
const HAPPENED: usize = 20;
/// How many items, timers or choices are listed.
const SHOWN: usize = 20;
/// The length at which the reason of a pause is cut.
const LONGEST_REASON: usize = 200;

/// A run, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub run: RunId,
    /// When it was explained.
    pub now: Time,
    pub state: RunState,
    /// Whether it has work that no process executes.
    pub is_idle: bool,
    /// The whole in one sentence.
    pub headline: String,
    /// Further sentences, such as that the clock was wrong.
    pub notes: Vec<String>,
    /// What happened in this generation: the last of it, and the last errors before that.
    pub happened: Vec<(Time, String)>,
    /// How many sentences are left out.
    pub earlier: usize,
    /// Why each step is where it is.
    pub because: Vec<UnitReason>,
    /// Why nothing resumes automatically, where a policy would resume a step of it.
    pub policies_paused: Option<PoliciesPaused>,
    /// What comes next: in order of time, then what has no time.
    pub next: Vec<Upcoming>,
    /// What an operator could do now.
    pub can: Vec<PossibleAction>,
}

/// Why a step or item is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitReason {
    /// The step or item; the step itself for a fan-out as a whole.
    pub unit: UnitRef,
    /// How people write it.
    pub name: String,
    pub state: &'static str,
    pub why: String,
}

/// Something that comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// When, if that is known.
    pub at: Option<Time>,
    pub what: String,
}

/// Something that an operator could do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleAction {
    /// The command, ready to be typed.
    pub command: String,
    /// What it does.
    pub what: String,
    /// The same for whoever does not type it, where it is more than a command of this machine.
    pub act: Option<Act>,
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Something to a run, by the name that it has everywhere, with what it needs to know.
    OnRun { run: RunId, verb: &'static str, arguments: serde_json::Value },
    /// Explains another run.
    Explain(RunId),
    /// Lets policies resume errors again.
    UnpausePolicies,
}

/// What is known of a run besides the run itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplainContext<'a> {
    /// What its child runs and its handler are doing, where that is known better than the run knows it.
    pub children: &'a [(RunId, RunState)],
    /// What is wrong with runs below it that are held or in error, where that is known: see [`find_causes`].
    pub causes: &'a [(RunId, String)],
    /// Whether it has work that no process executes: see [`is_idle`](crate::home::is_idle).
    pub is_idle: bool,
    /// Who has the slots of the limit that it, or the run below it, waits for; some of them.
    pub holders: &'a [SlotHolder],
    /// A run below it that waits for a slot, and the limit of that.
    pub queued_below: Option<(RunId, &'a Limit)>,
    /// Why nothing resumes automatically, if so.
    pub policies_paused: Option<&'a PoliciesPaused>,
}

/// A run that has a slot of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHolder {
    pub run: RunId,
    /// The run that it is a part of, or itself.
    pub root: RunId,
    /// What it is doing.
    pub state: RunState,
    /// Whether it has work that no process executes.
    pub is_idle: bool,
}

impl SlotHolder {
    /// Describes the holder: `run_0s86mke080000 (idle)`.
    pub fn description(&self) -> String {
        format!("{} ({})", self.run, if self.is_idle { "idle" } else { phrases::state(self.state) })
    }
}

/// Explains a run with no context but the states of its children. `history` starts with its first event.
pub fn explain(
    run: &Run,
    flow: &Flow,
    history: &[Event],
    now: Time,
    children: &[(RunId, RunState)],
) -> Explanation {
    explain_in_context(run, flow, history, now, ExplainContext { children, ..ExplainContext::default() })
}

/// Explains a run with what is known of its surroundings. `history` starts with its first event.
pub fn explain_in_context(
    run: &Run,
    flow: &Flow,
    history: &[Event],
    now: Time,
    surroundings: ExplainContext<'_>,
) -> Explanation {
    let decisions = reason::list_decisions(flow, history);
    let ExplainContext { children, causes, is_idle, holders, queued_below, policies_paused } = surroundings;
    let decisions = &decisions;
    let has_resume = |unit: &Unit| matches!(unit.state, UnitState::Error { resume: Some(_), .. });
    let policies_paused =
        policies_paused.filter(|_| !run.is_final() && !run.units_where(has_resume).is_empty());
    let view = RunContext {
        run,
        flow,
        history,
        now,
        children,
        causes,
        is_idle,
        holders,
        queued_below,
        policies_paused,
        decisions,
    };
    let story = reason::story_lines(flow, history).into_iter();
    let (happened, earlier) = shorten_story(story.filter(|line| line.generation == run.generation).collect());
    Explanation {
        run: run.id,
        now,
        state: run.state(),
        is_idle,
        headline: headline::build_headline(&view),
        notes: Vec::new(),
        happened,
        earlier,
        because: unit_reasons::unit_reasons(&view),
        policies_paused: policies_paused.cloned(),
        next: upcoming::list_upcoming(&view),
        can: possible_actions::possible_actions(&view),
    }
}

/// Finds the cause of each of these runs that is held or in error: that of its first such step, or of its first such
/// child. Children must come after their parents in `runs`.
pub fn find_causes(runs: &[Run]) -> Vec<(RunId, String)> {
    let mut found: Vec<(RunId, String)> = Vec::new();
    for run in runs.iter().rev() {
        let mut cause = None;
        run.each_unit(|_, unit| {
            if cause.is_some() {
                return;
            }
            cause = match &unit.state {
                UnitState::Error { .. } | UnitState::Held { .. } => unit.last_error().map(phrases::cause),
                UnitState::Active(LiveAttempt { doing: AttemptPhase::Child { .. }, .. }) => {
                    let of_child = found.iter().find(|(id, _)| Some(*id) == unit.child);
                    of_child.map(|(_, cause)| cause.clone())
                }
                UnitState::Pending
                | UnitState::Ready(_)
                | UnitState::Active(_)
                | UnitState::Waiting(_)
                | UnitState::Completed { .. }
                | UnitState::Skipped { .. }
                | UnitState::Failed { .. }
                | UnitState::Dropped { .. }
                | UnitState::Cancelled { .. } => None,
            };
        });
        found.extend(cause.map(|cause| (run.id, cause)));
    }
    found
}

/// Keeps the most important lines of a long story in order, and counts the others: half of the room is for the last
/// errors, the rest for the latest lines.
fn shorten_story(story: Vec<StoryLine>) -> (Vec<(Time, String)>, usize) {
    let troubles = story.iter().enumerate().rev().filter(|(_, line)| line.is_trouble);
    let mut kept: BTreeSet<usize> = troubles.map(|(place, _)| place).take(HAPPENED / 2).collect();
    let mut latest = (0..story.len()).rev();
    while kept.len() < HAPPENED
        && let Some(place) = latest.next()
    {
        kept.insert(place);
    }
    let left_out = story.len() - kept.len();
    let shown = story.into_iter().enumerate().filter(|(place, _)| kept.contains(place));
    (shown.map(|(_, line)| (line.at, line.what)).collect(), left_out)
}

/// A run as it is looked at now.
struct RunContext<'a> {
    run: &'a Run,
    flow: &'a Flow,
    history: &'a [Event],
    now: Time,
    children: &'a [(RunId, RunState)],
    causes: &'a [(RunId, String)],
    is_idle: bool,
    holders: &'a [SlotHolder],
    queued_below: Option<(RunId, &'a Limit)>,
    /// Only where a policy would resume a step of the run.
    policies_paused: Option<&'a PoliciesPaused>,
    decisions: &'a [DecisionLine],
}

impl<'a> RunContext<'a> {
    fn step(&self, unit: UnitRef) -> &'a Step {
        self.flow.step(unit.step)
    }

    /// Returns the name of a unit in backticks.
    fn quoted_name(&self, unit: UnitRef) -> String {
        format!("`{}`", phrases::unit_name(self.flow, unit))
    }

    /// Returns the state of a child run: the one given in the context, else the one it last reported.
    fn child_state(&self, child: RunId, recorded: RunState) -> RunState {
        self.children.iter().find(|(id, _)| *id == child).map_or(recorded, |(_, state)| *state)
    }

    /// Returns the child run that a unit waits for, and its state.
    fn awaited_child(&self, unit: &Unit) -> Option<(RunId, RunState)> {
        let UnitState::Active(LiveAttempt { doing: AttemptPhase::Child { state, .. }, .. }) = &unit.state
        else {
            return None;
        };
        let child = unit.child?;
        Some((child, self.child_state(child, *state)))
    }

    /// Describes who holds the slots, as the end of a sentence: `run_1 (idle) has it`.
    fn describe_slot_holders(&self) -> Option<String> {
        let names: Vec<String> = self.holders.iter().map(SlotHolder::description).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("{} has it", names[0])),
            _ => Some(format!("{} have them", phrases::join_list(&names))),
        }
    }

    /// Describes why automatic resumes are paused: `paused by ada since 10:00:00 UTC ("maintenance")`.
    fn describe_policies_paused(&self) -> Option<String> {
        let PoliciesPaused { since, by, reason } = self.policies_paused?;
        let reason = phrases::shorten_to_line(reason, LONGEST_REASON);
        Some(format!(
            "paused by {} since {} UTC (\"{reason}\")",
            phrases::who(by),
            phrases::clock(self.now, *since)
        ))
    }

    /// Lists the units that fulfil `wanted`, with their states.
    fn units_where(&self, wanted: impl Fn(&Unit) -> bool) -> Vec<(UnitRef, &'a Unit)> {
        let mut found = Vec::new();
        self.run.each_unit(|unit, state| {
            if wanted(state) {
                found.push((unit, state));
            }
        });
        found
    }

    /// Returns the last decision about a unit in this generation.
    fn last_decision(&self, unit: UnitRef) -> Option<&'a DecisionLine> {
        let of_unit =
            |line: &&DecisionLine| line.unit == Some(unit) && line.generation == self.run.generation;
        self.decisions.iter().rev().find(of_unit)
    }
}
