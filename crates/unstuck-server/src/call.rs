//! One request as its handler sees it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, header};
use unstuck_api::ProblemType;

use crate::access::Caller;
use crate::app::App;
use crate::parameter::Parameters;
use crate::problem::Problem;

/// Events from there on miss nothing that a read does not show yet.
pub(crate) const EVENTS_HEADER: HeaderName = HeaderName::from_static("unstuck-events");

/// A request that is known to be allowed, with its parameters read and its body arrived.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) parameters: Parameters,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// Returns a part of the path by the name that its route gives it.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Returns whom a change is recorded under.
    pub(crate) fn by(&self) -> String {
        self.caller.name.to_string()
    }

    /// Returns how many things of a list are wanted.
    pub(crate) fn limit(&self, default: usize) -> usize {
        self.parameters
            .number("limit")
            .map_or(default, |limit| usize::try_from(limit).unwrap_or(default).max(1))
    }

    /// Returns whether the caller would rather have an answer of this type than JSON.
    pub(crate) fn accepts(&self, kind: &str) -> bool {
        let accepted = self.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        accepted.is_some_and(|accepted| {
            accepted.split(',').any(|part| part.split(';').next().is_some_and(|part| part.trim() == kind))
        })
    }

    /// Returns the text of a header; one that is no text is refused.
    pub(crate) fn header(&self, name: &HeaderName) -> Result<Option<&str>, Problem> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        value.to_str().map(Some).map_err(|_| {
            Problem::new(
                ProblemType::BadRequest,
                format!("the header `{name}` has characters that are not allowed"),
            )
        })
    }
}
