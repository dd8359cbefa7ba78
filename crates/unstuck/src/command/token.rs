//! `unstuck token`: who may use the API of a server on this store.

mod change;
mod create;
mod list;

use crate::CommandResult;
use crate::Format;

/// Manage tokens: who may use a server on this store, and for what.
///
/// A token is shown once, when it is created or rotated; the store keeps a digest of it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck token create ops-cli --role operator --expires-in 90d
  unstuck token create encoder --role worker --action Encode
  unstuck token list
  unstuck token rotate ops-cli --overlap 24h
  unstuck token revoke ops-cli --reason 'left the team'";

#[derive(clap::Subcommand)]
enum Command {
    Create(create::Arguments),
    List(list::Arguments),
    Rotate(change::Rotate),
    Revoke(change::Revoke),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::Create(create) => create.execute(format),
            Command::List(list) => list.execute(format),
            Command::Rotate(rotate) => rotate.execute(format),
            Command::Revoke(revoke) => revoke.execute(format),
        }
    }
}
