//! `unstuck signal`: something from outside that a run waits for.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, exit_with_usage};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use unstuck_api::request::{BulkVerb, RunOperation};

/// Send a signal to a run.
///
/// A step that waits for a signal with this name completes, and the payload becomes its output. A signal that no step
/// waits for yet is kept. With several runs or a filter, a bulk action does this: see `unstuck bulk`. A filter selects
/// runs that wait for the signal now; it asks for confirmation on a terminal, and needs --yes elsewhere.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the start of its id, its key or FLOW:KEY, or @latest), the name of the signal, and its payload:
    /// JSON, `@FILE`, or `-` for stdin. [default: null] With --run or a filter: without the run.
    #[arg(value_name = "RUN NAME [JSON]", required = true, num_args = 1..=3, allow_negative_numbers = true)]
    names: Vec<String>,

    /// Send it to this run; repeat it for more runs.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "state", "label"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck signal [OPTIONS] <RUN> <NAME> [JSON]
       unstuck signal [OPTIONS] <NAME> [JSON]   with --run or a filter";

const EXAMPLES: &str = "\
Examples:
  unstuck signal @latest approve
  unstuck signal run_0s86mke080000 approve '{\"by\": \"ada\"}'
  unstuck signal --flow order approve '{\"by\": \"ada\"}' --yes";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let payload = |json: Option<&String>| match json {
            None => Ok("null".to_owned()),
            Some(given) => {
                json_input::parse(given, "the payload of the signal").map(|json| json.text().to_owned())
            }
        };
        let is_bulk = self.common.is_given() || !self.runs.is_empty();
        match (self.names.as_slice(), is_bulk) {
            ([run, name, json @ ..], false) => {
                let payload = payload(json.first())?;
                let done = format!("Sent signal `{name}`.");
                let what = RunOperation::Signal { name: name.clone(), payload };
                changed::show_change(&self.store.place()?.change(run, what)?, format, &done, &done)
            }
            ([name, json @ ..], true) if json.len() < 2 => {
                let place = self.store.place()?;
                let action = BulkVerb::Signal { name: name.clone(), payload: payload(json.first())? };
                let order = self.common.into_new_bulk(action, self.runs, More::default());
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("sent the signal", "sent");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                begin::begin_bulk(&place, order, format)
            }
            (_, true) => exit_with_usage(
                "signal",
                "with --run or a filter, give only the name of the signal and its payload",
            ),
            (_, false) => exit_with_usage("signal", "give the run and the name of the signal"),
        }
    }
}
