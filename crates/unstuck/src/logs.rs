//! `unstuck logs`: what the attempts of a run printed.

use std::process::ExitCode;

use unstuck_core::model::log::{IgnoredLine, Tail};
use unstuck_store::logs::{MAX_LOG_BYTES_OF_RUN, MAX_LOGS_OF_RUN};

use crate::desk::asked::Reading;
use crate::desk::logs::{Log, Logs};
use crate::output::Output;
use crate::place::StoreArgument;
use crate::store::info::size;
use crate::{Done, Format, style, text};

/// Show what the attempts of a run printed: the end of stderr and stdout of each, whether it failed or completed.
///
/// Of each attempt of a local process the last 64 KiB of stderr and of stdout are kept, with the lines of its report that
/// were ignored; of a run the last 100 attempts that printed something, and 1 MiB. What is older is dropped first, and the
/// page says so. What an attempt prints is kept when it ends. Attempts that failed are shown with their cause in any case.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the beginning of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only this step, `step[3]` for an item; a step with items with all of them.
    step: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck logs @latest
  unstuck logs run_0s86mke080000 'fetch[3]' -o json | jq -r '.logs[].stderr.text'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        let answer = place.read(Reading::Logs { run: self.run, step: self.step })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show(&answer.read()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show(logs: &Logs, stdout: &mut Output) {
    if logs.dropped > 0 {
        let of = if logs.dropped == 1 { "attempt" } else { "attempts" };
        let (dropped, most) = (logs.dropped, MAX_LOGS_OF_RUN);
        let bytes = size(MAX_LOG_BYTES_OF_RUN as u64);
        sentence(
            stdout,
            &format!(
                "Older output was dropped, of {dropped} {of}: a run keeps the output of its last {most} attempts, and {bytes} of it."
            ),
        );
        stdout.line("");
    }
    if logs.logs.is_empty() {
        sentence(stdout, "Nothing was kept: no attempt has failed or printed anything.");
    }
    let reran = logs.logs.iter().any(|log| log.generation > 1);
    for (place, log) in logs.logs.iter().enumerate() {
        if place > 0 {
            stdout.line("");
        }
        show_one(log, reran, stdout);
    }
}

/// A sentence of ours, within the terminal.
fn sentence(stdout: &mut Output, text: &str) {
    let lines = match stdout.width() {
        Some(width) => text::wrap(text, width),
        None => vec![text.to_owned()],
    };
    for line in lines {
        stdout.line(&line);
    }
}

/// What a process has printed is shown line by line as it is: no line is broken, so that it can be copied.
fn show_one(log: &Log, reran: bool, stdout: &mut Output) {
    let Log { step, attempt, generation, .. } = log;
    let generation = if reran { format!(" of generation {generation}") } else { String::new() };
    let state = log.state.as_ref().map_or_else(String::new, |state| format!(": {state}"));
    let cause = log.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
    let head = text::visible(&format!("{step}, attempt {attempt}{generation}{state}{cause}"));
    let lines = match stdout.width() {
        Some(width) => text::wrap(&head, width),
        None => vec![head],
    };
    for line in lines {
        stdout.line(&stdout.look.paint(style::BOLD, line));
    }
    for line in log.context.as_deref().unwrap_or_default().lines() {
        stdout.line(&format!("  {}", text::visible(line)));
    }
    stream("stderr", log.stderr.as_ref(), stdout);
    stream("stdout", log.stdout.as_ref(), stdout);
    if log.state.as_deref() == Some("active") && log.stderr.is_none() && log.stdout.is_none() {
        stdout.line("  still running: its output is kept when it ends");
    }
    if !log.ignored.is_empty() {
        stdout.line("  ignored in the report:");
    }
    for IgnoredLine { line, text, why } in &log.ignored {
        stdout.line(&format!("    line {line}: `{}`: {}", text::visible(text), text::visible(why)));
    }
    if log.more_ignored > 0 {
        stdout.line(&format!("    and {} more", log.more_ignored));
    }
}

fn stream(name: &str, tail: Option<&Tail>, stdout: &mut Output) {
    let Some(tail) = tail else { return };
    if tail.cut {
        let (kept, all) = (size(tail.text.len() as u64), size(tail.bytes));
        stdout.line(&format!("  {name} (the last {kept} of {all}):"));
    } else {
        stdout.line(&format!("  {name}:"));
    }
    for line in tail.text.lines() {
        stdout.line(&format!("    {}", text::visible(line)));
    }
}
