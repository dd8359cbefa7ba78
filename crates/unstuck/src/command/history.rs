//! `unstuck history`: everything that happened to a run, in order.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_service::request::Query;
use unstuck_service::{HistoryEntry, HistoryView};

/// Tell everything that happened to a run: when, by whom, and what became of it.
///
/// Times are in UTC.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,

    /// So many events at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck history @latest
  unstuck history run_0s86mke080000 --after 100 -o json";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let reading = Query::History { run: self.run, after: self.after, limit: self.limit as usize };
        let answer = place.read(reading)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let page: HistoryView = answer.read()?;
                show(&page, &mut stdout);
                if let Some(next) = page.next {
                    let limit =
                        if self.limit == 100 { String::new() } else { format!(" --limit {}", self.limit) };
                    let HistoryView { run, .. } = &page;
                    stdout.line(&format!(
                        "\nMore: unstuck history {run} --after {next}{limit}{}",
                        place.option
                    ));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show(page: &HistoryView, stdout: &mut Output) {
    let look = stdout.look;
    let mut day = String::new();
    let mut generation = 1;
    if page.events.is_empty() {
        stdout.line("Nothing happened after that.");
    }
    for event in &page.events {
        let at = format!("{:.3}", event.at);
        let (date, clock) = at.trim_end_matches('Z').split_once('T').unwrap_or((&at, ""));
        if date != day {
            stdout.line(&look.paint(style::BOLD, date));
            date.clone_into(&mut day);
        }
        if event.generation != generation {
            stdout.line(&look.paint(style::BOLD, format!("generation {}", event.generation)));
            generation = event.generation;
        }
        let before = format!("{:>5}  {clock}  {:10}  ", event.number, by(event));
        let mut lines = event.what.iter();
        let first = lines.next().map_or("-", String::as_str);
        stdout.line(&format!("{}{}", look.paint(style::DIM, &before), text::visible(first)));
        for line in lines {
            stdout.line(&format!("{}{}", " ".repeat(text::columns(&before)), text::visible(line)));
        }
    }
}

fn by(event: &HistoryEntry) -> &str {
    event.user.as_deref().unwrap_or(&event.by)
}
