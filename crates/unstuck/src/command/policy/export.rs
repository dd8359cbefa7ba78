//! `unstuck policy export`: policies as a file that loads to the same.

use std::process::ExitCode;

use unstuck_api::policies::{KeptPolicyView, PolicyDocument};
use unstuck_flow::policies::{export_json, export_yaml};

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use unstuck_api::request::Query;

/// Print policies as a file for `unstuck policy load`: YAML, or JSON with `-o json`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Names or ids of policies. [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy export > policies.yaml
  unstuck policy export resume-connection-reset -o json";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let answer = self.store.place()?.read(Query::Kept { names: self.names })?;
        let kept: Vec<KeptPolicyView> = answer.read()?;
        let policies: Vec<PolicyDocument> = kept.into_iter().map(|kept| kept.policy).collect();
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&export_json(&policies)),
            Format::Text => stdout.text(&export_yaml(&policies)),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
