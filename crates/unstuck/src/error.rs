//! What a command says when it cannot do what it was asked.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use unstuck_engine::request::EngineError;
use unstuck_flow::Problem;
use unstuck_store::contract::StoreError;

use unstuck_service::ServiceError;

use crate::Format;
use crate::exit;
use crate::view::output::Output;
use crate::view::problems::{self, Counts};
use crate::view::style;

/// Why a command could not do what it was asked.
pub(crate) enum CommandError {
    /// In a sentence: what is wrong, where, what to do.
    Sentence(String),
    /// Files are refused.
    Refused(Vec<Refused>),
    /// The store is busy, full or out of reach. Nothing was changed, and the same may succeed later.
    Unavailable(String),
    /// The answer was lost: it may or may not have been done.
    Unknown(String),
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
    pub(crate) fn new(sentence: impl Into<String>) -> CommandError {
        CommandError::Sentence(sentence.into())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            CommandError::Sentence(_) | CommandError::Refused(_) => exit::REFUSED,
            CommandError::Unavailable(_) => exit::UNAVAILABLE,
            CommandError::Unknown(_) => exit::UNKNOWN,
        })
    }

    /// Says it on stderr.
    pub(crate) fn show(&self, format: Format) {
        let mut stderr = Output::stderr();
        match format {
            Format::Json => stderr.line(&self.json().to_string()),
            Format::Text => {
                for refused in self.refused() {
                    for problem in &refused.problems {
                        stderr.line(&problems::show(problem, &refused.text, stderr.look));
                    }
                }
                let word = stderr.look.paint(style::BAD, "error:");
                let lines: Vec<String> = self.sentence().lines().map(crate::view::text::visible).collect();
                stderr.line(&format!("{word} {}", lines.join("\n")));
            }
        }
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            CommandError::Sentence(sentence)
            | CommandError::Unavailable(sentence)
            | CommandError::Unknown(sentence) => sentence.clone(),
            CommandError::Refused(refused) => {
                let files: Vec<&str> = refused.iter().map(|refused| refused.file.as_str()).collect();
                let is = if files.len() == 1 { "is" } else { "are" };
                format!("{} {is} refused: {}", files.join(", "), Counts::of(&self.problems()))
            }
        }
    }

    fn refused(&self) -> &[Refused] {
        match self {
            CommandError::Sentence(_) | CommandError::Unavailable(_) | CommandError::Unknown(_) => &[],
            CommandError::Refused(refused) => refused,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        self.refused().iter().flat_map(|refused| refused.problems.clone()).collect()
    }

    fn json(&self) -> serde_json::Value {
        match self {
            CommandError::Sentence(_) | CommandError::Unavailable(_) | CommandError::Unknown(_) => {
                json!({ "error": self.sentence() })
            }
            CommandError::Refused(_) => json!({ "error": self.sentence(), "problems": self.problems() }),
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> CommandError {
        if error.is_transient() {
            CommandError::Unavailable(error.to_string())
        } else {
            CommandError::new(error.to_string())
        }
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
            ServiceError::Refused(sentence) => CommandError::Sentence(sentence),
            ServiceError::Unavailable(sentence) => CommandError::Unavailable(sentence),
            ServiceError::Stopped => {
                CommandError::Unknown("the engine stopped before it answered".to_owned())
            }
        }
    }
}

/// An error of the operating system, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
