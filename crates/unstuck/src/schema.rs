//! `unstuck schema`: the JSON Schema of flow files.

use std::process::ExitCode;

use crate::Done;
use crate::output::Output;

/// Print the JSON Schema of flow files.
///
/// Editors use it to complete and check flow files while they are written. A file can name it in its first line:
/// `# yaml-language-server: $schema=flow.schema.json`
#[derive(clap::Args)]
#[command(after_help = "Example:\n  unstuck schema > flow.schema.json")]
pub(crate) struct Arguments {}

impl Arguments {
    #[expect(clippy::unused_self, reason = "every command is called the same way")]
    pub(crate) fn execute(self) -> Done {
        let mut stdout = Output::stdout();
        stdout.line(&format!("{:#}", unstuck_flow::schema()));
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
