//! Log lines: what happened, one line each, with the time since the start of the run.

use anstyle::Style;
use unstuck_api::history::StreamEventView;
use unstuck_core::event::{Closing, Event, Fact, UnitFact};
use unstuck_core::id::RunId;
use unstuck_core::model::attempt::Outcome;
use unstuck_core::model::run::RunState;
use unstuck_core::reason;
use unstuck_core::time::{Millis, Time};

use super::tree::Tree;
use crate::view::style::{self, Look};
use crate::view::text;

/// Something that happened.
pub(super) struct Line {
    /// Since the start of the root run.
    after: Millis,
    /// Whose it is: the steps that lead to its run.
    path: String,
    text: String,
    style: Style,
}

/// Formats an event that the tree has applied as log lines.
pub(super) fn event_lines(tree: &Tree, run: RunId, event: &Event, began: Time) -> Vec<Line> {
    let Some((state, flow)) = tree.get(run) else { return Vec::new() };
    let path = tree.path(run);
    let mut lines = Vec::new();
    for fact in &event.facts {
        let text = reason::fact_line(flow, Some(state), event, fact).filter(|text| !text.is_empty());
        lines.extend(text.map(|text| Line {
            after: event.time().since(began),
            path: path.clone(),
            text,
            style: style_of(fact),
        }));
    }
    lines
}

impl Line {
    /// Formats what a stream of events tells.
    pub(super) fn of_stream_event(event: &StreamEventView, began: Time) -> Vec<Line> {
        let after = Time(event.at.as_millisecond()).since(began);
        let path = event.path.join(" > ");
        // There may be facts that no sentence is about; which ones is not told.
        let is_each_told = event.facts.len() == event.what.len();
        let style_at = |place: usize| match event.facts.get(place).filter(|_| is_each_told) {
            Some(fact) => style_of_fact_type(fact),
            None => Style::new(),
        };
        let lines = event.what.iter().enumerate();
        let line = |(place, text): (usize, &String)| Line {
            after,
            path: path.clone(),
            text: text.clone(),
            style: style_at(place),
        };
        lines.map(line).collect()
    }

    /// Builds a line that is no event.
    pub(super) fn note(now: Time, began: Time, text: String, style: Style) -> Line {
        Line { after: now.since(began), path: String::new(), text, style }
    }

    /// Formats the line for an output that is no terminal.
    pub(super) fn plain(&self) -> String {
        text::visible(&format!("{} {}", self.offset(), self.sentence()))
    }

    /// Formats the line for a terminal of this width, wrapped with a hanging indent.
    pub(super) fn rows(&self, width: usize, look: Look) -> Vec<String> {
        let offset = self.offset();
        let indent = text::columns(&offset) + 1;
        // A terminal that is too narrow for two columns gets no indent.
        let (indent, room) = if width < indent + 20 { (0, width) } else { (indent, width - indent) };
        let sentence = text::visible(&self.sentence());
        let mut rows = Vec::new();
        for (place, row) in text::wrap(&sentence, room).into_iter().enumerate() {
            let row = look.paint(self.style, row);
            rows.push(match (indent, place) {
                (0, _) => row,
                (_, 0) => format!("{} {row}", look.paint(style::DIM, &offset)),
                (_, _) => format!("{}{row}", " ".repeat(indent)),
            });
        }
        rows
    }

    fn offset(&self) -> String {
        let Millis(ms) = self.after;
        format!("{:>8}", format!("+{}.{:03}s", ms / 1_000, ms % 1_000))
    }

    fn sentence(&self) -> String {
        if self.path.is_empty() { self.text.clone() } else { format!("{} > {}", self.path, self.text) }
    }
}

/// Returns the colour of a type of fact, as a stream names it.
fn style_of_fact_type(kind: &str) -> Style {
    match kind {
        "run.completed" | "step.completed" | "attempt.completed" => style::GOOD,
        "run.failing" | "run.failed" | "run.cancelled" | "attempt.stalled" | "attempt.failed"
        | "attempt.stuck" | "step.scheduled" | "step.error" | "step.failed" => style::BAD,
        "attempt.deferred"
        | "step.retried"
        | "step.deferred"
        | "step.requeued"
        | "step.ignored"
        | "attempt.reportIgnored"
        | "run.clockCorrected" => style::LATER,
        "step.held" | "run.paused" => style::ASKS,
        "attempt.cancelled" | "attempt.released" | "step.skipped" | "step.dropped" | "step.cancelled" => {
            style::DIM
        }
        _ => Style::new(),
    }
}

/// Returns the colour of a fact: errors, recovery and success stand out.
fn style_of(fact: &Fact) -> Style {
    let plain = Style::new();
    match fact {
        Fact::Completed { .. } | Fact::ItemsCompleted { .. } => style::GOOD,
        Fact::Failing { .. } | Fact::RunFailed { .. } | Fact::RunCancelled { .. } => style::BAD,
        Fact::HandlerChanged { state } => style_of_state(*state),
        Fact::ItemsEnded { how, .. } => style_of_closing(*how),
        Fact::Paused { .. } => style::ASKS,
        Fact::ClockCorrected { .. } => style::LATER,
        Fact::Started(_)
        | Fact::Admitted
        | Fact::Unpaused
        | Fact::Amended(_)
        | Fact::Migrated(_)
        | Fact::InputChanged { .. }
        | Fact::SignalKept { .. }
        | Fact::SignalTaken { .. }
        | Fact::HandlerStarted { .. }
        | Fact::Reran { .. }
        | Fact::ItemsKnown { .. } => plain,
        Fact::Unit { fact, .. } => match fact {
            UnitFact::Ended { outcome, .. } => match outcome {
                Outcome::Completed(_) => style::GOOD,
                Outcome::Stalled(_) | Outcome::Failed(_) | Outcome::Stuck(_) => style::BAD,
                Outcome::Deferred { .. } => style::LATER,
                Outcome::Cancelled(_) => style::DIM,
            },
            UnitFact::Done { .. } => style::GOOD,
            UnitFact::Retry { .. }
            | UnitFact::Deferred { .. }
            | UnitFact::Requeued { .. }
            | UnitFact::Ignored
            | UnitFact::ReportIgnored { .. } => style::LATER,
            UnitFact::Held => style::ASKS,
            UnitFact::Scheduled { .. } | UnitFact::LeftInError | UnitFact::Failed => style::BAD,
            UnitFact::ChildChanged { state } => style_of_state(*state),
            UnitFact::Skipped { .. } => style::DIM,
            UnitFact::Closed { how } => style_of_closing(*how),
            UnitFact::InputBound { .. }
            | UnitFact::PassedOver { .. }
            | UnitFact::Queued { .. }
            | UnitFact::Dequeued { .. }
            | UnitFact::Started { .. }
            | UnitFact::Progress { .. }
            | UnitFact::LimitExtended { .. }
            | UnitFact::TimerSet { .. }
            | UnitFact::SignalAwaited { .. }
            | UnitFact::ChildStarted { .. }
            | UnitFact::Chosen { .. }
            | UnitFact::Acknowledged { .. }
            | UnitFact::DoneByHand { .. }
            | UnitFact::Resumed { .. } => plain,
        },
    }
}

fn style_of_closing(how: Closing) -> Style {
    match how {
        Closing::Failed => style::BAD,
        Closing::Dropped | Closing::Cancelled | Closing::Skipped => style::DIM,
    }
}

/// Returns the colour of a run state.
fn style_of_state(state: RunState) -> Style {
    match state {
        RunState::Queued => style::DIM,
        RunState::Running => style::BUSY,
        RunState::Waiting => style::LATER,
        RunState::Error | RunState::Failed | RunState::Cancelled => style::BAD,
        RunState::Held | RunState::Paused => style::ASKS,
        RunState::Completed => style::GOOD,
        RunState::Superseded => style::DIM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ms: u64, path: &str, text: &str) -> Line {
        Line { after: Millis(ms), path: path.to_owned(), text: text.to_owned(), style: Style::new() }
    }

    #[test]
    fn a_line_has_the_time_since_the_start_and_whose_it_is() {
        let cases = [
            (line(0, "", "the run starts"), " +0.000s the run starts"),
            (line(1_203, "", "a: attempt 1 started"), " +1.203s a: attempt 1 started"),
            (line(61_020, "ask[2]", "b: completed"), "+61.020s ask[2] > b: completed"),
            (line(3_600_000, "", "a: said \u{1b}[2J"), "+3600.000s a: said \u{fffd}[2J"),
        ];
        for (line, wanted) in cases {
            assert_eq!(line.plain(), wanted);
        }
    }

    #[test]
    fn a_long_line_goes_on_under_its_text_and_never_past_the_edge() {
        let line = line(1_203, "", "download: attempt 1 stalled: connection reset by peer");
        let wanted =
            [" +1.203s download: attempt 1", "         stalled: connection", "         reset by peer"];
        assert_eq!(line.rows(30, Look::PLAIN), wanted);
        for width in 1..90 {
            for row in line.rows(width, Look::PLAIN) {
                assert!(text::columns(&row) <= width, "{row} in {width}");
            }
        }
    }
}
