//! `unstuck policy enable`, `disable` and `delete`: all of the named ones or none.

use std::process::ExitCode;

use super::load;
use crate::desk::Ordered;
use crate::desk::asked::PolicyWhat;
use crate::output::Output;
use crate::place::StoreArgument;
use crate::{Done, Format};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names or ids of policies.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn enable(self, format: Format) -> Done {
        let names = self.names.clone();
        self.ask(PolicyWhat::Enable { names }, format)
    }

    pub(crate) fn disable(self, format: Format) -> Done {
        let names = self.names.clone();
        self.ask(PolicyWhat::Disable { names }, format)
    }

    pub(crate) fn delete(self, format: Format) -> Done {
        let names = self.names.clone();
        self.ask(PolicyWhat::Delete { names }, format)
    }

    fn ask(self, what: PolicyWhat, format: Format) -> Done {
        let answer = self.store.place()?.change_policies(what)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => load::tell(&answer.read::<Ordered>()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
