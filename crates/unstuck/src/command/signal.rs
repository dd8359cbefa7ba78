//! `unstuck signal`: something from outside that a run waits for.

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::bulk::begin::{self, Common, More, misused};
use crate::command::bulk::confirm::{Question, confirm};
use crate::input::json_input;
use crate::view::changed;
use unstuck_service::request::{BulkVerb, RunOperation};

/// Send a signal to a run.
///
/// A step that waits for a signal of this name is completed by it, and what it carries becomes the step's output. A
/// signal that nobody waits for yet is kept.
/// Several runs, or what they have in common, are sent it by a bulk action: see `unstuck bulk`. What they have in common
/// means the runs that wait for it now; it asks first on a terminal, and elsewhere it needs --yes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    /// The run (its id, the beginning of its id, its key or FLOW:KEY, or @latest), the name of the signal, and what it
    /// carries: JSON, `@FILE`, or `-` for stdin. [default: null] With --run, or what runs have in common: without the run.
    #[arg(value_name = "RUN NAME [JSON]", required = true, num_args = 1..=3, allow_negative_numbers = true)]
    names: Vec<String>,

    /// Send it to this run; give it again for another run.
    #[arg(long = "run", value_name = "RUN", conflicts_with_all = ["group", "flow", "state", "label"])]
    runs: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Do not ask before many runs are sent it.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const USAGE: &str = "\
unstuck signal [OPTIONS] <RUN> <NAME> [JSON]
       unstuck signal [OPTIONS] <NAME> [JSON]   with --run, or what runs have in common";

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
                json_input::parse(given, "what the signal carries").map(|json| json.text().to_owned())
            }
        };
        let is_bulk = self.common.is_given() || !self.runs.is_empty();
        match (self.names.as_slice(), is_bulk) {
            ([run, name, json @ ..], false) => {
                let payload = payload(json.first())?;
                let done = format!("Signal `{name}` has come.");
                let what = RunOperation::Signal { name: name.clone(), payload };
                changed::tell(&self.store.place()?.change(run, what)?, format, &done, &done)
            }
            ([name, json @ ..], true) if json.len() < 2 => {
                let place = self.store.place()?;
                let action = BulkVerb::Signal { name: name.clone(), payload: payload(json.first())? };
                let order = self.common.order(action, self.runs, More::default());
                if order.runs.is_empty() && !order.dry_run && !self.yes {
                    let (done, not_done) = ("sent the signal", "sent");
                    confirm(&place, &order, &Question { of_steps: false, done, not_done })?;
                }
                begin::execute(&place, order, format)
            }
            (_, true) => misused(
                "signal",
                "with --run or what runs have in common, give the name of the signal and what it carries",
            ),
            (_, false) => misused("signal", "give the run and the name of the signal"),
        }
    }
}
