//! `unstuck man`: the manual pages, made from the same words as `--help`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::CommandResult;
use crate::error::CommandError;
use crate::view::output::Output;

/// Print the manual page, or write the pages of all commands into a folder.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Write `unstuck.1`, `unstuck-run.1` and the pages of all other commands into this folder. It is made if it
    /// does not exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  unstuck man | man -l -
  unstuck man --dir ~/.local/share/man/man1    then: man unstuck, man unstuck-run";

impl Arguments {
    pub(crate) fn execute(self) -> CommandResult {
        let mut stdout = Output::stdout();
        match self.dir {
            None => stdout.text(&String::from_utf8_lossy(&render_page()?)),
            Some(dir) => write_pages(&dir)?,
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn render_page() -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    let written = Man::new(crate::Arguments::command()).render(&mut page);
    written.map_err(|error| CommandError::new(format!("the manual page cannot be made: {error}")))?;
    Ok(page)
}

/// Writes the manual pages of all commands into a folder.
fn write_pages(dir: &Path) -> Result<(), CommandError> {
    let written = fs::create_dir_all(dir).and_then(|()| {
        clap_mangen::generate_to(crate::Arguments::command().disable_help_subcommand(true), dir)
    });
    written.map_err(|error| {
        let dir = dir.display();
        CommandError::new(format!(
            "the manual pages cannot be written into {dir}: {error}; give another folder with --dir"
        ))
    })
}
