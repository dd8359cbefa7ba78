//! Handlers, by subject: each reads its request, asks the service once, and writes its view.

pub(crate) mod audit;
pub(crate) mod bulk;
pub(crate) mod change_run;
pub(crate) mod errors;
pub(crate) mod flows;
pub(crate) mod policies;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod server;
pub(crate) mod start;
pub(crate) mod store;
pub(crate) mod tokens;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;
use unstuck_api::ProblemType;
use unstuck_api::request::{Query, Request};

use crate::answer::{Answer, Content};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

/// Says that a change was carried out before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

impl Call {
    /// Answers a query with its view.
    pub(crate) fn query(&self, query: &Query) -> Answered {
        self.query_json(query).map(Answer::json)
    }

    /// Returns the view of a query, as JSON.
    pub(crate) fn query_json(&self, query: &Query) -> Result<String, Problem> {
        self.service()?.answer_query(self.app.reader(), query).map_err(Problem::from)
    }

    /// Carries out a change once, and answers with its view. A repeat under the same key that overtakes its original waits for it.
    pub(crate) fn change_once(&self, request: &Request) -> Answered {
        self.change_because(request, None)
    }

    /// The same, with why: for the audit, where the change itself has no place for it.
    pub(crate) fn change_because(&self, request: &Request, reason: Option<String>) -> Answered {
        let (app, context) = (&self.app, self.context(reason)?);
        let original = match &context.idempotency {
            None => None,
            Some(key) => Some(app.in_flight.enter_blocking(&key.scope, &key.key).ok_or_else(|| {
                Problem::new(
                    ProblemType::Overloaded,
                    "too many repeats are waiting; repeat the request in a moment",
                )
            })?),
        };
        let handled = self.service()?.handle_request_as(&app.handle, request, &context)?;
        drop(original);
        let answer = Answer::json(handled.json);
        Ok(if handled.is_replayed {
            answer.with_header(REPLAYED, HeaderValue::from_static("true"))
        } else {
            answer
        })
    }
}

impl Call {
    /// Answers with what is named by this tag, unless the caller has it already.
    pub(crate) fn answer_if_changed(&self, etag: &str, build: impl FnOnce() -> Answered) -> Answered {
        let known = self.header(&header::IF_NONE_MATCH)?;
        let answer = if known.is_some_and(|known| etag_matches(known, etag)) {
            Answer::new(StatusCode::NOT_MODIFIED, Content::Nothing)
        } else {
            build()?
        };
        Ok(answer.with_text_header(header::ETAG, etag))
    }
}

/// Returns whether a list of tags has this one, or is `*`.
fn etag_matches(known: &str, etag: &str) -> bool {
    known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == etag)
}

/// Reads a view that the service has written, where an answer is made of several.
fn read_view<T: DeserializeOwned>(json: &str) -> Result<T, Problem> {
    serde_json::from_str(json).map_err(|error| {
        Problem::new(ProblemType::Internal, format!("a view of ours cannot be read: {error}"))
    })
}
