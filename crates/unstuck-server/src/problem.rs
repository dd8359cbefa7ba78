//! Refusals as answers: problem documents with their status, and when to try again.

use std::hash::{BuildHasher, Hasher, RandomState};

use axum::http::{HeaderValue, StatusCode, header};
use unstuck_api::{ProblemDocument, ProblemType};
use unstuck_service::ServiceError;
use unstuck_store::contract::StoreError;

use crate::answer::{Answer, Content};

/// After so many milliseconds, and up to as many more, whoever was turned away may try again.
const RETRY_AFTER_MS: u64 = 1_000;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(Box<ProblemDocument>);

impl Problem {
    /// Makes a problem of this type, in a sentence.
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Problem {
        Problem::from(ProblemDocument::new(kind, detail))
    }

    /// Makes a problem of one parameter or field, in a sentence.
    pub(crate) fn bad_field(field: &str, message: impl Into<String>) -> Problem {
        let message = message.into();
        let mut problem = ProblemDocument::new(ProblemType::BadRequest, format!("`{field}`: {message}"));
        problem.about.problems.push(unstuck_api::ProblemPart {
            file: None,
            line: None,
            column: None,
            field: field.to_owned(),
            message,
            hint: None,
            severity: "error".to_owned(),
            place: None,
        });
        Problem::from(problem)
    }

    /// Returns the document as it is sent in an answer to this request.
    pub(crate) fn into_document(mut self, request: Option<&str>) -> ProblemDocument {
        self.0.about.request_id = request.map(str::to_owned);
        *self.0
    }

    /// Returns the answer to this request.
    pub(crate) fn into_answer(self, request: &str) -> Answer {
        let document = self.into_document(Some(request));
        let status = StatusCode::from_u16(document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = serde_json::to_string(&document).unwrap_or_default();
        let mut answer = Answer::new(status, Content::Problem(json));
        if let Some(ms) = document.about.retry_after_ms {
            answer = answer.with_header(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        if status == StatusCode::UNAUTHORIZED {
            answer = answer.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Ok(allowed) = HeaderValue::from_str(&document.about.allowed.join(", "))
            && status == StatusCode::METHOD_NOT_ALLOWED
        {
            answer = answer.with_header(header::ALLOW, allowed);
        }
        answer
    }
}

/// Adds up to as much again, so that those who were turned away together do not come back together.
pub(crate) fn with_jitter(millis: u64) -> u64 {
    let chance = RandomState::new().build_hasher().finish();
    millis + chance % millis.max(1)
}

impl From<ProblemDocument> for Problem {
    /// Whoever may succeed later is told when.
    fn from(mut document: ProblemDocument) -> Problem {
        if matches!(document.status, 429 | 503) {
            document.about.retry_after_ms.get_or_insert_with(|| with_jitter(RETRY_AFTER_MS));
        }
        Problem(Box::new(document))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        Problem::from(ServiceError::from(error))
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        match error {
            ServiceError::Refused(problem) | ServiceError::Unavailable(problem) => Problem::from(*problem),
            ServiceError::Stopped => {
                Problem::new(ProblemType::Stopping, "the server is stopping; repeat the request in a moment")
            }
        }
    }
}
