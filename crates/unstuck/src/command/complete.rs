//! `unstuck complete`: a step was done by hand.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open, exit_with_usage};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Mark a step as completed, because its work was done by hand.
///
/// The step must be in error, held, waiting or queued; an active step cannot be completed from outside. The step is
/// recorded as done by hand, and the steps that need it continue with the given output. With several runs or a filter,
/// a bulk action does this, with the same output: see `unstuck bulk`. A filter asks for confirmation on a terminal;
/// elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the start of its id, its key or FLOW:KEY, or @latest) and its step (`step[3]` for an item).
    /// With --run or a filter: only the step.
    #[arg(value_name = "RUN STEP", required = true, num_args = 1..=2)]
    names: Vec<String>,

    /// The step in this run; repeat it for more runs.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// The output of the step: JSON, `@FILE`, or `-` for stdin.
    #[arg(long = "output", id = "step_output", value_name = "JSON", allow_hyphen_values = true)]
    output: String,

    /// The output format: text for people, JSON for programs.
    // Replaces the global option, whose long name means the step's output here.
    #[arg(short = 'o', id = "output", value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck complete [OPTIONS] --output <JSON> <RUN> <STEP>
       unstuck complete [OPTIONS] --output <JSON> <STEP>   with --run or a filter";

const EXAMPLES: &str = "\
Examples:
  unstuck complete @latest transfer --output '{\"receipt\": 4711}'
  unstuck complete run_0s86mke080000 'fetch[3]' --output @fetched.json --reason 'fetched with curl'
  unstuck complete --flow nightly --state error transfer --output null --yes";

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        let output = json_input::parse(&self.output, "--output")?.text().to_owned();
        let place = self.store.place()?;
        let is_bulk = self.common.is_given() || self.open.is_given() || !self.runs.is_empty();
        match (self.names.as_slice(), is_bulk) {
            ([run, step], false) => {
                let done = format!("Marked `{step}` as completed by hand.");
                let already = format!("`{step}` was already completed by hand, with the same output.");
                let what = RunOperation::Complete { step: step.clone(), output, reason: self.reason };
                changed::show_change(&place.change(run, what)?, self.format, &done, &already)
            }
            ([step], true) => {
                let more = More { open: self.open, canary: None, reason: self.reason };
                let action = BulkVerb::Complete { step: step.clone(), output };
                let order = self.common.into_new_bulk(action, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("marked as completed", "completed");
                    confirm(&place, &order, &Question { of_steps: true, done, not_done })?;
                }
                begin::begin_bulk(&place, order, self.format)
            }
            (_, true) => exit_with_usage("complete", "with --run or a filter, give only the step"),
            (_, false) => exit_with_usage("complete", "give the run and its step"),
        }
    }
}
