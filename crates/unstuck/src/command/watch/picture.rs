//! What there is to see: read with the queries of other commands, on a store as on a server.

use serde::Serialize;
use serde::de::DeserializeOwned;
use unstuck_api::ProblemType;
use unstuck_api::errors::{ErrorGroupView, ErrorGroupsView};
use unstuck_api::request::{CountBy, CountsQuery, ErrorsQuery, Query, RunsQuery};
use unstuck_api::runs::{CountsView, RunCount, RunState};
use unstuck_api::schedules::{ScheduleView, SchedulesView};
use unstuck_api::status::StatusView;

use crate::access::location::StoreLocation;
use crate::error::CommandError;

/// How many groups of errors are read.
const MAX_GROUPS: usize = 50;
/// How many schedules are read.
const MAX_SCHEDULES: usize = 200;

/// A store at one time. A part is empty where a token may not read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture {
    pub(super) status: StatusView,
    /// Groups with a step in error that nobody has acknowledged, the last seen first.
    pub(super) errors: Vec<ErrorGroupView>,
    /// Runs with a step that is queued or at work, by action.
    pub(super) actions: Vec<RunCount>,
    /// Runs that wait for a slot or have not begun, by flow.
    pub(super) queued: Vec<RunCount>,
    /// Schedules, those that are due next first.
    pub(super) schedules: Vec<ScheduleView>,
    /// What there is to say about where this is from.
    #[serde(skip)]
    pub(super) note: Option<String>,
}

impl Picture {
    /// Reads all of it.
    pub(super) fn load(place: &StoreLocation) -> Result<Picture, CommandError> {
        let (answer, note) = place.read_quietly(Query::Status)?;
        let status = answer.read()?;
        let errors = ErrorsQuery { open_only: true, limit: MAX_GROUPS, ..ErrorsQuery::default() };
        let groups: Option<ErrorGroupsView> = read_part(place, Query::Errors(errors))?;
        let running = RunsQuery { all: true, ..in_state(RunState::Running) };
        let actions: Option<CountsView> = read_part(place, count(running, CountBy::Action))?;
        let queued: Option<CountsView> = read_part(place, count(in_state(RunState::Queued), CountBy::Flow))?;
        let schedules = Query::Schedules { after: None, limit: MAX_SCHEDULES };
        let schedules: Option<SchedulesView> = read_part(place, schedules)?;
        let mut schedules = schedules.map_or_else(Vec::new, |view| view.schedules);
        schedules.sort_by_key(|schedule| (schedule.next.is_empty(), schedule.next.first().copied()));
        Ok(Picture {
            status,
            errors: groups.map_or_else(Vec::new, |view| view.groups),
            actions: actions.map_or_else(Vec::new, |view| view.counts),
            queued: queued.map_or_else(Vec::new, |view| view.counts),
            schedules,
            note,
        })
    }

    /// Writes it for programs.
    pub(super) fn to_json(&self) -> Result<String, CommandError> {
        serde_json::to_string(self).map_err(|error| CommandError::internal(error.to_string()))
    }
}

fn in_state(state: RunState) -> RunsQuery {
    RunsQuery { states: vec![state], ..RunsQuery::default() }
}

fn count(filter: RunsQuery, by: CountBy) -> Query {
    Query::Counts(Box::new(CountsQuery { filter, by }))
}

/// Reads a part; none where the token may not.
fn read_part<T: DeserializeOwned>(place: &StoreLocation, query: Query) -> Result<Option<T>, CommandError> {
    match place.read_quietly(query) {
        Ok((answer, _)) => answer.read().map(Some),
        Err(CommandError::Problem(problem)) if problem.kind == ProblemType::Forbidden => Ok(None),
        Err(error) => Err(error),
    }
}
