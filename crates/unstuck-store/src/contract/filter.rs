//! Which runs to list, in which order, and where a list goes on.

use std::sync::Arc;

use unstuck_core::errors::ErrorRecord;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::flow::StepIndex;
use unstuck_core::model::labels::Labels;
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::policy::PolicyRef;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;

/// Which runs to list: all that is given must hold; of several values of one field, any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunFilter {
    /// In one of these states, or, where there are none, in any. A run that is not final and has a step in `error` or `held`
    /// is found by that state too.
    pub states: Vec<RunState>,
    /// Of the flow of this name.
    pub flow: Option<Arc<str>>,
    /// Of one of these versions of flows.
    pub versions: Option<Vec<FlowId>>,
    /// With this key.
    pub key: Option<Arc<str>>,
    /// With a key that begins with one of these.
    pub key_prefixes: Vec<Arc<str>>,
    /// With all of these labels.
    pub labels: Vec<LabelFilter>,
    /// With a step of one of these kinds.
    pub has: Vec<StepMark>,
    /// Whose next automatic resume was scheduled by one of these policies, by name or id.
    pub policies: Vec<Arc<str>>,
    /// With an attempt of one of these steps that is queued, active or in error.
    pub steps: Option<Vec<(FlowId, StepIndex)>>,
    /// With an attempt that one of these workers holds, by name.
    pub workers: Vec<Arc<str>>,
    /// Children and handlers of this run.
    pub parent: Option<RunId>,
    /// All runs below this one: its children and handlers, theirs, and so on.
    pub root: Option<RunId>,
    /// Only those that are nobody's child or handler.
    pub roots_only: bool,
    /// Started at this time or later, by the id (see [`RunId::first_at`]).
    pub since: Option<Time>,
    /// Started before this time, by the id.
    pub until: Option<Time>,
    /// Whose last event was at this time or later.
    pub updated_since: Option<Time>,
    /// With an error, open or past, of this group.
    pub group: Option<Arc<str>>,
    /// With an error, open or past, whose cause contains this. With a group, the same error has both.
    pub cause: Option<Arc<str>>,
}

/// What a step of a run that is not final may be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepMark {
    /// In error.
    Error,
    /// Waits for an operator's choice.
    Held,
    /// In error, and an operator has acknowledged it.
    Acknowledged,
    /// In error, and a policy has scheduled its resume.
    Scheduled,
}

/// One label that runs must have. A run has those of its flow too, unless it gives the name another value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelFilter {
    pub name: Arc<str>,
    /// Any of these values.
    pub values: Vec<Arc<str>>,
    /// The versions of flows that have it.
    pub versions: Vec<FlowId>,
}

impl LabelFilter {
    /// Returns whether a run of this version with these labels of its own has the label.
    pub fn accepts(&self, own: Option<&Labels>, version: FlowId) -> bool {
        match own.and_then(|own| own.get(&*self.name)) {
            Some(value) => self.values.iter().any(|wanted| **wanted == **value),
            None => self.versions.contains(&version),
        }
    }
}

impl RunFilter {
    /// Returns whether a run of a flow of this name fits; its errors and its ancestors are not tested.
    pub fn matches(&self, run: &Run, flow: &str) -> bool {
        let fields = Filtered {
            id: run.id,
            flow,
            version: run.flow,
            key: run.key.as_deref(),
            state: run.state(),
            attention: run.attention(),
            parent: run.origin.parent(),
        };
        self.accepts(&fields) && (!self.needs_summary() || self.accepts_summary(&RunSummary::of(run)))
    }

    /// Tests the fields that a store has at hand. Where [`RunFilter::needs_summary`], a run that is accepted may still not
    /// fit; one that is not accepted does not fit.
    pub fn accepts(&self, run: &Filtered<'_>) -> bool {
        (self.states.is_empty() || self.states.iter().any(|state| run.matches_state(*state)))
            && self.flow.as_ref().is_none_or(|wanted| **wanted == *run.flow)
            && self.versions.as_ref().is_none_or(|versions| versions.contains(&run.version))
            && self.key.as_ref().is_none_or(|key| run.key == Some(key))
            && self.parent.is_none_or(|parent| run.parent == Some(parent))
            && !(self.roots_only && run.parent.is_some())
            && self.since.is_none_or(|since| run.id >= RunId::first_at(since))
            && self.until.is_none_or(|until| run.id < RunId::first_at(until))
            && (self.has.is_empty() || self.has.iter().any(|mark| mark.is_possible(run.attention)))
            && (self.policies.is_empty() || run.attention.error)
            && !(self.is_about_open_work() && run.state.is_final())
            && self.steps.as_ref().is_none_or(|steps| steps.iter().any(|(flow, _)| *flow == run.version))
    }

    /// Returns whether the filter tests something that only the summary of a run tells.
    pub fn needs_summary(&self) -> bool {
        let of_steps = [StepMark::Acknowledged, StepMark::Scheduled];
        !self.key_prefixes.is_empty()
            || !self.labels.is_empty()
            || self.has.iter().any(|mark| of_steps.contains(mark))
            || !self.policies.is_empty()
            || self.is_about_open_work()
            || self.updated_since.is_some()
    }

    /// Tests what [`RunFilter::accepts`] does not.
    pub fn accepts_summary(&self, run: &RunSummary) -> bool {
        let resume = run.next_resume.as_ref().map(|(_, policy)| policy);
        let has = |mark: &StepMark| match mark {
            StepMark::Error => run.attention.error,
            StepMark::Held => run.attention.held,
            StepMark::Acknowledged => run.has_acknowledged,
            StepMark::Scheduled => resume.is_some(),
        };
        let is_open = |step: &(FlowId, StepIndex)| step.0 == run.flow && run.open_steps.contains(&step.1);
        self.accepts_key(run.key.as_deref())
            && self.labels.iter().all(|label| label.accepts(run.labels.as_deref(), run.flow))
            && (self.has.is_empty() || self.has.iter().any(has))
            && (self.policies.is_empty() || resume.is_some_and(|policy| self.accepts_policy(policy)))
            && self.steps.as_ref().is_none_or(|steps| steps.iter().any(is_open))
            && (self.workers.is_empty() || run.workers.iter().any(|worker| self.workers.contains(worker)))
            && self.accepts_time(run.updated_at)
    }

    /// Returns whether a key begins with one of the prefixes.
    pub fn accepts_key(&self, key: Option<&str>) -> bool {
        let begins = |key: &str| self.key_prefixes.iter().any(|prefix| key.starts_with(&**prefix));
        self.key_prefixes.is_empty() || key.is_some_and(begins)
    }

    /// Returns whether a run whose last event was at this time was updated recently enough.
    pub fn accepts_time(&self, updated_at: Time) -> bool {
        self.updated_since.is_none_or(|since| updated_at >= since)
    }

    fn accepts_policy(&self, policy: &PolicyRef) -> bool {
        self.policies.iter().any(|wanted| *wanted == policy.name || *wanted == policy.id)
    }

    /// Returns whether the filter is about attempts, which only runs that are not final have.
    pub fn is_about_open_work(&self) -> bool {
        self.steps.is_some() || !self.workers.is_empty()
    }

    /// Returns whether the filter asks for a group or a cause, so that errors must be searched.
    pub fn has_error_criteria(&self) -> bool {
        self.group.is_some() || self.cause.is_some()
    }

    /// Returns whether this error is of the group and cause that the filter asks for.
    pub fn matches_error(&self, error: &ErrorRecord) -> bool {
        self.group.as_ref().is_none_or(|group| *group == error.group)
            && self.cause.as_ref().is_none_or(|cause| error.cause.contains(&**cause))
    }
}

impl StepMark {
    /// Returns whether steps of a run can be like this: only those in error are acknowledged or scheduled.
    fn is_possible(self, attention: Attention) -> bool {
        match self {
            StepMark::Error | StepMark::Acknowledged | StepMark::Scheduled => attention.error,
            StepMark::Held => attention.held,
        }
    }
}

/// What filters look at first of a run.
#[derive(Clone, Copy, Debug)]
pub struct Filtered<'a> {
    pub id: RunId,
    /// The name of its flow.
    pub flow: &'a str,
    pub version: FlowId,
    pub key: Option<&'a str>,
    pub state: RunState,
    /// Which of `error` and `held` its steps are in.
    pub attention: Attention,
    pub parent: Option<RunId>,
}

impl Filtered<'_> {
    /// As [`Run::matches_state`].
    fn matches_state(&self, state: RunState) -> bool {
        self.state == state
            || (state == RunState::Error && self.attention.error)
            || (state == RunState::Held && self.attention.held)
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunSort {
    /// Those that were started last come first.
    #[default]
    Created,
    /// Those whose last event became durable last come first.
    Updated,
    /// Those that a policy resumes first come first. No others are listed, nor those that are paused or failing: their
    /// resumes do not happen by themselves.
    NextResume,
}

/// Where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPlace {
    /// After this run, in the order of [`RunSort::Created`].
    Created(RunId),
    /// After the run whose last event has this place in the order of all events.
    Updated(u64),
    /// After the run that is resumed at this time.
    NextResume(Time, RunId),
}

impl RunPlace {
    /// Returns whether it comes after `other` in the order of both; places of different orders follow each other.
    pub fn follows(&self, other: &RunPlace) -> bool {
        match (self, other) {
            (RunPlace::Created(run), RunPlace::Created(other)) => run < other,
            (RunPlace::Updated(place), RunPlace::Updated(other)) => place < other,
            (RunPlace::NextResume(due, run), RunPlace::NextResume(other_due, other)) => {
                (due, run) > (other_due, other)
            }
            (RunPlace::Created(_) | RunPlace::Updated(_) | RunPlace::NextResume(..), _) => true,
        }
    }

    /// Returns the order that it is a place of.
    pub fn sort(&self) -> RunSort {
        match self {
            RunPlace::Created(_) => RunSort::Created,
            RunPlace::Updated(_) => RunSort::Updated,
            RunPlace::NextResume(..) => RunSort::NextResume,
        }
    }
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPage {
    pub runs: Vec<RunSummary>,
    /// Where the list goes on; `None` at its end. A store looks at a bounded number of runs for one page: it may be short or
    /// empty although more follow.
    pub next: Option<RunPlace>,
}

/// Returns when a policy resumes a run, if nothing else comes before that.
pub fn next_resume_of(run: &RunSummary) -> Option<Time> {
    let is_resumed = run.state != RunState::Paused && !run.is_failing;
    run.next_resume.as_ref().filter(|_| is_resumed).map(|(due, _)| *due)
}
