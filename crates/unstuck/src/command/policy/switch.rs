//! `unstuck policy enable`, `disable` and `delete`: all of the named ones or none.

use std::process::ExitCode;

use super::load;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use unstuck_api::policies::PolicyChangesView;
use unstuck_api::request::PolicyOperation;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names or ids of policies.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn enable(self, format: Format) -> CommandResult {
        let names = self.names.clone();
        self.change_policies(PolicyOperation::Enable { names }, format)
    }

    pub(crate) fn disable(self, format: Format) -> CommandResult {
        let names = self.names.clone();
        self.change_policies(PolicyOperation::Disable { names }, format)
    }

    pub(crate) fn delete(self, format: Format) -> CommandResult {
        let names = self.names.clone();
        self.change_policies(PolicyOperation::Delete { names }, format)
    }

    /// Sends the operation and shows the changes.
    fn change_policies(self, what: PolicyOperation, format: Format) -> CommandResult {
        let answer = self.store.place()?.change_policies(what)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => load::show_changes(&answer.read::<PolicyChangesView>()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
