//! `unstuck policy list`: the policies, in the order in which they match.

use std::process::ExitCode;
use unstuck_api::status::StatusView;

use unstuck_core::time::Time;

use super::words;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::table::{Cell, Table};
use unstuck_api::policies::{PoliciesView, PolicyView};
use unstuck_api::request::Query;

/// List the policies in the order in which they are checked, and what they have done.
///
/// The first policy that matches an error and is not used up on its step applies. A policy that can never match is
/// marked, with the one that matches first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck policy list
  unstuck policy list -o json | jq '.policies[] | select(.hits == 0) | .name'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Policies)?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let PoliciesView { policies: lines, .. } = answer.read()?;
                show_policies(&lines, &mut stdout);
                let paused = match lines.first() {
                    Some(line) => line.policies_paused.clone(),
                    // Without a policy there is no row that could show it.
                    None => place.read(Query::Status)?.read::<StatusView>()?.policies_paused,
                };
                paused_policies::show_paused(paused.as_ref(), &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows policies as a table, with those that can never match marked.
fn show_policies(lines: &[PolicyView], stdout: &mut Output) {
    if lines.is_empty() {
        return stdout.line("No policies yet. To load some: unstuck policy load FILE");
    }
    let mut table = Table::new(&[
        "POLICY",
        "PRIORITY",
        "MATCHES",
        "RESUMES",
        "UP TO",
        "HITS",
        "LAST HIT",
        "SCHEDULED",
        "",
    ]);
    for line in lines {
        let is_off = line.policy.enabled == Some(false);
        let plain = if is_off { style::DIM } else { anstyle::Style::new() };
        let last = line.last_hit.map_or("-".to_owned(), |at| {
            format!("{} ago", unstuck_service::service::now().since(Time(at.as_millisecond())))
        });
        let note = match (&line.shadowed_by, is_off) {
            (_, true) => "disabled".to_owned(),
            (Some(by), false) => format!("never matches: `{by}` matches the same errors first"),
            (None, false) => String::new(),
        };
        let cell = |text: String| Cell::styled(text, plain);
        table.row(vec![
            cell(line.policy.name.clone()),
            cell(line.policy.priority.unwrap_or_default().to_string()),
            cell(words::describe_criteria(&line.policy)),
            cell(words::describe_back_off(&line.policy)),
            cell(format!("{} rounds", line.policy.max_attempts)),
            cell(line.hits.to_string()),
            cell(last),
            cell(line.scheduled.to_string()),
            Cell::styled(note, style::LATER),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
