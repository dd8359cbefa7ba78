//! `unstuck items`: the items of `forEach` steps, page by page.

use std::process::ExitCode;

use clap::ValueEnum;
use unstuck_api::ItemsView;
use unstuck_api::request::{ItemsQuery, Query};

use super::show::show_step_table;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;

/// List the items of a `forEach` step, in order.
///
/// Items that have not started yet are listed as pending.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only items of this step. [default: of every step that has some]
    step: Option<String>,

    /// Only items in this state; repeat it for several.
    #[arg(long, value_name = "STATE", value_enum)]
    state: Vec<ItemState>,

    /// Show at most this many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// Continue after a page: its `next`.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck items @latest
  unstuck items @latest encode --state error --state held -o json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ItemState {
    Pending,
    Ready,
    Active,
    Waiting,
    Held,
    Error,
    Completed,
    Skipped,
    Failed,
    Dropped,
    Cancelled,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let word = |state: &ItemState| state.to_possible_value().map(|value| value.get_name().to_owned());
        let states: Vec<String> = self.state.iter().filter_map(word).collect();
        let answer = place.read(Query::Items(ItemsQuery {
            run: self.run,
            step: self.step.clone(),
            states: states.clone(),
            limit: self.limit as usize,
            after: self.after,
            leaves_out_payloads: false,
        }))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let page: ItemsView = answer.read()?;
                if page.items.is_empty() {
                    stdout.line("No items.");
                } else {
                    show_step_table(&page.items, &mut stdout);
                }
                if let Some(next) = page.next {
                    let step = self.step.map_or_else(String::new, |step| format!(" {step}"));
                    let states = states.iter().fold(String::new(), |all, state| all + " --state " + state);
                    let limit =
                        if self.limit == 100 { String::new() } else { format!(" --limit {}", self.limit) };
                    stdout.line(&format!(
                        "\nMore: unstuck items {}{step}{states}{limit} --after {next}{}",
                        page.run, place.option
                    ));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
