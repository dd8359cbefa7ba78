//! `unstuck flow`: the flows of a store: applied from files, listed, shown, deleted; and their runs, moved to other versions.

mod migrate;

use std::process::ExitCode;

use unstuck_api::flows::{FlowView, FlowsAppliedView, FlowsView};
use unstuck_api::request::{FlowOperation, Query};
use unstuck_core::time::Time;

use unstuck_service::local_time::format_full_and_relative;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::input::source::Source;
use crate::view::output::Output;
use crate::view::style;
use crate::view::table::{Cell, Table};
use crate::view::text;

/// Apply, list, show and delete the flows of a store, and move runs to other versions of them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  unstuck flow apply nightly.yaml
  unstuck flow list
  unstuck flow show nightly --version 3
  unstuck flow migrate nightly --dry-run
  unstuck flow delete nightly --version 1";

#[derive(clap::Subcommand)]
enum Command {
    Apply(Apply),
    List(List),
    Show(Show),
    Migrate(migrate::Arguments),
    Delete(Delete),
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        match self.command {
            Command::Apply(apply) => apply.execute(format),
            Command::List(list) => list.execute(format),
            Command::Show(show) => show.execute(format),
            Command::Migrate(migrate) => migrate.execute(format),
            Command::Delete(delete) => delete.execute(),
        }
    }
}

/// Put the flows of a file into the store, as a whole or not at all.
///
/// A flow that has changed gets a new version. Runs keep the version that they were started with; `unstuck flow migrate`
/// moves them.
#[derive(clap::Args)]
struct Apply {
    /// The flow file, YAML or JSON; `-` is stdin.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: String,

    /// Only say what would be changed.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    store: StoreArgument,
}

impl Apply {
    fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let source = Source::read(&self.file)?;
        let directory = source.directory();
        let Source { file, text } = source;
        let what = FlowOperation::Apply {
            text,
            file: file.clone(),
            directory,
            dry_run: self.dry_run,
            migrate: false,
        };
        let answer = place.change_flows(what).map_err(|error| error.in_file(&file))?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_applied(&answer.read()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_applied(applied: &FlowsAppliedView, stdout: &mut Output) {
    for warning in &applied.warnings {
        let word = stdout.look.paint(style::LATER, "warning:");
        let line = warning.line.map_or_else(String::new, |line| format!("line {line}: "));
        stdout.line(&format!("{word} {}", text::visible(&format!("{line}{}", warning.message))));
    }
    for flow in &applied.flows {
        let name = stdout.look.paint(style::BOLD, format!("`{}`", text::visible(&flow.flow)));
        let what = match (flow.what.as_str(), applied.dry_run) {
            ("unchanged", _) => format!("is unchanged (version {})", flow.version),
            (what, true) => format!("would be {what} (version {})", flow.version),
            (what, false) => format!("was {what} (version {})", flow.version),
        };
        stdout.line(&format!("{name} {what}."));
        if let Some(next) = flow.next {
            let next = format_full_and_relative(next);
            stdout.line(&format!("  A server starts its next run by its schedule at {next}."));
        }
    }
}

/// List the flows that can be started.
#[derive(clap::Args)]
struct List {
    /// List at most this many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,

    /// The page after this one, as `next` of that page in JSON.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl List {
    fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Flows { after: self.after, limit: self.limit as usize })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_flows(&answer.read()?, &mut stdout, &place.option),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_flows(flows: &FlowsView, stdout: &mut Output, option: &str) {
    if flows.flows.is_empty() {
        return stdout.line("No flows yet. `unstuck flow apply FILE` adds some.");
    }
    let mut table = Table::new(&["FLOW", "VERSION", "VERSIONS", "OPEN", "APPLIED", "DESCRIPTION"]);
    let now = unstuck_service::service::now();
    for flow in &flows.flows {
        let applied = match (flow.applied_at, &flow.by) {
            (Some(at), Some(by)) => format!("{} ago by {by}", now.since(Time(at.as_millisecond()))),
            _ => String::new(),
        };
        table.row(vec![
            Cell::new(&flow.flow),
            Cell::new(&flow.version),
            Cell::new(flow.versions.to_string()),
            Cell::new(flow.open.to_string()),
            Cell::new(applied),
            Cell::new(flow.description.as_deref().unwrap_or_default()),
        ]);
    }
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
    if let Some(next) = &flows.next {
        stdout.line(&format!(
            "\nThere may be more: unstuck flow list --after {}{option}",
            text::shell_word(next)
        ));
    }
}

/// Show a version of a flow.
#[derive(clap::Args)]
struct Show {
    /// The name of the flow.
    flow: String,

    /// This version. [default: the newest that can be started]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Show {
    fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Flow { flow: self.flow, version: self.version })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_flow(&answer.read()?, &mut stdout)?,
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_flow(flow: &FlowView, stdout: &mut Output) -> Result<(), CommandError> {
    let deleted = if flow.deleted { ", deleted: it can be started no more" } else { "" };
    stdout.line(&text::visible(&format!("Flow `{}`, version {}{deleted}.", flow.flow, flow.version)));
    if let Some(description) = &flow.description {
        stdout.line(&text::visible(description));
    }
    if let Some(why) = &flow.unusable {
        stdout.line(&text::visible(&format!("It cannot be used: {why}.")));
    }
    if let Some(schedule) = &flow.schedule {
        let name = text::shell_word(&flow.flow);
        let schedule = text::visible(schedule);
        stdout.line(&format!("Schedule: {schedule}. Its next times: unstuck schedule show {name}"));
    }
    stdout.line(&format!("Open runs: {}.", flow.open));
    stdout.line("");
    let definition = serde_json::to_string_pretty(&flow.definition)
        .map_err(|error| CommandError::internal(error.to_string()))?;
    stdout.text(&format!("{definition}\n"));
    Ok(())
}

/// Delete a flow, or one version of it: it can be started no more.
///
/// Runs that have ended keep it. While runs of it are open, it is refused.
#[derive(clap::Args)]
struct Delete {
    /// The name of the flow.
    flow: String,

    /// Only this version.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

impl Delete {
    fn execute(self) -> CommandResult {
        let place = self.store.place()?;
        let what = match &self.version {
            Some(version) => format!("Deleted version {version} of flow `{}`.", self.flow),
            None => format!("Deleted flow `{}`.", self.flow),
        };
        place.change_flows(FlowOperation::Delete { flow: self.flow, version: self.version })?;
        let mut stdout = Output::stdout();
        stdout.line(&text::visible(&what));
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}
