//! The status of a store: what needs an operator, which process executes, what comes next, and counts of runs. Reads
//! only runs that are not final, and counts recent ones.

use std::collections::BTreeMap;

use unstuck_api::status::{NeedsPerson, StatusView, UpcomingView};
use unstuck_core::decide::unit_name;
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::{UnitRef, UnitState, Waiting};
use unstuck_core::summary::RunSummary;
use unstuck_core::time::Time;
use unstuck_core::wakeup::wakeups;
use unstuck_engine::read_flows::ReadFlows;
use unstuck_store::contract::{Reader, RunFilter};

use crate::service::{Service, ServiceError};
use crate::{owner, policies, set_aside};

/// The age in milliseconds up to which final runs are counted.
const LATELY: i64 = 24 * 60 * 60 * 1_000;
/// At most this many runs that are not final are read.
const LOOKED_AT: usize = 1_000;
/// How many of each kind are listed.
const TOLD: usize = 10;
/// How many timers are read for what comes next.
const LOOKED_AT_NEXT: usize = 100;

/// Builds the status of the store from its newest runs that are not final; `more` says that not all were read.
pub(crate) fn build_status(
    service: &Service,
    reader: &dyn Reader,
    flows: &ReadFlows,
) -> Result<StatusView, ServiceError> {
    let now = crate::service::now();
    let not_final = RunState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let open = reader.list(&RunFilter { states: not_final, ..RunFilter::default() }, None, LOOKED_AT + 1)?;
    let mut status = StatusView {
        at: now.timestamp(),
        needs_person: Vec::new(),
        needs_person_count: 0,
        executes: if service.home.is_some() || service.serves.is_some() {
            Some(owner::build_owner_view(service, reader, flows)?)
        } else {
            None
        },
        idle: Vec::new(),
        idle_count: 0,
        idle_states: BTreeMap::new(),
        next: list_upcoming(reader, flows)?,
        policies_paused: policies::load_pause(reader)?,
        open: BTreeMap::new(),
        ended: BTreeMap::new(),
        more: open.len() > LOOKED_AT,
    };
    for run in open.iter().take(LOOKED_AT) {
        if run.needs_person {
            status.needs_person_count += 1;
            if status.needs_person.len() < TOLD {
                let line = build_needs_person(reader, flows, run)?;
                status.needs_person.push(line);
            }
        }
        // A part of a run is continued with the whole.
        let is_continued = run.parent.is_none() && set_aside::find_set_aside(reader, flows, run)?.is_none();
        let go_on = if is_continued { service.continue_command(reader, run, &[])? } else { None };
        if go_on.is_some() {
            status.idle_count += 1;
            *status.idle_states.entry(run.state.word().to_owned()).or_default() += 1;
        }
        status.idle.extend(go_on.filter(|_| status.idle.len() < TOLD));
    }
    for ((_, state), count) in reader.count_runs(Time(now.0.saturating_sub(LATELY)))? {
        let counts = if state.is_final() { &mut status.ended } else { &mut status.open };
        *counts.entry(state.word().to_owned()).or_default() += count;
    }
    Ok(status)
}

/// Builds the view of a run that needs an operator.
fn build_needs_person(
    reader: &dyn Reader,
    flows: &ReadFlows,
    run: &RunSummary,
) -> Result<NeedsPerson, ServiceError> {
    Ok(NeedsPerson {
        run: run.id.to_string(),
        flow: set_aside::find_flow_name(reader, flows, run.flow)?.0.to_string(),
        key: run.key.as_deref().map(str::to_owned),
        state: run.state.word().to_owned(),
        since: run.updated_at.timestamp(),
        cause: run.cause.as_deref().map(str::to_owned),
    })
}

/// Lists the next timers that advance a run; limits of attempts under way are left out.
fn list_upcoming(reader: &dyn Reader, flows: &ReadFlows) -> Result<Vec<UpcomingView>, ServiceError> {
    let is_paused = reader.policies()?.1.paused().is_some();
    let mut next = Vec::new();
    for (_, run) in reader.upcoming(LOOKED_AT_NEXT)? {
        let Some(run) = reader.run(run)? else { continue };
        let Ok(flow) = flows.get(reader, run.flow) else { continue };
        let name = |unit: UnitRef| format!("`{}`", unit_name(&flow, unit));
        for (unit, wakeup) in wakeups(&run, &flow) {
            let due = wakeup.due.and_then(|due| Some((due, describe_timer(&run, unit, is_paused, &name)?)));
            next.extend(due.map(|(due, what)| (due, run.id, format!("{what} (flow `{}`)", flow.name))));
        }
    }
    next.sort_unstable();
    next.truncate(TOLD);
    let view = |(due, run, what): (Time, RunId, String)| UpcomingView {
        at: due.timestamp(),
        run: run.to_string(),
        what,
    };
    Ok(next.into_iter().map(view).collect())
}

/// Describes what happens when a timer is due; nothing for the time limit of an attempt, which usually never fires.
fn describe_timer(
    run: &Run,
    unit: Option<UnitRef>,
    is_paused: bool,
    name: &dyn Fn(UnitRef) -> String,
) -> Option<String> {
    let Some(unit) = unit else { return Some("its deadline passes".to_owned()) };
    let step = name(unit);
    match &run.unit(unit)?.state {
        UnitState::Error { resume: Some(resume), .. } => {
            let once = if is_paused { " once unpaused" } else { "" };
            Some(format!("policy `{}` resumes {step}{once}", resume.policy.name))
        }
        UnitState::Waiting(Waiting::Again { .. }) => Some(format!("{step} is retried")),
        UnitState::Waiting(Waiting::Timer { .. }) => Some(format!("the wait of {step} ends")),
        UnitState::Waiting(Waiting::Signal { name, .. }) => {
            Some(format!("{step} stops waiting for signal `{name}`"))
        }
        _ => None,
    }
}
