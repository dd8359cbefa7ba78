//! `unstuck store`: the store itself.

mod check;
mod info;

use crate::{Done, Format};

/// Look at the store itself: what it holds, and whether it is whole.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store info
  unstuck store check";

#[derive(clap::Subcommand)]
enum Command {
    Info(info::Arguments),
    Check(check::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        match self.command {
            Command::Info(info) => info.execute(format),
            Command::Check(check) => check.execute(format),
        }
    }
}
