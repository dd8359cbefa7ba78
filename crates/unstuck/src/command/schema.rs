//! `unstuck schema`: the JSON Schemas of flow files, policy files and plans.

use std::process::ExitCode;

use crate::CommandResult;
use crate::view::output::Output;

/// Print the JSON Schema of flow files, policy files or plans.
///
/// Editors use it to complete and check files while you write. A file names it in its first line: `#
/// yaml-language-server: $schema=flow.schema.json`
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  unstuck schema > flow.schema.json\n  unstuck schema --policies > policy.schema.json"
)]
pub(crate) struct Arguments {
    /// The schema of policy files.
    #[arg(long)]
    policies: bool,

    /// The schema of plans for `unstuck rehearse`.
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
