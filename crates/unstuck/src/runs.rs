//! `unstuck runs`: the runs of a store, newest first.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use unstuck_core::model::run::RunState;
use unstuck_core::time::Time;

use crate::desk::asked::{Reading, Wanted};
use crate::desk::{RunLine, RunsPage};
use crate::output::Output;
use crate::place::StoreArgument;
use crate::style::{shown_state, style_of_word};
use crate::table::{Cell, Table};
use crate::{Done, Format, text, who};

/// List the runs of the store, newest first.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only runs in this state.
    #[arg(long, value_parser = state_parser())]
    state: Option<RunState>,

    /// Only runs of this flow.
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Children and exception handlers too.
    #[arg(long)]
    all: bool,

    /// So many at most.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The page after this run, which is the last of the page before.
    #[arg(long, value_name = "RUN")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck runs
  unstuck runs --state held
  unstuck runs --flow nightly --limit 100 -o json | jq '.runs[].id'";

pub(crate) fn state_parser() -> impl TypedValueParser<Value = RunState> {
    PossibleValuesParser::new(RunState::ALL.map(RunState::word)).map(|word| {
        let found = RunState::ALL.into_iter().find(|state| state.word() == word);
        found.unwrap_or(RunState::Running)
    })
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        let wanted = Wanted {
            state: self.state,
            flow: self.flow.clone(),
            all: self.all,
            limit: self.limit as usize,
            after: self.after.clone(),
        };
        let answer = place.read(Reading::Runs(wanted))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => {
                let page: RunsPage = answer.read()?;
                self.show(&page, &mut stdout, &place.option);
            }
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, page: &RunsPage, stdout: &mut Output, option: &str) {
        if page.runs.is_empty() {
            let filtered = self.state.is_some() || self.flow.is_some() || self.after.is_some();
            let hint =
                if filtered && !self.all { "; children and handlers are listed with --all" } else { "" };
            let what = if filtered { "no such run" } else { "no run yet" };
            return stdout.line(&format!("There is {what}{hint}."));
        }
        let has_keys = page.runs.iter().any(|run| run.key.is_some());
        let mut head = vec!["RUN", "STATE", "FLOW"];
        head.extend(has_keys.then_some("KEY"));
        head.extend(["UPDATED", ""]);
        let mut table = Table::new(&head);
        for run in &page.runs {
            table.row(cells(run, has_keys));
        }
        for line in table.lines(stdout.width(), stdout.look) {
            stdout.line(&line);
        }
        if let Some(next) = &page.next {
            stdout.line(&format!("\nMore: unstuck runs --after {next}{}{option}", self.filters()));
        }
    }

    /// The options that the next page needs too.
    fn filters(&self) -> String {
        let state = self.state.map(|state| format!(" --state {}", state.word()));
        let flow = self.flow.as_ref().map(|flow| format!(" --flow {}", text::shell_word(flow)));
        let all = self.all.then(|| " --all".to_owned());
        let limit = (self.limit != 20).then(|| format!(" --limit {}", self.limit));
        [state, flow, all, limit].into_iter().flatten().collect::<Vec<_>>().concat()
    }
}

/// When a policy resumes it, or what it waits for.
fn resumed(run: &RunLine) -> String {
    let (Some(at), Some(policy)) = (&run.next_auto_resume, &run.next_auto_resume_reason) else {
        return String::new();
    };
    let (at, now) = (Time(at.as_millisecond()), who::now());
    match &run.go_on {
        Some(go_on) if at <= now => {
            format!(" (due for `{policy}` since {}; continue with: {go_on})", now.since(at))
        }
        Some(_) | None => format!(" (resumed by `{policy}` in {})", at.since(now)),
    }
}

fn cells(run: &RunLine, has_keys: bool) -> Vec<Cell> {
    let ago = who::now().since(Time(run.updated_at.as_millisecond()));
    let state = shown_state(&run.state, run.idle);
    let mut cells = vec![Cell::new(&run.id), Cell::styled(state, style_of_word(state)), Cell::new(&run.flow)];
    if has_keys {
        cells.push(Cell::new(run.key.as_deref().unwrap_or("-")));
    }
    let note = match (&run.set_aside, &run.cause, &run.go_on, &run.parent) {
        (Some(why), ..) => format!("set aside: {why}"),
        (None, Some(cause), ..) => format!("{cause}{}", resumed(run)),
        (None, None, Some(go_on), _) => format!("continue with: {go_on}"),
        (None, None, None, Some(parent)) => format!("a part of {parent}"),
        (None, None, None, None) => String::new(),
    };
    cells.extend([Cell::new(format!("{ago} ago")), Cell::new(note)]);
    cells
}
