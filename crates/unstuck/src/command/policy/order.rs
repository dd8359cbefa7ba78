//! `unstuck policy order`: the order in which policies match.

use std::process::ExitCode;

use super::load;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use unstuck_api::policies::PolicyChangesView;
use unstuck_api::request::PolicyOperation;

/// Set the order in which policies match, by their priorities.
///
/// All policies are named, the first to match first. Priorities are set 10 apart, from the last to the first, and are
/// not calculated any more.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Names or ids of all policies, the first to match first.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy order resume-connection-reset later
  unstuck policy order resume-connection-reset later --dry-run";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let what = PolicyOperation::Order { names: self.names };
        let answer = self.store.place()?.change_or_try_policies(what, self.dry_run)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => load::show_changes(&answer.read::<PolicyChangesView>()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
