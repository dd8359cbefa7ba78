//! Runs and shows a preview or a backtest.

use std::path::Path;
use std::process::ExitCode;
use unstuck_service::local_time;

use jiff::Timestamp;

use super::load;
use super::words::count;
use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::input::source::STDIN;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style;
use crate::view::table::{Cell, Table};
use crate::view::text;
use unstuck_api::request::{PastErrors, PolicyToTry, Query, TrialQuery};
use unstuck_api::trials::{TrialView, TrialsView};

/// How many steps are listed in text.
const SHOWN: usize = 20;

/// On which errors a policy is tried.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Those that are open.
    Now,
    /// Those of a span of time.
    Past { since: Timestamp, until: Option<Timestamp> },
}

/// Tries policies from a file or by name, and shows the result.
pub(super) fn try_policy(given: &str, when: When, store: &StoreArgument, format: Format) -> CommandResult {
    let past = match when {
        When::Now => None,
        When::Past { since, until } => Some(PastErrors { since, until }),
    };
    let answer = store.place()?.read(Query::Trial(TrialQuery { policies: parse_policies(given)?, past }))?;
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let TrialsView { trials } = answer.read()?;
            for (place, trial) in trials.iter().enumerate() {
                if place > 0 {
                    stdout.line("");
                }
                show_trial(trial, when, &mut stdout);
            }
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Interprets the argument: an existing file wins over a policy of the same name.
fn parse_policies(given: &str) -> Result<PolicyToTry, CommandError> {
    let ending = Path::new(given).extension().and_then(|ending| ending.to_str());
    let looks_like_file =
        given == STDIN || given.contains('/') || matches!(ending, Some("yaml" | "yml" | "json"));
    if !looks_like_file && !Path::new(given).is_file() {
        return Ok(PolicyToTry::Named(given.to_owned()));
    }
    load::documents_of_files(&load::read_policy_files(&[given.to_owned()])?).map(PolicyToTry::Drafts)
}

/// Shows what a policy would do, in words and a table.
pub(super) fn show_trial(trial: &TrialView, when: When, output: &mut Output) {
    let name = output.look.paint(style::BOLD, format!("`{}`", trial.policy));
    let steps = count(trial.matched, "step", "steps");
    let errors = count(trial.matched, "error", "errors");
    if trial.disabled {
        output.line(&format!("{name} is disabled. If it were enabled:"));
    }
    output.line(&match when {
        When::Now => format!("{name} would match {steps} in error now."),
        When::Past { since, until } => {
            let until =
                until.map_or_else(String::new, |until| format!(" until {}", local_time::format_full(until)));
            format!("{name} would have matched {errors} since {}{until}.", local_time::format_full(since))
        }
    });
    show_hits(trial, when, output);
    let would = match when {
        When::Now => "would go",
        When::Past { .. } => "would have gone",
    };
    for (by, n) in &trial.shadowed_by {
        let note =
            format!("{} it matches {would} to `{by}`, which comes first.", count_more(*n, trial.matched));
        output.line(&text::visible(&note));
    }
    if trial.exhausted > 0 {
        output
            .line(&format!("{} it matches used up its rounds.", count_more(trial.exhausted, trial.matched)));
    }
    paused_policies::show_paused(trial.policies_paused.as_ref(), output, "");
}

/// Returns `2 more that`, or `2 that` if nothing matched.
fn count_more(n: u64, matched: u64) -> String {
    if matched > 0 { format!("{n} more that") } else { format!("{n} that") }
}

/// Shows the first steps that the policy would take, with when each resumes.
fn show_hits(trial: &TrialView, when: When, output: &mut Output) {
    if trial.runs.is_empty() {
        return;
    }
    let title = match when {
        When::Now => "RESUMES",
        When::Past { .. } => "WOULD HAVE RESUMED",
    };
    let times = local_time::Column::of(trial.runs.iter().take(SHOWN).map(|run| run.resume_at));
    let mut table = Table::new(&["RUN", "STEP", "ROUND", &times.title(title), "TAKEN FROM", "CAUSE"]);
    for run in trial.runs.iter().take(SHOWN) {
        let resumes = match run.resume_by {
            None => times.cell(run.resume_at),
            Some(by) => format!("{} to {}", times.cell(run.resume_at), times.time_of_day(by)),
        };
        table.row(vec![
            Cell::new(&run.run),
            Cell::new(&run.step),
            Cell::new(run.rounds.to_string()),
            Cell::new(resumes),
            Cell::new(run.taken_from.as_deref().unwrap_or("-")),
            Cell::new(&run.cause),
        ]);
    }
    for line in table.lines(output.width(), output.look) {
        output.line(&line);
    }
    let left_out = trial.matched.saturating_sub(SHOWN.min(trial.runs.len()) as u64);
    if left_out > 0 {
        output.line(&format!("and {left_out} more"));
    }
}
