//! That automatic resumes are paused, wherever a next resume is shown.

use unstuck_api::PoliciesPaused;
use unstuck_service::local_time;

use crate::view::output::Output;
use crate::view::style;
use crate::view::text;

const TITLE: &str = "Automatic resumes are paused";

/// `by ada since 2026-11-17 10:00:00 CET: the provider is down`.
pub(crate) fn words(paused: &PoliciesPaused) -> String {
    format!("by {} since {}: {}", paused.by, local_time::full(paused.since), paused.reason)
}

/// Says that automatic resumes are paused, and what unpauses them.
pub(crate) fn tell(paused: Option<&PoliciesPaused>, stdout: &mut Output, option: &str) {
    let Some(paused) = paused else { return };
    sentence(&format!("{TITLE} {}.", words(paused)), stdout);
    stdout.line(&format!("To unpause them: unstuck policy unpause{option}"));
}

/// Says that they were paused before.
pub(crate) fn tell_already(paused: &PoliciesPaused, stdout: &mut Output) {
    sentence(&format!("{TITLE} already {}.", words(paused)), stdout);
}

/// A sentence that goes on below itself where the terminal ends.
fn sentence(sentence: &str, stdout: &mut Output) {
    for line in text::wrap(&text::visible(sentence), stdout.width().unwrap_or(usize::MAX)) {
        stdout.line(&line.replacen(TITLE, &stdout.look.paint(style::LATER, TITLE), 1));
    }
}
