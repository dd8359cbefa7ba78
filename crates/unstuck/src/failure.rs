//! What a command says when it cannot do what it was asked.

use std::io;

use serde_json::json;
use unstuck_flow::Problem;

use crate::Format;
use crate::output::Output;
use crate::problems::{self, Counts};
use crate::style;

/// Why a command could not do what it was asked. It ends with exit code 1.
pub(crate) enum Failure {
    /// In a sentence: what is wrong, where, what to do.
    Sentence(String),
    /// Files are refused.
    Refused(Vec<Refused>),
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
            Failure::Sentence(sentence) => sentence.clone(),
            Failure::Refused(refused) => {
                let files: Vec<&str> = refused.iter().map(|refused| refused.file.as_str()).collect();
                let is = if files.len() == 1 { "is" } else { "are" };
                format!("{} {is} refused: {}", files.join(", "), Counts::of(&self.problems()))
            }
        }
    }

    fn refused(&self) -> &[Refused] {
        match self {
            Failure::Sentence(_) => &[],
            Failure::Refused(refused) => refused,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        self.refused().iter().flat_map(|refused| refused.problems.clone()).collect()
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Failure::Sentence(sentence) => json!({ "error": sentence }),
            Failure::Refused(_) => json!({ "error": self.sentence(), "problems": self.problems() }),
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
