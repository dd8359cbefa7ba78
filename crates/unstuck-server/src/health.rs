//! Whether the server is alive, whether it makes progress, and what is wrong if it does not.

use axum::http::StatusCode;
use serde::Serialize;
use unstuck_core::time::Millis;

use crate::answer::Answer;
use crate::call::Call;
use crate::route::Answered;

/// What is due later than this is a sign that nothing moves.
const MOST_LATENESS: Millis = Millis::seconds(10);

/// How a server is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthView {
    /// `ok` or `failing`.
    status: &'static str,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: &'static str,
    /// `ok` or `failing`.
    status: &'static str,
    /// In seconds, where it is a length of time.
    value: Option<f64>,
    limit: Option<f64>,
    /// In a sentence.
    detail: String,
}

/// Answers as long as the process can answer.
pub(crate) fn live(_: &Call) -> Answered {
    Answer::view(&HealthView { status: "ok", checks: Vec::new() })
}

/// Answers whether the server makes progress, in its status.
pub(crate) fn ready(call: &Call) -> Answered {
    let checks = run_checks(call);
    let status = summarize(&checks);
    answer(&HealthView { status, checks: Vec::new() })
}

/// The same, with what was looked at.
pub(crate) fn details(call: &Call) -> Answered {
    let checks = run_checks(call);
    let status = summarize(&checks);
    answer(&HealthView { status, checks })
}

fn answer(view: &HealthView) -> Answered {
    let status = if view.status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer::view(view)?.with_status(status))
}

fn summarize(checks: &[Check]) -> &'static str {
    if checks.iter().all(|check| check.status == "ok") { "ok" } else { "failing" }
}

fn run_checks(call: &Call) -> Vec<Check> {
    let app = &call.app;
    let store = match app.handle.trouble() {
        None => Check::new("store", true, "the store takes changes"),
        Some(trouble) => Check::new("store", false, trouble.to_string()),
    };
    let stopping = if app.is_stopping() {
        Check::new("serving", false, "the server is stopping")
    } else {
        Check::new("serving", true, "the server takes requests")
    };
    vec![stopping, store, check_lateness(app.handle.lateness())]
}

/// Looks at how late the engine is for what is due.
#[expect(clippy::cast_precision_loss, reason = "milliseconds are exact for 285,000 years")]
fn check_lateness(late: Millis) -> Check {
    let is_ok = late <= MOST_LATENESS;
    let detail = if is_ok {
        "what is due is done in time".to_owned()
    } else {
        format!("something has been due for {late}: the engine does not keep up, or hangs")
    };
    Check {
        value: Some(late.0 as f64 / 1_000.0),
        limit: Some(MOST_LATENESS.0 as f64 / 1_000.0),
        ..Check::new("lateness", is_ok, detail)
    }
}

impl Check {
    fn new(name: &'static str, is_ok: bool, detail: impl Into<String>) -> Check {
        let status = if is_ok { "ok" } else { "failing" };
        Check { name, status, value: None, limit: None, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_long_overdue_is_a_problem() {
        for (late, is_ok) in [(0, true), (10_000, true), (10_001, false)] {
            assert_eq!(check_lateness(Millis(late)).status == "ok", is_ok, "{late}");
        }
    }
}
