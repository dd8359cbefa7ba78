//! Errors of commands: their sentences, problem documents and exit codes.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_engine::request::EngineError;
use unstuck_flow::Problem;
use unstuck_store::contract::StoreError;

use unstuck_service::ServiceError;
use unstuck_service::problem::flow_part;

use crate::Format;
use crate::exit;
use crate::view::output::Output;
use crate::view::problems::{self, Counts};
use crate::view::style;

/// Why a command failed.
pub(crate) enum CommandError {
    /// What is wrong, where, what to do.
    Problem(Box<ProblemDocument>),
    /// Files are refused.
    Refused(Vec<Refused>),
    /// The store is busy, full or out of reach. Nothing was changed, and the same may succeed later.
    Unavailable(Box<ProblemDocument>),
    /// The answer was lost: it may or may not have been done.
    Unknown(Box<ProblemDocument>),
}

/// A file with problems.
pub(crate) struct Refused {
    /// The name of the file.
    pub(crate) file: String,
    /// What it holds, to show the places.
    pub(crate) text: String,
    /// At least one of them is an error.
    pub(crate) problems: Vec<Problem>,
}

impl CommandError {
    /// Builds the error of a request that is not possible.
    pub(crate) fn new(sentence: impl Into<String>) -> CommandError {
        CommandError::of(ProblemType::BadRequest, sentence)
    }

    /// Builds the error of something that does not exist.
    pub(crate) fn not_found(sentence: impl Into<String>) -> CommandError {
        CommandError::of(ProblemType::NotFound, sentence)
    }

    /// Builds the error of a bug, or of the machine.
    pub(crate) fn internal(sentence: impl Into<String>) -> CommandError {
        CommandError::of(ProblemType::Internal, sentence)
    }

    pub(crate) fn of(kind: ProblemType, sentence: impl Into<String>) -> CommandError {
        CommandError::Problem(Box::new(ProblemDocument::new(kind, sentence)))
    }

    pub(crate) fn unavailable(kind: ProblemType, sentence: impl Into<String>) -> CommandError {
        CommandError::Unavailable(Box::new(ProblemDocument::new(kind, sentence)))
    }

    pub(crate) fn unknown(kind: ProblemType, sentence: impl Into<String>) -> CommandError {
        CommandError::Unknown(Box::new(ProblemDocument::new(kind, sentence)))
    }

    /// Prefixes the error with the name of a file.
    pub(crate) fn in_file(self, file: &str) -> CommandError {
        let named = |mut problem: Box<ProblemDocument>| {
            problem.detail = format!("{file}: {}", problem.detail);
            problem
        };
        match self {
            CommandError::Problem(problem) => CommandError::Problem(named(problem)),
            CommandError::Unavailable(problem) => CommandError::Unavailable(named(problem)),
            CommandError::Unknown(problem) => CommandError::Unknown(named(problem)),
            refused @ CommandError::Refused(_) => refused,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            CommandError::Problem(_) | CommandError::Refused(_) => exit::REFUSED,
            CommandError::Unavailable(_) => exit::UNAVAILABLE,
            CommandError::Unknown(_) => exit::UNKNOWN,
        })
    }

    /// Shows the error on stderr.
    pub(crate) fn show(&self, format: Format) {
        let mut stderr = Output::stderr();
        match format {
            Format::Json => stderr.line(&self.document()),
            Format::Text => {
                for refused in self.refused() {
                    for problem in &refused.problems {
                        stderr.line(&problems::format_problem(problem, &refused.text, stderr.look));
                    }
                }
                let word = stderr.look.paint(style::BAD, "error:");
                let lines: Vec<String> = self.sentence().lines().map(crate::view::text::visible).collect();
                stderr.line(&format!("{word} {}", lines.join("\n")));
            }
        }
    }

    /// Returns the error as one sentence.
    pub(crate) fn sentence(&self) -> String {
        match self {
            CommandError::Problem(problem)
            | CommandError::Unavailable(problem)
            | CommandError::Unknown(problem) => problem.detail.clone(),
            CommandError::Refused(refused) => {
                let files: Vec<&str> = refused.iter().map(|refused| refused.file.as_str()).collect();
                let is = if files.len() == 1 { "is" } else { "are" };
                format!("{} {is} refused: {}", files.join(", "), Counts::of(&self.problems()))
            }
        }
    }

    fn refused(&self) -> &[Refused] {
        match self {
            CommandError::Problem(_) | CommandError::Unavailable(_) | CommandError::Unknown(_) => &[],
            CommandError::Refused(refused) => refused,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        self.refused().iter().flat_map(|refused| refused.problems.clone()).collect()
    }

    /// Formats the problem document on one line.
    fn document(&self) -> String {
        match self {
            CommandError::Problem(problem)
            | CommandError::Unavailable(problem)
            | CommandError::Unknown(problem) => problem_line(problem),
            CommandError::Refused(_) => {
                let mut problem = ProblemDocument::new(ProblemType::Invalid, self.sentence());
                problem.about.problems = self.problems().into_iter().map(flow_part).collect();
                problem_line(&problem)
            }
        }
    }
}

fn problem_line(problem: &ProblemDocument) -> String {
    serde_json::to_string(problem).unwrap_or_default()
}

/// Ends the process with a usage error: as text with the usage of the command, or as a problem document.
pub(crate) fn exit_with_usage_error(error: &clap::Error) -> ! {
    if !error.use_stderr() || !wants_json(std::env::args_os()) {
        error.exit();
    }
    let text = error.render().to_string();
    let is_nothing = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let sentence = if is_nothing {
        "a command is missing; `unstuck --help` lists them"
    } else {
        // The usage is for people only.
        let ends = ["\n\nUsage:", "\n\nFor more information"];
        let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
        text[..end].trim_start_matches("error: ").trim()
    };
    Output::stderr().line(&problem_line(&ProblemDocument::new(ProblemType::BadRequest, sentence)));
    std::process::exit(error.exit_code())
}

/// Returns whether these arguments ask for JSON, even if something else is wrong with them.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut given = arguments.skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let mut wants = false;
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--" => break,
            "-o" | "--output" => wants = given.next().as_deref() == Some("json"),
            "-ojson" | "-o=json" | "--output=json" => wants = true,
            _ => {}
        }
    }
    wants
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> CommandError {
        ServiceError::from(error).into()
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> CommandError {
        ServiceError::from(error).into()
    }
}

impl From<ServiceError> for CommandError {
    fn from(unanswered: ServiceError) -> CommandError {
        match unanswered {
            ServiceError::Refused(problem) => CommandError::Problem(problem),
            ServiceError::Unavailable(problem) => CommandError::Unavailable(problem),
            ServiceError::Stopped => {
                CommandError::unknown(ProblemType::Stopping, "the engine stopped before it answered")
            }
        }
    }
}

/// Formats an error of the operating system without its number.
pub(crate) fn without_os_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_wanted_wherever_it_is_asked_for() {
        let cases = [
            ("unstuck runs -o json", true),
            ("unstuck -ojson runs", true),
            ("unstuck runs --output json --nope", true),
            ("unstuck runs --output=json", true),
            ("unstuck runs -o=json", true),
            ("unstuck runs", false),
            ("unstuck runs -o text", false),
            ("unstuck runs -o", false),
            ("unstuck runs -- -o json", false),
        ];
        for (line, wanted) in cases {
            assert_eq!(wants_json(line.split(' ').map(OsString::from)), wanted, "{line}");
        }
    }
}
