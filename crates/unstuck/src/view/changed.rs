//! Shows the result of a command about a run.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::connection::Answer;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::runs::ChangedView;

/// The width of texts.
const COLUMNS: usize = 80;

/// Shows what was done, or that it was so before, and the state of the run now.
pub(crate) fn show_change(answer: &Answer, format: Format, done: &str, already: &str) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let changed: ChangedView = answer.read()?;
            let sentence = if changed.already { already } else { done };
            stdout.line(&stdout.look.paint(style::BOLD, sentence));
            write_wrapped(&mut stdout, &text::sentence(&changed.headline));
            if let Some(go_on) = &changed.go_on {
                show_continue_command(&mut stdout, go_on);
            }
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the command that continues the run.
pub(crate) fn show_continue_command(output: &mut Output, command: &str) {
    output.line("To continue the run:");
    output.line(&format!("  {}", text::visible(command)));
}

/// Writes a text in lines that fit the terminal.
pub(crate) fn write_wrapped(output: &mut Output, sentence: &str) {
    let width = output.width().map_or(COLUMNS, |width| width.min(COLUMNS));
    for line in text::wrap(&text::visible(sentence), width) {
        output.line(&line);
    }
}
