//! The end of a run, as it is told: the outcome, the output, and what an operator could do.

use std::process::ExitCode;

use unstuck_core::event::Event;
use unstuck_core::explain::{Explanation, explain};
use unstuck_core::id::RunId;
use unstuck_core::json::{Json, Payload};
use unstuck_core::model::run::{End, Phase, Run, RunState};
use unstuck_engine::document::run_document;
use unstuck_engine::flows::Flows;
use unstuck_engine::request::EngineError;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::Store;

use super::log::style_of_state;
use super::tree::{Rest, Tree};
use crate::failure::Failure;
use crate::output::Output;
use crate::{json_text, style, text};

/// The page of an explanation is made for so many columns.
const COLUMNS: usize = 80;

/// What a run has come to, read from the engine while it is still there.
pub(super) struct Finished {
    run: Run,
    document: String,
    output: Option<Json>,
    /// Of the run, and of those below it that need a person; empty for a completed run.
    explanations: Vec<Explanation>,
    rest: Option<Rest>,
    wanted: Vec<String>,
}

impl Finished {
    pub(super) fn read(handle: &Handle, tree: &Tree, root: RunId) -> Result<Finished, Failure> {
        let (children, now) = (tree.states(), super::now());
        let below = tree.resting_below();
        let read = move |store: &mut dyn Store, flows: &mut Flows| -> Result<_, EngineError> {
            let (run, history) = stored(store, root)?;
            let flow = flows.get(store, run.flow)?;
            let document =
                run_document(&run, &flow, &history, &mut |payload: &Payload| payload_of(store, payload));
            let output = match &run.phase {
                Phase::Ended(ended) => match &ended.how {
                    End::Completed { output } => Some(payload_of(store, output)),
                    End::Failed { .. } | End::Cancelled { .. } | End::Superseded { .. } => None,
                },
                Phase::Going | Phase::Failing(_) => None,
            };
            let mut explanations = Vec::new();
            if run.state() != RunState::Completed {
                explanations.push(explain(&run, &flow, &history, now, &children));
                for run in below {
                    let (run, history) = stored(store, run)?;
                    let flow = flows.get(store, run.flow)?;
                    explanations.push(explain(&run, &flow, &history, now, &children));
                }
            }
            Ok((run, document, output, explanations))
        };
        let failed = |error: EngineError| Failure::new(error.to_string());
        let (run, document, output, explanations) =
            handle.read(read).and_then(|read| read).map_err(failed)?;
        let document = serde_json::to_string(&document).map_err(|error| Failure::new(error.to_string()))?;
        let (rest, wanted) = (tree.rest(), tree.wanted_actions());
        Ok(Finished { run, document, output, explanations, rest, wanted })
    }

    /// The whole run as JSON.
    pub(super) fn document(&self) -> String {
        json_text::pretty(&self.document)
    }

    /// As text, for people. Whoever has cancelled the run knows why it ended.
    pub(super) fn show(&self, output: &mut Output, cancelled: bool) {
        let look = output.look;
        let state = self.run.state();
        let took = self.run.updated_at.since(self.run.created_at);
        output.line("");
        output.line(&format!("{} after {took}", look.paint(style_of_state(state).bold(), state.word())));
        if let Some(json) = self.output.as_ref().filter(|json| !json.is_null()) {
            let pretty = json_text::pretty(json.text());
            output.line(&pretty.lines().map(text::visible).collect::<Vec<_>>().join("\n"));
        }
        if cancelled {
            return;
        }
        for explanation in &self.explanations {
            output.line("");
            show_explanation(explanation, output);
        }
        if self.rest == Some(Rest::NoWorker) {
            let note = format!(
                "There are no workers here to take {}, and no queueTimeout ends the wait.",
                self.wanted.join(", ")
            );
            output.line(&format!("\n{}", text::visible(&note)));
        }
        if !self.explanations.is_empty() {
            let note = "This run was kept in memory only, and ends with this command.";
            output.line(&format!("\n{}", look.paint(style::DIM, note)));
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.run.state() == RunState::Cancelled
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match (self.run.state(), self.rest) {
            (RunState::Completed, _) => ExitCode::SUCCESS,
            (RunState::Held, _) | (_, Some(Rest::Held)) => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Why the run is where it is and what could be done about it; what happened is in the log above.
fn show_explanation(explanation: &Explanation, output: &mut Output) {
    let told =
        Explanation { happened: Vec::new(), earlier: 0, can: Vec::new(), ..explanation.clone() }.to_string();
    for line in told.trim_end().lines() {
        output.line(&text::visible(line));
    }
    // The run is gone when this is read, so there is nothing to be typed; what pauses or ends it would not help.
    let run = explanation.run.to_string();
    let helps: Vec<(String, &str)> = explanation
        .can
        .iter()
        .filter_map(|can| {
            let words: Vec<&str> =
                can.command.split(' ').filter(|word| *word != "unstuck" && *word != run).collect();
            let helps =
                words.first().is_some_and(|verb| matches!(*verb, "choose" | "resume" | "signal" | "rerun"));
            helps.then(|| (words.join(" "), can.what.as_str()))
        })
        .collect();
    if helps.is_empty() {
        return;
    }
    output.line("\nWhat an operator could do");
    for (command, what) in helps {
        let line = text::visible(&format!("{command}: {what}"));
        for (place, row) in text::wrap(&line, COLUMNS - 6).into_iter().enumerate() {
            output.line(&format!("  {}{row}", if place == 0 { "" } else { "    " }));
        }
    }
}

fn stored(store: &mut dyn Store, run: RunId) -> Result<(Run, Vec<Event>), EngineError> {
    let found = store.run(run)?.ok_or_else(|| EngineError::BadFlow(format!("{run} is not there")))?;
    Ok((found, store.history(run, 0, usize::MAX)?))
}

fn payload_of(store: &mut dyn Store, payload: &Payload) -> Json {
    match payload {
        Payload::Inline(json) => json.clone(),
        Payload::Stored(id) => {
            let found = store.payloads(&[*id]).ok().and_then(|mut found| found.pop().flatten());
            found.unwrap_or_default()
        }
    }
}
