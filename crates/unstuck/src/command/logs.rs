//! `unstuck logs`: what the attempts of a run printed.

use std::process::ExitCode;

use unstuck_store::logs::{MAX_LOG_BYTES_OF_RUN, MAX_LOGS_OF_RUN};

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::command::store::info::format_size;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::logs::{IgnoredLine, LogView, LogsView, Tail};
use unstuck_api::request::Query;

/// Show what the attempts of a run printed: the end of stderr and stdout of each.
///
/// For each attempt of a local process the last 64 KiB of stderr and of stdout are kept, and the lines of its report
/// that were ignored. A run keeps the output of its last 100 attempts that printed something, at most 1 MiB; older
/// output is dropped. Output is stored when the attempt ends. Failed attempts are always shown with their cause.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The run: its id, the start of its id, its key (or FLOW:KEY), or @latest.
    run: String,

    /// Only this step (`step[3]` for one item); without an item, all items.
    step: Option<String>,

    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck logs @latest
  unstuck logs run_0s86mke080000 'fetch[3]' -o json | jq -r '.logs[].stderr.text'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        let answer = place.read(Query::Logs { run: self.run, step: self.step })?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&answer.pretty()),
            Format::Text => show_logs(&answer.read()?, &mut stdout),
        }
        stdout.finish()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows the logs of all attempts, and how many were dropped.
fn show_logs(logs: &LogsView, stdout: &mut Output) {
    if logs.dropped > 0 {
        let of = if logs.dropped == 1 { "attempt" } else { "attempts" };
        let (dropped, most) = (logs.dropped, MAX_LOGS_OF_RUN);
        let bytes = format_size(MAX_LOG_BYTES_OF_RUN as u64);
        let said = format!(
            "The output of {dropped} older {of} was dropped: a run keeps the output of at most {most} attempts, and at most {bytes}."
        );
        write_wrapped(stdout, "", &said);
        stdout.line("");
    }
    if logs.logs.is_empty() {
        write_wrapped(stdout, "", "No logs: no attempt has failed or printed anything.");
    }
    let reran = logs.logs.iter().any(|log| log.generation > 1);
    for (place, log) in logs.logs.iter().enumerate() {
        if place > 0 {
            stdout.line("");
        }
        show_attempt_log(log, reran, stdout);
    }
}

/// Writes a sentence of ours, wrapped and indented.
fn write_wrapped(stdout: &mut Output, indent: &str, text: &str) {
    let lines = match stdout.width() {
        Some(width) => text::wrap(text, width.saturating_sub(indent.len()).max(16)),
        None => vec![text.to_owned()],
    };
    for line in lines {
        stdout.line(&format!("{indent}{line}"));
    }
}

/// Shows the log of one attempt. Its lines are not wrapped, so that they can be copied.
fn show_attempt_log(log: &LogView, reran: bool, stdout: &mut Output) {
    let LogView { step, attempt, generation, .. } = log;
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
    for line in to_readable_lines(log.context.as_deref().unwrap_or_default()) {
        stdout.line(&format!("  {line}"));
    }
    show_stream("stderr", log.stderr.as_ref(), stdout);
    show_stream("stdout", log.stdout.as_ref(), stdout);
    if log.state.as_deref() == Some("active") && log.stderr.is_none() && log.stdout.is_none() {
        stdout.line("  still running: its output is stored when it ends");
    }
    if !log.ignored.is_empty() {
        stdout.line("  ignored lines of the report:");
    }
    for IgnoredLine { line, text, why } in &log.ignored {
        let said = format!("line {line}: `{}`: {}", text::visible(text), text::visible(why));
        write_wrapped(stdout, "    ", &said);
    }
    if log.more_ignored > 0 {
        stdout.line(&format!("    and {} more", log.more_ignored));
    }
}

/// Shows the kept end of a stream, and how much of it was cut.
fn show_stream(name: &str, tail: Option<&Tail>, stdout: &mut Output) {
    let Some(tail) = tail else { return };
    if tail.cut {
        let (kept, all) = (format_size(tail.text.len() as u64), format_size(tail.bytes));
        stdout.line(&format!("  {name} (the last {kept} of {all}):"));
    } else {
        stdout.line(&format!("  {name}:"));
    }
    for line in to_readable_lines(&tail.text) {
        stdout.line(&format!("    {line}"));
    }
}

/// Converts output that was meant for a terminal into plain lines: no escape sequences, spaces for tabs, and a line for
/// each state of a progress bar. `-o json` has it unchanged.
fn to_readable_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let parts = line.split('\r').filter(|part| !part.is_empty() || line.is_empty());
        lines.extend(parts.map(|part| text::visible(&strip_escape_sequences(part).replace('\t', "    "))));
    }
    lines
}

/// Removes escape sequences for colours and cursors: escape, bracket, and all up to a letter.
fn strip_escape_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| ('@'..='~').contains(&c)).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_for_a_terminal_can_be_read() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("one\n\n  two", &["one", "", "  two"]),
            ("\tat Main.java\r\nnext", &["    at Main.java", "next"]),
            ("10 %\r50 %\r100 %", &["10 %", "50 %", "100 %"]),
            ("\u{1b}[1;31merror\u{1b}[0m: no", &["error: no"]),
            ("half \u{1b}[38;5", &["half "]),
            ("bell \u{7} \u{1b}]0;title", &["bell \u{fffd} \u{fffd}]0;title"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(to_readable_lines(text), wanted, "{text:?}");
        }
    }
}
