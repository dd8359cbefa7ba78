//! `unstuck policy backtest`: what a policy would have done to the errors of the past.

use super::trial::{self, When};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::time;

/// Show which past errors a policy would have matched, each judged as it stood then.
///
/// It does not guess what would have happened next. Changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A policy file (`-` for stdin), or the name or id of a loaded policy.
    #[arg(value_name = "FILE|NAME", value_hint = clap::ValueHint::FilePath)]
    policy: String,

    /// The start: a duration ago such as `7d`, or an instant such as `2030-01-31T08:30:00Z`.
    #[arg(long, value_name = "WHEN")]
    since: String,

    /// The end, in the same form. [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy backtest reset.yaml --since 7d
  unstuck policy backtest reset.yaml --since 2026-11-01T00:00:00Z --until 2026-11-02T00:00:00Z -o json";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let since = time::parse_past_time(&self.since, "--since")?;
        let until = self.until.map(|until| time::parse_past_time(&until, "--until")).transpose()?;
        trial::try_policy(&self.policy, When::Past { since, until }, &self.store, format)
    }
}
