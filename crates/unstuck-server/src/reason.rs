//! Whether a change by a person says why, where the configuration asks for that (`audit.requireReason`).

use std::sync::OnceLock;

use serde_json::{Map, Value};
use unstuck_api::{ProblemType, documents};
use unstuck_core::api_token::Role;

use crate::parameter::Parameters;
use crate::problem::Problem;
use crate::route::Route;

/// Refuses a change that could say why and does not. What programs do, such as starting runs, needs no reason.
pub(crate) fn check(route: &Route, parameters: &Parameters, body: &[u8]) -> Result<(), Problem> {
    let is_by_people = !route.verb.is_read() && !route.access.allows(Role::Client);
    let in_query = route.parameters.iter().any(|parameter| parameter.name == "reason");
    if !is_by_people || !(in_query || body_has_reason(route)) {
        return Ok(());
    }
    let in_body = || {
        let body: Option<Value> = serde_json::from_slice(body).ok();
        body.as_ref().and_then(|body| body["reason"].as_str()).is_some_and(is_reason)
    };
    if parameters.text("reason").is_some_and(is_reason) || in_body() {
        return Ok(());
    }
    Err(Problem::new(
        ProblemType::Invalid,
        "this server requires a reason for changes (audit.requireReason); give one as `reason`, with a command as --reason TEXT",
    ))
}

fn is_reason(text: &str) -> bool {
    !text.trim().is_empty()
}

/// Returns whether the body of a route has a field for the reason.
fn body_has_reason(route: &Route) -> bool {
    static SCHEMAS: OnceLock<Map<String, Value>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(documents::components);
    let schema = route.takes.and_then(|name| schemas.get(name));
    schema.is_some_and(|schema| schema["properties"].get("reason").is_some())
}
