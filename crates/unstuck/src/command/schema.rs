//! `unstuck schema`: the JSON Schemas of flow files, policy files and plans.

use std::process::ExitCode;

use crate::CommandResult;
use crate::view::output::Output;

/// Print the JSON Schema of flow files, of policy files, or of plans.
///
/// Editors use it to complete and check files while they are written. A file can name it in its first line:
/// `# yaml-language-server: $schema=flow.schema.json`
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  unstuck schema > flow.schema.json\n  unstuck schema --policies > policy.schema.json"
)]
pub(crate) struct Arguments {
    /// Of policy files.
    #[arg(long)]
    policies: bool,

    /// Of plans, as `unstuck rehearse` takes them.
    #[arg(long, conflicts_with = "policies")]
    plans: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        let mut stdout = Output::stdout();
        let schema = match (self.policies, self.plans) {
            (true, _) => unstuck_flow::policies::schema(),
            (false, true) => unstuck_flow::plan::schema(),
            (false, false) => unstuck_flow::schema(),
        };
        stdout.line(&format!("{schema:#}"));
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
