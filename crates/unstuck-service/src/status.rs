//! The status of a store: what needs an operator, which process executes, what comes next, and counts of runs. Reads
//! only runs that are not final, and counts recent ones.

use std::collections::BTreeMap;

use unstuck_api::status::{NeedsPerson, StatusView, UpcomingView};
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::model::unit::{UnitRef, UnitState, Waiting};
use unstuck_core::time::Time;
use unstuck_engine::flows::Flows;
use unstuck_store::contract::{Due, RunFilter, Store};

use crate::list::cause;
use crate::service::{Service, ServiceError};
use crate::{family, owner, policies, set_aside};

/// The age in milliseconds up to which final runs are counted.
const LATELY: i64 = 24 * 60 * 60 * 1_000;
/// So many runs that are not final are looked at.
const LOOKED_AT: usize = 1_000;
/// How many of each kind are listed.
const TOLD: usize = 10;
/// How many timers are read for what comes next.
const TIMERS: usize = 100;

/// Builds the status of the store.
pub(crate) fn status(
    service: &Service,
    store: &mut dyn Store,
    flows: &mut Flows,
) -> Result<StatusView, ServiceError> {
    let now = crate::service::now();
    let not_final = RunState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let open = store.list(&RunFilter { states: not_final, ..RunFilter::default() }, None, LOOKED_AT + 1)?;
    let mut status = StatusView {
        at: now.timestamp(),
        needs_person: Vec::new(),
        needs_person_count: 0,
        executes: if service.home.is_some() { Some(owner::owner(service, store, flows)?) } else { None },
        idle: Vec::new(),
        idle_count: 0,
        idle_states: BTreeMap::new(),
        next: comes_next(store, flows)?,
        policies_paused: policies::paused(store)?,
        open: BTreeMap::new(),
        ended: BTreeMap::new(),
        more: open.len() > LOOKED_AT,
    };
    for run in open.iter().take(LOOKED_AT) {
        if family::needs_a_person(run) {
            status.needs_person_count += 1;
            if status.needs_person.len() < TOLD {
                let line = needs_person(store, run)?;
                status.needs_person.push(line);
            }
        }
        // A child is continued with its root.
        let is_continued =
            run.origin.parent().is_none() && set_aside::set_aside(store, flows, run)?.is_none();
        let go_on = if is_continued { service.continue_command(store, run, &[])? } else { None };
        if go_on.is_some() {
            status.idle_count += 1;
            *status.idle_states.entry(run.state().word().to_owned()).or_default() += 1;
        }
        status.idle.extend(go_on.filter(|_| status.idle.len() < TOLD));
    }
    for (state, count) in store.count_runs(Time(now.0.saturating_sub(LATELY)))? {
        let counts = if state.is_final() { &mut status.ended } else { &mut status.open };
        counts.insert(state.word().to_owned(), count);
    }
    Ok(status)
}

/// Builds the view of a run that needs an operator.
fn needs_person(store: &mut dyn Store, run: &Run) -> Result<NeedsPerson, ServiceError> {
    Ok(NeedsPerson {
        run: run.id.to_string(),
        flow: set_aside::flow_of(store, run)?.0.to_string(),
        key: run.key.as_deref().map(str::to_owned),
        state: run.state().word().to_owned(),
        since: run.updated_at.timestamp(),
        cause: cause(run),
    })
}

/// Lists the next timers that advance a run; limits of attempts under way are left out.
fn comes_next(store: &mut dyn Store, flows: &mut Flows) -> Result<Vec<UpcomingView>, ServiceError> {
    let mut next = Vec::new();
    let is_paused = store.policy_switch()?.paused().is_some();
    for due in store.timers(None, TIMERS)? {
        if next.len() == TOLD {
            break;
        }
        let Some(run) = store.run(due.run)? else { continue };
        let Ok(flow) = flows.get(store, run.flow) else { continue };
        let name = |unit: UnitRef| match unit.item {
            Some(item) => format!("`{}[{item}]`", flow.step(unit.step).id),
            None => format!("`{}`", flow.step(unit.step).id),
        };
        if let Some(what) = what(&run, &due, is_paused, &name) {
            let at = due.due.timestamp();
            next.push(UpcomingView {
                at,
                run: run.id.to_string(),
                what: format!("{what} (flow `{}`)", flow.name),
            });
        }
    }
    Ok(next)
}

/// Describes what a timer does; nothing for a limit.
fn what(run: &Run, due: &Due, is_paused: bool, name: &dyn Fn(UnitRef) -> String) -> Option<String> {
    let Some(unit) = due.unit else { return Some("its deadline passes".to_owned()) };
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
