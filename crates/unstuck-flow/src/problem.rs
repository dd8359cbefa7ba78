//! Problems: what is wrong with a file, where, and what to do about it.

use std::fmt;

use serde::Serialize;
use unstuck_core::time::Time;

use crate::tree::{Node, Position};

/// One thing that is wrong, or only suspicious, in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The name of the file, as it was given.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// In characters, counted from 1.
    pub column: u32,
    /// The path of the field, such as `steps.fetch.timeout`; empty where it is the whole document.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Whether the file is refused for it.
    pub severity: Severity,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted, and somebody should look at it.
    Warning,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl Problem {
    /// Says what to do.
    pub(crate) fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }

    /// Says what to do, where that is known.
    pub(crate) fn maybe_hint(&mut self, hint: Option<String>) {
        if hint.is_some() {
            self.hint = hint;
        }
    }
}

/// The problems of one file, as they are found.
pub(crate) struct Problems<'a> {
    file: &'a str,
    /// The text of the file.
    pub(crate) text: &'a str,
    found: Vec<Problem>,
    /// What is suspicious once a time has passed.
    passing: Vec<(Time, Problem)>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Problems<'a> {
        Problems { file, text, found: Vec::new(), passing: Vec::new() }
    }

    /// The name of the file, as it was given.
    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// Adds an error, for which the file is refused.
    pub(crate) fn error(
        &mut self,
        at: Position,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Problem {
        self.add(Severity::Error, at, field.into(), message.into())
    }

    /// Adds an error at a position inside a text, `offset` bytes from its start.
    pub(crate) fn error_inside(
        &mut self,
        node: &Node,
        offset: usize,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Problem {
        self.error(node.place_inside(self.text, offset), field, message)
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        at: Position,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Problem {
        self.add(Severity::Warning, at, field.into(), message.into())
    }

    /// Adds a warning that applies once this time has passed. The loader has no clock, so the caller decides that
    /// later.
    pub(crate) fn once_past(&mut self, time: Time, at: Position, field: &str, message: String, hint: &str) {
        let (file, field) = (self.file.to_owned(), field.to_owned());
        let Position { line, column } = at;
        let (hint, severity) = (Some(hint.to_owned()), Severity::Warning);
        self.passing.push((time, Problem { file, line, column, field, message, hint, severity }));
    }

    /// Takes the warnings that apply once a time has passed.
    pub(crate) fn take_passing(&mut self) -> Vec<(Time, Problem)> {
        std::mem::take(&mut self.passing)
    }

    /// Returns whether the file must be refused.
    pub(crate) fn any_error(&self) -> bool {
        self.found.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Returns all problems in the order of the file, without duplicates.
    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by(|a, b| {
            (a.line, a.column, a.severity, &a.field, &a.message)
                .cmp(&(b.line, b.column, b.severity, &b.field, &b.message))
        });
        self.found.dedup();
        self.found
    }

    fn add(&mut self, severity: Severity, at: Position, field: String, message: String) -> &mut Problem {
        let Position { line, column } = at;
        let file = self.file.to_owned();
        self.found.push(Problem { file, line, column, field, message, hint: None, severity });
        self.found.last_mut().expect("one was just added")
    }
}
