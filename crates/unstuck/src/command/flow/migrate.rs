//! `unstuck flow migrate`: moves runs that are under way to another version of their flow.

use std::process::ExitCode;

use unstuck_api::flows::MigrationView;
use unstuck_api::request::MigrateFlow;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::table::{Cell, Table};

/// Move runs that are under way to another version of their flow.
///
/// A run is moved if every step that it has begun is in that version, at the same place, and those that are done or at work are unchanged. A step
/// that is held, in error or waits for a retry may be another one: its next attempt is made as the new version says. Attempts that workers have stay
/// theirs. Runs that cannot be moved are listed, with the step and why; they continue as they are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The name of the flow.
    flow: String,

    /// To this version. [default: the newest that can be started]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,

    /// Only runs of this version.
    #[arg(long, value_name = "VERSION", conflicts_with = "run")]
    from: Option<String>,

    /// Only this run; repeat it for several. [default: all that are open]
    #[arg(long, value_name = "RUN")]
    run: Vec<String>,

    /// Only say which runs could be moved.
    #[arg(long)]
    dry_run: bool,

    /// Why, for the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck flow migrate nightly --dry-run
  unstuck flow migrate nightly --to 3 --from 2 --reason 'the upload is mended'
  unstuck flow migrate nightly --run run_0s86mke080000";

/// Runs that one request looks at.
const PAGE: usize = 100;

impl Arguments {
    pub(super) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let mut all: Option<MigrationView> = None;
        loop {
            let after = all.as_mut().and_then(|all| all.next.take());
            let wanted = MigrateFlow {
                flow: self.flow.clone(),
                to: self.to.clone(),
                from: self.from.clone(),
                runs: self.run.clone(),
                dry_run: self.dry_run,
                limit: PAGE,
                after,
            };
            let answer = place.migrate_flow(wanted, self.reason.clone())?;
            let page: MigrationView = answer.read()?;
            let all = all.get_or_insert_with(|| MigrationView {
                moved: 0,
                total: 0,
                not_moved: vec![],
                ..page.clone()
            });
            all.moved += page.moved;
            all.total += page.total;
            all.not_moved.extend(page.not_moved);
            all.next = page.next;
            if all.next.is_none() {
                break;
            }
        }
        let all = all.unwrap_or_default();
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let json =
                    serde_json::to_string(&all).map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => show_migration(&all, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show_migration(all: &MigrationView, stdout: &mut Output) {
    let MigrationView { flow, to, moved, total, .. } = all;
    let runs = if *total == 1 { "run" } else { "runs" };
    stdout.line(&match (*total, all.dry_run) {
        (0, _) => format!("No open run of flow `{flow}` is of another version than {to}."),
        (_, true) => format!(
            "{moved} of {total} {runs} of flow `{flow}` can be moved to version {to}. Nothing was changed."
        ),
        (_, false) => format!("Moved {moved} of {total} {runs} of flow `{flow}` to version {to}."),
    });
    if all.not_moved.is_empty() {
        return;
    }
    let mut table = Table::new(&["RUN", "STEP", "WHY NOT"]);
    for not in &all.not_moved {
        let step = not.step.as_deref().unwrap_or("-");
        table.row(vec![Cell::new(&not.run), Cell::new(step), Cell::new(&not.why)]);
    }
    stdout.line("");
    for line in table.lines(stdout.width(), stdout.look) {
        stdout.line(&line);
    }
}
