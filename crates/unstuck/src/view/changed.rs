//! What came of a command, as it is told.

use std::process::ExitCode;

use crate::CommandResult;
use crate::Format;
use crate::access::connection::Answer;
use crate::view::output::Output;
use crate::view::style;
use crate::view::text;
use unstuck_api::runs::ChangedView;

/// Texts are made for so many columns.
const COLUMNS: usize = 80;

/// Tells what was done, or that it was so before, and where the run stands now.
pub(crate) fn tell(answer: &Answer, format: Format, done: &str, already: &str) -> CommandResult {
    let mut stdout = Output::stdout();
    match format {
        Format::Json => stdout.line(&answer.pretty()),
        Format::Text => {
            let changed: ChangedView = answer.read()?;
            let sentence = if changed.already { already } else { done };
            stdout.line(&stdout.look.paint(style::BOLD, sentence));
            wrapped(&mut stdout, &text::sentence(&changed.headline));
            if let Some(go_on) = &changed.go_on {
                go_on_with(&mut stdout, go_on);
            }
        }
    }
    stdout.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// That somebody has to go on with a run, and how.
pub(crate) fn go_on_with(output: &mut Output, command: &str) {
    output.line("To continue the run:");
    output.line(&format!("  {}", text::visible(command)));
}

/// A text in lines for a terminal.
pub(crate) fn wrapped(output: &mut Output, sentence: &str) {
    let width = output.width().map_or(COLUMNS, |width| width.min(COLUMNS));
    for line in text::wrap(&text::visible(sentence), width) {
        output.line(&line);
    }
}
