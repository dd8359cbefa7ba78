//! How many runs there are of each kind: from counters where they tell, otherwise by looking at runs, not without end.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use unstuck_api::request::{CountBy, CountsQuery};
use unstuck_api::runs::{CountsView, RunCount};
use unstuck_core::model::run::RunState;
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{OpenErrorFilter, Reader, RunFilter, RunSort, StepMark};

use crate::service::{ServiceError, now};
use crate::{run_filter, set_aside};

/// So many runs are read at once.
const PAGE: usize = 1_000;
/// So many pages are read at most.
const MAX_PAGES: usize = 10;
/// So many open errors of a run are looked at.
const MAX_ERRORS: usize = 1_000;

/// Counts the runs that fit.
pub(crate) fn count_runs(
    reader: &dyn Reader,
    flows: &ReadFlows,
    wanted: &CountsQuery,
) -> Result<CountsView, ServiceError> {
    let at = now().timestamp();
    let filter = run_filter::build_filter(reader, flows, &wanted.filter)?;
    let (counts, complete) = match count_by_counters(reader, &filter, wanted.by)? {
        Some(counts) => (counts, true),
        None => count_one_by_one(reader, flows, filter, wanted.by)?,
    };
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let counts = counts.into_iter().map(|(name, count)| build_count(wanted.by, name, count)).collect();
    Ok(CountsView { counts, complete, at })
}

fn build_count(by: CountBy, name: String, count: u64) -> RunCount {
    let mut built = RunCount { count, ..RunCount::default() };
    match by {
        CountBy::State => built.state = Some(name),
        CountBy::Flow => built.flow = Some(name),
        CountBy::Group => built.group = Some(name),
        CountBy::Action => built.action = Some(name),
    }
    built
}

type Counts = BTreeMap<String, u64>;

/// Counts by what the store counts anyway: root runs by flow and state. `None` where the filter asks for more.
fn count_by_counters(
    reader: &dyn Reader,
    filter: &RunFilter,
    by: CountBy,
) -> Result<Option<Counts>, ServiceError> {
    let RunFilter { states, flow, .. } = filter;
    let plain =
        RunFilter { states: states.clone(), flow: flow.clone(), roots_only: true, ..RunFilter::default() };
    // These two states are those of steps too.
    let is_by_step = states.iter().any(|state| matches!(state, RunState::Error | RunState::Held));
    if *filter != plain || is_by_step {
        return Ok(None);
    }
    let mut counts = Counts::new();
    for ((name, state), count) in reader.count_runs(Time(0))? {
        let fits =
            (states.is_empty() || states.contains(&state)) && flow.as_ref().is_none_or(|flow| *flow == name);
        let counted = match by {
            CountBy::State => state.word().to_owned(),
            CountBy::Flow => name.to_string(),
            CountBy::Group | CountBy::Action => return Ok(None),
        };
        if fits {
            *counts.entry(counted).or_default() += count;
        }
    }
    Ok(Some(counts))
}

/// Counts runs page by page; tells whether all were counted.
fn count_one_by_one(
    reader: &dyn Reader,
    flows: &ReadFlows,
    mut filter: RunFilter,
    by: CountBy,
) -> Result<(Counts, bool), ServiceError> {
    match by {
        CountBy::State | CountBy::Flow => {}
        // What has no open error is in no group.
        CountBy::Group if filter.has.is_empty() => filter.has.push(StepMark::Error),
        CountBy::Group => {}
        // What is final has no open attempt.
        CountBy::Action if filter.states.is_empty() => {
            filter.states.extend(RunState::ALL.into_iter().filter(|state| !state.is_final()));
        }
        CountBy::Action => {}
    }
    let (mut counts, mut after) = (Counts::new(), None);
    for _ in 0..MAX_PAGES {
        let page = reader.page(&filter, RunSort::Created, after, PAGE)?;
        for run in &page.runs {
            for name in list_names(reader, flows, run, by)? {
                *counts.entry(name).or_default() += 1;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok((counts, true));
        }
    }
    Ok((counts, false))
}

/// Lists what a run counts as, each once.
fn list_names(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &RunSummary,
    by: CountBy,
) -> Result<Vec<String>, ServiceError> {
    let mut names = match by {
        CountBy::State => vec![run.state.word().to_owned()],
        CountBy::Flow => vec![set_aside::find_flow_name(reader, flows, run.flow)?.0.to_string()],
        CountBy::Group => {
            let filter = OpenErrorFilter { run: Some(run.id), ..OpenErrorFilter::default() };
            let errors = reader.open_errors(&filter, None, MAX_ERRORS)?;
            errors.iter().map(|error| error.record.group.to_string()).collect()
        }
        CountBy::Action => match flows.get(reader, run.flow) {
            Ok(flow) => {
                let steps = run.open_steps.iter().filter_map(|step| flow.steps.get(usize::from(step.0)));
                steps.map(|step| step.full_action.to_string()).collect()
            }
            // A flow that cannot be compiled any more has no names of actions.
            Err(_) => Vec::new(),
        },
    };
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
