//! Handlers, by subject: each reads its request, asks the service once, and writes its view.

pub(crate) mod bulk;
pub(crate) mod change_run;
pub(crate) mod errors;
pub(crate) mod flows;
pub(crate) mod policies;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod start;

use serde::de::DeserializeOwned;
use unstuck_api::request::{Query, Request};
use unstuck_api::{ProblemPart, ProblemType};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

impl Call {
    /// Answers a query with its view.
    pub(crate) fn query(&self, query: &Query) -> Answered {
        self.query_json(query).map(Answer::json)
    }

    /// Returns the view of a query, as JSON.
    pub(crate) fn query_json(&self, query: &Query) -> Result<String, Problem> {
        self.app.service.run_query(self.app.reader(), query).map_err(Problem::from)
    }

    /// Carries out a request and returns its view, as JSON.
    pub(crate) fn request_json(&self, request: Request) -> Result<String, Problem> {
        self.app.service.handle_request(&self.app.handle, request).map_err(Problem::from)
    }
}

/// Reads a view that the service has written, where an answer is made of several.
fn read_view<T: DeserializeOwned>(json: &str) -> Result<T, Problem> {
    serde_json::from_str(json).map_err(|error| {
        Problem::new(ProblemType::Internal, format!("a view of ours cannot be read: {error}"))
    })
}

/// Converts a problem of a flow or policy file.
fn file_problem(problem: &unstuck_flow::Problem) -> ProblemPart {
    ProblemPart {
        file: None,
        line: Some(problem.line),
        column: Some(problem.column),
        field: problem.field.clone(),
        message: problem.message.clone(),
        hint: problem.hint.clone(),
        severity: match problem.severity {
            unstuck_flow::Severity::Error => "error",
            unstuck_flow::Severity::Warning => "warning",
        }
        .to_owned(),
    }
}
