//! Tokens of the API: made, listed, revoked and given another secret.

use axum::http::{StatusCode, header};
use unstuck_api::http::{RotateBody, TokenBody};
use unstuck_api::request::{NewTokenRequest, Query, Request, TokenOperation, TokenRequest};
use unstuck_core::duration::parse_duration;

use crate::call::Call;
use crate::problem::Problem;
use crate::route::Answered;

/// How long an old secret is still good, where nobody says otherwise.
const OVERLAP: &str = "24h";

pub(crate) fn list(call: &Call) -> Answered {
    call.query(&Query::Tokens { all: call.parameters.flag("all").unwrap_or(false) })
}

pub(crate) fn create(call: &Call) -> Answered {
    let body: TokenBody = call.json()?;
    let expires_in_ms =
        body.expires_in.as_deref().map(|text| read_duration("expiresIn", text)).transpose()?;
    let new = NewTokenRequest {
        name: body.name,
        role: body.role,
        actions: body.actions,
        flows: body.flows,
        origin: body.origin,
        payloads: body.payloads,
        expires_in_ms,
    };
    let answer = change(call, TokenOperation::Create(new), body.reason)?;
    Ok(answer.with_status(StatusCode::CREATED))
}

pub(crate) fn revoke(call: &Call) -> Answered {
    let (token, reason) = (call.part("token").to_owned(), call.parameters.owned("reason"));
    change(call, TokenOperation::Revoke { token }, reason)
}

pub(crate) fn rotate(call: &Call) -> Answered {
    let body: RotateBody = call.json()?;
    let overlap_ms = read_duration("overlap", body.overlap.as_deref().unwrap_or(OVERLAP))?;
    change(call, TokenOperation::Rotate { token: call.part("token").to_owned(), overlap_ms }, body.reason)
}

fn read_duration(field: &str, text: &str) -> Result<u64, Problem> {
    parse_duration(text).map(|span| span.0).map_err(|why| Problem::bad_field(field, why))
}

/// Changes tokens. Nobody between us and the caller may keep the answer: it may have a secret.
fn change(call: &Call, what: TokenOperation, reason: Option<String>) -> Answered {
    let answer = call.change_once(&Request::Tokens(TokenRequest { by: call.by(), reason, what }))?;
    Ok(answer.with_header(header::CACHE_CONTROL, axum::http::HeaderValue::from_static("no-store")))
}
