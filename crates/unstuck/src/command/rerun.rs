//! `unstuck rerun`: the next generation of a final run.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use unstuck_service::request::{BulkVerb, RerunScope, RunOperation};

/// Start the next generation of a final run.
///
/// It goes on from the point of failure: what is completed is not run again. The generation before it is kept. The
/// steps are executed by `unstuck run --continue RUN`. Where the data was at fault, give it another input. An exception
/// handler that failed can be rerun by itself.
/// Several runs, or what they have in common, are started again by a bulk action: see `unstuck bulk`. What they have in
/// common means the failed ones, unless --state says otherwise; it asks first on a terminal, and elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest; or several.
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "flow", "state", "label"],
        conflicts_with_all = ["group", "flow", "state", "label"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Begin with so many runs, go on with twice as many while all of them are completed, and stop if one is not.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    canary: Option<u32>,

    /// Run every step again.
    #[arg(long, conflicts_with = "steps")]
    all: bool,

    /// Run these steps again, with everything that depends on them.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    steps: Vec<String>,

    /// Change the input of the run to this: JSON, `@FILE`, or `-` for stdin. It is checked as at the start. What is
    /// completed keeps the output that it has; with --all everything is made from the new input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,

    /// Give the step that failed, or the one of --steps, this instead: JSON, `@FILE`, or `-` for stdin.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    step_input: Option<String>,

    /// Do not ask before many runs are started again.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck rerun @latest
  unstuck rerun run_0s86mke080000 --steps encode,upload
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
        let (input, step_input) = json_input::changes(self.input, self.step_input)?;
        let place = self.store.place()?;
        let run = match self.runs.as_slice() {
            [run] if !self.common.is_given() && self.canary.is_none() => run,
            _ => {
                let action = BulkVerb::Rerun { again, input, step_input };
                let more = More { canary: self.canary, ..More::default() };
                let order = self.common.order(action, self.runs, more);
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("started again", "started");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                return begin::execute(&place, order, format);
            }
        };
        let answer = place.change(run, RunOperation::Rerun { again, input, step_input })?;
        let done = "The next generation has started.";
        changed::tell(&answer, format, done, done)
    }
}
