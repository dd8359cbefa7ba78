//! `unstuck store copy`: a copy that is whole, whatever happens to the store meanwhile.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use unstuck_store::contract::StoreError;

use crate::CommandResult;
use crate::Format;
use crate::access::location::LocalStoreArgument;
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;

/// Copy the store to another folder, as a backup.
///
/// The copy is consistent and durable; runs can continue meanwhile. To restore it, pass its folder as the store, or put
/// it in the place of the old one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The folder of the copy; it must be empty or not exist.
    #[arg(value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    to: PathBuf,

    #[command(flatten)]
    store: LocalStoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store copy /backup/unstuck-monday
  unstuck runs --store /backup/unstuck-monday";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        unstuck_sqlite::copy(&place.directory, &self.to).map_err(|error| match error {
            // The error may be about the folder of the copy; the store is unchanged.
            StoreError::Broken(sentence) => CommandError::internal(sentence),
            error => error.into(),
        })?;
        let (from, to): (&Path, &Path) = (&place.directory, &self.to);
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                stdout.line(&json_text::pretty(&json!({ "store": from, "copy": to }).to_string()));
            }
            Format::Text => stdout.line(&format!("{} is a copy of {}", to.display(), from.display())),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
