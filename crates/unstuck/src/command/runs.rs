//! `unstuck runs`: the runs of a store, newest first.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use unstuck_core::time::Time;

use crate::CommandResult;
use crate::Format;
use crate::access::location::{StoreArgument, StoreLocation};
use crate::error::CommandError;
use crate::view::output::Output;
use crate::view::paused_policies;
use crate::view::style::style_of_word;
use crate::view::table::{Cell, Table};
use crate::view::text;
use crate::view::time;
use unstuck_api::request::{CountBy, CountsQuery, Query, RunSort, RunsQuery, StepMark};
use unstuck_api::runs::{CountsView, RunCount, RunLine, RunState, RunsView};
use unstuck_service::owner::shown_state;

/// List runs, newest first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filters: Filters,

    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The order: started last first, changed last first, or resumed first first (only runs that a policy resumes).
    #[arg(long, value_name = "ORDER", default_value = "-created", allow_hyphen_values = true, value_parser = sort_parser())]
    sort: RunSort,

    /// Continue a list: the end of the page before, as it was printed, or a run.
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,

    /// Count the runs instead of listing them: by state, flow, group of errors, or action.
    #[arg(long, value_name = "WHAT", value_parser = count_parser(), conflicts_with_all = ["limit", "sort", "after"])]
    count_by: Option<CountBy>,

    #[command(flatten)]
    store: StoreArgument,
}

/// Which runs: all that is given must hold.
#[derive(clap::Args)]
struct Filters {
    /// Only runs in this state, or in any of several: `--state error,held`. These two also find runs with a step in
    /// error or held, whatever their state.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state_parser())]
    state: Vec<RunState>,

    /// Only runs of this flow.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Only runs with this key.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Only runs with a key that begins with this.
    #[arg(long, value_name = "TEXT")]
    key_prefix: Vec<String>,

    /// Only runs of this version of their flow.
    #[arg(long, value_name = "VERSION")]
    flow_version: Vec<String>,

    /// Only runs with a step that is: `error`, `held`, `acknowledged` (in error), or `scheduled` (a policy resumes it).
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = mark_parser())]
    has: Vec<StepMark>,

    /// Only runs whose next automatic resume was scheduled by this policy.
    #[arg(long, value_name = "POLICY")]
    policy: Vec<String>,

    /// Only runs with an attempt of this action that is queued, active or in error: `encode` or `media.encode`.
    #[arg(long, value_name = "ACTION")]
    action: Vec<String>,

    /// Only runs with an attempt that this worker holds now.
    #[arg(long, value_name = "WORKER")]
    worker: Vec<String>,

    /// Only children and exception handlers of this run.
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,

    /// Only runs below this one: its children and exception handlers, theirs, and so on.
    #[arg(long, value_name = "RUN")]
    root: Option<String>,

    /// Only runs with this label, of their own or of their flow. Of several values of one name any, of several names all.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,

    /// Only runs started since then: a duration ago such as `7d`, or an instant such as `2030-01-31T08:30:00Z`.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only runs started before then.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only runs that changed since then.
    #[arg(long, value_name = "WHEN")]
    updated_since: Option<String>,

    /// Only runs with an error of this group.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Only runs with an error whose cause contains this text.
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,

    /// Include children and exception handlers.
    #[arg(long)]
    all: bool,
}

const EXAMPLES: &str = "\
Examples:
  unstuck runs
  unstuck runs --state error,held --label team=billing
  unstuck runs --since 1d --cause 'connection reset'
  unstuck runs --has scheduled --sort nextAutoResume
  unstuck runs --worker encoder-3 --all
  unstuck runs --count-by state
  unstuck runs --flow nightly --limit 100 -o json | jq '.runs[].id'";

/// Parses a label: `team=billing`, or `team:billing` as in the API.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(['=', ':']).filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or("write NAME=VALUE, as in team=billing")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Builds the parser for run states.
pub(crate) fn state_parser() -> impl TypedValueParser<Value = RunState> {
    PossibleValuesParser::new(RunState::ALL.map(RunState::word)).map(|word| {
        let found = RunState::ALL.into_iter().find(|state| state.word() == word);
        found.unwrap_or(RunState::Running)
    })
}

/// Builds the parser of what steps are like.
fn mark_parser() -> impl TypedValueParser<Value = StepMark> {
    PossibleValuesParser::new(StepMark::ALL.map(StepMark::word)).map(|word| {
        let found = StepMark::ALL.into_iter().find(|mark| mark.word() == word);
        found.unwrap_or(StepMark::Error)
    })
}

/// Builds the parser of the order.
fn sort_parser() -> impl TypedValueParser<Value = RunSort> {
    PossibleValuesParser::new(RunSort::ALL.map(RunSort::word)).map(|word| {
        let found = RunSort::ALL.into_iter().find(|sort| sort.word() == word);
        found.unwrap_or_default()
    })
}

/// Builds the parser of what runs are counted by.
fn count_parser() -> impl TypedValueParser<Value = CountBy> {
    PossibleValuesParser::new(CountBy::ALL.map(CountBy::word)).map(|word| {
        let found = CountBy::ALL.into_iter().find(|by| by.word() == word);
        found.unwrap_or(CountBy::State)
    })
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        if let Some(by) = self.count_by {
            return self.count(by, format, &place);
        }
        let query = self.filters.to_query()?;
        let wanted =
            RunsQuery { limit: self.limit as usize, sort: self.sort, after: self.after.clone(), ..query };
        let answer = place.read(Query::Runs(Box::new(wanted)))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let page: RunsView = answer.read()?;
                self.show(&page, &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Counts the runs that fit.
    fn count(&self, by: CountBy, format: Format, place: &StoreLocation) -> CommandResult {
        let filter = self.filters.to_query()?;
        let answer = place.read(Query::Counts(Box::new(CountsQuery { filter, by })))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_counts(&answer.read()?, by, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Shows a page of runs as a table, with the command for the next page.
    fn show(&self, page: &RunsView, stdout: &mut Output, option: &str) {
        if page.runs.is_empty() && page.next.is_some() {
            stdout.line("No runs match so far; not all runs were searched.");
            return self.show_next(page, stdout, option);
        }
        if page.runs.is_empty() {
            let filtered =
                self.after.is_some() || !self.filters.to_options().trim_end_matches(" --all").is_empty();
            let hint = if filtered && !self.filters.all {
                " Use --all to include children and exception handlers."
            } else {
                ""
            };
            let what = if filtered { "No runs match." } else { "No runs yet." };
            return stdout.line(&format!("{what}{hint}"));
        }
        let has_keys = page.runs.iter().any(|run| run.key.is_some());
        let mut head = vec!["RUN", "STATE", "FLOW"];
        head.extend(has_keys.then_some("KEY"));
        head.extend(["UPDATED", ""]);
        let mut table = Table::new(&head);
        for run in &page.runs {
            table.row(run_cells(run, has_keys));
        }
        for line in table.lines(stdout.width(), stdout.look) {
            stdout.line(&line);
        }
        let paused = page.runs.iter().find_map(|run| run.policies_paused.as_ref());
        paused_policies::show_paused(paused, stdout, option);
        self.show_next(page, stdout, option);
    }

    /// Shows the command for the next page, if there is one.
    fn show_next(&self, page: &RunsView, stdout: &mut Output, option: &str) {
        let Some(next) = &page.next else { return };
        let limit = if self.limit == 20 { String::new() } else { format!(" --limit {}", self.limit) };
        let sort = match self.sort {
            RunSort::Created => String::new(),
            RunSort::Updated | RunSort::NextAutoResume => format!(" --sort {}", self.sort.word()),
        };
        let options = self.filters.to_options();
        stdout.line(&format!("\nMore: unstuck runs --after {next}{options}{sort}{limit}{option}"));
    }
}

/// Shows counts as a table.
fn show_counts(view: &CountsView, by: CountBy, stdout: &mut Output) {
    if view.counts.is_empty() {
        stdout.line("No runs match.");
    } else {
        let head = by.word().to_uppercase();
        let mut table = Table::new(&[&head, "RUNS"]);
        for RunCount { state, flow, group, action, count } in &view.counts {
            let name = [state, flow, group, action].into_iter().flatten().next();
            table.row(vec![Cell::new(name.map_or("", String::as_str)), Cell::new(count.to_string())]);
        }
        for line in table.lines(stdout.width(), stdout.look) {
            stdout.line(&line);
        }
    }
    if !view.complete {
        stdout.line("\nThere are more: not all runs were counted. Give more filters, such as --since 1d.");
    }
}

impl Filters {
    /// Builds the query of the filters.
    fn to_query(&self) -> Result<RunsQuery, CommandError> {
        let time = |given: &Option<String>, option: &str| {
            given.as_deref().map(|given| time::parse_past_time(given, option)).transpose()
        };
        Ok(RunsQuery {
            states: self.state.clone(),
            flow: self.flow.clone(),
            key: self.key.clone(),
            key_prefixes: self.key_prefix.clone(),
            labels: self.label.clone(),
            versions: self.flow_version.clone(),
            has: self.has.clone(),
            policies: self.policy.clone(),
            actions: self.action.clone(),
            workers: self.worker.clone(),
            parent: self.parent.clone(),
            root: self.root.clone(),
            updated_since: time(&self.updated_since, "--updated-since")?,
            since: time(&self.since, "--since")?,
            until: time(&self.until, "--until")?,
            group: self.group.clone(),
            cause: self.cause.clone(),
            all: self.all,
            ..RunsQuery::default()
        })
    }

    /// Formats the options that the next page needs too.
    fn to_options(&self) -> String {
        let word = |option: &str, value: &str| format!(" --{option} {}", text::shell_word(value));
        let mut options: Vec<String> = Vec::new();
        if !self.state.is_empty() {
            let states: Vec<&str> = self.state.iter().map(|state| state.word()).collect();
            options.push(format!(" --state {}", states.join(",")));
        }
        options.extend(self.label.iter().map(|(name, value)| word("label", &format!("{name}={value}"))));
        if !self.has.is_empty() {
            let marks: Vec<&str> = self.has.iter().map(|mark| mark.word()).collect();
            options.push(format!(" --has {}", marks.join(",")));
        }
        let lists = [
            ("key-prefix", &self.key_prefix),
            ("flow-version", &self.flow_version),
            ("policy", &self.policy),
            ("action", &self.action),
            ("worker", &self.worker),
        ];
        for (name, values) in lists {
            options.extend(values.iter().map(|value| word(name, value)));
        }
        let texts = [
            ("parent", &self.parent),
            ("root", &self.root),
            ("updated-since", &self.updated_since),
            ("flow", &self.flow),
            ("key", &self.key),
            ("since", &self.since),
            ("until", &self.until),
            ("group", &self.group),
            ("cause", &self.cause),
        ];
        options.extend(texts.iter().filter_map(|(name, value)| Some(word(name, value.as_deref()?))));
        options.extend(self.all.then(|| " --all".to_owned()));
        options.concat()
    }
}

/// Describes when a policy resumes the run, or what the resume waits for.
fn describe_next_resume(run: &RunLine) -> String {
    let (Some(at), Some(policy)) = (&run.next_auto_resume, &run.next_auto_resume_reason) else {
        return String::new();
    };
    let (at, now) = (Time(at.as_millisecond()), unstuck_service::service::now());
    if run.policies_paused.is_some() {
        let due = if at <= now { format!("due {} ago; ", now.since(at)) } else { String::new() };
        return format!(" ({due}policy `{policy}` resumes it once unpaused)");
    }
    match &run.go_on {
        Some(go_on) if at <= now => {
            format!(" (policy `{policy}` was due {} ago; to continue: {go_on})", now.since(at))
        }
        // Resumes that are due are released at a limited rate.
        Some(_) | None if at <= now => format!(" (due: policy `{policy}` resumes it in its turn)"),
        Some(_) | None => format!(" (policy `{policy}` resumes it in {})", at.since(now)),
    }
}

/// Describes that the run is failing, with its handler.
fn describe_failing(run: &RunLine) -> String {
    match (run.failing, &run.handler) {
        (false, _) => String::new(),
        (true, None) => "failing: ".to_owned(),
        (true, Some(handler)) => format!("failing (handler {handler}): "),
    }
}

/// Formats a run as a row.
fn run_cells(run: &RunLine, has_keys: bool) -> Vec<Cell> {
    let ago = unstuck_service::service::now().since(Time(run.updated_at.as_millisecond()));
    let state = shown_state(&run.state, run.idle);
    // A run that is still running may have steps that are held or in error.
    let is_told = |has: &&str| *has != run.state && matches!(*has, "error" | "held");
    let also: Vec<&str> = run.has.iter().map(String::as_str).filter(is_told).collect();
    let words = if also.is_empty() { state.to_owned() } else { format!("{state} ({})", also.join(", ")) };
    let look = style_of_word(also.first().unwrap_or(&state));
    let mut cells = vec![Cell::new(&run.id), Cell::styled(words, look), Cell::new(&run.flow)];
    cells.extend(has_keys.then(|| Cell::new(run.key.as_deref().unwrap_or("-"))));
    let note = match (&run.set_aside, &run.cause, &run.go_on, &run.parent) {
        (Some(aside), ..) => format!("set aside: {}", aside.why),
        (None, Some(cause), ..) => format!("{}{cause}{}", describe_failing(run), describe_next_resume(run)),
        (None, None, Some(go_on), _) => format!("to continue: {go_on}"),
        (None, None, None, Some(parent)) => format!("part of {parent}"),
        (None, None, None, None) => String::new(),
    };
    let labels =
        if run.labels.is_empty() { String::new() } else { format!(" [{}]", text::labels(&run.labels)) };
    cells.extend([Cell::new(format!("{ago} ago")), Cell::new(format!("{note}{labels}"))]);
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of a run whose resume is due in so many milliseconds.
    fn said(due: i64, go_on: Option<&str>, paused: bool) -> String {
        let at = Time(unstuck_service::service::now().0 + due).timestamp();
        let paused = paused.then(|| json!({"since": at, "by": "ada", "reason": "an outage"}));
        let run = json!({
            "id": "run_1", "generation": 1, "flow": "f", "version": "1", "key": null, "state": "error", "goOn": go_on,
            "parent": null, "createdAt": at, "updatedAt": at, "cause": "reset", "nextAutoResume": at,
            "nextAutoResumeReason": "resets", "policiesPaused": paused,
        });
        describe_next_resume(&serde_json::from_value(run).expect("a line of the list"))
    }

    #[test]
    fn when_a_policy_resumes_a_run_is_said_in_words_that_fit_the_time() {
        let hour = 3_600_000;
        // Some seconds more, which may pass until it is said.
        assert_eq!(said(hour + 30_000, None, false), " (policy `resets` resumes it in 1h)");
        assert_eq!(
            said(-hour, None, false),
            " (due: policy `resets` resumes it in its turn)",
            "never `in 0ms`"
        );
        let idle = said(-hour, Some("unstuck run --continue run_1"), false);
        assert_eq!(idle, " (policy `resets` was due 1h ago; to continue: unstuck run --continue run_1)");
        assert_eq!(said(hour, None, true), " (policy `resets` resumes it once unpaused)");
        assert_eq!(said(-hour, None, true), " (due 1h ago; policy `resets` resumes it once unpaused)");
    }
}
