//! Which runs to list.

use std::sync::Arc;

use unstuck_core::errors::ErrorRecord;
use unstuck_core::id::{FlowId, RunId};
use unstuck_core::model::run::{Attention, Run, RunState};
use unstuck_core::time::Time;

/// Which runs to list: all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Children and handlers of this run.
    pub parent: Option<RunId>,
    /// Only those that are nobody's child or handler.
    pub roots_only: bool,
    /// Started at this time or later, by the id (see [`RunId::first_at`]).
    pub since: Option<Time>,
    /// Started before this time, by the id.
    pub until: Option<Time>,
    /// With an error, open or past, of this group.
    pub group: Option<Arc<str>>,
    /// With an error, open or past, whose cause contains this. With a group, the same error has both.
    pub cause: Option<Arc<str>>,
}

impl RunFilter {
    /// Returns whether a run of a flow of this name fits; its errors are not tested.
    pub fn matches(&self, run: &Run, flow: &str) -> bool {
        self.accepts(&Filtered {
            id: run.id,
            flow,
            version: run.flow,
            key: run.key.as_deref(),
            state: run.state(),
            attention: run.attention(),
            parent: run.origin.parent(),
        })
    }

    /// As [`RunFilter::matches`], by the fields alone that filters test.
    pub fn accepts(&self, run: &Filtered<'_>) -> bool {
        (self.states.is_empty() || self.states.iter().any(|state| run.matches_state(*state)))
            && self.flow.as_ref().is_none_or(|wanted| **wanted == *run.flow)
            && self.versions.as_ref().is_none_or(|versions| versions.contains(&run.version))
            && self.key.as_ref().is_none_or(|key| run.key == Some(key))
            && self.parent.is_none_or(|parent| run.parent == Some(parent))
            && !(self.roots_only && run.parent.is_some())
            && self.since.is_none_or(|since| run.id >= RunId::first_at(since))
            && self.until.is_none_or(|until| run.id < RunId::first_at(until))
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

/// What filters look at of a run.
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
