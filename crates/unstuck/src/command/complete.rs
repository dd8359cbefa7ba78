//! `unstuck complete`: a step was done by hand.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, Open, misused};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use unstuck_service::request::{BulkVerb, RunOperation};

/// Count a step as completed, because somebody has done by hand what it was to do.
///
/// The step must be in error, held, waiting or queued: what an attempt is under way for cannot be completed from outside.
/// It is marked as done by hand, and what needs it goes on with the output that you give.
/// In several runs, or in what has something in common, it is completed by a bulk action, with the same output: see
/// `unstuck bulk`. What they have in common asks first, on a terminal; elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the beginning of its id, its key or FLOW:KEY, or @latest) and its step; `step[3]` for an item. With
    /// --run, or what runs have in common: the step alone.
    #[arg(value_name = "RUN STEP", required = true, num_args = 1..=2)]
    names: Vec<String>,

    /// That step of this run; give it again for another run.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "policy", "state", "label", "needs_person"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    open: Open,

    /// What it would have put out: JSON, `@FILE`, or `-` for stdin.
    #[arg(long = "output", id = "step_output", value_name = "JSON", allow_hyphen_values = true)]
    output: String,

    /// What goes to stdout: text for people, or JSON for programs.
    // Takes the place of the option of all commands, whose long name means the step's output here.
    #[arg(short = 'o', id = "output", value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Do not ask before the step is counted as completed in many runs.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck complete [OPTIONS] --output <JSON> <RUN> <STEP>
       unstuck complete [OPTIONS] --output <JSON> <STEP>   with --run, or what runs have in common";

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
                let done = format!("`{step}` counts as completed, done by hand.");
                let already = format!("`{step}` was completed by hand already, with the output that it has.");
                let what = RunOperation::Complete { step: step.clone(), output, reason: self.reason };
                changed::tell(&place.change(run, what)?, self.format, &done, &already)
            }
            ([step], true) => {
                let more = More { open: self.open, canary: None, reason: self.reason };
                let action = BulkVerb::Complete { step: step.clone(), output };
                let order = self.common.order(action, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("counted as completed", "completed");
                    confirm(&place, &order, &Question { of_steps: true, done, not_done })?;
                }
                begin::execute(&place, order, self.format)
            }
            (_, true) => misused("complete", "with --run or what runs have in common, give the step alone"),
            (_, false) => misused("complete", "give the run and its step"),
        }
    }
}
