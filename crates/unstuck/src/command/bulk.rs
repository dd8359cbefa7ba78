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

/// Watch and control bulk actions: one command for many runs, carried out at a given rate.
///
/// `unstuck resume`, `rerun`, `choose`, `ack`, `skip`, `complete`, `signal`, `cancel` and `forget` start one when they
/// are given several runs or a filter. A bulk action is kept in the store, and continues in whatever process has the
/// store open.
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
    /// Pause a bulk action; attempts that already started continue.
    Pause(change::Arguments),
    /// Continue a bulk action that was paused or has stopped.
    Unpause(change::Arguments),
    /// Cancel a bulk action; what was already done stays done.
    Cancel(change::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::List(list) => list.execute(format),
            Command::Show(show) => show.execute(format),
            Command::Watch(watch) => watch.execute(format),
            Command::Pause(pause) => pause.execute(change::Change::Pause, format),
            Command::Unpause(unpause) => unpause.execute(change::Change::Unpause, format),
            Command::Cancel(cancel) => cancel.execute(change::Change::Cancel, format),
        }
    }
}
