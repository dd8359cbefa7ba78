//! `unstuck completions`: what a shell needs to complete this command.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::CommandResult;
use crate::view::output::Output;

/// Print shell completions.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  unstuck completions bash > ~/.local/share/bash-completion/completions/unstuck
  unstuck completions zsh > ~/.zfunc/_unstuck
  unstuck completions fish > ~/.config/fish/completions/unstuck.fish";

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        // Built in memory first, because the generators panic if they cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Arguments::command(), "unstuck", &mut script);
        let mut stdout = Output::stdout();
        stdout.text(&String::from_utf8_lossy(&script));
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
