//! `unstuck policy preview`: what a policy would do to what is in error now.

use super::trial::{self, When};
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;

/// Show which steps in error a policy would match now, from which policy it would take them, and when each would
/// resume. Changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A policy file (`-` for stdin), or the name or id of a loaded policy.
    #[arg(value_name = "FILE|NAME", value_hint = clap::ValueHint::FilePath)]
    policy: String,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy preview reset.yaml
  unstuck policy suggest err_3f2a9c1e0b44 | unstuck policy preview - -o json | jq '.trials[].matched'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        trial::try_policy(&self.policy, When::Now, &self.store, format)
    }
}
