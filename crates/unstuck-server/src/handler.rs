//! Handlers, by subject: each reads its request, asks the service once, and writes its view.

pub(crate) mod change_run;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod start;

use unstuck_api::request::{Query, Request};

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
