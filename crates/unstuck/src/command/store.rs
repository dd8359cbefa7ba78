//! `unstuck store`: the store itself.

mod check;
mod copy;
pub(crate) mod info;

use crate::CommandResult;
use crate::Format;

/// Inspect, check and copy the store.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store info
  unstuck store check
  unstuck store copy /backup/unstuck-monday";

#[derive(clap::Subcommand)]
enum Command {
    Info(info::Arguments),
    Check(check::Arguments),
    Copy(copy::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::Info(info) => info.execute(format),
            Command::Check(check) => check.execute(format),
            Command::Copy(copy) => copy.execute(format),
        }
    }
}
