//! `unstuck policy`: rules by which errors are resumed automatically.

mod apply;
mod audit;
mod backtest;
mod export;
mod list;
pub(crate) mod load;
mod order;
mod pause;
mod preview;
mod show;
mod suggest;
mod switch;
mod trial;
mod words;

use crate::CommandResult;
use crate::Format;

/// Manage resume policies: which errors are resumed automatically, when, and how often.
///
/// Of all policies that match an error, the one with the highest priority applies; a policy that is used up on a step
/// leaves it to the next. All automatic resumes can be paused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy suggest err_3f2a9c1e0b44 > reset.yaml
  unstuck policy preview reset.yaml
  unstuck policy backtest reset.yaml --since 7d
  unstuck policy load reset.yaml
  unstuck policy apply
  unstuck policy list";

#[derive(clap::Subcommand)]
enum Command {
    Load(load::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Export(export::Arguments),
    /// Enable policies.
    Enable(switch::Arguments),
    /// Disable policies. Steps they have scheduled are matched again when they come due.
    Disable(switch::Arguments),
    /// Delete policies. Steps they have scheduled are matched again when they come due.
    Delete(switch::Arguments),
    Order(order::Arguments),
    Apply(apply::Arguments),
    Pause(pause::Pause),
    Unpause(pause::Unpause),
    Preview(preview::Arguments),
    Backtest(backtest::Arguments),
    Suggest(suggest::Arguments),
    Audit(audit::Arguments),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::Load(load) => load.execute(format),
            Command::List(list) => list.execute(format),
            Command::Show(show) => show.execute(format),
            Command::Export(export) => export.execute(format),
            Command::Enable(switch) => switch.enable(format),
            Command::Disable(switch) => switch.disable(format),
            Command::Delete(switch) => switch.delete(format),
            Command::Order(order) => order.execute(format),
            Command::Apply(apply) => apply.execute(format),
            Command::Pause(pause) => pause.execute(format),
            Command::Unpause(unpause) => unpause.execute(format),
            Command::Preview(preview) => preview.execute(format),
            Command::Backtest(backtest) => backtest.execute(format),
            Command::Suggest(suggest) => suggest.execute(format),
            Command::Audit(audit) => audit.execute(format),
        }
    }
}
