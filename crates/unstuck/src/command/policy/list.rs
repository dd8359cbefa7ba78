//! `unstuck policy list`: the policies, in the order in which they match.

use std::process::ExitCode;

use unstuck_core::time::Time;

use super::words;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::table::{Cell, Table};
use unstuck_service::policies::{PoliciesView, PolicyView};
use unstuck_service::request::Query;

/// List the policies in the order in which they match, with what they have done.
///
/// An error is given to the first that matches and is not spent on its step. A policy that can never match is told, with the
/// earlier one that takes whatever it would.
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
                show(&lines, &mut stdout);
                let first = lines.first();
                paused_policies::tell(
                    first.and_then(|line| line.policies_paused.as_ref()),
                    &mut stdout,
                    &place.option,
                );
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show(lines: &[PolicyView], stdout: &mut Output) {
    if lines.is_empty() {
        return stdout.line("There is no policy yet. `unstuck policy load FILE` adds some.");
    }
    let mut table = Table::new(&[
        "PRIORITY",
        "POLICY",
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
            (Some(by), false) => format!("never matches: `{by}` takes whatever it would"),
            (None, false) => String::new(),
        };
        let cell = |text: String| Cell::styled(text, plain);
        table.row(vec![
            cell(line.policy.priority.unwrap_or_default().to_string()),
            cell(line.policy.name.clone()),
            cell(words::matches(&line.policy)),
            cell(words::resumes(&line.policy)),
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
