//! What is said about a run of a small world, in a form that a table can hold.

use unstuck_core::command::{Command, Report};
use unstuck_core::event::Choice;
use unstuck_core::evolve::evolve;
use unstuck_core::explain::{ExplainContext, Explanation, explain_in_context, find_causes};
use unstuck_core::id::RunId;
use unstuck_core::model::recovery::BackOff;
use unstuck_core::model::run::{Run, RunState};
use unstuck_core::policy::{Criteria, Policy};
use unstuck_core::reason;
use unstuck_core::time::Millis;

use crate::support::{World, operator};

/// Every decision about a run: `step#attempt | rung | rule | reason`.
pub(crate) fn decisions(world: &World, run: RunId) -> Vec<String> {
    let flow = world.flow_of(&world.runs[&run]);
    let all = reason::list_decisions(&flow, &world.history[&run]).into_iter();
    all.map(|line| {
        let unit = line.unit.map_or("run".to_owned(), |unit| unstuck_core::decide::unit_name(&flow, unit));
        let attempt = line.attempt.map_or(String::new(), |attempt| format!("#{attempt}"));
        format!("{unit}{attempt} | {} | {} | {}", line.rung.word(), line.rule, line.reason)
    })
    .collect()
}

/// The live log of a run.
pub(crate) fn log(world: &World, run: RunId) -> Vec<String> {
    let flow = world.flow_of(&world.runs[&run]);
    let mut state = None;
    let mut lines = Vec::new();
    for event in &world.history[&run] {
        evolve(&mut state, event);
        lines.extend(
            event.facts.iter().filter_map(|fact| reason::fact_line(&flow, state.as_ref(), event, fact)),
        );
    }
    lines
}

/// The same log by somebody who does not know the run.
pub(crate) fn log_of_a_stranger(world: &World, run: RunId) -> Vec<String> {
    let flow = world.flow_of(&world.runs[&run]);
    let events = world.history[&run].iter();
    events
        .flat_map(|event| event.facts.iter().filter_map(|fact| reason::fact_line(&flow, None, event, fact)))
        .collect()
}

/// A run explained as it is now.
pub(crate) fn explained(world: &World, run: RunId) -> Explanation {
    let state = &world.runs[&run];
    let children: Vec<(RunId, RunState)> = world
        .runs
        .values()
        .filter(|other| other.origin.parent() == Some(run))
        .map(|other| (other.id, other.state()))
        .collect();
    let policies_paused = world.policies.switch().paused();
    let all: Vec<Run> = world.runs.values().cloned().collect();
    let causes = find_causes(&all);
    let surroundings =
        ExplainContext { children: &children, causes: &causes, policies_paused, ..ExplainContext::default() };
    explain_in_context(state, &world.flow_of(state), &world.history[&run], world.now, surroundings)
}

/// A text with the ids of these runs replaced by names, as ids say nothing to a reader of a test.
pub(crate) fn named(text: &str, names: &[(RunId, &str)]) -> String {
    names.iter().fold(text.to_owned(), |text, (run, name)| text.replace(&run.to_string(), name))
}

pub(crate) fn choose(world: &mut World, run: RunId, step: &str, choice: Choice) {
    let unit = world.unit_ref(run, step);
    world.ask(run, Command::Choose { unit, choice, by: operator(), bulk: None }).expect("chosen");
}

pub(crate) fn lacking_gpu() -> Report {
    Report::Defer { asked: None, lacking: Some("no GPU".into()) }
}

/// A policy that resumes what has this in its cause, after so many seconds, up to three rounds; fatal errors too if that is
/// its name.
pub(crate) fn policy(name: &str, text: &str, delay_s: u64) -> Policy {
    let criteria = Criteria { error_substring: Some(text.into()), ..Criteria::default() };
    Policy {
        id: format!("id-{name}").into(),
        name: name.into(),
        priority: criteria.priority(),
        criteria,
        max_attempts: 3,
        is_priority_set: false,
        back_off: BackOff::fixed(Millis::seconds(delay_s)),
        enabled: true,
        include_fatal: name == "fatal",
        version: 1,
        age: 0,
    }
}
