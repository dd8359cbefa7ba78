//! `unstuck bulk list`: the bulk actions of a store, newest first.

use std::process::ExitCode;

use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::style::style_of_word;
use crate::view::table::{Cell, Table};
use unstuck_api::bulk::{BulkView, BulksView};
use unstuck_api::request::Query;

/// List bulk actions, newest first.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only bulk actions in progress.
    #[arg(long)]
    open: bool,

    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The page after this bulk action, which is the last of the page before.
    #[arg(long, value_name = "BULK")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let wanted = Query::Bulks { open_only: self.open, after: self.after, limit: self.limit as usize };
        let answer = self.store.place()?.read(wanted)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let BulksView { bulks: found, .. } = answer.read()?;
                if found.is_empty() {
                    let open = if self.open { " in progress" } else { "" };
                    stdout.line(&format!("No bulk actions{open}."));
                } else {
                    show_bulks(&found, &mut stdout);
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_bulks(found: &[BulkView], stdout: &mut Output) {
    let mut table = Table::new(&["BULK ACTION", "COMMAND", "STATE", "STARTED", "SELECTION", "RESULTS"]);
    for bulk in found {
        let ago = unstuck_service::service::now().since(Time(bulk.created_at.as_millisecond()));
        table.row(vec![
            Cell::new(&bulk.bulk),
            Cell::new(&bulk.action),
            Cell::styled(&bulk.state, style_of_word(&bulk.state)),
            Cell::new(format!("{ago} ago")),
            Cell::new(&bulk.selection),
            Cell::new(super::page::summarize_results(bulk)),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
