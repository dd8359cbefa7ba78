//! `unstuck policy apply`: policies are applied to what is in error already.

use std::process::ExitCode;

use super::words::count;
use crate::desk::Applied;
use crate::desk::asked::PolicyWhat;
use crate::output::Output;
use crate::place::StoreArgument;
use crate::{Done, Format};

/// Apply policies to what is in error already, and tell what that moves.
///
/// Every step in error is matched anew, with the same delays. What would be due already is resumed from now on at a pace,
/// and not all at once. What is acknowledged is left as it is.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only what the policies of these names take; without any, all of them, and what none takes any more is resumed no
    /// more.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// So many steps a second are resumed, of those that would be due already.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pace: u32,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy apply
  unstuck policy apply resume-connection-reset --pace 5";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let what = PolicyWhat::Apply { names: self.names, pace: self.pace };
        let answer = self.store.place()?.change_policies(what)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let Applied { moved, unscheduled, unchanged } = answer.read()?;
                let mut parts = vec![format!("{} moved", count(moved, "step", "steps"))];
                if unscheduled > 0 {
                    parts.push(format!("{unscheduled} that no policy takes any more"));
                }
                parts.push(format!("{unchanged} as before"));
                stdout.line(&format!("{}.", parts.join(", ")));
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
