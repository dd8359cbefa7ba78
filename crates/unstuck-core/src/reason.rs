//! Sentences for history: every fact in words, and every decision with its rung, its rule and its reason.
//!
//! Nothing here is stored: the texts are computed from the events and the flow, so that they read the same while a run
//! is under way and years later.

mod decision;
mod fact_context;
mod log_line;
mod passed_rungs;
pub(crate) mod phrases;
mod rule;

use crate::event::{Event, Fact};
use crate::evolve;
use crate::model::flow::Flow;
use crate::model::run::Run;
use crate::model::unit::UnitRef;
use crate::time::Time;

use fact_context::FactContext;

/// A choice of the engine about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLine {
    pub at: Time,
    /// The generation it belongs to.
    pub generation: u32,
    /// The step or item, unless it is about the run.
    pub unit: Option<UnitRef>,
    /// The attempt that it follows.
    pub attempt: Option<u32>,
    /// What decided.
    pub rung: Rung,
    /// The rule as written in the flow, or the operator's command.
    pub rule: String,
    /// Why this rung, and what follows.
    pub reason: String,
}

/// What decided: a rung of the recovery ladder, or something beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// Rung 1: the retry strategy of the step.
    RetryStrategy,
    /// Rung 2: `failOnError: false`.
    FailOnError,
    /// Rung 3: a resume policy.
    ResumePolicy,
    /// Rung 4: the exception handler.
    ExceptionHandler,
    /// Rung 5, after *stalled*: the step stays in `error`.
    Rest,
    /// Rung 5, after *failed*: the run is `failed`.
    Failed,
    /// A stuck attempt is tried again.
    Stuck,
    /// Resources are lacking.
    Deferral,
    /// A worker gave an attempt back.
    Release,
    /// An operator.
    Operator,
    /// The run that this one is a child or handler of.
    Parent,
    /// The run's deadline.
    Deadline,
    /// The `if` of a step.
    Condition,
    /// The flow's `concurrency`.
    Concurrency,
    /// Every step is done.
    Completed,
}

impl Rung {
    /// Returns the word for it, in camelCase; it never changes.
    pub fn word(self) -> &'static str {
        match self {
            Rung::RetryStrategy => "retryStrategy",
            Rung::FailOnError => "failOnError",
            Rung::ResumePolicy => "resumePolicy",
            Rung::ExceptionHandler => "exceptionHandler",
            Rung::Rest => "rest",
            Rung::Failed => "failed",
            Rung::Stuck => "stuck",
            Rung::Deferral => "deferral",
            Rung::Release => "release",
            Rung::Operator => "operator",
            Rung::Parent => "parent",
            Rung::Deadline => "deadline",
            Rung::Condition => "condition",
            Rung::Concurrency => "concurrency",
            Rung::Completed => "completed",
        }
    }
}

/// Formats a fact of `event` as one sentence for a live log. Returns nothing where another fact of the event says it
/// too, or where there is nothing to see.
///
/// `run` is the run after the event; without it, details that only the state has are left out.
pub fn fact_line(flow: &Flow, run: Option<&Run>, event: &Event, fact: &Fact) -> Option<String> {
    log_line::log_line(&FactContext::of(flow, run, event, fact)?)
}

/// Lists every decision in a history, in order. The history starts with the run's first event.
pub fn list_decisions(flow: &Flow, events: &[Event]) -> Vec<DecisionLine> {
    let mut found = Vec::new();
    let mut run: Option<Run> = None;
    for event in events {
        for (place, fact) in event.facts.iter().enumerate() {
            evolve::apply_fact_or_start(&mut run, fact, event.time());
            let moment = FactContext { flow, run: run.as_ref(), event, place };
            if let Some(decision) = decision::decision_text(&moment) {
                let reason = decision.to_reason();
                let decision::DecisionText { unit, attempt, rung, rule, .. } = decision;
                let (at, generation) = (event.at, event.generation);
                found.push(DecisionLine { at, generation, unit, attempt, rung, rule, reason });
            }
        }
        if let Some(run) = &mut run {
            evolve::finish_event(run, event.seq, event.at, event.clock);
        }
    }
    found
}

/// A sentence of a history, and the decision behind it, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// When it became true.
    pub at: Time,
    /// The number of its event.
    pub seq: u64,
    /// The place of its fact in that.
    pub place: usize,
    /// In words.
    pub what: String,
    /// What decided, and the rule as it is written.
    pub decided: Option<(Rung, String)>,
}

/// Formats a whole history as a log would show it. It starts with the run's first event.
pub fn history_sentences(flow: &Flow, events: &[Event]) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut run: Option<Run> = None;
    for event in events {
        evolve::evolve(&mut run, event);
        for place in 0..event.facts.len() {
            let moment = FactContext { flow, run: run.as_ref(), event, place };
            if let Some(what) = log_line::log_line(&moment).filter(|what| !what.is_empty()) {
                let decided = decision::decision_text(&moment).map(|decision| (decision.rung, decision.rule));
                found.push(Sentence { at: event.at, seq: event.seq, place, what, decided });
            }
        }
    }
    found
}

/// A sentence with the time that it became true, and the generation it belongs to.
pub(crate) struct StoryLine {
    pub(crate) at: Time,
    pub(crate) generation: u32,
    pub(crate) what: String,
    /// Whether it is about an error.
    pub(crate) is_trouble: bool,
}

/// Formats the main facts of a history: how it began, how attempts ended, what was decided.
pub(crate) fn story_lines(flow: &Flow, events: &[Event]) -> Vec<StoryLine> {
    let mut lines = Vec::new();
    let mut run: Option<Run> = None;
    for event in events {
        evolve::evolve(&mut run, event);
        for (place, fact) in
            event.facts.iter().enumerate().filter(|(_, fact)| log_line::belongs_to_story(fact))
        {
            let moment = FactContext { flow, run: run.as_ref(), event, place };
            if let Some(what) = log_line::log_line(&moment) {
                let is_trouble = log_line::is_trouble(fact);
                lines.push(StoryLine { at: event.at, generation: event.generation, what, is_trouble });
            }
        }
    }
    lines
}
