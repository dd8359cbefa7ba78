//! `unstuck rerun`: the next generation of a final run.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::connection::Answer;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use crate::view::output::Output;
use crate::view::text;
use unstuck_api::request::{BulkVerb, RerunOptions, RerunScope, RunOperation};
use unstuck_api::runs::RerunPreviewView;

/// Start the next generation of a final run.
///
/// By default it continues from the point of failure: completed steps do not run again. The previous generation is
/// kept. `unstuck run --continue RUN` executes the steps. If the data was wrong, give a new input. A failed exception
/// handler can be rerun on its own. With several runs or a filter, a bulk action does this: see `unstuck bulk`. A
/// filter selects failed runs unless --state says otherwise; it asks for confirmation on a terminal, and needs --yes
/// elsewhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The runs: id, start of an id, key (or FLOW:KEY), or @latest.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "state", "label"],
        conflicts_with_all = ["group", "flow", "state", "label"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Start with this many runs, double while all of them complete, stop if one does not.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    canary: Option<u32>,

    /// Run every step again.
    #[arg(long, conflicts_with = "steps")]
    all: bool,

    /// Run these steps again, and everything that depends on them.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    steps: Vec<String>,

    /// The new input of the run: JSON, `@FILE`, or `-` for stdin. It is checked as at the start. Completed steps keep
    /// their outputs; with --all everything runs with the new input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// The new input of the failed step, or of the one in --steps: JSON, `@FILE`, or `-` for stdin.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    step_input: Option<String>,

    /// Cancel a run that is under way, and rerun it, in one step.
    #[arg(long)]
    cancel_first: bool,

    /// How long it may take, such as `2h`, or until when; `none` for no deadline. [default: as the flow says]
    #[arg(long, value_name = "WHEN")]
    deadline: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck rerun @latest
  unstuck rerun run_0s86mke080000 --steps encode,upload
  unstuck rerun @latest --all --cancel-first --deadline 2h
  unstuck rerun @latest --dry-run
  unstuck rerun @latest --input '{\"file\": \"corrected.csv\"}'
  unstuck rerun --flow nightly --canary 5 --yes
  unstuck rerun --flow nightly --state cancelled --all --dry-run";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let again = match (self.all, self.steps) {
            (true, _) => RerunScope::All,
            (false, steps) if steps.is_empty() => RerunScope::Continue,
            (false, steps) => RerunScope::Steps(steps),
        };
        let (input, step_input) = json_input::parse_changed_inputs(self.input, self.step_input)?;
        let place = self.store.place()?;
        let run = match self.runs.as_slice() {
            [run] if !self.common.selects() && self.canary.is_none() => run,
            _ if self.cancel_first || self.deadline.is_some() => begin::exit_with_usage(
                "rerun",
                "--cancel-first and --deadline are for one run: name one, without filters",
            ),
            _ => {
                let action = BulkVerb::Rerun { again, input, step_input };
                let more = More { canary: self.canary, ..More::default() };
                let order = self.common.into_new_bulk(action, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("rerun", "started");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                return begin::begin_bulk(&place, order, format);
            }
        };
        let dry_run = self.common.is_dry_run();
        let options = RerunOptions { cancel_first: self.cancel_first, deadline: self.deadline, dry_run };
        let answer = place.change(run, RunOperation::Rerun { again, input, step_input, options })?;
        if dry_run {
            return show_preview(&answer, format);
        }
        let done = "Started the next generation.";
        changed::show_change(&answer, format, done, done)
    }
}

/// Shows which steps a rerun would run again.
fn show_preview(answer: &Answer, format: Format) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let preview: RerunPreviewView = answer.read()?;
            let list = |steps: &[String]| {
                if steps.is_empty() { "-".to_owned() } else { text::visible(&steps.join(", ")) }
            };
            stdout.line(&format!(
                "A rerun of {} would begin generation {}. Nothing was changed.",
                preview.run, preview.generation
            ));
            stdout.field("again", 6, &list(&preview.again));
            stdout.field("kept", 6, &list(&preview.kept));
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}
