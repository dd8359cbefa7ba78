//! Shows that automatic resumes are paused, wherever a next resume is shown.

use unstuck_api::PoliciesPaused;
use unstuck_service::local_time;

use crate::view::output::Output;
use crate::view::style;
use crate::view::text;

const TITLE: &str = "Automatic resumes are paused";

/// Describes a pause: `by ada since 2026-11-17 10:00:00 CET: the provider is down`.
pub(crate) fn describe_paused(paused: &PoliciesPaused) -> String {
    format!("by {} since {}: {}", paused.by, local_time::format_full(paused.since), paused.reason)
}

/// Shows that automatic resumes are paused, and the command that unpauses them.
pub(crate) fn show_paused(paused: Option<&PoliciesPaused>, stdout: &mut Output, option: &str) {
    let Some(paused) = paused else { return };
    write_sentence(&format!("{TITLE} {}.", describe_paused(paused)), stdout);
    stdout.line(&format!("To unpause them: unstuck policy unpause{option}"));
}

/// Shows that they were paused already.
pub(crate) fn show_already_paused(paused: &PoliciesPaused, stdout: &mut Output) {
    write_sentence(&format!("{TITLE} already {}.", describe_paused(paused)), stdout);
}

/// Writes a sentence wrapped to the terminal.
fn write_sentence(sentence: &str, stdout: &mut Output) {
    for line in text::wrap(&text::visible(sentence), stdout.width().unwrap_or(usize::MAX)) {
        stdout.line(&line.replacen(TITLE, &stdout.look.paint(style::LATER, TITLE), 1));
    }
}
