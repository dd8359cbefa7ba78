//! `unstuck errors`: errors as things of their own, in groups of the same trouble.

mod list;
mod open;
mod records;
mod show;

use crate::CommandResult;
use crate::Format;

/// List errors in groups, the most recent first.
///
/// A group has the same action and the same cause, apart from parts that vary, such as numbers and ids.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: list::Wanted,
}

const EXAMPLES: &str = "\
Examples:
  unstuck errors
  unstuck errors --flow nightly --since 7d
  unstuck errors --open
  unstuck errors show err_3f2a9c1e0b44
  unstuck errors open err_3f2a9c1e0b44
  unstuck errors records err_3f2a9c1e0b44 --since 7d";

#[derive(clap::Subcommand)]
enum Command {
    Show(show::Arguments),
    Open(open::Arguments),
    Records(records::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Some(Command::Show(show)) => show.execute(format),
            Some(Command::Open(open)) => open.execute(format),
            Some(Command::Records(records)) => records.execute(format),
            None => self.list.execute(format),
        }
    }
}
