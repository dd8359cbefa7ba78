//! What a command says when it cannot do what it was asked.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use unstuck_engine::request::EngineError;
use unstuck_flow::Problem;
use unstuck_store::contract::StoreError;

use crate::desk::Unanswered;

use crate::output::Output;
use crate::problems::{self, Counts};
use crate::{Format, exit, style};

/// Why a command could not do what it was asked.
pub(crate) enum Failure {
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

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Failure {
        Failure::Sentence(sentence.into())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Sentence(_) | Failure::Refused(_) => exit::REFUSED,
            Failure::Unavailable(_) => exit::UNAVAILABLE,
            Failure::Unknown(_) => exit::UNKNOWN,
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
                let lines: Vec<String> = self.sentence().lines().map(crate::text::visible).collect();
                stderr.line(&format!("{word} {}", lines.join("\n")));
            }
        }
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            Failure::Sentence(sentence) | Failure::Unavailable(sentence) | Failure::Unknown(sentence) => {
                sentence.clone()
            }
            Failure::Refused(refused) => {
                let files: Vec<&str> = refused.iter().map(|refused| refused.file.as_str()).collect();
                let is = if files.len() == 1 { "is" } else { "are" };
                format!("{} {is} refused: {}", files.join(", "), Counts::of(&self.problems()))
            }
        }
    }

    fn refused(&self) -> &[Refused] {
        match self {
            Failure::Sentence(_) | Failure::Unavailable(_) | Failure::Unknown(_) => &[],
            Failure::Refused(refused) => refused,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        self.refused().iter().flat_map(|refused| refused.problems.clone()).collect()
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Failure::Sentence(_) | Failure::Unavailable(_) | Failure::Unknown(_) => {
                json!({ "error": self.sentence() })
            }
            Failure::Refused(_) => json!({ "error": self.sentence(), "problems": self.problems() }),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        if error.may_pass() {
            Failure::Unavailable(error.to_string())
        } else {
            Failure::new(error.to_string())
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Unanswered::from(error).into()
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Failure {
        match unanswered {
            Unanswered::Refused(sentence) => Failure::Sentence(sentence),
            Unanswered::Unavailable(sentence) => Failure::Unavailable(sentence),
            Unanswered::Stopped => Failure::Unknown("the engine stopped before it answered".to_owned()),
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
