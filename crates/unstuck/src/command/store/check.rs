//! `unstuck store check`: every promise that can be checked from the data alone.

use std::time::{Duration, Instant};

use serde_json::json;
use unstuck_sqlite::verify::{CheckProgress, CheckReport};

use crate::CommandResult;
use crate::Format;
use crate::access::location::LocalStoreArgument;
use crate::exit;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::problems::number_of;
use crate::view::style;
use crate::view::text;
use unstuck_service::clock::Clock;
use unstuck_service::flows::compile_flow;

/// Check the store: every promise that the data alone can prove.
///
/// It changes nothing and can run while a run is in progress. The exit code is 1 if it finds a problem.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: LocalStoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store check
  unstuck store check -o json | jq '.findings[].what'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let place = self.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        let compile = compile_flow();
        let mut shown = Shown::new();
        let report =
            unstuck_sqlite::verify::check(&place.directory, &mut |record| compile(record), &mut |progress| {
                shown.draw_progress(progress);
            });
        shown.clear_progress();
        let report = report?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&json_text::pretty(&report_document(&report))),
            Format::Text => show_report(&report, &mut stdout),
        }
        stdout.finish()?;
        Ok(exit::of(report.is_clean()))
    }
}

/// Builds the JSON of a report.
fn report_document(report: &CheckReport) -> String {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "promise": finding.promise.to_string(), "place": finding.place, "what": finding.what, "hint": finding.hint,
            })
        })
        .collect();
    let CheckReport { runs, events, payloads, notices, flows, more, .. } = report;
    json!({
        "clock": clock(report).document(), "runs": runs, "events": events, "payloads": payloads, "notices": notices, "flows": flows,
        "findings": findings, "more": more,
    })
    .to_string()
}

fn clock(report: &CheckReport) -> Clock<'_> {
    Clock { record: &report.clock, last: report.last_time, now: unstuck_service::service::now() }
}

/// Shows the findings and what was checked.
fn show_report(report: &CheckReport, stdout: &mut Output) {
    let look = stdout.look;
    for sentence in clock(report).local_sentences() {
        stdout.line(&format!("{} {sentence}", look.paint(style::DIM, "clock:")));
    }
    for finding in &report.findings {
        let word = look.paint(style::BAD, format!("{}:", finding.promise));
        stdout.line(&format!("{word} {}", text::visible(&finding.to_string())));
    }
    if report.more > 0 {
        stdout.line(&format!("and {} more", report.more));
    }
    let CheckReport { runs, events, payloads, flows, .. } = report;
    let counts = [(runs, "run"), (events, "event"), (payloads, "payload"), (flows, "flow version")];
    let counts = counts.map(|(n, word)| number_of(usize::try_from(*n).unwrap_or(usize::MAX), word));
    let read = counts.join(", ");
    if report.is_clean() {
        return stdout.line(&format!("{} ({read})", look.paint(style::GOOD, "No problems found.")));
    }
    let count = report.findings.len() as u64 + report.more;
    let places = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    stdout.line(&format!("\n{} ({read})", look.paint(style::BAD, format!("{places} found."))));
}

/// The progress on a terminal.
struct Shown {
    stderr: Output,
    begun: Instant,
    next: Instant,
    is_shown: bool,
}

impl Shown {
    /// So long nobody wonders.
    const FIRST: Duration = Duration::from_millis(500);
    const BETWEEN: Duration = Duration::from_millis(200);

    fn new() -> Shown {
        let begun = Instant::now();
        Shown { stderr: Output::stderr(), begun, next: begun + Shown::FIRST, is_shown: false }
    }

    /// Draws the progress, at most every 200 ms.
    fn draw_progress(&mut self, progress: CheckProgress) {
        let now = Instant::now();
        if !self.stderr.look.live || now < self.next {
            return;
        }
        self.next = now + Shown::BETWEEN;
        self.is_shown = true;
        let width = self.stderr.width().unwrap_or(80);
        let line = progress_line(progress, now - self.begun, width);
        self.stderr.text(&format!("\r\u{1b}[2K{line}"));
    }

    fn clear_progress(&mut self) {
        if self.is_shown {
            self.stderr.text("\r\u{1b}[2K");
        }
    }
}

/// Formats the progress: a bar, the share and the time left; on a narrow terminal less.
fn progress_line(CheckProgress { what, done, of }: CheckProgress, since: Duration, width: usize) -> String {
    const BAR: u64 = 24;
    let share =
        |whole: u64| u64::try_from(u128::from(done) * u128::from(whole) / u128::from(of.max(1))).unwrap_or(0);
    let rest = since.as_millis() * u128::from(of.saturating_sub(done)) / u128::from(done.max(1));
    let full = usize::try_from(share(BAR)).unwrap_or(0);
    let bar = format!("[{:-<24}]", "#".repeat(full));
    let percent = share(100);
    let left = if done > 0 { format!(", {}s left", rest.div_ceil(1_000)) } else { String::new() };
    let lines = [
        format!("checking {what} {bar} {percent} % ({done} of {of}{left})"),
        format!("checking {what} {bar} {percent} %"),
        format!("checking {what}: {percent} %"),
    ];
    let fits = lines.iter().find(|line| line.len() < width).or(lines.last());
    fits.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_says_how_far_it_is_and_fits_the_terminal() {
        let at = |done, of| CheckProgress { what: "runs", done, of };
        let cases = [
            (at(0, 1), 0, 80, "checking runs [------------------------] 0 % (0 of 1)"),
            (at(50, 200), 10, 80, "checking runs [######------------------] 25 % (50 of 200, 30s left)"),
            (at(200, 200), 10, 80, "checking runs [########################] 100 % (200 of 200, 0s left)"),
            (at(50, 200), 10, 50, "checking runs [######------------------] 25 %"),
            (at(50, 200), 10, 30, "checking runs: 25 %"),
            (at(0, 0), 0, 80, "checking runs [------------------------] 0 % (0 of 0)"),
        ];
        for (progress, seconds, width, wanted) in cases {
            assert_eq!(progress_line(progress, Duration::from_secs(seconds), width), wanted);
        }
    }
}
