//! `unstuck bulk`: orders for many runs, watched and steered.

pub(crate) mod begin;
mod change;
pub(crate) mod confirm;
mod list;
mod page;
mod show;
mod watch;

use crate::CommandResult;
use crate::Format;

/// Watch and steer bulk actions: orders for many runs, carried out at a pace.
///
/// `unstuck resume`, `rerun`, `choose`, `ack`, `skip`, `complete`, `signal`, `cancel` and `forget` begin one when they are
/// given several runs, or what runs have in common. It is kept in the store: it goes on with whatever process has the store open.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck resume --group err_3f2a9c1e0b44 --canary 10
  unstuck bulk list
  unstuck bulk show @latest --runs
  unstuck bulk pause bulk_0s86mke080000";

#[derive(clap::Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    Watch(watch::Arguments),
    /// Act on nothing more for now; what is under way goes on.
    Pause(change::Arguments),
    /// Go on, after a pause or after it has stopped.
    Unpause(change::Arguments),
    /// Act on nothing more for good; what was done stays done.
    Cancel(change::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::List(list) => list.execute(format),
            Command::Show(show) => show.execute(format),
            Command::Watch(watch) => watch.execute(format),
            Command::Pause(pause) => pause.execute(change::Deed::Pause, format),
            Command::Unpause(unpause) => unpause.execute(change::Deed::Unpause, format),
            Command::Cancel(cancel) => cancel.execute(change::Deed::Cancel, format),
        }
    }
}
