//! Whether the server is alive, whether it makes progress, and what is wrong if it does not.

use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use serde::Serialize;
use unstuck_core::time::Millis;

use crate::answer::Answer;
use crate::app::App;
use crate::call::Call;
use crate::route::Answered;

/// What is due later than this is a sign that nothing moves.
const MOST_LATENESS: Millis = Millis::seconds(10);
/// A commit that takes longer than this is a sign of a bad disk.
const SLOW_COMMIT: Duration = Duration::from_secs(1);
/// With less room than this on its disk, the store is about to stop.
const LEAST_ROOM: u64 = 256 << 20;

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
    status: Status,
    /// In seconds or bytes, where it is a length of time or a size.
    value: Option<f64>,
    limit: Option<f64>,
    /// In a sentence.
    detail: String,
}

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    Ok,
    /// Somebody should look at it, and the server does its work.
    Warning,
    Failing,
}

/// Answers as long as the process can answer.
pub(crate) fn live(_: &Call) -> Answered {
    Answer::view(&HealthView { status: "ok", checks: Vec::new() })
}

/// Answers whether the server makes progress, in its status.
pub(crate) fn ready(call: &Call) -> Answered {
    let checks = run_checks(&call.app);
    let status = summarize(&checks);
    answer(&HealthView { status, checks: Vec::new() })
}

/// The same, with what was looked at.
pub(crate) fn details(call: &Call) -> Answered {
    let checks = run_checks(&call.app);
    let status = summarize(&checks);
    answer(&HealthView { status, checks })
}

fn answer(view: &HealthView) -> Answered {
    let status = if view.status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer::view(view)?.with_status(status))
}

fn summarize(checks: &[Check]) -> &'static str {
    if checks.iter().any(|check| check.status == Status::Failing) { "failing" } else { "ok" }
}

fn run_checks(app: &App) -> Vec<Check> {
    let store = match app.handle.trouble() {
        None => Check::new("store", Status::Ok, "the store takes changes"),
        Some(trouble) => Check::new("store", Status::Failing, trouble.to_string()),
    };
    let stopping = if app.is_stopping() {
        Check::new("serving", Status::Failing, "the server is stopping")
    } else {
        Check::new("serving", Status::Ok, "the server takes requests")
    };
    let last_commit = app.handle.metrics().counts().last_commit;
    let mut checks = vec![stopping, store, check_lateness(app.handle.lateness()), check_commits(last_commit)];
    checks.extend(free_room(&app.settings.store).map(check_room));
    checks.push(check_settings(&app.settings.warnings));
    checks
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
        ..Check::new("lateness", if is_ok { Status::Ok } else { Status::Failing }, detail)
    }
}

/// Looks at how long the last commit took.
fn check_commits(last: Duration) -> Check {
    let (status, detail) = if last <= SLOW_COMMIT {
        (Status::Ok, "commits are fast enough".to_owned())
    } else {
        let took = Millis(u64::try_from(last.as_millis()).unwrap_or(u64::MAX));
        (Status::Warning, format!("the last commit took {took}: the disk is slow or busy"))
    };
    Check {
        value: Some(last.as_secs_f64()),
        limit: Some(SLOW_COMMIT.as_secs_f64()),
        ..Check::new("commits", status, detail)
    }
}

/// Returns the room on the disk of the store, in bytes, where that can be found out.
pub(crate) fn free_room(store: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(store).ok()?;
    about.f_bavail.checked_mul(about.f_frsize)
}

/// Looks at the room on the disk.
#[expect(clippy::cast_precision_loss, reason = "nobody needs the last byte of petabytes")]
fn check_room(free: u64) -> Check {
    let (status, detail) = if free >= LEAST_ROOM {
        (Status::Ok, format!("{} MiB are free on the disk of the store", free >> 20))
    } else {
        (
            Status::Warning,
            format!(
                "only {} MiB are free on the disk of the store; without any, nothing is taken",
                free >> 20
            ),
        )
    };
    Check { value: Some(free as f64), limit: Some(LEAST_ROOM as f64), ..Check::new("disk", status, detail) }
}

/// Tells what is unsafe about how the server is set up.
fn check_settings(warnings: &[String]) -> Check {
    if warnings.is_empty() {
        return Check::new("settings", Status::Ok, "nothing about its settings is unsafe");
    }
    Check::new("settings", Status::Warning, warnings.join("; "))
}

impl Check {
    fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Check {
        Check { name, status, value: None, limit: None, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_long_overdue_is_a_problem() {
        for (late, wanted) in [(0, Status::Ok), (10_000, Status::Ok), (10_001, Status::Failing)] {
            assert_eq!(check_lateness(Millis(late)).status, wanted, "{late}");
        }
    }

    #[test]
    fn slow_commits_full_disks_and_unsafe_settings_are_warnings() {
        for (check, wanted) in [
            (check_commits(Duration::from_secs(1)), Status::Ok),
            (check_commits(Duration::from_millis(1_001)), Status::Warning),
            (check_room(LEAST_ROOM), Status::Ok),
            (check_room(LEAST_ROOM - 1), Status::Warning),
            (check_settings(&[]), Status::Ok),
            (check_settings(&["it is open".to_owned()]), Status::Warning),
        ] {
            assert_eq!(check.status, wanted, "{check:?}");
            assert_eq!(summarize(&[check]), "ok");
        }
        assert_eq!(summarize(&[check_lateness(Millis(20_000)), check_settings(&[])]), "failing");
    }
}
