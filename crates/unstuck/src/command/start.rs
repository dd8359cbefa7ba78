//! `unstuck start`: starts a run of a flow that the store has, and waits for it if so wanted.

use std::thread;
use std::time::Duration;

use serde_json::value::RawValue;
use unstuck_api::http::StartBody;
use unstuck_api::owner::OwnerView;
use unstuck_api::request::{OnDuplicate, Query};
use unstuck_api::runs::{ChangedView, RunView};
use unstuck_client::Client;

use crate::CommandResult;
use crate::Format;
use crate::access::connection;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::error::CommandError;
use crate::exit;
use crate::input::json_input;
use crate::view::changed;
use crate::view::json_text;
use crate::view::output::Output;

/// How long to rest between two looks at a run, at first and at most.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Start a run of a flow that the store has.
///
/// A server executes it; without one it is stored, and the next `unstuck serve` of the store executes it. `unstuck flow apply FILE`
/// puts flows into the store.
///
/// With --wait the command ends when the run rests, with the exit code of `unstuck run`: 0 completed, 1 failed, cancelled or in
/// error, 3 held for an operator.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The name of the flow.
    flow: String,

    /// The input: JSON, `@FILE`, or `-` for stdin.
    #[arg(short, long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// The key of the run. If the flow already has a run with this key, that run is shown and nothing is started.
    #[arg(short, long)]
    key: Option<String>,

    /// If the key already has a run: show it, start it again if it is final, or refuse.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = super::run::OnDuplicate::Return, requires = "key")]
    on_duplicate: super::run::OnDuplicate,

    /// This version of the flow. [default: the newest]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Give the run a label, to find it by: `--label team=media`; repeat it for several.
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::runs::parse_label)]
    label: Vec<(String, String)>,

    /// Higher first. [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,

    /// How long it may take, such as `2h`, or until when, such as `2030-01-31T08:30:00Z`.
    #[arg(long, value_name = "WHEN")]
    deadline: Option<String>,

    /// Wait until the run is final, held, in error or paused.
    #[arg(short, long)]
    wait: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck start order --input '{\"order\": 17}' --key order-17
  unstuck start nightly --wait --server http://127.0.0.1:7070";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let input = self.input.as_deref().map(|input| json_input::parse(input, "--input")).transpose()?;
        let input = input.map(|input| RawValue::from_string(input.text().to_owned())).transpose();
        let answer = place.start_run(StartBody {
            flow: self.flow,
            input: input.map_err(|error| CommandError::new(format!("--input: {error}")))?,
            key: self.key,
            on_duplicate: Some(OnDuplicate::from(self.on_duplicate)),
            version: self.version,
            priority: self.priority,
            deadline: self.deadline,
            labels: self.label.into_iter().collect(),
            reason: None,
        })?;
        if !self.wait {
            let already = "The key already has this run; nothing was started.";
            return changed::show_change(&answer, format, "Started the run.", already);
        }
        let started: ChangedView = answer.read()?;
        wait_and_show(&place, &started.run, format)
    }
}

/// Waits until the run rests, shows it, and returns its exit code.
fn wait_and_show(place: &StoreLocation, run: &str, format: Format) -> CommandResult {
    let document = wait_for_rest(place, run)?;
    let state = state_of(&document);
    match format {
        Format::Json => {
            let mut stdout = Output::stdout();
            stdout.line(&json_text::pretty(&document));
            stdout.finish()?;
        }
        Format::Text => {
            let page: String = place
                .read(Query::ExplainPage { run: run.to_owned(), columns: None, without_happened: false })?
                .read()?;
            let mut stdout = Output::stdout();
            stdout.text(&page);
            stdout.finish()?;
        }
    }
    Ok(exit::of_state(&state))
}

/// Returns the document of the run once nothing happens to it by itself.
fn wait_for_rest(place: &StoreLocation, run: &str) -> Result<String, CommandError> {
    let mut rest = FIRST_REST;
    loop {
        let owner = find_server(place)?;
        // A server answers when the run rests.
        let waited = place.server.as_ref().or(owner.as_ref()).map(|server| server.wait_for_run(run));
        let has_waited = matches!(waited, Some(Ok(_)));
        let document = match waited {
            Some(Ok(document)) => document,
            Some(Err(error)) if place.server.is_some() => return Err(connection::unanswered_query(error)),
            // Nobody executes it now; whoever has the store next may.
            Some(Err(_)) | None => {
                let view: RunView = place.read(Query::show(run))?.read()?;
                view.run.get().to_owned()
            }
        };
        if !matches!(state_of(&document).as_str(), "queued" | "running" | "waiting") {
            return Ok(document);
        }
        if !has_waited {
            thread::sleep(rest);
            rest = (rest * 2).min(LONGEST_REST);
        }
    }
}

/// Returns a client of the server that has a store of this machine open, if one has.
fn find_server(place: &StoreLocation) -> Result<Option<Client>, CommandError> {
    if place.server.is_some() {
        return Ok(None);
    }
    let owner: OwnerView = place.read(Query::Executing)?.read()?;
    owner.serves.map(|url| place.client_of(&url)).transpose()
}

fn state_of(document: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
    document["state"].as_str().unwrap_or_default().to_owned()
}
