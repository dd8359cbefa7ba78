//! A page of runs.

use unstuck_api::request::{RunSort, RunsQuery};
use unstuck_api::runs::{RunLine, RunsView};
use unstuck_core::id::RunId;
use unstuck_core::model::labels::all_labels;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{Reader, RunPlace};

use crate::service::{Service, ServiceError};
use crate::{convert, policies, run_cursor, run_filter, run_name, set_aside};

/// So many runs are read at once, at most.
pub const MOST: usize = 1_000;

/// Finds where a list goes on: by a cursor, or after a run.
fn find_place(
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &RunsQuery,
    after: &str,
) -> Result<RunPlace, ServiceError> {
    if wanted.sort != RunSort::Created || run_cursor::is_cursor(after) {
        return run_cursor::parse_cursor(wanted, after);
    }
    // The run may have been forgotten since it was shown.
    Ok(RunPlace::Created(match after.parse::<RunId>() {
        Ok(run) => run,
        Err(_) => run_name::find_run(reader, flows, after).map_err(|error| match error {
            ServiceError::Refused(_) => ServiceError::bad_cursor(format!(
                "`{}` is not the end of a page; give `next` of the page before, as it is",
                after.chars().take(64).collect::<String>()
            )),
            ServiceError::Unavailable(_) | ServiceError::Stopped => error,
        })?,
    }))
}

/// Returns a page of runs, each with its cause, next resume and idle state.
pub(crate) fn list_runs(
    service: &Service,
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &RunsQuery,
) -> Result<RunsView, ServiceError> {
    let after = wanted.after.as_deref().map(|after| find_place(reader, flows, wanted, after)).transpose()?;
    let filter = run_filter::build_filter(reader, flows, wanted)?;
    let (sort, limit) = (convert::to_store_run_sort(wanted.sort), wanted.limit.clamp(1, MOST));
    let page = reader.page(&filter, sort, after, limit)?;
    let next = page.next.map(|place| run_cursor::format_cursor(wanted, &place)).transpose()?;
    let (mut runs, paused) = (Vec::new(), policies::load_pause(reader)?);
    for run in page.runs {
        let (flow, version) = set_aside::find_flow_name(reader, flows, run.flow)?;
        let of_flow = flows.get(reader, run.flow).map(|flow| flow.labels.clone()).unwrap_or_default();
        let labels = all_labels(run.labels.as_deref(), &of_flow);
        let has = [
            (run.attention.error, "error"),
            (run.attention.held, "held"),
            (run.has_acknowledged, "acknowledged"),
            (run.next_resume.is_some(), "scheduled"),
        ];
        let set_aside = set_aside::find_set_aside(reader, flows, &run)?;
        let go_on = if set_aside.is_some() { None } else { service.continue_command(reader, &run, &[])? };
        runs.push(RunLine {
            id: run.id.to_string(),
            generation: run.generation,
            flow: flow.to_string(),
            version: version.to_string(),
            set_aside,
            key: run.key.as_deref().map(str::to_owned),
            labels,
            state: run.state.word().to_owned(),
            has: has.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned()).collect(),
            idle: go_on.is_some(),
            go_on,
            failing: run.is_failing,
            handler: run.handler.map(|handler| handler.to_string()),
            parent: run.parent.map(|parent| parent.to_string()),
            created_at: run.created_at.timestamp(),
            updated_at: run.updated_at.timestamp(),
            cause: run.cause.as_deref().map(str::to_owned),
            policies_paused: paused.clone().filter(|_| run.next_resume.is_some()),
            next_auto_resume: run.next_resume.as_ref().map(|(due, _)| due.timestamp()),
            next_auto_resume_reason: run.next_resume.map(|(_, policy)| policy.name.to_string()),
        });
    }
    Ok(RunsView { runs, next })
}
