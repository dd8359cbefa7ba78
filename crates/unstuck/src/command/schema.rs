//! `unstuck schema`: the JSON Schemas of flow files, policy files, plans and configuration files, and of what `-o json` prints.

use std::process::ExitCode;

use crate::CommandResult;
use crate::error::CommandError;
use crate::view::output::Output;
use unstuck_api::documents;

/// Print the JSON Schema of flow files, policy files, plans, configuration files, or the documents of `-o json`.
///
/// Editors use it to complete and check files while you write. A file names it in its first line: `#
/// yaml-language-server: $schema=flow.schema.json`
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  unstuck schema > flow.schema.json\n  unstuck schema --policies > policy.schema.json\n  unstuck schema --documents runs"
)]
pub(crate) struct Arguments {
    /// The schema of policy files.
    #[arg(long)]
    policies: bool,

    /// The schema of plans for `unstuck rehearse`.
    #[arg(long, conflicts_with = "policies")]
    plans: bool,

    /// The schema of configuration files of a server.
    #[arg(long, conflicts_with_all = ["policies", "plans"])]
    configuration: bool,

    /// Of the documents that `-o json` prints: of the one of this name, or of all of them.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = ALL, conflicts_with_all = ["policies", "plans", "configuration"],
        value_parser = clap::builder::PossibleValuesParser::new([vec![ALL], documents::names()].concat()))]
    documents: Option<String>,
}

/// Every document.
const ALL: &str = "all";

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        let mut stdout = Output::stdout();
        let schema = match (self.policies, self.plans, self.documents) {
            (_, _, Some(name)) => documents::schema(Some(name.as_str()).filter(|name| *name != ALL))
                .ok_or_else(|| CommandError::internal("there is no such document"))?,
            (_, _, None) if self.configuration => crate::configuration::schema(),
            (true, _, None) => unstuck_flow::policies::schema(),
            (false, true, None) => unstuck_flow::plan::schema(),
            (false, false, None) => unstuck_flow::schema(),
        };
        stdout.line(&format!("{schema:#}"));
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
