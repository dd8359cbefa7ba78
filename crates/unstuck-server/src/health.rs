//! Whether the server is alive, whether it makes progress, and what is wrong if it does not.

use axum::http::StatusCode;
use serde::Serialize;
use unstuck_core::time::Time;
use unstuck_service::service::now;

use crate::answer::Answer;
use crate::call::Call;
use crate::route::Answered;

/// What is due later than this is a sign that nothing moves.
const MOST_LATENESS_MS: u64 = 10_000;

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
    answer(HealthView { status, checks: Vec::new() })
}

/// The same, with what was looked at.
pub(crate) fn details(call: &Call) -> Answered {
    let checks = run_checks(call);
    let status = summarize(&checks);
    answer(HealthView { status, checks })
}

fn answer(view: HealthView) -> Answered {
    let status = if view.status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer::view(&view)?.with_status(status))
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
    let stopping = match app.is_stopping() {
        false => Check::new("serving", true, "the server takes requests"),
        true => Check::new("serving", false, "the server is stopping"),
    };
    vec![stopping, store, check_lateness(call)]
}

/// Looks at what has been due for longest and has not been done.
fn check_lateness(call: &Call) -> Check {
    let due = match call.app.reader().upcoming(1) {
        Ok(due) => due.first().map(|(due, _)| *due),
        Err(error) => return Check::new("lateness", false, format!("the timers cannot be read: {error}")),
    };
    build_lateness(due, now())
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds are exact for 285,000 years")]
fn build_lateness(due: Option<Time>, now: Time) -> Check {
    let late_ms = due.map_or(0, |due| now.since(due).0);
    let is_ok = late_ms <= MOST_LATENESS_MS;
    let detail = match is_ok {
        true => "what is due is done in time".to_owned(),
        false => format!(
            "something has been due for {}: the engine does not keep up, or has stopped",
            unstuck_core::time::Millis(late_ms)
        ),
    };
    Check {
        value: Some(late_ms as f64 / 1_000.0),
        limit: Some(MOST_LATENESS_MS as f64 / 1_000.0),
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
        for (due, is_ok) in [(None, true), (Some(100_000), true), (Some(90_000), true), (Some(89_999), false)]
        {
            let check = build_lateness(due.map(Time), Time(100_000));
            assert_eq!(check.status == "ok", is_ok, "{due:?}");
        }
    }
}
