//! `unstuck bulk pause`, `unpause` and `cancel`.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::style;
use unstuck_api::bulk::ChangedBulkView;
use unstuck_api::request::BulkOperation;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The bulk action: its id, the start of its id, or @latest.
    bulk: String,

    #[command(flatten)]
    store: StoreArgument,
}

/// What is done to it.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Pause,
    Unpause,
    Cancel,
}

impl Arguments {
    pub(crate) fn execute(self, change: Change, format: Format) -> CommandResult {
        let bulk = self.bulk;
        let (what, done, already) = match change {
            Change::Pause => (
                BulkOperation::Pause { bulk },
                "Paused the bulk action.",
                "The bulk action was already paused.",
            ),
            Change::Unpause => (
                BulkOperation::Unpause { bulk },
                "The bulk action continues.",
                "The bulk action was already running.",
            ),
            Change::Cancel => (
                BulkOperation::Cancel { bulk },
                "Cancelled the bulk action.",
                "The bulk action was already cancelled.",
            ),
        };
        let place = self.store.place()?;
        let answer = place.change_bulk(what)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let ChangedBulkView { already: was_so, page } = answer.read()?;
                stdout.line(&stdout.look.paint(style::BOLD, if was_so { already } else { done }));
                super::page::show_bulk(&page, &mut stdout, &place.option);
                if page.acts {
                    super::watch::show_watch_command(&page.bulk, &mut stdout, &place.option);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
