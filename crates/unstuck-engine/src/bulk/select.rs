//! What an order is about: found page by page, between batches.

use std::collections::HashSet;

use unstuck_core::bulk::{BulkAction, TargetScope, is_named, target_scope};
use unstuck_core::errors::OpenError;
use unstuck_core::id::RunId;
use unstuck_core::model::run::Run;
use unstuck_core::model::unit::{UnitRef, UnitState};
use unstuck_core::step_name::find_units;
use unstuck_store::contract::{OpenErrorFilter, RunFilter, Store, StoreError};

use crate::bulk::request::{BulkFilter, BulkRequest, Selection};
use crate::flows::Flows;
use crate::request::EngineError;
use crate::runtime::Handle;

/// So much is read between two batches.
const PAGE: usize = 1_000;

/// What an order is about.
#[derive(Debug, Default)]
pub(super) struct SelectedTargets {
    /// In the order in which it is acted on.
    pub(super) targets: Vec<TargetRef>,
    /// How many runs had in common what was selected, and are left out.
    pub(super) left_out: u64,
}

/// A run, and the step or item of it, where one is meant.
type TargetRef = (RunId, Option<UnitRef>);

impl Handle {
    /// What is selected now, in the order in which it will be acted on.
    pub(super) fn select(&self, order: &BulkRequest) -> Result<SelectedTargets, EngineError> {
        let mut found = match &order.selection {
            Selection::Runs(runs) => self.select_named(&order.action, &each_once(runs))?,
            Selection::Errors { filter, common } => self.select_errors(&order.action, filter, common)?,
            Selection::Common { common, group } => {
                let is_about_whole = match order.action {
                    // What needs a person may be a part of it.
                    BulkAction::Cancel => !common.which.needs_person,
                    BulkAction::Rerun { .. } | BulkAction::Forget => true,
                    _ => false,
                };
                let filter = RunFilter {
                    states: common.state.into_iter().collect(),
                    flow: common.flow.clone(),
                    labels: common.labels.clone(),
                    group: group.clone(),
                    roots_only: is_about_whole,
                    ..RunFilter::default()
                };
                self.select_runs(&order.action, &filter, common)?
            }
        };
        if matches!(
            (&order.action, &order.selection),
            (BulkAction::Cancel, Selection::Errors { .. } | Selection::Common { .. })
        ) {
            let runs: Vec<RunId> = found.targets.into_iter().map(|(run, _)| run).collect();
            let roots = self.read(move |store, _| roots(store, &runs))??;
            found.targets = each_once(&roots).into_iter().map(|run| (run, None)).collect();
        }
        let max = order.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        found.targets.truncate(max);
        Ok(found)
    }

    /// What an action is about in these runs. One with nothing of the kind is a target all the same, and told so.
    fn select_named(&self, action: &BulkAction, runs: &[RunId]) -> Result<SelectedTargets, EngineError> {
        let mut targets = Vec::new();
        for page in runs.chunks(PAGE) {
            let (page, action) = (page.to_vec(), action.clone());
            let named =
                move |store: &mut dyn Store, flows: &mut Flows| -> Result<Vec<TargetRef>, StoreError> {
                    let mut found = Vec::new();
                    for run in page {
                        let units = units_in(store, flows, &action, run)?;
                        if units.is_empty() {
                            found.push((run, None));
                        }
                        found.extend(units.into_iter().map(|unit| (run, Some(unit))));
                    }
                    Ok(found)
                };
            targets.extend(self.read(named)??);
        }
        Ok(SelectedTargets { targets, left_out: 0 })
    }

    /// Open errors of this kind; the runs that somebody started and that have them, where the action is about runs.
    fn select_errors(
        &self,
        action: &BulkAction,
        filter: &OpenErrorFilter,
        common: &BulkFilter,
    ) -> Result<SelectedTargets, EngineError> {
        let mut targets = Vec::new();
        let mut after = None;
        loop {
            let (filter, common, action) = (filter.clone(), common.clone(), action.clone());
            let (page, last, is_end) = self.read(move |store, flows| {
                page_of_errors(store, flows, &filter, (&action, &common), after)
            })??;
            after = last;
            targets.extend(page);
            if is_end {
                break;
            }
        }
        Ok(SelectedTargets { targets, left_out: 0 })
    }

    /// What an action is about in all runs of this kind, the oldest first.
    fn select_runs(
        &self,
        action: &BulkAction,
        filter: &RunFilter,
        common: &BulkFilter,
    ) -> Result<SelectedTargets, EngineError> {
        let mut found = SelectedTargets::default();
        let mut before = None;
        loop {
            let (filter, common, action) = (filter.clone(), common.clone(), action.clone());
            let (page, count, last) = self.read(move |store, flows| -> Result<_, StoreError> {
                let runs = store.list(&filter, before, PAGE)?;
                let mut page = SelectedTargets::default();
                for run in &runs {
                    add_targets(&mut page, store, flows, run, (&action, &common));
                }
                Ok((page, runs.len(), runs.last().map(|run| run.id)))
            })??;
            before = last;
            found.targets.extend(page.targets);
            found.left_out += page.left_out;
            if count < PAGE {
                found.targets.reverse();
                return Ok(found);
            }
        }
    }
}

/// Adds what an action is about in a run, last first.
fn add_targets(
    page: &mut SelectedTargets,
    store: &mut dyn Store,
    flows: &mut Flows,
    run: &Run,
    (action, common): (&BulkAction, &BulkFilter),
) {
    let flow = flows.get(store, run.flow).ok();
    match target_scope(action, run, flow.as_deref(), common.which, common.state.is_some()) {
        TargetScope::Run => page.targets.push((run.id, None)),
        TargetScope::Units(units) => {
            page.targets.extend(units.into_iter().rev().map(|unit| (run.id, Some(unit))));
        }
        TargetScope::LeftOut => page.left_out += 1,
        TargetScope::NotMeant => {}
    }
}

/// The steps and items of a run that an action is about; none where it is about the run.
fn units_in(
    store: &mut dyn Store,
    flows: &mut Flows,
    action: &BulkAction,
    run: RunId,
) -> Result<Vec<UnitRef>, StoreError> {
    match action {
        BulkAction::Cancel | BulkAction::Rerun { .. } | BulkAction::Signal { .. } | BulkAction::Forget => {
            Ok(Vec::new())
        }
        BulkAction::Resume { .. } | BulkAction::Acknowledge | BulkAction::ApplyPolicies { .. } => {
            let filter = OpenErrorFilter { run: Some(run), ..OpenErrorFilter::default() };
            let errors = store.open_errors(&filter, None, usize::MAX)?;
            Ok(errors.iter().map(|error| error.record.unit).collect())
        }
        BulkAction::Choose { step, .. } => {
            let Some(run) = store.run(run)?.filter(|run| !run.is_final()) else { return Ok(Vec::new()) };
            let Ok(flow) = flows.get(store, run.flow) else { return Ok(Vec::new()) };
            let mut held = run.units_where(|unit| matches!(unit.state, UnitState::Held { .. }));
            held.retain(|unit| step.as_ref().is_none_or(|step| is_named(&flow, *unit, step)));
            Ok(held)
        }
        BulkAction::Skip { step } | BulkAction::Complete { step, .. } => {
            let Some(run) = store.run(run)?.filter(|run| !run.is_final()) else { return Ok(Vec::new()) };
            let Ok(flow) = flows.get(store, run.flow) else { return Ok(Vec::new()) };
            Ok(find_units(&run, &flow, step).unwrap_or_default())
        }
    }
}

/// Targets, the place of the last error that was looked at, and whether there is no more.
type TargetPage = (Vec<TargetRef>, Option<(RunId, UnitRef)>, bool);

fn page_of_errors(
    store: &mut dyn Store,
    flows: &mut Flows,
    filter: &OpenErrorFilter,
    (action, common): (&BulkAction, &BulkFilter),
    after: Option<(RunId, UnitRef)>,
) -> Result<TargetPage, StoreError> {
    let BulkFilter { state, labels, which, .. } = common;
    let step = match action {
        BulkAction::Skip { step } | BulkAction::Complete { step, .. } => Some(step),
        _ => None,
    };
    let page = store.open_errors(filter, after, PAGE)?;
    let last = page.last().map(|error| (error.record.run, error.record.unit));
    let mut found = Vec::new();
    let is_one = |error: &&OpenError| {
        (which.acknowledged || !error.acknowledged) && !(which.needs_person && error.resume.is_some())
    };
    for error in page.iter().filter(is_one) {
        let (id, unit) = (error.record.run, error.record.unit);
        if state.is_some() || !labels.is_empty() || step.is_some() {
            let Some(run) = store.run(id)? else { continue };
            let is_named = match step {
                None => true,
                Some(step) => flows.get(store, run.flow).is_ok_and(|flow| is_named(&flow, unit, step)),
            };
            let is_wanted = state.is_none_or(|state| run.matches_state(state))
                && labels.iter().all(|label| label.accepts(run.labels.as_deref(), run.flow));
            if !is_named || !is_wanted {
                continue;
            }
        }
        found.push((id, Some(unit)));
    }
    Ok((found, last, page.len() < PAGE))
}

/// The runs that somebody started, of these or of their children.
fn roots(store: &mut dyn Store, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
    let mut roots = Vec::new();
    for run in runs {
        let mut root = *run;
        while let Some(parent) = store.run(root)?.and_then(|run| run.origin.parent()) {
            root = parent;
        }
        roots.push(root);
    }
    Ok(roots)
}

/// Without those that come again.
fn each_once(runs: &[RunId]) -> Vec<RunId> {
    let mut seen = HashSet::new();
    runs.iter().copied().filter(|run| seen.insert(*run)).collect()
}
