//! Explains a run, with the runs below it that need an operator.

use crate::local_time;
use unstuck_api as api;
use unstuck_core::clock::ClockRecord;
use unstuck_core::event::Event;
use unstuck_core::explain::{
    ExplainContext, Explanation, PossibleAction, SlotHolder, explain_in_context, find_causes,
};
use unstuck_core::home::is_idle;
use unstuck_core::id::RunId;
use unstuck_core::model::run::{Run, RunState, Slot};
use unstuck_core::model::unit::{Unit, UnitState};
use unstuck_core::policy::PolicySwitch;
use unstuck_core::summary::RunSummary;
use unstuck_engine::document;
use unstuck_store::contract::Reader;

use crate::clock::Clock;
use crate::service::{Service, ServiceError, SilentOwner};
use crate::{family, run_name, set_aside};

/// How many runs below a run are explained with it.
const BELOW: usize = 5;
/// So many of those who have a slot are named.
const HOLDERS: usize = 5;

/// A page is as wide as this where nobody says otherwise.
pub const COLUMNS: usize = 80;

/// A run, explained.
pub struct ExplainedRun {
    run: Run,
    explanation: Explanation,
    /// Those below it in which a person is needed.
    below: Vec<Explanation>,
    /// How many more of them there are.
    more: usize,
    /// The command that goes on with it, where it is idle.
    go_on: Option<String>,
    set_aside: Option<api::SetAside>,
}

/// How many runs below it are read: there may be 100,000.
const LOOKED_AT: usize = 1_000;

/// Explains a run that is given by name.
pub(crate) fn explain_named_run(
    service: &Service,
    reader: &dyn Reader,
    name: &str,
) -> Result<ExplainedRun, ServiceError> {
    let run = run_name::find_run(reader, &service.flows, name)?;
    explain_run(service, reader, run)
}

/// Explains a run that is given by name on a page of so many columns, with the command that continues it; or only what
/// follows what happened.
pub(crate) fn explain_on_page(
    service: &Service,
    reader: &dyn Reader,
    name: &str,
    columns: Option<usize>,
    without_happened: bool,
) -> Result<String, ServiceError> {
    let explained = explain_named_run(service, reader, name)?;
    let columns = columns.unwrap_or(COLUMNS);
    if without_happened {
        return Ok(explained.rest(&service.option, columns));
    }
    let page = explained.format_page(&service.option, columns);
    Ok(match explained.continue_command() {
        Some(go_on) => format!("{page}\nTo continue the run:\n  {go_on}\n"),
        None => page,
    })
}

/// Explains a run: collects the states and causes of its descendants, the holders of slots and the pause of policies,
/// which the core's explanation needs.
pub fn explain_run(service: &Service, reader: &dyn Reader, run: RunId) -> Result<ExplainedRun, ServiceError> {
    let (run, history) = load_run_with_history(reader, run)?;
    explain_loaded_run(service, reader, run, &history)
}

/// The same for a run that is loaded already, with its whole history.
pub(crate) fn explain_loaded_run(
    service: &Service,
    reader: &dyn Reader,
    run: Run,
    history: &[Event],
) -> Result<ExplainedRun, ServiceError> {
    let flows = &service.flows;
    let all = family::load_runs_under_way(reader, run.clone(), LOOKED_AT)?;
    let states: Vec<(RunId, RunState)> = all.iter().map(|run| (run.id, run.state())).collect();
    let causes = find_causes(&all);
    let summary = RunSummary::of(&run);
    let set_aside = set_aside::find_set_aside(reader, flows, &summary)?;
    let go_on = if set_aside.is_some() { None } else { service.continue_command(reader, &summary, &all)? };
    let switch = load_switch(reader, &all)?;
    let explain = |run: &Run, history: &[Event]| -> Result<Explanation, ServiceError> {
        // A run that has not taken in how the clock was set back counts by the clock as it was.
        let now = crate::service::now().max(history.last().map_or(run.updated_at, Event::time));
        let set_aside = set_aside::find_set_aside(reader, flows, &RunSummary::of(run))?;
        // One that has its slot, or needs none, may wait for a run below it that does not.
        let waits = |other: &&Run| other.id != run.id && other.state() == RunState::Queued;
        let queued = match &run.slot {
            Slot::Wanted(_) => None,
            Slot::Unlimited | Slot::Taken(_) => all.iter().filter(waits).find_map(|run| match &run.slot {
                Slot::Wanted(limit) => Some((run, limit)),
                Slot::Unlimited | Slot::Taken(_) => None,
            }),
        };
        let queued = queued.filter(|_| run.state() == RunState::Queued);
        let holders = list_slot_holders(service, reader, queued.map_or(run, |(below, _)| below), HOLDERS)?;
        let surroundings = ExplainContext {
            children: &states,
            causes: &causes,
            is_idle: go_on.is_some(),
            holders: &holders,
            queued_below: queued.map(|(below, limit)| (below.id, limit)),
            policies_paused: switch.paused(),
        };
        let mut explanation = match flows.get(reader, run.flow) {
            Ok(flow) => explain_in_context(run, &flow, history, now, surroundings),
            Err(error) => set_aside::explain_without_flow(run, now, &error),
        };
        if let Some(aside) = &set_aside {
            set_aside::explain_set_aside(&mut explanation, aside);
        }
        explanation.notes.extend(build_notes(service, run));
        // Every other action is refused until then.
        if let Some(wake) = service.silent.filter(|_| !run.is_final()).and_then(suggest_waking_owner) {
            explanation.can = vec![wake];
        }
        Ok(explanation)
    };
    let explanation = explain(&run, history)?;
    let resting: Vec<&Run> =
        all.iter().filter(|other| other.id != run.id && family::needs_a_person(other)).collect();
    let mut below = Vec::new();
    for run in resting.iter().take(BELOW) {
        let history = reader.history(run.id, 0, usize::MAX)?;
        below.push(explain(run, &history)?);
    }
    let more = resting.len() - below.len();
    Ok(ExplainedRun { run, explanation, below, more, go_on, set_aside })
}

/// Loads whether automatic resumes are paused, where that matters: some of these runs wait for one.
fn load_switch(reader: &dyn Reader, runs: &[Run]) -> Result<PolicySwitch, ServiceError> {
    let has_resume = |unit: &Unit| matches!(unit.state, UnitState::Error { resume: Some(_), .. });
    if runs.iter().all(|run| run.units_where(has_resume).is_empty()) {
        return Ok(PolicySwitch::default());
    }
    Ok(reader.policies()?.1)
}

/// Lists some of the runs that hold the slots this run waits for.
pub fn list_slot_holders(
    service: &Service,
    reader: &dyn Reader,
    run: &Run,
    most: usize,
) -> Result<Vec<SlotHolder>, ServiceError> {
    let Slot::Wanted(limit) = &run.slot else { return Ok(Vec::new()) };
    let homes = service.homes();
    let mut holders = Vec::new();
    for id in reader.slot_holders(&limit.name, most)? {
        if let Some(holder) = reader.run(id)? {
            let (root, is_idle) =
                (family::find_root(reader, &RunSummary::of(&holder))?, is_idle(&holder, &homes));
            holders.push(SlotHolder { run: id, root, state: holder.state(), is_idle });
        }
    }
    Ok(holders)
}

/// Collects what concerns the whole store rather than the run: that its owner does not answer, and that the clock was
/// wrong.
fn build_notes(service: &Service, run: &Run) -> Vec<String> {
    let silent = service.silent.filter(|_| !run.is_final()).map(SilentOwner::sentence);
    let record = ClockRecord::default();
    let clock = Clock { record: &record, last: Some(run.updated_at), now: crate::service::now() };
    silent.into_iter().chain(clock.sentences()).collect()
}

/// Suggests how to wake the process that has the store open, if it is suspended: nothing continues until then.
fn suggest_waking_owner(owner: SilentOwner) -> Option<PossibleAction> {
    let process = owner.process.filter(|_| owner.is_stopped)?;
    let what = "wake the suspended process that has the store open".to_owned();
    Some(PossibleAction { command: format!("kill -CONT {process}"), what, act: None })
}

/// Loads a run with its whole history.
pub fn load_run_with_history(reader: &dyn Reader, run: RunId) -> Result<(Run, Vec<Event>), ServiceError> {
    let found = reader.runs_with_history(&[run])?.pop().flatten();
    found.ok_or_else(|| no_such_run(run))
}

/// Refuses a run that is not there.
pub(crate) fn no_such_run(run: RunId) -> ServiceError {
    ServiceError::not_found(format!("there is no run {run} in this store; `unstuck runs` lists them"))
}

impl ExplainedRun {
    pub fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) fn headline(&self) -> &str {
        &self.explanation.headline
    }

    /// Returns the command that continues the run, if it is idle.
    pub fn continue_command(&self) -> Option<&str> {
        self.go_on.as_deref()
    }

    /// Builds the document for programs.
    pub(crate) fn build_document(&self, option: &str) -> api::Explanation {
        let document = document::explanation(&add_store_option(self.explanation.clone(), option));
        api::Explanation { go_on: self.go_on.clone(), set_aside: self.set_aside.clone(), ..document }
    }

    /// Formats the whole explanation for people.
    pub(crate) fn format_page(&self, option: &str, columns: usize) -> String {
        let explanation = add_store_option(self.explanation.clone(), option);
        let page = explanation.page_in(columns, local_time::local_zone()).to_string();
        page + &self.format_below(option, columns)
    }

    /// Formats the explanation without what happened, for a user who has watched the run.
    pub fn rest(&self, option: &str, columns: usize) -> String {
        let explanation = remove_happened(add_store_option(self.explanation.clone(), option));
        let page = explanation.page_in(columns, local_time::local_zone()).to_string();
        page + &self.format_below(option, columns)
    }

    /// Formats the explanations of runs below this one.
    fn format_below(&self, option: &str, columns: usize) -> String {
        let page = |explanation: &Explanation| {
            let explanation = remove_happened(add_store_option(explanation.clone(), option));
            format!("\n{}", explanation.page_in(columns, local_time::local_zone()))
        };
        let more = (self.more > 0).then(|| format!("\n{} more runs below it need a person.\n", self.more));
        self.below.iter().map(page).chain(more).collect::<Vec<_>>().concat()
    }
}

/// Removes what happened, and the suggestion to pause where nothing is under way.
fn remove_happened(mut explanation: Explanation) -> Explanation {
    explanation.happened.clear();
    explanation.earlier = 0;
    // Nothing is under way that a pause could stop.
    if matches!(explanation.state, RunState::Held | RunState::Error) {
        explanation.can.retain(|can| !can.command.starts_with("unstuck pause "));
    }
    explanation
}

/// Adds the `--store` option to the suggested commands.
fn add_store_option(mut explanation: Explanation, option: &str) -> Explanation {
    for can in explanation.can.iter_mut().filter(|can| can.command.starts_with("unstuck ")) {
        can.command += option;
    }
    explanation
}
