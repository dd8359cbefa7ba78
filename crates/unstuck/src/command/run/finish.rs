//! The end of a run as it is shown: the outcome, the output, and what the user can do.

use std::process::ExitCode;

use unstuck_core::id::RunId;
use unstuck_core::json::Json;
use unstuck_core::model::run::{Phase, Run, RunOutcome, RunState};
use unstuck_core::time::Millis;
use unstuck_engine::runtime::Handle;
use unstuck_store::contract::Reader;

use super::tree::{Rest, Tree};
use crate::error::CommandError;
use crate::exit;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::style::style_of_word;
use crate::view::text;
use unstuck_service::explain::{self, ExplainedRun};
use unstuck_service::owner::state_phrase;
use unstuck_service::{Service, ServiceError, load_payload, show};

/// The final state of a run, read from the engine before it stops.
pub(super) struct Finished {
    pub(super) run: Run,
    /// The run document, as JSON.
    pub(super) document: String,
    output: Option<Json>,
    /// Why it is where it is; nothing for a completed run.
    explanation: Option<String>,
    rest: Option<Rest>,
    wanted: Vec<String>,
    /// What a command that is to be typed needs to find the same store.
    option: String,
}

impl Finished {
    /// Reads the run, its document, its output and its explanation.
    pub(super) fn read(handle: &Handle, service: &Service, tree: &Tree) -> Result<Finished, CommandError> {
        let (explained, document, output) = read_finished(service, handle.reader(), tree.root_id())?;
        let run = explained.run().clone();
        let explanation = (run.state() != RunState::Completed).then(|| {
            let columns = Output::stdout().width().unwrap_or(explain::COLUMNS);
            explained.rest(&service.option, columns)
        });
        let (rest, wanted) = (tree.rest(), tree.wanted_actions());
        let option = service.option.clone();
        Ok(Finished { run, document, output, explanation, rest, wanted, option })
    }

    /// Formats the run document as JSON.
    pub(super) fn document(&self) -> String {
        json_text::pretty(&self.document)
    }

    /// Shows the outcome as text.
    pub(super) fn show(&self, output: &mut Output) {
        let took = self.run.updated_at.since(self.run.created_at);
        let json = self.output.as_ref().map(Json::text);
        show_outcome(output, self.run.state().word(), took, json, self.explanation.as_deref());
        if self.rest == Some(Rest::Blocked) {
            let run = self.run.id;
            output.line(
                "\nThis run waits for a slot that an idle run holds. Continue that run first, then this one:",
            );
            output.line(&text::visible(&format!("  unstuck run --continue {run}{}", self.option)));
        }
        if self.rest == Some(Rest::NoWorker) {
            let note =
                format!("No worker offers {}, and no queueTimeout ends the wait.", self.wanted.join(", "));
            output.line(&format!("\n{}", text::visible(&note)));
        }
    }

    /// Returns the exit code for the state that the run ended or rests in.
    pub(super) fn exit_code(&self) -> ExitCode {
        match (self.run.state(), self.rest) {
            (RunState::Completed, _) => ExitCode::SUCCESS,
            (RunState::Held, _) | (_, Some(Rest::Held)) => ExitCode::from(exit::HELD),
            _ => ExitCode::from(exit::FAILED),
        }
    }
}

/// Shows where a run ended or rests, what it put out, and why it is there.
pub(super) fn show_outcome(
    output: &mut Output,
    state: &str,
    took: Millis,
    json: Option<&str>,
    explanation: Option<&str>,
) {
    output.line("");
    output.line(&format!(
        "{} after {took}",
        output.look.paint(style_of_word(state).bold(), state_phrase(state))
    ));
    if let Some(json) = json.filter(|json| *json != "null") {
        let pretty = json_text::pretty(json);
        output.line(&pretty.lines().map(text::visible).collect::<Vec<_>>().join("\n"));
    }
    if let Some(page) = explanation {
        output.line("");
        for line in page.trim_end().lines() {
            output.line(&text::visible(line));
        }
    }
}

/// Reads the explanation, the document and the output of a run from the store.
fn read_finished(
    service: &Service,
    reader: &dyn Reader,
    root: RunId,
) -> Result<(ExplainedRun, String, Option<Json>), ServiceError> {
    let explained = explain::explain_run(service, reader, root)?;
    let output = match &explained.run().phase {
        Phase::Ended(ended) => match &ended.how {
            RunOutcome::Completed { output } => Some(load_payload(reader, output)),
            RunOutcome::Failed { .. } | RunOutcome::Cancelled { .. } | RunOutcome::Superseded { .. } => None,
        },
        Phase::Going | Phase::Failing(_) => None,
    };
    let document = show::build_run_document(service, reader, root)?;
    Ok((explained, document.get().to_owned(), output))
}
