//! `unstuck history`: everything that happened to a run, in order.

use std::process::ExitCode;
use unstuck_service::local_time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::history::{HistoryEntry, HistoryView};
use unstuck_api::request::Query;

/// Show every event of a run: when, who, and what changed.
///
/// Times are in the local time zone; -o json has them in UTC.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,

    /// Show at most this many events.
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
                show_history(&page, &mut stdout);
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

/// Shows events with their times, actors and sentences; a new day or generation gets a line of its own.
fn show_history(page: &HistoryView, stdout: &mut Output) {
    let look = stdout.look;
    let mut day = String::new();
    let mut generation = 1;
    if page.events.is_empty() {
        stdout.line("No more events.");
    }
    for event in &page.events {
        let (date, clock) = (local_time::format_day(event.at), local_time::format_clock(event.at));
        if date != day {
            stdout.line(&look.paint(style::BOLD, &date));
            day = date;
        }
        if event.generation != generation {
            stdout.line(&look.paint(style::BOLD, format!("generation {}", event.generation)));
            generation = event.generation;
        }
        let before = format!("{:>5}  {clock}  {:10}  ", event.number, actor_name(event));
        let columns = text::columns(&before);
        let nothing = ["-".to_owned()];
        let what = if event.what.is_empty() { &nothing[..] } else { &event.what };
        let wrapped = |width: usize| -> Vec<String> {
            what.iter().flat_map(|line| text::wrap(&text::visible(line), width)).collect()
        };
        // Without room beside time and actor, the sentence goes below them.
        let (indent, lines) = match stdout.width() {
            None => (columns, what.iter().map(|line| text::visible(line)).collect()),
            Some(width) if width >= columns + NARROWEST => (columns, wrapped(width - columns)),
            Some(width) => {
                stdout.line(&look.paint(style::DIM, before.trim_end()));
                (INDENT, wrapped(width.saturating_sub(INDENT)))
            }
        };
        for (place, line) in lines.iter().enumerate() {
            let start = if place == 0 && indent == columns {
                look.paint(style::DIM, &before)
            } else {
                " ".repeat(indent)
            };
            stdout.line(&format!("{start}{line}"));
        }
    }
}

/// The least room for a sentence beside time and actor; below that, it goes on the next line.
const NARROWEST: usize = 24;
/// The indentation of a sentence on the next line.
const INDENT: usize = 7;

fn actor_name(event: &HistoryEntry) -> &str {
    event.user.as_deref().unwrap_or(&event.by)
}
