//! The groups of errors.

use std::process::ExitCode;

use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::table::{Cell, Table};
use crate::view::time;
use unstuck_api::errors::{ErrorGroupView, ErrorGroupsView};
use unstuck_api::request::{ErrorsQuery, Query};

#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// Only groups with errors of this flow.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Only groups of this action, by its full name (`flow.action`).
    #[arg(long, value_name = "NAME")]
    action: Option<String>,

    /// Only groups seen since then: a duration such as `7d`, or an instant such as `2030-01-31T08:30:00Z`.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only groups with a step that is in error now and not acknowledged.
    #[arg(long)]
    open: bool,

    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,

    /// The page after this one, as `next` of that page in JSON.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Wanted {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let is_filtered = self.flow.is_some() || self.action.is_some() || self.since.is_some() || self.open;
        let since = self.since.map(|since| time::parse_past_time(&since, "--since")).transpose()?;
        let wanted = ErrorsQuery {
            flow: self.flow,
            action: self.action,
            since,
            open_only: self.open,
            limit: self.limit as usize,
            after: self.after,
        };
        let place = self.store.place()?;
        let answer = place.read(Query::Errors(wanted))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let ErrorGroupsView { groups, next } = answer.read()?;
                if groups.is_empty() {
                    stdout.line(if is_filtered { "No errors match." } else { "No errors." });
                } else {
                    show_groups(&groups, &mut stdout);
                }
                let paused = groups.iter().find_map(|group| group.policies_paused.as_ref());
                paused_policies::show_paused(paused, &mut stdout, &place.option);
                if next.is_some() {
                    stdout.line(&format!("\nThere may be more: --limit {}", self.limit.saturating_mul(5)));
                }
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows groups as a table; open errors that no policy resumes stand out.
fn show_groups(groups: &[ErrorGroupView], stdout: &mut Output) {
    let mut table = Table::new(&["GROUP", "ERRORS", "OPEN", "SCHEDULED", "LAST", "ACTION", "CAUSE"]);
    for group in groups {
        let scheduled: u64 = group.scheduled.iter().map(|policy| policy.count).sum();
        let open = if group.open > scheduled { style::BAD } else { anstyle::Style::new() };
        let last = unstuck_service::service::now().since(Time(group.last.as_millisecond()));
        table.row(vec![
            Cell::new(&group.group),
            Cell::new(group.count.to_string()),
            Cell::styled(group.open.to_string(), open),
            Cell::new(scheduled.to_string()),
            Cell::new(format!("{last} ago")),
            Cell::new(&group.action),
            Cell::new(&group.pattern),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
