//! `unstuck store check`: every promise that can be checked from the data alone.

use std::time::{Duration, Instant};

use serde_json::json;
use unstuck_sqlite::check::{Progress, Report};

use crate::output::Output;
use crate::place::StoreArgument;
use crate::problems::number_of;
use crate::{Done, Format, engine, exit, json_text, style, text};

/// Check every promise that can be checked from the data alone.
///
/// It changes nothing, and a run may go on meanwhile. The exit code is 1 if something is not as promised.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
}

const EXAMPLES: &str = "\
Examples:
  unstuck store check
  unstuck store check -o json | jq '.findings[].what'";

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> Done {
        let place = self.store.place()?;
        if !place.has_store() {
            return Err(place.no_store());
        }
        let compile = engine::compile();
        let mut shown = Shown::new();
        let report =
            unstuck_sqlite::check::check(&place.directory, &mut |record| compile(record), &mut |progress| {
                shown.tell(progress);
            });
        shown.clear();
        let report = report?;
        let mut stdout = Output::stdout();
        match format {
            Format::Json => stdout.line(&json_text::pretty(&document(&report))),
            Format::Text => show(&report, &mut stdout),
        }
        stdout.finish()?;
        Ok(exit::of(report.is_clean()))
    }
}

fn document(report: &Report) -> String {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "promise": finding.promise.to_string(), "place": finding.place, "what": finding.what, "hint": finding.hint,
            })
        })
        .collect();
    let Report { runs, events, payloads, notices, flows, more, .. } = report;
    json!({
        "runs": runs, "events": events, "payloads": payloads, "notices": notices, "flows": flows,
        "findings": findings, "more": more,
    })
    .to_string()
}

fn show(report: &Report, stdout: &mut Output) {
    let look = stdout.look;
    for finding in &report.findings {
        let word = look.paint(style::BAD, format!("{}:", finding.promise));
        stdout.line(&format!("{word} {}", text::visible(&finding.to_string())));
    }
    if report.more > 0 {
        stdout.line(&format!("and {} more of the same", report.more));
    }
    let Report { runs, events, payloads, flows, .. } = report;
    let counts = [(runs, "run"), (events, "event"), (payloads, "payload"), (flows, "flow version")];
    let counts = counts.map(|(n, word)| number_of(usize::try_from(*n).unwrap_or(usize::MAX), word));
    let read = counts.join(", ");
    if report.is_clean() {
        return stdout.line(&format!("{} ({read})", look.paint(style::GOOD, "All is as promised.")));
    }
    let count = report.findings.len() as u64 + report.more;
    let places = if count == 1 { "1 place is".to_owned() } else { format!("{count} places are") };
    stdout.line(&format!("\n{} ({read})", look.paint(style::BAD, format!("{places} not as promised."))));
}

/// How far it is, on a terminal.
struct Shown {
    stderr: Output,
    next: Instant,
    is_shown: bool,
}

impl Shown {
    /// So long nobody wonders.
    const FIRST: Duration = Duration::from_millis(500);
    const BETWEEN: Duration = Duration::from_millis(200);

    fn new() -> Shown {
        Shown { stderr: Output::stderr(), next: Instant::now() + Shown::FIRST, is_shown: false }
    }

    fn tell(&mut self, Progress { what, done, of }: Progress) {
        if !self.stderr.look.live || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Shown::BETWEEN;
        self.is_shown = true;
        self.stderr.text(&format!("\r\u{1b}[2Kchecking {what}: {done} of {of}"));
    }

    fn clear(&mut self) {
        if self.is_shown {
            self.stderr.text("\r\u{1b}[2K");
        }
    }
}
