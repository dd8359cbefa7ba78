//! `unstuck doctor`: what is wrong with this installation, and what to type.

mod certificate;
mod server;
mod store;

use serde::Serialize;

use crate::CommandResult;
use crate::Format;
use crate::access::location::StoreArgument;
use crate::error::CommandError;
use crate::exit;
use crate::view::json_text;
use crate::view::output::Output;
use crate::view::style;

/// Find out what is wrong with a store or a server, and what to do about it.
///
/// On a store: who may read it and who has it open, its disk, its clock, its files, and what waits in it. On a server (--server): whether it
/// answers and in which version, the token, its clock, its health, and its certificate. Nothing is changed.
///
/// The exit code is 1 if there is a problem; warnings alone are 0.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  unstuck doctor
  unstuck doctor --server https://unstuck.example.com:7070
  unstuck doctor -o json | jq -r '.checks[] | select(.status != \"ok\").detail'")]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: StoreArgument,
}

/// What was looked at.
#[derive(Debug, Serialize)]
struct Report {
    status: Status,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    /// In a sentence.
    detail: String,
    /// What to type.
    command: Option<String>,
}

/// How it is, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    Ok,
    /// Nothing is broken, and somebody should look at it.
    Warning,
    Problem,
}

impl Check {
    fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Check {
        Check { name, status, detail: detail.into(), command: None }
    }

    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check::new(name, Status::Ok, detail)
    }

    fn warning(name: &'static str, detail: impl Into<String>) -> Check {
        Check::new(name, Status::Warning, detail)
    }

    fn problem(name: &'static str, detail: impl Into<String>) -> Check {
        Check::new(name, Status::Problem, detail)
    }

    /// The same, with what to type.
    fn with_command(self, command: impl Into<String>) -> Check {
        Check { command: Some(command.into()), ..self }
    }
}

impl Arguments {
    pub(crate) fn execute(self, format: Format) -> CommandResult {
        let checks = match self.store.place() {
            Ok(place) => match &place.server {
                Some(client) => server::examine(client),
                None => store::examine(&place),
            },
            // A store that must not be used is what the doctor was asked about.
            Err(error @ CommandError::Problem(_)) => vec![Check::problem("access", error.sentence())],
            Err(error) => return Err(error),
        };
        let status = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok);
        let report = Report { status, checks };
        let mut stdout = Output::stdout();
        match format {
            Format::Json => {
                let json = serde_json::to_string(&report)
                    .map_err(|error| CommandError::internal(error.to_string()))?;
                stdout.line(&json_text::pretty(&json));
            }
            Format::Text => report.show(&mut stdout),
        }
        stdout.finish()?;
        Ok(exit::of(report.status != Status::Problem))
    }
}

impl Report {
    fn show(&self, stdout: &mut Output) {
        for check in &self.checks {
            let (word, colour) = match check.status {
                Status::Ok => ("ok", style::GOOD),
                Status::Warning => ("warning", style::LATER),
                Status::Problem => ("problem", style::BAD),
            };
            let word = stdout.look.paint(colour, format!("{word:<8}"));
            stdout.line(&format!("{word} {:<12} {}", check.name, crate::view::text::visible(&check.detail)));
            if let Some(command) = &check.command {
                stdout.line(&format!("{:21} {}", "", stdout.look.paint(style::BOLD, command)));
            }
        }
        let count = |status| self.checks.iter().filter(|check| check.status == status).count();
        let (problems, warnings) = (count(Status::Problem), count(Status::Warning));
        let plural =
            |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        stdout.line("");
        stdout.line(&match (problems, warnings) {
            (0, 0) => "No problems found.".to_owned(),
            _ => format!("{}, {}.", plural(problems, "problem"), plural(warnings, "warning")),
        });
    }
}
