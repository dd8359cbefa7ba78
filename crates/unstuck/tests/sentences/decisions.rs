//! What happened, fact by fact, and why each decision was taken.

use unstuck_core::event::{Fact, UnitFact};
use unstuck_core::evolve::evolve;
use unstuck_core::reason::{self, Rung};

use crate::world::World;
use crate::{Line, in_order, scenes};

labels!(FACTS, of_fact(Fact), {
    Fact::Started(_) => "Started",
    Fact::Admitted => "Admitted",
    Fact::Paused { .. } => "Paused",
    Fact::Unpaused => "Unpaused",
    Fact::Amended(_) => "Amended",
    Fact::Migrated(_) => "Migrated",
    Fact::ClockCorrected { .. } => "ClockCorrected",
    Fact::InputChanged { .. } => "InputChanged",
    Fact::SignalKept { .. } => "SignalKept",
    Fact::SignalTaken { .. } => "SignalTaken",
    Fact::Failing { .. } => "Failing",
    Fact::HandlerStarted { .. } => "HandlerStarted",
    Fact::HandlerChanged { .. } => "HandlerChanged",
    Fact::Completed { .. } => "Completed",
    Fact::RunFailed { .. } => "RunFailed",
    Fact::RunCancelled { .. } => "RunCancelled",
    Fact::Reran { .. } => "Reran",
    Fact::ItemsKnown { .. } => "ItemsKnown",
    Fact::ItemsCompleted { .. } => "ItemsCompleted",
    Fact::ItemsEnded { .. } => "ItemsEnded",
    Fact::Unit { fact: UnitFact::InputBound { .. }, .. } => "step InputBound",
    Fact::Unit { fact: UnitFact::Queued { .. }, .. } => "step Queued",
    Fact::Unit { fact: UnitFact::Dequeued { .. }, .. } => "step Dequeued",
    Fact::Unit { fact: UnitFact::Started { .. }, .. } => "step Started",
    Fact::Unit { fact: UnitFact::Progress { .. }, .. } => "step Progress",
    Fact::Unit { fact: UnitFact::ReportIgnored { .. }, .. } => "step ReportIgnored",
    Fact::Unit { fact: UnitFact::LimitExtended { .. }, .. } => "step LimitExtended",
    Fact::Unit { fact: UnitFact::Ended { .. }, .. } => "step Ended",
    Fact::Unit { fact: UnitFact::Retry { .. }, .. } => "step Retry",
    Fact::Unit { fact: UnitFact::Held, .. } => "step Held",
    Fact::Unit { fact: UnitFact::Ignored, .. } => "step Ignored",
    Fact::Unit { fact: UnitFact::Scheduled { .. }, .. } => "step Scheduled",
    Fact::Unit { fact: UnitFact::PassedOver { .. }, .. } => "step PassedOver",
    Fact::Unit { fact: UnitFact::LeftInError, .. } => "step LeftInError",
    Fact::Unit { fact: UnitFact::Acknowledged { .. }, .. } => "step Acknowledged",
    Fact::Unit { fact: UnitFact::DoneByHand { .. }, .. } => "step DoneByHand",
    Fact::Unit { fact: UnitFact::Failed, .. } => "step Failed",
    Fact::Unit { fact: UnitFact::Deferred { .. }, .. } => "step Deferred",
    Fact::Unit { fact: UnitFact::Requeued { .. }, .. } => "step Requeued",
    Fact::Unit { fact: UnitFact::Skipped { .. }, .. } => "step Skipped",
    Fact::Unit { fact: UnitFact::Done { .. }, .. } => "step Done",
    Fact::Unit { fact: UnitFact::TimerSet { .. }, .. } => "step TimerSet",
    Fact::Unit { fact: UnitFact::SignalAwaited { .. }, .. } => "step SignalAwaited",
    Fact::Unit { fact: UnitFact::ChildStarted { .. }, .. } => "step ChildStarted",
    Fact::Unit { fact: UnitFact::ChildChanged { .. }, .. } => "step ChildChanged",
    Fact::Unit { fact: UnitFact::Chosen { .. }, .. } => "step Chosen",
    Fact::Unit { fact: UnitFact::Resumed { .. }, .. } => "step Resumed",
    Fact::Unit { fact: UnitFact::Closed { .. }, .. } => "step Closed",
});

/// Facts that never have a line of their own: what follows them says it.
const SILENT: [&str; 3] = ["SignalTaken", "step InputBound", "step PassedOver"];

labels!(RUNGS, of_rung(Rung), {
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
});

/// A line of the log for every kind of fact.
pub(crate) fn facts() -> Vec<Line> {
    let lines = scenes::all().iter().flat_map(log).collect();
    let shown: Vec<&str> = FACTS.iter().copied().filter(|label| !SILENT.contains(label)).collect();
    in_order(&shown, lines)
}

fn log(world: &World) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (run, events) in &world.history {
        let flow = world.flow_of(&world.runs[run]);
        let mut state = None;
        for event in events {
            evolve(&mut state, event);
            for fact in &event.facts {
                let line = reason::fact_line(&flow, state.as_ref(), event, fact);
                lines.extend(line.map(|line| (of_fact(fact), world.named(&line))));
            }
        }
    }
    assert!(lines.iter().all(|(label, _)| !SILENT.contains(label)), "a fact that has a line is not silent");
    lines
}

/// The rule and the reason of every kind of decision.
pub(crate) fn reasons() -> Vec<Line> {
    let of_world = |world: &World| -> Vec<(&'static str, String)> {
        let histories = world.history.iter();
        let decisions = histories
            .flat_map(|(run, events)| reason::list_decisions(&world.flow_of(&world.runs[run]), events));
        let text = |line: &reason::DecisionLine| format!("[{}] {}", line.rule, line.reason);
        decisions.map(|line| (of_rung(&line.rung), world.named(&text(&line)))).collect()
    };
    in_order(RUNGS, scenes::all().iter().flat_map(of_world).collect())
}
